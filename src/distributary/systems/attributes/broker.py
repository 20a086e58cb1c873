"""`AttributeBroker`: attribute subscriptions on a ring (004), filed by the values that they ask for.

A subscription is at the node of its client, its home. Its parts are stored in the lists of the values that
they ask for, at the nodes that own the keys of these values; an event is looked up at the keys of its own
values, and the homes that the lists name decide.

Rules:

- Exact whenever no fault is active: every event reaches every home that wants it, and homes deliver nothing
  else. A part may be filed too widely, never too narrowly.
- With a courier, loss, repetition and reordering of messages change nothing but costs.
- With `refresh`, homes file everything again every so many seconds, rendezvous nodes drop what is not filed
  again, and nodes compare their placements: some periods after the last fault everything is in place again.
- Without courier, copies and refresh, and on a stable ring, the messages are those of the paper.

With r values in a range and N nodes, on average: `ScatteredPlacement` stores with r/2 log2 N messages,
`OrderedPlacement` with 1/2 log2 N + r, `ArcPlacement` with 1/2 log2 N + the arcs touched, r at most; an event
takes 1/2 log2 N for each of its attributes, less when they go together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from distributary.errors import DistributaryError, FilterError
from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription, SubscriptionKey, bare_topic
from distributary.overlay.node import Address
from distributary.overlay.periodic import set_periodic_alarm, staggered
from distributary.overlay.ring.placement import FIRST, ArcPlacement, PlacementFactory
from distributary.overlay.ring.ring import Ring
from distributary.systems.attributes.filing import MOST_KEYS, FiledEntry, Filing
from distributary.systems.attributes.identifier import Identifier, IdentifierLayout
from distributary.systems.attributes.matching import CountingMatcher, EventMatcher, Matching, NarrowestMatcher
from distributary.systems.attributes.messages import EntryName, EventOffer
from distributary.systems.attributes.parts import SubscriptionPart, parts_of
from distributary.systems.attributes.placements import Placements
from distributary.systems.attributes.rendezvous import PATIENCE, EntryLists
from distributary.systems.attributes.schema import EVERYTHING, TOPIC, AttributeSchema, CellRange, ValueSet
from distributary.systems.publishing import require_readable
from distributary.systems.ring_broker import RendezvousBroker

OPEN_TEXT_SHARE = 0.001
"""The estimated share of events with a given value of a text attribute whose values are not listed."""


class AttributeBroker(RendezvousBroker):
    """A node of the attribute system.

    `placement` makes the first placement of each attribute: `ScatteredPlacement`, `OrderedPlacement` or
    `ArcPlacement.evenly`, of which only the last can be rebalanced. `match` is how events find subscriptions.

    >>> from distributary.overlay.ring.circle import Circle
    >>> from distributary.overlay.node import Node
    >>> digit = {"type": "integer", "minimum": 0, "maximum": 9}
    >>> schema = AttributeSchema.from_record({"attributes": {"a": digit}})
    >>> broker = AttributeBroker(Ring(Node(3), Circle(8)), schema)
    >>> broker.node.call(lambda: broker.subscribe(Subscription("s1", "ann", where="a > 3")), now=0)
    []
    >>> [given] = broker.node.call(lambda: broker.publish(Event("e1", attributes={"a": 4})), now=0)
    >>> given.item.event.id, given.item.subscriber, given.item.subscriptions
    ('e1', 'ann', ('s1',))
    """

    notice = EventOffer

    def __init__(
        self,
        ring: Ring,
        schema: AttributeSchema,
        *,
        placement: PlacementFactory = ArcPlacement.evenly,
        match: Matching | str = Matching.NARROWEST,
        rebalance: float | None = None,
        overlap: float = 20.0,
        window: float = 5.0,
        outstanding: int = 1_000_000,
        **options: Any,
    ) -> None:
        super().__init__(ring, **options)
        self.schema = schema
        self.match = Matching(match)
        self.layout = IdentifierLayout(ring.circle, outstanding, len(schema.names))
        self.filing = Filing(ring, together=self.courier is not None)
        self.rendezvous = EntryLists(ring, self.replication, self._on_store)
        self.placements = Placements(
            ring,
            schema,
            placement,
            send=self.tell,
            entries=self._filed_ranges,
            changed=self._file_again,
            overlap=overlap,
            window=window,
        )
        self._parts: dict[SubscriptionKey, list[tuple[int, SubscriptionPart, tuple[str, ...]]]] = {}
        """For each subscription: the number, the part, and the attributes it is filed under."""
        self._numbers: set[int] = set()
        self._next_number = 0
        shared = (ring, self.rendezvous, self.placements, self.layout, self.home)
        retry = 4 * self.courier.timeout if self.courier else None
        matcher = NarrowestMatcher if self.match is Matching.NARROWEST else CountingMatcher
        self._matcher: EventMatcher = matcher(*shared, self.tell, retry)
        self.node.at_start(self._begin)
        delay, own = 0.5 + staggered(self.node.address) / 2, self.placements.rebalance_own
        set_periodic_alarm(self.node, "attributes refresh", self.refresh, self._refresh, delay=delay)
        set_periodic_alarm(self.node, "attributes rebalance", rebalance, own, delay=delay)

    # For clients.

    def subscribe(self, subscription: Subscription) -> None:
        """Add a subscription, or replace the one with its key, sending only the difference.

        FilterError when it has no condition on an attribute of a schema without `everything`, or asks for far
        too many values.
        """
        parts = parts_of(parse_filters(subscription), self.schema)
        known = self._parts.get(subscription.key, [])
        numbers = [number for number, _, _ in known][: len(parts)]
        numbers += self._take_numbers(len(parts) - len(numbers))
        planned = [
            (number, part, self._attributes_for(part)) for number, part in zip(numbers, parts, strict=True)
        ]
        try:
            self.filing.file(subscription.key, self._entries_of(planned))
        except FilterError:
            self._numbers -= set(numbers) - {number for number, _, _ in known}
            raise
        self.home.add(subscription)
        self._numbers -= {number for number, _, _ in known} - set(numbers)
        self._parts[subscription.key] = planned

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Remove a subscription; UnknownSubscriptionError when it is not at this node."""
        self.home.remove(key)
        self.filing.forget(key)
        self._numbers -= {number for number, _, _ in self._parts.pop(key)}

    def publish(self, event: Event) -> None:
        """Look the event up at its values, and have it delivered to every matching subscription."""
        require_readable(event)
        lookups = []
        for name in self.schema.names:
            value = event.attributes.get(name)
            if name in self.schema.filed_apart:
                topic = None if event.topic is None else bare_topic(event.topic)
                value = topic if name == TOPIC else EVERYTHING
            for spot in self.schema[name].spots(value):
                lookups.append(self._matcher.lookup(name, spot, event.key))
                if isinstance(spot, int):
                    self.placements.note_lookup(name, spot)
        self._matcher.publish(event, lookups)

    def rebalance(self, attribute: str) -> None:
        """Start a new placement of an attribute's values, balanced by how often they are asked for.

        DistributaryError when the attribute has no values that are placed in arcs.
        """
        if attribute not in self.schema:
            raise DistributaryError(
                f"the schema has no attribute {attribute!r}; it has {', '.join(self.schema.names)}"
            )
        if not self.placements.has(attribute):
            raise DistributaryError(
                f"the schema does not list the values of {attribute!r}, so they have no order on the ring"
            )
        if not isinstance(self.placements.newest(attribute), ArcPlacement):
            raise DistributaryError("only values that are placed in arcs can be balanced")
        self.placements.rebalance(attribute)

    # Load.

    @property
    def entries(self) -> int:
        """How many entries are in this node's lists."""
        return self.rendezvous.entries

    @property
    def served(self) -> int:
        """How many lookups this node has answered."""
        return self._matcher.served

    # Filing.

    def _attributes_for(self, part: SubscriptionPart) -> tuple[str, ...]:
        """The attributes in whose lists a part is stored."""
        if self.match is Matching.COUNTING:
            return tuple(name for name, _ in part.reaches)
        return (min(part.reaches, key=lambda reach: self._breadth(*reach))[0],)

    def _breadth(self, name: str, reach: ValueSet) -> tuple[int, float]:
        """How widely a part is stored under an attribute: the number of keys, then the share of values."""
        keys = len(reach.points)
        if reach.runs:
            placement = self.placements.newest(name)
            for first, last in reach.runs:
                keys += sum(1 for _ in islice(placement.stored(first, last), MOST_KEYS))
        cells = self.schema[name].cells
        share = len(reach.points) * OPEN_TEXT_SHARE + (reach.cells / cells if cells else 0.0)
        return keys, share

    def _entries_of(
        self, planned: Iterable[tuple[int, SubscriptionPart, tuple[str, ...]]]
    ) -> Iterator[FiledEntry]:
        for number, part, attributes in planned:
            packed = self.layout.pack(Identifier(self.node.address, number, len(attributes)))
            for name, reach in part.reaches:
                if name not in attributes:
                    continue
                wanted = part.wanted.besides(name) if self.match is Matching.NARROWEST else None
                if not self.placements.has(name):
                    yield FiledEntry(EntryName(name, FIRST, packed), reach, wanted, None)
                    continue
                for placement in self.placements.kept(name):
                    entry = EntryName(name, placement.version, packed)
                    yield FiledEntry(entry, reach, wanted, placement)

    def _file_again(self, attribute: str) -> None:
        """File the subscriptions by the placements of an attribute, which have changed."""
        for key, planned in self._parts.items():
            if any(attribute in attributes for _, _, attributes in planned):
                self.filing.file(key, self._entries_of(planned))

    def _on_store(self, name: EntryName, home: Address) -> None:
        """Tell a home that stored an entry by a retired placement the newest one."""
        if self.placements.is_retired(name.attribute, name.version):
            self.placements.tell(home, name.attribute)

    def _filed_ranges(self, attribute: str) -> Iterator[CellRange]:
        for planned in self._parts.values():
            for _, part, attributes in planned:
                if attribute in attributes:
                    yield from dict(part.reaches)[attribute].runs

    def _take_numbers(self, count: int) -> list[int]:
        """Unused numbers for parts, the least recently used first; DistributaryError when all are taken."""
        limit = self.layout.outstanding
        if len(self._numbers) + count > limit:
            raise DistributaryError(
                f"this node has {limit:,} subscriptions outstanding, and can have no more"
            )
        taken: list[int] = []
        while len(taken) < count:
            if self._next_number not in self._numbers:
                self._numbers.add(self._next_number)
                taken.append(self._next_number)
            self._next_number = (self._next_number + 1) % limit
        return taken

    # Upkeep.

    def _begin(self) -> None:
        # A node that restarts without state must not reuse its earlier numbers at once.
        if not self._parts:
            self._next_number = int(self.node.now * 1000) % self.layout.outstanding
        if self.refresh is not None:
            self.filing.refresh()

    def _refresh(self) -> None:
        assert self.refresh is not None
        self.replication.drop_unrenewed(PATIENCE * self.refresh)
        self.filing.refresh()
        self.placements.gossip()

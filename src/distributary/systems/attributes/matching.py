"""How an event finds its subscriptions in the lists of the ring: two ways.

`COUNTING` (004 section 3.2, Figure 5): a part is in the list of every attribute that it constrains. The
publisher's node collects the list of each of the event's values, counts in how many every part appears, and
tells the homes of those that appear in as many as they constrain. A part that appears more often than that
has left entries behind, and its home decides. What a lost list would have said is not known: whoever may
want the event is told.

`NARROWEST`: a part is in one list only, that of the attribute on which it asks for least, with all of its
sets. The event goes to its values' lists by one message that divides on its way, and whoever keeps a list
checks the event there and tells the homes. Fewer messages for storing and for publishing: nothing is sent
back, and a part is stored once.

Either way `Home` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from distributary.model import Event
from distributary.overlay.node import Address, Message, Node
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.attributes.identifier import IdentifierLayout
from distributary.systems.attributes.messages import EventLookup, ListReply, ListRequest, ValueLookup
from distributary.systems.attributes.placements import Placements
from distributary.systems.attributes.rendezvous import EntryLists
from distributary.systems.attributes.schema import Spot


class Matching(StrEnum):
    """How events are matched."""

    COUNTING = "counting"
    NARROWEST = "narrowest"


Relook = Callable[[ValueLookup, str], ValueLookup]
"""The same lookup of an event, given by its id, by the placement that counts now."""


class ListServer:
    """Answers lookups from the lists of this node, and leads on those that go by a placement that is over."""

    def __init__(self, rendezvous: EntryLists, placements: Placements) -> None:
        self.rendezvous = rendezvous
        self.placements = placements
        self.served = 0
        """How many lookups this node has answered."""

    def is_over(self, lookup: ValueLookup, origin: Address) -> bool:
        """Whether a lookup goes by a placement that is over; its publisher is told then."""
        if isinstance(lookup.spot, str) or not self.placements.is_over(lookup.attribute, lookup.version):
            self.served += 1
            return False
        self.placements.tell(origin, lookup.attribute)
        return True


@dataclass
class _Tally:
    """An event whose lists are being collected."""

    event: Event
    missing: dict[tuple[str, Spot], ValueLookup]
    lists: dict[int, set[str]] = field(default_factory=dict)
    """For each part that appeared, in the lists of which attributes."""
    asked: int = 1


class CountingMatcher:
    """Matching by counting in how many lists a part appears."""

    MOST_QUESTIONS = 8

    def __init__(
        self,
        ring: Ring,
        lists: ListServer,
        layout: IdentifierLayout,
        *,
        relook: Relook,
        send: Callable[[Address, Message], None],
        tell: Callable[[Address, Event], None],
        again: float | None,
    ) -> None:
        self.ring = ring
        self.lists = lists
        self.layout = layout
        self.again = again
        """Seconds after which lists that have not come are asked for again."""
        self._relook = relook
        self._send = send
        self._tell = tell
        self._tallies: dict[str, _Tally] = {}
        ring.listen(ListRequest, self._collect)
        ring.node.handle(ListReply, self._found)
        ring.node.at_alarm("attributes lists", self._ask_again)
        ring.node.at_start(self._begin)

    def publish(self, event: Event, lookups: Iterable[ValueLookup]) -> None:
        """Collect the lists of an event's values, and tell the homes of parts that are in all of theirs."""
        missing = {(lookup.attribute, lookup.spot): lookup for lookup in lookups}
        if missing:
            self._tallies[event.id] = _Tally(event, dict(missing))
            self._ask(event.id, missing.values())

    def _ask(self, event_id: str, lookups: Iterable[ValueLookup]) -> None:
        if self.again is not None:
            self.ring.node.wake_after(self.again, "attributes lists", event_id)
        for lookup in lookups:
            self.ring.route(lookup.key, ListRequest(event_id, lookup, self.ring.identifier))

    def _collect(self, message: ListRequest, arrival: Arrival) -> None:
        event_id, lookup, publisher = message
        if self.lists.is_over(lookup, publisher):
            newer = self._relook(lookup, event_id)
            self.ring.route(newer.key, message._replace(lookup=newer))
            return
        parts = tuple(sorted({name.part for name, _ in self.lists.rendezvous.find(lookup)}))
        found = ListReply(event_id, lookup.attribute, lookup.spot, parts)
        if publisher == self.ring.identifier:
            self._found(found, publisher)
        else:
            self._send(publisher, found)

    def _found(self, message: ListReply, sender: Address) -> None:
        tally = self._tallies.get(message.event_id)
        if tally is None or tally.missing.pop((message.attribute, message.spot), None) is None:
            return
        for part in message.parts:
            tally.lists.setdefault(part, set()).add(message.attribute)
        if not tally.missing:
            self._decide(tally)

    def _decide(self, tally: _Tally) -> None:
        del self._tallies[tally.event.id]
        unknown = {attribute for attribute, _ in tally.missing}
        homes = set()
        for part, attributes in tally.lists.items():
            identifier = self.layout.unpack(part)
            if len(attributes | unknown) >= identifier.attributes:
                homes.add(identifier.node)
        for home in sorted(homes):
            self._tell(home, tally.event)

    def _ask_again(self, event_id: str) -> None:
        tally = self._tallies.get(event_id)
        if tally is None:
            return
        if tally.asked == self.MOST_QUESTIONS:
            self._decide(tally)
            return
        tally.asked += 1
        self._ask(event_id, [self._relook(lookup, event_id) for lookup in tally.missing.values()])

    def _begin(self) -> None:
        """After a crash that left the state the alarms are gone."""
        if self.again is not None:
            for event_id in self._tallies:
                self.ring.node.wake_after(self.again, "attributes lists", event_id)


class NarrowestMatcher:
    """Matching where the narrowest set of a part is kept."""

    def __init__(
        self,
        ring: Ring,
        lists: ListServer,
        layout: IdentifierLayout,
        *,
        relook: Relook,
        tell: Callable[[Address, Event], None],
    ) -> None:
        self.ring = ring
        self.lists = lists
        self.layout = layout
        self._relook = relook
        self._tell = tell
        ring.listen(EventLookup, self._asked)

    @property
    def node(self) -> Node:
        """The node that this is part of."""
        return self.ring.node

    def publish(self, event: Event, lookups: Iterable[ValueLookup]) -> None:
        """Send the event to the lists of its values, which tell homes."""
        lookups = tuple(lookups)
        if lookups:
            self.ring.multicast((lookup.key for lookup in lookups), EventLookup(event, lookups))

    def _asked(self, message: EventLookup, arrival: Arrival) -> None:
        event = message.event
        homes, over = set(), []
        for lookup in message.lookups:
            if lookup.key not in arrival.keys:
                continue
            if self.lists.is_over(lookup, arrival.origin):
                over.append(self._relook(lookup, event.id))
                continue
            for name, entry in self.lists.rendezvous.find(lookup):
                if entry.wanted is None or entry.wanted.admits(event):
                    homes.add(self.layout.unpack(name.part).node)
        for home in sorted(homes):
            self._tell(home, event)
        self.publish(event, over)

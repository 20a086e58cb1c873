"""Which placements of the attributes' values a node knows, and how all nodes change to a new one together.

Rules:

- The owner of the hash of an attribute's name is its *keeper*. Asked to rebalance, it collects from all nodes
  how often the values were asked for, divides them into arcs of equal weight over the nodes that answered,
  and announces the new placement to all. Placements have versions; the greatest one wins.
- No node waits for another. A node that learns of a placement files its subscriptions under it at once, and
  also keeps them under the previous one for `overlap` seconds; after half of that it looks its events up by
  the new one. So no match is lost as long as all nodes learn of it, and have filed, within half of `overlap`.
- A lookup by a retired placement is forwarded by the node that notices, and its publisher is told the newer
  one. With `gossip`, nodes compare their versions with a random other node.

Rebalancing costs three messages a node, of which the announcement, with a few bytes for each arc, is the
largest, and storing every subscription once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

from distributary.overlay.node import Address, SendMessage
from distributary.overlay.ring.placement import (
    ArcPlacement,
    AttributeAxis,
    AttributePlacement,
    CellWeight,
    PlacementFactory,
    Version,
)
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.attributes.messages import (
    LoadReply,
    LoadRequest,
    PlacementAnnouncement,
    PlacementVersions,
    RebalanceRequest,
)
from distributary.systems.attributes.schema import AttributeSchema, CellRange

NEVER = float("-inf")


class _PlacementUse(NamedTuple):
    """A placement, when it was learned, and from when on lookups use it."""

    placement: AttributePlacement
    learned: float
    usable: float


class Placements:
    """The placements that one node knows.

    `entries(attribute)` gives the ranges of cells that this node's subscriptions have filed there, and
    `changed(attribute)` is called whenever they must be filed again.
    """

    def __init__(
        self,
        ring: Ring,
        schema: AttributeSchema,
        make: PlacementFactory,
        *,
        send: SendMessage,
        entries: Callable[[str], Iterable[CellRange]],
        changed: Callable[[str], None],
        overlap: float,
        window: float,
    ) -> None:
        self.ring = ring
        self.overlap = overlap
        self.window = window
        self._send = send
        self._entries = entries
        self._changed = changed
        cells = {name: schema[name].cells for name in schema.names}
        self._axes = {name: AttributeAxis(name, count) for name, count in cells.items() if count}
        self._known = {
            name: [_PlacementUse(make(ring.circle, axis), NEVER, NEVER)] for name, axis in self._axes.items()
        }
        self._lookups: dict[str, Counter[int]] = {name: Counter() for name in self._axes}
        self._censuses: dict[str, tuple[int, dict[Address, LoadReply]]] = {}
        self._random = Random(f"gossip of {ring.identifier}")
        node = ring.node
        ring.listen(RebalanceRequest, self._rebalance)
        ring.listen(LoadRequest, self._report_load)
        ring.listen(PlacementAnnouncement, self._learn_announced)
        node.handle(PlacementAnnouncement, self._learn_announced)
        node.handle(LoadReply, self._collect_load)
        node.handle(PlacementVersions, self._compare)
        node.at_alarm("attributes census", self._end_census)
        node.at_alarm("attributes overlap", self._retire)
        node.at_start(self._begin)

    # What is known.

    def has(self, attribute: str) -> bool:
        """Whether the attribute has cells to be placed."""
        return attribute in self._axes

    def current(self, attribute: str) -> AttributePlacement:
        """The placement by which events are looked up now."""
        known, now = self._known[attribute], self.ring.node.now
        return next((each.placement for each in reversed(known) if each.usable <= now), known[0].placement)

    def kept(self, attribute: str) -> tuple[AttributePlacement, ...]:
        """The placements under which subscriptions are filed now, the oldest first."""
        return tuple(each.placement for each in self._known[attribute])

    def newest(self, attribute: str) -> AttributePlacement:
        """The latest placement of an attribute that this node knows."""
        return self._known[attribute][-1].placement

    def is_retired(self, attribute: str, version: Version) -> bool:
        """Whether subscriptions are no longer filed under this version."""
        return attribute in self._known and version < self._known[attribute][0].placement.version

    def learn(self, arcs: ArcPlacement, *, settled: bool) -> None:
        """Add a placement if it is newer than all known ones; if `settled`, lookups use it at once."""
        name = arcs.axis.name
        known = self._known.get(name)
        if known is None or arcs.version <= known[-1].placement.version:
            return
        now = self.ring.node.now
        known.append(_PlacementUse(arcs, now, now if settled else now + self.overlap / 2))
        self.ring.node.wake_after(self.overlap, "attributes overlap", name)
        self._changed(name)

    def tell(self, to: Address, attribute: str) -> None:
        """Send another node the newest placement."""
        newest = self._known[attribute][-1]
        if isinstance(newest.placement, ArcPlacement) and to != self.ring.identifier:
            settled = newest.usable <= self.ring.node.now
            self._send(to, PlacementAnnouncement(newest.placement, settled))

    def _retire(self, name: str) -> None:
        known, now = self._known[name], self.ring.node.now
        before = len(known)
        while len(known) > 1 and known[1].learned + self.overlap <= now:
            del known[0]
        if len(known) < before:
            self._changed(name)

    def _begin(self) -> None:
        """Set the alarms again after a restart with state, which loses them, and end any census."""
        self._censuses.clear()
        for name, known in self._known.items():
            for each in known[1:]:
                after = max(each.learned + self.overlap - self.ring.node.now, 0.0)
                self.ring.node.wake_after(after, "attributes overlap", name)

    # Gossip.

    def gossip(self) -> None:
        """Send the newest versions to a random known node, which answers if it knows newer or older ones."""
        known = self.ring.known()
        if known:
            self._send(self._random.choice(known), self._versions())

    def _versions(self) -> PlacementVersions:
        return PlacementVersions(tuple((name, self.newest(name).version) for name in self._known))

    def _compare(self, message: PlacementVersions, sender: Address) -> None:
        behind = False
        for name, version in message.versions:
            if name in self._known:
                mine = self.newest(name).version
                if mine > version:
                    self.tell(sender, name)
                behind = behind or mine < version
        if behind:
            self._send(sender, self._versions())

    # Balancing.

    def note_lookup(self, attribute: str, cell: int) -> None:
        """Count a lookup of an event that is published here."""
        self._lookups[attribute][self._axes[attribute].grain_of(cell)] += 1

    def rebalance(self, attribute: str) -> None:
        """Ask the keeper for a new placement of an attribute's values."""
        self.ring.route(self._keeper_key(attribute), RebalanceRequest(attribute))

    def rebalance_own(self) -> None:
        """Rebalance the attributes of which this node is the keeper."""
        for name in self._axes:
            if self.is_keeper(name) and isinstance(self.newest(name), ArcPlacement):
                self.rebalance(name)

    def is_keeper(self, attribute: str) -> bool:
        """Whether this node makes the new placements of an attribute."""
        return self.ring.owns(self._keeper_key(attribute))

    def _keeper_key(self, attribute: str) -> int:
        return self.ring.circle.hash(f"keeper of {attribute}")

    def _rebalance(self, message: RebalanceRequest, arrival: Arrival) -> None:
        name = message.attribute
        if name not in self._axes or name in self._censuses:
            return
        number = self.newest(name).version[0] + 1
        self._censuses[name] = (number, {})
        self.ring.multicast_segment(self.ring.identifier, self.ring.circle.size, LoadRequest(name, number))
        self.ring.node.wake_after(self.window, "attributes census", name)

    def _report_load(self, message: LoadRequest, arrival: Arrival) -> None:
        name = message.attribute
        if name not in self._axes:
            return
        observed = LoadReply(name, message.number, self._weights(name))
        self._send(arrival.origin, observed)

    def _weights(self, name: str) -> tuple[tuple[int, int, int], ...]:
        """The counts to report, by grain; lookups counted so far count half in the next report."""
        axis, lookups = self._axes[name], self._lookups[name]
        entries: Counter[int] = Counter()
        for first, last in self._entries(name):
            entries.update(range(axis.grain_of(first), axis.grain_of(last) + 1))
        weights = tuple((grain, lookups[grain], entries[grain]) for grain in sorted({*lookups, *entries}))
        self._lookups[name] = Counter({grain: seen // 2 for grain, seen in lookups.items() if seen > 1})
        return weights

    def _collect_load(self, message: LoadReply, sender: Address) -> None:
        census = self._censuses.get(message.attribute)
        if census is not None and census[0] == message.number:
            census[1][sender] = message

    def _end_census(self, name: str) -> None:
        """End a census: make the placement from the answers, and announce it."""
        number, answers = self._censuses.pop(name)
        if not answers:
            return
        weights: dict[int, CellWeight] = {}
        for answer in answers.values():
            for grain, lookups, entries in answer.weights:
                so_far = weights.get(grain, CellWeight())
                weights[grain] = CellWeight(so_far.lookups + lookups, so_far.entries + entries)
        version = (max(number, self.newest(name).version[0] + 1), self.ring.identifier)
        circle, axis = self.ring.circle, self._axes[name]
        arcs = ArcPlacement.balanced(circle, axis, list(answers), weights, version=version)
        announcement = PlacementAnnouncement(arcs, settled=False)
        self.ring.multicast_segment(self.ring.identifier, circle.size, announcement)

    def _learn_announced(self, message: PlacementAnnouncement, origin: Arrival | Address) -> None:
        self.learn(message.arcs, settled=message.settled)

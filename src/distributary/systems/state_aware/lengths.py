"""Segments of variable length: items with much work are spread over more nodes, others over fewer.

The paper names this as future work (section 6): adjusting the length of each item's segment for balance. With
thresholds clients need not agree on it, because everything goes through the item's guard: only the guard must
know the length.

Rules:

- Every `period` seconds the guard measures the work of its item: subscriptions kept, and values taken a
  minute. It computes how many nodes share that within the targets, and changes the length when that is at
  least twice or at most half as many as now.
- A change has a version, a stamp of the guard. The guard tells the nodes, each of which hands back the
  subscriptions that are no longer its own, with the values they remember; when all have answered, the guard
  forwards them to their new places. Values and registrations that arrive meanwhile wait at the guard until
  every subscription is confirmed. So each value finds each subscription at exactly one place.
- The guard does not wait longer than `PATIENCE` for a node: its subscriptions stay there, and the guard goes
  on sending it values. A node that ceases to be the guard forwards what waits and what was handed back.
- A survey covers the longest possible segment, so a new guard finds everything. It starts with the default
  length; subscriptions that are kept further away stay there until their homes register them again.

Cost of a change: a message and an answer for each node, a registration for each subscription that moves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from distributary.errors import DistributaryError
from distributary.overlay.node import Address, Message
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.state_aware.broker import DirectoryRegistration
from distributary.systems.state_aware.order import ValueStamp
from distributary.systems.state_aware.segments import Segments
from distributary.systems.state_aware.thresholds import (
    PATIENCE,
    GuardedItem,
    GuardedRemoval,
    QuietReport,
    ThresholdsBroker,
    ValueOffer,
)


@dataclass(frozen=True)
class WorkTarget:
    """How much work of one item a node should have."""

    spacing: int
    """The mean number of identifiers between two nodes."""
    kept: float = 16.0
    """Subscriptions."""
    taken: float = 16.0
    """Values taken by subscriptions in a minute."""
    longest: int = 32
    """The most nodes that an item is spread over."""
    period: float = 300.0
    """Seconds between two measurements."""

    def __post_init__(self) -> None:
        if min(self.spacing, self.kept, self.taken, self.longest, self.period) <= 0:
            raise DistributaryError(f"everything about a balance is above 0, not so {self}")

    def nodes(self, kept: int, taken_per_minute: float) -> int:
        """How many nodes an item should be spread over.

        >>> balance = WorkTarget(spacing=1000)
        >>> balance.nodes(3, 1), balance.nodes(80, 1), balance.nodes(80, 125.5), balance.nodes(10**6, 1)
        (1, 5, 8, 32)
        """
        wanted = max(kept / self.kept, taken_per_minute / self.taken)
        return max(1, min(self.longest, math.ceil(wanted)))

    def length(self, nodes: int) -> int:
        """The length of a segment that spans so many nodes; with one node, only the guard."""
        return 1 + (nodes - 1) * self.spacing


class HandBackRequest(NamedTuple):
    """The segment of an item has a new length: hand back the subscriptions that are no longer yours."""

    item: str
    version: ValueStamp
    length: int


class HandBackReply(NamedTuple):
    """The subscriptions that a node hands back, and how many it keeps."""

    item: str
    version: ValueStamp
    given_back: tuple[DirectoryRegistration, ...]
    kept: int


class _Length(NamedTuple):
    version: ValueStamp
    length: int


@dataclass(slots=True)
class _LengthChange:
    """A change of length in progress."""

    version: ValueStamp
    awaited: set[Address]
    given_back: list[DirectoryRegistration] = field(default_factory=list)
    placing: bool = False
    waiting: list[ValueOffer | DirectoryRegistration | GuardedRemoval] = field(default_factory=list)


class _Measurement(NamedTuple):
    """A guard's last measurement of an item's work."""

    time: float
    taken: int


class BalancedBroker(ThresholdsBroker):
    """A node of a thresholds network in which each item's segment has its own length."""

    def __init__(self, ring: Ring, segments: Segments, *, balance: WorkTarget, **options: Any) -> None:
        self.balance = balance
        self._lengths: dict[str, _Length] = {}
        """The latest known length of each item that this node guards or keeps subscriptions of."""
        self._moving: dict[str, _LengthChange] = {}
        self._measured: dict[str, _Measurement] = {}
        self.changes = 0
        """How often this node has changed the length of a segment."""
        super().__init__(ring, segments, **options)
        self.node.handle(HandBackRequest, self._hand_back)
        self.node.handle(HandBackReply, self._handed_back)
        self.node.at_alarm("lengths patience", self._patience_over)
        self.node.at_start(self._moving.clear)

    def length_of(self, item: str) -> int:
        """How long the segment of an item is, as far as this node knows."""
        known = self._lengths.get(item)
        return known.length if known else self.segments.length

    def place_of(self, item: str, tolerance: float) -> int:
        return self.segments.place(item, tolerance, self.length_of(item))

    @property
    def reach(self) -> int:
        longest = max(self.segments.length, self.balance.length(self.balance.longest))
        return min(longest, self.ring.circle.size)

    # What waits while subscriptions move.

    def _offered(self, message: ValueOffer, arrival: Arrival) -> None:
        if not self._wait(message.item, message):
            super()._offered(message, arrival)
            self._measure(message.item)

    def _register(self, message: DirectoryRegistration, arrival: Arrival) -> None:
        if not self._wait(message.registered.item, message):
            super()._register(message, arrival)

    def _left(self, message: GuardedRemoval, arrival: Arrival) -> None:
        if not self._wait(message.unregister.item, message):
            super()._left(message, arrival)

    def _wait(self, item: str, message: ValueOffer | DirectoryRegistration | GuardedRemoval) -> bool:
        moving = self._moving.get(item)
        if moving is not None:
            moving.waiting.append(message)
        return moving is not None

    # The guard changes a length.

    def _measure(self, item: str) -> None:
        """Measure the work of an item if the period is over, and change the length if needed."""
        guarded = self._guarded[item]
        taken = sum(node.taken for node in guarded.nodes.values())
        looked = self._measured.setdefault(item, _Measurement(self.node.now, taken))
        passed = self.node.now - looked.time
        if passed < self.balance.period or guarded.pending or not self.knows(guarded):
            return
        self._measured[item] = _Measurement(self.node.now, taken)
        kept = sum(node.kept for node in guarded.nodes.values())
        wanted = self.balance.nodes(kept, 60 * max(0, taken - looked.taken) / passed)
        current = 1 + (self.length_of(item) - 1) / self.balance.spacing
        if guarded.nodes and not current / 2 < wanted < current * 2:
            self._change(item, guarded, min(self.balance.length(wanted), self.ring.circle.size))

    def _change(self, item: str, guarded: GuardedItem, length: int) -> None:
        self.changes += 1
        version = self.stamp()
        self._lengths[item] = _Length(version, length)
        self._moving[item] = _LengthChange(version, set(guarded.nodes))
        self.node.wake_after(PATIENCE, "lengths patience", (item, version))
        for address in list(guarded.nodes):
            self.tell(address, HandBackRequest(item, version, length))

    def _handed_back(self, message: HandBackReply, sender: Address) -> None:
        moving = self._moving.get(message.item)
        guarded = self._guarded.get(message.item)
        if moving is None or guarded is None or moving.version != message.version or moving.placing:
            for register in message.given_back:  # too late for this change: register them again
                self.ring.route(self.segments.start(message.item), register)
            return
        moving.awaited.discard(sender)
        moving.given_back.extend(message.given_back)
        if not message.kept:
            guarded.nodes.pop(sender, None)
        if not moving.awaited:
            self._place_all(message.item, guarded, moving)

    def _place_all(self, item: str, guarded: GuardedItem, moving: _LengthChange) -> None:
        given_back, moving.given_back = moving.given_back, []
        for register in given_back:
            self.assign(guarded, register)
        moving.placing = True  # only now, as what is assigned to this node itself is confirmed at once
        if not guarded.pending:
            self._finish(item)

    def _reported(self, message: QuietReport) -> None:
        super()._reported(message)
        moving = self._moving.get(message.item)
        if moving is not None and moving.placing and not self._guarded[message.item].pending:
            self._finish(message.item)

    def _finish(self, item: str) -> None:
        """Handle all messages that waited, in the order of arrival."""
        self._measured.pop(item, None)
        arrival = Arrival(self.node.address, (self.segments.start(item),))
        for message in self._moving.pop(item).waiting:
            self.ring.listeners[type(message)](message, arrival)

    def _patience_over(self, about: tuple[str, ValueStamp]) -> None:
        """Continue without the nodes that did not answer."""
        item, version = about
        moving = self._moving.get(item)
        guarded = self._guarded.get(item)
        if moving is None or guarded is None or moving.version != version:
            return
        if moving.placing:
            self._finish(item)
            return
        self.node.wake_after(PATIENCE, "lengths patience", about)
        self._place_all(item, guarded, moving)

    def _ring_changed(self) -> None:
        super()._ring_changed()
        for item in [item for item in self._moving if item not in self._guarded]:
            moving = self._moving.pop(item)
            for message in (*moving.given_back, *moving.waiting):
                self.ring.route(self.segments.start(item), message)

    def _failed(self, to: Address, message: Message) -> None:
        super()._failed(to, message)
        if isinstance(message, HandBackReply):
            for register in message.given_back:
                self.ring.route(self.segments.start(message.item), register)

    # A node gives back.

    def _hand_back(self, message: HandBackRequest, sender: Address) -> None:
        item, version, length = message
        known = self._lengths.get(item)
        if known is None or not known.version.follows(version):
            self._lengths[item] = _Length(version, length)
        given_back = []
        for tracked in list(self._directories.get(item, ())):
            place = self.segments.place(item, tracked.least_tolerance, length)
            register = DirectoryRegistration(tracked.registered, tuple(tracked.delivered.values()))
            if self.ring.owns(place):
                self.keep(place, register)
            else:
                given_back.append(register)
                self._forget(tracked.name)
        kept = len(self._directories.get(item, ()))
        self.tell(sender, HandBackReply(item, version, tuple(given_back), kept))

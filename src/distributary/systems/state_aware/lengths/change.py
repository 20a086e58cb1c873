"""How the length of an item's segment is changed, with nothing lost or repeated meanwhile.

The owner of an item's first key is its *guard*: all values and registrations of the item go through it, so
publishers and homes need not know the length.

Rules:

- The guard measures the work of its item: subscriptions kept, and values taken a minute. It computes how many
  nodes share that within the targets, and changes the length when that is at least twice or at most half as
  many as now.
- A change has a version, a stamp of the guard. The guard asks the nodes, each of which hands back the
  subscriptions that are no longer its own, with the values they remember; when all have answered, the guard
  forwards them to their new places. Values and registrations that arrive meanwhile wait at the guard until
  every subscription is confirmed. So each value finds each subscription at exactly one place.
- A node hands back only after it has seen the values that were sent to it before, which the request may have
  overtaken.
- The guard does not wait longer than `PATIENCE` for a node: its subscriptions stay there, and the guard goes
  on sending it values. A node that ceases to be the guard forwards what waits and what was handed back.
- A new guard starts with the default length; subscriptions that are kept further away stay there until their
  homes register them again.

Cost of a change: a message and an answer for each node, a registration for each subscription that moves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

from distributary.overlay.node import Address, Message
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.state_aware.broker import DirectoryRegistration, StateAwareBroker
from distributary.systems.state_aware.lengths.answers import Answers, Arc
from distributary.systems.state_aware.lengths.target import WorkTarget
from distributary.systems.state_aware.order import ValueStamp
from distributary.systems.state_aware.segments import Segments

PATIENCE = 2.0
"""Seconds that a guard waits for the nodes of a segment."""

M = TypeVar("M")


class HandBackRequest(NamedTuple):
    """The segment of an item has a new length: hand back the subscriptions that are no longer yours."""

    item: str
    guard: Address
    version: ValueStamp
    length: int
    after: tuple[tuple[str, ValueStamp], ...] = ()
    """The values, by topic, that the node must have seen before it hands back."""


class HandBackReply(NamedTuple):
    """The subscriptions that a node hands back, how many it keeps, and which keys it owns."""

    item: str
    version: ValueStamp
    given_back: tuple[DirectoryRegistration, ...]
    kept: int
    arc: Arc | None = None


class _Length(NamedTuple):
    version: ValueStamp
    length: int


@dataclass(slots=True)
class _LengthChange:
    """A change of length in progress."""

    version: ValueStamp
    answers: Answers
    given_back: list[DirectoryRegistration] = field(default_factory=list)
    placing: bool = False
    waiting: list[Message] = field(default_factory=list)


class BalancedBroker(StateAwareBroker):
    """A node of a network in which each item's segment has its own length."""

    def __init__(self, ring: Ring, segments: Segments, *, balance: WorkTarget, **options: Any) -> None:
        self.balance = balance
        self._lengths: dict[str, _Length] = {}
        """The latest known length of each item that this node guards or keeps subscriptions of."""
        self._moving: dict[str, _LengthChange] = {}
        self._asked_back: dict[str, HandBackRequest] = {}
        """The latest requests, by item, that wait for a value to be seen here first."""
        self.changes = 0
        """How often this node has changed the length of a segment."""
        super().__init__(ring, segments, **options)
        self.node.handle(HandBackRequest, lambda message, sender: self._asked(message))
        self.node.handle(HandBackReply, self._handed_back)
        self.node.at_alarm("lengths patience", self._patience_over)
        self.node.at_start(self._moving.clear)
        if self.courier:
            self.courier.on_failure(self._reply_failed)
        ring.watch(self._guards_changed)

    # What the systems differ in.

    @abstractmethod
    def is_guard(self, item: str) -> bool:
        """Whether this node guards an item, as far as it knows."""

    @abstractmethod
    def answers_for(self, item: str, length: int) -> Answers:
        """Whose answers to await when an item's segment is to have a new length."""

    @abstractmethod
    def ask_back(self, request: HandBackRequest) -> None:
        """Send a request to all nodes that may keep subscriptions of the item."""

    @abstractmethod
    def place_again(self, register: DirectoryRegistration) -> None:
        """Forward a registration that was handed back to its new place, which is to confirm it."""

    @abstractmethod
    def is_placed(self, item: str) -> bool:
        """Whether all registrations that were forwarded are confirmed."""

    @abstractmethod
    def has_seen(self, topic: str, stamp: ValueStamp) -> bool:
        """Whether this node has seen a value that its guard sent, or a later one."""

    moves_all: ClassVar[bool] = False
    """Whether a node hands back all subscriptions of an item, those that stay its own too."""

    def on_answer(self, item: str, sender: Address, kept: int) -> None:
        """Note how many subscriptions a node keeps after a change."""
        return

    def on_moved(self, item: str) -> None:
        """Note that all nodes have handed back what is to move."""
        return

    # Places.

    def length_of(self, item: str) -> int:
        """How long the segment of an item is, as far as this node knows."""
        known = self._lengths.get(item)
        return known.length if known else self.segments.length

    def learn_length(self, item: str, version: ValueStamp, length: int) -> None:
        """Note the length that an item's guard has given its segment, unless a later one is known."""
        known = self._lengths.get(item)
        if known is None or not known.version.follows(version):
            self._lengths[item] = _Length(version, length)

    def place_of(self, item: str, tolerance: float) -> int:
        """The key at which a subscription with this tolerance is kept."""
        return self.place_within(item, tolerance, self.length_of(item))

    def place_within(self, item: str, tolerance: float, length: int) -> int:
        """The key at which a subscription with this tolerance is kept in a segment of this length."""
        return self.segments.place(item, tolerance, length)

    @property
    def reach(self) -> int:
        """How many identifiers from the start of a segment subscriptions may be kept."""
        longest = max(self.segments.length, self.balance.length(self.balance.longest))
        return min(longest, self.ring.circle.size)

    # The guard changes a length.

    def wait_while_moving(self, kind: type[M], item_of: Callable[[M], str]) -> None:
        """Have payloads of a class, which are for the guard of an item, wait while subscriptions move."""
        handle = self.ring.listeners[kind]

        def listen(message: M, arrival: Arrival) -> None:
            moving = self._moving.get(item_of(message))
            if moving is None:
                handle(message, arrival)
            else:
                moving.waiting.append(message)

        self.ring.listeners[kind] = listen

    def weigh(self, item: str, kept: int, taken_per_minute: float) -> None:
        """Change the length of an item's segment if that many nodes less or more should share its work."""
        wanted = self.balance.nodes(kept, taken_per_minute)
        current = 1 + (self.length_of(item) - 1) / self.balance.spacing
        if kept and item not in self._moving and not current / 2 < wanted < current * 2:
            self._change(item, min(self.balance.length(wanted), self.ring.circle.size))

    def _change(self, item: str, length: int) -> None:
        self.changes += 1
        version = self.stamp()
        self._moving[item] = _LengthChange(version, self.answers_for(item, length))
        self._lengths[item] = _Length(version, length)
        self.node.wake_after(PATIENCE, "lengths patience", (item, version, False))
        self.ask_back(HandBackRequest(item, self.node.address, version, length))

    def _handed_back(self, message: HandBackReply, sender: Address) -> None:
        item = message.item
        moving = self._moving.get(item)
        if moving is None or moving.version != message.version or moving.placing or not self.is_guard(item):
            self._register_again(item, message.given_back)  # too late for this change
            return
        moving.answers.add(sender, message.arc)
        moving.given_back.extend(message.given_back)
        self.on_answer(item, sender, message.kept)
        if moving.answers.complete:
            self.on_moved(item)
            self._place_all(item, moving)

    def _place_all(self, item: str, moving: _LengthChange) -> None:
        given_back, moving.given_back = moving.given_back, []
        for register in given_back:
            self.place_again(register)
        moving.placing = True  # only now, as what is placed at this node itself is confirmed at once
        self.node.wake_after(PATIENCE, "lengths patience", (item, moving.version, True))
        self.confirm_placed(item)

    def confirm_placed(self, item: str) -> None:
        """End a change if all subscriptions are in place, and handle what waited in the order of arrival."""
        moving = self._moving.get(item)
        if moving is not None and moving.placing and self.is_placed(item):
            self._finish(item)

    def _finish(self, item: str) -> None:
        arrival = Arrival(self.node.address, (self.segments.start(item),))
        for message in self._moving.pop(item).waiting:
            self.ring.listeners[type(message)](message, arrival)

    def _patience_over(self, about: tuple[str, ValueStamp, bool]) -> None:
        """Continue without the nodes that did not answer, or did not confirm what was placed with them."""
        item, version, placing = about
        moving = self._moving.get(item)
        if moving is None or (moving.version, moving.placing) != (version, placing):
            return
        if placing:
            self._finish(item)
        elif self.is_guard(item):
            self._place_all(item, moving)

    def _guards_changed(self) -> None:
        """Forward what waits for items that another node guards now."""
        for item in [item for item in self._moving if not self.is_guard(item)]:
            moving = self._moving.pop(item)
            for message in (*moving.given_back, *moving.waiting):
                self.ring.route(self.segments.start(item), message)

    def _register_again(self, item: str, given_back: tuple[DirectoryRegistration, ...]) -> None:
        for register in given_back:
            self.ring.route(self.segments.start(item), register)

    def _reply_failed(self, to: Address, message: Message) -> None:
        if isinstance(message, HandBackReply):
            self._register_again(message.item, message.given_back)

    # A node gives back.

    def _asked(self, message: HandBackRequest) -> None:
        keeps = any(each.registered.item == message.item for each in self.directory.values())
        if not keeps or all(self.has_seen(topic, stamp) for topic, stamp in message.after):
            self._asked_back.pop(message.item, None)
            self._hand_back(message)
        else:
            self._asked_back[message.item] = message

    def look_again(self, item: str) -> None:
        """A value of the item was seen: answer the request that may have waited for it."""
        if item in self._asked_back:
            self._asked(self._asked_back[item])

    def _hand_back(self, message: HandBackRequest) -> None:
        item, guard, version, length, _ = message
        self.learn_length(item, version, length)
        given_back = self.give_up(item)
        kept = sum(each.registered.item == item for each in self.directory.values())
        self.tell(guard, HandBackReply(item, version, tuple(given_back), kept, self.ring.arc()))

    def give_up(self, item: str) -> list[DirectoryRegistration]:
        """Remove the subscriptions of an item whose place is elsewhere; others get their new keys."""
        given_up = []
        for tracked in [each for each in self.directory.values() if each.registered.item == item]:
            place = self.place_of(item, tracked.least_tolerance)
            register = DirectoryRegistration(tracked.registered, tuple(tracked.delivered.values()))
            if self.ring.owns(place) and not self.moves_all:
                self.keep(place, register)
            else:
                given_up.append(register)
                self._forget(tracked.name, moved=True)
        return given_up

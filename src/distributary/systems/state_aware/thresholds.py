"""Thresholds: a value goes only to nodes where some subscription takes it; publishers keep many back.

Delivers what SF delivers, with fewer messages. The owner of an item's first key is its *guard*. Every node
that keeps subscriptions of the item reports to the guard the *quiet* range, in which none of them takes a
value (`directory`), and the guard sends a value only to nodes for which it lies outside. When a value
concerned no node, the guard *leases* the range in which all nodes are quiet to the publisher, which then does
not send values in that range.

Rules:

- Registrations go through the guard, which forwards them to the place of their tolerance and sends that place
  every value until the node there confirms: a new subscription misses none.
- After sending a value to a node, the guard treats it as not quiet until it reports again. A node reports
  when it took no value, and after the first of several values in a row that were taken; a node that takes
  value after value does not report each time.
- A report counts only if it was made after the latest value sent to that node, and is the node's latest. In
  doubt a node is not quiet: that costs messages, never deliveries.
- A lease has one holder. It ends when the holder publishes a value outside the range, when another
  publisher's value arrives, when a subscription is registered, and after a refresh period. When it is
  revoked, the holder sends the last value that it kept back, if that is newer than the reason.
- A guard that does not know all nodes of an item (at the first value, after taking over, or when a gap in a
  publisher's numbers shows that values went elsewhere) *surveys*: the value goes to the whole segment, as in
  SF, and every node with subscriptions reports.

A publication costs nothing while it is within a lease, else the route to the guard, one message for each node
where it is taken, at most as many reports, and the multicast to the homes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from distributary.model import Event, SubscriptionKey
from distributary.overlay.node import Address, Message
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.state_aware.broker import (
    BEGINNING,
    DirectoryRegistration,
    DirectoryRemoval,
    Held,
    StateAwareBroker,
    TrackedSubscription,
    ValueStamp,
)
from distributary.systems.state_aware.directory import Bounds, Directory, Quiet, is_quiet, narrowed
from distributary.systems.state_aware.segments import Segments

PATIENCE = 2.0
"""Seconds after a survey until the guard relies on the reports."""

Listed = tuple[tuple[str, Bounds], ...]
"""A quiet range in messages: bounds by attribute, sorted."""


class ValueOffer(NamedTuple):
    """A value for the guard of its item, numbered by its publisher for each topic."""

    item: str
    event: Event
    stamp: ValueStamp
    number: int


class RegistrationForward(NamedTuple):
    """A registration on its way from the guard to its place."""

    register: DirectoryRegistration
    guard: Address


class GuardedRemoval(NamedTuple):
    """To the guard: remove a subscription at the place of its tolerance."""

    unregister: DirectoryRemoval
    tolerance: float


class GuardedValue(NamedTuple):
    """A value for a node where it may be taken, numbered by the guard for each topic."""

    item: str
    event: Event
    stamp: ValueStamp
    guard: Address
    number: int
    survey: bool = False


class QuietReport(NamedTuple):
    """The quiet range of a node by topic, each with its latest value. Other topics are not quiet."""

    item: str
    node: Address
    version: tuple[float, int]
    quiet: tuple[tuple[str, ValueStamp, Listed], ...]
    confirmed: tuple[SubscriptionKey, ...]
    """Subscriptions that are now in the directory of this node."""
    kept: int
    """How many subscriptions of the item are kept there."""
    taken: int
    """How often one of them has taken a value."""


class QuietLease(NamedTuple):
    """To a publisher: values of this topic within these bounds need not be sent."""

    topic: str
    quiet: Listed
    until: float


class LeaseRevocation(NamedTuple):
    """To a publisher: the leases of these topics end, for a reason that arose at `since`."""

    topics: tuple[str, ...]
    since: float


@dataclass(slots=True)
class _Node:
    """What a guard knows of a node that keeps subscriptions of an item."""

    kept: int = 0
    taken: int = 0
    quiet: dict[str, Quiet] = field(default_factory=dict)
    sent: dict[str, ValueStamp] = field(default_factory=dict)
    version: tuple[float, int] = (float("-inf"), 0)


@dataclass(slots=True)
class GuardedItem:
    """What a guard knows of an item."""

    nodes: dict[Address, _Node] = field(default_factory=dict)
    pending: dict[SubscriptionKey, int] = field(default_factory=dict)
    """The keys of registrations that are forwarded and not confirmed yet."""
    knows_from: float | None = None
    """The time from which on it knows all nodes; None before the first survey."""
    newest: dict[str, ValueStamp] = field(default_factory=dict)
    shown: Counter[str] = field(default_factory=Counter)
    """How many values of each topic arrived."""
    numbers: dict[tuple[str, Address], int] = field(default_factory=dict)
    """The latest number of each publisher."""
    leases: dict[str, Address] = field(default_factory=dict)


@dataclass(slots=True)
class _Publisher:
    """The state of a topic at its publisher."""

    number: int = 0
    lease: QuietLease | None = None
    kept_back: tuple[str, Event, ValueStamp] | None = None


class ThresholdsBroker(StateAwareBroker):
    """A node of a network with thresholds: publisher, guard, rendezvous and home at once."""

    def __init__(self, ring: Ring, segments: Segments, **options: Any) -> None:
        self._directories: dict[str, Directory] = {}
        self._latest: dict[str, tuple[ValueStamp, int]] = {}
        """By topic, the stamp of the latest value, and the guard's number of the latest that was taken."""
        self._guarded: dict[str, GuardedItem] = {}
        self._topics: dict[str, _Publisher] = {}
        self._versions = 0
        super().__init__(ring, segments, **options)
        ring.listen(ValueOffer, self._offered)
        ring.listen(RegistrationForward, self._placed)
        ring.listen(GuardedRemoval, self._left)
        ring.listen(GuardedValue, lambda message, arrival: self._shown(message))
        ring.listen(QuietReport, lambda message, arrival: self._reported(message))
        ring.watch(self._ring_changed)
        self.node.handle(GuardedValue, lambda message, sender: self._shown(message))
        self.node.handle(QuietReport, lambda message, sender: self._reported(message))
        self.node.handle(QuietLease, self._leased)
        self.node.handle(LeaseRevocation, self._revoked)
        self.node.at_start(self._guarded.clear)
        if self.courier:
            self.courier.on_failure(self._failed)

    # The publisher.

    def send_value(self, item: str, event: Event, stamp: ValueStamp) -> None:
        assert event.topic is not None
        published = self._topics.setdefault(event.topic, _Publisher())
        lease = published.lease
        if lease is not None and self.node.now < lease.until and is_quiet(dict(lease.quiet), event):
            published.kept_back = (item, event, stamp)
            return
        published.lease = published.kept_back = None
        published.number += 1
        self.ring.route(self.segments.start(item), ValueOffer(item, event, stamp, published.number))

    def _leased(self, message: QuietLease, sender: Address) -> None:
        self._topics.setdefault(message.topic, _Publisher()).lease = message

    def _revoked(self, message: LeaseRevocation, sender: Address) -> None:
        for topic in message.topics:
            published = self._topics.get(topic)
            if published is None or published.lease is None:
                continue
            published.lease, kept_back = None, published.kept_back
            if kept_back is not None and kept_back[2].time >= message.since:
                self.send_value(*kept_back)

    # The guard.

    def _offered(self, message: ValueOffer, arrival: Arrival) -> None:
        item, event, stamp, number = message
        topic = event.topic
        assert topic is not None
        guarded = self._guarded.setdefault(item, GuardedItem())
        if stamp <= guarded.newest.get(topic, BEGINNING):
            return
        guarded.newest[topic] = stamp
        guarded.shown[topic] += 1
        before = guarded.numbers.get((topic, stamp.publisher), 0)
        guarded.numbers[topic, stamp.publisher] = number
        if number != before + 1:
            guarded.knows_from = None
        holder = guarded.leases.pop(topic, stamp.publisher)
        if holder != stamp.publisher:
            self.send(holder, LeaseRevocation((topic,), stamp.time))
        if not self._show(item, guarded, event, stamp):
            self._grant(item, guarded, topic, stamp.publisher)

    def _show(self, item: str, guarded: GuardedItem, event: Event, stamp: ValueStamp) -> bool:
        """Send a value to all nodes that may take it; False when there are none."""
        assert event.topic is not None
        shown = GuardedValue(item, event, stamp, self.node.address, guarded.shown[event.topic])
        if not self.knows(guarded):
            self._survey(item, guarded, shown)
            return True
        concerned = [
            address
            for address, node in guarded.nodes.items()
            if event.topic not in node.quiet or not is_quiet(node.quiet[event.topic], event)
        ]
        for address in concerned:
            node = guarded.nodes[address]
            node.quiet.pop(event.topic, None)
            node.sent[event.topic] = stamp
            self.tell(address, shown)
        if guarded.pending:
            self.ring.multicast(guarded.pending.values(), shown)
        return bool(concerned or guarded.pending)

    def knows(self, guarded: GuardedItem) -> bool:
        """Whether all nodes that keep subscriptions of the item are known."""
        return guarded.knows_from is not None and guarded.knows_from <= self.node.now

    def _survey(self, item: str, guarded: GuardedItem, shown: GuardedValue) -> None:
        """Send a value to all nodes that may keep subscriptions of the item, and have them report."""
        if guarded.knows_from is None:
            guarded.nodes.clear()
            guarded.knows_from = self.node.now + PATIENCE
        self.ring.multicast_segment(self.segments.start(item), self.reach, shown._replace(survey=True))
        if guarded.pending:
            self.ring.multicast(guarded.pending.values(), shown)

    def _grant(self, item: str, guarded: GuardedItem, topic: str, publisher: Address) -> None:
        """Lease the range in which all nodes are quiet to a publisher."""
        quiet: Quiet = {}
        for node in guarded.nodes.values():
            quiet = narrowed(quiet, node.quiet[topic])
        until = float("inf") if self.refresh is None else self.node.now + self.refresh
        guarded.leases[topic] = publisher
        self.tell(publisher, QuietLease(topic, tuple(sorted(quiet.items())), until))

    def _revoke(self, guarded: GuardedItem) -> None:
        """End all leases of an item."""
        holders: dict[Address, list[str]] = {}
        for topic, holder in guarded.leases.items():
            holders.setdefault(holder, []).append(topic)
        guarded.leases.clear()
        for holder, topics in holders.items():
            self.tell(holder, LeaseRevocation(tuple(topics), self.node.now))

    def _reported(self, message: QuietReport) -> None:
        item, address, version, quiet, confirmed, kept, taken = message
        guarded = self._guarded.setdefault(item, GuardedItem())
        node = guarded.nodes.setdefault(address, _Node())
        if version <= node.version:
            return
        node.version, node.kept, node.taken = version, kept, taken
        for name in confirmed:
            guarded.pending.pop(name, None)
        if not kept:
            del guarded.nodes[address]
            return
        node.quiet = {
            topic: dict(listed) for topic, stamp, listed in quiet if stamp >= node.sent.get(topic, BEGINNING)
        }
        if any(topic not in node.quiet for topic in guarded.leases):
            self._revoke(guarded)

    def _register(self, message: DirectoryRegistration, arrival: Arrival) -> None:
        """Forward a registration to its place, ending all leases of the item."""
        guarded = self._guarded.setdefault(message.registered.item, GuardedItem())
        self._revoke(guarded)
        self.assign(guarded, message)

    def assign(self, guarded: GuardedItem, message: DirectoryRegistration) -> None:
        """Forward a registration to the place of its tolerance."""
        tracked = TrackedSubscription(message.registered, self.node.now)
        place = self.place_of(tracked.registered.item, tracked.least_tolerance)
        guarded.pending[tracked.name] = place
        self.ring.route(place, RegistrationForward(message, self.node.address))

    def place_of(self, item: str, tolerance: float) -> int:
        """The key at which a subscription with this tolerance is kept."""
        return self.segments.place(item, tolerance)

    @property
    def reach(self) -> int:
        """How many identifiers from the start of a segment subscriptions may be kept."""
        return self.segments.length

    def _left(self, message: GuardedRemoval, arrival: Arrival) -> None:
        item, name, _ = message.unregister
        self._guarded.setdefault(item, GuardedItem()).pending.pop(name, None)
        self.ring.route(self.place_of(item, message.tolerance), message.unregister)

    def _failed(self, to: Address, message: Message) -> None:
        """Survey again when a node does not answer: others may have taken over its subscriptions."""
        if isinstance(message, GuardedValue) and message.item in self._guarded:
            guarded = self._guarded[message.item]
            guarded.nodes.pop(to, None)
            guarded.knows_from = None
            self._survey(message.item, guarded, message)

    def _ring_changed(self) -> None:
        """Forget items of which another node is the guard now."""
        for item in [item for item in self._guarded if not self.ring.owns(self.segments.start(item))]:
            del self._guarded[item]

    # The rendezvous.

    def register_key(self, tracked: TrackedSubscription) -> int:
        return self.segments.start(tracked.registered.item)

    def unregister(self, own: TrackedSubscription) -> None:
        item, subscription, home = own.registered
        leave = GuardedRemoval(DirectoryRemoval(item, subscription.key, home), own.least_tolerance)
        self.ring.route(self.segments.start(item), leave)

    def _placed(self, message: RegistrationForward, arrival: Arrival) -> None:
        registered = message.register.registered
        self.keep(arrival.keys[0], message.register)
        self._report(registered.item, message.guard, confirmed=(registered.subscription.key,))

    def on_admitted(self, tracked: TrackedSubscription, held: Held | None, *, is_new: bool) -> None:
        item = tracked.registered.item
        if held is not None:
            tracked.learn(held, self.settled)
        self._directories.setdefault(item, Directory()).put(tracked)
        if held is None:
            self._report(item, None)

    def on_dismissed(self, tracked: TrackedSubscription, *, moved: bool) -> None:
        item = tracked.registered.item
        directory = self._directories[item]
        directory.remove(tracked.name)
        if not directory:
            del self._directories[item]

    def _shown(self, message: GuardedValue) -> None:
        item, event, stamp, guard, number, survey = message
        topic = event.topic
        assert topic is not None
        directory = self._directories.get(item)
        latest, took = self._latest.get(topic, (BEGINNING, -1))
        fired: list[TrackedSubscription] = []
        if directory is not None and stamp > latest:
            fired = directory.fire(event, stamp)
            self._latest[topic] = (stamp, number if fired else took)
            self.notify(item, event, stamp, fired)
        in_a_row = fired and took == number - 1
        if survey and directory is None:
            return
        if survey or not in_a_row or guard == self.node.address:
            self._report(item, guard)

    def _report(self, item: str, guard: Address | None, confirmed: tuple[SubscriptionKey, ...] = ()) -> None:
        """Report the quiet range to the guard; through the ring when its address is not known."""
        directory = self._directories.get(item, Directory())
        quiet = []
        for topic in directory.topics():
            stretch = directory.quiet(topic)
            if stretch is not None:
                stamp, _ = self._latest.get(topic, (BEGINNING, -1))
                quiet.append((topic, stamp, tuple(sorted(stretch.items()))))
        self._versions += 1
        version = (self.node.now, self._versions)
        kept, taken = len(directory), directory.taken
        report = QuietReport(item, self.node.address, version, tuple(quiet), confirmed, kept, taken)
        if guard is None:
            self.ring.route(self.segments.start(item), report)
        else:
            self.tell(guard, report)

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
- The guard puts the values of all publishers in order, by arrival (`order`).
- A lease has one holder, and is for the value that it was granted on: one that finds a later value on its
  way, or was overtaken by its revocation, does not begin. It ends when the holder publishes a value outside
  the range, when another publisher's value arrives, when a subscription is registered, and after a refresh
  period. When it is revoked for a subscription, the holder sends its latest value, once more if need be. When
  it is revoked for another publisher's value, which counts as newer, what was kept back is dropped.
- A registration is forwarded with the latest values that nobody holds a lease on, so that a new subscription
  gets them at once.
- A guard that does not know all nodes of an item (at the first value, after taking over, or when a gap in a
  publisher's numbers shows that values went elsewhere) *surveys*: the value goes to the whole segment, as in
  SF, and every node with subscriptions reports.

A publication costs nothing while it is within a lease, else the route to the guard, one message for each node
where it is taken, at most as many reports, and the multicast to the homes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from distributary.model import Event, SubscriptionKey
from distributary.overlay.node import Address, Message
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.state_aware.broker import (
    DirectoryRegistration,
    GuardedRemoval,
    Held,
    RegistrationForward,
    StateAwareBroker,
    TrackedSubscription,
)
from distributary.systems.state_aware.directory import Bounds, Directory, Quiet, is_quiet, narrowed
from distributary.systems.state_aware.order import LatestValue, ValueStamp
from distributary.systems.state_aware.segments import Segments

PATIENCE = 2.0
"""Seconds after a survey until the guard relies on the reports."""

Listed = tuple[tuple[str, Bounds], ...]
"""A quiet range in messages: bounds by attribute, sorted."""


class ValueOffer(NamedTuple):
    """A value for the guard of its item, numbered by its publisher for each topic."""

    item: str
    event: Event
    published: ValueStamp
    number: int


class GuardedValue(NamedTuple):
    """A value for a node where it may be taken, with the guard's stamp and its number for each topic."""

    item: str
    event: Event
    stamp: ValueStamp
    number: int
    survey: bool = False


class QuietReport(NamedTuple):
    """The quiet range of a node by topic, with the stamp of its latest value, if any. Other topics are not
    quiet."""

    item: str
    node: Address
    version: tuple[float, int]
    """Grows with each report of the node: the time by its own clock, and a number."""
    quiet: tuple[tuple[str, ValueStamp | None, Listed], ...]
    confirmed: tuple[SubscriptionKey, ...]
    """Subscriptions that are now in the directory of this node."""
    kept: int
    """How many subscriptions of the item are kept there."""
    taken: int
    """How often one of them has taken a value."""


class QuietLease(NamedTuple):
    """To a publisher, about its value with this number: values within these bounds need not be sent."""

    topic: str
    number: int
    quiet: Listed
    seconds: float
    """How long it holds."""


class LeaseRevocation(NamedTuple):
    """To a publisher: the leases of these topics end; if `latest`, it is to send the latest value of each."""

    topics: tuple[str, ...]
    latest: bool


@dataclass(slots=True)
class _Node:
    """What a guard knows of a node that keeps subscriptions of an item."""

    kept: int = 0
    taken: int = 0
    quiet: dict[str, Quiet] = field(default_factory=dict)
    sent: dict[str, ValueStamp] = field(default_factory=dict)
    version: tuple[float, int] = (-inf, 0)

    def has_seen(self, topic: str, latest: ValueStamp | None) -> bool:
        """Whether the node whose latest value has this stamp has seen what was last sent to it."""
        sent = self.sent.get(topic)
        return sent is None or (latest is not None and not sent.is_newer(latest))


@dataclass(slots=True)
class GuardedItem:
    """What a guard knows of an item."""

    nodes: dict[Address, _Node] = field(default_factory=dict)
    pending: dict[SubscriptionKey, int] = field(default_factory=dict)
    """The keys of registrations that are forwarded and not confirmed yet."""
    knows_from: float | None = None
    """The time from which on it knows all nodes; None before the first survey."""
    newest: dict[str, tuple[ValueStamp, ValueStamp]] = field(default_factory=dict)
    """By topic, the stamps that the latest value was given by its publisher and here."""
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
    until: float = 0.0
    """When the lease ends, by the clock here."""
    latest: ValueOffer | None = None
    """The latest value; if its number is above `number`, it was kept back."""
    revoked: int = 0
    """The latest number whose lease was revoked, be it that it is still on its way."""


class ThresholdsBroker(StateAwareBroker):
    """A node of a network with thresholds: publisher, guard, rendezvous and home at once."""

    def __init__(self, ring: Ring, segments: Segments, **options: Any) -> None:
        self._directories: dict[str, Directory] = {}
        self._latest_shown: dict[str, tuple[ValueStamp, int]] = {}
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

    def send_value(self, item: str, event: Event, published: ValueStamp) -> None:
        assert event.topic is not None
        topic = self._topics.setdefault(event.topic, _Publisher())
        offer = ValueOffer(item, event, published, topic.number + 1)
        lease, topic.latest = topic.lease, offer
        if lease is None or self.node.now >= topic.until or not is_quiet(dict(lease.quiet), event):
            topic.lease = None
            self._send_latest(topic)

    def _send_latest(self, topic: _Publisher) -> None:
        """Send the latest value to the guard, for the first time or again."""
        assert topic.latest is not None
        topic.number = topic.latest.number
        self.ring.route(self.segments.start(topic.latest.item), topic.latest)

    def _leased(self, message: QuietLease, sender: Address) -> None:
        """Hold a lease, unless it was over before it arrived: a later value is on its way to the guard."""
        topic = self._topics.get(message.topic)
        if topic is not None and topic.revoked < message.number == topic.number:
            topic.lease, topic.until = message, self.node.now + message.seconds

    def _revoked(self, message: LeaseRevocation, sender: Address) -> None:
        for name in message.topics:
            topic = self._topics.get(name)
            if topic is None:
                continue
            topic.lease, topic.revoked = None, topic.number
            if message.latest and topic.latest is not None:
                self._send_latest(topic)

    # The guard.

    def _offered(self, message: ValueOffer, arrival: Arrival) -> None:
        item, event, published, number = message
        topic, publisher = event.topic, published.node
        assert topic is not None
        guarded = self._guarded.setdefault(item, GuardedItem())
        if not self.order.admits(topic, published):
            before, stamp = guarded.newest.get(topic, (None, None))
            if published == before and stamp is not None:  # the latest value once more, for who has none
                self._show(item, guarded, event, stamp)
            return
        stamp = self.stamp()
        guarded.newest[topic] = published, stamp
        guarded.shown[topic] += 1
        self.latest.keep(item, event, stamp)
        if number != guarded.numbers.get((topic, publisher), 0) + 1:
            guarded.knows_from = None
        guarded.numbers[topic, publisher] = number
        holder = guarded.leases.pop(topic, publisher)
        if holder != publisher:
            self.send(holder, LeaseRevocation((topic,), latest=False))
        if not self._show(item, guarded, event, stamp):
            self._grant(item, guarded, topic, publisher)

    def _show(self, item: str, guarded: GuardedItem, event: Event, stamp: ValueStamp) -> bool:
        """Send a value to all nodes that may take it; False when there are none."""
        assert event.topic is not None
        shown = GuardedValue(item, event, stamp, guarded.shown[event.topic])
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
        seconds = inf if self.refresh is None else self.refresh
        guarded.leases[topic] = publisher
        number = guarded.numbers[topic, publisher]
        self.tell(publisher, QuietLease(topic, number, tuple(sorted(quiet.items())), seconds))

    def _revoke(self, guarded: GuardedItem) -> None:
        """End all leases of an item, and have their holders send what they have."""
        holders: dict[Address, list[str]] = {}
        for topic, holder in guarded.leases.items():
            holders.setdefault(holder, []).append(topic)
        guarded.leases.clear()
        for holder, topics in holders.items():
            self.tell(holder, LeaseRevocation(tuple(topics), latest=True))

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
        node.quiet = {topic: dict(listed) for topic, stamp, listed in quiet if node.has_seen(topic, stamp)}
        if any(topic not in node.quiet for topic in guarded.leases):
            self._revoke(guarded)

    def _register(self, message: DirectoryRegistration, arrival: Arrival) -> None:
        """Forward a registration to its place, ending all leases of the item."""
        item = message.registered.item
        guarded = self._guarded.setdefault(item, GuardedItem())
        latest = tuple(each for each in self.latest.of(item) if each.event.topic not in guarded.leases)
        self.assign(guarded, message, latest)
        self._revoke(guarded)  # only now, as this node may itself hold a lease, and sends its value at once

    def assign(
        self, guarded: GuardedItem, message: DirectoryRegistration, latest: tuple[LatestValue, ...] = ()
    ) -> None:
        """Forward a registration to the place of its tolerance, with the latest values of its item."""
        tracked = TrackedSubscription(message.registered, self.node.now)
        place = self.place_of(tracked.registered.item, tracked.least_tolerance)
        guarded.pending[tracked.name] = place
        self.ring.route(place, RegistrationForward(message, self.node.address, latest))

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
            self.latest.forget(item)

    # The rendezvous.

    def register_key(self, tracked: TrackedSubscription) -> int:
        return self.segments.start(tracked.registered.item)

    def unregister(self, own: TrackedSubscription) -> None:
        self.unregister_at_guard(own)

    def _placed(self, message: RegistrationForward, arrival: Arrival) -> None:
        item, subscription, _ = message.register.registered
        self.keep(arrival.keys[0], message.register)
        tracked = self.directory[subscription.key]
        for event, stamp in message.latest:
            assert event.topic is not None
            if event.topic not in tracked.delivered and tracked.takes(event, stamp):
                self._directories[item].put(tracked)
                self.notify(item, event, stamp, [tracked])
        self._report(item, message.guard, confirmed=(subscription.key,))

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
        item, event, stamp, number, survey = message
        topic, guard = event.topic, stamp.node
        assert topic is not None
        directory = self._directories.get(item)
        latest, took = self._latest_shown.get(topic, (None, -1))
        fired: list[TrackedSubscription] = []
        if directory is not None and not (latest is not None and latest.follows(stamp)):
            fired = directory.fire(event, stamp)
            self._latest_shown[topic] = (stamp, number if fired else took)
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
                stamp, _ = self._latest_shown.get(topic, (None, -1))
                quiet.append((topic, stamp, tuple(sorted(stretch.items()))))
        self._versions += 1
        version = (self.node.now, self._versions)
        kept, taken = len(directory), directory.taken
        report = QuietReport(item, self.node.address, version, tuple(quiet), confirmed, kept, taken)
        if guard is None:
            self.ring.route(self.segments.start(item), report)
        else:
            self.tell(guard, report)

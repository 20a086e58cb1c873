"""State-aware dissemination: what its three systems share.

The state-aware network of the dynamic-filter paper (002) delivers a value only to subscribers for whom it has
moved further than their tolerance. A *rendezvous* is a ring node that keeps subscriptions in its directory,
each with the values last delivered; a *home* is the node whose client subscribed. The systems differ in how a
value reaches the rendezvous: SF (`sf`), MFD (`mfd`), and ours (`thresholds`).

Rules:

- A subscription has a topic that names one data item (`segments`), a tolerance, and any other filters, which
  are evaluated before the tolerance.
- No two clocks need to agree. A publisher numbers its values (`ValueStamp`). One node puts the values of a
  topic in order, by arrival (`order`), and drops only those that are not newer than what it had of the same
  publisher; who that node is, each system says. Its own stamps are what rendezvous and homes go by: a value
  that is older than another of the same node is dropped, one that another node ordered counts as newer.
- A new subscription is given the latest value of each topic of its item that its rendezvous knows and that
  passes its filters (the initial state of section 4.3.2). A registration that is repeated is not given it
  again. A rendezvous that has taken over from another gets the latest values too (`latest`).
- The rendezvous preselects, the home decides; both remember what was delivered (`TrackedSubscription`). When
  a home declines a value that a rendezvous selected, it registers again, with the values it remembers. A
  rendezvous that does not know what was delivered, or learns that a value never arrived, forgets what it
  remembers: the next value is then sent, and the home decides. It may be one that the subscriber had before
  others: a home declines that too, for a value is delivered once, and what counts is what came last.
- Registrations are soft state. With `refresh`, homes repeat them, with the values they remember, and a
  rendezvous drops those not repeated for `PERIODS` periods. With replication, other nodes take over the
  directory of a failed rendezvous, but not the values last delivered. Without either, and without faults,
  only the paper's messages are sent.

A home does not acknowledge a value that it takes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from math import inf
from typing import Any, ClassVar, NamedTuple

from distributary.errors import FilterError
from distributary.filters.change import ChangeFilter
from distributary.filters.filter import Filter
from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address
from distributary.overlay.periodic import set_periodic_alarm
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.publishing import require_readable
from distributary.systems.ring_broker import RendezvousBroker
from distributary.systems.state_aware.latest import LatestExchange
from distributary.systems.state_aware.order import LatestValue, PublisherOrder, ValueStamp
from distributary.systems.state_aware.segments import Segments

PERIODS = 3
"""After how many refresh periods a registration that was not repeated is dropped."""


Rule = tuple[tuple[str, str], ...]
"""The filters other than the tolerance: kinds and texts, sorted by kind."""


class LastDelivered(NamedTuple):
    """The values last delivered to a subscription for a topic, the stamp of that event, and the stamp of the
    newest event that was decided on (`seen`). Stamps are of the node that put the values in order."""

    topic: str
    values: tuple[tuple[str, float], ...]
    stamp: ValueStamp
    seen: ValueStamp

    def includes(self, stamp: ValueStamp) -> bool:
        """Whether the event with that stamp was decided on already.

        Of stamps of several nodes nothing tells the order, so `stamp` is compared as well as `seen`: a home
        may have declined another node's value since.

        >>> last = LastDelivered("t", (), stamp=ValueStamp(7, 0.0, 2), seen=ValueStamp(8, 0.0, 5))
        >>> [last.includes(ValueStamp(7, 0.0, number)) for number in (1, 2, 3)]
        [True, True, False]
        """
        return not (stamp.is_newer(self.stamp) and stamp.is_newer(self.seen))


Held = tuple[LastDelivered, ...]
"""What was last delivered to a subscription, by topic."""


class DirectoryEntry(NamedTuple):
    """A subscription in the directory of a rendezvous."""

    item: str
    subscription: Subscription
    home: Address


class DirectoryRegistration(NamedTuple):
    """Put this subscription into the directory; `held` is what its home remembers as delivered."""

    registered: DirectoryEntry
    held: Held = ()


class DirectoryRemoval(NamedTuple):
    """Remove this subscription of that home from the directory."""

    item: str
    name: SubscriptionKey
    home: Address


class RegistrationForward(NamedTuple):
    """A registration on its way from its item's guard to its place, with the latest values of the item."""

    register: DirectoryRegistration
    guard: Address
    latest: tuple[LatestValue, ...] = ()


class GuardedRemoval(NamedTuple):
    """To the guard: remove a subscription at the place of its tolerance."""

    unregister: DirectoryRemoval
    tolerance: float


class UnknownSubscriptions(NamedTuple):
    """From a home to a rendezvous: these subscriptions do not exist here."""

    item: str
    names: tuple[SubscriptionKey, ...]


class PublishedValue(NamedTuple):
    """A value for the node that puts the values of its item in order, numbered by its publisher."""

    item: str
    event: Event
    published: ValueStamp


class ValueNotice(NamedTuple):
    """A value for several homes, with the subscriptions of each that it was selected for."""

    item: str
    event: Event
    stamp: ValueStamp
    wanted: tuple[tuple[Address, tuple[SubscriptionKey, ...]], ...]


class TrackedSubscription:
    """A subscription with the values last delivered to it, as known at its rendezvous or its home."""

    __slots__ = ("change", "delivered", "key", "others", "place", "refreshed", "registered", "rule", "sent")

    def __init__(self, registered: DirectoryEntry, now: float) -> None:
        filters = parse_filters(registered.subscription)
        change = filters.pop("change")
        assert isinstance(change, ChangeFilter)
        self.registered = registered
        self.key = 0
        """The key under which it is kept at its rendezvous."""
        self.change = change
        self.others: tuple[Filter, ...] = tuple(filters.values())
        self.rule: Rule = tuple((kind, filters[kind].text) for kind in sorted(filters))
        """The texts of the other filters: subscriptions with equal ones see the same values."""
        self.delivered: dict[str, LastDelivered] = {}
        """By topic; when a topic is missing, its next value is to be sent."""
        self.sent: dict[str, float] = {}
        """At its rendezvous: when the value last delivered was sent, by topic and the clock here."""
        self.place: dict[str, int] = {}
        """At its home: the place of the value last delivered among the subscriber's deliveries, by topic."""
        self.refreshed = now

    @property
    def name(self) -> SubscriptionKey:
        """What the subscription is known by."""
        return self.registered.subscription.key

    @property
    def least_tolerance(self) -> float:
        """The least of its tolerances, which determines where it is kept."""
        return min(tolerance for _, tolerance in self.change.tolerances)

    def has_decided_on(self, topic: str, stamp: ValueStamp) -> bool:
        """Whether the event of a topic with that stamp, or a later one of the same node, was decided on."""
        return topic in self.delivered and self.delivered[topic].includes(stamp)

    def _last_values(self, topic: str) -> dict[str, float]:
        return dict(self.delivered[topic].values) if topic in self.delivered else {}

    def passes(self, event: Event) -> bool:
        """Whether the event matches the filters other than the tolerance."""
        return all(filter.matches(event) for filter in self.others)

    def takes(self, event: Event, stamp: ValueStamp) -> bool:
        """Whether the event is to be delivered; if so, its values are remembered as delivered."""
        assert event.topic is not None
        last = self._last_values(event.topic)
        taken = self.change.moved(self.change.numbers(event), last) and self.passes(event)
        if taken:
            self.remember(event, stamp)
        return taken

    def remember(self, event: Event, stamp: ValueStamp) -> None:
        """Remember the values of an event as delivered."""
        assert event.topic is not None
        values = {**self._last_values(event.topic), **self.change.numbers(event)}
        self.delivered[event.topic] = LastDelivered(event.topic, tuple(sorted(values.items())), stamp, stamp)

    def learn(self, held: Iterable[LastDelivered], settled: float) -> list[str]:
        """Adopt what the home remembers, except where a newer value may still be on its way to the home.

        A value that was sent after the time `settled`, by the clock here, may still arrive. One that was sent
        before and that the home has not seen is lost, and what is remembered of its topic is forgotten.
        Returns the topics with lost values.
        """
        lost = []
        theirs = {each.topic: each for each in held}
        for topic in [*self.delivered, *(topic for topic in theirs if topic not in self.delivered)]:
            mine, known = self.delivered.get(topic), theirs.get(topic)
            if mine is None or (known is not None and known.includes(mine.stamp)):
                assert known is not None
                self.delivered[topic] = known
            elif self.sent.get(topic, -inf) <= settled:
                del self.delivered[topic]
                lost.append(topic)
        return lost


class StateAwareBroker(RendezvousBroker):
    """A broker of a state-aware network; subclasses decide where subscriptions and values are sent."""

    def __init__(self, ring: Ring, segments: Segments, **options: Any) -> None:
        super().__init__(ring, **options)
        self.segments = segments
        self._own: dict[SubscriptionKey, TrackedSubscription] = {}
        self._numbered = 0
        self.order = PublisherOrder()
        """Of the values that arrive here from their publishers."""
        self.latest = LatestExchange(ring, segments, self.replication, self.tell, self.on_latest)
        """The latest values of the items of which subscriptions may be kept here."""
        self.directory: dict[SubscriptionKey, TrackedSubscription] = {}
        """The subscriptions kept here as a rendezvous."""
        ring.listen(DirectoryRegistration, self._register)
        ring.listen(DirectoryRemoval, lambda message, arrival: self._remove(message.home, [message.name]))
        ring.listen(ValueNotice, self._notified)
        self.node.handle(UnknownSubscriptions, lambda message, sender: self._remove(sender, message.names))
        delay = 0.5 + (self.node.address % 997) / 997 / 2  # so that not all homes send at once
        set_periodic_alarm(self.node, "refresh", self.refresh, self._refresh, delay=delay)
        self.replication.on_change(self._hosted)

    # What clients ask for.

    def subscribe(self, subscription: Subscription) -> None:
        """Register a subscription, or change the one with its key; FilterError without a tolerance."""
        filters = parse_filters(subscription)
        change = filters.get("change")
        if not isinstance(change, ChangeFilter):
            raise FilterError(
                'missing; state-aware dissemination is for tolerances: give one such as {"price": 0.05}',
                field="change",
            )
        if len(change.tolerances) > 1 and not self.several_attributes:
            raise FilterError(
                "names several attributes, which this system cannot keep together; name one, or choose "
                "a system that can (SF, thresholds)",
                field="change",
                text=change.text,
            )
        registered = DirectoryEntry(self.segments.item_for(filters), subscription, self.node.address)
        before = self._own.get(subscription.key)
        if before is not None and before.registered != registered:
            self.unsubscribe(subscription.key)
        self.home.add(subscription)
        own = self._own.setdefault(subscription.key, TrackedSubscription(registered, self.node.now))
        self._announce(own)

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Remove a subscription; UnknownSubscriptionError when it is not at this node."""
        self.home.remove(key)
        self.unregister(self._own.pop(key))

    def publish(self, event: Event) -> None:
        """Deliver the value where it exceeds a tolerance. An event without a topic belongs to no item and is
        dropped, as no subscription can match it."""
        require_readable(event)
        item = self.segments.item_of(event)
        if item is not None:
            self.send_value(item, event, self.stamp())

    def stamp(self) -> ValueStamp:
        """The next stamp of this node."""
        self._numbered += 1
        return ValueStamp(self.node.address, self.ring.incarnation, self._numbered)

    # What the systems differ in.

    several_attributes: ClassVar[bool] = True
    """Whether one subscription may have tolerances on several attributes."""

    @abstractmethod
    def register_key(self, tracked: TrackedSubscription) -> int:
        """The key to whose owner a registration is sent."""

    def unregister(self, own: TrackedSubscription) -> None:
        """Tell the rendezvous that a subscription is removed."""
        item, subscription, home = own.registered
        self.ring.route(self.register_key(own), DirectoryRemoval(item, subscription.key, home))

    def unregister_at_guard(self, own: TrackedSubscription) -> None:
        """The same, where the guard of the item knows at which node the subscription is."""
        item, subscription, home = own.registered
        leave = GuardedRemoval(DirectoryRemoval(item, subscription.key, home), own.least_tolerance)
        self.ring.route(self.segments.start(item), leave)

    @abstractmethod
    def send_value(self, item: str, event: Event, stamp: ValueStamp) -> None:
        """Send a value to the rendezvous nodes of its item."""

    @abstractmethod
    def on_admitted(self, tracked: TrackedSubscription, held: Held | None, *, is_new: bool) -> None:
        """Index a subscription that is new in the directory, or note what its home remembers.

        `held` is None when the subscription was taken over from another node, not sent by its home.
        """

    @abstractmethod
    def on_dismissed(self, tracked: TrackedSubscription, *, moved: bool) -> None:
        """Remove from the index a subscription that was removed, or that another node keeps now (`moved`)."""

    def on_latest(self, item: str) -> None:
        """Give subscriptions that have no value yet the latest values of an item, which were missed here."""
        return

    # The rendezvous.

    def admit(self, key: int, entry: DirectoryEntry, held: Held | None) -> None:
        """Put a subscription into the directory, or replace or refresh it if it is there."""
        name = entry.subscription.key
        tracked = self.directory.get(name)
        if tracked is not None and tracked.registered != entry:
            self.dismiss(name)
            tracked = None
        is_new = tracked is None
        if tracked is None:
            tracked = self.directory[name] = TrackedSubscription(entry, self.node.now)
        tracked.key, tracked.refreshed = key, self.node.now
        self.on_admitted(tracked, held, is_new=is_new)

    def dismiss(self, name: SubscriptionKey, *, moved: bool = False) -> None:
        """Remove a subscription from the directory."""
        self.on_dismissed(self.directory.pop(name), moved=moved)

    def _register(self, message: DirectoryRegistration, arrival: Arrival) -> None:
        self.keep(arrival.keys[0], message)

    def keep(self, key: int, message: DirectoryRegistration) -> None:
        """Put a registration into the directory, and into the replicas, under a key that this node owns."""
        name = message.registered.subscription.key
        tracked = self.directory.get(name)
        if tracked is not None and tracked.key != key:
            before, tracked.key = tracked.key, key
            self.replication.drop(before, name)
        self.admit(key, message.registered, message.held)
        if self.replication.contents(key).get(name) != message.registered:
            self.replication.put(key, name, message.registered)

    def _remove(self, home: Address, names: Iterable[SubscriptionKey]) -> None:
        """Remove subscriptions from the directory at the request of their home."""
        for name in names:
            kept = self.directory.get(name)
            if kept is not None and kept.registered.home == home:
                self._forget(name)

    def _forget(self, name: SubscriptionKey, *, moved: bool = False) -> None:
        key = self.directory[name].key
        self.dismiss(name, moved=moved)
        if name in self.replication.contents(key):
            self.replication.drop(key, name)

    def _hosted(self, key: int, name: Any, entry: Any) -> None:
        """Follow a change of the subscriptions that replication has this node host."""
        if not isinstance(name, SubscriptionKey):
            return
        tracked = self.directory.get(name)
        if entry is None:
            if tracked is not None and tracked.key == key:
                self.dismiss(name, moved=True)
        elif tracked is None or tracked.key != key or tracked.registered != entry:
            self.admit(key, entry, None)

    def notify(self, item: str, event: Event, stamp: ValueStamp, fired: list[TrackedSubscription]) -> None:
        """Send a value to the homes of the subscriptions that it was selected for, by one multicast."""
        assert event.topic is not None
        wanted: dict[Address, list[SubscriptionKey]] = {}
        for tracked in fired:
            tracked.sent[event.topic] = self.node.now
            wanted.setdefault(tracked.registered.home, []).append(tracked.name)
        if wanted:
            listed = tuple((home, tuple(sorted(wanted[home]))) for home in sorted(wanted))
            self.ring.multicast(wanted, ValueNotice(item, event, stamp, listed))

    # The home.

    def _announce(self, own: TrackedSubscription) -> None:
        registration = DirectoryRegistration(own.registered, tuple(own.delivered.values()))
        self.ring.route(self.register_key(own), registration)

    def _notified(self, message: ValueNotice, arrival: Arrival) -> None:
        item, event, stamp, wanted = message
        assert event.topic is not None
        names = [name for home, listed in wanted if home == self.node.address for name in listed]
        taken, unknown = [], []
        for name in names:
            own = self._own.get(name)
            if own is None or own.registered.item != item:
                unknown.append(name)
            elif own.has_decided_on(event.topic, stamp):
                self.correct(own, event.topic, stamp)
            elif self.decide(own, event, stamp):
                taken.append(name)
        self._deliver(event, taken)
        if unknown:
            self.send(arrival.origin, UnknownSubscriptions(item, tuple(unknown)))

    def _deliver(self, event: Event, taken: list[SubscriptionKey]) -> None:
        """Deliver a value for subscriptions that take it, and note where it stands among the deliveries."""
        assert event.topic is not None
        self.home.accept(event, taken)
        for name in taken:
            place = self.home.place_of(event.key, name.subscriber)
            if place is not None:
                self._own[name].place[event.topic] = place

    def _is_superseded(self, own: TrackedSubscription, event: Event) -> bool:
        """Whether the subscriber had this event before the one that the subscription had last."""
        assert event.topic is not None
        place = self.home.place_of(event.key, own.name.subscriber)
        return place is not None and place < own.place.get(event.topic, 0)

    def correct(self, own: TrackedSubscription, topic: str, stamp: ValueStamp) -> None:
        """Tell a rendezvous what was delivered, after it selected a value that was decided on before."""
        if own.delivered[topic].stamp != stamp:
            self._announce(own)

    def decide(self, own: TrackedSubscription, event: Event, stamp: ValueStamp) -> bool:
        """Whether a subscription of this node takes a value that its rendezvous selected it for."""
        if not self._is_superseded(own, event) and own.takes(event, stamp):
            return True
        assert event.topic is not None
        last = own.delivered.get(event.topic)
        if last is not None:
            own.delivered[event.topic] = last._replace(seen=stamp)
        self._announce(own)
        return False

    # Soft state.

    def _refresh(self) -> None:
        assert self.refresh is not None
        for own in list(self._own.values()):
            self._announce(own)
        oldest = self.node.now - PERIODS * self.refresh
        for name in [name for name, kept in self.directory.items() if kept.refreshed < oldest]:
            self._forget(name)
        self.tidy(oldest)

    def tidy(self, oldest: float) -> None:
        """Drop other soft state that was last refreshed before that time."""
        return

    @property
    def settled(self) -> float:
        """Values sent before this time, by the clock here, are no longer on their way."""
        return self.node.now - (self.refresh or 0.0)

"""State-aware dissemination: what its systems have in common.

The state-aware network of the dynamic-filter paper (002) delivers a value only to subscribers that it has
moved too far for. A *rendezvous* is a ring node that keeps, for each subscription in its directory, what was
last delivered; a *home* is the node whose client subscribed. Three systems differ in how a value reaches the
rendezvous: SF (`sf`), MFD (`mfd`), and ours (`thresholds`).

Rules:

- A subscription has a topic that names one data item (`segments`), a tolerance, and any other filters, which
  are evaluated before the tolerance, as its meaning demands.
- Values carry a stamp, the publisher's time, so that they are ordered for each topic. An older value that
  comes after a newer one is dropped: the newer one has said all there is to say. Values of one topic that are
  published further apart than the network is slow are thus all seen, in order.
- The rendezvous preselects, the home decides and remembers (`TrackedSubscription` is the memory on both
  sides). When a home declines what a rendezvous held for wanted, it registers again, with what it remembers.
  A rendezvous that does not know what was delivered, or learns that it never arrived, remembers nothing: so
  the next value is sent, and the home decides.
- Registrations are soft state. With `refresh`, homes repeat them, with what they remember, and a rendezvous
  forgets what was not repeated for a few periods. With replication, what a rendezvous had is taken over when
  it fails, but not what was delivered. Without either, and without faults, only the paper's messages are
  sent.

A home's answer to a value costs nothing: silence means that it was taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from distributary.errors import FilterError, UnknownSubscriptionError
from distributary.filters.change import ChangeFilter
from distributary.filters.filter import Filter
from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription
from distributary.overlay.courier import Courier
from distributary.overlay.node import Address
from distributary.overlay.replication import Replication
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.overlay.ring.upkeep import Upkeep
from distributary.systems.home import Home
from distributary.systems.state_aware.segments import Segments

PERIODS = 3
"""A registration that was not repeated for so many refresh periods is forgotten."""


class ValueStamp(NamedTuple):
    """When a value was published: ordered, and no two are the same.

    The time comes first, so that a publisher that restarts without its state goes on where it was.
    """

    time: float
    number: int
    publisher: Address


BEGINNING = ValueStamp(float("-inf"), 0, 0)


Rule = tuple[tuple[str, str], ...]
"""The filters beside a tolerance: kinds and texts, sorted by kind."""


class LastDelivered(NamedTuple):
    """What a subscription was last delivered for a topic, when that was published, and up to which value it
    has been decided upon."""

    topic: str
    values: tuple[tuple[str, float], ...]
    stamp: ValueStamp
    seen: ValueStamp


class DirectoryEntry(NamedTuple):
    """A subscription in the directory of a rendezvous."""

    item: str
    subscription: Subscription
    home: Address


class DirectoryRegistration(NamedTuple):
    """Keep this subscription; this is what its home remembers."""

    registered: DirectoryEntry
    held: tuple[LastDelivered, ...] = ()


class DirectoryRemoval(NamedTuple):
    """Keep this subscription of that home no longer."""

    item: str
    name: str
    home: Address


class UnknownSubscriptions(NamedTuple):
    """The answer of a home that was told of subscriptions that it does not have."""

    item: str
    names: tuple[str, ...]


class ValueNotice(NamedTuple):
    """A value for homes, with the subscriptions of each that want it."""

    item: str
    event: Event
    stamp: ValueStamp
    wanted: tuple[tuple[Address, tuple[str, ...]], ...]


class TrackedSubscription:
    """A subscription with the memory of what it was delivered, at its rendezvous or at its home."""

    __slots__ = ("change", "held", "others", "refreshed", "registered", "rule")

    def __init__(self, registered: DirectoryEntry, now: float) -> None:
        filters = parse_filters(registered.subscription)
        change = filters.pop("change")
        assert isinstance(change, ChangeFilter)
        self.registered = registered
        self.change = change
        self.others: tuple[Filter, ...] = tuple(filters.values())
        self.rule: Rule = tuple((kind, filters[kind].text) for kind in sorted(filters))
        """What the other filters say: subscriptions that agree in it see the same values."""
        self.held: dict[str, LastDelivered] = {}
        """By topic; where there is nothing, the next value is to be sent."""
        self.refreshed = now

    @property
    def name(self) -> str:
        """The subscription's id."""
        return self.registered.subscription.id

    @property
    def least(self) -> float:
        """The least of its tolerances, which decides where it is kept."""
        return min(tolerance for _, tolerance in self.change.tolerances)

    def passes(self, event: Event) -> bool:
        """Whether the filters beside the tolerance let the event pass."""
        return all(filter.matches(event) for filter in self.others)

    def takes(self, event: Event, stamp: ValueStamp) -> bool:
        """Whether the event is to be delivered; if so it is remembered."""
        assert event.topic is not None
        held = self.held.get(event.topic)
        numbers = self.change.numbers(event)
        last = dict(held.values) if held else {}
        if not self.change.moved(numbers, last) or not self.passes(event):
            return False
        self.remember(event, stamp)
        return True

    def remember(self, event: Event, stamp: ValueStamp) -> None:
        """The event is delivered."""
        assert event.topic is not None
        held = self.held.get(event.topic)
        values = {**(dict(held.values) if held else {}), **self.change.numbers(event)}
        self.held[event.topic] = LastDelivered(event.topic, tuple(sorted(values.items())), stamp, stamp)

    def learn(self, held: Iterable[LastDelivered], settled: float) -> list[str]:
        """What the home remembers goes before what is remembered here, unless values are under way to it.

        What was sent after the time `settled` may still be under way. What was sent before and has not been
        seen is lost: then nothing is remembered. Returns the topics of which something was lost.
        """
        lost = []
        theirs = {each.topic: each for each in held}
        for topic in [*self.held, *(topic for topic in theirs if topic not in self.held)]:
            mine, known = self.held.get(topic), theirs.get(topic)
            seen = known.seen if known else BEGINNING
            if mine is None or mine.stamp <= seen:
                assert known is not None
                self.held[topic] = known
            elif mine.stamp.time <= settled:
                del self.held[topic]
                lost.append(topic)
        return lost


class StateAwareBroker(ABC):
    """A broker of a state-aware network; subclasses say where subscriptions and values go.

    `courier` carries what is sent directly to a node, `replication` keeps copies of directories, `upkeep` is
    told when the node leaves; all three belong to the same ring. `refresh` is the period in seconds at which
    homes repeat their registrations.
    """

    def __init__(
        self,
        ring: Ring,
        segments: Segments,
        *,
        courier: Courier | None = None,
        replication: Replication | None = None,
        upkeep: Upkeep | None = None,
        refresh: float | None = None,
    ) -> None:
        self.ring = ring
        self.node = ring.node
        self.segments = segments
        self.refresh = refresh
        self.home = Home(self.node)
        self._send = courier.send if courier else self.node.send
        self._own: dict[str, TrackedSubscription] = {}
        self._published = 0
        self._replication = replication
        self._upkeep = upkeep
        self._keys: dict[str, int] = {}
        """Under which key each subscription of the directory is kept."""
        ring.listen(DirectoryRegistration, self._register)
        ring.listen(DirectoryRemoval, self._unregister)
        ring.listen(ValueNotice, self._notified)
        self.node.handle(UnknownSubscriptions, self._gone)
        self.node.at_alarm("refresh", self._refresh)
        self.node.at_start(self._begin)
        if replication:
            replication.on_change(self._hosted)
            if upkeep:
                upkeep.on_leave(replication.hand_over)

    # What clients ask for.

    def subscribe(self, subscription: Subscription) -> None:
        """Register a subscription, or change the one with its id; FilterError without a tolerance."""
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
        before = self._own.get(subscription.id)
        if before is not None and before.registered != registered:
            self.unsubscribe(subscription.id)
        self.home.add(subscription)
        own = self._own.setdefault(subscription.id, TrackedSubscription(registered, self.node.now))
        self._announce(own)

    def unsubscribe(self, subscription_id: str) -> None:
        """Give up a subscription; UnknownSubscriptionError when it is not a client's of this node."""
        own = self._own.pop(subscription_id, None)
        if own is None:
            raise UnknownSubscriptionError(subscription_id)
        self.home.remove(subscription_id)
        self.unregister(own)

    def publish(self, event: Event) -> None:
        """Have the value delivered to whoever it has moved too far for. An event without a topic is no value
        of any item, and nobody can have asked for it."""
        item = self.segments.item_of(event)
        if item is not None:
            self._published += 1
            self.send_value(item, event, ValueStamp(self.node.now, self._published, self.node.address))

    def leave(self) -> None:
        """Leave the ring in good order; the clients have gone to other brokers."""
        if self._upkeep:
            self._upkeep.leave()

    # What the systems differ in.

    several_attributes: ClassVar[bool] = True
    """Whether one subscription may have tolerances on several attributes."""

    @abstractmethod
    def register_key(self, standing: TrackedSubscription) -> int:
        """To the owner of which key a registration is sent."""

    def unregister(self, own: TrackedSubscription) -> None:
        """Tell the rendezvous of a subscription that it is given up."""
        item, subscription, home = own.registered
        self.ring.route(self.register_key(own), DirectoryRemoval(item, subscription.id, home))

    @abstractmethod
    def send_value(self, item: str, event: Event, stamp: ValueStamp) -> None:
        """Send a value on its way."""

    @abstractmethod
    def admit(self, registered: DirectoryEntry, held: tuple[LastDelivered, ...] | None) -> None:
        """Have a subscription in the directory, or learn what its home says of one that is there; None when
        it was taken over and the home has said nothing."""

    @abstractmethod
    def dismiss(self, name: str, *, moved: bool = False) -> None:
        """Have a subscription in the directory no longer: it is given up, or it is another node's now."""

    @abstractmethod
    def directory(self) -> dict[str, TrackedSubscription]:
        """The subscriptions kept here, by id."""

    # The rendezvous.

    def _register(self, message: DirectoryRegistration, arrival: Arrival) -> None:
        self.keep(arrival.keys[0], message)

    def keep(self, key: int, message: DirectoryRegistration) -> None:
        """Put a registration into the directory under a key that this node owns."""
        name = message.registered.subscription.id
        before = self._keys.get(name, key)
        self._keys[name] = key
        if self._replication and before != key:
            self._replication.drop(before, name)
        self.admit(message.registered, message.held)
        if self._replication and self._replication.contents(key).get(name) != message.registered:
            self._replication.put(key, name, message.registered)

    def _unregister(self, message: DirectoryRemoval, arrival: Arrival) -> None:
        kept = self.directory().get(message.name)
        if kept is not None and kept.registered.home == message.home:
            self._forget(message.name)

    def _gone(self, message: UnknownSubscriptions, sender: Address) -> None:
        for name in message.names:
            kept = self.directory().get(name)
            if kept is not None and kept.registered.home == sender:
                self._forget(name)

    def _forget(self, name: str) -> None:
        key = self._keys.pop(name, None)
        if name in self.directory():
            self.dismiss(name)
        if key is not None and self._replication and name in self._replication.contents(key):
            self._replication.drop(key, name)

    def _hosted(self, key: int, name: Any, entry: DirectoryEntry | None) -> None:
        """The replicas have changed what is hosted here."""
        if entry is None:
            if self._keys.get(name) == key:
                del self._keys[name]
                self.dismiss(name, moved=True)
        elif self._keys.get(name) != key or self.directory()[name].registered != entry:
            self._keys[name] = key
            self.admit(entry, None)

    def notify(
        self, item: str, event: Event, stamp: ValueStamp, fired: Iterable[TrackedSubscription]
    ) -> None:
        """Send a value to the homes of those that want it, by one multicast."""
        wanted: dict[Address, list[str]] = {}
        for standing in fired:
            wanted.setdefault(standing.registered.home, []).append(standing.name)
        if wanted:
            listed = tuple((home, tuple(sorted(wanted[home]))) for home in sorted(wanted))
            self.ring.multicast(wanted, ValueNotice(item, event, stamp, listed))

    # The home.

    def _announce(self, own: TrackedSubscription) -> None:
        self.ring.route(
            self.register_key(own), DirectoryRegistration(own.registered, tuple(own.held.values()))
        )

    def _notified(self, message: ValueNotice, arrival: Arrival) -> None:
        item, event, stamp, wanted = message
        names = [name for home, listed in wanted if home == self.node.address for name in listed]
        taken, strangers = [], []
        for name in names:
            own = self._own.get(name)
            if own is None or own.registered.item != item:
                strangers.append(name)
            elif self._is_new(own, event, stamp) and self.decide(own, event, stamp):
                taken.append(name)
        self.home.accept(event, taken)
        if strangers:
            self._send(arrival.origin, UnknownSubscriptions(item, tuple(strangers)))

    def _is_new(self, own: TrackedSubscription, event: Event, stamp: ValueStamp) -> bool:
        assert event.topic is not None
        held = own.held.get(event.topic)
        return held is None or held.seen < stamp

    def decide(self, own: TrackedSubscription, event: Event, stamp: ValueStamp) -> bool:
        """Whether a subscription of this node takes a value that its rendezvous holds for wanted."""
        if own.takes(event, stamp):
            return True
        assert event.topic is not None
        held = own.held.get(event.topic)
        if held is not None:
            own.held[event.topic] = held._replace(seen=stamp)
        self._announce(own)
        return False

    # Soft state.

    def _begin(self) -> None:
        if self.refresh is not None:
            share = (self.node.address % 997) / 997  # so that not all homes speak at once
            self.node.wake_after(self.refresh * (0.5 + share / 2), "refresh")

    def _refresh(self, about: None) -> None:
        assert self.refresh is not None
        for own in list(self._own.values()):
            self._announce(own)
        oldest = self.node.now - PERIODS * self.refresh
        for name in [name for name, kept in self.directory().items() if kept.refreshed < oldest]:
            self._forget(name)
        self.tidy(oldest)
        self.node.wake_after(self.refresh, "refresh")

    def tidy(self, oldest: float) -> None:
        """Forget what else has not been refreshed since."""
        return

    @property
    def settled(self) -> float:
        """Values that were published until then are no longer under way."""
        return self.node.now - (self.refresh or 0.0)

"""What a client has received, and what it presents to go on where it was.

Rules:

- Deliveries of a network with a log carry their offset. What is not above the offset of the last one, in the
  same epoch, has been received before and is dropped; so is an event whose key is among the last
  `REMEMBERED`, for in another epoch the same event may have another number.
- There are two places: up to where everything was *received*, with which the client goes on after a broken
  connection, and up to where everything was *taken* by the application, which is what it may save. A delivery
  is taken when every subscription that it came for has handed it out, and all before it are taken.
- With each place belong the values that subscriptions with tolerances were last given, by topic.

Cost of a delivery: a few dictionary entries. Memory: the keys of `REMEMBERED` events, and what is not taken.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distributary.errors import DistributaryError
from distributary.filters.change import ChangeFilter
from distributary.model import (
    DeliveryBatch,
    Event,
    EventIdentity,
    EventKey,
    Offset,
    Subscription,
    key_of,
)
from distributary.overlay.broker import RememberedValues, SessionState
from distributary.overlay.packed_events import identities_of

REMEMBERED = 10_000
"""Events whose keys are remembered."""


@dataclass
class SessionPlace:
    """Up to where everything is known, and the values that tolerances start from there."""

    offset: Offset | None = None
    last: dict[tuple[str, str | None], dict[str, float]] = field(default_factory=dict)

    def advance(self, delivery: ClientItem) -> None:
        """Come to a delivery: those are next that come after it."""
        self.reach(delivery.offset)
        for id, numbers in delivery.numbers.items():
            self.last.setdefault((id, delivery.topic), {}).update(numbers)

    def reach(self, offset: Offset | None) -> None:
        """Come to an offset, unless this place is beyond it."""
        if offset is not None and (self.offset is None or offset > self.offset):
            self.offset = offset

    def forget(self, id: str) -> None:
        """Forget what a subscription was given."""
        self.last = {key: values for key, values in self.last.items() if key[0] != id}

    def state(self, subscriptions: Iterable[Subscription]) -> SessionState:
        """What a broker needs to know to go on from here."""
        wanted = tuple(subscriptions)
        ids = {each.id for each in wanted}
        last = tuple(
            RememberedValues(id, topic, tuple(sorted(values.items())))
            for (id, topic), values in self.last.items()
            if id in ids
        )
        return SessionState(wanted, self.offset, last)


@dataclass
class ClientItem:
    """Something that was received: how many subscriptions have not handed it out, and what it changes."""

    offset: Offset | None
    topic: str | None = None
    numbers: Mapping[str, dict[str, float]] = field(default_factory=dict)
    """By subscriptions with tolerances what they were given."""
    left: int = 0


class ClientSession:
    """What one client knows of itself.

    >>> session = ClientSession()
    >>> session.begin(Subscription("s1", "ann", topic="A"))
    >>> _, item = session.receive(Event("e1", "A"), ("s1",), Offset(1.0, 5))
    >>> session.received.offset, session.taken.offset
    (Offset(epoch=1.0, number=5), None)
    >>> session.take(item)
    >>> session.taken.offset
    Offset(epoch=1.0, number=5)
    >>> session.receive(Event("e1", "A"), ("s1",), Offset(1.0, 5))[0]
    ()
    """

    def __init__(self, state: SessionState | None = None) -> None:
        self._subscriptions: dict[str, Subscription] = {}
        self._tolerances: dict[str, ChangeFilter] = {}
        self._received, self._taken = SessionPlace(), SessionPlace()
        self._items: deque[ClientItem] = deque()
        self._keys: OrderedDict[EventKey, set[str]] = OrderedDict()
        self._runs: deque[tuple[Sequence[EventIdentity], tuple[str, ...]]] = deque()
        """What came after those whose keys are remembered: they are added when a key is asked for."""
        self._run_events = 0
        if state is not None:
            for subscription in state.subscriptions:
                self.begin(subscription)
            for place in (self._received, self._taken):
                place.offset = state.offset
                place.last = {(id, topic): dict(values) for id, topic, values in state.last}

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions in force, by id."""
        return self._subscriptions

    @property
    def received(self) -> SessionState:
        """What was received: with this the client goes on at another connection."""
        return self._received.state(self._subscriptions.values())

    @property
    def taken(self) -> SessionState:
        """What the application has taken: with this another process goes on."""
        return self._taken.state(self._subscriptions.values())

    def last(self, id: str) -> dict[str | None, dict[str, float]]:
        """The values that a subscription with a tolerance was last given, by topic."""
        return {topic: dict(values) for (name, topic), values in self._received.last.items() if name == id}

    def begin(self, subscription: Subscription) -> None:
        """A subscription is in force."""
        self._subscriptions[subscription.id] = subscription
        self.expect(subscription)

    def expect(self, subscription: Subscription) -> None:
        """A subscription is asked for: what comes for it counts, though it may not be in force yet."""
        if subscription.change is not None:
            self._tolerances[subscription.id] = ChangeFilter.parse(subscription.change)

    def end(self, id: str) -> None:
        """A subscription is withdrawn."""
        self._subscriptions.pop(id, None)
        self._tolerances.pop(id, None)
        self._received.forget(id)
        self._taken.forget(id)

    def receive(
        self, event: Event, ids: tuple[str, ...], offset: Offset | None
    ) -> tuple[tuple[str, ...], ClientItem]:
        """For which of its subscriptions a delivery is new, and what is to be taken by each of them."""
        new = self._new(event, ids, offset)
        numbers = {id: self._tolerances[id].numbers(event) for id in new if id in self._tolerances}
        item = ClientItem(offset, event.topic, numbers, len(new))
        if new:
            self._received.advance(item)
        self._received.reach(offset)
        self._items.append(item)
        self._settle()
        return new, item

    def receive_run(self, batch: DeliveryBatch) -> bool:
        """Receive deliveries that came together, and take them; whether that was done.

        It is done where all are new for the same subscriptions, as almost always, and none has a tolerance:
        otherwise nothing has happened, and they are to be received one by one.
        """
        own, names = self._received.offset, batch.names
        if own is None or own.epoch != batch.epoch or batch.numbers[0] <= own.number:
            return False  # in another epoch they may be some that came before
        if len(names) > 1 or self._items or (self._tolerances and self._tolerances.keys() & names[0]):
            return False
        offset = Offset(batch.epoch, batch.numbers[-1])
        self._received.offset = self._taken.offset = offset
        self._runs.append((identities_of(batch.events), names[0]))
        self._run_events += len(batch.events)
        while self._run_events - len(self._runs[0][0]) >= REMEMBERED:
            self._run_events -= len(self._runs.popleft()[0])
        return True

    def receive_all(self, batch: DeliveryBatch) -> None:
        """Receive deliveries that came together, and take those that are new."""
        if self.receive_run(batch):
            return
        for each in batch.deliveries:
            new, item = self.receive(each.event, each.subscriptions, each.offset)
            for _ in new:
                self.take(item)

    def reach(self, offset: Offset) -> None:
        """Everything up to there has been received."""
        self._received.reach(offset)
        self._items.append(ClientItem(offset))
        self._settle()

    def take(self, item: ClientItem) -> None:
        """One subscription has handed a delivery out, or never will."""
        item.left -= 1
        self._settle()

    def _new(self, event: Event, ids: tuple[str, ...], offset: Offset | None) -> tuple[str, ...]:
        own = self._received.offset
        if offset is None:
            return ids
        if own is not None and offset.epoch == own.epoch and offset.number <= own.number:
            return ()
        if self._runs:
            self._remember_runs()
        known = self._keys.pop(event.key, set())
        new = tuple(id for id in ids if id not in known)
        self._keys[event.key] = known | set(ids)
        if len(self._keys) > REMEMBERED:
            self._keys.popitem(last=False)
        return new

    def _remember_runs(self) -> None:
        """Remember the keys of what came together, the latest last."""
        for identities, ids in self._runs:
            for identity in identities:
                self._keys[key_of(identity)] = set(ids)
        self._runs.clear()
        self._run_events = 0
        while len(self._keys) > REMEMBERED:
            self._keys.popitem(last=False)

    def _settle(self) -> None:
        items = self._items
        while items and items[0].left <= 0:
            self._taken.advance(items.popleft())


# In JSON.


def session_record(session: SessionState) -> dict[str, Any]:
    """A session as a record that JSON can hold.

    >>> record = session_record(SessionState((Subscription("s1", "ann", topic="A"),), Offset(2.5, 7)))
    >>> read_session(record).offset
    Offset(epoch=2.5, number=7)
    """
    return {
        "subscriptions": [subscription.to_record() for subscription in session.subscriptions],
        "offset": None if session.offset is None else list(session.offset),
        "last": [[id, topic, dict(values)] for id, topic, values in session.last],
    }


def read_session(record: Mapping[str, Any]) -> SessionState:
    """The session of a record; DistributaryError when it is none."""
    try:
        offset = record["offset"]
        return SessionState(
            tuple(map(Subscription.from_record, record["subscriptions"])),
            None if offset is None else Offset(float(offset[0]), int(offset[1])),
            tuple(
                RememberedValues(str(id), topic, tuple((str(name), float(n)) for name, n in values.items()))
                for id, topic, values in record["last"]
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DistributaryError(f"this is no session: {type(error).__name__}: {error}") from error

"""SF, single-level filtering: every value goes to the whole segment of its item.

Section 4.3.2 of the dynamic-filter paper. A subscription is kept at h(d, c), by its tolerance c. Each value
is multicast to the item's segment; every node there compares it with its whole directory, and sends it by one
multicast to the homes of the subscriptions whose tolerance it exceeds.

Every node of the segment puts values in the order in which they arrive there, and keeps the latest: a new
subscription gets it at once. Of publishers that race, nodes of one segment may thus see different ones last.

A publication costs the route to the segment, one message for each node of it, and the multicast to the homes;
comparing takes time proportional to the directory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from distributary.model import Event, SubscriptionKey
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.state_aware.broker import Held, StateAwareBroker, TrackedSubscription
from distributary.systems.state_aware.order import LatestValue, ValueStamp
from distributary.systems.state_aware.segments import Segments


class Value(NamedTuple):
    """A value for every node of an item's segment."""

    item: str
    event: Event
    published: ValueStamp


class SFBroker(StateAwareBroker):
    """A node of an SF network."""

    def __init__(self, ring: Ring, segments: Segments, **options: Any) -> None:
        self._items: dict[str, dict[SubscriptionKey, TrackedSubscription]] = {}
        super().__init__(ring, segments, **options)
        ring.listen(Value, self._receive_value)

    def register_key(self, tracked: TrackedSubscription) -> int:
        return self.segments.place(tracked.registered.item, tracked.least_tolerance)

    def send_value(self, item: str, event: Event, published: ValueStamp) -> None:
        start = self.segments.start(item)
        self.ring.multicast_segment(start, self.segments.length, Value(item, event, published))

    def on_admitted(self, tracked: TrackedSubscription, held: Held | None, *, is_new: bool) -> None:
        item = tracked.registered.item
        if is_new:
            self._items.setdefault(item, {})[tracked.name] = tracked
        if held is None:
            return
        tracked.learn(held, self.settled)
        self.on_learnt(tracked)

    def on_learnt(self, tracked: TrackedSubscription) -> None:
        """Give a subscription whose home has told what it remembers the latest values that it lacks."""
        item = tracked.registered.item
        self.latest.need(item)
        self._begin_with_latest(item, tracked)

    def on_latest(self, item: str) -> None:
        for tracked in self._items.get(item, {}).values():
            self._begin_with_latest(item, tracked)

    def _begin_with_latest(self, item: str, tracked: TrackedSubscription) -> None:
        self.begin_with(tracked, self.latest.of(item))

    def begin_with(self, tracked: TrackedSubscription, latest: Iterable[LatestValue]) -> None:
        """Give a subscription the latest values of the topics of which it has none."""
        for event, stamp in latest:
            if event.topic not in tracked.delivered and tracked.takes(event, stamp):
                self.notify(tracked.registered.item, event, stamp, [tracked])

    def on_dismissed(self, tracked: TrackedSubscription, *, moved: bool) -> None:
        item = tracked.registered.item
        del self._items[item][tracked.name]
        if not self._items[item]:
            del self._items[item]

    def _receive_value(self, message: Value, arrival: Arrival) -> None:
        item, event, published = message
        assert event.topic is not None
        if not self.order.admits(event.topic, published):
            return
        stamp = self.stamp()
        self.latest.keep(item, event, stamp)
        self.filter(item, event, stamp)

    def filter(self, item: str, event: Event, stamp: ValueStamp) -> None:
        """Send a value to the homes of the subscriptions here that take it."""
        subscriptions = self._items.get(item, {})
        self.notify(item, event, stamp, [each for each in subscriptions.values() if each.takes(event, stamp)])

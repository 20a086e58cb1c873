"""SF with segments whose length follows their work (`surveyed`).

Unlike SF's publishers, the guard puts the values of its item in order, and keeps the latest.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from distributary.model import Event
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.state_aware.broker import PublishedValue, TrackedSubscription
from distributary.systems.state_aware.lengths.change import PATIENCE, HandBackRequest
from distributary.systems.state_aware.lengths.surveyed import SurveyedBroker
from distributary.systems.state_aware.order import LatestValue, ValueStamp
from distributary.systems.state_aware.segments import Segments
from distributary.systems.state_aware.sf import SFBroker, Value


class BalancedSF(SurveyedBroker, SFBroker):
    """A node of an SF network in which each item's segment has its own length."""

    def __init__(self, ring: Ring, segments: Segments, **options: Any) -> None:
        self._seen: dict[str, ValueStamp] = {}
        """By topic, the guard's stamp of the latest value."""
        self._cast: deque[tuple[float, str, str, ValueStamp]] = deque()
        """The values that this guard cast in the last seconds: when, item, topic and stamp."""
        ring.listen(PublishedValue, self._order)
        super().__init__(ring, segments, **options)

    def send_value(self, item: str, event: Event, published: ValueStamp) -> None:
        self.ring.route(self.segments.start(item), PublishedValue(item, event, published))

    def _order(self, message: PublishedValue, arrival: Arrival) -> None:
        """As the guard: put a value in order, and cast it to the segment."""
        item, event, published = message
        assert event.topic is not None
        if self.order.admits(event.topic, published):
            stamp = self.stamp()
            self.latest.keep(item, event, stamp)
            self._cast.append((self.node.now, item, event.topic, stamp))
            self._drop_old()
            value = Value(item, event, stamp)
            self.ring.multicast_segment(self.segments.start(item), self.guarded(item).reached, value)
            self.measure(item)

    def _receive_value(self, message: Value, arrival: Arrival) -> None:
        item, event, stamp = message
        assert event.topic is not None
        if stamp.is_newer(self._seen.get(event.topic)):
            self._seen[event.topic] = stamp
            self.filter(item, event, stamp)
            self.look_again(item)

    def has_seen(self, topic: str, stamp: ValueStamp) -> bool:
        return not stamp.is_newer(self._seen.get(topic))

    def ask_back(self, request: HandBackRequest) -> None:
        """Ask for subscriptions behind the values that may still be on their way."""
        self._drop_old()
        after = {topic: stamp for _, item, topic, stamp in self._cast if item == request.item}
        super().ask_back(request._replace(after=tuple(after.items())))

    def _drop_old(self) -> None:
        """Forget the values that have arrived by now."""
        while self._cast and self._cast[0][0] <= self.node.now - PATIENCE:
            self._cast.popleft()

    def on_learnt(self, tracked: TrackedSubscription) -> None:
        return  # the guard sends the latest values along

    def latest_for(self, item: str) -> tuple[LatestValue, ...]:
        return tuple(self.latest.of(item))

    def begin_kept(self, tracked: TrackedSubscription, latest: tuple[LatestValue, ...]) -> None:
        self.begin_with(tracked, latest)

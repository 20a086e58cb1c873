"""Retained messages: the last message of each topic that was published to be kept, for new subscriptions.

Rules:

- Every broker of a network has them all: each asks the network for retained messages, as a subscriber of its
  own, and keeps the last one of each topic. An empty payload removes what is kept of its topic.
- They are kept on the disk with how far the network's log had come. A broker that was away is given what it
  has missed. One that is new in a network knows the messages that were retained since it joined.
- A message that has expired is not given to anybody any more.
- There are bounds on their number and their bytes. What does not fit is delivered and not kept, nor is an
  older message of its topic; the first such message is told, and those that have expired make room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from distributary.edge.broker import EdgeBroker
from distributary.edge.mqtt.messages import RETAIN, RETAINED, expiry_of
from distributary.edge.payloads import payload_of
from distributary.edge.stored import StoredPlace, StoredRetained
from distributary.filters.profile import Profile
from distributary.live.runner import Disk
from distributary.model import Delivery, DeliveryBatch, Event, Offset, Subscription
from distributary.overlay.broker import LogGap, SessionState
from distributary.overlay.node import Message, Store
from distributary.overlay.packed_events import chosen, topics_of

NAME, PLACE = "retained/", "retained-place"
"""Names on the disk."""
BETWEEN_SEARCHES = 60.0
"""Seconds from one search for expired messages to the next, while there is no room."""


class RetainedBounds(NamedTuple):
    """How much a broker retains."""

    messages: int = 100_000
    bytes: int = 256 << 20
    """Of topics and payloads."""


class _Retained(NamedTuple):
    event: Event
    size: int
    """Bytes of its topic and payload."""


class RetainedMessages:
    """The retained messages that a broker knows. A client of the broker in its own process."""

    def __init__(
        self,
        broker: EdgeBroker,
        now: Callable[[], float],
        disk: Disk | None,
        notice: Callable[[str], None],
        bounds: RetainedBounds,
    ) -> None:
        self._broker, self._now, self._disk, self._notice = broker, now, disk, notice
        self._bounds = bounds
        self._events: dict[str, _Retained] = {}
        self._bytes = 0
        self._full = False
        """Whether there was no room for the last message of a new topic."""
        self._searched = float("-inf")
        """When expired messages were last looked for."""
        self._reached: Offset | None = None
        self._subscriber = f"$retained/{broker.name}"

    def __len__(self) -> int:
        return len(self._events)

    def start(self, stored: Mapping[str, Message]) -> None:
        """Take up what was kept, and ask the network for what comes next."""
        for name, value in stored.items():
            if isinstance(value, StoredRetained):
                self._put(name.removeprefix(NAME), value.event, len(payload_of(value.event)))
            elif name == PLACE and isinstance(value, StoredPlace):
                self._reached = value.offset
        self._broker.admit(self._subscriber, self)
        asked = Subscription("retained", self._subscriber, where=f"{RETAIN} = true")
        self._broker.register(SessionState((asked,), self._reached, ()), self._registered)

    def _registered(self, reason: str | None) -> None:
        if reason is not None:
            self._notice(f"messages are not retained: {reason}")

    def matching(self, subscription: Subscription) -> Iterator[Event]:
        """The retained messages that a subscription lets pass, marked as such."""
        wanted, now = Profile.of(subscription), self._now()
        topic = (subscription.topic or "").removeprefix("mqtt:")
        if "+" not in topic and "#" not in topic and subscription.topic is not None:
            candidates = [self._events[topic]] if topic in self._events else []
        else:
            candidates = list(self._events.values())
        for event, _ in candidates:
            if not _has_expired(event, now) and wanted.matches(event):
                yield replace(event, attributes={**event.attributes, RETAINED: True})

    # As a client of the broker.

    @property
    def paused(self) -> bool:
        """It does not publish."""
        return False

    def give(self, delivery: Delivery | DeliveryBatch) -> None:
        """Keep retained messages, the last of each topic."""
        if isinstance(delivery, DeliveryBatch):
            deliveries = self._last_of_each_topic(delivery).deliveries
        else:
            deliveries = [delivery]
        stores: dict[str, StoredRetained | None] = {}
        for event, _, _, offset in deliveries:
            if event.topic is None or not self._advance(offset):
                continue
            payload = payload_of(event)
            self._remove(event.topic)
            stores[NAME + event.topic] = None
            if payload and self._has_room(event.topic, len(payload), stores):
                self._put(event.topic, event, len(payload))
                stores[NAME + event.topic] = StoredRetained(event, offset)
        self._keep([Store(name, kept) for name, kept in stores.items()])

    def _put(self, topic: str, event: Event, payload: int) -> None:
        size = len(topic) + payload
        self._events[topic] = _Retained(event, size)
        self._bytes += size

    def _remove(self, topic: str) -> None:
        if (removed := self._events.pop(topic, None)) is not None:
            self._bytes -= removed.size

    def _has_room(self, topic: str, payload: int, stores: dict[str, StoredRetained | None]) -> bool:
        """Whether one more fits; if need be after those are removed that have expired."""
        if self._fits(topic, payload):
            self._full = False
            return True
        if self._now() >= self._searched + BETWEEN_SEARCHES:
            self._searched = self._now()
            for each in [
                name for name, (event, _) in self._events.items() if _has_expired(event, self._now())
            ]:
                self._remove(each)
                stores[NAME + each] = None
            if self._fits(topic, payload):
                return True
        if not self._full:
            self._full = True
            self._notice(
                f"{len(self._events):,} messages with {self._bytes:,} bytes are retained, and there is no"
                f" room for that of {topic!r}: remove some with empty retained messages, or let them expire"
            )
        return False

    def _fits(self, topic: str, payload: int) -> bool:
        within = self._bytes + len(topic) + payload <= self._bounds.bytes
        return within and len(self._events) < self._bounds.messages

    def _last_of_each_topic(self, batch: DeliveryBatch) -> DeliveryBatch:
        """Of what came together, what later messages do not replace; all of it where some came before."""
        reached = self._reached
        if reached is not None and Offset(batch.epoch, batch.numbers[0]) <= reached:
            return batch
        last = {topic: place for place, topic in enumerate(topics_of(batch.events))}
        places = sorted(last.values())
        names = batch.names if len(batch.names) == 1 else tuple(batch.names[place] for place in places)
        numbers = tuple(batch.numbers[place] for place in places)
        return batch._replace(numbers=numbers, events=chosen(batch.events, places), names=names)

    def _advance(self, offset: Offset | None) -> bool:
        """Come to an offset; whether it is a new one."""
        if offset is not None:
            if self._reached is not None and offset <= self._reached:
                return False
            self._reached = offset
        return True

    def _keep(self, stores: list[Store]) -> None:
        if self._disk is not None:
            stores.append(Store(PLACE, StoredPlace(self._reached, (), 0)))
            self._disk.write(stores, lambda: None)

    def miss(self, gap: LogGap) -> None:
        """Messages that were retained while the broker was away are no longer in the network's log."""
        self._advance(gap.through)
        self._notice("retained messages may be out of date: the network's log no longer has some of them")

    def tell_progress(self) -> None:
        """Keep how far the network has come, when nothing was retained for a while."""
        reached = self._broker.reached(self._subscriber)
        if reached is not None and reached != self._reached:
            self._broker.in_turn(lambda: self._keep([]) if self._advance(reached) else None)

    def let_go(self, reason: str, *, final: bool = False) -> None:
        """The broker ends."""


def _has_expired(event: Event, now: float) -> bool:
    expires = expiry_of(event)
    return expires is not None and expires <= now

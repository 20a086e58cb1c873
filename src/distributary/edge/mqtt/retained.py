"""Retained messages: the last message of each topic that was published to be kept, for new subscriptions.

Rules:

- Every broker of a network has them all: each asks the network for retained messages, as a subscriber of its
  own, and keeps the last one of each topic. An empty payload removes what is kept of its topic.
- They are kept on the disk with how far the network's log had come. A broker that was away is given what it
  has missed. One that is new in a network knows the messages that were retained since it joined.
- A message that has expired is not given to anybody any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

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


class RetainedMessages:
    """The retained messages that a broker knows. A client of the broker in its own process."""

    def __init__(
        self, broker: EdgeBroker, now: Callable[[], float], disk: Disk | None, notice: Callable[[str], None]
    ) -> None:
        self._broker, self._now, self._disk, self._notice = broker, now, disk, notice
        self._events: dict[str, tuple[Event, Offset | None]] = {}
        self._reached: Offset | None = None
        self._subscriber = f"$retained/{broker.name}"

    def __len__(self) -> int:
        return len(self._events)

    def start(self, stored: Mapping[str, Message]) -> None:
        """Take up what was kept, and ask the network for what comes next."""
        for name, value in stored.items():
            if isinstance(value, StoredRetained):
                self._events[name.removeprefix(NAME)] = value.event, value.offset
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
            expires = expiry_of(event)
            if (expires is None or expires > now) and wanted.matches(event):
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
            kept: StoredRetained | None = None
            if payload_of(event):
                self._events[event.topic] = event, offset
                kept = StoredRetained(event, offset)
            else:
                self._events.pop(event.topic, None)
            stores[NAME + event.topic] = kept
        self._keep([Store(name, kept) for name, kept in stores.items()])

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

"""The latest events that passed through the network, gathered while somebody looks at them.

The node asks for all events, as a subscriber of its own, from when the first page is opened to when the last
one is closed: a console that nobody looks at costs a network nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from distributary.edge.broker import EdgeBroker
from distributary.model import Delivery, DeliveryBatch, Event, Subscription
from distributary.overlay.broker import LogGap, SessionState

MOST = 1_000
"""Events that are remembered."""
EVERYTHING = "everything"


class RecentEvent(NamedTuple):
    """An event, with its number among all that were seen here, and when it was seen."""

    number: int
    at: float
    event: Event


class RecentEvents:
    """Gathers events for the pages that are open, as a client of the broker (`edge.broker.LocalClient`)."""

    def __init__(self, broker: EdgeBroker, now: Callable[[], float], most: int = MOST) -> None:
        self._broker, self._now = broker, now
        self._subscriber = f"$console/{broker.name}"
        self._events: deque[RecentEvent] = deque(maxlen=most)
        self._watchers = 0
        self.seen = 0
        """How many events were seen so far."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Gather events for as long as this lasts."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def begin(self) -> None:
        """Somebody begins to look."""
        self._watchers += 1
        if self._watchers == 1:
            self._broker.admit(self._subscriber, self)
            state = SessionState((Subscription(EVERYTHING, self._subscriber, where="true"),))
            self._broker.register(state, lambda reason: None)

    def end(self) -> None:
        """Somebody looks no more."""
        self._watchers -= 1
        if self._watchers == 0:
            self._broker.withdraw(Subscription(EVERYTHING, self._subscriber, where="true").key)
            self._broker.dismiss(self._subscriber, self)

    def after(self, number: int) -> list[RecentEvent]:
        """Those that came after one, the latest last."""
        return [each for each in self._events if each.number > number]

    @property
    def paused(self) -> bool:
        """It publishes nothing."""
        return False

    def give(self, delivery: Delivery | DeliveryBatch) -> None:
        """Remember events."""
        events = delivery.events if isinstance(delivery, DeliveryBatch) else [delivery.event]
        for event in events:
            self.seen += 1
            self._events.append(RecentEvent(self.seen, self._now(), event))

    def miss(self, gap: LogGap) -> None:
        """Nothing was missed by somebody who looks at what comes."""

    def tell_progress(self) -> None:
        """Nobody goes on from here."""

    def let_go(self, reason: str, *, final: bool = False) -> None:
        """The broker ends."""

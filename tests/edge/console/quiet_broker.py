"""A broker that does as it is asked at once and delivers nothing by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from distributary.edge.broker import Answer, LocalClient
from distributary.model import Event, Offset, SubscriptionKey
from distributary.overlay.broker import SessionState, ToleranceStart


class QuietBroker:
    """Notes who is registered."""

    name = "quiet"
    congested = False

    def __init__(self) -> None:
        self.clients: dict[str, LocalClient] = {}
        self.registered: set[SubscriptionKey] = set()

    def admit(self, subscriber: str, client: LocalClient) -> None:
        self.clients[subscriber] = client

    def dismiss(self, subscriber: str, client: LocalClient) -> None:
        self.clients.pop(subscriber)

    def register(self, session: SessionState, done: Answer) -> None:
        self.registered.update(each.key for each in session.subscriptions)
        done(None)

    def start_from(self, start: ToleranceStart) -> None:
        """It measures no tolerances."""

    def withdraw(self, key: SubscriptionKey) -> None:
        self.registered.discard(key)

    def reached(self, subscriber: str) -> Offset | None:
        return None

    def publish(self, events: Sequence[Event], done: Answer) -> None:
        done(None)

    def audience(self, topic: str, lacking: str) -> None:
        return None

    def before_entry(self, prepare: Callable[[], None]) -> None:
        """Nothing is ever sent on directly."""

    def in_turn(self, action: Callable[[], None]) -> None:
        action()


def absent() -> Any:
    """A connection that takes nothing."""
    return SimpleNamespace(ready=lambda: None, pass_on=lambda batch, first: False, end=lambda reason: None)

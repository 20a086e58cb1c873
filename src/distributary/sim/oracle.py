"""The oracle: which subscriptions an event must be delivered to, by brute force.

Rules:

- Every subscription's filters are evaluated for every event, one by one.
- A tolerance is measured against what was really delivered, which `note` records. Deliveries before a
  subscription was made again do not count.
- So the answer is exact when the previous event has reached all its subscribers; with several under way it
  depends on which arrives first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from distributary.filters.change import ChangeFilter
from distributary.filters.profile import Profile
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address


class ClientSubscription(NamedTuple):
    """A subscription, the node of its client, and since when it has been registered there."""

    subscription: Subscription
    at: Address
    since: float = 0.0


class Oracle:
    """Computes who must get which event.

    >>> oracle = Oracle()
    >>> clients = [ClientSubscription(Subscription("s1", "ann", topic="A", change={"a": 2}), at=7)]
    >>> oracle.wanted(Event("e1", "A", {"a": 5}), clients)
    {(7, 'ann'): ('s1',)}
    >>> oracle.note(Event("e1", "A", {"a": 5}), clients, now=1.0)
    >>> oracle.wanted(Event("e2", "A", {"a": 7}), clients)
    {}
    """

    def __init__(self) -> None:
        self._profiles: dict[SubscriptionKey, tuple[Subscription, Profile]] = {}
        self._delivered: dict[tuple[SubscriptionKey, str | None], tuple[dict[str, float], float]] = {}
        """By subscription and topic, the values last delivered, and when."""

    def wanted(
        self, event: Event, clients: Iterable[ClientSubscription]
    ) -> dict[tuple[Address, str], tuple[str, ...]]:
        """By node and subscriber, the subscriptions for which the event must be delivered, sorted."""
        found: dict[tuple[Address, str], list[str]] = {}
        for client in clients:
            if self._wants(client, event):
                subscription = client.subscription
                found.setdefault((client.at, subscription.subscriber), []).append(subscription.id)
        return {who: tuple(sorted(found[who])) for who in sorted(found)}

    def note(self, event: Event, clients: Iterable[ClientSubscription], now: float) -> None:
        """Record that an event was delivered to these subscriptions."""
        for client in clients:
            change = self._profile(client.subscription).filters.get("change")
            if isinstance(change, ChangeFilter):
                values = {**self._last(client, event.topic), **change.numbers(event)}
                self._delivered[client.subscription.key, event.topic] = values, now

    def _wants(self, client: ClientSubscription, event: Event) -> bool:
        profile = self._profile(client.subscription)
        if not profile.matches(event):
            return False
        change = profile.filters.get("change")
        if not isinstance(change, ChangeFilter):
            return True
        return change.moved(change.numbers(event), self._last(client, event.topic))

    def _last(self, client: ClientSubscription, topic: str | None) -> dict[str, float]:
        values, time = self._delivered.get((client.subscription.key, topic), ({}, client.since))
        return values if time >= client.since else {}

    def _profile(self, subscription: Subscription) -> Profile:
        known = self._profiles.get(subscription.key)
        if known is None or known[0] is not subscription:
            known = self._profiles[subscription.key] = (subscription, Profile.of(subscription))
        return known[1]

"""Who must get an event, told by brute force: what a system's deliveries are compared with.

Rules:

- Every subscription's filters are evaluated for every event, one by one.
- What a tolerance measures against is what was really delivered: `note` is told of deliveries. A subscription
  that was made anew since has nothing to measure against.
- So the answer is exact when the event published before has reached everybody; with several under way it
  depends on which arrives first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from distributary.filters.change import ChangeFilter
from distributary.filters.profile import Profile
from distributary.model import Event, Subscription
from distributary.overlay.node import Address


class ClientSubscription(NamedTuple):
    """A subscription as its client has it: where, and since when."""

    subscription: Subscription
    at: Address
    since: float = 0.0


class _DeliveredValues(NamedTuple):
    """What was last delivered of a topic, and when."""

    values: Mapping[str, float]
    time: float


class Oracle:
    """Knows who must get what.

    >>> oracle = Oracle()
    >>> standings = [ClientSubscription(Subscription("s1", "ann", topic="A", change={"a": 2}), at=7)]
    >>> oracle.wanted(Event("e1", "A", {"a": 5}), standings)
    {(7, 'ann'): ('s1',)}
    >>> oracle.note(Event("e1", "A", {"a": 5}), standings, now=1.0)
    >>> oracle.wanted(Event("e2", "A", {"a": 7}), standings)
    {}
    """

    def __init__(self) -> None:
        self._profiles: dict[str, tuple[Subscription, Profile]] = {}
        self._held: dict[tuple[str, str | None], _DeliveredValues] = {}

    def wanted(
        self, event: Event, standings: Iterable[ClientSubscription]
    ) -> dict[tuple[Address, str], tuple[str, ...]]:
        """By node and subscriber, the subscriptions for which the event must be delivered, sorted."""
        found: dict[tuple[Address, str], list[str]] = {}
        for standing in standings:
            if self._wants(standing, event):
                subscription = standing.subscription
                found.setdefault((standing.at, subscription.subscriber), []).append(subscription.id)
        return {who: tuple(sorted(found[who])) for who in sorted(found)}

    def note(self, event: Event, standings: Iterable[ClientSubscription], now: float) -> None:
        """An event was delivered for these."""
        for standing in standings:
            change = self._profile(standing.subscription).filters.get("change")
            if isinstance(change, ChangeFilter):
                values = {**self._last(standing, event.topic), **change.numbers(event)}
                self._held[standing.subscription.id, event.topic] = _DeliveredValues(values, now)

    def _wants(self, standing: ClientSubscription, event: Event) -> bool:
        profile = self._profile(standing.subscription)
        if not profile.matches(event):
            return False
        change = profile.filters.get("change")
        if not isinstance(change, ChangeFilter):
            return True
        return change.moved(change.numbers(event), dict(self._last(standing, event.topic)))

    def _last(self, standing: ClientSubscription, topic: str | None) -> Mapping[str, float]:
        held = self._held.get((standing.subscription.id, topic))
        return held.values if held is not None and held.time >= standing.since else {}

    def _profile(self, subscription: Subscription) -> Profile:
        known = self._profiles.get(subscription.id)
        if known is None or known[0] is not subscription:
            known = self._profiles[subscription.id] = (subscription, Profile.of(subscription))
        return known[1]

"""The oracle: which subscriptions an event must be delivered to, by brute force.

Rules:

- Every subscription is evaluated for every event, one by one, and not by the filters that the systems use
  (`sim.evaluation`).
- A tolerance is measured against what was really delivered, which `note` records. Deliveries before a
  subscription was made again do not count.
- So the answer is exact when the previous event has reached all its subscribers; with several under way it
  depends on which arrives first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address
from distributary.sim.evaluation import PlainEvaluation


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
        self._evaluations: dict[SubscriptionKey, tuple[Subscription, PlainEvaluation]] = {}
        self._delivered: dict[tuple[SubscriptionKey, str | None], tuple[dict[str, float], float]] = {}
        """By subscription and topic, the values last delivered, and when."""

    def wanted(
        self, event: Event, clients: Iterable[ClientSubscription]
    ) -> dict[tuple[Address, str], tuple[str, ...]]:
        """By node and subscriber, the subscriptions for which the event must be delivered, sorted."""
        found: dict[tuple[Address, str], list[str]] = {}
        for client in clients:
            if self.wants(client, event):
                subscription = client.subscription
                found.setdefault((client.at, subscription.subscriber), []).append(subscription.id)
        return {who: tuple(sorted(found[who])) for who in sorted(found)}

    def wants(self, client: ClientSubscription, event: Event) -> bool:
        """Whether the event must be delivered for this subscription."""
        asked = self.evaluation(client.subscription)
        if not asked.passes(event):
            return False
        return not asked.tolerances or asked.moved(asked.numbers(event), self._last(client, event.topic))

    def drift(self, client: ClientSubscription, event: Event) -> str | None:
        """How the last delivered values of the event's topic are further from the event's than tolerated.

        None when they are not, or when the event does not pass the subscription's other filters: the promise
        of systems that choose by themselves what to deliver (Theorem 1 of 002).
        """
        asked = self.evaluation(client.subscription)
        if not asked.passes(event):
            return None
        last, numbers = self._last(client, event.topic), asked.numbers(event)
        for name, number in numbers.items():
            if name not in last:
                return f"has no {name} of {event.topic}"
            if asked.moved({name: number}, last):
                tolerated = asked.tolerances[name]
                return f"has {name} {last[name]:g} of {event.topic}, not within {tolerated:g} of {number:g}"
        return None

    def note(self, event: Event, clients: Iterable[ClientSubscription], now: float) -> None:
        """Record that an event was delivered to these subscriptions."""
        for client in clients:
            asked = self.evaluation(client.subscription)
            if asked.tolerances:
                values = {**self._last(client, event.topic), **asked.numbers(event)}
                self._delivered[client.subscription.key, event.topic] = values, now

    def evaluation(self, subscription: Subscription) -> PlainEvaluation:
        """How a subscription is evaluated."""
        known = self._evaluations.get(subscription.key)
        if known is None or known[0] is not subscription:
            known = self._evaluations[subscription.key] = (subscription, PlainEvaluation(subscription))
        return known[1]

    def _last(self, client: ClientSubscription, topic: str | None) -> dict[str, float]:
        values, time = self._delivered.get((client.subscription.key, topic), ({}, client.since))
        return values if time >= client.since else {}

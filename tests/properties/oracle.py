"""Whole subscriptions, brute force: every filter by the oracle of its kind, every subscription by itself."""

from __future__ import annotations

from distributary.model import Event, Subscription
from properties import oracle_path, oracle_topic, oracle_where
from properties.oracle_change import ChangeOracle


def passes(subscription: Subscription, event: Event) -> bool:
    """Whether an event passes all filters but the tolerance."""
    if subscription.topic is not None and (
        event.topic is None or not oracle_topic.matches(subscription.topic, event.topic)
    ):
        return False
    if subscription.where is not None and not oracle_where.wants(subscription.where, dict(event.attributes)):
        return False
    return subscription.path is None or (
        event.document is not None and oracle_path.wants(subscription.path, event.document)
    )


class MatcherOracle:
    """What `Matcher` promises, plainly: a list of subscriptions, each with a memory of its own."""

    def __init__(self) -> None:
        self.held: dict[str, Subscription] = {}
        self.changes: dict[str, ChangeOracle] = {}

    def add(self, subscription: Subscription) -> None:
        self.held[subscription.id] = subscription
        if subscription.change is not None:
            self.changes[subscription.id] = ChangeOracle()
            self.changes[subscription.id].add(0, subscription.change)

    def remove(self, subscription_id: str) -> None:
        del self.held[subscription_id]
        self.changes.pop(subscription_id, None)

    def wants(self, event: Event, subscription_id: str) -> bool:
        """Whether the subscription would get the event now."""
        if not passes(self.held[subscription_id], event):
            return False
        change = self.changes.get(subscription_id)
        return change is None or change.would_fire(event, 0)

    def match(self, event: Event) -> list[str]:
        found = sorted(one for one in self.held if self.wants(event, one))
        for subscription_id in found:
            if subscription_id in self.changes:
                self.changes[subscription_id].fire(event)
        return found

"""A broker as simple as can be, to try the simulator with: every event goes to everybody, once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from distributary.errors import FilterError
from distributary.filters.kinds import parse_filters
from distributary.model import Delivery, Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address, Node


class Flood(NamedTuple):
    event: Event


class Flooding:
    """Knows everybody and tells everybody."""

    def __init__(self, address: Address, everybody: Iterable[Address]) -> None:
        self.node = Node(address)
        self.everybody = everybody
        self.subscriptions: dict[SubscriptionKey, Subscription] = {}
        self.node.handle(Flood, lambda message, sender: self.take(message.event))

    def subscribe(self, subscription: Subscription) -> None:
        if subscription.path is not None:
            raise FilterError("not served here", field="path")
        self.subscriptions[subscription.key] = subscription

    def unsubscribe(self, key: SubscriptionKey) -> None:
        del self.subscriptions[key]

    def publish(self, event: Event) -> None:
        self.take(event)
        for address in self.everybody:
            if address != self.node.address:
                self.node.send(address, Flood(event))

    def take(self, event: Event) -> None:
        for subscription in self.subscriptions.values():
            if all(filter.matches(event) for filter in parse_filters(subscription).values()):
                self.node.deliver(Delivery(event, subscription.subscriber, (subscription.id,)))

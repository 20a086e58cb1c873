"""Lookups: the ring alone. Every event is routed to the owner of its key, which delivers it.

It serves no subscriptions; it is there to test a ring by itself under faults: routing, couriers, upkeep.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from distributary.errors import FilterError
from distributary.model import Delivery, Event, Subscription, SubscriptionKey
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.ring_broker import RingBroker

OWNER = "owner"
"""The subscriber name of all deliveries: the owner of the event's key."""


class OwnerLookup(NamedTuple):
    """An event routed to the owner of its key."""

    event: Event


class LookupBroker(RingBroker):
    """A node of a ring that only routes events to the owners of their keys."""

    def __init__(self, ring: Ring, **layers: Any) -> None:
        super().__init__(ring, **layers)
        ring.listen(OwnerLookup, self._deliver)

    def subscribe(self, subscription: Subscription) -> None:
        """Raise FilterError: a ring alone serves no subscriptions."""
        raise FilterError("a ring alone serves no subscriptions", field="subscription")

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Do nothing: there are no subscriptions."""

    def publish(self, event: Event) -> None:
        """Send an event to the owner of its key, which delivers it."""
        self.ring.route(self.ring.circle.hash(str(event.key)), OwnerLookup(event))

    def _deliver(self, message: OwnerLookup, arrival: Arrival) -> None:
        self.node.deliver(Delivery(message.event, OWNER, ()))

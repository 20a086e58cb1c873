"""Lookups: nothing but the ring. Every event goes to the owner of its id, which delivers it.

No system for subscriptions, but the way to watch a ring by itself under faults: routing, couriers, upkeep.
"""

from __future__ import annotations

from typing import NamedTuple

from distributary.errors import FilterError
from distributary.model import Delivery, Event, Subscription
from distributary.overlay.courier import Courier
from distributary.overlay.ring.ring import Arrival, Ring

OWNER = "owner"
"""Who gets all deliveries: the owner of the event's key."""


class OwnerLookup(NamedTuple):
    """An event on its way to the owner of its id."""

    event: Event


class LookupBroker:
    """A node of a ring that serves lookups and nothing else."""

    def __init__(self, ring: Ring, *, courier: Courier | None = None) -> None:
        self.ring = ring
        self.node = ring.node
        if courier is not None:
            courier.carry(ring)
        ring.listen(OwnerLookup, self._looked_up)

    def subscribe(self, subscription: Subscription) -> None:
        """Always refused."""
        raise FilterError("a ring alone serves no subscriptions", field="subscription")

    def unsubscribe(self, subscription_id: str) -> None:
        """There is nothing to give up."""

    def publish(self, event: Event) -> None:
        """Send an event to the owner of its id, which delivers it."""
        self.ring.route(self.ring.circle.hash(event.id), OwnerLookup(event))

    def _looked_up(self, message: OwnerLookup, arrival: Arrival) -> None:
        self.node.deliver(Delivery(message.event.id, OWNER, ()))

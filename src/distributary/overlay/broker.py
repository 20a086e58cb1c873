"""What a node that serves clients offers, whatever system it belongs to."""

from __future__ import annotations

from typing import Protocol

from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.node import Node


class Broker(Protocol):
    """What a node offers its clients. Deliveries leave the node as `Deliver(model.Delivery)` effects.

    The clients of a broker are whoever subscribed there: their deliveries leave at the same node. Ids are
    each client's own: what is asked and published is known by its key (`Subscription.key`, `Event.key`).
    A broker that restarts without its state has forgotten its clients, who then subscribe again.
    """

    node: Node

    @property
    def joined(self) -> bool:
        """Whether the node has its place among the others."""

    def subscribe(self, subscription: Subscription) -> None:
        """Register a subscription of a client of this node; FilterError when the system cannot serve it."""

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Forget a subscription that was registered here."""

    def publish(self, event: Event) -> None:
        """Have the event delivered once to every subscriber who asked for it, wherever they are.

        DocumentError when its document cannot be read: then nobody gets it.
        """

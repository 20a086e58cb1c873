"""Flooding: every event goes to every node, and is matched at home. The plainest system, to compare with.

A subscription costs no message at all. An event costs one for every other node, by the ring's segment
multicast over the whole circle, whether anybody wants it or not; it is everywhere after about log N hops.
There is nothing to lose but messages under way: a courier makes it robust, and no upkeep is needed.
"""

from __future__ import annotations

from typing import NamedTuple

from distributary.model import Event, Subscription
from distributary.overlay.courier import Courier
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.home import Home


class FloodedEvent(NamedTuple):
    """An event for everybody."""

    event: Event


class FloodingBroker:
    """A node that tells everybody everything.

    >>> from distributary.overlay.ring.circle import Circle
    >>> from distributary.overlay.node import Node
    >>> broker = FloodingBroker(Ring(Node(3), Circle(8)))
    >>> broker.node.call(lambda: broker.subscribe(Subscription("s1", "ann", where="a > 3")), now=0)
    []
    >>> broker.node.call(lambda: broker.publish(Event("e1", attributes={"a": 4})), now=0)
    [Deliver(item=Delivery(event='e1', subscriber='ann', subscriptions=('s1',)))]
    """

    def __init__(self, ring: Ring, *, courier: Courier | None = None) -> None:
        self.ring = ring
        self.node = ring.node
        self.home = Home(ring.node)
        if courier is not None:
            courier.carry(ring)
        ring.listen(FloodedEvent, self._flooded)

    def subscribe(self, subscription: Subscription) -> None:
        """Take a client's subscription in; nobody else is told."""
        self.home.add(subscription)

    def unsubscribe(self, subscription_id: str) -> None:
        """Give up a subscription; UnknownSubscriptionError when it does not live here."""
        self.home.remove(subscription_id)

    def publish(self, event: Event) -> None:
        """Send an event to every node."""
        self.ring.multicast_segment(0, self.ring.circle.size, FloodedEvent(event))

    def _flooded(self, message: FloodedEvent, arrival: Arrival) -> None:
        self.home.offer(message.event)

"""Flooding: every event goes to every node and is matched there, as a baseline.

A subscription costs no message. An event costs one for every other node, by the ring's segment multicast
over the whole circle, and reaches the last of them after about log N hops. Only messages under way can be
lost, so a courier alone makes it robust.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.ring.ring import Ring
from distributary.systems.home import Home
from distributary.systems.publishing import require_readable
from distributary.systems.ring_broker import RingBroker


class FloodedEvent(NamedTuple):
    """An event for every node."""

    event: Event


class FloodingBroker(RingBroker):
    """A node that multicasts each event to all nodes.

    >>> from distributary.overlay.ring.circle import Circle
    >>> from distributary.overlay.node import Node
    >>> broker = FloodingBroker(Ring(Node(3), Circle(8)))
    >>> broker.node.call(lambda: broker.subscribe(Subscription("s1", "ann", where="a > 3")), now=0)
    []
    >>> [given] = broker.node.call(lambda: broker.publish(Event("e1", attributes={"a": 4})), now=0)
    >>> given.item.event.id, given.item.subscriber, given.item.subscriptions
    ('e1', 'ann', ('s1',))
    """

    def __init__(self, ring: Ring, **layers: Any) -> None:
        super().__init__(ring, **layers)
        self.home = Home(ring.node)
        ring.listen(FloodedEvent, lambda message, arrival: self.home.offer(message.event))

    def subscribe(self, subscription: Subscription) -> None:
        """Add a client's subscription; no other node learns of it."""
        self.home.add(subscription)

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Remove a subscription; UnknownSubscriptionError when it is not at this node."""
        self.home.remove(key)

    def publish(self, event: Event) -> None:
        """Send an event to every node."""
        require_readable(event)
        self.ring.multicast_segment(0, self.ring.circle.size, FloodedEvent(event))

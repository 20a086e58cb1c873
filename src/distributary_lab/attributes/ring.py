"""Rings of the attribute system at rest, for measurements: bare nodes, made when they are first needed.

A ring of thousands costs the memory of its identifiers and of the nodes that take part. Every hop takes the
same time, and nothing is sent but the system's own messages.
"""

from __future__ import annotations

from functools import cache, partial
from random import Random
from typing import Any

from distributary.model import Event, Subscription
from distributary.overlay.node import Address, Message, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import ONE_WAY, Rule
from distributary.overlay.ring.placement import (
    ArcPlacement,
    OrderedPlacement,
    PlacementFactory,
    ScatteredPlacement,
    Spread,
)
from distributary.overlay.ring.ring import Ring, RoutedPayload, settle_among
from distributary.sim.latency import ConstantLatency
from distributary.sim.metrics import Cost, Metrics
from distributary.sim.simulator import Cause, Observer, Simulator
from distributary.systems.attributes.broker import AttributeBroker
from distributary.systems.attributes.schema import AttributeSchema, NumberAttribute

CIRCLE = Circle(32)


def domain(values: int, *names: str) -> AttributeSchema:
    """Attributes with so many values each, from 0 on."""
    return AttributeSchema(tuple(NumberAttribute(name, 0, values - 1) for name in names))


class AttributeRing(Observer):
    """A ring of so many nodes; fingers go one way, as Chord's, unless told otherwise."""

    def __init__(
        self,
        schema: AttributeSchema,
        nodes: int,
        seed: int,
        *,
        placement: str,
        rule: Rule = ONE_WAY,
        **options: Any,
    ) -> None:
        self.addresses = sorted(Random(f"addresses {seed}").sample(range(CIRCLE.size), nodes))
        self.brokers: dict[Address, AttributeBroker] = {}
        self.metrics = Metrics(sizes=False)
        self.world = Simulator(seed, ConstantLatency(0.05))
        self.world.observe(self.metrics)
        self.world.observe(self)
        self._schema, self._rule, self._options = schema, rule, options
        self._placement = placements(self.addresses)[placement]

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        """Make the node that a message is sent to."""
        self.broker(to)

    def broker(self, address: Address) -> AttributeBroker:
        """The broker at an address, made when it is first asked for."""
        if address not in self.brokers:
            ring = Ring(Node(address), CIRCLE, rule=self._rule)
            settle_among(ring, self.addresses)
            broker = AttributeBroker(ring, self._schema, placement=self._placement, **self._options)
            self.brokers[address] = broker
            self.world.add(broker.node)
        return self.brokers[address]

    def subscribe(self, subscription: Subscription, at: Address, cause: Cause = None) -> int:
        """Store a subscription, or update it; how many messages that took."""
        broker = self.broker(at)
        return self._count(cause or subscription.id, at, lambda: broker.subscribe(subscription))

    def publish(self, event: Event, at: Address) -> int:
        """Publish an event; how many messages that took."""
        broker = self.broker(at)
        return self._count(event.id, at, lambda: broker.publish(event))

    def rebalance(self, attribute: str, at: Address) -> int:
        """Place the values of an attribute anew; how many messages that took."""
        for address in self.addresses:
            self.broker(address)
        return self._count("rebalance", at, lambda: self.broker(at).rebalance(attribute))

    def routed(self, cause: Cause) -> int:
        """How many of an operation's messages were on their way to the owner of a key."""
        return self.metrics.costs_by_kind(cause).get(RoutedPayload.__name__, Cost()).messages

    def _count(self, cause: Cause, at: Address, action: Any) -> int:
        self.world.call(at, action, cause)
        self.world.run()
        return self.metrics.cost(cause).messages


def placements(addresses: list[Address]) -> dict[str, PlacementFactory]:
    """The placements by the names that the experiments give them.

    The last is what the balancing comes to on these nodes when all values are asked for alike.
    """
    return {
        "Chord": ScatteredPlacement,
        "OPChord": OrderedPlacement,
        "OPChord, jumping": partial(OrderedPlacement, spread=Spread.JUMP),
        "arcs, not yet balanced": cache(ArcPlacement.evenly),
        "arcs": cache(partial(ArcPlacement.balanced, nodes=addresses, weights={}, version=(0, 0))),
    }

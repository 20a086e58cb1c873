"""Rings of the attribute system at rest, for measurements: what operations cost, by placement of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from distributary.model import Event, Subscription
from distributary.overlay.node import Address
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import Rule
from distributary.overlay.ring.placement import (
    ArcPlacement,
    OrderedPlacement,
    PlacementFactory,
    ScatteredPlacement,
    Spread,
)
from distributary.overlay.ring.ring import Ring, RoutedPayload
from distributary.sim.metrics import Cost
from distributary.sim.simulator import Cause
from distributary.systems.attributes.broker import AttributeBroker
from distributary.systems.attributes.schema import AttributeSchema, NumberAttribute
from distributary_lab.sparse_ring import SparseRing

CIRCLE = Circle(32)


def domain(values: int, *names: str) -> AttributeSchema:
    """Attributes with so many values each, from 0 on."""
    return AttributeSchema(tuple(NumberAttribute(name, 0, values - 1) for name in names))


class AttributeRing:
    """A ring of so many nodes of the attribute system."""

    def __init__(
        self, schema: AttributeSchema, nodes: int, seed: int, *, placement: str, rule: Rule, match: str
    ) -> None:
        def make(ring: Ring) -> AttributeBroker:
            return AttributeBroker(ring, schema, placement=place, match=match)

        self._nodes = SparseRing(CIRCLE, nodes, seed, make, rule)
        self.addresses = self._nodes.addresses
        place = placements(self.addresses)[placement]

    def broker(self, address: Address) -> AttributeBroker:
        """The broker at an address, made when it is first asked for."""
        broker = self._nodes.members.get(address) or self._nodes.add(address)
        assert isinstance(broker, AttributeBroker)
        return broker

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
        return self._count("rebalance", at, lambda: self.broker(at).rebalance(attribute))

    def routed(self, cause: Cause) -> int:
        """How many of an operation's messages were on their way to the owner of a key."""
        return self._nodes.metrics.costs_by_kind(cause).get(RoutedPayload.__name__, Cost()).messages

    def _count(self, cause: Cause, at: Address, action: Callable[[], None]) -> int:
        self._nodes.simulator.call(at, action, cause)
        self._nodes.simulator.run()
        return self._nodes.metrics.cost(cause).messages


def placements(addresses: Sequence[Address]) -> dict[str, PlacementFactory]:
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

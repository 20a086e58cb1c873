"""Rings at rest whose nodes are made when they are first needed.

A ring of a million nodes costs the memory of its identifiers and of the nodes that take part. Every hop takes
the same time, so that time and hops tell the same, and nothing is sent but the system's own messages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from random import Random

from distributary.errors import DistributaryError
from distributary.overlay.broker import Broker
from distributary.overlay.node import Address, Message, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import BOTH_WAYS, Rule
from distributary.overlay.ring.ring import Ring, settle_among
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Cause, Observer, Simulator

HOP = 0.05
"""Seconds from one node to another."""


@lru_cache(maxsize=2)
def addresses_of(circle: Circle, nodes: int, seed: int) -> tuple[Address, ...]:
    """Where so many nodes are on a circle, sorted."""
    return tuple(sorted(Random(f"addresses {seed}").sample(range(circle.size), nodes)))


class SparseRing(Deployment, Observer):
    """A ring of so many nodes; `make` makes the broker of a node from its place in the ring."""

    def __init__(
        self, circle: Circle, nodes: int, seed: int, make: Callable[[Ring], Broker], rule: Rule = BOTH_WAYS
    ) -> None:
        if nodes < 1:
            raise DistributaryError(f"a ring has at least one node, not {nodes}")
        self.addresses = addresses_of(circle, nodes, seed)

        def make_at(address: Address) -> Broker:
            ring = Ring(Node(address), circle, rule=rule)
            settle_among(ring, self.addresses)
            return make(ring)

        super().__init__(Simulator(seed, ConstantLatency(HOP)), make_at, sizes=False)
        self.simulator.observe(self)

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        """Make the node that a message is sent to, if this is the first."""
        if to not in self.members:
            self.add(to)

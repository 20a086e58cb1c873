"""Rings at rest in a simulator, and networks that lose and repeat messages, for the tests of the ring."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from distributary.overlay.courier import Courier
from distributary.overlay.node import Address, Message, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import BOTH_WAYS, FingerRule
from distributary.overlay.ring.prefix import PrefixRing
from distributary.overlay.ring.ring import Arrival, Ring, settle
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Network, Simulator


class Hello(NamedTuple):
    """A payload."""

    number: int


class Lossy:
    """Loses some messages, sends some twice, and lets them overtake each other."""

    def __init__(self, seed: int, loss: float, repeat: float, most: float = 0.2) -> None:
        self.random = Random(f"lossy/{seed}")
        self.loss = loss
        self.repeat = repeat
        self.most = most
        self.lost = self.repeated = 0

    def delays(self, now: float, sender: Address, to: Address, message: Message) -> Iterable[float]:
        if self.random.random() < self.loss:
            self.lost += 1
            return ()
        first = self.random.uniform(0.01, self.most)
        if self.random.random() < self.repeat:
            self.repeated += 1
            return (first, self.random.uniform(0.01, 4 * self.most))
        return (first,)


class RestingRing:
    """A settled ring whose nodes deliver (number, keys) for every Hello that reaches them."""

    def __init__(
        self,
        identifiers: Sequence[Address],
        bits: int,
        *,
        routing: type[Ring] = Ring,
        rule: FingerRule = BOTH_WAYS,
        network: Network | None = None,
        couriers: bool = False,
    ) -> None:
        self.members = sorted(identifiers)
        self.circle = Circle(bits)
        self.routing = routing
        self.world = Simulator(1, network or ConstantLatency(0.1))
        self.rings: dict[Address, Ring] = {}
        self.couriers: dict[Address, Courier] = {}
        for identifier in self.members:
            ring = self.rings[identifier] = routing(Node(identifier), self.circle, rule=rule)
            ring.listen(Hello, lambda payload, arrival, ring=ring: self.greet(ring, payload, arrival))
            if couriers:
                self.couriers[identifier] = Courier(ring.node)
                self.couriers[identifier].carry(ring)
        settle(list(self.rings.values()))
        for ring in self.rings.values():
            self.world.add(ring.node)

    @staticmethod
    def greet(ring: Ring, payload: Hello, arrival: Arrival) -> None:
        ring.node.deliver((payload.number, arrival.keys))

    def owner(self, key: int) -> Address:
        if self.routing is PrefixRing:  # the nearest, of two the one before
            return min(
                self.members,
                key=lambda one: (self.circle.distance(one, key), self.circle.clockwise(one, key)),
            )
        return self.members[bisect_left(self.members, key) % len(self.members)]

    def owners(self, start: int, length: int, size: int) -> list[Address]:
        return sorted({self.owner((start + step) % size) for step in range(min(length, size))})

    def reached(self) -> list[Address]:
        """Who delivered something since this was last asked."""
        reached = sorted(delivered.address for delivered in self.world.delivered)
        self.world.delivered.clear()
        return reached

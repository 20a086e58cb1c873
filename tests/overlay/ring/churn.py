"""Rings under churn: nodes that join, leave, crash and come back, watched at every event."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from random import Random
from typing import Any

from distributary.overlay.courier import Courier
from distributary.overlay.node import Address, Node
from distributary.overlay.replication import Replication
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import BOTH_WAYS, ONE_WAY, Rule
from distributary.overlay.ring.invariants import unsettled
from distributary.overlay.ring.prefix import PrefixRing
from distributary.overlay.ring.ring import Arrival, Ring, settle
from distributary.overlay.ring.stabilisation import Stabilisation
from distributary.overlay.ring.upkeep import Upkeep
from distributary.sim.latency import UniformLatency
from distributary.sim.population import Population
from distributary.sim.simulator import Simulator
from overlay.ring.rings import Hello
from overlay.ring.safety import problems, unsettled_fingers

BITS = 10


class RingMember:
    """A node with all the layers of a ring; it delivers (number, keys) for every Hello."""

    def __init__(self, ring: Ring, upkeep: Upkeep, courier: Courier | None, copies: int) -> None:
        self.ring = ring
        self.node = ring.node
        self.upkeep = upkeep
        self.courier = courier
        self.replication = Replication(ring, copies, courier.send if courier else None, period=2.0)
        ring.listen(Hello, self.greet)

    def greet(self, payload: Hello, arrival: Arrival) -> None:
        self.node.deliver((payload.number, arrival.keys))

    def leave(self) -> None:
        self.replication.hand_over()
        self.upkeep.leave()


class RingWorld:
    """A ring that starts at rest with some members and then lives on by its upkeep."""

    def __init__(
        self,
        seed: int,
        identifiers: Iterable[Address],
        *,
        routing: type[Ring] = Ring,
        rule: Rule = BOTH_WAYS,
        successor_count: int = 3,
        stabilisation: type[Stabilisation] = Stabilisation,
        couriers: bool = False,
        copies: int = 0,
        bits: int = BITS,
    ) -> None:
        self.world = Simulator(seed, UniformLatency(0.01, 0.1, seed=seed))
        self.random = Random(f"{seed}/churn")
        self.settings: dict[str, Any] = {"rule": rule, "successor_count": successor_count}
        self.routing = routing
        self.stabilisation = stabilisation
        self.couriers = couriers
        self.copies = copies
        self.circle = Circle(bits)
        self.changed = True
        self.founders = sorted(identifiers)
        self.population: Population[RingMember] = Population(self.world, self.make)
        made = {address: self.make(address) for address in self.founders}
        settle([member.ring for member in made.values()])
        for address, member in made.items():
            self.population.members[address] = member
            self.world.add(member.node)
        self.founders = []

    def make(self, address: Address) -> RingMember:
        ring = self.routing(Node(address), self.circle, **self.settings)
        courier = Courier(ring.node) if self.couriers else None
        if courier is not None:
            courier.carry(ring)
        via = None if address in self.founders else [self.population.contact(address) for _ in range(3)]
        upkeep = Upkeep(
            ring,
            None if via is None else [one for one in via if one is not None],
            stabilisation=self.stabilisation,
        )
        ring.watch(self.note_change)
        return RingMember(ring, upkeep, courier, self.copies)

    def note_change(self) -> None:
        self.changed = True

    # What is there.

    @property
    def members(self) -> dict[Address, RingMember]:
        """Those that are up and take part."""
        return {
            address: member
            for address, member in self.population.members.items()
            if self.world.is_up(address) and member.ring.member
        }

    def rings(self) -> list[Ring]:
        return [member.ring for member in self.members.values()]

    def may_fail(self) -> bool:
        """Whether enough members remain for the protocol to survive a failure."""
        return len(self.members) > self.settings["successor_count"] + 2

    def owner(self, key: int) -> Address:
        order = sorted(self.members)
        if self.routing is PrefixRing:  # the nearest, of two the one before
            return min(
                order, key=lambda one: (self.circle.distance(one, key), self.circle.clockwise(one, key))
            )
        return order[bisect_left(order, key) % len(order)]

    def siblings(self, owner: Address) -> list[Address]:
        """Who should keep copies of what a node owns."""
        order = sorted(self.members)
        place = order.index(owner)
        following = (order * 2)[place + 1 : place + len(order)]
        if self.routing is PrefixRing:
            following = list(dict.fromkeys([*following[:1], *following[-1:], *following]))
        return following[: self.copies]

    # Time.

    def run(self, until: float) -> list[str]:
        """Let time pass, looking at the invariants after each event; what first breaks them is returned."""
        world = self.world
        while world.now < until:
            world.run(until=until, most=1)
            if self.changed:
                self.changed = False
                wrong = problems(self.rings())
                if wrong:
                    return [f"at {world.now:.3f}: {one}" for one in wrong]
        return []

    def rest(self, longest: float, fingers: bool = True) -> float:
        """Let time pass until the ring is at rest; how long that took."""
        start = self.world.now
        while wrong := unsettled(self.rings()) + (unsettled_fingers(self.rings()) if fingers else []):
            if self.world.now > start + longest:
                raise AssertionError("\n".join(wrong))
            self.world.run(until=self.world.now + 0.5)
        return self.world.now - start

    # Faults that the protocol is meant to survive.

    def churn(self, until: float, gap: float) -> None:
        """Plan joins at any time, and every `gap` seconds failures that leave everybody a live successor."""
        random, world = self.random, self.world
        time = 1.0
        while time < until:
            kind = random.choice(["join", "join", "crash", "crash", "leave", "come_back"])
            world.at(time, getattr(self, kind))
            if kind in ("crash", "leave"):
                for _ in range(random.randrange(self.settings["successor_count"] - 1)):
                    world.at(time + random.uniform(0, 0.5), getattr(self, random.choice(["crash", "leave"])))
                time += gap
            time += random.uniform(0, 1.0)

    def join(self) -> None:
        address = self.random.randrange(self.circle.size)
        if address not in self.population.members:
            self.population.add(address)
            self.changed = True

    def crash(self) -> None:
        address = self.random.choice(sorted(self.members))
        if self.may_fail():
            self.population.crash(address)
            self.changed = True

    def leave(self) -> None:
        address = self.random.choice(sorted(self.members))
        if self.may_fail():
            self.population.leave(address)
            self.changed = True

    def come_back(self) -> None:
        down = [one for one in sorted(self.population.members) if not self.world.is_up(one)]
        if down:
            self.population.restart(self.random.choice(down), keep_state=False)
            self.changed = True


def under_churn(seed: int, stabilisation: type[Stabilisation] = Stabilisation) -> RingWorld:
    """A ring of a few nodes with churn planned for 40 seconds."""
    ring = RingWorld(
        seed, founders(seed, 6), rule=(ONE_WAY, BOTH_WAYS)[seed % 2], stabilisation=stabilisation
    )
    ring.churn(40, gap=6)
    return ring


def founders(seed: int, count: int, bits: int = BITS) -> list[Address]:
    return Random(f"{seed}/founders").sample(range(1 << bits), count)

"""State-aware networks under faults: what is published meanwhile, and what must hold when all is healed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from distributary.model import Event, Subscription
from distributary.overlay.courier import Courier
from distributary.overlay.node import Address, Node
from distributary.overlay.ring.ring import Ring, settle
from distributary.overlay.ring.upkeep import Upkeep
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.scenario import Scenario
from distributary.sim.simulator import Simulator
from distributary.systems.state_aware.broker import StateAwareBroker
from distributary.systems.state_aware.segments import Segments
from systems.state_aware.worlds import CIRCLE

ITEMS = ("quotes/A/1", "quotes/B/1", "quotes/C/1")
REFRESH = 4.0
HEALING = 60.0
"""Seconds in which the ring, the replicas and the registrations come to rest."""


class FaultyWorld:
    """A ring that mends itself, with brokers and their clients, and what each client got last.

    Without `mending` there is only the courier, which is enough where nodes do not fail.
    """

    def __init__(
        self,
        make: Callable[..., StateAwareBroker],
        seed: int,
        *,
        nodes: int = 10,
        mending: bool = True,
        **options: Any,
    ) -> None:
        self.random = Random(f"faulty world {seed}")
        addresses = sorted(self.random.sample(range(CIRCLE.size), nodes + 4))
        self.spares = self.random.sample(addresses, 4)
        self.founders = [address for address in addresses if address not in self.spares]
        self.segments = segments = Segments.spanning(CIRCLE, nodes=4, of=nodes)
        self.simulator = Simulator(seed, ConstantLatency(0.05))

        def broker(address: Address) -> StateAwareBroker:
            ring = Ring(Node(address), CIRCLE)
            courier = Courier(ring.node)
            courier.carry(ring)
            if not mending:
                return make(ring, segments, courier=courier, **options)
            is_founder = self.simulator.now == 0
            upkeep = Upkeep(ring, None if is_founder else self.deployment.up())
            return make(
                ring,
                segments,
                courier=courier,
                upkeep=upkeep,
                copies=2,
                refresh=REFRESH,
                **options,
            )

        self.deployment = Deployment(self.simulator, broker, sizes=False)
        rings = []
        for address in self.founders:
            member = self.deployment._make(address)
            rings.append(member.ring)
            self.deployment.members[address] = member
        settle(rings)
        for member in self.deployment.members.values():
            self.simulator.add(member.node)
        self.tolerances: dict[str, float] = {}
        self.items: dict[str, str] = {}
        self.values: dict[str, float] = {}
        self.prices = dict.fromkeys(ITEMS, 100)
        self.numbered = 0

    def publishable(self) -> list[Address]:
        return [
            address
            for address in self.deployment.up()
            if not self.simulator.is_paused(address) and self.deployment.members[address].ring.member
        ]

    def subscribe(self) -> None:
        name = f"s{len(self.tolerances)}"
        item = self.random.choice(ITEMS)
        self.tolerances[name] = tolerance = self.random.choice([0, *range(1, 30)])
        self.items[name] = item
        subscription = Subscription(name, name, topic=item, change={"price": tolerance})
        self.deployment.subscribe(subscription, at=self.random.choice(self.publishable()))

    def publish(self, item: str, at: Address | None = None) -> Event:
        self.numbered += 1
        self.prices[item] += self.random.randint(-9, 9)
        event = Event(f"e{self.numbered}", item, {"price": self.prices[item]})
        self.values[event.id] = self.prices[item]
        self.deployment.publish(event, at=self.random.choice(self.publishable()) if at is None else at)
        return event

    def publish_unasked(self, count: int) -> None:
        """Publish some values at once that nobody follows."""
        at = self.random.choice(self.publishable())
        for _ in range(count):
            self.numbered += 1
            self.deployment.publish(Event(f"e{self.numbered}", "quotes/D/1", {"price": self.numbered}), at=at)

    def suffer(self, scenario: Scenario) -> None:
        """Let faults happen while clients publish and subscribe, and then let everything be mended."""
        for _ in range(10):
            self.subscribe()
        injection = scenario.inject(self.deployment)
        while self.simulator.now < scenario.healed:
            self.simulator.run(until=self.simulator.now + 1.0)
            choice = self.random.random()
            if choice < 0.08:
                self.subscribe()
            elif choice < 0.12 and self.deployment.subscriptions:
                self.deployment.unsubscribe(self.random.choice(sorted(self.deployment.subscriptions)))
            else:
                self.publish(self.random.choice(ITEMS))
        self.simulator.run(until=scenario.healed + HEALING)
        scenario.require_fired(injection)

    def last(self) -> dict[str, float]:
        """The value that each subscriber got last, of those still subscribed."""
        got = {
            each.delivery.subscriber: self.values[each.delivery.event.id]
            for each in self.deployment.deliveries
        }
        return {key.id: got[key.subscriber] for key in self.deployment.subscriptions if key.subscriber in got}

    def check_healed(self, *, exact: bool, gap: float = 10.0, values: int = 20) -> None:
        """Everybody is within tolerance after each item's next value, and from then on all is exact."""
        for item in ITEMS:
            self.publish(item)
            self.simulator.run(until=self.simulator.now + gap)
        self._check_bound()
        for _ in range(values):
            item = self.random.choice(ITEMS)
            before = self.last()
            here = len(self.deployment.deliveries)
            event = self.publish(item)
            self.simulator.run(until=self.simulator.now + gap)
            self._check_bound()
            value = self.values[event.id]
            got = sorted(each.delivery.subscriber for each in self.deployment.deliveries[here:])
            assert len(set(got)) == len(got), "delivered twice"
            if exact:
                wanted = [
                    name
                    for _, name in self.deployment.subscriptions
                    if self.items[name] == item and abs(before[name] - value) > self.tolerances[name]
                ]
                assert got == sorted(wanted)

    def _check_bound(self) -> None:
        last = self.last()
        for _, name in self.deployment.subscriptions:
            assert name in last, f"{name} never got a value"
            off = abs(last[name] - self.prices[self.items[name]])
            assert off <= self.tolerances[name], f"{name} is {off} off, tolerating {self.tolerances[name]}"

"""Clients of any system on a ring: what they must get, and how they live through faults and see them heal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from distributary.filters.profile import Profile
from distributary.model import Event, Subscription
from distributary.overlay.node import Address
from distributary.sim.deployment import Deployment
from distributary.sim.scenario import random_scenario
from distributary.sim.simulator import Simulator
from distributary.systems.assembly import MakeBroker, RingAssembly, Settings

Receivers = list[tuple[Address, str]]
"""Address and subscriber of everybody who gets an event, sorted."""


def deployed(make: MakeBroker, seed: int, settings: Settings, world: Simulator) -> Deployment:
    """A system on a settled ring."""
    founders = sorted(Random(f"{seed}/founders").sample(range(settings.circle.size), settings.nodes))
    assembly = RingAssembly(make, settings, founders, contact=lambda address: deployment.contact(address))
    deployment = Deployment(world, assembly)
    deployment.add_settled(founders, assembly.settle)
    return deployment


def wanted(deployment: Deployment, event: Event) -> Receivers:
    """Who must get an event published now."""
    return sorted(
        {
            (at, subscription.subscriber)
            for subscription, at in deployment.subscriptions.values()
            if Profile.of(subscription).matches(event)
        }
    )


def got(deployment: Deployment, event: Event) -> Receivers:
    """Who got an event, as often as they got it."""
    return sorted(
        (received.address, received.delivery.subscriber)
        for received in deployment.deliveries
        if received.delivery.event.key == event.key
    )


@dataclass(frozen=True)
class Clients:
    """What clients ask for and publish."""

    subscription: Callable[[Random, str], Subscription]
    event: Callable[[Random, str], Event]

    def live_through_faults(self, deployment: Deployment, seed: int) -> None:
        """Come, go and publish amid a random scenario; when it has healed, all must be delivered once."""
        random, world = Random(seed), deployment.simulator
        spares = random.sample(range(1 << 32), 2)
        scenario = random_scenario(seed, deployment.up(), spares=spares, start=5, duration=40)
        for number in range(12):
            deployment.subscribe(self.subscription(random, f"s{number}"), at=random.choice(deployment.up()))
        injection = scenario.inject(deployment)
        for number in range(20):
            world.at(3 + 2 * number, lambda number=number: self._disturb(deployment, random, number))  # type: ignore[misc]
        world.run(until=scenario.healed + 60)
        scenario.require_fired(injection)
        expected = []
        for number in range(12):
            event = self.event(random, f"later {number}")
            expected.append((event, wanted(deployment, event)))
            deployment.publish(event, at=random.choice(deployment.up()))
            world.run(until=world.now + 1)
        world.run(until=world.now + 20)
        for event, receivers in expected:
            assert got(deployment, event) == receivers, event

    def _disturb(self, deployment: Deployment, random: Random, number: int) -> None:
        up = deployment.up()
        choice = random.random()
        if choice < 0.3:
            deployment.subscribe(self.subscription(random, f"during {number}"), at=random.choice(up))
        elif choice < 0.5 and deployment.subscriptions:
            deployment.unsubscribe(random.choice(sorted(deployment.subscriptions)))
        else:
            deployment.publish(self.event(random, f"during {number}"), at=random.choice(up))

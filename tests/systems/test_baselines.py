"""The systems to compare with, flooding and central: exact, at the cost they are known for, and robust."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from distributary.errors import UnknownSubscriptionError
from distributary.model import Event, EventKey, Subscription, SubscriptionKey
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency, UniformLatency
from distributary.sim.simulator import Simulator
from distributary.systems.assembly import MakeBroker, RingParts, Settings
from distributary.systems.central import CentralBroker
from distributary.systems.flooding import FloodingBroker
from replay import replayed_by
from systems.healing import Clients, deployed, got, wanted


def flooding(parts: RingParts) -> FloodingBroker:
    return FloodingBroker(parts.ring, **parts.layers)


def central(parts: RingParts) -> CentralBroker:
    return CentralBroker(parts.ring, **parts.options)


SYSTEMS: dict[str, MakeBroker] = {"flooding": flooding, "central": central}


def baseline(name: str, seed: int, shared: Settings, world: Simulator | None = None) -> Deployment:
    return deployed(SYSTEMS[name], seed, shared, world or Simulator(seed, ConstantLatency(0.05)))


def random_subscription(random: Random, name: str) -> Subscription:
    where = f"a {random.choice('<>')} {random.randint(0, 9)}"
    topic = random.choice([None, "A", "A/B/#", "C"])
    return Subscription(name, f"client {random.randrange(5)}", topic=topic, where=where)


def random_event(random: Random, name: str) -> Event:
    return Event(name, random.choice(["A", "A/B", "C/D"]), {"a": random.randint(0, 9)})


@pytest.mark.parametrize("name", SYSTEMS)
@settings(max_examples=25, deadline=None)
@given(some.integers(0, 10**6), some.integers(1, 12))
def test_what_is_delivered_is_what_was_asked_for(name: str, seed: int, nodes: int) -> None:
    deployment, random = baseline(name, seed, Settings(nodes)), Random(seed)
    for step in range(40):
        choice = random.random()
        if choice < 0.4:
            at = random.choice(deployment.up())
            deployment.subscribe(random_subscription(random, f"s{step}"), at=at)
        elif choice < 0.5 and deployment.subscriptions:
            deployment.unsubscribe(random.choice(sorted(deployment.subscriptions)))
        else:
            event = random_event(random, f"e{step}")
            expected = wanted(deployment, event)
            deployment.publish(event, at=random.choice(deployment.up()))
            deployment.simulator.run()
            assert got(deployment, event) == expected
        deployment.simulator.run()


def test_flooding_costs_a_message_for_every_other_node_and_nothing_to_subscribe() -> None:
    deployment = baseline("flooding", 1, Settings(50))
    deployment.subscribe(Subscription("s", "ann", topic="A"), at=deployment.up()[7])
    deployment.publish(Event("e", "B"), at=deployment.up()[3])
    deployment.simulator.run()
    costs = deployment.costs()
    assert (costs["subscribe"].messages, costs["publish"].messages) == (0, 49)
    assert deployment.deliveries == []


def test_central_costs_the_way_to_the_rendezvous_and_a_message_for_each_home() -> None:
    deployment = baseline("central", 1, Settings(50))
    centre = next(
        address
        for address, member in deployment.members.items()
        if isinstance(member, CentralBroker) and member.ring.owns(member.ring.circle.hash("the centre"))
    )
    homes = [address for address in deployment.up() if address != centre][:4]
    for number, home in enumerate((*homes, *homes)):
        deployment.subscribe(Subscription(f"s{number}", f"ann {number}", topic="A"), at=home)
    deployment.simulator.run()
    deployment.publish(Event("e", "A"), at=centre)
    deployment.simulator.run()
    assert deployment.metrics.cost(("publish", EventKey("", "e"))).messages == 4
    assert len(deployment.deliveries) == 8
    stored = {
        address: member.entries
        for address, member in deployment.members.items()
        if isinstance(member, CentralBroker) and member.entries
    }
    assert stored == {centre: 8}


def test_tolerances_are_decided_at_home() -> None:
    for name in SYSTEMS:
        deployment = baseline(name, 1, Settings(6))
        deployment.subscribe(Subscription("s", "ann", topic="A", change={"a": 2}), at=deployment.up()[2])
        for number, value in enumerate((5, 6, 8, 8.5, 5.9)):
            deployment.simulator.run()
            deployment.publish(Event(f"e{number}", "A", {"a": value}), at=deployment.up()[0])
        deployment.simulator.run()
        assert [received.delivery.event.id for received in deployment.deliveries] == ["e0", "e2", "e4"]


@pytest.mark.parametrize("name", SYSTEMS)
def test_unknown_subscriptions_cannot_be_given_up(name: str) -> None:
    deployment = baseline(name, 1, Settings(3))
    with pytest.raises(UnknownSubscriptionError):
        deployment.members[deployment.up()[0]].unsubscribe(SubscriptionKey("ann", "nothing"))


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("seed", range(8))
def test_after_the_last_fault_has_healed_everything_is_delivered_once(name: str, seed: int) -> None:
    with replayed_by(f"pytest tests/systems/test_baselines.py -k 'healed and {seed}-{name}'"):
        world = Simulator(seed, UniformLatency(0.01, 0.1, seed=seed))
        deployment = baseline(name, seed, Settings.robust(10, refresh=5.0), world)
        Clients(random_subscription, random_event).live_through_faults(deployment, seed)

"""Ids are each client's own: other sources and other subscribers may choose the same, on every system."""

from __future__ import annotations

from random import Random

import pytest

from distributary.model import Event, Subscription
from distributary.overlay.node import Address
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Simulator
from distributary.systems.assembly import Settings
from distributary.systems.table import SYSTEMS, system

PUBSUB = [name for name in SYSTEMS if name != "ring"]


def deployed(name: str, *, robust: bool = False) -> tuple[Deployment, list[Address]]:
    addresses = sorted(Random(3).sample(range(1 << 32), 12))
    settings = Settings.robust(len(addresses)) if robust else Settings(len(addresses))
    world = Simulator(1, ConstantLatency(0.02))
    assembly = system(name).assemble(settings, addresses, lambda one: deployment.contact(one))
    deployment = Deployment(world, assembly)
    deployment.add_settled(addresses, assembly.settle)
    return deployment, addresses


def asks(name: str, subscriber: str) -> Subscription:
    """A subscription s1 to the price of A/B/C, in the form that a system takes; bob asks for less."""
    if "state-aware" in name:
        return Subscription(
            "s1", subscriber, topic="A/B/C", change={"price": 1 if subscriber == "ann" else 50}
        )
    if "hope" in name:
        return Subscription("s1", subscriber, path="/a/b" if subscriber == "ann" else "/a/c")
    return Subscription("s1", subscriber, where="price > 5" if subscriber == "ann" else "price > 50")


def quote(source: str, price: float) -> Event:
    document = "<a><b/></a>" if price < 50 else "<a><b/><c/></a>"
    return Event("e1", "A/B/C", {"source": source, "price": price}, document)


def received(deployment: Deployment) -> list[tuple[str, str, object]]:
    got = (each.delivery for each in deployment.deliveries)
    return sorted((one.subscriber, one.event.source, one.event.attributes["price"]) for one in got)


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("name", PUBSUB)
def test_the_same_ids_of_others_are_other_events_and_subscriptions(name: str, robust: bool) -> None:
    deployment, addresses = deployed(name, robust=robust)
    world = deployment.simulator
    deployment.subscribe(asks(name, "ann"), at=addresses[2])
    deployment.subscribe(asks(name, "bob"), at=addresses[7])
    world.run(until=world.now + 40)
    for source, price, at in (("x", 20.0, 4), ("y", 90.0, 4), ("z", 30.0, 9)):
        deployment.publish(quote(source, price), at=addresses[at])
        world.run(until=world.now + 10)
    everything = [("ann", "x", 20.0), ("ann", "y", 90.0), ("ann", "z", 30.0)]
    # A tolerance of 50 lets pass what moved by more: the first value, 70 more, 60 less.
    every_bob = [("bob", "x", 20.0), ("bob", "y", 90.0), ("bob", "z", 30.0)]
    bobs = every_bob if "state-aware" in name else [("bob", "y", 90.0)]
    assert received(deployment) == everything + bobs
    assert all(each.delivery.event.topic == "A/B/C" for each in deployment.deliveries)

    deployment.unsubscribe(asks(name, "bob").key)
    world.run(until=world.now + 40)
    deployment.publish(Event("e2", "A/B/C", {"price": 200.0}, "<a><b/><c/></a>"), at=addresses[9])
    world.run(until=world.now + 10)
    assert received(deployment)[: len(everything) + 1] == sorted([*everything, ("ann", "", 200.0)])
    assert len(deployment.deliveries) == len(everything) + len(bobs) + 1


@pytest.mark.parametrize("name", PUBSUB)
def test_two_publishers_at_once_at_one_broker_with_the_same_id(name: str) -> None:
    deployment, addresses = deployed(name)
    deployment.subscribe(asks(name, "ann"), at=addresses[2])
    deployment.simulator.run(until=40)
    for source, price in (("x", 20.0), ("y", 90.0)):
        deployment.publish(quote(source, price), at=addresses[4])
    deployment.simulator.run(until=60)
    assert received(deployment) == [("ann", "x", 20.0), ("ann", "y", 90.0)]

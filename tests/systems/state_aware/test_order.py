"""Which value is newer without clocks that agree, and what a new subscription gets first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from distributary.model import Event, Subscription
from distributary.overlay.node import Address
from distributary.sim.deployment import Deployment
from distributary.sim.latency import UniformLatency
from distributary.systems.state_aware import order
from distributary.systems.state_aware.broker import StateAwareBroker
from distributary.systems.state_aware.lengths.target import WorkTarget
from distributary.systems.state_aware.lengths.thresholds import BalancedThresholds
from distributary.systems.state_aware.mfd import MFDBroker, SubFilterValues
from distributary.systems.state_aware.order import LatestValues, PublisherOrder, ValueStamp
from distributary.systems.state_aware.sf import SFBroker
from distributary.systems.state_aware.thresholds import ThresholdsBroker
from systems.state_aware.faults import REFRESH, FaultyWorld
from systems.state_aware.worlds import CIRCLE, settled_world

ITEM = "A/B/C"
SYSTEMS: dict[str, Callable[..., StateAwareBroker]] = {
    "sf": SFBroker,
    "mfd": MFDBroker,
    "thresholds": ThresholdsBroker,
    "lengths": partial(BalancedThresholds, balance=WorkTarget(spacing=CIRCLE.size // 20)),
}
on_every_system = pytest.mark.parametrize("make", SYSTEMS.values(), ids=SYSTEMS)


def publish(deployment: Deployment, name: str, value: object, at: Address, topic: str = ITEM) -> None:
    deployment.publish(Event(name, topic, {"d": value, "volume": 1}), at=at)
    deployment.simulator.run(until=deployment.simulator.now + 10)


def subscribe(deployment: Deployment, name: str, at: Address, *, where: str | None = None) -> None:
    subscription = Subscription(name, name, topic=ITEM, where=where, change={"d": 21})
    deployment.subscribe(subscription, at=at)
    deployment.simulator.run(until=deployment.simulator.now + 10)


def received(deployment: Deployment) -> list[tuple[str, str]]:
    return [(each.delivery.event.id, each.delivery.subscriber) for each in deployment.deliveries]


@on_every_system
def test_a_publisher_whose_clock_is_behind_is_heard(make: Callable[..., StateAwareBroker]) -> None:
    deployment, addresses = settled_world(make, 20, seed=2)
    ahead, behind = addresses[3], addresses[11]
    for address in addresses:
        if address != behind:
            deployment.simulator.set_clock(address, forward=100.0)
    subscribe(deployment, "ann", addresses[6])
    for number, publisher in enumerate([ahead, behind, ahead, behind]):
        publish(deployment, f"e{number}", 100 * number, publisher)
    assert received(deployment) == [(f"e{number}", "ann") for number in range(4)]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_publisher_that_lost_its_state_is_heard_again(system: str) -> None:
    world = FaultyWorld(SYSTEMS[system], seed=3)
    deployment, publisher = world.deployment, world.founders[4]
    subscribe(deployment, "ann", world.founders[7])
    for number in range(3):
        publish(deployment, f"e{number}", 100 * number, publisher)
    deployment.crash(publisher)
    world.simulator.run(until=world.simulator.now + 1)
    deployment.restart(publisher, keep_state=False)
    world.simulator.run(until=world.simulator.now + 40)
    publish(deployment, "again", 1000, publisher)
    assert received(deployment)[-1] == ("again", "ann")


@on_every_system
def test_a_new_subscription_gets_the_latest_value_at_once(make: Callable[..., StateAwareBroker]) -> None:
    deployment, addresses = settled_world(make, 20, seed=2)
    publish(deployment, "e1", 10, addresses[3])
    publish(deployment, "e2", 11, addresses[11])
    publish(deployment, "close", 90, addresses[11], topic=ITEM + "/close")
    publish(deployment, "other", 50, addresses[11], topic="A/B/D")
    subscribe(deployment, "ann", addresses[6])
    assert sorted(received(deployment)) == [("close", "ann"), ("e2", "ann")]
    subscribe(deployment, "picky", addresses[7], where="volume > 1")
    assert len(received(deployment)) == 2
    publish(deployment, "e3", 12, addresses[3])
    publish(deployment, "e4", 33, addresses[3])
    assert received(deployment)[2:] == [("e4", "ann")]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_registration_that_is_repeated_is_not_given_the_value_again(system: str) -> None:
    world = FaultyWorld(SYSTEMS[system], seed=3)
    publish(world.deployment, "e1", 10, world.founders[4])
    notices = []
    for broker in world.deployment.members.values():
        notify = broker.notify
        broker.notify = lambda *told, notify=notify: (notices.extend(told[3]), notify(*told))
    subscribe(world.deployment, "ann", world.founders[7])
    world.simulator.run(until=world.simulator.now + 10 * REFRESH)
    assert received(world.deployment) == [("e1", "ann")]
    assert len(notices) == 1


def test_a_first_value_that_got_lost_is_sent_again_with_the_next_registration() -> None:
    world = FaultyWorld(MFDBroker, seed=3)
    subscribe(world.deployment, "first", world.founders[2])
    publish(world.deployment, "e1", 10, world.founders[4])
    listeners = [broker.ring.listeners for broker in world.deployment.members.values()]
    kept = [each[SubFilterValues] for each in listeners]
    for each in listeners:
        each[SubFilterValues] = lambda message, arrival: None
    subscribe(world.deployment, "second", world.founders[7])
    assert received(world.deployment) == [("e1", "first")]
    for each, listener in zip(listeners, kept, strict=True):
        each[SubFilterValues] = listener
    world.simulator.run(until=world.simulator.now + 2 * REFRESH)
    assert received(world.deployment) == [("e1", "first"), ("e1", "second")]


@pytest.mark.parametrize("seed", range(6))
@on_every_system
def test_of_publishers_who_race_all_levels_see_the_same_last(
    make: Callable[..., StateAwareBroker], seed: int
) -> None:
    """On SF each node of a segment has its own order, so each subscription is near one of the two."""
    network = UniformLatency(0.01, 0.5, seed=seed)
    deployment, addresses = settled_world(make, 20, seed, network=network, span=8)
    random = Random(seed)
    tolerances = {f"s{number}": random.randint(1, 63) for number in range(15)}
    for address in addresses:
        deployment.simulator.set_clock(address, forward=random.uniform(0, 100))
    for name, tolerance in tolerances.items():
        subscription = Subscription(name, name, topic=ITEM, change={"d": tolerance})
        deployment.subscribe(subscription, at=random.choice(addresses))
    deployment.simulator.run(until=30)
    values: dict[str, int] = {}
    for step in range(30):
        racing = [f"e{step}.{racer}" for racer in range(2)]
        for racer, name in enumerate(racing):
            values[name] = random.randint(0, 90)
            deployment.publish(Event(name, ITEM, {"d": values[name]}), at=addresses[racer])
        deployment.simulator.run(until=deployment.simulator.now + 20)
        last = {each.delivery.subscriber: values[each.delivery.event.id] for each in deployment.deliveries}
        near = [
            {name for name in tolerances if abs(last[name] - values[racer]) <= tolerances[name]}
            for racer in racing
        ]
        if make is SFBroker:
            assert near[0] | near[1] == set(tolerances)
        else:
            assert set(tolerances) in near


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "PUBLISHERS", 2)
    monkeypatch.setattr(order, "TOPICS", 2)
    admitting, latest = PublisherOrder(), LatestValues()
    for number, topic in enumerate("ABAC"):
        assert admitting.admits(topic, ValueStamp(1, 0.0, 5 + number))
        latest.keep(topic, Event(topic, topic), ValueStamp(9, 0.0, number))
    assert [bool(latest.of(item)) for item in "ABC"] == [True, False, True], "B is forgotten"
    assert admitting.admits("B", ValueStamp(1, 0.0, 4)), "and so may be older"
    for publisher in (1, 2, 3):
        assert admitting.admits("D", ValueStamp(publisher, 0.0, 5))
    assert [admitting.admits("D", ValueStamp(each, 0.0, 5)) for each in (3, 2, 1)] == [False, False, True]


def test_an_older_value_does_not_replace_the_latest() -> None:
    latest = LatestValues()
    for number in (2, 1):
        latest.keep(ITEM, Event(f"e{number}", ITEM), ValueStamp(1, 0.0, number))
    assert [each.event.id for each in latest.of(ITEM)] == ["e2"]
    latest.forget(ITEM)
    assert latest.of(ITEM) == []

"""Addresses grow and shrink with the number of nodes, and nobody misses an event meanwhile."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any, cast

import pytest

from distributary.errors import DistributaryError
from distributary.model import Event, Subscription
from distributary.overlay.node import Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.ring import Ring, settle
from distributary.sim.deployment import Deployment
from distributary.systems.hope.addressing import Addressing
from distributary.systems.hope.broker import HopeBroker
from distributary.systems.hope.dimension import STEP, estimated_bits
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.hope.messages import RegistrationName
from systems.hope.world import (
    KINDS,
    ROUTINGS,
    Routing,
    delivered,
    expected,
    random_document,
    random_path,
    settled,
)

NODES = 24


def brokers(deployment: Any) -> list[HopeBroker]:
    return [cast(HopeBroker, member) for member in deployment.members.values()]


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [1, 8])
def test_the_dimension_comes_to_fit_and_every_event_is_delivered_on_the_way(
    kind: type[HopeBroker], start: int, routing: Routing
) -> None:
    random = Random(start)
    identifiers = random.sample(range(1 << 14), NODES)
    deployment = settled(
        kind,
        identifiers,
        14,
        Addressing(start, 64),
        dimensions=tuple(range(1, 9)),
        refresh=5.0,
        copies=1,
        routing=routing,
    )
    nodes = list(deployment.members)
    subscriptions = []
    for number in range(25):
        subscriptions.append(Subscription(f"s{number}", f"u{number}", path=random_path(random)))
        deployment.subscribe(subscriptions[-1], at=random.choice(nodes))
    deployment.simulator.run(until=2)
    events, seen = [], set()
    for number in range(60):
        events.append(Event(f"e{number}", document=random_document(random)))
        deployment.publish(events[-1], at=random.choice(nodes))
        deployment.simulator.run(until=4 + 2 * number)
        seen |= {
            (broker.agreement.dimension, broker.agreement.settled.registering)
            for broker in brokers(deployment)
        }
    assert delivered(deployment) == expected(subscriptions, events)
    assert len(seen) >= 4, "all steps of a change were lived through"
    settlements = {broker.agreement.settled for broker in brokers(deployment)}
    assert len(settlements) == 1
    (final,) = settlements
    assert len(final.registering) == 1
    assert 4 <= brokers(deployment)[0].agreement.dimension <= 6
    assert registered_in(deployment).keys() == {final.publishing}, "nothing is left in the old cubes"


def registered_in(deployment: Deployment) -> dict[int, set[str]]:
    """By rank, the cubes in which there are registrations, and of which subscriptions."""
    found: dict[int, set[str]] = {}
    for broker in brokers(deployment):
        for position in broker.replication.hosted():
            for name in broker.replication.contents(position):
                if isinstance(name, RegistrationName):
                    found.setdefault(broker.cubes.place(position).rank, set()).add(name.subscription.id)
    return found


@pytest.mark.parametrize(("step", "ranks"), [(1, (0, 1)), (3, (1,))])
def test_a_home_follows_a_change_of_cubes_at_once_and_not_with_its_next_refresh(
    step: int, ranks: tuple[int, ...]
) -> None:
    nodes = range(0, 1 << 10, 64)
    deployment = settled(KINDS[1], nodes, 10, Addressing(1, 64), dimensions=(1, 4), refresh=5.0, copies=1)
    for node in nodes:
        deployment.subscribe(Subscription(f"s{node}", "ann", path=f"/a/b{node}"), at=node)
    world = deployment.simulator
    while any(broker.agreement.settled.number < step for broker in brokers(deployment)):
        assert world.now < 200
        world.run(until=world.now + 0.2)
    world.run(until=world.now + 1.0)
    assert registered_in(deployment) == {rank: {f"s{node}" for node in nodes} for rank in ranks}


def test_a_newcomer_learns_what_is_settled() -> None:
    deployment = settled(
        KINDS[1], range(0, 1 << 10, 64), 10, Addressing(1, 64), dimensions=(1, 4), refresh=5.0, copies=1
    )
    deployment.simulator.run(until=80)
    assert all(broker.agreement.dimension == 4 for broker in brokers(deployment))
    newcomer = cast(HopeBroker, deployment.add(7))
    settle([broker.ring for broker in brokers(deployment)])
    deployment.simulator.call(7, newcomer.ring._changed)
    deployment.simulator.run(until=82)
    assert newcomer.agreement.settled == brokers(deployment)[0].agreement.settled


def test_the_steps_of_a_change_are_some_periods_apart_whatever_clocks_say() -> None:
    refresh, random = 5.0, Random(3)
    deployment = settled(
        KINDS[1], range(0, 1 << 10, 64), 10, Addressing(1, 64), dimensions=(1, 4), refresh=refresh, copies=1
    )
    world, began = deployment.simulator, {0: 0.0}
    while world.now < 100:
        world.run(until=world.now + 1)
        world.set_clock(random.choice(list(deployment.members)), forward=random.uniform(0, 60))
        number = max(broker.agreement.settled.number for broker in brokers(deployment))
        began.setdefault(number, world.now)
    assert list(began) == [0, 1, 2, 3]
    assert all(later - earlier >= STEP * refresh - 1 for earlier, later in pairwise(began.values()))


@pytest.mark.parametrize(("dimension", "refresh"), [(9, 5.0), (2, None)])
def test_dimensions_that_cannot_be_changed_are_refused(dimension: int, refresh: float | None) -> None:
    ring = Ring(Node(1), Circle(16))
    with pytest.raises(DistributaryError, match="length of addresses"):
        Kbsp(ring, Addressing(dimension), dimensions=(1, 2, 3), refresh=refresh)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 30, 200])
def test_the_guess_of_the_nodes_is_near_on_average(count: int) -> None:
    random = Random(count)
    rings = [Ring(Node(point), Circle(20)) for point in random.sample(range(1 << 20), count)]
    settle(rings)
    mean = sum(map(estimated_bits, rings)) / count
    assert 2**mean == pytest.approx(count, rel=0.35)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asks", [False, True])
def test_who_comes_back_gets_what_was_stored_before_the_addresses_changed(
    kind: type[HopeBroker], asks: bool
) -> None:
    """By itself when the subscription was there before; when it is new, by asking."""
    random = Random(7)
    deployment = settled(
        kind,
        random.sample(range(1 << 14), NODES),
        14,
        Addressing(1, 64),
        dimensions=(1, 5),
        refresh=5.0,
        copies=1,
        history=100,
    )
    nodes = list(deployment.members)
    subscription = Subscription("s", "ann", path="//a")
    if not asks:
        deployment.subscribe(subscription, at=nodes[2])
        deployment.simulator.run(until=2)
        deployment.unsubscribe(subscription.key)
        deployment.simulator.run(until=4)
    events = [Event(f"e{number}", document=f"<r><a>{number}</a></r>") for number in range(15)]
    for event in events:
        deployment.publish(event, at=random.choice(nodes))
    deployment.simulator.run(until=80)
    assert {broker.agreement.settled.registering for broker in brokers(deployment)} == {(1,)}
    deployment.subscribe(subscription, at=nodes[9])
    deployment.simulator.run(until=82)
    if asks:
        assert not delivered(deployment)
        broker = cast(HopeBroker, deployment.members[nodes[9]])
        deployment.simulator.call(nodes[9], lambda: broker.catch_up(subscription.key))
        deployment.simulator.run(until=84)
    assert delivered(deployment) == expected([subscription], events)
    assert len(delivered(deployment)) == 15

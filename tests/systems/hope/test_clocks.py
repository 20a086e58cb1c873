"""HOPE with clocks that are put forward, put back while a node is down, or run too fast or too slow."""

from __future__ import annotations

from random import Random
from typing import cast

import pytest

from distributary.model import Event, Subscription
from distributary.systems.hope.addressing import Addressing
from distributary.systems.hope.broker import HopeBroker
from distributary.systems.hope.kbsp import Kbsp
from systems.hope.test_faults import clients, got, publish
from systems.hope.world import KINDS, expected, settled


@pytest.mark.parametrize("budget", [1, None])
@pytest.mark.parametrize("seed", range(4))
def test_nodes_whose_numbers_begin_further_back_are_heard(seed: int, budget: int | None) -> None:
    """After a restart adverts are numbered by the clock, which may have been put back meanwhile."""
    random = Random(seed)
    deployment = settled(Kbsp, range(64), 6, Addressing(6, 64), budget=budget)
    subscriptions = clients(deployment, random, 10)
    deployment.simulator.run()
    for member in deployment.members.values():
        cast(Kbsp, member)._number -= 1_000_000
    subscriptions += clients(deployment, random, 10, first=10)
    deployment.simulator.run()
    events = publish(deployment, random, [f"e{number}" for number in range(20)])
    deployment.simulator.run()
    assert got(deployment) == set(expected(subscriptions, events))
    assert len(got(deployment)) > 10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("away", [30.0, 20_000.0, 6 * 86_400.0])
@pytest.mark.parametrize("seed", range(3))
def test_who_was_away_for_long_misses_nothing_where_clocks_run_unevenly(
    kind: type[HopeBroker], away: float, seed: int
) -> None:
    """Half of the clocks are fast and half slow, by as much as clocks are that nobody sets right."""
    random = Random(seed)
    deployment = settled(kind, range(0, 64, 4), 6, Addressing(6, 64), history=50)
    nodes, simulator = list(deployment.members), deployment.simulator
    for node in nodes:
        simulator.set_clock(node, forward=random.uniform(0, 500), rate=random.choice([0.9996, 1.0004]))
    subscription = Subscription("s", "ann", path="//a")
    deployment.subscribe(subscription, at=nodes[0])
    simulator.run(until=20)
    deployment.unsubscribe(subscription.key)
    for number in range(10):
        simulator.run(until=simulator.now + 1)
        document = "<a>" + "".join(f"<{label}/>" for label in random.sample("bcdefgh", 3)) + "</a>"
        deployment.publish(Event(f"e{number}", document=document), at=random.choice(nodes))
    simulator.run(until=20 + away)
    deployment.subscribe(subscription, at=nodes[0])
    simulator.run(until=simulator.now + 40)
    assert got(deployment) == {(f"e{number}", "ann") for number in range(10)}

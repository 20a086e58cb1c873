"""The tree that optimises itself while things go wrong: always a tree, and no event lost or repeated.

Latencies differ from message to message, so what is measured never settles and rewrites never end.
"""

from __future__ import annotations

from typing import Any

import pytest

from distributary.overlay.tree.topology import unsettled
from distributary.plan.trees.goals import parse_goal
from distributary.sim.scenario import random_scenario
from distributary.systems.tree.settings import OptimisationSettings
from replay import replayed_by
from systems.tree.test_faults import LOSSLESS, NODES, SPARES
from systems.tree.worlds import World

RESTLESS = {
    "total": "minimise aggregate(SUM, aggregate(SUM, link latency, PATH), BROKERS)",
    "maximum": "minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)",
    "variance": "minimise aggregate(VARIANCE, aggregate(SUM, link latency, PATH), BROKERS)",
    "data": "minimise aggregate(SUM, superfluous data, BROKERS)",
}


def restless(name: str, **more: Any) -> OptimisationSettings:
    """An optimiser in a hurry, which measures all links anew."""
    given = {"statistics": 0.5, "period": 5.0, "window": 2.0, "fresh": 5.0, "concurrent": True, **more}
    return OptimisationSettings(parse_goal(RESTLESS[name]), **given)


def through_faults(name: str, seed: int, kinds: tuple[str, ...], duration: float) -> World:
    """Publish while the tree optimises itself and faults of these kinds happen, until all has healed."""
    world = World(
        NODES, seed, robust=True, election=60.0, optimising=restless(name, best_effort=seed % 2 == 0)
    )
    for number in range(15):
        world.subscribe(f"s{number}")
    scenario = random_scenario(
        seed, range(1, NODES + 1), kinds=kinds, spares=SPARES, start=5, duration=duration
    )
    injection = scenario.inject(world.deployment)
    world.run(5)
    while world.simulator.now < scenario.healed:
        world.publish()
        world.run(1)
    world.run(30)
    for optimiser in world.optimisers():
        optimiser.active = False
    world.run(60)
    scenario.require_fired(injection)
    return world


def assert_healed(world: World) -> None:
    assert world.got() == world.expected
    assert unsettled(world.trees(up=True)) == []


@pytest.mark.parametrize(("name", "seed"), [("maximum", 1), ("data", 2)])
def test_nothing_is_lost_or_repeated_while_it_optimises_itself_through_faults(name: str, seed: int) -> None:
    kinds = ("loss", "restart with state", "join")
    world = through_faults(name, seed, kinds, duration=30)
    assert_healed(world)
    assert sum(optimiser.executor.changes for optimiser in world.optimisers()) > 0


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("name", RESTLESS)
def test_nothing_is_lost_or_repeated_through_thousands_of_rewrites_and_faults(
    name: str, seed: int, record_property: Any
) -> None:
    with replayed_by(f"pytest -m chaos {__file__} -k 'thousands and {name}-{seed}'"):
        kinds = tuple(LOSSLESS[(seed + step) % len(LOSSLESS)] for step in (0, 3, 5, 7))
        world = through_faults(name, seed, kinds, duration=120)
        record_property("moves", sum(tree.link.moves for tree in world.trees()))
        record_property("rewrites", sum(each.executor.done for each in world.optimisers()))
        record_property("given up", sum(each.executor.given_up for each in world.optimisers()))
        assert_healed(world)


def test_a_rewrite_that_loses_a_node_in_the_middle_is_given_up_and_leaves_a_tree() -> None:
    """A node that is to change its parent crashes as soon as a rewrite is under way, again and again."""
    world = World(NODES, 4, robust=True, optimising=restless("total"))
    for number in range(15):
        world.subscribe(f"s{number}")
    root = world.optimisers()[0].executor
    crashed = 0
    for _ in range(300):
        world.run(0.1)
        if root.busy and crashed < 3:
            victim = max(root.locked - {1})
            if world.simulator.is_up(victim):
                world.deployment.crash(victim)
                crashed += 1
                world.publish()
                world.run(8)
                world.deployment.restart(victim)
    world.run(20)
    for optimiser in world.optimisers():
        optimiser.active = False
    world.run(60)
    assert root.given_up > 0
    assert_healed(world)

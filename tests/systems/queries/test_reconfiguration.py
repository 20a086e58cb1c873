"""Operators move, are divided and move again while items flow; every client still gets exactly its answer."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from distributary.flow import Catalogue, Copy, Count, FilterOperation, Item, Operator, Query, Source
from distributary.sim.faults import (
    Crash,
    DelaySpike,
    Duplication,
    Fault,
    Injection,
    Loss,
    Partition,
    Pause,
    Reordering,
)
from flow.random_queries import random_catalogue, random_streams
from replay import many_seeds
from systems.queries.worlds import World, expect_equal, run_through


def changed_at_random(seed: int, faults: bool = False, **sizes: int) -> tuple[World, Counter[str]]:
    """Run random queries over random data with random changes; returns the world and which faults fired."""
    random = Random(f"{seed}/changes")
    catalogue, items = random_catalogue(random, **sizes), random_streams(random)
    world = World(random.randint(2, 6), seed)
    world.register(catalogue)
    fired: Counter[str] = Counter()
    if faults:
        now = world.simulator.now
        fired = Injection(world.population, random_faults(random, world, now)).fired
    run_through(world, catalogue, items, changes=random.choice([0.1, 0.5, 2.0]))
    expect_equal(world, catalogue, items)
    return world, fired


def random_faults(random: Random, world: World, now: float) -> list[Fault]:
    """Faults of messages throughout, and of nodes now and then."""
    end = now + 30.0
    found: list[Fault] = [
        Loss(start=now, end=end, probability=0.1),
        Duplication(start=now, end=end, probability=0.1, within=0.5),
        Reordering(start=now, end=end, probability=0.1, by=0.3),
        DelaySpike(start=now + 0.5, end=now + 1.5, extra=0.4),
    ]
    nodes = random.sample(world.nodes, 2)
    found.append(Pause(start=now + 0.3, end=now + 1.3, node=nodes[0]))
    found.append(Crash(start=now + 1.0, end=now + 3.0, node=nodes[1], keep_state=True))
    found.append(Partition(start=now + 2.0, end=now + 4.0, side=(nodes[0],)))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_exact_while_operators_move_and_are_divided(seed: int) -> None:
    changed_at_random(seed)


def test_all_kinds_of_change_happen() -> None:
    changed: Counter[str] = Counter()
    for seed in range(100, 112):
        changed.update(changed_at_random(seed, queries=3)[0].changed)
    assert min(changed.values()) > 2, changed


@pytest.mark.parametrize("seed", range(5))
def test_answers_are_exact_through_faults_of_messages_and_nodes_that_come_back(seed: int) -> None:
    _, fired = changed_at_random(seed + 1000, faults=True)
    assert fired["loss"]
    assert fired["duplication"]


def test_a_super_operator_moves_as_one_and_its_inner_streams_never_travel() -> None:
    source = Source("ticks", {"at": "integer"}, time="at", topic="ticks", lateness=15)
    operators = [
        Operator("late", FilterOperation(where="at > 3"), ("ticks",)),
        Operator("twice", Copy({"at": "then"}), ("late",)),
        Operator("many", Count("10 ms"), ("twice",)),
    ]
    query = Query("q", operators, units={"core": ["late", "twice"]})
    catalogue = Catalogue([source], [query])
    items = {"ticks": [Item(f"t{at}", at, {"at": at}) for at in range(40)]}
    world = World(4, 2)
    world.register(catalogue, {"ticks": 1, "q": 2})
    for at, to in ((2, 3), (3, 4)):
        world.simulator.call(at, lambda at=at, to=to: world.broker(at).move("q.late", to))
        world.run(5)
    assert dict(world.operators()) == {"q.late": 4, "q.twice": 4, "q.many": 2}
    assert not world.broker(4).reconfiguration.can_partition("q.twice")
    run_through(world, catalogue, items, changes=0)
    expect_equal(world, catalogue, items)
    assert hops(world, "q.late") == {4}


def hops(world: World, stream: str) -> set[int]:
    """The nodes that a stream is sent to."""
    routes = [broker.router.routes.get(stream, {}) for broker in world.brokers]
    return {hop for each in routes for route in each.values() for hop in route.hops}


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(2000, 2300))
def test_answers_are_exact_while_everything_moves_on_many_seeds(seed: int) -> None:
    changed_at_random(seed, queries=3)


@pytest.mark.chaos
def test_answers_are_exact_through_faults_on_many_seeds() -> None:
    total: Counter[str] = Counter()
    for seed in many_seeds(3000, 150):
        total.update(changed_at_random(seed, faults=True)[1])
    for kind in ("loss", "duplication", "reordering", "delay spike", "partition", "pause", "crash"):
        assert total[kind], kind
    assert total["restart with state"]

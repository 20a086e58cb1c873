"""Trees of sources with nearly the same members are merged while items flow; nobody's answer changes."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple

import pytest

from distributary.flow import Catalogue, Item, QueryBuilder, Source
from distributary.overlay.node import Address
from distributary.sim.faults import Crash, Fault, Injection
from distributary.systems.queries.registry import QueryRegistry
from distributary.systems.queries.registry_failover import RegistryClient
from distributary.systems.queries.settings import CheckpointSettings, Regrouping
from distributary.systems.queries.source_trees import SourceTree, mergeable
from flow.random_queries import random_catalogue, random_streams
from replay import many_seeds
from systems.queries.test_reconfiguration import random_faults
from systems.queries.worlds import REGISTRY, VOLUME, World, expect_equal, run_through

OFTEN = Regrouping(period=0.7, likeness=0.3)
QUICK = CheckpointSettings(checkpoint=0.3, beat=0.2, silence=2.0)
ENDS = (1, 2, 3)


def registry_of(world: World) -> QueryRegistry:
    registry = world.broker(REGISTRY).registry_link.local_registry
    assert registry is not None
    return registry


def regrouped_at_random(seed: int, faults: bool = False, gone: bool = False) -> tuple[World, Counter[str]]:
    """Random queries over random data with random changes, while trees are merged and made again."""
    random = Random(f"{seed}/regrouped")
    catalogue, items = random_catalogue(random, queries=4), random_streams(random)
    rich = {node: random.choice([1.5, 10.0]) * VOLUME for node in range(4, 7)}
    bandwidth = {**dict.fromkeys(ENDS, 1.0), **rich} if gone or random.random() < 0.5 else None
    checkpoints = QUICK if gone else None
    world = World(6, seed, checkpoints=checkpoints, bandwidth=bandwidth, regrouping=OFTEN)
    where = {name: random.choice(ENDS) for name in (*catalogue.sources, *catalogue.queries)}
    world.register(Catalogue(catalogue.sources.values(), []), where)
    world.register_queries(catalogue, where)
    now = world.simulator.now
    planned: list[Fault] = random_faults(random, world, now) if faults else []
    if gone:
        roots = [tree.root for tree in registry_of(world).trees]
        planned.append(Crash(start=now + random.uniform(0.2, 4.0), node=random.choice(roots)))
    fired = Injection(world.population, planned).fired
    divide(world, random)
    run_through(world, catalogue, items, random.choice([0.1, 0.5]), rest=20 if gone else 100, pace=2.0)
    expect_equal(world, catalogue, items, in_order=not gone)
    return world, fired


class Apart(NamedTuple):
    """A source is to have a tree of its own, with this root."""

    source: str
    root: Address


def can_part(registry: QueryRegistry) -> None:
    def part(message: Apart, sender: Address) -> None:
        name, root = message
        if root in registry.removed:  # between the choice of the root and this entry of the registry's log
            return
        registry.trees.append(SourceTree(root))
        into, place = len(registry.trees) - 1, registry.locations[name]
        registry.locations[name] = place._replace(host=root, tree=into, version=place.version + 1)
        registry._announce_root(name)

    registry.handlers[Apart] = part


def divide(world: World, random: Random) -> None:
    """Now and then a source gets a tree of its own again, so that there is something to merge."""
    registry = registry_of(world)
    for broker in world.brokers:
        link = broker.registry_link
        own = link.replica.registry if isinstance(link, RegistryClient) else link.local_registry
        if own is not None:
            can_part(own)

    def apart() -> None:
        brokers = [node for node in world.nodes if node not in (*registry.removed, *ENDS[1:])]
        registry._submit(Apart(random.choice(sorted(registry.sources)), random.choice(brokers)))

    def apart_at_registry() -> None:
        if world.simulator.is_up(REGISTRY):
            world.simulator.call(REGISTRY, apart)

    for step in range(6):
        moment = world.simulator.now + step + random.random()
        world.simulator.at(moment, apart_at_registry)


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_answers_are_exact_while_sources_change_trees(seed: int) -> None:
    assert registry_of(regrouped_at_random(seed)[0]).merged > 0


def test_it_works_through_faults_of_messages_and_nodes_that_come_back() -> None:
    world, fired = regrouped_at_random(100, faults=True)
    assert registry_of(world).merged > 0
    assert fired["loss"]


def test_it_works_while_a_root_broker_is_gone() -> None:
    world, fired = regrouped_at_random(200, gone=True)
    assert registry_of(world).merged > 0
    assert fired["crash"] == 1


def test_trees_of_the_same_members_become_one_and_the_other_is_left() -> None:
    sources = [
        Source(name, {"at": "integer"}, time="at", topic=name, lateness=15) for name in ("left", "right")
    ]
    build, other = QueryBuilder("q"), QueryBuilder("r")
    build.union("both", "left", "right")
    other.union("both", "right", "left", "left")
    catalogue = Catalogue(sources, [build.query(), other.query()])
    items = {
        source.name: [Item(f"{source.name}{at}", at, {"at": at}) for at in range(30)] for source in sources
    }
    world = World(4, 1, regrouping=Regrouping(period=30.0, likeness=0.5))
    world.register(catalogue, {"left": 1, "right": 2, "q": 3, "r": 4})
    registry = registry_of(world)
    assert [(tree.root, set(tree.parents)) for tree in registry.trees] == [(1, {3, 4}), (2, {3, 4})]
    feed(world, items, range(15))
    assert registry.merged == 0
    world.run(30 - world.simulator.now)
    feed(world, items, range(15, 30))  # while it happens
    world.run(10)
    for source in sources:
        world.end(source.name)
    world.run(10)
    expect_equal(world, catalogue, items)
    assert registry.merged == 1
    assert {registry.locations[source.name].tree for source in sources} == {0}
    assert registry.trees[1].parents == {}
    assert [set(broker.router.parents) for broker in world.brokers] == [set(), set(), {0}, {0}]
    # A source that comes later can have a tree of its own again: the one that is left does not count.
    world.register(Catalogue([Source("more", {"at": "integer"}, time="at", topic="more")], []), {"more": 4})
    assert registry.trees[-1].root == 4


def feed(world: World, items: dict[str, list[Item]], which: range) -> None:
    for number in which:
        for source, given in items.items():
            world.feed(source, given[number])
        world.run(0.05)


@pytest.mark.parametrize(
    ("bandwidth", "volumes", "merged"),
    [
        ({}, {0: 10.0, 1: 20.0}, (0, 1)),
        ({2: 25.0}, {0: 10.0, 1: 20.0}, (1, 0)),  # the second root has no room for the first's sources
        ({1: 15.0, 2: 25.0}, {0: 10.0, 1: 20.0}, None),
        ({}, {0: 10.0, 2: 20.0}, None),  # their members are others
        ({}, {0: 10.0}, None),
    ],
)
def test_the_tree_with_more_volume_and_room_takes_the_sources_of_the_other(
    bandwidth: dict[int, float], volumes: dict[int, float], merged: tuple[int, int] | None
) -> None:
    trees = [SourceTree(1, {2: 1, 3: 1}), SourceTree(2, {1: 2, 3: 2}), SourceTree(4, {3: 4})]
    spent = {1: 10.0, 2: 20.0}

    def left(broker: int) -> float:
        return bandwidth.get(broker, 1e6) - spent.get(broker, 0.0)

    assert mergeable(trees, volumes, 0.8, left) == merged


@pytest.mark.chaos
@pytest.mark.parametrize(("faults", "gone"), [(False, False), (True, False), (False, True)])
def test_answers_are_exact_while_sources_change_trees_on_many_seeds(faults: bool, gone: bool) -> None:
    total: Counter[str] = Counter()
    merged = 0
    seeds = many_seeds(9000, 150)
    for seed in seeds:
        world, fired = regrouped_at_random(seed, faults, gone)
        merged += registry_of(world).merged
        total.update(fired)
    assert merged > len(seeds)
    assert not faults or total["loss"]
    assert not gone or total["crash"] == len(seeds)

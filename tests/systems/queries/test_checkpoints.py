"""A node is gone for good: its backup host continues its operators, and the answers stay exact."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from distributary.flow import BEGINNING, Catalogue, Item, Query, QueryBuilder, Source
from distributary.overlay.node import Address
from distributary.sim.faults import Crash, Duplication, Injection, Loss, Reordering
from distributary.systems.queries.checkpoints import (
    CHECKPOINT_MESSAGES,
    PATIENCE,
    RECOVERY,
)
from distributary.systems.queries.engine import DuplicateFilter
from distributary.systems.queries.messages import Element
from distributary.systems.queries.registry_failover import (
    NodeRemoval,
    PrimaryAnnouncement,
    RegistrySnapshot,
    RemovalNotice,
)
from distributary.systems.queries.settings import CheckpointSettings
from distributary.systems.queries.source_trees import ParentChoice, SourceTree
from flow.random_queries import random_catalogue, random_streams
from replay import many_seeds
from systems.queries.worlds import REGISTRY, VOLUME, World, expect_equal, row_of_nodes, run_through

QUICK = CheckpointSettings(checkpoint=0.3, beat=0.2, silence=2.0)
PATIENT = CheckpointSettings(checkpoint=0.3, beat=0.5, silence=15.0)
"""Where messages are lost and sent again."""
ENDS = (1, 2, 3)
"""Where sources and clients are; the others may go."""


def with_nodes_gone(
    seed: int, changes: float, faults: bool = False, victims: int = 1, roots: bool = False
) -> tuple[World, Counter[str]]:
    """Random queries over random data; some time on the way, nodes are gone for good, one after the other.

    With `roots`, others than the proxies are the root brokers of the sources, and such go first.
    """
    random = Random(f"{seed}/gone")
    catalogue, items = random_catalogue(random, queries=3), random_streams(random)
    nodes = 5 + victims
    rich = {node: random.choice([1.5, 10.0]) * VOLUME for node in range(len(ENDS) + 1, nodes + 1)}
    world = World(
        nodes,
        seed,
        checkpoints=PATIENT if faults else QUICK,
        bandwidth={**dict.fromkeys(ENDS, 1.0), **rich} if roots else None,
    )
    where = {name: random.choice(ENDS) for name in (*catalogue.sources, *catalogue.queries)}
    world.register(catalogue, where)
    for name, at in world.operators():
        broker, to = world.broker(at), random.choice(world.nodes)
        world.simulator.call(at, lambda broker=broker, name=name, to=to: broker.move(name, to))
        world.run(0.2)
    gone = chosen_victims(random, world, victims, roots)
    planned, moment = [], world.simulator.now + random.uniform(0.1, 4.0)
    for node in gone:
        planned.append(Crash(start=moment, node=node))
        moment += random.uniform(20.0, 30.0) if faults else random.uniform(3.0, 6.0)
    if faults:
        now, end = world.simulator.now, moment + 10
        planned += [
            Loss(start=now, end=end, probability=0.05),
            Duplication(start=now, end=end, probability=0.05, within=0.5),
            Reordering(start=now, end=end, probability=0.05, by=0.2),
        ]
    fired = Injection(world.population, planned).fired
    rest, slower = (100, 8) if faults else (20, 2)
    run_through(world, catalogue, items, changes, rest, pace=1.0 if victims == 1 else slower)
    assert fired["crash"] == victims
    expect_equal(world, catalogue, items, in_order=False)
    world.run(2 + PATIENCE * (PATIENT if faults else QUICK).silence)
    expect_nobody_is_awaited_in_vain(world)
    return world, fired


def expect_nobody_is_awaited_in_vain(world: World) -> None:
    """Every operator is at one node, and publishers wait for no others: else they would keep all for ever."""
    up = [broker for broker in world.brokers if world.simulator.is_up(broker.node.address)]
    hosted = [one for broker in up for one in broker.engine.hosted.values()]
    assert len(hosted) == len({one.name for one in hosted})
    readers = {(*reader.key, stream) for one in hosted for stream, reader in one.readers()}
    awaited = {
        (name, at, stream)
        for broker in up
        for stream, publication in broker.router.publications.items()
        for name, at in publication.acknowledged
    }
    assert awaited <= readers
    managers = [broker.checkpoints for broker in up if broker.checkpoints is not None]
    assert not [name for manager in managers for name in manager._sent]


def chosen_victims(random: Random, world: World, count: int, roots: bool) -> list[Address]:
    """Who goes: hosts, often one and then the one who went on with its operators; or root brokers first."""
    able = [node for node in world.nodes if node not in ENDS]
    registry = world.broker(REGISTRY).registry_link.local_registry
    assert registry is not None
    found = sorted({tree.root for tree in registry.trees}) if roots else [random.choice(able)]
    random.shuffle(found)
    assert able, "proxies have too little bandwidth to be roots"
    found = found[:count]
    while len(found) < count:
        rest = [node for node in able if node not in found]
        after = [node for node in rest if node > found[-1]]
        found.append(after[0] if after and random.random() < 0.6 else random.choice(rest))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_answers_are_exact_after_a_node_is_gone(seed: int) -> None:
    with_nodes_gone(seed, changes=random_changes(seed))


@pytest.mark.parametrize("seed", [4063, 4065])
def test_nobody_waits_for_what_was_lost_with_a_node_amid_changes_and_faults(seed: int) -> None:
    """An operator that left just before and never said so, and replicas of which nobody else had heard."""
    with_nodes_gone(seed, random_changes(seed), faults=True)


@pytest.mark.parametrize("seed", range(100, 104))
def test_answers_are_exact_after_a_node_and_then_its_backup_host_are_gone(seed: int) -> None:
    with_nodes_gone(seed, random_changes(seed), victims=2)


@pytest.mark.parametrize("seed", range(200, 204))
def test_answers_are_exact_after_a_root_broker_is_gone(seed: int) -> None:
    world, _ = with_nodes_gone(seed, random_changes(seed), roots=True)
    registry = world.broker(REGISTRY).registry_link.local_registry
    assert registry is not None
    roots = {registry.locations[name].host for name in registry.sources}
    assert roots == {tree.root for tree in registry.trees}
    assert all(world.simulator.is_up(root) for root in roots), "others were chosen"


def test_a_root_is_replaced_by_one_that_passed_nothing_on_to_those_below_it() -> None:
    choice = ParentChoice(row_of_nodes(9), fanout=2)
    tree = SourceTree(root=1, parents={2: 1, 3: 2, 4: 3, 5: 1, 6: 5})
    assert tree.root_candidates(range(2, 9)) == [2, 5, 7, 8]
    assert sorted(tree.replace_root(5, choice)) == [2, 3, 4, 6]
    assert (tree.root, tree.parents) == (5, {2: 5, 3: 2, 4: 3, 6: 5})
    assert sorted(tree.replace_root(9, choice)) == [2, 3, 4, 6]
    assert (tree.root, tree.parents) == (9, {2: 9, 3: 2, 4: 3, 6: 4})


def random_changes(seed: int) -> float:
    return Random(f"{seed}/how many").choice([0.0, 0.1, 0.5])


def test_backup_hosts_do_continue_operators() -> None:
    revived = 0
    for seed in range(50, 53):
        world, _ = with_nodes_gone(seed, changes=0.0)
        revived += sum(
            broker.checkpoints.recovered for broker in world.brokers if broker.checkpoints is not None
        )
        told = set(CHECKPOINT_MESSAGES) - {
            NodeRemoval,
            RegistrySnapshot,
            PrimaryAnnouncement,
            RemovalNotice,
        }  # which travels in an answer, or not at all
        assert {kind.__name__ for kind in told} <= world.metrics.by_kind().keys()
    assert revived > 2


TICKS = Source("ticks", {"at": "integer"}, time="at", topic="ticks", lateness=1000)


def ticks(count: int) -> dict[str, list[Item]]:
    return {"ticks": [Item(f"t{at}", at, {"at": at}) for at in range(count)]}


def long_after_a_checkpoint(*queries: Query) -> World:
    """The first operator of query q is at node 4; a checkpoint has just been stored, another is far."""
    world = World(5, 1, checkpoints=CheckpointSettings(checkpoint=20.0, beat=0.2, silence=2.0))
    world.register(Catalogue([TICKS], queries), {"ticks": 1, "q": 2})
    world.simulator.call(2, lambda: world.broker(2).move("q.some", 4))
    world.run(40 - world.simulator.now % 20)
    return world


def lose_the_operator(world: World) -> None:
    world.population.crash(4)
    world.run(10)
    world.end("ticks")
    world.run(10)
    checkpoints = world.broker(5).checkpoints
    assert checkpoints is not None
    assert checkpoints.recovered == 1


def test_what_was_given_out_after_the_last_checkpoint_is_not_delivered_twice() -> None:
    build = QueryBuilder("q")
    build.filter("some", "ticks", where="at > 2")
    world = long_after_a_checkpoint(build.query())
    for item in ticks(10)["ticks"]:
        world.feed("ticks", item)
    world.run(2)
    assert len(world.results()["q.some"]) == 7
    lose_the_operator(world)
    expect_equal(world, Catalogue([TICKS], [build.query()]), ticks(10), in_order=False)


@pytest.mark.parametrize("by", ["partition", "replicate"])
def test_replicas_know_again_what_was_taken_before_the_division(by: str) -> None:
    build = QueryBuilder("q")
    some = build.filter("some", "ticks", where="at > 2")
    of = some if by == "partition" else build.union("both", some, some)
    build.count("many", of, window="5 ms")
    world = long_after_a_checkpoint(build.query())
    for item in ticks(10)["ticks"]:
        world.feed("ticks", item)
    world.run(2)
    broker = world.broker(2)
    world.simulator.call(2, lambda: getattr(broker, by)("q.many"))
    world.run(2)
    assert len(world.operators()) == (4 if by == "partition" else 5)
    lose_the_operator(world)
    expect_equal(world, Catalogue([TICKS], [build.query()]), ticks(10), in_order=False)


def test_who_came_after_the_last_checkpoint_gets_everything_too() -> None:
    build, later = QueryBuilder("q"), QueryBuilder("later")
    build.filter("some", "ticks", where="at > 2")
    later.count("many", "q.some", window="5 ms")
    world = long_after_a_checkpoint(build.query())
    world.simulator.call(3, lambda: world.broker(3).register_query(later.query()))
    world.run(2)
    for item in ticks(10)["ticks"]:
        world.feed("ticks", item)
    world.run(2)
    lose_the_operator(world)
    catalogue = Catalogue([TICKS], [build.query(), later.query()])
    expect_equal(world, catalogue, ticks(10), in_order=False)


def test_backup_hosts_have_backup_hosts() -> None:
    """Operators are found that two nodes have continued, one after the other."""
    versions = []
    for seed in range(110, 113):
        world, _ = with_nodes_gone(seed, changes=0.0, victims=2)
        for broker in world.brokers:
            versions += [broker.router.locations[name].version for name in broker.engine.operators]
    assert max(versions) >= 2 * RECOVERY


def test_a_reader_knows_again_what_it_has_taken() -> None:
    memory = DuplicateFilter()
    one, two, old = Item("a", 10, {}), Item("b", 12, {}), Item("c", 3, {})
    first = [Element(1, one), Element(2, old), Element(3, watermark=8)]
    assert memory.fresh(first) == first
    again = [Element(11, old), Element(12, two), Element(13, one), Element(14, watermark=11)]
    assert [element.number for element in memory.fresh(again)] == [12, 14]
    assert memory.state() == (11, (("b", 12),))
    assert DuplicateFilter((("b", 12),), BEGINNING).fresh([Element(20, two)]) == []


def test_those_below_a_member_that_is_gone_get_another_way_to_the_root() -> None:
    choice = ParentChoice(row_of_nodes(6), fanout=2)
    tree = SourceTree(root=1, parents={2: 1, 3: 2, 4: 3, 5: 2, 6: 1})
    assert sorted(tree.remove(2, choice)) == [3, 4, 5]
    assert tree.parents == {3: 1, 4: 3, 5: 4, 6: 1}
    assert tree.remove(2, choice) == []


@pytest.mark.chaos
@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize(("victims", "roots"), [(1, False), (2, False), (3, False), (1, True), (2, True)])
def test_answers_are_exact_after_nodes_are_gone_on_many_seeds(
    faults: bool, victims: int, roots: bool
) -> None:
    total: Counter[str] = Counter()
    seeds = many_seeds(4000, 100)
    for seed in seeds:
        total.update(with_nodes_gone(seed, random_changes(seed), faults, victims, roots)[1])
    assert total["crash"] == len(seeds) * victims
    assert not faults or total["loss"]

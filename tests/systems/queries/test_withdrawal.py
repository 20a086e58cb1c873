"""Queries and subscriptions are withdrawn: nothing of them is left anywhere, and nobody else notices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from distributary.flow import (
    Catalogue,
    Copy,
    Count,
    FilterOperation,
    Item,
    Operator,
    Query,
    QueryBuilder,
    interpret,
)
from distributary.flow.language.source import Source
from distributary.model import Subscription, SubscriptionKey
from distributary.overlay.node import Address
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.rules import MIGRATIONS, PARTITION, REPLICATION
from distributary.sim.faults import Crash, Injection
from distributary.systems.queries.broker import FlowBroker, QueryResult, Withdrawal
from distributary.systems.queries.links import LinkTable
from distributary.systems.queries.optimiser import NeighbourhoodOptimiser, SnapshotOptimiser
from distributary.systems.queries.settings import CheckpointSettings, QueryOptimiserSettings
from distributary.systems.queries.source_trees import ParentChoice, SourceTree
from flow.random_queries import random_arrivals, random_catalogue, random_streams
from replay import many_seeds
from systems.queries.test_network import TRADES, busy, trades
from systems.queries.test_reconfiguration import random_faults
from systems.queries.worlds import REGISTRY, World, expect_equal, run_through

QUICK = CheckpointSettings(checkpoint=0.3, beat=0.2, silence=2.0)
PATIENT = CheckpointSettings(checkpoint=0.3, beat=0.5, silence=60.0)


def state(world: World) -> dict[Address, dict[str, Any]]:
    """All that nodes know of operators, readers, trees and clients."""
    return {broker.node.address: state_of(broker, set(sources_of(world))) for broker in world.brokers}


def sources_of(world: World) -> dict[str, Source]:
    registry = world.broker(REGISTRY).registry_link.local_registry
    assert registry is not None
    return registry.sources


def state_of(broker: FlowBroker, sources: set[str]) -> dict[str, Any]:
    router, registry, optimiser = broker.router, broker.registry_link.local_registry, broker.optimiser
    manager, changes = broker.checkpoints, broker.reconfiguration
    known: dict[str, Any] = {
        "hosted": set(broker.engine.hosted),
        "subscriptions": {key: set(readers) for key, readers in broker.subscriptions._sharing.items()},
        "published": {
            name: (dict(one.acknowledged), len(one.kept)) for name, one in router.publications.items()
        },
        "places": {name for name in router.locations if name not in sources},
        "routes": {stream: dict(routes) for stream, routes in router.routes.items() if routes},
        "asked": dict(router._pending),
        "waiting": {stream: list(waiting) for stream, waiting in router._deferred.items() if waiting},
        "trees": (dict(router.parents), set(router._joining)),
        "changes": (dict(changes.waiting), list(changes.releases)),
    }
    if manager is not None:
        copies = (*manager._stored.values(), *manager._forwarded.values())
        known["copies"] = [name for stored in copies for name in stored]
        known["sent"] = (dict(manager._sent), dict(manager._acknowledged))
    if registry is not None:
        known["registry"] = (
            *(dict(registry.queries), dict(registry.clients), dict(registry.runs), dict(registry.specs)),
            *(dict(registry.locations), list(registry.divisions), dict(registry._subscriptions)),
            *(dict(registry._offered), dict(registry._remnants)),
            [(tree.root, dict(tree.parents), set(tree.idle)) for tree in registry.trees],
        )
    if isinstance(optimiser, NeighbourhoodOptimiser):
        model = optimiser.model
        known["measured"] = (set(model.estimates.operators), dict(model.query_counts))
        known["passing"] = (dict(model._passing), dict(model._told_passing))
    elif registry is not None and isinstance(optimiser, SnapshotOptimiser):
        known["measured"] = set(optimiser.estimates.operators)
    return known


def call(world: World, at: Address, action: Callable[[], None]) -> None:
    """Have a client call its node, as soon as that is up."""
    while not world.simulator.is_up(at):
        world.run(0.1)
    world.simulator.call(at, action)


def withdraw(world: World, name: str, at: Address) -> None:
    call(world, at, lambda: world.broker(at).unregister_query(name))


def confirmed(world: World) -> list[str]:
    return [one.item.name for one in world.simulator.delivered if isinstance(one.item, Withdrawal)]


def expect_silence(world: World) -> None:
    """Nothing is delivered of a query after its withdrawal was."""
    over: set[str] = set()
    for one in world.simulator.delivered:
        if isinstance(one.item, Withdrawal):
            over.add(one.item.name)
        elif isinstance(one.item, QueryResult):
            assert one.item.stream.partition(".")[0] not in over


def withdrawn_at_random(
    seed: int, faults: bool = False, checkpoints: CheckpointSettings | None = None, gone: bool = False
) -> tuple[World, Counter[str]]:
    """Random queries, of which some are withdrawn while operators move and are divided, and then the rest."""
    random = Random(f"{seed}/withdrawn")
    catalogue, items = random_catalogue(random, queries=4), random_streams(random)
    world = World(random.randint(4, 6) if gone else random.randint(2, 6), seed, checkpoints=checkpoints)
    ends = world.nodes[:3] if gone else world.nodes
    where = {name: random.choice(ends) for name in (*catalogue.sources, *catalogue.queries)}
    world.register(Catalogue(catalogue.sources.values(), []), where)
    before = state(world)
    world.register_queries(catalogue, where)
    fired: Counter[str] = Counter()
    now = world.simulator.now
    if gone:
        crash = Crash(start=now + random.uniform(0.1, 3.0), node=world.nodes[-1])
        fired = Injection(world.population, [crash]).fired
    elif faults:
        fired = Injection(world.population, random_faults(random, world, now)).fired
    leaving = random.sample(sorted(catalogue.queries), random.randint(1, 3))
    moments = {random.random(): name for name in leaving}
    changes = random.choice([0.1, 0.5, 2.0])
    steps = random_arrivals(random, items)
    for number, (source, step) in enumerate(steps):
        if isinstance(step, Item):
            world.feed(source, step)
        elif step >= 2**53:
            world.end(source)
        while random.random() < changes / (1 + changes):
            world.change()
            world.run(random.choice([0.0, 0.01, 0.05, 0.3]))
        for moment in [moment for moment in moments if moment * len(steps) <= number]:
            name = moments.pop(moment)
            withdraw(world, name, where[name])
        world.run(random.choice([0.0, 0.02, 0.2]))
    for name in moments.values():
        withdraw(world, name, where[name])
    world.run(300 if faults else 60)
    assert sorted(confirmed(world)) == sorted(leaving)
    expect_nothing_of_what_is_over(world)
    expect_silence(world)
    staying = [name for name in catalogue.queries if name not in leaving]
    expect_equal(world, catalogue, items, in_order=not gone, queries=staying)
    expected, found = interpret(catalogue, items).streams, world.results()
    for name in leaving:
        for output in catalogue.outputs(name):
            assert all(item in expected[output] for item in found[output])
    for name in staying:
        withdraw(world, name, where[name])
    world.run(60)
    assert len(confirmed(world)) == len(catalogue.queries)
    expect_state(world, before, world.nodes[-1] if gone else None)
    return world, fired


def expect_state(world: World, before: dict[Address, dict[str, Any]], gone: Address | None = None) -> None:
    for address, known in state(world).items():
        if address != gone:
            for what, value in known.items():
                assert value == before[address][what], (address, what)


def expect_nothing_of_what_is_over(world: World) -> None:
    """No node hosts, publishes, routes to or waits for what was withdrawn, while the rest goes on."""
    for broker in world.brokers:
        router = broker.router
        names = [*broker.engine.hosted, *router.publications, *router.locations, *router.routes]
        names += [reader.name for routes in router.routes.values() for reader in routes]
        names += [name for one in router.publications.values() for name, _ in one.acknowledged]
        assert not [name for name in names if router.is_withdrawn(name)], broker.node.address


@pytest.mark.parametrize("seed", [*range(5), 5010])  # 5010: a reader goes while its publisher moves
def test_the_others_get_their_answers_and_nothing_is_left(seed: int) -> None:
    withdrawn_at_random(seed)


@pytest.mark.parametrize("seed", range(100, 102))
def test_it_works_through_faults_of_messages_and_nodes_that_come_back(seed: int) -> None:
    _, fired = withdrawn_at_random(seed, faults=True)
    assert fired["loss"]


@pytest.mark.parametrize("seed", range(200, 202))
def test_backup_hosts_keep_nothing_of_what_was_withdrawn(seed: int) -> None:
    withdrawn_at_random(seed, checkpoints=QUICK)


def test_it_works_while_a_node_is_gone_for_good() -> None:
    _, fired = withdrawn_at_random(300, checkpoints=QUICK, gone=True)
    assert fired["crash"] == 1


def test_an_operator_goes_on_until_its_last_reader_leaves() -> None:
    """Query two computes the same, query three reads query one's stream by its name, ann subscribes to it."""
    three = QueryBuilder("three")
    three.rename("amounts", "one.large", names={"size": "amount"})
    queries = [busy("one").query(), busy("two").query(), three.query()]
    catalogue, items = Catalogue([TRADES], queries), trades(60)
    world = World(4, 3)
    where = {"trades": 1, "one": 2, "two": 3, "three": 4}
    world.register(Catalogue([TRADES], []), where)
    before = state(world)
    world.register_queries(catalogue, where)
    subscription = Subscription("s1", "ann", topic="one/large")
    call(world, 3, lambda: world.broker(3).subscribe(subscription))
    world.run(5)
    everything = [("one.large", 2), ("one.per_ten", 2), ("three.amounts", 4)]
    assert world.operators() == everything
    withdraw(world, "one", 2)
    world.run(5)
    assert world.operators() == everything
    run_through(world, catalogue, items, changes=0)
    assert not world.results()["one.per_ten"]
    expect_equal(world, catalogue, items, queries=["two", "three"])
    withdraw(world, "two", 3)
    world.run(5)
    assert [name for name, _ in world.operators()] == ["one.large", "three.amounts"]
    withdraw(world, "three", 4)
    world.run(5)
    assert [name for name, _ in world.operators()] == ["one.large"]
    assert len(world.deliveries()) == len(interpret(catalogue, items).streams["one.large"]) > 0
    call(world, 3, lambda: world.broker(3).unsubscribe(SubscriptionKey("ann", "s1")))
    world.run(5)
    assert confirmed(world) == ["one", "two", "three", "s1"]
    expect_state(world, before)


def test_a_super_operator_stops_as_one() -> None:
    source = Source("ticks", {"at": "integer"}, time="at", topic="ticks", lateness=15)
    operators = [
        Operator("late", FilterOperation(where="at > 3"), ("ticks",)),
        Operator("twice", Copy({"at": "then"}), ("late",)),
        Operator("many", Count("10 ms"), ("twice",)),
    ]
    query = Query("q", operators, units={"core": ["late", "twice"]})
    reading = QueryBuilder("r")
    reading.filter("some", "q.twice", where="at > 5")
    world = World(4, 2)
    where = {"ticks": 1, "q": 2, "r": 3}
    world.register(Catalogue([source], []), where)
    before = state(world)
    world.register_queries(Catalogue([source], [query, reading.query()]), where)
    withdraw(world, "q", 2)
    call(world, 2, lambda: world.broker(2).move("q.late", 4))  # asked for while the withdrawal is under way
    world.run(5)
    assert dict(world.operators()) == {"q.late": 4, "q.twice": 4, "r.some": 3}
    withdraw(world, "r", 3)
    world.run(5)
    expect_state(world, before)


def test_divided_operators_stop_with_all_their_parts_wherever_they_are() -> None:
    build = QueryBuilder("q")
    build.count("per_ten", "trades", window="10 ms", group_by=["symbol"])
    world = World(5, 4)
    where = {"trades": 1, "q": 2}
    world.register(Catalogue([TRADES], []), where)
    before = state(world)
    world.register_queries(Catalogue([TRADES], [build.query()]), where)
    call(world, 2, lambda: world.broker(2).partition("q.per_ten", 3, [3, 4, 5]))
    world.run(5)
    assert [at for name, at in world.operators() if "/" in name] == [3, 4, 5]
    call(world, 3, lambda: world.broker(3).move("q.per_ten/1", 4))
    withdraw(world, "q", 2)  # while the replica is on its way
    world.run(10)
    expect_state(world, before)


def test_a_name_can_be_registered_again_with_other_operators() -> None:
    world = World(4, 5)
    where = {"trades": 1, "busy": 2, "other": 3}
    first = Catalogue([TRADES], [busy(least=7).query(), busy("other", least=7).query()])
    world.register(first, where)
    world.run(5)
    withdraw(world, "busy", 2)
    world.run(5)
    second = Catalogue([TRADES], [busy(least=2).query(), busy("other", least=7).query()])
    call(world, 4, lambda: world.broker(4).register_query(second.queries["busy"]))
    world.run(5)
    assert not world.broker(4).refused
    names = [name for name, _ in world.operators()]
    assert names == ["busy.large", "busy.large~2", "busy.per_ten", "busy.per_ten~2"], "other shares the first"
    run_through(world, second, trades(60), changes=0.3)
    expect_equal(world, second, trades(60))
    withdraw(world, "other", 3)
    world.run(5)
    assert {name.partition("/")[0] for name, _ in world.operators()} == {"busy.large~2", "busy.per_ten~2"}


def test_a_query_that_is_still_read_comes_back_as_it_was_or_not_at_all() -> None:
    reading = QueryBuilder("reading")
    reading.filter("some", "busy.large", where="size > 8")
    world = World(3, 6)
    catalogue = Catalogue([TRADES], [busy().query(), reading.query()])
    world.register(catalogue, {"trades": 1, "busy": 2, "reading": 3})
    withdraw(world, "busy", 2)
    world.run(5)
    assert [name for name, _ in world.operators()] == ["busy.large", "reading.some"]
    call(world, 1, lambda: world.broker(1).register_query(busy(least=1).query()))
    world.run(5)
    assert "still read" in world.broker(1).refused["busy"]
    call(world, 1, lambda: world.broker(1).register_query(busy().query()))
    world.run(5)
    assert not world.broker(1).refused
    run_through(world, catalogue, trades(50), changes=0.2)
    expect_equal(world, catalogue, trades(50))


def test_withdrawn_queries_are_forgotten_though_their_operators_go_on_for_another() -> None:
    one, two, both = QueryBuilder("one"), QueryBuilder("two"), QueryBuilder("both")
    one.filter("large", "trades", where="size > 2")
    two.filter("larger", "one.large", where="size > 4")
    both.filter("larger", both.filter("large", "trades", where="size > 2"), where="size > 4")
    world = World(3, 11)
    catalogue = Catalogue([TRADES], [one.query(), two.query(), both.query()])
    world.register(catalogue, {"trades": 1, "one": 2, "two": 3, "both": 2})
    registry = world.broker(REGISTRY).registry_link.local_registry
    assert registry is not None
    for name, at, left in (("one", 2, ["one", "two", "both"]), ("two", 3, ["both"])):
        withdraw(world, name, at)
        world.run(5)
        assert list(registry.queries) == left
    assert [name for name, _ in world.operators()] == ["one.large", "two.larger"]
    run_through(world, catalogue, trades(30), changes=0.2)
    expect_equal(world, catalogue, trades(30), queries=["both"])


def test_what_is_not_there_or_is_another_nodes_cannot_be_withdrawn() -> None:
    world = World(3, 7)
    catalogue = Catalogue([TRADES], [busy().query()])
    world.register(catalogue, {"trades": 1, "busy": 2})
    withdraw(world, "busy", 3)
    withdraw(world, "idle", 2)
    call(world, 2, lambda: world.broker(2).unsubscribe(SubscriptionKey("ann", "s9")))
    world.run(5)
    assert "its client is at node 2" in world.broker(3).refused["busy"]
    assert "no query of this name" in world.broker(2).refused["idle"]
    assert "no subscription" in world.broker(2).refused["s9 of ann"]
    run_through(world, catalogue, trades(20), changes=0)
    expect_equal(world, catalogue, trades(20))


def test_a_subscription_can_be_made_again_under_its_id() -> None:
    world = World(3, 8)
    world.register(Catalogue([TRADES], [busy(least=0).query()]), {"trades": 1, "busy": 2})
    subscription = Subscription("s1", "ann", topic="busy/large")
    items = trades(30)["trades"]
    for number, wanted in enumerate((True, False, True)):
        broker = world.broker(3)
        if wanted:
            call(world, 3, lambda broker=broker: broker.subscribe(subscription))
        else:
            call(world, 3, lambda broker=broker: broker.unsubscribe(SubscriptionKey("ann", "s1")))
        world.run(5)
        for item in items[number * 10 : number * 10 + 10]:
            world.feed("trades", item)
        world.run(5)
    assert [one.event.id for one in world.deliveries()] == [f"t{at}" for at in (*range(10), *range(20, 30))]


def test_a_source_that_nobody_wants_any_more_is_not_sent() -> None:
    world = World(3, 9)
    world.register(Catalogue([TRADES], [busy().query()]), {"trades": 1, "busy": 2})
    withdraw(world, "busy", 2)
    world.run(5)
    world.feed("trades", trades(1)["trades"][0])
    world.run(5)
    assert world.broker(1).router.publications["trades"].number == 0


def test_who_stayed_for_a_node_that_is_gone_leaves_with_it() -> None:
    tree = SourceTree(root=1, parents={2: 1, 3: 2, 4: 3})
    for idle in (2, 3):
        tree.retire(idle)
    assert tree.remove(4, ParentChoice(LinkTable(), fanout=4)) == []
    assert (tree.parents, tree.idle) == ({}, set())


def test_a_member_stays_in_a_tree_for_those_below_it() -> None:
    tree = SourceTree(root=1, parents={2: 1, 3: 2, 4: 3})
    tree.retire(2)
    tree.retire(3)
    assert tree.parents == {2: 1, 3: 2, 4: 3}
    tree.join(3, ParentChoice(LinkTable(), fanout=4))
    tree.retire(4)
    assert tree.parents == {2: 1, 3: 2}
    tree.retire(3)
    assert (tree.parents, tree.idle) == ({}, set())


def optimised(seed: int) -> World:
    """A network that optimises itself, from which queries are withdrawn one after the other."""
    goal = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
    settings = QueryOptimiserSettings(
        goal, period=4.0, window=0.5, rules=(*MIGRATIONS, REPLICATION, PARTITION)
    )
    names = ["one", "two", "three"]
    reading = QueryBuilder("reading")
    reading.filter("some", "one.large", where="size > 8")
    catalogue = Catalogue(
        [TRADES],
        [*(busy(name, least).query() for name, least in zip(names, (7, 7, 3), strict=True)), reading.query()],
    )
    world = World(5, seed, optimising=settings)
    where = {"trades": 1, "one": 3, "two": 4, "three": 5, "reading": 5}
    world.register(Catalogue([TRADES], []), where)
    before = state(world)
    world.register_queries(catalogue, where)
    items = trades(200)
    for number, item in enumerate(items["trades"]):
        world.feed("trades", item)
        world.run(0.25)
        if number in (60, 120):
            name = names.pop(0)
            withdraw(world, name, where[name])
    world.end("trades")
    world.run(20)
    expect_equal(world, catalogue, items, queries=["three", "reading"])
    for name in ("three", "reading"):
        withdraw(world, name, where[name])
    world.run(20)
    expect_state(world, before)
    return world


def test_a_network_that_optimises_itself_goes_on_without_what_was_withdrawn() -> None:
    assert sum(broker.reconfiguration.moves for broker in optimised(1).brokers) > 0


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(5000, 5200))
def test_the_others_get_their_answers_and_nothing_is_left_on_many_seeds(seed: int) -> None:
    withdrawn_at_random(seed)


@pytest.mark.chaos
@pytest.mark.parametrize("checkpoints", [None, PATIENT])
def test_it_works_through_faults_on_many_seeds(checkpoints: CheckpointSettings | None) -> None:
    total: Counter[str] = Counter()
    for seed in many_seeds(6000, 50):
        total.update(withdrawn_at_random(seed, faults=True, checkpoints=checkpoints)[1])
    for kind in ("loss", "duplication", "reordering", "partition", "pause", "restart with state"):
        assert total[kind], kind


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(7000, 7050))
def test_it_works_while_a_node_is_gone_for_good_on_many_seeds(seed: int) -> None:
    withdrawn_at_random(seed, checkpoints=QUICK, gone=True)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(2, 12))
def test_a_network_that_optimises_itself_goes_on_on_many_seeds(seed: int) -> None:
    optimised(seed)

"""A query network that improves itself: from what it measures, with answers as exact as ever."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Literal

import pytest

from distributary.flow import Catalogue, Item, QueryBuilder, Source
from distributary.overlay.node import Address, Node, Wake
from distributary.plan.goal.expression import Goal
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.rules import HYBRID, MIGRATIONS, PARTITION, REPLICATION, QueryRule
from distributary.plan.queries.spreading import ParentPreference, StreamSpreading
from distributary.systems.queries import optimiser
from distributary.systems.queries.optimiser import OPTIMISATION, STATISTICS, NeighbourhoodOptimiser
from distributary.systems.queries.proposals import ChangeOrder, ChangeProposal, ProposalSelection
from distributary.systems.queries.settings import CheckpointSettings, QueryOptimiserSettings
from distributary.systems.queries.snapshot import PlanningSnapshot, RateEstimates, planning_snapshot
from systems.queries.worlds import REGISTRY, World, expect_equal

TRAFFIC = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
LOAD = parse_query_goal("minimise aggregate(MAX, node load, BROKERS)")
LATENCY = parse_query_goal(
    """
    operator latency = aggregate(SUM, latency, UPSTREAM OPERATORS)
    query latency = aggregate(SUM, operator latency, QUERY OPERATORS)
    minimise aggregate(AVERAGE, query latency, QUERIES)
    """
)
SOURCES = [
    Source(name, {"symbol": "text", "size": "integer", "at": "integer"}, time="at", topic=name, lateness=0)
    for name in ("trades", "quotes")
]

FAR = {"trades": 1, "quotes": 2, "q0": 4, "q1": 6}
"""Sources at one end of the network, clients at the other."""


def queries(count: int) -> Catalogue:
    """Filters that let little pass, unions, and counts."""
    made = []
    for number in range(count):
        build = QueryBuilder(f"q{number}")
        both = build.union("both", "trades", "quotes")
        large = build.filter("large", both, where=f"size > {7 + number % 2}")
        build.count("per_ten", large, window="1 second", group_by=["symbol"])
        made.append(build.query())
    return Catalogue(SOURCES, made)


def steady(world: World, seconds: int) -> dict[str, list[Item]]:
    """Feed both sources for a while at one rate; returns what was fed."""
    fed: dict[str, list[Item]] = {"trades": [], "quotes": []}
    world.run(20)
    for moment in range(seconds * 4):
        for name, items in fed.items():
            attributes = {"symbol": "ab"[moment % 2], "size": moment % 10, "at": moment * 250}
            items.append(Item(f"{name}{moment}", moment * 250, attributes))
            world.feed(name, items[-1])
        world.run(0.25)
    return fed


def finish(world: World) -> None:
    for source in SOURCES:
        world.end(source.name)
    world.run(30)


def believed(world: World) -> RateEstimates:
    """What is believed of all operators and sources, wherever it is."""
    found = RateEstimates(1.0)
    for broker in world.brokers:
        assert broker.optimiser is not None
        own = broker.optimiser
        known = own.model.estimates if isinstance(own, NeighbourhoodOptimiser) else own.estimates
        found.sources.update(known.sources)
        found.operators.update(known.operators)
    return found


def placed(world: World) -> tuple[PlanningSnapshot, Placement]:
    """The placement as it is, with what was measured."""
    broker = world.broker(REGISTRY)
    assert broker.registry_link.local_registry is not None
    assert broker.optimiser is not None
    situation = planning_snapshot(broker.registry_link.local_registry, 0, believed(world))
    assert situation is not None
    return situation, situation.placement()


Told = Literal["neighbourhood", "whole"]
ways_of_telling = pytest.mark.parametrize("told", ["neighbourhood", "whole"])


def test_a_snapshot_is_weighed_with_streams_that_spread_by_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[StreamSpreading | None] = []

    class Noting(PlacementEstimate):
        def __init__(self, goal: Goal, placement: Placement) -> None:
            seen.append(placement.network.spreading)
            super().__init__(goal, placement)

    monkeypatch.setattr(optimiser, "PlacementEstimate", Noting)
    world = World(
        6, 3, fanout=1, optimising=QueryOptimiserSettings(LATENCY, period=8.0, window=1.0, told="whole")
    )
    world.register(queries(2), FAR)
    steady(world, 20)
    assert set(seen) == {StreamSpreading(1, ParentPreference.SHORTEST_PATH)}


@ways_of_telling
@pytest.mark.parametrize("rules", [MIGRATIONS, (*MIGRATIONS, REPLICATION, PARTITION)])
def test_it_moves_until_no_rule_helps_and_answers_stay_exact(
    rules: tuple[QueryRule, ...], told: Told
) -> None:
    catalogue = queries(2)
    world = World(
        6, 3, optimising=QueryOptimiserSettings(TRAFFIC, period=8.0, window=1.0, rules=rules, told=told)
    )
    world.register(catalogue, FAR)
    fed = steady(world, 80)
    situation, placement = placed(world)
    finish(world)
    expect_equal(world, catalogue, fed)
    clients = [query.operators[-1] for query in situation.queries]
    begun = [situation.hosts[client] for client in clients]
    assert sum(broker.reconfiguration.moves for broker in world.brokers) >= 2
    at_clients = placement.moved(
        {
            index: begun[number]
            for number, query in enumerate(situation.queries)
            for index in query.operators[:-1]
        }
    )
    standing = PlacementEstimate(TRAFFIC, placement)
    assert standing.cost < 0.7 * PlacementEstimate(TRAFFIC, at_clients).cost
    further = climb(TRAFFIC, placement, rules, HYBRID)
    assert further.cost >= 0.95 * standing.cost


@ways_of_telling
def test_load_is_taken_off_the_busiest_node(told: Told) -> None:
    catalogue = queries(3)
    settings = QueryOptimiserSettings(LOAD, period=8.0, window=1.0, rules=(*MIGRATIONS, PARTITION), told=told)
    world = World(5, 4, optimising=settings)
    world.register(catalogue)
    fed = steady(world, 60)
    _, placement = placed(world)
    finish(world)
    expect_equal(world, catalogue, fed)
    whole = sum(placement.workload.load(index) for index in range(len(placement.workload.operators)))
    assert PlacementEstimate(LOAD, placement).cost < 0.6 * whole


@ways_of_telling
def test_what_was_measured_is_what_went_through(told: Told) -> None:
    catalogue = queries(1)
    world = World(4, 5, optimising=QueryOptimiserSettings(TRAFFIC, period=10.0, margin=9.0, told=told))
    world.register(catalogue, FAR)
    steady(world, 60)
    assert sum(broker.reconfiguration.moves for broker in world.brokers) == 0, (
        "no change brings more than all nodes cost"
    )
    _, placement = placed(world)
    workload = placement.workload
    names = {operator.name: operator for operator in workload.operators}
    assert names["q0.both"].selectivity == pytest.approx(1.0, rel=0.05)
    assert names["q0.large"].selectivity == pytest.approx(0.2, rel=0.1)
    assert workload.items(0) == pytest.approx(4.0, rel=0.05)


@ways_of_telling
def test_traffic_for_statistics_and_optimisation_is_counted_apart(told: Told) -> None:
    catalogue = queries(1)
    world = World(4, 7, optimising=QueryOptimiserSettings(TRAFFIC, period=8.0, window=1.0, told=told))
    world.register(catalogue, FAR)
    steady(world, 30)
    kinds = world.metrics.by_kind()
    told_of = {kind.__name__ for kind in STATISTICS} & kinds.keys()
    assert told_of == (
        {"MeasurementReport", "PlanningSnapshot"}
        if told == "whole"
        else {"RoundAnnouncement", "UpwardStatistics", "DownwardStatistics", "SendRate"}
    )
    assert all(kinds[kind].bytes > 0 for kind in told_of)
    assert any(kind.__name__ in kinds for kind in OPTIMISATION)


@ways_of_telling
def test_a_node_that_is_gone_is_no_place_for_operators(told: Told) -> None:
    settings = QueryOptimiserSettings(LOAD, period=8.0, window=1.0, told=told)
    world = World(
        6, 8, optimising=settings, checkpoints=CheckpointSettings(checkpoint=1.0, beat=0.5, silence=4.0)
    )
    catalogue = queries(2)
    world.register(catalogue, {"trades": 1, "quotes": 2, "q0": 3, "q1": 3})
    world.simulator.at(world.simulator.now + 50, lambda: world.population.crash(5))
    fed = steady(world, 90)
    situation, _ = placed(world)
    assert 5 not in situation.sites
    finish(world)
    expect_equal(world, catalogue, fed, in_order=False)


@pytest.mark.chaos
@ways_of_telling
@pytest.mark.parametrize("seed", range(20))
def test_answers_are_exact_while_it_optimises_itself_on_many_seeds(seed: int, told: Told) -> None:
    random = Random(seed)
    rules = (*MIGRATIONS, REPLICATION, PARTITION)
    goal = random.choice([TRAFFIC, LOAD, LATENCY])
    world = World(
        random.randint(2, 8), seed, optimising=QueryOptimiserSettings(goal, 8.0, 1.0, rules, told=told)
    )
    catalogue = queries(random.randint(1, 5))
    world.register(catalogue)
    fed = steady(world, 100)
    finish(world)
    expect_equal(world, catalogue, fed)


@ways_of_telling
def test_what_has_come_stays_for_a_while(told: Told) -> None:
    """Loads that rise and fall from node to node would have operators chase them all the time."""
    build = [QueryBuilder(f"q{number}") for number in range(6)]
    for number, one in enumerate(build):
        one.count("many", ("trades", "quotes")[number % 2], window=f"{number + 1} seconds")
    catalogue = Catalogue(SOURCES, [one.query() for one in build])
    settings = QueryOptimiserSettings(LOAD, period=4.0, window=0.5, margin=0.01, rest=4, told=told)
    world = World(4, 6, optimising=settings)
    world.register(catalogue)
    came: dict[str, list[float]] = {}
    before = dict(world.operators())
    random = Random(4)
    fed: dict[str, list[Item]] = {"trades": [], "quotes": []}
    for moment in range(400):
        quieter = ("trades", "quotes")[moment // 80 % 2]
        for name, items in fed.items():
            if name != quieter or random.random() < 0.1:
                attributes = {"symbol": "a", "size": random.randrange(10), "at": moment * 250}
                items.append(Item(f"{name}{moment}", moment * 250, attributes))
                world.feed(name, items[-1])
        world.run(0.25)
        after = dict(world.operators())
        for operator, host in after.items():
            if before.get(operator, host) != host:
                came.setdefault(operator, []).append(world.simulator.now)
        before = {**before, **after}
    finish(world)
    expect_equal(world, catalogue, fed)
    assert sum(map(len, came.values())) > len(catalogue.queries), "hardly anything moved"
    for operator, times in came.items():
        rests = [later - earlier for earlier, later in pairwise(times)]
        assert all(rest >= settings.rest * settings.period - 1 for rest in rests), (operator, times)


def test_the_first_root_has_all_that_do_not_touch_each_other_carried_out() -> None:
    sent: list[tuple[Address, object]] = []
    node = Node(9)
    ProposalSelection(node, lambda to, message: sent.append((to, message)), window=1.0, most=2)
    proposals = [
        ChangeProposal(1, benefit, 9, host, "migration", f"o{host}", ((f"o{host}", to),), (host, to, 8))
        if host == 4
        else ChangeProposal(1, benefit, 9, host, "migration", f"o{host}", ((f"o{host}", to),), (host, to))
        for benefit, host, to in ((3.0, 1, 2), (5.0, 2, 3), (4.0, 4, 5), (2.0, 6, 8), (1.0, 7, 6))
    ]
    effects = [effect for one in proposals for effect in node.receive(one, one.host, now=0.0)]
    (alarm,) = [effect for effect in effects if isinstance(effect, Wake)]
    node.wake(alarm.token, now=2.0)
    assert [(to, order.operator) for to, order in sent if isinstance(order, ChangeOrder)] == [
        (2, "o2"),
        (4, "o4"),
    ]
    late = proposals[0]._replace(period=0)
    assert node.receive(late, 1, now=3.0) == [], "it is about a period that is over"

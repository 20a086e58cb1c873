"""What nodes hear of each other is what the planner's model says, and changes are worth what they find."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
import pytest

import distributary.systems.queries.node_model as node_model
import distributary.systems.queries.statistics as statistics
from distributary.errors import DistributaryError
from distributary.flow import Catalogue, Copy, Count, FilterOperation, Operator, Query, QueryBuilder, Union
from distributary.overlay.courier import Packet
from distributary.plan.goal.expression import GoalFunction
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.rules import MIGRATIONS, RuleArea
from distributary.plan.queries.statistics import Dissemination
from distributary.sim.faults import Injection
from distributary.sim.simulator import Observer
from distributary.systems.queries.local_goals import is_local
from distributary.systems.queries.local_problem import LocalProblem
from distributary.systems.queries.messages import DownwardStatistics, UpwardStatistics
from distributary.systems.queries.optimiser import OPTIMISATION, STATISTICS, NeighbourhoodOptimiser
from distributary.systems.queries.settings import QueryOptimiserSettings
from distributary.systems.queries.snapshot import PlanningSnapshot, TrafficRates, planning_snapshot
from flow.random_queries import random_catalogue
from systems.queries.test_optimiser import (
    LATENCY,
    LOAD,
    SOURCES,
    TRAFFIC,
    Told,
    believed,
    finish,
    queries,
    steady,
    ways_of_telling,
)
from systems.queries.test_reconfiguration import random_faults
from systems.queries.worlds import REGISTRY, LineLatency, World, expect_equal

INCOMING = parse_query_goal("minimise aggregate(MAX, incoming rate, BROKERS)")
OUTGOING = parse_query_goal(
    """
    node out rate = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate
    minimise aggregate(AVERAGE, node out rate, BROKERS)
    """
)
LEAST = parse_query_goal("maximise aggregate(MIN, node load, BROKERS)")
SQUARES = parse_query_goal("minimise aggregate(SUM, incoming rate * incoming rate, BROKERS)")
BOUNDED = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)\nsubject to node load <= 50")
GOALS = {
    "traffic": TRAFFIC,
    "load": LOAD,
    "latency": LATENCY,
    "incoming": INCOMING,
    "outgoing": OUTGOING,
    "least": LEAST,
    "squares": SQUARES,
    "bounded": BOUNDED,
}
PERIOD = 8.0


def optimiser(world: World, node: int) -> NeighbourhoodOptimiser:
    found = world.broker(node).optimiser
    assert isinstance(found, NeighbourhoodOptimiser)
    return found


def believe(world: World, random: Random) -> None:
    """Let all nodes believe in some rates that go together, and measure no others."""
    registry = world.broker(REGISTRY).registry_link.local_registry
    assert registry is not None
    rates: dict[str, TrafficRates] = {}
    for name in registry.sources:
        items = random.randint(1, 64)
        rates[name] = TrafficRates(items, items * random.randint(8, 64), 0.0)
        known = optimiser(world, registry.locations[name].host).model.estimates
        known.sources[name] = rates[name]
    hosts = dict(world.operators())
    for name, spec in registry.specs.items():
        offered = sum(rates[stream].items for stream in set(spec.inputs))
        filters = isinstance(spec.operation, FilterOperation)
        items = offered * random.randint(0, 16 if filters else 32) / 16
        work = (items if filters else offered) * random.randint(1, 4)
        rates[name] = TrafficRates(items, items * random.randint(8, 64), work)
        optimiser(world, hosts[name]).model.estimates.operators[name] = rates[name]
    for node in world.nodes:
        optimiser(world, node).model._measure = lambda: ((), ())


def settled(goal: str, seed: int, catalogue: Catalogue | None = None, **settings: Any) -> World:
    """A world of random queries, operators moved about, after some rounds in which nothing changed."""
    random = Random(f"{seed}/statistics")
    world = World(
        random.randint(2, 8),
        seed,
        network=LineLatency(seed, jitter=0.0),
        optimising=QueryOptimiserSettings(GOALS[goal], PERIOD, window=1.0, margin=1e9, **settings),
    )
    world.register(catalogue or random_catalogue(random))
    for _ in range(6):
        name, at = random.choice(world.operators())
        to = random.choice(world.nodes)
        world.simulator.call(at, lambda at=at, name=name, to=to: world.broker(at).move(name, to))
        world.run(1)
    world.run(5)
    believe(world, random)
    expect_rest(world)
    return world


def expect_rest(world: World) -> None:
    """Run until nothing has moved for four rounds; a node that breaks a bound gives operators away first."""
    still, placed = 0, dict(world.operators())
    for _ in range(40):
        after_rounds(world, 1)
        before, placed = placed, dict(world.operators())
        still = still + 1 if placed == before else 0
        if still == 4:
            return
    raise AssertionError("operators move about for good")


def after_rounds(world: World, count: int) -> None:
    """Run until so many more rounds are over."""
    period = optimiser(world, REGISTRY)._period
    while optimiser(world, REGISTRY)._period < period + count:
        world.run(0.5)
    world.run(3)


def whole(world: World) -> tuple[PlanningSnapshot, PlacementEstimate]:
    """The situation as one who knows everything sees it."""
    registry = world.broker(REGISTRY).registry_link.local_registry
    assert registry is not None
    situation = planning_snapshot(registry, 0, believed(world))
    assert situation is not None
    goal = optimiser(world, REGISTRY).settings.goal
    return situation, PlacementEstimate(goal, situation.placement())


def expect_worth(world: World, at_most: bool = False) -> int:
    """All nodes weigh all changes as one who knows everything does, or lower; returns how many there were."""
    for node in world.nodes:
        one = optimiser(world, node)
        if one.problem is not None and one.statistics.critical():
            assert set(one.problem.complete) == set(one.problem.results.requests), "in the round itself"
        world.simulator.call(node, lambda one=one: one.prober.begin(one.destinations()))
    world.run(2)
    situation, standing = whole(world)
    names = {one.name: index for index, one in enumerate(standing.state.workload.operators)}
    weighed = 0
    for node in world.nodes:
        one = optimiser(world, node)
        here = situation.sites.index(node)
        for name, total in zip(
            one.model.total_names,
            one.model.told_totals(one.statistics.flows(), one.statistics.period),
            strict=True,
        ):
            assert total == pytest.approx(standing.state.quantities[name][here], rel=1e-5), (node, name)
        assert one.statistics.cost == pytest.approx(standing.cost, rel=1e-5)
        if one.problem is None or not one.model.units():
            continue
        mine = one.problem.estimate(one.settings.goal, one.statistics.worst, len(world.nodes))
        average = one.settings.goal.cost.function is GoalFunction.AVERAGE
        members = one.statistics.members if average else 1
        operators, places = mine.state.workload.operators, one.problem.destinations()
        places = places[places != one.problem.numbers[node]]
        sites = [situation.sites.index(one.problem.sites[place]) for place in places]
        free = [index for index, operator in enumerate(operators) if operator.pinned is None]
        groups = {
            group
            for index in free
            for rule in MIGRATIONS
            if rule.groups is not None
            for group in rule.groups(mine.state, index)
        }
        for group in groups if sites else ():
            found = mine.benefits(group, places) / members
            expected = standing.benefits([names[operators[index].name] for index in group], sites)
            if at_most:
                found = np.maximum(found, expected)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * abs(standing.cost))
            weighed += len(sites)
    return weighed


@pytest.mark.parametrize("goal", GOALS)
def test_a_change_is_worth_to_a_node_what_it_is_worth_to_all(
    goal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_model, "CHANGED", 0.0)
    assert is_local(GOALS[goal])
    weighed = sum(expect_worth(settled(goal, seed)) for seed in range(2))
    assert weighed > 20


def test_readers_that_get_a_stream_by_way_of_others_are_known_to_its_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_model, "CHANGED", 0.0)
    world = settled("bounded", 1025)
    trees = [
        tree for node in world.nodes for tree in world.broker(node).engine.router.stream_trees.trees.values()
    ]
    assert any(parent != tree.root for tree in trees for parent in tree.parents.values())
    expect_worth(world)


def with_super_operators(random: Random) -> Catalogue:
    """Queries of which some operators move together: filters that read the same stream, and more."""
    made = []
    for number in range(3):
        first, second = random.sample([source.name for source in SOURCES], 2)
        if made and random.random() < 0.5:
            first = f"q{number - 1}.twice"
        operators = [
            Operator("large", FilterOperation(where=f"size > {number}"), (first,)),
            Operator("small", FilterOperation(where=f"size < {number}"), (first if number else second,)),
            Operator("both", Union(), ("large", "small")),
            Operator("twice", Copy({"size": "again"}), (second,)),
            Operator("many", Count("1 second"), ("both",)),
        ]
        core = random.choice([["large", "small", "both"], ["large", "small", "both", "many"]])
        made.append(Query(f"q{number}", operators, units={"core": core}))
    return Catalogue(SOURCES, made)


@pytest.mark.parametrize("goal", ["traffic", "load", "latency"])
def test_changes_of_super_operators_are_worth_what_they_are_worth_to_all(
    goal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_model, "CHANGED", 0.0)
    for seed in range(2):
        catalogue = with_super_operators(Random(seed))
        assert expect_worth(settled(goal, seed, catalogue)) > 5


def test_where_few_of_the_worst_are_told_nothing_is_overrated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_model, "CHANGED", 0.0)
    monkeypatch.setattr(statistics, "WORST", 1)
    area = RuleArea(levels=1)
    assert sum(expect_worth(settled("load", seed, area=area), at_most=True) for seed in (0, 5)) > 5


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(1000, 1060))
@pytest.mark.parametrize("goal", GOALS)
def test_a_change_is_worth_to_a_node_what_it_is_worth_to_all_on_many_seeds(
    goal: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_model, "CHANGED", 0.0)
    expect_worth(settled(goal, seed))


@pytest.mark.parametrize(
    ("goal", "slack"),
    [("traffic", 0.0), ("latency", 0.0), ("load", 0.0), ("load", 0.5), ("incoming", 0.5), ("least", 0.0)],
)
def test_nodes_hear_of_those_that_the_model_says(goal: str, slack: float) -> None:
    seen = 0
    for seed in (1, 3):  # here no estimate of a latency changed after the last round
        world = settled(goal, seed, top=None, slack=slack)
        situation, standing = whole(world)
        expected = Dissemination(slack=slack).round(standing).sites
        for number, node in enumerate(situation.sites):
            found = optimiser(world, node).statistics.better_nodes
            best = sorted(found, key=lambda site: (found[site], site))
            assert set(best) == {situation.sites[site] for site in expected[number]}, (seed, node)
            seen += len(best)
    assert seen > 0


class Links(Observer):
    """How many values went over each link in each period, each way and in each tree."""

    def __init__(self) -> None:
        self.values: dict[tuple[Any, ...], int] = defaultdict(int)

    def sent(self, now: float, sender: int, to: int, message: Any, *rest: Any) -> None:
        inner = message.message if isinstance(message, Packet) else message
        if isinstance(inner, UpwardStatistics | DownwardStatistics):
            self.values[sender, to, type(inner).__name__, inner.tree, inner.period] += len(inner.values)


@pytest.mark.parametrize("top", [1, 2])
def test_no_link_carries_more_than_the_best_few(top: int) -> None:
    links = Links()
    world = settled("traffic", 5, top=top)
    world.simulator.observe(links)
    after_rounds(world, 3)
    assert max(links.values.values()) == top


def test_all_that_could_be_heard_of_are_heard_of_some_time() -> None:
    world = settled("traffic", 5, top=2)
    situation, standing = whole(world)
    expected = Dissemination().round(standing).sites
    assert max(len(sites) for sites in expected) > 2
    ever: dict[int, set[int]] = {node: set() for node in world.nodes}
    for _ in range(40):
        after_rounds(world, 1)
        for node in world.nodes:
            ever[node] |= set(optimiser(world, node).statistics.better_nodes)
    for number, node in enumerate(situation.sites):
        assert ever[node] == {situation.sites[site] for site in expected[number]}


# What it costs


def different(count: int) -> Catalogue:
    """Queries that share no operator."""
    made = []
    for number in range(count):
        build = QueryBuilder(f"q{number}")
        where = f"size > {number % 9} and size <> {1000 + number}"
        large = build.filter("large", SOURCES[number % 2].name, where=where)
        build.count("per_second", large, window="1 second", group_by=["symbol"])
        made.append(build.query())
    return Catalogue(SOURCES, made)


def bytes_told(count: int, told: Told) -> float:
    """Bytes a node and period, once every node hosts some of so many queries."""
    world = World(5, 3, optimising=QueryOptimiserSettings(TRAFFIC, PERIOD, window=1.0, told=told))
    at = {f"q{number}": 1 + number // 2 % 5 for number in range(count)}
    world.register(different(count), {"trades": 1, "quotes": 2, **at})
    kinds = {kind.__name__ for kind in (*STATISTICS, *OPTIMISATION)}

    def spent() -> int:
        return sum(traffic.bytes for kind, traffic in world.metrics.by_kind().items() if kind in kinds)

    before = spent()
    steady(world, 12)
    return (spent() - before) / 4 / len(world.nodes)


def test_what_is_told_does_not_grow_with_the_number_of_queries() -> None:
    few, many = bytes_told(10, "neighbourhood"), bytes_told(30, "neighbourhood")
    assert many < 1.2 * few
    whole_few, whole_many = bytes_told(10, "whole"), bytes_told(30, "whole")
    assert whole_many > 2.5 * whole_few
    assert many < whole_many / 3


@pytest.mark.parametrize("goal", ["traffic", "latency"])
def test_operators_are_weighed_in_turn_where_they_exchange_many_streams(
    goal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_model, "CHANGED", 0.0)
    world = settled(goal, 7, most_streams=1)
    assert expect_worth(world)
    ever: set[str] = set()
    for _ in range(8):
        after_rounds(world, 1)
        for node in world.nodes:
            workload = weighed_at(world, node).workload()
            ever |= {operator.name for operator in workload.operators if operator.pinned is None}
    assert ever == {name for name, _ in world.operators()}
    assert asked_at(world, 1) < asked_at(settled(goal, 7), 1)


def weighed_at(world: World, node: int) -> LocalProblem:
    found = optimiser(world, node).problem
    assert found is not None
    return found


def asked_at(world: World, node: int) -> int:
    """How many streams and readers a node has asked about."""
    asks = weighed_at(world, node).results.requests.values()
    return sum(len(ask.published) + len(ask.readers) for ask in asks)


def test_nothing_piles_up_for_a_node_that_does_not_answer() -> None:
    world = settled("traffic", 5)
    idle = next(node for node in world.nodes if not world.broker(node).engine.hosted and node != REGISTRY)
    world.population.crash(idle)
    after_rounds(world, 30)
    for node in world.nodes:
        outgoing = world.broker(node).connections._outgoing.get(idle)
        assert outgoing is None or len(outgoing.waiting) < 15
    assert optimiser(world, REGISTRY).statistics.cost is not None


@pytest.mark.parametrize("wrong", [{"told": "all"}, {"top": 0}, {"most_streams": 0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DistributaryError, match=next(iter(wrong))):
        QueryOptimiserSettings(TRAFFIC, **wrong)


@pytest.mark.parametrize(
    "text",
    [
        "minimise aggregate(MAX, aggregate(SUM, load, QUERY OPERATORS), QUERIES)",
        "minimise aggregate(SUM, fanout, BROKERS)",
        "minimise aggregate(AVERAGE, aggregate(SUM, processing latency, QUERY OPERATORS), QUERIES)",
        "minimise aggregate(SUM, incoming rate, BROKERS)\nsubject to fanout <= 3",
    ],
)
def test_goals_that_need_more_are_told_the_whole(text: str) -> None:
    assert not QueryOptimiserSettings(parse_query_goal(text)).local


# Faults


def through_faults(seed: int, told: Told) -> tuple[World, dict[str, int]]:
    """A network that optimises itself while messages and nodes fail."""
    random = Random(f"{seed}/faults")
    settings = QueryOptimiserSettings(
        random.choice([TRAFFIC, LOAD, LATENCY]), 4.0, 0.5, told=told, margin=0.01
    )
    world = World(random.randint(3, 6), seed, optimising=settings)
    catalogue = queries(random.randint(2, 4))
    world.register(catalogue)
    fired = Injection(world.population, random_faults(random, world, world.simulator.now + 20)).fired
    fed = steady(world, 40)
    finish(world)
    world.run(100)
    expect_equal(world, catalogue, fed)
    return world, fired


@ways_of_telling
def test_answers_are_exact_while_it_optimises_itself_through_faults(told: Told) -> None:
    moves = 0
    for seed in range(2):
        world, fired = through_faults(seed, told)
        moves += sum(broker.reconfiguration.moves for broker in world.brokers)
        assert fired["loss"]
        assert fired["duplication"]
        if told == "neighbourhood":
            after_rounds(world, 1)
            periods = {optimiser(world, node).statistics.period for node in world.nodes}
            assert periods == {optimiser(world, REGISTRY)._period}, "rounds go on afterwards"
            assert all(optimiser(world, node).statistics.complete for node in world.nodes)
    assert moves > 0


@pytest.mark.chaos
@ways_of_telling
@pytest.mark.parametrize("seed", range(100, 140))
def test_answers_are_exact_while_it_optimises_itself_through_faults_on_many_seeds(
    seed: int, told: Told
) -> None:
    through_faults(seed, told)

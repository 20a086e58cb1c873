"""Springs, trees and queries together, shedding, and following drift."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.plan.adaptation import Patience
from distributary.plan.queries.adaptation import QueryAdaptation
from distributary.plan.queries.baselines import least_loaded
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.cost import placement_cost, query_violations
from distributary.plan.queries.generator import at_clients, feed_workload, random_network
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.graph import (
    PlannedOperator,
    PlannedQuery,
    PlannedSource,
    QueryWorkload,
    client,
)
from distributary.plan.queries.joint import TreeProblem, improve_both, improve_trees
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.placement import NO_DUTIES, Duties, Placement, SiteNetwork
from distributary.plan.queries.relaxation import relaxed
from distributary.plan.queries.rules import PARTITION
from distributary.plan.queries.shedding import shed_load
from distributary.plan.trees.tree import Sites, star
from plan.queries.networks import exact_placement

BANDWIDTH = parse_query_goal(
    "out = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate\n"
    "minimise aggregate(SUM, out, BROKERS)"
)
LATENCY = parse_query_goal(
    "minimise aggregate(AVERAGE, aggregate(SUM, aggregate(SUM, latency, UPSTREAM OPERATORS), "
    "QUERY OPERATORS), QUERIES)"
)
LIMITED = (
    "minimise aggregate(SUM, incoming rate, BROKERS)\nsubject to node load <= {}\nsubject to fanout <= 9"
)
LOAD = parse_query_goal("minimise aggregate(MAX, node load, BROKERS)")


def small(queries: int = 40, sites: int = 20) -> Placement:
    network = random_network(sites, 3, seed=4)
    return at_clients(feed_workload(network, queries, 4, feeds=40), network)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([BANDWIDTH, LATENCY]))
def test_what_a_move_in_a_tree_is_worth_is_what_measuring_anew_shows(seed: int, goal) -> None:  # type: ignore[no-untyped-def]
    placement = exact_placement(seed)
    number = Random(seed).randrange(len(placement.network.trees))
    tree = placement.network.trees[number]
    site = Random(seed).choice(tree.order[1:])
    found = TreeProblem(PlacementEstimate(goal, placement), number).benefits(tree, site)
    now = placement_cost(goal.cost, placement)
    for parent, benefit in enumerate(found):
        if tree.below(parent, site):
            assert benefit == -np.inf
            continue
        network = placement.network.with_tree(number, tree.changed({site: parent}))
        after = placement_cost(goal.cost, Placement(placement.workload, network, placement.hosts))
        assert benefit == pytest.approx(float(now - after), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("goal", "limit"), [(BANDWIDTH, 4), (LATENCY, 9)])
def test_trees_and_queries_together_are_better_than_either_alone(goal, limit: int) -> None:  # type: ignore[no-untyped-def]
    """Where sites have limits: without any, stars or roots are best for one of the two alone."""
    placement = small(30, 16)
    goal = replace(goal, constraints=parse_query_goal(LIMITED.format(limit)).constraints)
    both = improve_both(goal, placement)
    assert both.cost < climb(goal, placement).cost
    assert both.cost < improve_trees(goal, placement)[2]
    assert list(both.costs) == sorted(both.costs, reverse=True)
    assert len(query_violations(goal, both.placement)) <= len(query_violations(goal, placement))
    assert both.cost == pytest.approx(float(placement_cost(goal.cost, both.placement)))


def test_a_goal_for_which_trees_cannot_be_weighed_is_refused() -> None:
    with pytest.raises(DistributaryError, match="sums of nodes' rates"):
        improve_trees(LOAD, small())


def test_springs_bring_queries_nearer_than_their_clients_and_rules_nearer_still() -> None:
    placement = small()
    springs = relaxed(placement.workload, placement.network)
    cost = [float(placement_cost(BANDWIDTH.cost, one)) for one in (placement, springs)]
    assert cost[1] < cost[0]
    assert climb(BANDWIDTH, springs).cost < cost[1]


def one_site(loads: list[int], worth: list[int]) -> Placement:
    """Queries of one operator each, all at site 1."""
    operators: list[PlannedOperator] = []
    for number, load in enumerate(loads):
        operators.append(PlannedOperator(f"o{number}", "filter", (0,), cost=load))
        operators.append(client(f"c{number}", 1 + 2 * number, site=1))
    queries = tuple(PlannedQuery(f"q{at}", (2 * at, 2 * at + 1), utility) for at, utility in enumerate(worth))
    workload = QueryWorkload((PlannedSource("s", 0, 1, 1),), tuple(operators), queries)
    return Placement(
        workload, SiteNetwork(Sites(latency=[[0, 1], [1, 0]]), (star(2),)), (1,) * len(operators)
    )


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=6), st.integers(0, 30))
def test_on_one_site_no_way_of_shedding_loses_less(pairs: list[tuple[int, int]], limit: int) -> None:
    loads, worth = [load for load, _ in pairs], [utility for _, utility in pairs]
    shed = shed_load(one_site(loads, worth), limit)
    assert shed.loads[1] <= limit + 1e-6
    # The fractional knapsack: the worthiest for their load first.
    left, kept = float(limit), 0.0
    for load, utility in sorted(pairs, key=lambda pair: -pair[1] / pair[0]):
        share = min(1.0, left / load)
        kept, left = kept + share * utility, left - share * load
    assert shed.lost == pytest.approx(1 - kept / sum(worth), abs=1e-6)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(0, 8000))
def test_shedding_keeps_every_limit_and_takes_nothing_when_there_is_room(seed: int, limit: int) -> None:
    placement = exact_placement(seed)
    shed = shed_load(placement, limit)
    for site, load in enumerate(shed.loads):
        least = float(placement.network.duties_of(site).load)
        assert least <= load <= max(limit, least) * (1 + 1e-6) + 1e-6
    assert all(0 <= share <= 1 for share in shed.kept.values())
    room = float(placement_cost(LOAD.cost, placement)) <= limit
    assert (shed.lost == 0) or not room


def test_what_a_site_does_besides_leaves_queries_that_much_less() -> None:
    placement = one_site([6, 6], [1, 2])
    busy = replace(placement, network=replace(placement.network, duties=(NO_DUTIES, Duties(load=7))))
    assert shed_load(placement, 9).kept == pytest.approx({"q0": 0.5, "q1": 1.0})
    shed = shed_load(busy, 12)
    assert shed.kept == pytest.approx({"q0": 0.0, "q1": 5 / 6})
    assert shed.loads == pytest.approx((0.0, 12.0))
    assert shed_load(busy, 5).lost == 1
    assert least_loaded(placement.workload, placement.network).hosts == (0, 1, 1, 1)
    assert least_loaded(busy.workload, busy.network).hosts == (0, 1, 0, 1)


def drifted(workload: QueryWorkload, factor: float, random: Random) -> QueryWorkload:
    sources = tuple(
        replace(source, rate=float(source.rate) * random.uniform(1 / factor, factor))
        for source in workload.sources
    )
    return replace(workload, sources=sources)


def test_noise_below_the_margin_moves_nothing_and_a_lasting_change_is_followed() -> None:
    placement = small(12, 10)
    settled = climb(BANDWIDTH, placement).placement
    keeper = QueryAdaptation(BANDWIDTH, settled, Patience(margin=0.1))
    random = Random(1)
    assert [keeper.period(drifted(placement.workload, 1.03, random)) for _ in range(5)] == [None] * 5
    # From now on, more comes out of operators than goes in: they belong to their clients.
    turned = replace(
        placement.workload,
        operators=tuple(replace(one, selectivity=3.0) for one in placement.workload.operators),
    )
    changes = [keeper.period(turned) is not None for _ in range(9)]
    assert any(changes)
    assert not any(changes[-3:])


def test_only_migrations_follow_drift() -> None:
    with pytest.raises(DistributaryError, match="not split"):
        QueryAdaptation(BANDWIDTH, small(), rules=(PARTITION,))


def test_what_an_operator_can_use_is_believed_as_slowly_as_what_it_lets_pass() -> None:
    def measured(passing: float, wanted: float | None) -> QueryWorkload:
        one = PlannedOperator("o", "super-operator", (0,), selectivity=passing, wanted=wanted)
        return QueryWorkload(
            (PlannedSource("s", 0, 1, 1),), (one, client("c", 1, site=0)), (PlannedQuery("q", (0, 1)),)
        )

    keeper = QueryAdaptation(BANDWIDTH, small(), Patience(smoothing=0.25))
    believed = keeper.smoothed(measured(0.2, 0.5), measured(0.4, 0.9)).operators[0]
    assert (believed.selectivity, believed.wanted) == pytest.approx((0.25, 0.6))
    assert keeper.smoothed(measured(0.2, None), measured(0.4, None)).operators[0].wanted is None

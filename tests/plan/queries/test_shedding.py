"""Which queries are thinned out when sites have too much to do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.plan.queries.baselines import least_loaded
from distributary.plan.queries.cost import placement_cost
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.graph import (
    PlannedOperator,
    PlannedQuery,
    PlannedSource,
    QueryWorkload,
    client,
)
from distributary.plan.queries.placement import NO_DUTIES, Duties, Placement, SiteNetwork
from distributary.plan.queries.shedding import QueryWork, shed_load, shed_work
from distributary.plan.trees.tree import Sites, star
from plan.queries.networks import exact_placement

LOAD = parse_query_goal("minimise aggregate(MAX, node load, BROKERS)")


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


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.booleans()), min_size=1, max_size=6),
    st.integers(0, 30),
)
def test_queries_that_must_stay_whole_do_and_others_make_room_for_them(
    each: list[tuple[int, int, bool]], limit: int
) -> None:
    numbers = range(len(each))
    fixed = [number for number in numbers if each[number][2]]
    loads = [load for load, _, _ in each]
    work = QueryWork([worth for _, worth, _ in each], [[n] for n in numbers], [0] * len(each), loads, fixed)
    kept, (load,) = shed_work(work, np.array([float(limit)]))
    assert all(kept[number] == 1 for number in fixed)
    least = sum(loads[number] for number in fixed)
    assert load == pytest.approx(min(sum(loads), max(limit, least)), abs=1e-6)


def test_an_operator_of_a_query_that_must_stay_whole_is_not_thinned_for_the_others() -> None:
    # Operator 0 works for both queries, operator 1 at the same site for the second alone.
    work = QueryWork([1.0, 1.0], [[0], [0, 1]], [0, 0], [4.0, 4.0], fixed=[0])
    kept, (load,) = shed_work(work, np.array([6.0]))
    assert kept.tolist() == pytest.approx([1.0, 0.5])
    assert load == pytest.approx(6.0)
    kept, (load,) = shed_work(work, np.array([3.0]))
    assert kept.tolist() == pytest.approx([1.0, 0.0])
    assert load == pytest.approx(4.0)

"""The placements to compare with: where they put things, and that nothing is better than the optimum."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.plan.queries.baselines import (
    at_sources,
    client_star,
    globally,
    least_loaded,
    least_maximum_load,
)
from distributary.plan.queries.cost import placement_cost
from distributary.plan.queries.generator import at_clients, feed_workload, random_network
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.rules import HYBRID
from plan.queries.networks import exact_placement, least_cost

BANDWIDTH = parse_query_goal(
    "out = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate\n"
    "minimise aggregate(SUM, out, BROKERS)"
)
LATENCY = parse_query_goal(
    "minimise aggregate(AVERAGE, aggregate(SUM, aggregate(SUM, latency, UPSTREAM OPERATORS) + node delay,"
    " QUERY OPERATORS), QUERIES)"
)
LOAD = parse_query_goal("minimise aggregate(MAX, node load, BROKERS)")
GOALS = (BANDWIDTH, LATENCY, LOAD)


@settings(max_examples=8)
@given(st.integers(0, 10_000), st.sampled_from(GOALS))
def test_nothing_is_better_than_the_optimum(seed: int, goal) -> None:  # type: ignore[no-untyped-def]
    placement = exact_placement(seed, sites=4, queries=1)
    workload, network = placement.workload, placement.network
    least = least_cost(goal, placement)
    tried = [placement, at_sources(workload, network), at_clients(workload, network)]
    tried.append(globally(goal, workload, network))
    tried.append(climb(goal, placement, area=HYBRID).placement)
    assert all(placement_cost(goal.cost, one) >= least for one in tried)


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_no_placement_is_below_the_bound_on_the_greatest_load(seed: int) -> None:
    placement = exact_placement(seed)
    assert placement_cost(LOAD.cost, placement) >= least_maximum_load(placement.workload, placement.network)


def seeds_case() -> tuple[Placement, dict[str, Placement]]:
    network = random_network(20, 4, seed=2)
    workload = feed_workload(network, 60, 2, feeds=50, filters_only=True, two_feeds=0)
    return at_clients(workload, network), {
        "star": client_star(workload, network),
        "source": at_sources(workload, network),
        "least loaded": least_loaded(workload, network),
        "global": globally(BANDWIDTH, workload, network),
    }


def test_the_order_of_figure_5_9() -> None:
    tree, others = seeds_case()
    cost = {name: float(placement_cost(BANDWIDTH.cost, one)) for name, one in others.items()}
    at_tree = placement_cost(BANDWIDTH.cost, tree)
    assert cost["global"] <= 1.01 * cost["source"] < cost["star"] < at_tree
    assert climb(BANDWIDTH, tree).cost <= 1.02 * min(cost["global"], cost["source"])

"""What a change is worth is what measuring both placements anew shows, for every kind of goal."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Constraint, Goal, Place
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.cost import MeasuredPlacement, placement_cost
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.graph import (
    PlannedOperator,
    PlannedQuery,
    PlannedSource,
    QueryWorkload,
    client,
)
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.queries.state import PlacementState
from distributary.plan.queries.system_forms import RemeasuredCost, system_form
from distributary.plan.trees.metrics import measured as own_metric
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree
from plan.queries.networks import exact_placement
from plan.queries.wide import some_placement

SEEDS = st.integers(0, 100_000)

OPERATOR_COSTS = {
    "latency": "aggregate(SUM, latency, UPSTREAM OPERATORS)",
    "towards readers": "aggregate(SUM, latency, DOWNSTREAM OPERATORS)",
    "capacity": "aggregate(MIN, bandwidth, UPSTREAM OPERATORS)",
    "worst link": "aggregate(MAX, latency, DOWNSTREAM OPERATORS)",
    "with processing": "aggregate(SUM, latency, UPSTREAM OPERATORS) + processing latency",
    "with forwarding": "aggregate(SUM, latency + node delay, UPSTREAM OPERATORS) + 2 * processing latency",
    "product": "aggregate(SUM, latency, UPSTREAM OPERATORS) * input rate",
}
NODE_COSTS = {
    "load": "aggregate(SUM, load, LOCAL OPERATORS)",
    "bandwidth": "aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate",
    "everything": "fanout * 3 + incoming rate - operators + node load * 2 + node delay",
    "rates": "aggregate(SUM, produced rate - input rate + selectivity * 4, LOCAL OPERATORS)",
}
FUNCTIONS = ("SUM", "MIN", "MAX")


def goals() -> dict[str, Goal]:
    """Every node cost and operator cost under every function."""
    found = {}
    for name, text in NODE_COSTS.items():
        for function in (*FUNCTIONS, "AVERAGE"):
            found[f"{function} of {name}"] = f"minimise aggregate({function}, {text}, BROKERS)"
    for name, text in OPERATOR_COSTS.items():
        for of_query in FUNCTIONS:
            for function in FUNCTIONS:
                cost = f"aggregate({of_query}, {text}, QUERY OPERATORS)"
                found[f"{function} of {of_query} of {name}"] = (
                    f"maximise aggregate({function}, {cost}, QUERIES)"
                )
    return {name: parse_query_goal(text) for name, text in found.items()}


GOALS = goals()
SLOW = {
    f"{function} of {of_query} of {name}"
    for name in ("with processing", "with forwarding")
    for of_query in ("MIN", "MAX")
    for function in FUNCTIONS
}


def measured(goal: Goal, placement: Placement) -> float:
    return float(placement_cost(goal.cost, placement))


def assert_weighed_as_measured(estimate: PlacementEstimate, operator: int) -> None:
    """What moving an operator anywhere is worth is what measuring anew shows."""
    goal, placement = estimate.goal, estimate.placement
    sites = range(placement.network.sites.count)
    now = measured(goal, placement)
    exact = [goal.sign * (now - measured(goal, placement.moved({operator: site}))) for site in sites]
    np.testing.assert_allclose(estimate.benefits(operator, list(sites)), exact, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("name", GOALS)
def test_which_goals_are_weighed_without_measuring_anew(name: str) -> None:
    state = PlacementState(exact_placement(1))
    assert isinstance(system_form(GOALS[name].cost, state), RemeasuredCost) == (name in SLOW)


@settings(max_examples=60)
@given(SEEDS, st.sampled_from(sorted(set(GOALS) - SLOW)))
def test_the_benefit_of_a_move_is_that_of_recomputation(seed: int, name: str) -> None:
    goal, placement = GOALS[name], some_placement(seed)
    random = Random(seed)
    estimate = PlacementEstimate(goal, placement)
    free = [index for index, operator in enumerate(placement.workload.operators) if operator.pinned is None]
    sites = range(placement.network.sites.count)
    for _ in range(2):
        operator = random.choice(free)
        np.testing.assert_allclose(estimate.cost, measured(goal, placement), rtol=1e-12)
        assert_weighed_as_measured(estimate, operator)
        site = random.choice(sites)
        placement = placement.moved({operator: site})
        estimate.move(operator, site)
    assert estimate.placement == placement
    np.testing.assert_allclose(estimate.cost, measured(goal, placement), rtol=1e-12)


OWN = {"toll": own_metric("toll", Place.LINK), "rent": own_metric("rent", Place.NODE)}
OWN_GOALS = [
    "minimise aggregate(SUM, rent * operators + aggregate(SUM, load, LOCAL OPERATORS), BROKERS)",
    "minimise aggregate(MAX, rent + node load, BROKERS)",
    """cost = aggregate(SUM, toll + 2 * latency, UPSTREAM OPERATORS)
    minimise aggregate(AVERAGE, aggregate(SUM, cost, QUERY OPERATORS), QUERIES)""",
    """cost = aggregate(MAX, toll, DOWNSTREAM OPERATORS)
    minimise aggregate(MAX, aggregate(MAX, cost, QUERY OPERATORS), QUERIES)""",
    """cost = aggregate(SUM, toll + rent, UPSTREAM OPERATORS)
    minimise aggregate(SUM, aggregate(SUM, cost, QUERY OPERATORS), QUERIES)""",
]


@settings(max_examples=60)
@given(SEEDS, st.sampled_from(OWN_GOALS))
def test_metrics_of_the_users_own_are_weighed_as_they_are_measured(seed: int, text: str) -> None:
    random, placement = Random(seed), some_placement(seed)
    count = placement.network.sites.count
    sites = replace(
        placement.network.sites,
        link_metrics={"toll": [[random.randint(1, 9) for _ in range(count)] for _ in range(count)]},
        site_metrics={"rent": [random.randint(1, 9) for _ in range(count)]},
    )
    placement = replace(placement, network=replace(placement.network, sites=sites))
    goal = parse_query_goal(text, OWN)
    free = [index for index, operator in enumerate(placement.workload.operators) if operator.pinned is None]
    assert_weighed_as_measured(PlacementEstimate(goal, placement), random.choice(free))


def test_a_metric_without_values_or_with_a_taken_name_is_refused() -> None:
    goal = parse_query_goal(OWN_GOALS[2], OWN)
    with pytest.raises(DistributaryError, match="asks for toll, of which no values were given"):
        PlacementEstimate(goal, exact_placement(1))
    with pytest.raises(DistributaryError, match="a statistic 'capacity' already"):
        parse_query_goal(OWN_GOALS[0], {"capacity": own_metric("capacity", Place.NODE)})


@settings(max_examples=40)
@given(SEEDS, st.sampled_from(sorted(set(GOALS) - SLOW)))
def test_operators_that_move_together_are_weighed_together(seed: int, name: str) -> None:
    goal, placement = GOALS[name], some_placement(seed)
    random = Random(seed)
    free = [index for index, operator in enumerate(placement.workload.operators) if operator.pinned is None]
    together = random.sample(free, random.randint(1, len(free)))
    placement = placement.moved(dict.fromkeys(together, random.randrange(placement.network.sites.count)))
    sites = range(placement.network.sites.count)
    now = measured(goal, placement)
    exact = [
        goal.sign * (now - measured(goal, placement.moved(dict.fromkeys(together, site)))) for site in sites
    ]
    found = PlacementEstimate(goal, placement).benefits(together, list(sites))
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-9)


@settings(max_examples=40)
@given(SEEDS, st.sampled_from(sorted(set(GOALS) - SLOW)))
def test_splits_are_costed_as_if_measured_anew_and_can_be_taken_back(seed: int, name: str) -> None:
    goal, placement = GOALS[name], some_placement(seed)
    random = Random(seed)
    estimate = PlacementEstimate(goal, placement)
    before = estimate.cost
    splits = []
    for _ in range(2):
        workload = estimate.placement.workload
        parts = random.choice((2, 3, 7, 16))
        partitioned = partial(QueryWorkload.partitioned, parts=parts)
        everyone = range(len(workload.operators))
        ways = [(at, partitioned) for at in everyone if workload.may_partition(at)]
        ways += [(at, QueryWorkload.replicated) for at in everyone if len(workload.replica_inputs(at)) > 1]
        if not ways:
            break
        splits.append(estimate.split(*random.choice(ways)))
        for replica in splits[-1].replicas:
            estimate.move(replica, random.randrange(placement.network.sites.count))
        exact = measured(goal, estimate.placement)
        np.testing.assert_allclose(estimate.cost, exact, rtol=1e-12, atol=1e-9)
        assert_weighed_as_measured(estimate, random.choice(splits[-1].replicas))
    for split in reversed(splits):
        estimate.undo(split)
    assert estimate.placement == placement
    np.testing.assert_allclose(estimate.cost, before, rtol=1e-12, atol=1e-9)


def test_parts_of_streams_add_up_exactly_over_ways_of_any_length() -> None:
    """Fifteen sixteenths of a stream, over so many links that their sum does not fit into small numbers."""
    sites = 60
    chain = Tree((NO_PARENT, *range(sites - 1)))
    network = SiteNetwork(Sites([[1] * sites] * sites), (chain,))
    operator = PlannedOperator("o", "filter", (0,), selectivity=0)
    source = PlannedSource("s", 0, 16 * 10**9, 1)
    workload = QueryWorkload((source,), (operator, client("c", 1, 0)), (PlannedQuery("q", (0, 1)),))
    replicas = range(2, 17)
    placement = Placement(workload, network, (0, 0))
    hosts = (*placement.hosts, *(0 for _ in replicas), sites - 1)
    placement = Placement(workload.partitioned(0, 16), placement.network, hosts)
    goal = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
    worth = PlacementEstimate(goal, placement).benefits(list(replicas), list(range(sites)))
    assert worth.tolist() == [-15 * 10**9 * links for links in range(sites)]


CONSTRAINTS = (
    "node load <= 3000",
    "fanout <= 2",
    "aggregate(MIN, bandwidth, UPSTREAM OPERATORS) >= 4",
    "aggregate(SUM, aggregate(SUM, latency, UPSTREAM OPERATORS), QUERY OPERATORS) <= 20",
    "aggregate(MAX, node load, BROKERS) < 5000",
    "aggregate(SUM, latency, UPSTREAM OPERATORS) * processing latency <= 30",
)


def broken(constraint: Constraint, placement: Placement) -> dict[int, float]:
    return {at: float(value) for at, value in MeasuredPlacement(placement).broken(constraint).items()}


@settings(max_examples=40)
@given(SEEDS, st.sampled_from(CONSTRAINTS))
def test_a_move_is_legal_when_nobody_breaks_a_constraint_that_they_kept_or_breaks_it_more(
    seed: int, text: str
) -> None:
    goal = parse_query_goal(f"minimise aggregate(SUM, incoming rate, BROKERS)\nsubject to {text}")
    placement = exact_placement(seed, sites=5, queries=3)
    free = [index for index, operator in enumerate(placement.workload.operators) if operator.pinned is None]
    operator = Random(seed).choice(free)
    constraint = goal.constraints[0]
    before = broken(constraint, placement)
    sites = range(placement.network.sites.count)
    for site, benefit in zip(
        sites, PlacementEstimate(goal, placement).benefits(operator, list(sites)), strict=True
    ):
        after = broken(constraint, placement.moved({operator: site}))
        legal = all(at in before and constraint.no_worse(value, before[at]) for at, value in after.items())
        assert legal == np.isfinite(benefit)


@settings(max_examples=15)
@given(SEEDS)
def test_recounting_changes_nothing(seed: int) -> None:
    placement = some_placement(seed)
    state = PlacementState(placement)
    random = Random(seed)
    for index, operator in enumerate(placement.workload.operators):
        if operator.pinned is None:
            state.move(index, random.randrange(state.count))
    moved = {name: values.copy() for name, values in state.quantities.items()}
    state.recount()
    # Parts of a stream are whole numbers; only the one that a filter asks for which lets nothing pass makes
    # rates that are none.
    rounding = 1e-9 if placement.network.filtering else 0.0
    for name, values in moved.items():
        np.testing.assert_allclose(values, state.quantities[name], rtol=0, atol=rounding)
    assert all(
        state.quantities[name].tolist() == PlacementState(state.placement).quantities[name].tolist()
        for name in moved
    )

"""Climbing: every step helps, what is told is what is measured, and small cases reach the optimum."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.plan.queries.baselines import globally
from distributary.plan.queries.beginnings import best_from_beginnings
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.cost import placement_cost, query_violations
from distributary.plan.queries.generator import at_clients, feed_workload, random_network
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.rules import (
    DIRECTED,
    HYBRID,
    LOCAL,
    MIGRATION,
    MIGRATIONS,
    PARTITION,
    REPLICATION,
    around,
)
from distributary.plan.queries.statistics import Dissemination, critical_sites
from distributary.plan.trees.tree import Tree
from plan.queries.networks import exact_placement

BANDWIDTH = "out = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate\n"
GOALS = {
    "bandwidth": BANDWIDTH + "minimise aggregate(SUM, out, BROKERS)",
    "bottleneck": BANDWIDTH + "minimise aggregate(MAX, out, BROKERS)",
    "load": "minimise aggregate(MAX, node load, BROKERS)",
    "latency": "minimise aggregate(AVERAGE, aggregate(SUM, aggregate(SUM, latency, UPSTREAM OPERATORS), "
    "QUERY OPERATORS), QUERIES)",
    "worst latency": "minimise aggregate(MAX, aggregate(SUM, aggregate(SUM, latency, UPSTREAM OPERATORS) "
    "+ processing latency, QUERY OPERATORS), QUERIES)",
    "capacity": "maximise aggregate(MIN, aggregate(MIN, aggregate(MIN, bandwidth, UPSTREAM OPERATORS), "
    "QUERY OPERATORS), QUERIES)",
    "limited": BANDWIDTH + "minimise aggregate(SUM, out, BROKERS)\nsubject to node load <= 6000",
}
RULES = {
    "migration": (MIGRATION,),
    "migrations": MIGRATIONS,
    "replication": (*MIGRATIONS, REPLICATION),
    "partition": (MIGRATION, PARTITION),
}


@settings(max_examples=12)
@given(
    st.integers(0, 10_000),
    st.sampled_from(sorted(GOALS)),
    st.sampled_from(sorted(RULES)),
    st.sampled_from([LOCAL, DIRECTED, HYBRID]),
)
def test_a_climb_only_goes_up_and_says_what_it_did(seed: int, name: str, rules: str, area) -> None:  # type: ignore[no-untyped-def]
    goal, placement = parse_query_goal(GOALS[name]), exact_placement(seed)
    found = climb(goal, placement, RULES[rules], area, periods=6)
    costs = [found.before, *(step.after for step in found.steps)]
    assert all(goal.sign * after <= goal.sign * before for before, after in pairwise(costs))
    np.testing.assert_allclose(found.cost, float(placement_cost(goal.cost, found.placement)), rtol=1e-9)
    broken = set(query_violations(goal, placement))
    assert len(query_violations(goal, found.placement)) <= len(broken)
    # Carrying the rewrites out by themselves leads to the same placement.
    again = placement
    for rewrite in found.rewrites:
        workload = again.workload
        if rewrite.rule in ("replication", "partition"):
            split = workload.replicated if rewrite.rule == "replication" else workload.partitioned
            replicas = [rewrite.origin] * len(rewrite.changes)
            again = Placement(split(rewrite.operator), again.network, (*again.hosts, *replicas))
        again = again.moved(rewrite.changes)
    assert again == found.placement


def small(queries: int = 40, sites: int = 20, **options: object):  # type: ignore[no-untyped-def]
    network = random_network(sites, 4, seed=5)
    return at_clients(feed_workload(network, queries, 5, feeds=40, **options), network)  # type: ignore[arg-type]


def test_what_shares_a_feed_moves_only_together() -> None:
    goal, placement = parse_query_goal(GOALS["bandwidth"]), small(filters_only=True)
    alone = climb(goal, placement, (MIGRATION,), LOCAL)
    assert climb(goal, placement, MIGRATIONS, LOCAL).cost < alone.cost < alone.before


def test_directed_rules_reach_the_least_maximum_load() -> None:
    goal, placement = parse_query_goal(GOALS["load"]), small()
    loads = [float(placement.workload.load(at)) for at in range(len(placement.workload.operators))]
    least = max(max(loads), sum(loads) / 20)
    local, directed = (climb(goal, placement, (MIGRATION,), area).cost for area in (LOCAL, DIRECTED))
    assert least <= directed <= 1.05 * least
    assert directed <= local


def test_fewer_statistics_cost_fewer_bytes_and_little_quality() -> None:
    goal, placement = parse_query_goal(GOALS["load"]), small()
    everything = climb(goal, placement, (MIGRATION,), DIRECTED, statistics=Dissemination())
    some = climb(goal, placement, (MIGRATION,), DIRECTED, statistics=Dissemination(top=5, seed=1))
    assert some.cost <= 1.1 * everything.cost
    told = [climb_.traffic.statistics / len(climb_.steps) for climb_ in (some, everything)]
    assert told[0] < 0.7 * told[1]


def test_what_is_told_and_asked_does_not_grow_with_the_queries() -> None:
    goal = parse_query_goal("minimise aggregate(SUM, node load * node load, BROKERS)")
    few, many = (
        climb(goal, small(queries, 15), (MIGRATION,), LOCAL, periods=1).traffic for queries in (40, 80)
    )
    assert many.maintenance == few.maintenance
    assert many.optimisation <= 1.2 * few.optimisation


def test_the_same_seed_gives_the_same_lottery() -> None:
    goal, placement = parse_query_goal(GOALS["latency"]), small(15, 12)
    one, other = (
        climb(goal, placement, area=DIRECTED, statistics=Dissemination(top=5, seed=7)) for _ in range(2)
    )
    assert one == other


def test_with_all_statistics_everybody_interested_hears_of_every_better_site() -> None:
    estimate = PlacementEstimate(parse_query_goal("minimise aggregate(SUM, node load, BROKERS)"), small())
    heard = Dissemination().round(estimate).sites
    load = estimate.state.quantities["load"]
    for site in critical_sites(estimate):
        assert set(heard[site].tolist()) == set(np.flatnonzero(load < load[site]).tolist())


def test_only_the_worst_are_told_when_the_worst_is_what_counts() -> None:
    estimate = PlacementEstimate(parse_query_goal(GOALS["load"]), small())
    heard = Dissemination().round(estimate).sites
    assert [site for site, others in enumerate(heard) if len(others)] == critical_sites(estimate)


def test_replication_with_migration_saves_most_bandwidth() -> None:
    goal, placement = parse_query_goal(GOALS["bandwidth"]), small(20, 20, two_feeds=1.0, filters_only=True)
    migration, replication, both = (
        climb(goal, placement, rules, LOCAL).cost
        for rules in ((MIGRATION,), (REPLICATION,), (MIGRATION, REPLICATION))
    )
    assert both < migration
    assert both <= replication


def test_partition_takes_the_maximum_load_below_what_migration_can_reach() -> None:
    goal, placement = parse_query_goal(GOALS["load"]), small(queries=10)
    migration = climb(goal, placement, (MIGRATION,), DIRECTED)
    both = climb(goal, placement, (MIGRATION, PARTITION), DIRECTED)
    assert both.cost < migration.cost
    assert any(rewrite.rule == "partition" for rewrite in both.rewrites)


@pytest.mark.parametrize(("levels", "near"), [(1, {1, 3, 4}), (2, {0, 1, 3, 4, 5})])
def test_an_area_is_parents_descendants_and_siblings(levels: int, near: set[int]) -> None:
    assert around(Tree((-1, 0, 1, 1, 2, 4, 5, 0)), 2, levels) == near


@given(st.integers(0, 10_000), st.sampled_from(["bandwidth", "load"]))
@settings(max_examples=25)
def test_beginning_from_global_as_well_is_never_worse_than_either(seed: int, name: str) -> None:
    network = random_network(sites=6, trees=2, seed=seed)
    start = at_clients(feed_workload(network, 12, seed=seed), network)
    goal = parse_query_goal(GOALS[name])
    found = best_from_beginnings(goal, start, lambda placement: climb(goal, placement).placement)
    other = PlacementEstimate(goal, globally(goal, start.workload, network)).cost
    assert PlacementEstimate(goal, found).cost <= min(climb(goal, start).cost, other) * (1 + 1e-9)

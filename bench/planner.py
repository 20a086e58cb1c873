"""Placing queries on sites: how long climb and planning take, for each metric, and what they bring.

The workload is the seed's (section 5.5): queries of five operators over 700 feeds with Zipf's popularity, on
sites in four trees. Ratios are within one run: GLOBAL knows everything and decides once for every query.
"""

from __future__ import annotations

import time
from functools import partial

from bench.report import Result
from distributary.plan.goal.expression import Goal
from distributary.plan.queries.baselines import globally
from distributary.plan.queries.beginnings import best_from_beginnings
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.cost import placement_cost
from distributary.plan.queries.generator import at_clients, feed_workload, random_network
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.rules import HYBRID, MIGRATIONS

SEED = 1
GOALS = {
    "bandwidth": "out = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate\n"
    "minimise aggregate(SUM, out, BROKERS)",
    "latency": "operator latency = aggregate(SUM, latency, UPSTREAM OPERATORS)\n"
    "minimise aggregate(AVERAGE, aggregate(SUM, operator latency, QUERY OPERATORS), QUERIES)",
    "maximum load": "minimise aggregate(MAX, node load, BROKERS)",
}


def run(quick: bool) -> list[Result]:
    sites, queries, target = (20, 60, "") if quick else (200, 900, "< 60")
    network = random_network(sites, 4, SEED)
    start = at_clients(feed_workload(network, queries, SEED), network)
    workload = f"{queries} queries of 5 operators on {sites} sites, 4 trees"
    results: list[Result] = []
    for name, text in GOALS.items():
        goal = parse_query_goal(text)
        checked = _check(text)
        begun, spent = time.perf_counter(), time.process_time()
        found = climb(goal, start, MIGRATIONS, HYBRID)
        seconds, spent = time.perf_counter() - begun, time.process_time() - spent
        other = PlacementEstimate(goal, globally(goal, start.workload, network)).cost
        begun = time.perf_counter()
        best = best_from_beginnings(goal, start, partial(_climbed, goal))
        planned = time.perf_counter() - begun
        cost = PlacementEstimate(goal, best).cost
        results += [
            Result(workload, name, "climbing", seconds, "s", checked, target),
            Result(workload, name, "processor time", spent, "s", checked),
            Result(workload, name, "cost, by the start's", found.cost / found.before, "times", checked),
            Result(workload, name, "cost, by GLOBAL's", found.cost / other, "times", checked),
            Result(workload, name, "planning, from GLOBAL too", planned, "s", checked, target),
            Result(workload, name, "its cost, by GLOBAL's", cost / other, "times", checked),
        ]
    return results


def _climbed(goal: Goal, placement: Placement) -> Placement:
    return climb(goal, placement, MIGRATIONS, HYBRID).placement


def _check(text: str) -> str:
    """Compare what a climb says of a small network with plain measurement."""
    goal = parse_query_goal(text)
    network = random_network(12, 3, SEED)
    start = at_clients(feed_workload(network, 25, SEED), network)
    found = climb(goal, start, MIGRATIONS, HYBRID)
    measured = float(placement_cost(goal.cost, found.placement))
    if abs(measured - found.cost) > 1e-9 * abs(measured) or found.cost > found.before:
        raise AssertionError(f"the climb says {found.cost}, and {measured} is measured")
    return "plain measurement of 25 queries placed on 12 sites"

"""The experiments on the bandwidth bottleneck: networks as they say, honest rows, checks that can fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from distributary.errors import DistributaryError
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb, TreeStep
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.optimiser import climb
from distributary.plan.trees.tree import star
from distributary_lab.experiment import Outcome, Row
from distributary_lab.tree import bottleneck, climbs
from distributary_lab.tree import bottleneck_annealing as annealing
from distributary_lab.tree import bottleneck_limits as limits

POINT = {"nodes": 24, "network": bottleneck.PAIRS}


def links(network: str) -> np.ndarray:
    sites = bottleneck.bottleneck_network({**POINT, "network": network}, np.random.default_rng(5))
    return np.array(sites.bandwidth)


def test_networks_differ_only_in_what_some_sites_may_send() -> None:
    free = links(bottleneck.PAIRS)
    for network in (bottleneck.SENDERS, bottleneck.CLASSES):
        limited = links(network)
        lower = (limited < free).any(axis=1)
        assert 2 < lower.sum() < 16
        assert not lower[0]
        for site in np.flatnonzero(lower):
            most = limited[site].max()
            assert most <= bottleneck.MOST_LIMIT
            assert np.array_equal(limited[site], np.minimum(free[site], most))
    classes = {float(row.max()) for row in links(bottleneck.CLASSES) if row.max() in bottleneck.ROUND_LIMITS}
    assert len(classes) > 1


def test_every_method_starts_from_the_same_tree_and_ours_ends_at_the_optimum() -> None:
    point = {"nodes": 10, "network": bottleneck.CLASSES, "start": bottleneck.RANDOM, "runs": 2}
    rows = list(bottleneck.run(point, np.random.default_rng(1)))
    assert len(rows) == 2 * 6
    for first in (0, 6):
        shares = {str(row["method"]): float(row["share"]) for row in rows[first : first + 6]}
        assert shares.pop(climbs.OURS) == 1
        start = shares.pop(climbs.UNTOUCHED)
        assert all(start <= share <= 1 for share in shares.values())


def test_a_step_that_is_not_worth_what_it_promised_fails_the_run() -> None:
    sites = bottleneck.bottleneck_network(POINT, np.random.default_rng(2))
    problem = Problem(parse_goal(climbs.WIDEST), sites)
    found = climb(problem, star(24))
    assert climbs.measured(problem, "climb", found, 1.0)["rewrites"] == len(found.rewrites) > 0
    step: TreeStep = replace(found.steps[0], after=float(found.steps[0].after) * 2)
    false: TreeClimb = replace(found, steps=(step, *found.steps[1:]))
    with pytest.raises(DistributaryError, match="a step was to lead to"):
        climbs.measured(problem, "climb", false, 1.0)


def rows_with(shares: dict[str, float], rewrites: float = 5.0, large: float = 0.0) -> list[Row]:
    """Rows on one network, from both starts; at 100 nodes, from a random tree, hybrid is `large` worse."""
    return [
        {"network": bottleneck.SENDERS, "start": start, "nodes": nodes, "method": method}
        | {"share": share - (large if nodes == 100 and start == "random" and method == "hybrid" else 0)}
        | {"rewrites": rewrites, "connections": 5 if method == climbs.OURS else 9}
        for start in bottleneck.STARTS
        for nodes in (20, 100)
        for method, share in shares.items()
    ]


GOOD = {
    "start": 0.65,
    "local": 0.8,
    "directed": 1.0,
    "hybrid": 1.0,
    bottleneck.WITHOUT_SWAP: 0.8,
    climbs.OURS: 1.0,
}


@pytest.mark.parametrize(
    ("claim", "bad"),
    [
        ("003-fig4.11", rows_with(GOOD)),
        ("003-fig4.12", rows_with(GOOD, rewrites=5) + [{**row, "nodes": 10} for row in rows_with(GOOD, 0.1)]),
        ("003-fig4.13", rows_with({**GOOD, bottleneck.WITHOUT_SWAP: 0.99})),
        ("003-fig4.14", rows_with({**GOOD, "hybrid": 0.9}, large=0.3)),
        ("003-fig4.15", rows_with(GOOD)),
        ("003-fig4.16", rows_with({**GOOD, "local": 0.6})),
        ("003-fig4.17", rows_with(GOOD, rewrites=30)),
        ("beyond-tree-bottleneck", rows_with({**GOOD, climbs.OURS: 0.99}, large=0.3)),
    ],
)
def test_checks_hold_on_what_the_thesis_reports_and_not_on_something_else(claim: str, bad: list[Row]) -> None:
    good = rows_with(GOOD, large=0.15)
    if claim == "003-fig4.12":
        good = [row | {"rewrites": 10 if row["nodes"] == 20 else 3} for row in good]
        bad = [row | {"rewrites": row["nodes"]} for row in good]
    if claim == "003-fig4.15":
        good = [row | {"rewrites": 7 if row["start"] == bottleneck.BEST_EFFORT else 5} for row in good]
    check = bottleneck.EXPERIMENTS[0].answers[claim].check
    assert check(good).outcome is Outcome.HOLDS, check(good)
    assert check(bad).outcome is Outcome.DOES_NOT_HOLD


def annealed(local: float, hybrid: float, rewrites: int) -> list[Row]:
    shares = {
        "climb, local": 0.8,
        "annealing, local": local,
        "climb, hybrid": 1.0,
        "annealing, hybrid": hybrid,
    }
    return [
        {"nodes": 20, "method": name, "share": share, "rewrites": rewrites if "anneal" in name else 7}
        for name, share in shares.items()
    ]


def test_annealing_must_be_nearer_by_local_rules_and_a_hundred_times_dearer() -> None:
    assert annealing.check_convergence(annealed(0.9, 1.0, 5000)).outcome is Outcome.HOLDS
    assert annealing.check_convergence(annealed(0.7, 1.0, 5000)).outcome is Outcome.DOES_NOT_HOLD
    assert annealing.check_convergence(annealed(0.9, 0.8, 5000)).outcome is Outcome.DOES_NOT_HOLD
    assert annealing.check_rewrites(annealed(0.9, 1.0, 5000)).outcome is Outcome.HOLDS
    assert annealing.check_rewrites(annealed(0.9, 1.0, 500)).outcome is Outcome.DOES_NOT_HOLD


def test_limits_are_kept_and_the_looser_the_more_periods() -> None:
    point = {"nodes": 12, "network": bottleneck.CLASSES, "start": bottleneck.RANDOM, "runs": 1}
    rows = list(limits.run(point, np.random.default_rng(3)))
    assert {str(row["fanout"]) for row in rows} == set(limits.LIMITS)
    assert len(rows) == len(limits.LIMITS) * 2 * (limits.PERIODS + 1)
    costs = [float(row["bottleneck"]) for row in rows[: limits.PERIODS + 1]]
    assert costs == sorted(costs)

    def made(periods: dict[str, int]) -> list[Row]:
        return [
            {"network": bottleneck.PAIRS, "start": start, "method": method, "fanout": limit}
            | {"period": limits.PERIODS, "periods": count, "bottleneck": count}
            for start in bottleneck.STARTS
            for method in (limits.CLIMB, climbs.OURS)
            for limit, count in periods.items()
        ]

    good, bad = made({"2": 2, "6": 3, "10": 4, "none": 6}), made({"2": 9, "6": 3, "10": 4, "none": 6})
    assert limits.check_limits(good).outcome is Outcome.HOLDS
    assert limits.check_limits(bad).outcome is Outcome.DOES_NOT_HOLD

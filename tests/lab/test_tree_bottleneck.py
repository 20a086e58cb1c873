"""The experiments on the bandwidth bottleneck: networks as they say, and honest rows."""

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
from distributary_lab.tree import bottleneck, climbs
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


def test_every_limit_is_run_period_by_period() -> None:
    point = {"nodes": 12, "network": bottleneck.CLASSES, "start": bottleneck.RANDOM, "runs": 1}
    rows = list(limits.run(point, np.random.default_rng(3)))
    assert {str(row["fanout"]) for row in rows} == set(limits.LIMITS)
    assert len(rows) == len(limits.LIMITS) * 2 * (limits.PERIODS + 1)
    costs = [float(row["bottleneck"]) for row in rows[: limits.PERIODS + 1]]
    assert costs == sorted(costs)

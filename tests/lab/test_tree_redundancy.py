"""Redundant data and bandwidth in the lab: what is measured, and what the checks make of it."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from distributary.errors import DistributaryError
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import violations
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.optimiser import climb
from distributary.plan.trees.tree import random_tree, star
from distributary_lab.experiment import Point, Row, point_random
from distributary_lab.tree import climbs
from distributary_lab.tree import redundancy as lab

POINT: Point = {"nodes": 12, "runs": 1, "all_methods": True}


def rows_of(run: str, **point: object) -> list[Row]:
    given: Point = {**POINT, **point}  # type: ignore[dict-item]
    return getattr(lab, run)(given, point_random(1, run, 0))  # type: ignore[no-any-return]


def test_every_client_wants_a_feed_at_some_site() -> None:
    sites = lab.feed_sites(POINT, np.random.default_rng(1))
    assert sum(sites.clients) == lab.CLIENTS
    assert all(
        bool(wanted) == bool(clients) for wanted, clients in zip(sites.interest, sites.clients, strict=True)
    )
    popular = sum(wanted & 1 for wanted in sites.interest)
    assert popular >= 6
    assert sum(sites.rates) == pytest.approx(700 * 27.7, rel=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_promoting_subtrees_always_leads_to_no_redundant_data(seed: int) -> None:
    random = np.random.default_rng(seed)
    problem = Problem(parse_goal(lab.GOALS[lab.REDUNDANT]), lab.feed_sites(POINT, random))
    found = climb(problem, random_tree(12, Random(seed)), lab.FIVE)
    assert lab.costs_by_step(problem, found)[-1] == pytest.approx(0, abs=1e-6)


def test_limits_are_kept_by_every_method() -> None:
    rows = rows_of("run_fanouts", nodes=6)
    assert {(row["metric"], row["fanout"], row["method"]) for row in rows} == {
        (metric, fanout, method)
        for metric in lab.GOALS
        for fanout in lab.FANOUTS
        for method in (climbs.LOCAL_RULES, climbs.HYBRID_RULES, climbs.OURS)
    }
    assert all(row["cost"] <= row["start"] for row in rows)  # type: ignore[operator]
    assert all(row["cost"] >= row["unlimited"] - 1e-6 for row in rows)  # type: ignore[operator]


@pytest.mark.parametrize("limit", [None, 300, 200])
def test_trees_begin_within_their_limit(limit: float | None) -> None:
    sites = lab.timed_sites(lab.feed_sites({**POINT, "nodes": 30}, np.random.default_rng(2)))
    tree = lab.tree_in_time(sites, limit, Random(2))
    goal = parse_goal(f"{lab.CONSUMED}; subject to {lab.ON_TIME} <= {limit or 10**9}")
    assert violations(goal, sites, tree) == []
    depth = max(tree.depth)
    assert depth >= 3 if limit is None else depth >= 1


def test_a_limit_that_cannot_be_kept_is_told() -> None:
    sites = lab.timed_sites(lab.feed_sites(POINT, np.random.default_rng(2)))
    with pytest.raises(DistributaryError, match="within 1 ms"):
        lab.tree_in_time(sites, 1, Random(2))


def test_the_least_bandwidth_is_the_stars() -> None:
    sites = lab.timed_sites(lab.feed_sites(POINT, np.random.default_rng(3)))
    least = sum(float(sites.rate_of(wanted)) for wanted in sites.interest[1:]) / sites.count
    problem = Problem(parse_goal(lab.CONSUMED), sites)
    assert float(problem.at(star(12)).cost) == pytest.approx(least)


@pytest.mark.parametrize("run", ["run_rules", "run_bandwidth"])
def test_a_climb_is_told_rewrite_by_rewrite(run: str) -> None:
    rows = rows_of(run, nodes=16)
    assert {row["step"] for row in rows} == set(range(lab.SHOWN_STEPS + 1))

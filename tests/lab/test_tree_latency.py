"""The experiments on latency: their runs on a few sites, and checks that can say no."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from distributary_lab.engines import run_here
from distributary_lab.experiment import Experiment, Outcome, Row, grid
from distributary_lab.registry import find
from distributary_lab.rows import number, select
from distributary_lab.tasks import tasks_of
from distributary_lab.tree.climbs import HYBRID_RULES, LOCAL_RULES, OURS, UNTOUCHED
from distributary_lab.tree.latency import (
    ANNEALED,
    PERIODS,
    STAR,
    check_average,
    check_escape,
    check_rewrites,
    check_steps,
)
from distributary_lab.tree.scope import FIVE, FOUR, SCOPES, THREE


def rows_of(name: str, **choices: list[int]) -> list[Row]:
    """The rows of an experiment on points of its own."""
    (experiment,) = find(name)
    small: Experiment = replace(experiment, quick=grid(**choices))
    outcomes = run_here(tasks_of(small, quick=True, seed=1), lambda count: None)
    assert not [done.failure for done in outcomes if done.failure]
    return [row for done in outcomes for row in done.rows]


def test_every_period_of_a_climb_for_the_total_is_better_than_the_one_before() -> None:
    rows = rows_of("tree-total-latency", nodes=[12], run=[1])
    costs = [number(row, "latency") for row in rows]
    assert len(costs) == PERIODS + 1
    rewrites = int(number(rows[0], "rewrites"))
    assert 0 < rewrites < PERIODS
    assert sorted(set(costs), reverse=True) == costs[: rewrites + 1]
    assert set(costs[rewrites:]) == {costs[-1]}
    assert check_steps(rows).outcome is Outcome.HOLDS
    worse = [{**row, "latency": number(row, "star") * 1.1} for row in rows]
    assert check_steps(worse).outcome is Outcome.DOES_NOT_HOLD


def test_no_tree_beats_the_shortest_paths_and_hybrid_rules_reach_them() -> None:
    rows = rows_of("tree-average-latency", nodes=[12, 20], part=[1], runs=[2])
    assert min(number(row, "above") for row in rows) > -1e-9
    assert max(number(row, "above") for row in select(rows, method=HYBRID_RULES)) < 1e-9
    for method in (STAR, UNTOUCHED):
        assert not any(number(row, "rewrites") for row in select(rows, method=method))
    assert check_average(rows).outcome is Outcome.HOLDS
    late = [{**row, "above": 12.0} if row["method"] == HYBRID_RULES else row for row in rows]
    assert check_average(late).outcome is Outcome.DOES_NOT_HOLD


def test_rewrites_are_compared_with_those_of_the_same_size() -> None:
    def rows(hybrid: float) -> list[Row]:
        methods = {HYBRID_RULES: hybrid, LOCAL_RULES: 50.0}
        return [{"nodes": 40, "method": name, "rewrites": count} for name, count in methods.items()]

    assert check_rewrites(rows(35.0)).outcome is Outcome.HOLDS
    assert check_rewrites(rows(35.0)).ratio == pytest.approx(35 / 39.6)
    assert check_rewrites(rows(60.0)).outcome is Outcome.DOES_NOT_HOLD


def test_our_search_reaches_the_least_maximum_with_fewer_connections() -> None:
    rows = rows_of("tree-maximum-latency", nodes=[24], part=[1], runs=[3])
    assert max(number(row, "above") for row in select(rows, method=OURS)) < 1e-9
    assert check_escape(rows).outcome is Outcome.HOLDS
    far = [{**row, "share": 1.16} if row["method"] == OURS else row for row in rows]
    assert check_escape(far).outcome is Outcome.DOES_NOT_HOLD


def test_annealing_applies_a_hundred_times_the_rewrites() -> None:
    rows = rows_of("tree-maximum-latency-annealing", nodes=[10], part=[1], runs=[1])
    for name in (LOCAL_RULES, HYBRID_RULES):
        climbed, annealed = (select(rows, method=method)[0] for method in (name, ANNEALED.format(name)))
        assert number(annealed, "rewrites") > 100 * number(climbed, "rewrites") > 0


def test_rules_of_one_scope_alone_stop_early_and_the_small_ones_matter() -> None:
    rows = rows_of("tree-scope", nodes=[20], part=[1], runs=[2])
    ends = {name: np.mean([number(row, "above") for row in select(rows, method=name)]) for name in SCOPES}
    assert ends[THREE] < min(ends[FOUR], ends[FIVE])

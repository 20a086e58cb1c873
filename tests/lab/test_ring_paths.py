"""The experiments on path lengths: a small run, and verdicts on rows that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distributary_lab.attributes.paths import (
    EXPERIMENTS,
    OPTIMUM,
    RULES,
    SHORTEST_DOUBLED,
    SHORTEST_SAME,
    check_figure_3,
)
from distributary_lab.engines import run_here
from distributary_lab.evidence import evidence
from distributary_lab.experiment import Experiment, Outcome, Row, grid
from distributary_lab.tasks import tasks_of


@pytest.mark.parametrize(
    ("experiment", "outcome"),
    list(zip(EXPERIMENTS, [Outcome.DOES_NOT_HOLD, Outcome.DOES_NOT_HOLD], strict=True)),
    ids=lambda each: getattr(each, "name", str(each)),
)
def test_a_small_grid_gives_the_verdicts_of_the_full_one(experiment: Experiment, outcome: Outcome) -> None:
    small = replace(experiment, quick=grid(nodes=[100, 400], repeat=[0]))
    outcomes = run_here(tasks_of(small, quick=True, seed=1), lambda count: None)
    assert [done.failure for done in outcomes] == [None, None]
    rows = [row for done in outcomes for row in done.rows]
    for claim_id, answer in small.answers.items():
        assert answer.check(evidence(small, claim_id, rows)).outcome is outcome


def paths(one: float, both: float, optimum: float) -> list[Row]:
    hops = dict(zip(RULES, (one, both, both), strict=True))
    hops |= {OPTIMUM: optimum, SHORTEST_SAME: optimum, SHORTEST_DOUBLED: optimum}
    return [{"nodes": 800, "routing": routing, "hops": value} for routing, value in hops.items()]


@pytest.mark.parametrize(("one", "both", "holds"), [(5.0, 3.4, True), (5.0, 4.5, False), (3.0, 3.4, False)])
def test_both_ways_must_be_below_one_way_and_near_the_optimum(one: float, both: float, holds: bool) -> None:
    assert (check_figure_3(paths(one, both, 3.2)).outcome is Outcome.HOLDS) is holds


def test_figure_3_needs_one_of_its_sizes() -> None:
    rows = [{**row, "nodes": 50} for row in paths(5.0, 3.5, 3.0)]
    assert check_figure_3(rows).outcome is Outcome.NOT_REPRODUCED

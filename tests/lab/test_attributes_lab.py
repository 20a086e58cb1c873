"""The experiments on attribute subscriptions: they hold on small grids, and would say if they did not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distributary_lab.attributes import load as attribute_load
from distributary_lab.attributes import matching as attributes
from distributary_lab.engines import run_here
from distributary_lab.experiment import Experiment, Outcome, Point, Row, grid
from distributary_lab.tasks import tasks_of

SMALL: dict[str, tuple[Point, ...]] = {
    "attributes-store": grid(nodes=[64], placement=attributes.PLACEMENTS),
    "attributes-update": grid(nodes=[64], placement=attributes.PLACEMENTS),
    "attributes-match": grid(nodes=[64], matching=attributes.MATCHINGS),
    "attributes-small-domain": grid(
        nodes=[256], placement=["Chord", "OPChord", "OPChord, jumping", attribute_load.BALANCED]
    ),
    "attributes-balance": grid(nodes=[32], skew=[1.2], placement=attribute_load.PLACEMENTS),
}


@pytest.mark.parametrize(
    "experiment", [*attributes.EXPERIMENTS, *attribute_load.EXPERIMENTS], ids=lambda each: each.name
)
def test_the_claims_hold_on_a_small_grid(experiment: Experiment) -> None:
    small = replace(experiment, quick=SMALL[experiment.name])
    outcomes = run_here(tasks_of(small, quick=True, seed=1), lambda count: None)
    assert {done.failure for done in outcomes} == {None}
    rows = [row for done in outcomes for row in done.rows]
    for claim_id, answer in small.answers.items():
        verdict = answer.check(rows)
        assert verdict.outcome is Outcome.HOLDS, (claim_id, verdict)


def measured(factor: float) -> list[Row]:
    return [
        {"nodes": 64, "values": 16, "placement": name, "hops": factor * 100, "formula": 100.0, "routes": 1}
        for name in attributes.PLACEMENTS
    ]


@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (1.15, True), (1.5, False), (0.5, False)])
def test_hops_that_are_not_the_formulas_are_a_finding(factor: float, holds: bool) -> None:
    assert (attributes.check_store(measured(factor)).outcome is Outcome.HOLDS) == holds


@pytest.mark.parametrize(("ours", "holds"), [(2.0, True), (9.0, False)])
def test_a_placement_that_is_no_better_than_opchord_is_a_finding(ours: float, holds: bool) -> None:
    rows: list[Row] = []
    for placement, load, store in (("Chord", 5.0, 30.0), ("OPChord", 8.0, 4.0), ("arcs", ours, 6.0)):
        measures = dict.fromkeys(attribute_load.MEASURES, load)
        rows.append(
            {"nodes": 64, "skew": 1.0, "placement": placement, "store": store, **measures}
            | {"rebalancing messages a node": 10.0}
        )
    assert (attribute_load.check_skew(rows).outcome is Outcome.HOLDS) == holds

"""The experiments on attribute subscriptions on small grids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distributary_lab.attributes import load as attribute_load
from distributary_lab.attributes import matching as attributes
from distributary_lab.engines import run_here
from distributary_lab.evidence import evidence
from distributary_lab.experiment import Experiment, Outcome, Point, grid
from distributary_lab.tasks import tasks_of

SMALL: dict[str, tuple[Point, ...]] = {
    "attributes-store": grid(nodes=[8, 64], placement=attributes.PLACEMENTS),
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
def test_small_points_give_rows_that_every_check_can_judge(experiment: Experiment) -> None:
    small = replace(experiment, quick=SMALL[experiment.name])
    outcomes = run_here(tasks_of(small, quick=True, seed=1), lambda count: None)
    assert {done.failure for done in outcomes} == {None}
    rows = [row for done in outcomes for row in done.rows]
    for claim_id, answer in small.answers.items():
        verdict = answer.check(evidence(small, claim_id, rows))
        assert verdict.outcome is not Outcome.NOT_REPRODUCED
        if claim_id.startswith("beyond"):
            assert verdict.outcome is Outcome.HOLDS, (claim_id, verdict)


@pytest.mark.parametrize(("placement", "hops"), [("Chord", 6), ("OPChord", 4)])
def test_the_example_of_figures_6_and_7_is_measured(placement: str, hops: int) -> None:
    assert list(attributes.example(placement)) == [{"values": 3, "hops": hops}]

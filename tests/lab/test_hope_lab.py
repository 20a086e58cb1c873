"""HOPE's experiments: small points run, and checks see what the rows say."""

from __future__ import annotations

import numpy as np
import pytest

from distributary_lab.experiment import Experiment, Outcome, Point, Row
from distributary_lab.hope import balance as hope_balance
from distributary_lab.hope import delivery as hope_delivery
from distributary_lab.hope import failures as hope_failures
from distributary_lab.hope import multicast as hope_multicast
from distributary_lab.hope import upkeep as hope_upkeep
from distributary_lab.hope.failures import lists_lost

POINTS: dict[str, list[Point]] = {
    "hope-balance": [
        {"nodes": 16, "events": 10, "more_bits": more, "facets": facets}
        for more, facets in ((-2, 1), (0, 1), (2, 1), (0, 4))
    ],
    "hope-delivery": [{"nodes": nodes, "documents": 30} for nodes in (16, 32)],
    "hope-multicast": [
        {"nodes": nodes, "saturation": saturation} for nodes in (8, 16) for saturation in (0.2, 0.5, 0.75)
    ],
    "hope-kbpp": [{"nodes": 32, "saturation": saturation, "publications": 3} for saturation in (0.2, 0.6)],
    "hope-upkeep": [
        {"nodes": nodes, "length": length, "seconds": 60, "changing": False, "copies": 1}
        for nodes in (8, 16)
        for length in (0, 1024)
    ],
    "hope-replication": [
        {"nodes": 16, "copies": copies, "seconds": 10, "changing": True, "length": 1024}
        for copies in (1, 2, 8)
    ],
    "hope-failures": [
        {"nodes": 32, "probability": probability, "copies": copies, "documents": 5}
        for probability in (0.0, 0.25, 0.5)
        for copies in (1, 8)
    ],
}
ALL = [
    *hope_delivery.EXPERIMENTS,
    *hope_multicast.EXPERIMENTS,
    *hope_upkeep.EXPERIMENTS,
    *hope_failures.EXPERIMENTS,
    *hope_balance.EXPERIMENTS,
]


def rows_of(experiment: Experiment) -> list[Row]:
    random = np.random.default_rng(1)
    return [{**point, **row} for point in POINTS[experiment.name] for row in experiment.run(point, random)]


def outcome(experiment: Experiment, claim: str, rows: list[Row]) -> Outcome:
    return experiment.answers[claim].check(rows).outcome


@pytest.mark.parametrize("experiment", ALL, ids=lambda experiment: experiment.name)
def test_small_points_give_rows_that_every_check_can_judge(experiment: Experiment) -> None:
    rows = rows_of(experiment)
    for answer in experiment.answers.values():
        verdict = answer.check(rows)
        assert verdict.ours
        for plot in answer.plots:
            columns = {plot.y} if isinstance(plot.y, str) else set(plot.y)
            assert {plot.x} | columns <= rows[0].keys()


def test_every_claim_of_chapters_4_and_5_is_answered() -> None:
    answered = {claim for experiment in ALL for claim in experiment.answers}
    wanted = {f"001-fig4.{number}" for number in range(7, 26)} | {
        f"001-fig5.{number}" for number in range(2, 6)
    }
    assert wanted <= answered


def test_received_must_fall_with_longer_filters() -> None:
    experiment = hope_delivery.EXPERIMENTS[0]
    rows: list[Row] = [
        {"nodes": nodes, "length": length, "received": 100 - length / 20 + nodes, "multicast": 1}
        for nodes in (16, 64)
        for length in hope_delivery.LENGTHS
    ]
    assert outcome(experiment, "001-fig4.13", rows) is Outcome.HOLDS
    rising = [{**row, "received": float(row["length"])} for row in rows]
    assert outcome(experiment, "001-fig4.13", rising) is Outcome.DOES_NOT_HOLD


def test_everything_must_arrive_at_a_quarter_with_eight_copies() -> None:
    experiment = hope_failures.EXPERIMENTS[0]
    ratios = {(0.25, 1): 0.5, (0.25, 8): 1.0, (0.5, 8): 0.9}
    rows: list[Row] = [
        {"nodes": 64, "probability": probability, "copies": copies, "delivery_ratio": ratio}
        for (probability, copies), ratio in ratios.items()
    ]
    assert outcome(experiment, "001-fig5.5", rows) is Outcome.HOLDS
    lossy = [{**row, "delivery_ratio": 0.95} for row in rows]
    assert outcome(experiment, "001-fig5.5", lossy) is Outcome.DOES_NOT_HOLD
    assert outcome(experiment, "001-fig5.5", rows[:2]) is Outcome.NOT_REPRODUCED


def test_a_list_is_lost_with_all_its_nodes_and_only_then() -> None:
    random = np.random.default_rng(3)
    for copies in (1, 2, 5):
        failed = random.random(40) < 0.6
        expected = [all(failed[(vertex + step) % 40] for step in range(copies)) for vertex in range(40)]
        assert lists_lost(failed, copies).tolist() == expected

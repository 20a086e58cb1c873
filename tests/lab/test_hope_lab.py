"""HOPE's experiments: small points run, and checks see what the rows say."""

from __future__ import annotations

import numpy as np
import pytest

from distributary_lab.evidence import evidence
from distributary_lab.experiment import Experiment, Point, Row
from distributary_lab.hope import balance as hope_balance
from distributary_lab.hope import delivery as hope_delivery
from distributary_lab.hope import failures as hope_failures
from distributary_lab.hope import multicast as hope_multicast
from distributary_lab.hope import nodes as hope_nodes
from distributary_lab.hope import upkeep as hope_upkeep
from distributary_lab.hope.failures import lists_lost

POINTS: dict[str, list[Point]] = {
    "hope-balance": [
        {"nodes": 16, "events": 10, "more_bits": more, "facets": facets}
        for more, facets in ((-2, 1), (0, 1), (2, 1), (0, 4))
    ],
    "hope-nodes": [{"nodes": nodes, "seconds": 10} for nodes in (4, 8)],
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
    *hope_nodes.EXPERIMENTS,
    *hope_upkeep.EXPERIMENTS,
    *hope_failures.EXPERIMENTS,
    *hope_balance.EXPERIMENTS,
]


def rows_of(experiment: Experiment) -> list[Row]:
    random = np.random.default_rng(1)
    return [{**point, **row} for point in POINTS[experiment.name] for row in experiment.run(point, random)]


@pytest.mark.parametrize("experiment", ALL, ids=lambda experiment: experiment.name)
def test_small_points_give_rows_that_every_check_can_judge(experiment: Experiment) -> None:
    rows = rows_of(experiment)
    for claim, answer in experiment.answers.items():
        verdict = answer.check(evidence(experiment, claim, rows))
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


def test_a_list_is_lost_with_all_its_nodes_and_only_then() -> None:
    random = np.random.default_rng(3)
    for copies in (1, 2, 5):
        failed = random.random(40) < 0.6
        expected = [all(failed[(vertex + step) % 40] for step in range(copies)) for vertex in range(40)]
        assert lists_lost(failed, copies).tolist() == expected

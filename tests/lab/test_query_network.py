"""Experiments with running networks of queries: what is counted, and when their claims hold."""

from __future__ import annotations

import numpy as np
import pytest

from distributary_lab.experiment import Outcome, Row
from distributary_lab.placement import live as live
from distributary_lab.rows import number

POINT = {"nodes": 4, "queries": 3, "feeds": 2, "events": 40, "seconds": 30, "goal": "load"}


def test_upkeep_is_counted_for_both_ways_of_telling() -> None:
    near, whole = live.run_upkeep(POINT, np.random.default_rng(1))
    assert [near["told"], whole["told"]] == [live.NEIGHBOURHOOD, live.WHOLE]
    for row in (near, whole):
        assert row["wrong"] == 0
        assert number(row, "bytes") == number(row, live.STATISTICS) + number(row, live.WEIGHING) > 0


def test_streams_are_measured_with_and_without_a_goal() -> None:
    none, goal = live.run_gain({**POINT, "seconds": 60}, np.random.default_rng(2))
    assert none["moves"] == 0
    assert none["wrong"] == goal["wrong"] == 0
    assert number(none, "streams") > 0


@pytest.mark.parametrize(("many", "wrong", "holds"), [(120.0, 0, True), (210.0, 0, False), (100.0, 1, False)])
def test_upkeep_must_hardly_grow_and_answers_be_right(many: float, wrong: int, holds: bool) -> None:
    sent = {(5, live.NEIGHBOURHOOD): 100.0, (50, live.NEIGHBOURHOOD): many}
    sent |= {(5, live.WHOLE): 500.0, (50, live.WHOLE): 5000.0}
    rows: list[Row] = [
        {
            "queries": queries,
            "told": told,
            "statistics": each,
            live.WEIGHING: 0.0,
            "bytes": each,
            "wrong": wrong,
        }
        for (queries, told), each in sent.items()
    ]
    assert (live.check_upkeep(rows).outcome is Outcome.HOLDS) is holds


@pytest.mark.parametrize(("after", "wrong", "holds"), [(80.0, 0, True), (101.0, 0, False), (80.0, 2, False)])
def test_streams_must_shrink_in_every_run_and_answers_be_right(after: float, wrong: int, holds: bool) -> None:
    rows: list[Row] = [
        {"run": run, "goal": goal, "streams": streams, "moves": 3, "wrong": wrong}
        for run, last in ((1, 50.0), (2, after))
        for goal, streams in (("none", 100.0), ("bandwidth", last))
    ]
    assert (live.check_gain(rows).outcome is Outcome.HOLDS) is holds

"""Options of workloads as texts."""

from __future__ import annotations

import pytest

from distributary.errors import DistributaryError
from distributary.workloads import WORKLOADS, workload
from distributary.workloads.options import chosen


def test_options_go_to_the_function_that_has_them() -> None:
    texts = ["distinct=no", "branching=1", "size=700", "spread=0.5"]
    assert chosen(workload("documents"), texts) == (
        {"distinct": False, "branching": 1.0},
        {"size": 700, "spread": 0.5},
    )
    assert chosen(workload("topics"), ["levels=3"]) == ({"levels": 3}, {"levels": 3})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("colour=red", r"no option 'colour=red'; this workload has depth=6"),
        ("depth", "no option 'depth'"),
        ("depth=deep", "takes a whole number"),
        ("wildcard=often", "takes a number"),
        ("distinct=maybe", "takes true or false"),
    ],
)
def test_an_option_that_cannot_be_says_what_would_be_right(text: str, reason: str) -> None:
    with pytest.raises(DistributaryError, match=reason):
        chosen(workload("documents"), [text])


def test_every_workload_takes_no_options_too() -> None:
    assert all(chosen(workload(name), []) == ({}, {}) for name in WORKLOADS)

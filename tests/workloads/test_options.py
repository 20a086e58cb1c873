"""Options of workloads as texts."""

from __future__ import annotations

from contextlib import suppress

import pytest

from distributary.errors import DistributaryError
from distributary.workloads import WORKLOADS, workload
from distributary.workloads.options import chosen, options


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
        ("wildcard=often", "takes a finite number"),
        ("distinct=maybe", "takes true or false"),
    ],
)
def test_an_option_that_cannot_be_says_what_would_be_right(text: str, reason: str) -> None:
    with pytest.raises(DistributaryError, match=reason):
        chosen(workload("documents"), [text])


def test_every_workload_takes_no_options_too() -> None:
    assert all(chosen(workload(name), []) == ({}, {}) for name in WORKLOADS)


@pytest.mark.parametrize("name", WORKLOADS)
def test_options_that_cannot_be_are_refused_or_taken(name: str) -> None:
    made = workload(name)
    known = [*options(made.subscriptions), *options(made.events)]
    for text in (f"{option}={value}" for option in known for value in ("-1", "0", "1e300", "nan", "inf")):
        with suppress(DistributaryError):
            for_subscriptions, for_events = chosen(made, [text])
            list(made.subscriptions(2, seed=1, **for_subscriptions))
            list(made.events(2, seed=1, **for_events))

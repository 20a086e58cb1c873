"""TOML files against models: all faults at once, each at its place, with what would be right."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import ValidationInfo, field_validator

from distributary.errors import DistributaryError
from distributary.toml_files import (
    Names,
    Number,
    Positive,
    Text,
    Truth,
    read_toml,
    report,
    toml_table,
    validated,
)


@toml_table
class Site:
    name: Text
    clients: Number = 0


@toml_table
class Rates:
    metrics: Text
    seconds: Positive | None = None


@toml_table
class File:
    _: KW_ONLY
    goal: Text
    strict: Truth = False
    kind: Literal["tree", "star"] = "tree"
    columns: Names = ()
    rates: Rates | None = None
    site: list[Site] = field(default_factory=list)
    source: dict[str, Site] = field(default_factory=dict)
    streams: dict[str, Number] = field(default_factory=dict)

    @field_validator("rates")
    @classmethod
    def _check_rates(cls, rates: Rates | None, info: ValidationInfo) -> Rates | None:
        if rates and rates.metrics == info.data.get("goal"):
            report(info, [("metrics", "is the goal"), ("seconds", "are of the goal")])
        return rates


def wrong(given: dict[str, Any]) -> list[str]:
    with pytest.raises(DistributaryError) as caught:
        validated(File, given, "file.toml")
    first, *lines = str(caught.value).splitlines()
    assert first == f"file.toml: {'1 thing is' if len(lines) == 1 else f'{len(lines)} things are'} wrong:"
    return [line.strip() for line in lines]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"goal": 3}, 'goal: is 3 (a whole number); it must be a string such as "goal"'),
        ({"goal": " "}, 'goal: is " "; it must be a string such as "goal"'),
        ({"goals": "g", "goal": "g"}, "goals: there is no such key; did you mean goal?"),
        ({"strict": 1}, "strict: is 1 (a whole number); it must be true or false"),
        ({"kind": "ring"}, 'kind: is "ring"; it must be "tree" or "star"'),
        (
            {"columns": ["a", 1]},
            'columns: is ["a", 1] (a list); it must be a list of strings such as ["columns"]',
        ),
        ({"rates": 5}, "[rates]: is 5 (a whole number); it must be a table"),
        ({"rates": {}}, '[rates] metrics: is missing; it must be a string such as "metrics"'),
        (
            {"rates": {"metrics": "m", "seconds": 0}},
            "[rates] seconds: is 0 (a whole number); it must be a number above 0",
        ),
        ({"site": [{"name": "a"}, {}]}, '[site 2] name: is missing; it must be a string such as "name"'),
        ({"site": [{"name": "a"}, 7]}, "[site 2]: is 7 (a whole number); it must be a table"),
        (
            {"source": {"a.b": {"name": "x", "clients": True}}},
            "[source.a.b] clients: is true (a truth value); it must be a number that is not negative",
        ),
        (
            {"streams": {"q": -1}},
            "[streams] q: is -1 (a whole number); it must be a number that is not negative",
        ),
        ({"streams": []}, "[streams]: is [] (a list); it must be a table"),
    ],
)
def test_a_fault_is_told_with_its_place_and_what_would_be_right(given: dict[str, Any], told: str) -> None:
    assert wrong({"goal": "g", **given}) == [told]


def test_a_fault_hides_no_other_and_is_told_once() -> None:
    given = {"goal": 3, "columns": ["a", 1], "rates": {"metric": "m"}, "site": [{"clients": "x"}]}
    assert [line.partition(":")[0] for line in wrong(given)] == [
        "goal",
        "columns",
        "[rates] metrics",
        "[rates] metric",
        "[site 1] name",
        "[site 1] clients",
    ]


def test_validators_are_asked_though_other_keys_are_wrong() -> None:
    reported = ["[rates] metrics: is the goal", "[rates] seconds: are of the goal"]
    assert wrong({"goal": "g", "rates": {"metrics": "g"}}) == reported
    told = wrong({"goal": "g", "rates": {"metrics": "g", "zzz": 1}, "strict": "no"})
    assert [line.partition(":")[0] for line in told] == [
        "strict",
        "[rates] zzz",
        "[rates] metrics",
        "[rates] seconds",
    ]


@pytest.mark.parametrize(
    ("made", "reason"), [(None, "No such file"), (b"\xff", "not UTF-8"), (b"a", "not TOML")]
)
def test_what_is_no_toml_file_is_refused_by_name(tmp_path: Path, made: bytes | None, reason: str) -> None:
    if made is not None:
        (tmp_path / "f.toml").write_bytes(made)
    with pytest.raises(DistributaryError, match=rf"f\.toml: {reason}"):
        read_toml(tmp_path / "f.toml")

"""The command `distributary explain`: what it tells of an event, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distributary.cli.main import main

SUBSCRIPTIONS = [
    {"id": "s1", "subscriber": "ann", "topic": "quotes", "where": "price > 8"},
    {"id": "s2", "subscriber": "ann", "topic": "quotes", "where": "price > 10"},
    {"id": "s3", "subscriber": "bob", "topic": "weather", "where": "price > 10"},
    {"id": "s4", "subscriber": "bob", "topic": "quotes", "change": {"price": 5}},
    {"id": "s5", "subscriber": "bob", "where": "price >"},
]
EVENTS = [
    {"id": "e1", "topic": "quotes", "price": 8},
    {"id": "e2", "topic": "quotes", "price": 9},
]


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    for name, records in (("subs", SUBSCRIPTIONS), ("events", EVENTS)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    return ["--subscriptions", str(tmp_path / "subs.jsonl"), "--events", str(tmp_path / "events.jsonl")]


def test_a_filter_that_fails_is_told_with_what_it_saw(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *given, "--event", "e2", "--subscription", "s2"]) == 0
    out = capsys.readouterr().out
    assert "event 'e2' does not match subscription 's2'" in out
    assert "FAILS  where price > 10: price > 10 is false (price is 9)" in out


def test_what_matches_and_almost_matches_is_told_and_earlier_events_count_for_tolerances(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for event, expected in (
        ("e1", {"s1": False, "s2": False, "s4": True}),
        ("e2", {"s1": True, "s2": False, "s4": False}),
    ):
        assert main(["explain", *given, "--event", event, "--json"]) == 0
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert {each["subscription"]: each["matches"] for each in told} == expected


def test_what_is_not_there_fails_with_its_name(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *given, "--event", "e9"]) == 1
    assert "has no event 'e9'" in capsys.readouterr().err
    assert main(["explain", *given, "--event", "e1", "--subscription", "s9"]) == 1
    assert "no subscription 's9'" in capsys.readouterr().err

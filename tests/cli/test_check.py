"""The command `distributary check`: what it prints and how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from distributary import Subscription
from distributary.cli.main import main
from distributary.store import open_store


@pytest.fixture
def subscriptions(tmp_path: Path) -> str:
    records: list[Any] = [
        {"id": "s1", "subscriber": "ann", "where": "prise > 8"},
        {"id": "s2", "subscriber": "ann", "where": "price > "},
        {"id": "s3", "subscriber": "bob", "where": "price > 8"},
        {"id": "s4", "subscriber": "bob", "where": "price > 9"},
    ]
    path = tmp_path / "subs.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return str(path)


def records(text: str) -> list[tuple[str, str, str]]:
    found = [json.loads(line) for line in text.splitlines()]
    return [(each["place"].rpartition("/")[2], each["subscription"], each["what"]) for each in found]


EXPECTED = [
    ("subs.jsonl:1", "s1", "unknown attribute"),
    ("subs.jsonl:2", "s2", "malformed"),
    ("subs.jsonl:4", "s4", "covered"),
]


def test_findings_are_told_with_their_places_for_every_way_to_give_a_schema(
    subscriptions: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, events = tmp_path / "events.parquet", tmp_path / "events.jsonl"
    parquet.write_table(pa.table({"id": ["e"], "price": [8.5]}), table)
    events.write_text('{"id": "e", "price": 8.5}\nnot JSON\n')
    for given in (
        ["--schema", "price double"],
        ["--schema", str(table)],
        ["--events", str(table)],
        ["--events", str(events)],
    ):
        assert main(["check", "--subscriptions", subscriptions, *given, "--json"]) == 3
        assert records(capsys.readouterr().out) == EXPECTED


def test_words_say_what_to_write(subscriptions: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--subscriptions", subscriptions, "--schema", "price double"]) == 3
    out, err = capsys.readouterr()
    assert out.splitlines()[0].endswith(
        "subs.jsonl:1: error: subscription 's1', where: the events have no attribute 'prise'; write price"
    )
    assert "2 errors, 1 warnings, 0 notes" in err


def test_a_subscription_that_cannot_be_read_is_named_where_its_line_is_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "subs.jsonl"
    path.write_text('{"id": "s1", "subscriber": "ann", "wher": "a"}\n{"id": 5, "where": "a"}\n{"id"\n')
    assert main(["check", "--subscriptions", str(path)]) == 3
    lines = [line.removeprefix(str(path)) for line in capsys.readouterr().out.splitlines()]
    assert lines[0].startswith(":1: error: subscription 's1', wher: unknown field")
    assert lines[1].startswith(":2: error: subscriber: ")
    assert lines[2].startswith(":3: error: not JSON")


def test_a_store_whose_subscriptions_are_well_ends_with_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store(tmp_path / "store").commit([Subscription("s1", "ann", where="price > 8")])
    assert main(["check", "--store", str(tmp_path / "store"), "--schema", "price double"]) == 0
    assert capsys.readouterr().out == ""


def test_a_schema_that_is_none_fails_with_the_reason(
    subscriptions: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--subscriptions", subscriptions, "--schema", "price doubel"]) == 1
    assert "no such type: 'doubel' at position 6" in capsys.readouterr().err
    assert main(["check", "--subscriptions", subscriptions, "--schema", "none.parquet"]) == 1
    assert "there is no such file" in capsys.readouterr().err

"""Files and tables of events and subscriptions: nothing malformed stops the rest, nothing is lost."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

from distributary import files
from distributary.errors import DistributaryError, InputError
from distributary.matching.matcher import Matcher
from distributary.model import Event, Subscription
from distributary.output import opened_for_writing
from distributary.quarantine import Quarantine, Rejection, StrictError

good_lines = st.builds(lambda n: json.dumps({"id": f"e{n}", "topic": "A/B", "x": n}), st.integers(0, 99)).map(
    str.encode
)
bad_lines = st.sampled_from(
    [
        b"{",
        b"[]",
        b"7",
        b'{"topic": "A"}',
        b'{"id": ""}',
        b'{"id": "e", "topic": ""}',
        b'{"id": "e", "x": "\\ud800"}',
        b'{"id": "e", "x": "\xff"}',
        b"\x00",
        b"[" * 100_000,
        b'{"id": "e", "n": ' + b"9" * 5000 + b"}",
        b'{"id": "e", "a": {"b": 1}, "a.b": 2}',
    ]
)
blank_lines = st.sampled_from([b"", b"  ", b"\t"])


def written(directory: Path, lines: list[bytes]) -> str:
    path = directory / "input.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return str(path)


@given(st.lists(st.one_of(good_lines, good_lines, bad_lines, blank_lines), max_size=12))
def test_accepted_plus_quarantined_equals_read(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    directory = tmp_path_factory.mktemp("files")
    with Quarantine(directory / "quarantine.jsonl") as quarantine:
        accepted = list(quarantine.accept(files.read_events(written(directory, lines))))
    filled = [line for line in lines if line.strip()]
    assert len(accepted) + quarantine.count == len(filled)
    good = [line for line in filled if b'"A/B"' in line]
    assert [event.to_record() for _, event in accepted] == [json.loads(line) for line in good]
    if quarantine.count:
        set_aside = [json.loads(line) for line in (directory / "quarantine.jsonl").read_text().splitlines()]
        assert len(set_aside) == quarantine.count


@given(st.lists(st.binary(max_size=9), max_size=8), st.booleans(), st.integers(1, 9))
def test_lines_do_not_depend_on_how_a_file_comes_in(lines: list[bytes], ended: bool, longest: int) -> None:
    content = b"\n".join(lines) + b"\n" * ended
    with mock.patch.object(files, "MAXIMUM_LINE", longest):
        told = [_as_told(content, size) for size in (longest, 1, 2, 3)]
    assert told == [told[0]] * 4
    read = [(number, line) for number, line in enumerate(content.split(b"\n"), 1) if line]
    if not content.startswith(files.UTF16_MARKS):
        assert [number for number, _ in read] == [number for number, line in told[0] if line.strip(b"\n")]


def _as_told(content: bytes, size: int) -> list[tuple[int, bytes]]:
    """The lines of a file that comes in pieces of this size, by number; b"?" for one that is refused."""
    pieces = io.BytesIO(content)
    stream = mock.Mock(read1=lambda most: pieces.read(min(size, most)))
    found = []
    with mock.patch.object(files.sys, "stdin", mock.Mock(buffer=stream)):
        for block in files.read_blocks("-"):
            if isinstance(block, Rejection):
                found.append((int(block.place.rpartition(":")[2]), b"?"))
            else:
                found += enumerate(io.BytesIO(block.data), block.first)
    return found


@given(st.binary(max_size=200))
def test_any_bytes_are_events_or_rejections(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "input.jsonl"
    path.write_bytes(content)
    read = list(files.read_events(str(path)))
    lines = sum(bool(line.strip()) for line in io.BytesIO(content).readlines())
    assert len(read) == (1 if content.startswith(files.UTF16_MARKS) else lines)


def test_a_rejection_tells_the_line_the_field_and_the_reason(tmp_path: Path) -> None:
    name = written(tmp_path, [b'{"id": "e1"}', b"", b'{"id": "e2", "topic": ""}'])
    (rejected,) = [one for one in files.read_events(name) if isinstance(one, Rejection)]
    assert rejected.place == f"{name}:3"
    assert rejected.field == "topic"
    assert rejected.reason == "an empty topic; give it at least one character, or leave it out"
    assert json.loads(rejected.record)["id"] == "e2"


def test_an_overlong_line_is_set_aside_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAXIMUM_LINE", 50)
    name = written(tmp_path, [b'{"id": "e1", "x": "' + b"y" * 500 + b'"}', b'{"id": "e2"}'])
    rejected, accepted = files.read_events(name)
    assert isinstance(rejected, Rejection)
    assert "longer than" in rejected.reason
    assert not isinstance(accepted, Rejection)
    assert (accepted[0], accepted[1].id) == (f"{name}:2", "e2")


def test_an_overlong_line_is_told_with_its_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAXIMUM_LINE", 50)
    name = written(tmp_path, [b'{"id": "e1"}', b"x" * 500, b"y" * 51])
    told = [(one.place, one.reason) for one in files.read_events(name) if isinstance(one, Rejection)]
    assert [place for place, _ in told] == [f"{name}:2", f"{name}:3"]
    assert [f"byte {start}" in reason for (_, reason), start in zip(told, (13, 514), strict=True)] == [
        True,
        True,
    ]


def test_byte_order_marks_of_files_put_together_are_passed_over(tmp_path: Path) -> None:
    mark = "\ufeff".encode()
    name = written(tmp_path, [mark + b'{"id": "e1"}', b'{"id": "e2"}\r', mark + b'{"id": "e3"}'])
    assert [one[1].id for one in files.read_events(name) if not isinstance(one, Rejection)] == [
        "e1",
        "e2",
        "e3",
    ]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_in_utf16_is_told_once(tmp_path: Path, encoding: str) -> None:
    name = written(tmp_path, ["\ufeff{}\n{}\n".encode(encoding)])
    (rejected,) = files.read_events(name)
    assert isinstance(rejected, Rejection)
    assert rejected.place == f"{name}:1"
    assert rejected.reason == "the file is in UTF-16, and nothing of it is read; write it in UTF-8"


def test_the_record_of_a_rejection_shows_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    name = written(tmp_path, [b'{"id": "caf\xe9"}'])
    (rejected,) = files.read_events(name)
    assert isinstance(rejected, Rejection)
    assert rejected.record == '{"id": "caf\\xe9"}'


def test_a_strict_quarantine_stops_at_the_first(tmp_path: Path) -> None:
    name = written(tmp_path, [b'{"id": "e1"}', b"{"])
    accepted = Quarantine(strict=True).accept(files.read_events(name))
    assert next(accepted)[1].id == "e1"
    with pytest.raises(StrictError, match=r":2: not JSON"):
        next(accepted)


def test_a_missing_file_says_so() -> None:
    with pytest.raises(DistributaryError, match=r"cannot read nowhere\.jsonl"):
        list(files.read_events("nowhere.jsonl"))


def test_an_output_file_appears_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "out.jsonl"
    with opened_for_writing(str(path)) as stream:
        files.write_records(stream, [{"a": "é"}])
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == '{"a": "é"}\n'


def test_events_survive_an_arrow_table() -> None:
    events = [
        Event("e1", "A/B", {"x": 1, "name": "n", "up": True}),
        Event("e2", None, {"x": 2.5}, "<a/>"),
        Event("e3", "C", {"tags": ("a",)}),
    ]
    read: list[Any] = list(files.events_from_table(files.events_to_table(events)))
    assert [place for place, _ in read] == ["events row 0", "events row 1", "events row 2"]
    filled = [{k: v for k, v in event.attributes.items() if v is not None} for _, event in read]
    assert filled == [event.attributes for event in events]
    assert [(event.topic, event.document) for _, event in read] == [
        (event.topic, event.document) for event in events
    ]


def test_a_column_of_mixed_types_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="x: holds int and str"):
        files.events_to_table([Event("e1", None, {"x": 1}), Event("e2", None, {"x": "one"})])


def test_subscriptions_survive_an_arrow_table() -> None:
    subscriptions = [
        Subscription("s1", "ann", topic="A", change={"price": 0.5}),
        Subscription("s2", "bob", where="a > 1"),
        Subscription("s3", "bob", path="/a/b"),
    ]
    read: list[Any] = list(files.subscriptions_from_table(files.subscriptions_to_table(subscriptions)))
    assert [subscription for _, subscription in read] == subscriptions


def test_a_malformed_row_of_a_table_is_set_aside_with_its_place() -> None:
    table = pa.table({"id": ["s1", "s2"], "subscriber": ["ann", None], "topic": ["A", "B"]})
    accepted, rejected = files.subscriptions_from_table(table, name="subs")
    assert isinstance(rejected, Rejection)
    assert (rejected.place, rejected.field) == ("subs row 1", "subscriber")
    assert not isinstance(accepted, Rejection)


def test_tolerances_may_come_as_a_struct_column() -> None:
    table = pa.table({"id": ["s1"], "subscriber": ["ann"], "change": [{"price": 0.5, "volume": None}]})
    ((_, subscription),) = files.subscriptions_from_table(table)  # type: ignore[misc]
    assert subscription.change == {"price": 0.5}


def test_a_tolerance_that_is_given_twice_is_set_aside() -> None:
    change = pa.array([[("x", 1.0), ("x", 2.0)]], pa.map_(pa.string(), pa.float64()))
    (rejected,) = files.subscriptions_from_table(
        pa.table({"id": ["s1"], "subscriber": ["ann"], "change": change})
    )
    assert isinstance(rejected, Rejection)
    assert rejected.field == "change"


def test_a_filter_that_a_table_has_no_column_for_is_told() -> None:
    near = Subscription("s1", "ann", topic="A", more={"near": "Athens"})
    with pytest.raises(InputError, match="near: subscription 's1'"):
        files.subscriptions_to_table([near])


def damaged_reads(directory: Path, ending: str, count: int) -> tuple[int, int]:
    """Read and match a table's file after each of many damages: how often it was told, how often read."""
    rows = range(50)
    table = pa.table(
        {
            "id": [f"e{n}" for n in rows],
            "topic": ["A/B"] * len(rows),
            "x": list(rows),
            "nested": [{"a": n, "b": "t"} for n in rows],
            "list": [["a", "b"]] * len(rows),
        }
    )
    good, bad = directory / f"good.{ending}", directory / f"bad.{ending}"
    (parquet.write_table if ending == "parquet" else feather.write_feather)(table, str(good))
    matcher = Matcher(
        [Subscription("s1", "ann", topic="A"), Subscription("s2", "ann", where="nested.b = 't'")]
    )
    chance = random.Random(ending)
    told = 0
    for _ in range(count):
        content = bytearray(good.read_bytes())
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        bad.write_bytes(
            content[: chance.choice((len(content), len(content), chance.randrange(len(content))))]
        )
        try:
            list(files.read_events(str(bad)))
            for batch in files.read_batches(str(bad), 20):
                matcher.match_batch(batch, rejected=[])
        except DistributaryError:
            told += 1
    return told, count - told


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_damaged_table_is_told_or_read_and_ends_no_process(tmp_path: Path, ending: str) -> None:
    told, read = damaged_reads(tmp_path, ending, 60)
    assert told > 20
    assert read > 1


@pytest.mark.chaos
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_thousand_damaged_tables_are_told_or_read(tmp_path: Path, ending: str) -> None:
    assert min(damaged_reads(tmp_path, ending, 1000)) > 20

"""Batches from blocks of JSON lines: exactly what reading each line by itself gives."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary import json_text
from distributary.errors import InputError
from distributary.filters.where.values import plain
from distributary.json_text import read_object
from distributary.matching import line_scan
from distributary.matching.batch import EventBatch
from distributary.matching.columns import AttributeColumn
from distributary.matching.lines import EventLines, LineBatch
from distributary.model import Event

names = st.sampled_from(
    [
        "id",
        "topic",
        "document",
        "a",
        "b",
        "a.b",
        "a.b.c",
        "c",
        "",
        ".",
        "a.",
        ".a",
        "id.x",
        "é",
        "𝄞",
        "n" * 300,
    ]
) | st.text(max_size=4)
numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(-20, 20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(float),
)
texts = st.text(max_size=12) | st.sampled_from(
    ["", "A/B", "/", '"quoted"\\', "\n\t", "x" * 1100, "€", "\U0001f600"]
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
own = st.fixed_dictionaries(
    {"id": st.one_of(texts, texts, st.integers(-3, 10**20), scalars)},
    optional={"topic": texts | st.none(), "document": st.sampled_from(["<a/>", "<a>\n&lt;</a>", "<a", None])},
)
records = st.builds(lambda own, more: {**more, **own}, own, st.dictionaries(names, values, max_size=5))
spaces = st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", "\r: ")])
written = st.builds(
    lambda record, plainly, between: json.dumps(record, ensure_ascii=not plainly, separators=between).encode(
        errors="surrogatepass"
    ),
    records,
    st.booleans(),
    spaces,
)
number_texts = st.from_regex(r"\A-?[0-9]{1,22}(\.[0-9]{0,24})?([eE][+-]?[0-9]{0,3})?\Z")
number_lines = number_texts.map(lambda text: b'{"id": 1, "x": ' + text.encode() + b"}")
mutated = st.builds(
    lambda line, at, cut, more: line[: at % (len(line) + 1)] + more + line[at % (len(line) + 1) + cut :],
    written,
    st.integers(0, 500),
    st.integers(0, 3),
    st.sampled_from(
        [
            b"",
            b"{",
            b"}",
            b'"',
            b"\\",
            b"\\u12",
            b"\\ud83d\\ude00",
            b"\\ud800",
            b",",
            b"\xff",
            b"\xc3\xa9",
            b"\xed\xa0\x80",
            b"\xc0\x80",
            b"\xf0\x80\x80\x80",
            b"0",
            b"-",
            b".",
            b"e5",
            b"\0",
            b"\x0b",
            b"1e400",
            b'"a":1,',
            b'"a":{"b":2},',
            b"[",
            b"NaN",
        ]
    ),
)
lines = st.one_of(
    written,
    written,
    mutated,
    number_lines,
    st.binary(max_size=20).filter(lambda line: b"\n" not in line),
    st.sampled_from(
        [b"", b" \t\x0b", b"{}", b'{"id": "e"}', b"\xef\xbb\xbf" + b'{"id": "e"}', b'{"id": "e"}\r']
    ),
)


AWKWARD = [
    b'{"id": 1, "a": 1, "a": 2}',
    b'{"id": 1, "id": 2}',
    b'{"id": 1, "a": {"b": 1}, "a.b": 2}',
    b'{"id": 1, "a": {"b": 1}, "a": {"c": 2}}',
    b'{"id": 1, "a": {"b": 1}, "a": null}',
    b'{"id": -0}',
    b'{"id": -7, "x": -0, "y": -0.0}',
    b'{"id": 1, "x": 0.1234567890123456789, "y": 123456789012345678}',
    b'{"id": 1, "x": 9007199254740993.0, "y": 1234567890123456789}',
    b'{"id": 1, "x": 1e23, "y": 4.9e-324, "z": 1e400}',
    b'{"id": 1, "x": 01}',
    b'{"id": 1, "x": 1.}',
    b'{"id": 1, "x": "\xed\xa0\x80"}',
    b'{"id": 1, "x": "\xc0\x80"}',
    b'{"id": 1, "x": "\xf4\x90\x80\x80"}',
    b'{"id": 1, "x": "a\\nb", "y": "\\ud83d", "z": [1]}',
    b'{"id": 1, "x": "\\n\\n\\n", "y": nul}',
    b'{"id": true}',
    b'{"id": ""}',
    b'{"id": 1, "topic": ""}',
    b'{"id": 1, "topic": 5}',
    b'{"id": 1} x',
]
"""Lines on either side of what is plain."""


class ExactReader:
    """Reads lines one by one, and notes what is wrong with them."""

    def __init__(self) -> None:
        self.calls = 0
        self.rejected: list[tuple[int, str]] = []

    def __call__(self, number: int, line: bytes) -> Event | None:
        self.calls += 1
        try:
            return Event.from_record(read_object(line))
        except InputError as error:
            self.rejected.append((number, str(error)))
            return None


def one_by_one(block: bytes) -> tuple[list[tuple[int, Event]], list[tuple[int, str]]]:
    """The events of a block and their lines, and what is wrong with other lines."""
    exact = ExactReader()
    read = [(number, exact(number, line)) for number, line in enumerate(block.split(b"\n")) if line.strip()]
    return [(number, event) for number, event in read if event is not None], exact.rejected


def exactly(value: Any) -> Any:
    """A value that equals only one of the same type and sign."""
    if isinstance(value, float):
        return struct.pack("d", value)
    return (type(value), tuple(map(exactly, value)) if isinstance(value, tuple) else value)


def shown(column: AttributeColumn | None, rows: int) -> Any:
    assert column is not None
    hard = [False] * rows if column.hard is None else column.hard.tolist()
    strings = [None if column.strings is None else column.strings.text(row) for row in range(rows)]
    values = [exactly(column.value(row)) for row in range(rows)]
    return (
        column.tags.tolist(),
        list(map(exactly, column.numbers.tolist())),
        strings,
        values,
        hard,
        column.strings is None,
    )


def same(found: EventBatch, events: list[Event]) -> None:
    """Whether a batch is that of these events."""
    expected = EventBatch.from_events(events)
    assert found.rows == expected.rows
    assert found.ids.to_pylist() == expected.ids.to_pylist()
    for one, other in ((found.topics, expected.topics), (found.documents, expected.documents)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert list(map(one.text, range(found.rows))) == list(map(other.text, range(found.rows)))
    assert {row: str(error) for row, error in found.rejected.items()} == {
        row: str(error) for row, error in expected.rejected.items()
    }
    assert sorted(found.attributes) == sorted(expected.attributes)
    for name in expected.attributes:
        assert shown(found.column(name), found.rows) == shown(expected.column(name), found.rows)
    for row in range(found.rows):
        if row not in found.rejected:
            assert found.event(row) == expected.event(row)


def read_blocks(blocks: list[bytes], size: int) -> list[LineBatch]:
    """Read blocks with one reader, comparing each batch and rejection with reading line by line."""
    reader = EventLines()
    read = []
    for block in blocks:
        exact = ExactReader()
        batches = list(reader.batches(block, size, exact))
        events, rejected = one_by_one(block)
        assert exact.rejected == rejected
        assert [number for each in batches for number in each.lines.tolist()] == [
            number for number, _ in events
        ]
        done = 0
        for each in batches:
            assert 0 < each.batch.rows <= size
            same(each.batch, [event for _, event in events[done : done + each.batch.rows]])
            kept = [Event.from_record(read_object(each.line(row))) for row in range(each.batch.rows)]
            assert kept == [event for _, event in events[done : done + each.batch.rows]]
            done += each.batch.rows
        read += batches
    return read


@settings(max_examples=300)
@given(st.lists(st.lists(lines, max_size=8), min_size=1, max_size=3), st.integers(1, 9), st.booleans())
@example([[b'{"id": 1, "id.x": 2, "topic.y": 3}']], 1, True)
@example([[b'{"id": 1, "a": {"b": 1}}', b'{"id": 2, "a": 5}', b'{"id": 3, "a": {"b": null}}']], 9, True)
@example([[b'{"id": 1, "": 2}', b'{"id": 2, "": {"a": 5}}']], 9, True)
@example([[b'{"id": "\\u00e9\\ud83d\\ude00", "x": "\\n", "y": [}']], 9, False)
def test_a_block_is_read_as_its_lines_are_one_by_one(
    blocks: list[list[bytes]], size: int, ended: bool
) -> None:
    read_blocks([b"\n".join(block) + b"\n" * ended for block in blocks], size)


@pytest.mark.parametrize("size", [1, 100])
def test_lines_on_the_border_of_what_is_plain_are_read_as_they_are_one_by_one(size: int) -> None:
    read_blocks([b"\n".join(AWKWARD), *AWKWARD], size)


@settings(max_examples=300)
@given(st.lists(number_texts, min_size=1, max_size=30))
def test_numbers_are_exactly_those_of_the_exact_reader(written: list[str]) -> None:
    read_blocks([b"\n".join(b'{"id": 1, "x": %s}' % text.encode() for text in written)], 100)


def test_new_names_widen_the_table_in_the_middle_of_a_line() -> None:
    wide = [{"id": n, "text": 'a "b"', **{f"{n}.{k} \U0001f600": "\n" for k in range(70)}} for n in range(5)]
    block = b"\n".join(json.dumps(record, ensure_ascii=False).encode() for record in wide)
    exact = ExactReader()
    reader = EventLines()
    for _ in range(2):
        (read,) = reader.batches(block, 100, exact)
        same(read.batch, [Event.from_record(record) for record in wide])
    assert not exact.calls


def test_names_are_forgotten_when_there_are_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.matching.lines.MOST_KEYS", 10)
    block = b"\n".join(b'{"id": 1, "x%d": %d}' % (n, n) for n in range(100))
    assert len(read_blocks([block], 7)) == 15


@pytest.mark.parametrize(
    "line",
    [
        b'{"id": "e1", "topic": "A/B", "price": 119.0, "volume": 29900, "ok": true, "none": null}',
        b'{"id": 7, "wind": {"speed": -3.25e-3, "gust": {"x": 1}}, "empty": {}}',
        b'{ "id" : "e" ,\t"x" : 0.1234567890123456789 } \r',
        '{"id": "é", "ключ": "значение", "x": "a\\n\\"b\\" \\u20ac \\ud83d\\ude00"}'.encode(),
        b'{"wind.speed": 3, "id": "e", "document": "<a b=\\"c\\"/>"}',
    ],
)
def test_plain_lines_are_not_left_to_the_exact_reader(line: bytes) -> None:
    exact = ExactReader()
    (read,) = EventLines().batches(line, 10, exact)
    same(read.batch, [Event.from_record(read_object(line))])
    assert not exact.calls


def test_the_kernel_stays_within_the_bounds_of_the_exact_reader() -> None:
    assert line_scan.LONGEST_LINE <= json_text.MAXIMUM_VALUES
    assert line_scan.DEEPEST < json_text.MAXIMUM_DEPTH
    assert line_scan.LONGEST_NUMBER <= json_text.MAXIMUM_DIGITS
    assert line_scan.MOST_NAMES <= json_text.MAXIMUM_NAMES


def test_a_plain_value_is_what_events_carry() -> None:
    (read,) = EventLines().batches(b'{"id": 1, "x": 9007199254740993}', 1, ExactReader())
    column = read.batch.column("x")
    assert column is not None
    assert exactly(column.value(0)) == exactly(plain(9007199254740993))

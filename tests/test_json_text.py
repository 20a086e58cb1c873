"""JSON lines: strict, exact and bounded, and nothing but our errors whatever comes in."""

from __future__ import annotations

import json
import math
import os
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distributary import json_text
from distributary.errors import InputError
from distributary.filters.kinds import parse_filters
from distributary.json_text import (
    BYTE_ORDER_MARK,
    MAXIMUM_DEPTH,
    MAXIMUM_DIGITS,
    MAXIMUM_NAMES,
    MAXIMUM_VALUES,
    read_object,
)
from distributary.model import Event, Subscription

SEED = int(os.environ.get("DISTRIBUTARY_SEED", "1"))

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
plain_objects = st.dictionaries(st.text(max_size=6), plain, max_size=5).filter(
    lambda record: "Infinity" not in json.dumps(record)
)


def refusal(line: bytes) -> str:
    with pytest.raises(InputError) as caught:
        read_object(line)
    return str(caught.value)


@given(
    plain_objects, st.booleans(), st.sampled_from([b"", BYTE_ORDER_MARK]), st.sampled_from(["", " ", "\r\n"])
)
def test_an_object_is_read_as_it_was_written(
    record: dict[str, Any], ascii: bool, mark: bytes, space: str
) -> None:
    text = json.dumps(record, ensure_ascii=ascii)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    assert read_object(mark + space.encode() + data + space.encode()) == record


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
@example("1e400")
@example("-1e400")
@example("1e-400")
@example("0e999")
@example("0.000E-999")
@example("9007199254740993")
@example("1.7976931348623159e308")
def test_a_number_is_a_double_only_where_a_double_is_near_it(text: str) -> None:
    value = read_object(f'{{"x": {text}}}'.encode())["x"]
    exact = Fraction(text)
    if isinstance(value, int):
        assert value == exact
    elif isinstance(value, Decimal):
        assert Fraction(value) == exact
        assert exact
        assert math.isinf(float(text)) or float(text) == 0.0
    else:
        assert math.isfinite(value)
        assert (value == 0.0) == (exact == 0)
        assert abs(Fraction(value) - exact) <= max(abs(exact) / 2**52, Fraction(1, 2**1074))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_json_number_is_refused_with_what_to_write(text: str) -> None:
    assert refusal(f'{{"x": [{text}]}}'.encode()) == (
        f"{text} is no JSON number; write null, or leave the attribute out"
    )


@pytest.mark.parametrize(
    "text",
    ["9" * (MAXIMUM_DIGITS + 1), "0." + "1" * MAXIMUM_DIGITS, "1e1001", "-1e-1001", "1e" + "9" * 30],
    ids=["whole", "fraction", "great", "small", "beyond decimals"],
)
def test_a_number_with_too_many_digits_is_refused(text: str) -> None:
    assert "more than 1,000 digits" in refusal(f'{{"x": {text}}}'.encode())


@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=4), st.booleans())
def test_a_key_given_twice_is_refused_by_name(keys: list[str], nested: bool) -> None:
    text = "{" + ", ".join(f'"{key}": {place}' for place, key in enumerate(keys)) + "}"
    line = (f'{{"x": [{text}]}}' if nested else text).encode()
    if len(set(keys)) == len(keys):
        read_object(line)
    else:
        assert refusal(line).endswith("given twice in one object; keep one of them")


@pytest.mark.parametrize("opening", ['{"a":', "["])
def test_nesting_is_bounded(opening: str) -> None:
    closing = {"[": "]", "{": "}"}[opening[0]]

    def nested(depth: int) -> bytes:
        return ('{"a":' + opening * (depth - 1) + "1" + closing * (depth - 1) + "}").encode()

    record = read_object(nested(MAXIMUM_DEPTH))
    Event.from_record({"id": "e", **record})
    for depth in (MAXIMUM_DEPTH + 1, 500, 100_000):
        assert refusal(nested(depth)) == f"objects and arrays are nested more than {MAXIMUM_DEPTH} deep"
    assert "nested" in refusal(opening.encode() * 100_000) or opening == "["


def test_dotted_names_are_bounded_together() -> None:
    children = ",".join(f'"{n}":1' for n in range(1000))
    assert len(read_object(f'{{"{"n" * 4000}":{{{children}}}}}'.encode())) == 1
    assert "dotted names" in refusal(f'{{"{"n" * (MAXIMUM_NAMES // 1000)}":{{{children}}}}}'.encode())


VALUES = {"arrays": b"[],", "objects": b"{},", "texts": b'"",', "numbers": b"0,"}


@pytest.mark.parametrize("kind", VALUES)
def test_a_line_of_very_many_values_is_refused_before_they_are_made(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(json_text, "_scan")
    line = b'{"id": "e", "x": [' + VALUES[kind] * (MAXIMUM_VALUES + 1) + b"0]}"
    assert "more than 500,000 values" in refusal(line)


def test_long_texts_do_not_count_as_values() -> None:
    text = 'a, [b], {c}, \\"d\\" and \\\\ ' * 50_000
    assert len(read_object(f'{{"id": "e", "x": "{text}", "y": "{text}"}}'.encode())) == 3


def test_bytes_that_are_not_utf8_are_told_with_their_place() -> None:
    assert refusal(b'  {"a": "caf\xe9"}') == "not UTF-8: 0xe9 at byte 12; write the text in UTF-8"


def test_utf16_without_a_mark_is_guessed() -> None:
    assert "if it is UTF-16, write it in UTF-8" in refusal('{"id": "e1"}'.encode("utf-16-le"))


# Anything at all

SEEDS = [
    b'{"id": "e1", "topic": "A/B", "x": 1.5, "wind": {"speed": 3, "of": ["a", null, true]}}',
    b'{"id": 7, "document": "<a><b c=\\"1\\"/></a>", "t": "2026-01-02T03:04:05Z", "n": -1e-7}',
    b'{"id": "s1", "subscriber": "ann", "topic": "A/*", "where": "x > 1", "path": "//a", "change": {"x": 1}}',
    '{"id": "é", "topic": "日本/😀", "x": "\\ud83d\\ude00"}'.encode(),
]
PIECES = [
    *(bytes([value]) for value in b'{}[]",:\\0123456789.eE+-ntfu \n\r\x00\xff\xe9\xf0\x9f'),
    *(b"NaN", b"Infinity", b"null", b"true", b"1e400", b"1e-400", b"\\ud800", b"\\u0000", b'"id":', b'"x":'),
    *(BYTE_ORDER_MARK, b"9" * 400, b"[" * 120, b'{"a":' * 120, b'"change":', b'"where":', b'"topic": "/'),
]


def mutated(chance: random.Random) -> bytes:
    """A line made of pieces, or a good one with a few places changed, cut or doubled."""
    if chance.random() < 0.2:
        return b"".join(chance.choices(PIECES, k=chance.randint(0, 12)))
    line = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(line) + 1)
        end = min(len(line), start + chance.choice((0, 0, 1, 1, 2, 8)))
        line[start:end] = chance.choice((b"", chance.choice(PIECES), bytes(line[start:end]) * 2))
    return bytes(line)


def read_anything(line: bytes) -> int:
    """Read a line as an event and as a subscription; how many of them it is."""
    read = 0
    try:
        Event.from_record(read_object(line))
        read += 1
    except InputError as error:
        str(error).encode()
    try:
        parse_filters(Subscription.from_record(read_object(line)))
        read += 1
    except InputError as error:
        str(error).encode()
    return read


def read_many(count: int) -> tuple[int, int]:
    """How many of so many lines were something, and how many nothing."""
    chance = random.Random(SEED)
    read = [read_anything(mutated(chance)) for _ in range(count)]
    return sum(map(bool, read)), read.count(0)


def test_random_lines_raise_nothing_but_our_errors() -> None:
    accepted, refused = read_many(3000)
    assert accepted > 300
    assert refused > 300


@pytest.mark.chaos
def test_a_million_random_lines_raise_nothing_but_our_errors() -> None:
    accepted, refused = read_many(1_000_000)
    assert accepted > 100_000
    assert refused > 100_000


@given(st.binary(max_size=60))
def test_any_bytes_raise_nothing_but_our_errors(line: bytes) -> None:
    read_anything(line)

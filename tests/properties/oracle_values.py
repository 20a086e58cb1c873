"""The oracle of values: every type an attribute can have, what it means, and random conditions on them.

It shares no code with the filters. A value is a `Meaning`: its kind and something exact that Python orders (a
fraction for a number, nanoseconds for times). A condition is made together with a function that says, from
the meanings of a row, whether it is true, false or unknown (None); only its text goes to the filters.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

EPOCH = dt.datetime(1970, 1, 1)
Truth = bool | None


class Meaning(NamedTuple):
    """What a value is: number (whole), fraction, double, text, boolean, a time, binary or opaque."""

    kind: str
    exact: Any = None


OPAQUE = Meaning("opaque")


class Cell(NamedTuple):
    """A value of a column: what it means, as Arrow takes it, and as an event carries it."""

    meaning: Meaning | None
    arrow: Any
    python: Any


@dataclass(frozen=True)
class ColumnType:
    """A column: its Arrow type and how a random cell of it is made."""

    type: pa.DataType
    make: Callable[[random.Random], Cell]


def _number(value: Any) -> Meaning:
    return Meaning("number", Fraction(value))


def _double(value: float) -> Meaning:
    if value != value:
        return OPAQUE
    return Meaning("double", value)


WHOLE = [0, 1, 2, -1, 35, 57, 70, 100, 127, -128]
LARGE = [*WHOLE, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
DOUBLES = [
    0.0,
    -0.0,
    1.0,
    0.35,
    0.57,
    0.7,
    0.1,
    2.5,
    1e23,
    2.0**53,
    1e300,
    float("inf"),
    float("-inf"),
    float("nan"),
]
CENTS = ["0.35", "0.57", "0.70", "0.00", "-0.35", "1.00", "2.50", "100.10", "99999999.99"]
FINE = [
    "0.35",
    "0.3500000000000000001",
    "0.349999999999999999",
    "2.5",
    "-1",
    "12345678901234567890.000000000000000001",
]
HUGE = ["9007199254740993", "9007199254740992", "0", "35", "99999999999999999999999999999999999999", "-1"]
TEXTS = [
    "",
    "a",
    "ab",
    "b",
    "0.35",
    "35",
    "2013-06-01",
    "2013-06-01T10:30:00Z",
    "2013-06-01 12:30:00+02:00",
    "10:30",
    "é",
]
MOMENTS = [
    dt.datetime(2013, 6, 1),
    dt.datetime(2013, 6, 1, 10, 30),
    dt.datetime(2013, 6, 1, 10, 30, 0, 500000),
    dt.datetime(1969, 12, 31, 23, 59, 59),
    dt.datetime(2200, 1, 1),
    dt.datetime(1, 1, 1),
]


def nanoseconds(moment: dt.datetime) -> int:
    """Since 1970, without the code under test."""
    delta = moment - EPOCH
    return (delta.days * 86400 + delta.seconds) * 10**9 + delta.microseconds * 1000


def _integer(bits: int, signed: bool = True) -> Callable[[random.Random], Cell]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    dtype = np.dtype(f"{'i' if signed else 'u'}{bits // 8}").type

    def make(rng: random.Random) -> Cell:
        value = min(max(rng.choice(LARGE), low), high)
        return Cell(_number(value), value, rng.choice([value, dtype(value)]))

    return make


def _floating(rng: random.Random) -> Cell:
    value = rng.choice(DOUBLES)
    return Cell(_double(value), value, rng.choice([value, np.float64(value)]))


def _single(rng: random.Random) -> Cell:
    value = np.float32(min(rng.choice(DOUBLES[:8]), 1e30))
    return Cell(_double(float(value)), float(value), rng.choice([value, float(value)]))


def _decimal(texts: list[str]) -> Callable[[random.Random], Cell]:
    def make(rng: random.Random) -> Cell:
        value = Decimal(rng.choice(texts))
        return Cell(Meaning("fraction", Fraction(value)), value, value)

    return make


def _text(rng: random.Random) -> Cell:
    value = rng.choice(TEXTS)
    return Cell(Meaning("text", value), value, value)


def _boolean(rng: random.Random) -> Cell:
    value = rng.random() < 0.5
    return Cell(Meaning("boolean", value), value, rng.choice([value, np.bool_(value)]))


def _date(rng: random.Random) -> Cell:
    value = rng.choice(MOMENTS).date()
    return Cell(Meaning("instant", nanoseconds(dt.datetime.combine(value, dt.time()))), value, value)


def _timestamp(unit: str, zone: bool = False) -> Callable[[random.Random], Cell]:
    size = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[unit]

    def make(rng: random.Random) -> Cell:
        moment = rng.choice(MOMENTS[:-1] if unit == "ns" else MOMENTS)
        exact = nanoseconds(moment) // size * size
        if unit == "ns" and rng.random() < 0.5:
            exact += rng.choice([1, 999, 500])
            return Cell(Meaning("instant", exact), exact, np.datetime64(exact, "ns"))
        value = EPOCH + dt.timedelta(microseconds=exact // 1000)
        given = value.replace(tzinfo=dt.UTC) if zone or rng.random() < 0.3 else value
        if zone and moment.year > 1:
            given = given.astimezone(dt.timezone(dt.timedelta(hours=2)))
        return Cell(Meaning("instant", exact), exact // size, given)

    return make


def _time(unit: str) -> Callable[[random.Random], Cell]:
    def make(rng: random.Random) -> Cell:
        seconds = rng.choice([0, 37800, 37801, 86399])
        value = dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60)
        return Cell(Meaning("time", seconds * 10**9), value, value)

    return make


def _duration(rng: random.Random) -> Cell:
    seconds = rng.choice([0, 60, 90, -60, 86400])
    value = dt.timedelta(seconds=seconds)
    return Cell(Meaning("duration", seconds * 10**9), value, value)


def _binary(rng: random.Random) -> Cell:
    value = rng.choice([b"", b"\x00\xff", b"a"])
    return Cell(Meaning("binary", value), value, rng.choice([value, bytearray(value)]))


def _opaque(value: Any, python: Any = None) -> Callable[[random.Random], Cell]:
    return lambda rng: Cell(OPAQUE, value, value if python is None else python)


COLUMNS: dict[str, ColumnType] = {
    "i8": ColumnType(pa.int8(), _integer(8)),
    "i32": ColumnType(pa.int32(), _integer(32)),
    "i64": ColumnType(pa.int64(), _integer(64)),
    "u64": ColumnType(pa.uint64(), _integer(64, signed=False)),
    "f32": ColumnType(pa.float32(), _single),
    "f64": ColumnType(pa.float64(), _floating),
    "cents": ColumnType(pa.decimal128(10, 2), _decimal(CENTS)),
    "fine": ColumnType(pa.decimal128(38, 18), _decimal(["0.35", *(text[:20] for text in FINE)])),
    "finest": ColumnType(pa.decimal256(60, 20), _decimal(FINE)),
    "huge": ColumnType(pa.decimal128(38, 0), _decimal(HUGE)),
    "flag": ColumnType(pa.bool_(), _boolean),
    "s": ColumnType(pa.string(), _text),
    "large": ColumnType(pa.large_string(), _text),
    "view": ColumnType(pa.string_view(), _text),
    "coded": ColumnType(pa.dictionary(pa.int32(), pa.string()), _text),
    "runs": ColumnType(pa.run_end_encoded(pa.int32(), pa.int64()), _integer(64)),
    "d32": ColumnType(pa.date32(), _date),
    "d64": ColumnType(pa.date64(), _date),
    "ts_s": ColumnType(pa.timestamp("s"), _timestamp("s")),
    "ts_ms": ColumnType(pa.timestamp("ms"), _timestamp("ms")),
    "ts_us": ColumnType(pa.timestamp("us"), _timestamp("us")),
    "ts_ns": ColumnType(pa.timestamp("ns"), _timestamp("ns")),
    "ts_zone": ColumnType(pa.timestamp("us", "Europe/Athens"), _timestamp("us", zone=True)),
    "t_s": ColumnType(pa.time32("s"), _time("s")),
    "t_ns": ColumnType(pa.time64("ns"), _time("ns")),
    "span": ColumnType(pa.duration("us"), _duration),
    "raw": ColumnType(pa.binary(), _binary),
    "list": ColumnType(pa.list_(pa.int64()), _opaque([1, 2], (1, 2))),
    "object": ColumnType(pa.struct({"x": pa.int64()}), _opaque({"x": None}, {})),
    "map": ColumnType(pa.map_(pa.string(), pa.int64()), _opaque([("k", 1)], {"k": 1})),
}

Row = dict[str, Cell]


def random_row(rng: random.Random) -> Row:
    """A cell for each column; one in eight is missing."""
    empty = Cell(None, None, None)
    return {name: empty if rng.random() < 0.125 else kind.make(rng) for name, kind in COLUMNS.items()}


def table_of(rows: list[Row], names: list[str] | None = None) -> pa.Table:
    """The rows as an Arrow table with an `id`."""
    columns: dict[str, pa.Array] = {"id": pa.array([f"e{number}" for number in range(len(rows))])}
    for name in names or COLUMNS:
        kind, values = COLUMNS[name].type, [row[name].arrow for row in rows]
        if pa.types.is_dictionary(kind):
            columns[name] = pa.array(values, pa.string()).dictionary_encode()
        elif pa.types.is_run_end_encoded(kind):
            columns[name] = pa.compute.run_end_encode(pa.array(values, pa.int64()))
        else:
            columns[name] = pa.array(values, kind)
    return pa.table(columns)


def attributes_of(row: Row) -> dict[str, Any]:
    """The row as the attributes of an event."""
    return {name: cell.python for name, cell in row.items() if cell.python is not None}


# What comparisons mean


def compared(left: Meaning | None, operator: str, right: Meaning | None) -> Truth:
    """True, false or unknown."""
    if left is None or right is None or "opaque" in (left.kind, right.kind):
        return None
    kinds = left.kind, right.kind
    if set(kinds) <= {"number", "double", "fraction"}:
        a, b = _as_numbers(left, right)
    elif kinds[0] == kinds[1]:
        a, b = left.exact, right.exact
    elif "text" in kinds and ("instant" in kinds or "time" in kinds):
        other = kinds[0] if kinds[1] == "text" else kinds[1]
        a, b = (_read(side.exact, other) if side.kind == "text" else side.exact for side in (left, right))
        if a is None or b is None:
            return None
    else:
        return None
    return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]


def _as_numbers(left: Meaning, right: Meaning) -> tuple[Any, Any]:
    """Exact, but that a fraction (a decimal) which meets a double is rounded to the nearest double."""
    if left.kind == "double" and right.kind == "fraction":
        return left.exact, _nearest(right.exact)
    if left.kind == "fraction" and right.kind == "double":
        return _nearest(left.exact), right.exact
    return _exactly(left), _exactly(right)


def _nearest(fraction: Fraction) -> float | Fraction:
    try:
        return float(fraction)
    except OverflowError:
        return fraction


def _exactly(number: Meaning) -> float | Fraction:
    return number.exact if abs(number.exact) == float("inf") else Fraction(number.exact)


def _read(text: str, kind: str) -> int | None:
    """A text as ISO 8601, by Python's own reader, for the texts above."""
    try:
        if kind == "time":
            moment = dt.time.fromisoformat(text) if ":" in text and "-" not in text else None
            return (
                None if moment is None else (moment.hour * 3600 + moment.minute * 60 + moment.second) * 10**9
            )
        found = dt.datetime.fromisoformat(text) if "-" in text else None
    except ValueError:
        return None
    if found is None:
        return None
    return nanoseconds(found.astimezone(dt.UTC).replace(tzinfo=None) if found.tzinfo else found)


def negated(truth: Truth) -> Truth:
    return None if truth is None else not truth


def all_of(truths: list[Truth]) -> Truth:
    return False if False in truths else None if None in truths else True


def any_of(truths: list[Truth]) -> Truth:
    return negated(all_of([negated(truth) for truth in truths]))


# Conditions

Meanings = Mapping[str, Meaning | None]


class Condition(NamedTuple):
    """A condition's text, and what it says of the meanings of a row."""

    text: str
    holds: Callable[[Meanings], Truth]


WHOLE_LITERALS = [
    "0",
    "1",
    "35",
    "-1",
    "100",
    "127",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
]
FRACTIONS = [
    "0.35",
    "0.57",
    "0.70",
    "-0.35",
    "2.5",
    "0.1",
    "1e2",
    "-0.0",
    "99999999.99",
    "9007199254740993.0",
]
FRACTIONS += [
    "0.3500000000000000001",
    "0.10000000000000001",
    "0.30000000000000004",
    "1e400",
    "-1e400",
    "1e23",
]


def _literal(rng: random.Random) -> tuple[str, Meaning | None]:
    sort = rng.randrange(9)
    if sort == 0:
        text = rng.choice(WHOLE_LITERALS)
        return text, Meaning("number", Fraction(text))
    if sort <= 2:
        text = rng.choice(FRACTIONS)
        # A fraction is exact, and meets a double as the nearest double, even where it is whole.
        return text, Meaning("fraction", Fraction(text))
    if sort <= 4:
        text = rng.choice(TEXTS)
        return "'" + text.replace("'", "''") + "'", Meaning("text", text)
    if sort == 5:
        moment = rng.choice(MOMENTS)
        word = rng.choice(["timestamp", "date"]) if moment.time() == dt.time() else "timestamp"
        written = moment.isoformat(sep=" ") if word == "timestamp" else moment.date().isoformat()
        return f"{word} '{written}'", Meaning("instant", nanoseconds(moment))
    if sort == 6:
        return rng.choice(
            [
                ("time '10:30'", Meaning("time", 37800 * 10**9)),
                ("interval '1 minute'", Meaning("duration", 60 * 10**9)),
            ]
        )
    if sort == 7:
        return rng.choice(
            [("true", Meaning("boolean", True)), ("false", Meaning("boolean", False)), ("null", None)]
        )
    return "x'00ff'", Meaning("binary", b"\x00\xff")


OPERATORS = ["=", "<>", "<", "<=", ">", ">="]


def random_condition(rng: random.Random, names: list[str], depth: int = 2) -> Condition:
    """A condition on these columns: leaves of every sort, joined by and, or and not."""
    if depth and rng.random() < 0.5:
        parts = [random_condition(rng, names, depth - 1) for _ in range(rng.choice([1, 2, 2, 3]))]
        if len(parts) == 1:
            return Condition(f"not ({parts[0].text})", lambda row: negated(parts[0].holds(row)))
        word, join = rng.choice([("and", all_of), ("or", any_of)])
        text = f" {word} ".join(f"({part.text})" for part in parts)
        return Condition(text, lambda row: join([part.holds(row) for part in parts]))
    return _leaf(rng, names)


def _leaf(rng: random.Random, names: list[str]) -> Condition:
    name, sort = rng.choice(names), rng.randrange(8)
    operator, negation = rng.choice(OPERATORS), rng.random() < 0.3
    word = "not " if negation else ""
    signed = negated if negation else bool_or_none
    if sort <= 2:
        text, literal = _literal(rng)
        if literal is not None and rng.random() < 0.2:
            mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(operator, operator)
            return Condition(f"{text} {mirrored} {name}", lambda row: compared(row[name], operator, literal))
        return Condition(f"{name} {operator} {text}", lambda row: compared(row[name], operator, literal))
    if sort == 3:
        other = rng.choice(names)
        return Condition(f"{name} {operator} {other}", lambda row: compared(row[name], operator, row[other]))
    if sort == 4:
        (low, lower), (high, higher) = _literal(rng), _literal(rng)
        return Condition(
            f"{name} {word}between {low} and {high}",
            lambda row: signed(all_of([compared(row[name], ">=", lower), compared(row[name], "<=", higher)])),
        )
    if sort == 5:
        items = [_literal(rng) for _ in range(rng.choice([1, 2, 3]))]
        return Condition(
            f"{name} {word}in ({', '.join(text for text, _ in items)})",
            lambda row: signed(any_of([compared(row[name], "=", literal) for _, literal in items])),
        )
    if sort == 6:
        return Condition(f"{name} is {word}null", lambda row: (row[name] is None) is not negation)
    truth = rng.random() < 0.5
    wanted = Meaning("boolean", truth)
    return Condition(
        f"{name} is {word}{str(truth).lower()}", lambda row: (row[name] == wanted) is not negation
    )


def bool_or_none(truth: Truth) -> Truth:
    return truth


def meanings_of(row: Row) -> dict[str, Meaning | None]:
    """What each cell of a row means."""
    return {name: cell.meaning for name, cell in row.items()}

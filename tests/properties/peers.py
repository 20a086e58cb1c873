"""SQLite and DuckDB as second oracles of conditions: random ones on which they agree with us, and where not.

A peer has those of the columns for which it has a type, and a sublanguage: the conditions that mean the same
to it as to us. `DIFFERENCES` are the constructs that are in no sublanguage, each with an event that shows it.
Truths are those of SQL: True, False, or None for unknown.
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import duckdb

Truth = bool | None
Row = Mapping[str, Any]
REFUSED, UNTYPED = "error", "no type"
"""What stands for a condition that a peer does not take, or for whose values it has no type."""
NAN, BIG = float("nan"), 2**53 + 1


class Column(NamedTuple):
    """The type of a column for each peer that has it, and the values that a random row may have there."""

    values: Sequence[Any]
    duckdb: str
    sqlite: str | None = None


SMALL = [0, 1, 2, -3, 5, 7, 100]
WORDS = ["", "a", "A", "aB c", " b c ", "ab", "a%", "a_b", "it's", "5"]
TEXTS = [*WORDS, "é", "É", "\U0001f600", "\uffff", "line\nbreak"]
INSTANTS = [
    dt.datetime(2013, 6, 1),
    dt.datetime(2013, 6, 1, 1),
    dt.datetime(2013, 5, 31, 23, 59, 59, 999999),
    dt.datetime(1969, 12, 31, 23),
    dt.datetime(2024, 2, 29, 12, 30),
]
COLUMNS = {
    "k": Column(SMALL, "bigint", "integer"),
    "n": Column(SMALL, "bigint", "integer"),
    "i": Column([*SMALL, BIG, BIG - 1, -BIG, 2**63 - 1, -(2**63)], "bigint", "integer"),
    "x": Column([0.0, -0.0, 1.0, 1.5, -2.5, 0.1, 0.3, 7.0], "double", "real"),
    "y": Column([0.0, 1.5, 2.0, -2.5, 0.2, 100.25], "double", "real"),
    "z": Column([0.0, 5e-324, 1e300, float(BIG - 1), float("inf"), float("-inf")], "double", "real"),
    "w": Column(WORDS, "text", "text"),
    "s": Column(TEXTS, "text", "text"),
    "t": Column(TEXTS, "text", "text"),
    "b": Column([True, False], "boolean", "boolean"),
    "m": Column([Decimal(text) for text in ("0.35", "-1.25", "2.00", "0.10", "7.00")], "decimal(10, 2)"),
    "d": Column([one.date() for one in INSTANTS], "date"),
    "ts": Column(INSTANTS, "timestamp"),
}


@dataclass(frozen=True)
class Peer:
    """A database, the columns it has, and what of the language of conditions it shares."""

    name: str
    operands: Mapping[str, Sequence[str]]
    """By sort, what may stand on either side of a comparison; those of a sort may be compared."""
    literals: Mapping[str, Sequence[str]]

    def columns(self) -> dict[str, str]:
        found = {name: getattr(column, self.name) for name, column in COLUMNS.items()}
        return {name: type for name, type in found.items() if type is not None}

    def truths(self, rows: Sequence[Row], conditions: Sequence[str], **settings: str) -> list[list[Truth]]:
        """What it says of every condition, for every row."""
        if self.name == "sqlite":
            return _sqlite(self.columns(), rows, conditions, **settings)
        return _duckdb(self.columns(), rows, conditions)

    def condition(self, rng: Random, depth: int = 2) -> str:
        """A random condition of the sublanguage."""
        if depth and rng.random() < 0.5:
            parts = [self.condition(rng, depth - 1) for _ in range(rng.choice([2, 2, 3]))]
            joined = rng.choice([" and ", " or "]).join(f"({part})" for part in parts)
            return f"not ({joined})" if rng.random() < 0.3 else joined
        return self._atom(rng)

    def _atom(self, rng: Random) -> str:
        sort = rng.choice(sorted(self.operands))
        left = rng.choice(self.operands[sort])

        def other() -> str:
            return rng.choice(self.operands[sort] if rng.random() < 0.3 else self.literals[sort])

        no = rng.choice(["", "not "])
        forms = [
            lambda: f"{left} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {other()}",
            lambda: f"{left} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {other()}",
            lambda: f"{left} {no}between {other()} and {other()}",
            lambda: f"{left} {no}in ({', '.join(other() for _ in range(3))}{rng.choice(['', ', null'])})",
            lambda: f"{left} is {no}null",
            lambda: f"{left} is {no}distinct from {other()}",
            lambda: f"coalesce({left}, {other()}) = {other()}",
            lambda: f"nullif({left}, {other()}) is {no}null",
            lambda: f"case when {left} > {other()} then {left} else {other()} end <= {other()}",
            lambda: f"({left} = {other()}) is {no}{rng.choice(['true', 'false'])}",
            lambda: rng.choice(["b", "not b", "b = true", "b is distinct from false", "b is not true"]),
            lambda: f"{rng.choice(['s', 't', 'w'])} {no}like {rng.choice(PATTERNS)}",
        ]
        return rng.choice(forms)()


PATTERNS = [
    "'a%'",
    "'%b%'",
    "'_'",
    "'__'",
    "'%'",
    "''",
    "'A%'",
    "'a!%' escape '!'",
    "'a!_b' escape '!'",
    "'% c'",
]
WHOLE = ["k", "n", "k + n", "k - n", "k * n", "-k", "abs(k)", "k % 3", "k % -4", "length(s)", "length(w)"]
NUMBERS = ["0", "1", "2", "-3", "7", "100"]
BROAD = ["9007199254740993", "-9007199254740993", "9223372036854775807", "9223372036854775808"]
WORD_OPERANDS = ["w", "lower(w)", "upper(w)", "trim(w)", "substring(w, 2, 2)", "w || 'x'"]
TEXT_OPERANDS = [*WORD_OPERANDS, "s", "t", "s || t", "substring(s, 1, 1)", "trim(s)"]
TEXT_LITERALS = ["''", "'a'", "'A'", "'ab'", "'b c'", "'é'", "'it''s'", "'5'", "'😀'"]
TIME_OPERANDS = ["d", "ts", "ts + interval '1 hour'", "d + interval '1 month'", "ts - interval '2 days'"]
TIME_LITERALS = ["date '2013-06-01'", "timestamp '2013-06-01 01:00:00'", "date '1969-12-31'", "'2013-06-01'"]
PARTS = ["year(d)", "month(ts)", "day(d)", "hour(ts)", "minute(ts)", "extract(second from ts)"]

SQLITE = Peer(
    "sqlite",
    # It compares an integer with a double exactly, as we do.
    {
        "number": [*WHOLE, "i", "x", "y", "z", "x + y", "x - y", "x * y", "x + k", "x * k"],
        "text": TEXT_OPERANDS,
    },
    {
        "number": [*NUMBERS, *BROAD, "0.1", "1.5", "-2.5", "1e300", "0.30000000000000004"],
        "text": TEXT_LITERALS,
    },
)
DUCKDB = Peer(
    "duckdb",
    {
        "integer": [*WHOLE, "i", *PARTS[:-1], "m", "m + 1.25", "m * 2", "k * 0.1", "k + 0.2"],
        "double": [
            "x",
            "y",
            "x + y",
            "x - y",
            "x * y",
            "x + k",
            "floor(x)",
            "ceil(y)",
            "cast(k as double)",
            "k",
        ],
        "far": ["z", "x"],
        "text": [*TEXT_OPERANDS, "lower(s)", "upper(t)"],
        "time": TIME_OPERANDS,
    },
    {
        "integer": [*NUMBERS, *BROAD, "0.1", "2.5", "0.35", "0.3", "2013", "6"],
        "double": [*NUMBERS, "0.1", "1.5", "-2.5", "0.35", "0.30000000000000004"],
        "far": ["0", "1e300", "1.5", "0.1"],
        "text": TEXT_LITERALS,
        "time": TIME_LITERALS,
    },
)
PEERS = (DUCKDB, SQLITE)


def random_row(rng: Random) -> Row:
    """A value for each column; one in eight is null."""
    return {
        name: None if rng.random() < 0.125 else rng.choice(column.values) for name, column in COLUMNS.items()
    }


def _duckdb(types: Mapping[str, str], rows: Sequence[Row], conditions: Sequence[str]) -> list[list[Truth]]:
    with duckdb.connect() as connection:
        connection.execute(f"create table e ({', '.join(f'{name} {type}' for name, type in types.items())})")
        places = ", ".join("?" for _ in types)
        connection.executemany(
            f"insert into e values ({places})", [[row.get(name) for name in types] for row in rows]
        )
        return [
            [row[0] for row in connection.execute(f"select {text} from e").fetchall()] for text in conditions
        ]


def _sqlite(
    types: Mapping[str, str], rows: Sequence[Row], conditions: Sequence[str], like: str = "on"
) -> list[list[Truth]]:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"pragma case_sensitive_like = {like}")
        connection.execute(f"create table e ({', '.join(f'{name} {type}' for name, type in types.items())})")
        places = ", ".join("?" for _ in types)
        connection.executemany(
            f"insert into e values ({places})", [[row.get(name) for name in types] for row in rows]
        )
        return [
            [None if row[0] is None else bool(row[0]) for row in connection.execute(f"select {text} from e")]
            for text in conditions
        ]
    finally:
        connection.close()


class Difference(NamedTuple):
    """A condition that does not mean the same everywhere, and what it is for one event."""

    what: str
    condition: str
    row: Row
    ours: Truth
    duckdb: Truth | str
    sqlite: Truth | str

    def line(self) -> str:
        """The difference as a line of the table in docs/subscriptions.md."""
        said = {True: "yes", False: "no", None: "unknown"}
        values = ", ".join(f"`{name}: {_written(value)}`" for name, value in self.row.items())
        answers = " | ".join(said.get(one, str(one)) for one in (self.ours, self.duckdb, self.sqlite))
        return f"| {self.what} | `{self.condition.replace('|', chr(92) + '|')}` | {values} | {answers} |"


def _written(value: Any) -> str:
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    return f'"{value}"' if isinstance(value, dt.date) else str(value)


DIFFERENCES = [
    Difference("NaN compares with nothing", "x > 1", {"x": NAN}, None, True, None),
    Difference("NaN is a value", "x is null", {"x": NAN}, False, False, True),
    Difference("an integer meets a double exactly", "i = x", {"i": BIG, "x": 2.0**53}, False, True, False),
    Difference("a literal with a point is a decimal", "k * 0.1 = 0.3", {"k": 3}, True, True, False),
    Difference("a literal may be beyond doubles", "z > 1e400", {"z": float("inf")}, True, False, False),
    Difference("a result beyond doubles is null", "z * 10 > 0", {"z": 1e308}, None, True, True),
    Difference("so is what infinity gives", "z + 1 > 0", {"z": float("inf")}, None, True, True),
    Difference("... in functions too", "abs(z) > 0", {"z": float("-inf")}, None, True, True),
    Difference("integers have any size", "i + 1 > i", {"i": 2**63 - 1}, True, REFUSED, True),
    Difference("division is exact", "k / 2 = 2.5", {"k": 5}, True, True, False),
    Difference("a remainder of doubles", "x % 2 = 1.5", {"x": 5.5}, True, True, False),
    Difference("a zero divisor gives null", "x / 0 is null", {"x": 5.0}, True, False, True),
    Difference("a cast to an integer cuts off", "cast(x as bigint) = 1", {"x": 1.7}, True, False, True),
    Difference(
        "a cast that fails gives null", "cast(s as bigint) is null", {"s": "no"}, True, REFUSED, False
    ),
    Difference("a number is no text", "k = '5'", {"k": 5}, None, True, True),
    Difference("a boolean is no number", "b = 1", {"b": True}, None, True, True),
    Difference("a number is no condition", "k", {"k": 1}, None, True, True),
    Difference("texts join texts only", "s || k = 'a1'", {"s": "a", "k": 1}, None, True, True),
    Difference("`like` minds case", "s like 'ab'", {"s": "AB"}, False, False, True),
    Difference("letters beyond ASCII have cases", "lower(s) = 'é'", {"s": "É"}, True, True, False),
    Difference("one letter may have two capitals", "upper(s) = 'SS'", {"s": "ß"}, True, False, False),
    Difference("a text ends where it ends", "length(s) = 3", {"s": "a\0b"}, True, True, False),
    Difference(
        "no text is counted from its end", "substring(s, -2, 2) = 'bc'", {"s": "abc"}, False, True, True
    ),
    Difference("decimals are exact", "m * 3 = 1.05", {"m": Decimal("0.35")}, True, True, UNTYPED),
    Difference("a text that is no time", "ts > 'soon'", {"ts": INSTANTS[0]}, None, REFUSED, UNTYPED),
    Difference(
        "a time may have a zone", "ts = '2013-06-01T02:00+02:00'", {"ts": INSTANTS[0]}, True, False, UNTYPED
    ),
]
"""Where a peer is no oracle."""

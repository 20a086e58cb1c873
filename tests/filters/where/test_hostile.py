"""Hostile conditions: each is a filter or a `FilterError`, soon, and evaluating raises nothing.

`make chaos` reads a million texts; a failure prints the text.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from contextlib import suppress

import pytest

from distributary import Event
from distributary.errors import FilterError
from distributary.filters.where.filter import WhereFilter
from properties.oracle_values import COLUMNS, attributes_of, random_condition, random_row

WORDS = [
    "a", "b", "at", '"odd name"', "items", "5", "-1", "0.35", "1e400", "1e-400", "'x'", "'2013-06-01'",
    "''", "null", "true", "and", "or", "not", "in", "between", "like", "ilike", "regexp", "escape", "is",
    "distinct", "from", "unknown", "case", "when", "then", "else", "end", "(", ")", "[", "]", "*", ",", ".",
    "+", "-", "/", "%", "||", "::", "=", "<>", "<", ">=", "date", "timestamp", "interval", "'1 day'",
    "x'00'", "lower(", "now()", "cast(", "as", "bigint", "coalesce(", "distance(", "within(", "in_cidr(",
    "'10.0.0.0/8'", "substring(", "round(", "any(", "if(", "extract(", "hour", "decimal(10, 2)",
    "items[*].price", "tags[0]", "props['k']", "'POLYGON((0 0, 1 0, 1 1, 0 0))'", "'(a|b)*c'", "--", ";",
    "==", "'", '"', "\0", "\x03", "é", "😀", "\ud800", "$1", "0x1F", "999999999999999999999999999999",
]  # fmt: skip
SNIPPETS = [
    "a + b * 2 > 5",
    "case when a > 1 then lower(b) else 'x' end = 'y'",
    "items[*].price between 1 and 5",
    "cast(a as decimal(10, 2)) in (0.35, 1)",
    "at > now() - interval '1 hour'",
    "a is not distinct from b",
    "b regexp '^a.*z$' and b not ilike 'A%'",
]


def random_text(rng: random.Random) -> str:
    """Words at random, a valid condition with characters changed, or any characters."""
    sort = rng.randrange(10)
    if sort < 5:
        return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 14)))
    if sort < 9:
        text = rng.choice(SNIPPETS) if rng.random() < 0.5 else random_condition(rng, list(COLUMNS)).text
        characters = list(text)
        for _ in range(rng.randrange(4)):
            place = rng.randrange(len(characters))
            characters[place : place + rng.randrange(2)] = rng.choice(WORDS)
        return "".join(characters)
    return "".join(chr(rng.randrange(1, 0x3000)) for _ in range(rng.randrange(30)))


def try_texts(seed: int, count: int) -> tuple[int, int]:
    """How many random texts are filters, and how many are refused."""
    rng = random.Random(seed)
    events = [
        Event("e", "A/B", attributes_of(random_row(rng)) | {"a": 5, "b": "ab", "items": ({"price": 3},)})
    ]
    read = refused = 0
    for _ in range(count):
        text = random_text(rng)
        try:
            filter = WhereFilter.parse(text)
        except FilterError as error:
            str(error)
            refused += 1
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}: {text!r} raises {error!r}") from error
        read += 1
        try:
            assert WhereFilter.parse(filter.text) == filter
            assert filter.covers(filter)
            for event in events:
                filter.matches(event)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {text!r} raises {error!r}") from error
    return read, refused


def test_random_texts_are_filters_or_refused():
    read, refused = try_texts(1, 6000)
    assert read > 300
    assert refused > 1000


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_million_random_texts_are_filters_or_refused(seed):
    try_texts(seed, 100_000)


CORNERS = ", ".join(f"{number} {number * number % 7}" for number in range(20_000))
LONG = {
    "a pattern of 20,000 wildcards": f"a like '%{'_' * 20_000}x%'",
    "a pattern of 30,000 percents": f"a like '{'%a' * 15_000}'",
    "a regular expression that others backtrack on": "a regexp '^(a+)+$'",
    "a sum of 4,000 terms": " + ".join(["a"] * 4_000) + " > 1",
    "4,000 negations": "not " * 4_000 + "a",
    "4,000 minus signs": "- " * 4_000 + "a > 1",
    "2,000 nested calls": "lower(" * 2_000 + "a" + ")" * 2_000 + " = 'x'",
    "2,000 nested cases": "case when a then " * 2_000 + "1" + " end" * 2_000 + " = 1",
    "2,000 subscripts": "a" + "[0]" * 2_000 + " = 1",
    "a number of 100,000 digits": "a > " + "9" * 100_000,
    "an exponent of 100,000": "a > 1e100000",
    "a polygon of 20,000 corners": f"within(a, b, 'POLYGON(({CORNERS}))')",
    "a list of 100,000 numbers": f"a in ({', '.join(map(str, range(100_000)))})",
    "an unclosed quote": "a = '" + "x" * 900_000,
}


@pytest.mark.parametrize("name", LONG)
def test_a_hostile_condition_is_answered_in_bounded_time_and_memory(name):
    text, event = LONG[name], Event("e", attributes={"a": "a" * 50_000 + "b", "b": 1})
    tracemalloc.start()
    started = time.process_time()
    with suppress(FilterError):
        WhereFilter.parse(text).matches(event)
    seconds, memory = time.process_time() - started, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Far above what they take, far below what was quadratic or exponential: 34 s and gigabytes.
    assert seconds < 20
    assert memory < 400 * 2**20

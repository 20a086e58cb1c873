"""Conditions and operations for whole columns give what they give event by event, on every type."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from distributary import Event, Matcher, Subscription
from distributary.errors import FilterError
from distributary.filters.where.evaluate import NOW, evaluate, operand_value
from distributary.filters.where.expression import attributes_of, attributes_of_operand, leaves
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.values import Duration, Instant
from distributary.filters.where.write import operand_key
from distributary.matching.batch import EventBatch
from distributary.matching.columns import NUMBER, AttributeColumn
from distributary.matching.truths import OUTCOMES, passing, truths_of
from distributary.matching.where import bitsets, everywhere
from properties.oracle_values import attributes_of as attributes_of_row
from properties.oracle_values import random_row, table_of
from properties.random_expressions import random_expression, random_operation

ROWS = 40


def batches(rng: random.Random) -> list[EventBatch]:
    """The same random rows as a table and as events."""
    rows = [random_row(rng) for _ in range(ROWS)]
    events = [Event(f"e{number}", "A/B", attributes_of_row(row)) for number, row in enumerate(rows)]
    return [EventBatch.from_table(table_of(rows)), EventBatch.from_events(events)]


def attributes_at(batch: EventBatch, names, row: int) -> dict:
    columns = [(name, batch.column(name)) for name in names]
    found = {name: column.value(row) for name, column in columns if column is not None}
    return {**found, NOW: Instant(batch.arrival(row))}


@pytest.mark.parametrize("seed", range(4))
def test_a_condition_by_columns_is_what_it_is_row_by_row(seed):
    rng = random.Random(seed)
    for batch in batches(rng):
        for _ in range(60):
            filter = random_expression(rng)
            if filter is None:
                continue
            expression = filter.expression
            names = attributes_of(expression)
            expected = [
                OUTCOMES[evaluate(expression, attributes_at(batch, names, row))] for row in range(ROWS)
            ]
            some = np.array(sorted(rng.sample(range(ROWS), rng.randrange(4, ROWS))), np.int32)
            passed = passing(batch, expression, some).tolist()
            assert passed == [expected[row] == OUTCOMES[True] for row in some], (seed, filter.text)
            found = truths_of(batch, expression).tolist()
            assert found == expected, (seed, filter.text, [a for a in range(ROWS) if found[a] != expected[a]])


@pytest.mark.parametrize("seed", range(4))
def test_an_operation_by_columns_is_what_it_is_row_by_row(seed):
    rng = random.Random(seed)
    for batch in batches(rng):
        for _ in range(60):
            text = random_operation(rng, 3)
            try:
                expression = WhereFilter.parse(f"{text} is null").expression
            except FilterError:
                continue
            operand = getattr(next(leaves(expression)), "attribute", "")
            if isinstance(operand, str):
                continue
            names = attributes_of_operand(operand)
            values = [operand_value(operand, attributes_at(batch, names, row)) for row in range(ROWS)]
            assert_same(batch.column(operand_key(operand)), AttributeColumn.from_values(values), (seed, text))


def assert_same(found: AttributeColumn, expected: AttributeColumn, about) -> None:
    for row in range(ROWS):
        seen = [found.tags[row], found.numbers[row], repr(found.value(row))]
        wanted = [expected.tags[row], expected.numbers[row], repr(expected.value(row))]
        for column, cells in ((found, seen), (expected, wanted)):
            cells.append(None if column.strings is None else column.strings.text(row))
            cells.append(column.hard is not None and bool(column.hard[row]))
        assert seen == wanted, (about, row)
        if found.forms is not None and found.tags[row] == NUMBER:
            assert found.forms[row] in (0, expected.forms[row]), (about, row)


@pytest.mark.parametrize("seed", range(2))
def test_rules_that_hold_often_are_evaluated_by_columns_with_the_same_answers(seed, monkeypatch):
    rng = random.Random(seed)
    rows = [random_row(rng) for _ in range(ROWS)]
    table = table_of(rows)
    filters = [filter for _ in range(80) if (filter := random_expression(rng)) is not None]
    matcher = Matcher([Subscription(f"s{n}", "ann", where=filter.text) for n, filter in enumerate(filters)])
    expected = matcher.match_batch(table).to_pylist()
    chosen = []
    learn = everywhere.EverywhereConditions.learn

    def noted(conditions, positions, rows):
        before = conditions.chosen.count
        learned = learn(conditions, positions, rows)
        chosen.append(conditions.chosen.count - before)
        return learned

    monkeypatch.setattr(bitsets.WhereBitsets, "few_rows", 0)
    monkeypatch.setattr(bitsets, "SAMPLE", 8)
    monkeypatch.setattr(bitsets, "LARGE", 16)
    monkeypatch.setattr(everywhere, "MOST_OF_ALL", 0)
    monkeypatch.setattr(everywhere.EverywhereConditions, "learn", noted)
    matcher = Matcher([Subscription(f"s{n}", "ann", where=filter.text) for n, filter in enumerate(filters)])
    assert matcher.match_batch(table).to_pylist() == expected
    assert sum(chosen) > 10, "no rule of these holds often"


def test_literals_that_python_takes_for_equal_are_told_apart_in_operations():
    batch = EventBatch.from_table(pa.table({"id": ["a", "b", "c", "d"], "b": [True, False, None, True]}))
    one, true = (WhereFilter.parse(f"coalesce(a, {given}) = b").expression for given in ("1", "true"))
    assert passing(batch, one, None).tolist() == [False, False, False, False]
    assert passing(batch, true, None).tolist() == [True, False, False, True]


@pytest.mark.parametrize("text", ["coalesce(items[*].p, 0) > 5", "not (coalesce(items[*].p, 7) > 5)"])
def test_elements_within_an_operation_are_asked_one_by_one(text):
    matcher, given = Matcher([Subscription("s", "ann", where=text)]), WhereFilter.parse(text)
    items = [(1, 9), (9,), (1,), (), None, (None,)]
    events = [
        Event(str(at), attributes={} if each is None else {"items": tuple({"p": value} for value in each)})
        for at, each in enumerate(items)
    ]
    wanted = [event.id for event in events if given.matches(event)]
    assert 0 < len(wanted) < len(events)
    assert [event.id for event in events if matcher.match(event)] == wanted
    assert matcher.match_batch(events)["event_id"].to_pylist() == wanted


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.date32()])
def test_elements_that_are_times_are_compared_with_a_text_by_columns(kind):
    days = [[datetime(2026, 4, 1), datetime(2026, 5, 1)], [datetime(2026, 4, 1)], [None], [], None]
    table = pa.table({"id": list("abcde"), "days": pa.array(days, pa.list_(kind))})
    expression = WhereFilter.parse("array_contains(days, '2026-05-01')").expression
    assert passing(EventBatch.from_table(table), expression, None).tolist() == [True] + 4 * [False]


SHIFTED = [
    "at + interval '1 months'",
    "at - interval '1 months'",
    "at + interval '13 months'",
    "at - interval '30000 months'",
    "cast(at as time)",
    "cast(at as date)",
    "cast(at as timestamp)",
    "cast(number as double)",
    "cast(cast(number as double) as text)",
    "cast(number as text)",
    "number * 0.1",
    "substring(text, 2)",
    "substring(text, -1, 3)",
    "substring(text, 3, 0)",
    "length(text)",
    "length(mixed)",
    "substring(mixed, 1, 2)",
    "cast(mixed as double)",
    "cast(mixed as time)",
]


@pytest.mark.parametrize("text", SHIFTED)
def test_operations_by_arrays_keep_to_the_calendar_and_to_signs(text):
    days = [
        "2012-02-29",
        "2013-01-31",
        "2013-03-30",
        "1969-12-31T23:59:59.999999",
        "0001-01-15",
        "9999-12-31",
    ]
    moments = [np.datetime64(day, "us").astype(int).item() for day in days]
    numbers = [0.0, -0.0, 1, 1.0, True, None, float("nan"), float("inf"), 2**60, Decimal("1.50")]
    texts = ["", "a", "äöü", "日本語x", None, "abc"]
    mixed = [1, "12:30", (1, 2), b"abc", None, 2.5, "äb", True, Decimal("2.5"), -0.0]
    rows = [
        Event(
            str(at),
            attributes={
                "at": Instant(moments[at % 6] * 1000 + (500 if at % 7 == 0 else 0)),
                "number": numbers[at % 10],
                "text": texts[at % 6],
                "mixed": mixed[at // 2 % 10],
            },
        )
        for at in range(60)
    ]
    batch = EventBatch.from_events(rows)
    operand = next(leaves(WhereFilter.parse(f"{text} is null").expression)).attribute
    names = attributes_of_operand(operand)
    values = [operand_value(operand, attributes_at(batch, names, row)) for row in range(60)]
    assert_same(batch.column(operand_key(operand)), AttributeColumn.from_values(values), text)


FRACTIONS = ["0.5", "0.1", "2.50", "0.0", "-0.25", "0.30000000000000004", "0.000000000000001", "1e-320"]
FRACTIONS += ["99999999999999.9", "123456789012.345", "1e22", "1.5e300", "0.1234567890123456789", "1e-350"]
NUMBERS = [0, 1, -1, 3, 7, 10**12 - 1, -(10**14), 10**14, 10**15 - 1, 10**15, 2**53 - 1, 2**53 + 1, None]


@pytest.mark.parametrize("literal", FRACTIONS)
@pytest.mark.parametrize("kind", ["integers", "doubles", "decimals", "events"])
def test_fractions_in_arithmetic_are_exact_in_columns_of_every_kind(literal, kind):
    rng = random.Random(literal)
    whole = [*NUMBERS, *(rng.randrange(-(10**9), 10**9) for _ in range(40))]
    doubles = [
        None if n is None else rng.choice([n * 1.0, n / 8, n * 0.1, -0.0, 1e-310, 1e300]) for n in whole
    ]
    given = {
        "integers": pa.array(whole, pa.int64()),
        "doubles": pa.array(doubles, pa.float64()),
        "decimals": pa.array([None if n is None else Decimal(n) / 8 for n in whole], pa.decimal128(38, 3)),
    }
    ids = [str(n) for n in range(len(whole))]
    if kind == "events":
        mixed = [rng.choice(pair) for pair in zip(whole, doubles, strict=True)]
        batch = EventBatch.from_events(
            [Event(n, attributes={"x": x}) for n, x in zip(ids, mixed, strict=True)]
        )
    else:
        batch = EventBatch.from_table(pa.table({"id": ids, "x": given[kind]}))
    for text in [f"x {sign} {literal}" for sign in "+-*/%"] + [f"{literal} {sign} x" for sign in "+-*/%"]:
        operand = next(leaves(WhereFilter.parse(f"({text}) is null").expression)).attribute
        values = [operand_value(operand, attributes_at(batch, ["x"], row)) for row in range(batch.rows)]
        assert_same(batch.column(operand_key(operand)), AttributeColumn.from_values(values), text)


EDGES = [
    "long <= 0.3500000000000000001",
    "long = 0.35",
    "long + 0 > 0.35",
    "big + 1 > 9007199254740992",
    "big + 1 = 9007199254740993",
    "big * big = 81129638414606663681390495662081",
    "cast(-zero as text) = '-0.0'",
    "cast(abs(zero) as text) = '0.0'",
    "moment <> later",
    "moment < later",
    "moment < timestamp '2013-06-01 00:00:00.000000600'",
    "later - moment = interval '200 nanoseconds'",
    "far < farther",
]


def test_numbers_and_times_that_doubles_do_not_tell_apart_are_told_apart():
    day = 1_370_044_800_000_000_000
    rows = {
        "long": [Decimal("0.3500000000000000001"), Decimal("0.35"), Decimal("0.3499999999999999999")],
        "big": [2**53 - 1, 2**53, 2**53 + 1],
        "zero": [0.0, -0.0, 1.0],
        "moment": [Instant(day + 500), Instant(day + 600), Instant(day)],
        "later": [Instant(day + 700), Instant(day + 600), Instant(day + 200)],
        "far": [Duration(2**63), Duration(2**63 + 1), Duration(0)],
        "farther": [Duration(2**63 + 1), Duration(2**63 + 1), Duration(2**63)],
    }
    columns = {name: AttributeColumn.from_values(values) for name, values in rows.items()}
    batch = EventBatch.from_table(pa.table({"id": ["a", "b", "c"]}))
    batch._built.update(columns)
    for text in EDGES:
        expression = WhereFilter.parse(text).expression
        names = attributes_of(expression)
        expected = [OUTCOMES[evaluate(expression, attributes_at(batch, names, row))] for row in range(3)]
        assert truths_of(batch, expression).tolist() == expected, text


def test_large_doubles_beside_intervals_are_added_without_a_warning():
    values = {"a": 1.7e308, "b": 1.7e308, "c": 1.0}
    events = [Event(f"e{number}", attributes=values) for number in range(40)]
    events.append(Event("t", attributes=dict.fromkeys("abc", timedelta(days=1))))
    matcher = Matcher([Subscription("s", "ann", where="a + b > c")])
    assert matcher.match_batch(events).to_pylist() == [{"event_id": "t", "subscription_id": "s"}]

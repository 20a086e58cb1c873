"""Conditions and operations for whole columns give what they give event by event, on every type."""

from __future__ import annotations

import random
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
from distributary.matching.where import bitsets
from properties.oracle_values import COLUMNS, random_condition, random_row, table_of
from properties.oracle_values import attributes_of as attributes_of_row

ROWS = 40
NUMBERS = ("0", "1", "-3", "2.5", "9007199254740993", "1e300", "0.3500000000000000001")
TEXTS = ("'a'", "''", "'2013-06-01'", "'Ünı'", "'%a_'")
TIMES = ("timestamp '2013-06-01 10:30:00'", "date '1969-12-31'", "now()")
UNARY = ("lower", "upper", "trim", "length", "abs", "floor", "ceil", "round", "date")
UNARY += ("year", "month", "day", "weekday", "hour", "minute", "second")
TYPES = ("bigint", "double", "decimal(20, 3)", "text", "boolean", "timestamp", "date", "time")
PATTERNS = ("%1%", "a%", "%", "_", "20__-%", "%0", "x!%%", "%é_", "%\\%")


def random_operation(rng: random.Random, depth: int = 2) -> str:
    """An operation, or an argument of one, as a condition has it."""
    if depth == 0 or rng.random() < 0.2:
        choice = rng.random()
        if choice < 0.7:
            return rng.choice(list(COLUMNS))
        return rng.choice(NUMBERS if choice < 0.85 else TEXTS if choice < 0.93 else TIMES)
    one, other = random_operation(rng, depth - 1), random_operation(rng, depth - 1)
    kind = rng.randrange(10)
    if kind < 4:
        return f"({one} {rng.choice('+-*/%')} {other})"
    if kind < 6:
        return f"{rng.choice(UNARY)}({one})"
    return rng.choice(
        [
            f"coalesce({one}, {other})",
            f"nullif({one}, {other})",
            f"cast({one} as {rng.choice(TYPES)})",
            f"case when {one} > {other} then {one} when {other} is null then 'none' else {other} end",
            f"(-{one})",
            f"({one} || {other})",
            f"concat({one}, '-', {other}, '')",
            f"date({one})",
            f"({one} + interval '{rng.choice(['1 day', '90 minutes', '3 months'])}')",
            f"substring({one}, 2, 3)",
            f"array_contains({one}, {other})",
            f"distance({one}, {other}, 40.6, -73.8)",
            f"within({one}, {other}, 'POLYGON((-5 -5, 5 -5, 5 5, -5 5, -5 -5))')",
        ]
    )


def random_expression(rng: random.Random) -> WhereFilter | None:
    """A condition on attributes or on operations; None where the text is refused."""
    operation = random_operation(rng)
    text = rng.choice(
        [
            random_condition(rng, list(COLUMNS)).text,
            f"{operation} {rng.choice(['<', '<=', '=', '<>', '>', '>='])} {random_operation(rng)}",
            f"{operation} is {rng.choice(['', 'not '])}null or not ({operation} in (1, 2.5, 'a', -3))",
            f"{operation} between {rng.choice(NUMBERS)} and {rng.choice(NUMBERS)}",
            f"{rng.choice(list(COLUMNS))} like '{rng.choice(PATTERNS)}' escape '!'",
            f"{rng.choice(list(COLUMNS))} regexp '{rng.choice(['^2', '[0-9]+', 'a|b', '(?i)A.', '^$'])}'",
        ]
    )
    try:
        return WhereFilter.parse(text)
    except FilterError:
        return None


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
    often = []
    evaluated = bitsets.evaluation.evaluate_everywhere
    monkeypatch.setattr(bitsets, "SAMPLE", 8)
    monkeypatch.setattr(bitsets, "LARGE", 16)
    monkeypatch.setattr(
        bitsets.evaluation,
        "evaluate_everywhere",
        lambda arrays, batch, positions: often.append(len(positions)) or evaluated(arrays, batch, positions),
    )
    assert matcher.match_batch(table).to_pylist() == expected
    assert sum(often) > 10, "no rule of these holds often"


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

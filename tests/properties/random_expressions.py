"""Random conditions on operations of every kind and type, for rows of `oracle_values`."""

from __future__ import annotations

import random

from distributary.errors import FilterError
from distributary.filters.where.filter import WhereFilter
from properties.oracle_values import COLUMNS, random_condition

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

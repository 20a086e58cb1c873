"""Arithmetic for all rows at once: on numbers that doubles hold, on instants and on intervals.

A fraction in a condition is a decimal. Beside a double it counts as the nearest double, and beside an integer
the outcome is a decimal: for all rows at once while that has no more than 15 digits.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from distributary.filters.where.expression import Computation
from distributary.filters.where.operations import EXACT, FUNCTIONS
from distributary.filters.where.values import FIRST, LAST, PLAIN_DIGITS, Duration, Instant, Months
from distributary.kernel import Flags, Floats
from distributary.matching.arguments import Partial, argument_column, per_distinct
from distributary.matching.column_making import (
    chosen_rows,
    column_of_numbers,
    column_of_times,
    has_whole_time,
    joined_rows,
)
from distributary.matching.columns import (
    DOUBLE,
    EXACT_INTEGER,
    INSTANT,
    INTEGER,
    MICROSECOND,
    NULL,
    NUMBER,
    AttributeColumn,
)
from distributary.matching.dates import later

if TYPE_CHECKING:
    from distributary.matching.batch import EventBatch


LARGEST = 10**PLAIN_DIGITS
"""Whole numbers below this, divided by a power of ten, are decimals that a double is written as."""


def arithmetic(batch: EventBatch, operand: Computation) -> Partial | None:
    """Two columns added, subtracted, multiplied or divided."""
    if isinstance(operand.arguments[1], Months) and operand.function in "+-":
        return later(batch, operand)
    left, right = (_number_column(batch, argument) for argument in operand.arguments)
    sign = operand.function
    numbers = left.plain_numbers() & right.plain_numbers()
    has_decimal = any(type(argument) is Decimal for argument in operand.arguments)
    if has_decimal:
        numbers &= (left.forms == DOUBLE) & (right.forms == DOUBLE)
    whole = numbers.copy()
    for column in (left, right):
        whole &= (column.forms == INTEGER) & (sign != "/")
    known = numbers & ((right.numbers != 0) | (sign not in "/%"))
    with np.errstate(all="ignore"):
        result = SIGNS[sign](left.numbers, right.numbers)
    inexact = numbers & whole & (np.abs(result) >= EXACT_INTEGER)
    column = column_of_numbers(result, np.where(whole, np.uint8(INTEGER), np.uint8(DOUBLE)), known & ~inexact)
    nothing = (left.tags == NULL) | (right.tags == NULL)
    rest = ~(numbers | nothing) | inexact
    more = _decimals(operand, left, right) if has_decimal else _time_arithmetic(sign, left, right)
    if more is None:
        return column, rest
    others, known_others = more
    return chosen_rows(
        joined_rows([column, others]), np.arange(batch.rows) + batch.rows * known_others
    ), rest & ~known_others


def _number_column(batch: EventBatch, argument: Any) -> AttributeColumn:
    """The column of an argument; that of a decimal has the nearest double, unless that is infinite or 0."""
    double = float(argument) if type(argument) is Decimal else 0.0
    if double == 0.0 or not isfinite(double):
        return argument_column(batch, argument)
    doubles = np.full(batch.rows, DOUBLE, np.uint8)
    return column_of_numbers(np.full(batch.rows, double), doubles, np.ones(batch.rows, np.bool_))


def _decimals(operand: Computation, left: AttributeColumn, right: AttributeColumn) -> Partial | None:
    """Integers and a decimal added, subtracted or multiplied, as whole numbers of a power of ten."""
    sign, arguments = operand.function, operand.arguments
    place = 0 if type(arguments[0]) is Decimal else 1
    literal: Decimal = arguments[place]
    column = (right, left)[place]
    scale = max(0, -int(literal.as_tuple().exponent))
    unscaled = int(literal.scaleb(scale, EXACT))
    if sign not in "+-*" or column.forms is None or max(10**scale, abs(unscaled)) >= LARGEST:
        return None
    factor, summand = (unscaled, 0) if sign == "*" else (10**scale, unscaled)
    known = column.plain_numbers() & (column.forms == INTEGER)
    known &= np.abs(column.numbers) < (LARGEST - abs(summand)) // max(1, abs(factor))
    whole = np.where(known, column.numbers, 0.0).astype(np.int64) * factor
    if sign == "-":
        whole, summand = (whole, -summand) if place else (-whole, summand)
    whole += summand
    compute = FUNCTIONS[sign].compute

    def value(row: int) -> Any:
        if not known[row]:
            return None
        given = column.value(row)
        return compute(given, literal) if place else compute(literal, given)

    tags = np.where(known, np.uint8(NUMBER), np.uint8(NULL))
    numbers = np.where(known, whole / 10.0**scale, 0.0)
    return AttributeColumn(tags, numbers, None, value), known


SIGNS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
}


def _time_arithmetic(
    sign: str, left: AttributeColumn, right: AttributeColumn
) -> tuple[AttributeColumn, Flags] | None:
    """Instants and intervals of whole microseconds, added or subtracted."""
    if sign not in "+-":
        return None
    whole = has_whole_time(left) & has_whole_time(right)
    if not whole.any():
        return None
    moments, others = left.tags == INSTANT, right.tags == INSTANT
    between = whole & moments & others if sign == "-" else np.zeros(len(whole), np.bool_)
    moved = whole & moments & ~others
    if sign == "+":
        moved |= whole & ~moments & others
    lengths = between | (whole & ~moments & ~others)
    with np.errstate(all="ignore"):  # rows that hold doubles are computed elsewhere
        result = SIGNS[sign](left.numbers, right.numbers)
    inside = (result * 1.0 >= FIRST // MICROSECOND) & (result <= LAST // MICROSECOND)
    columns = [column_of_times(result, Duration, lengths), column_of_times(result, Instant, moved & inside)]
    places = np.arange(len(whole)) + len(whole) * moved
    return chosen_rows(joined_rows(columns), places), lengths | moved


def unary(compute: Callable[[Floats], Floats], *, gives_integer: bool) -> Callable[..., Partial | None]:
    """A function of one number, such as `abs`."""

    def column(batch: EventBatch, operand: Computation) -> Partial | None:
        given = argument_column(batch, operand.arguments[0])
        if len(operand.arguments) != 1 or given.forms is None:
            return per_distinct(batch, operand)
        numbers = given.plain_numbers() & np.isfinite(given.numbers)
        result = compute(given.numbers)
        forms = np.full(batch.rows, INTEGER, np.uint8) if gives_integer else given.forms
        signed_zero = (result == 0) & np.signbit(result) & (forms == DOUBLE)
        large = numbers & ((np.abs(result) >= EXACT_INTEGER) | signed_zero)
        rest = ~(numbers | (given.tags == NULL)) | large
        return column_of_numbers(result, forms, numbers & ~large), rest

    return column

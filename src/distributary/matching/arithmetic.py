"""Arithmetic for all rows at once: on numbers that doubles hold, on instants and on intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from distributary.filters.where.expression import Computation
from distributary.filters.where.values import FIRST, LAST, Duration, Instant, Months
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
    AttributeColumn,
)
from distributary.matching.dates import later

if TYPE_CHECKING:
    from distributary.matching.batch import EventBatch


def arithmetic(batch: EventBatch, operand: Computation) -> Partial | None:
    """Two columns added, subtracted, multiplied or divided."""
    if isinstance(operand.arguments[1], Months) and operand.function in "+-":
        return later(batch, operand)
    left, right = (argument_column(batch, argument) for argument in operand.arguments)
    sign = operand.function
    numbers = left.plain_numbers() & right.plain_numbers()
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
    times = _time_arithmetic(sign, left, right)
    if times is None:
        return column, rest
    sum_, known_times = times
    return chosen_rows(
        joined_rows([column, sum_]), np.arange(batch.rows) + batch.rows * known_times
    ), rest & ~known_times


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

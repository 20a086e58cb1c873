"""Parts of dates, dates moved by months, and casts of times, for all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from distributary.filters.where.expression import Computation
from distributary.filters.where.values import FIRST, LAST, Instant
from distributary.matching.arguments import Partial, argument_column, per_distinct
from distributary.matching.column_making import (
    EXACT_MICROSECONDS,
    column_of_day_times,
    column_of_numbers,
    column_of_times,
    has_whole_time,
)
from distributary.matching.columns import (
    DOUBLE,
    INSTANT,
    INTEGER,
    MICROSECOND,
    NULL,
    STRING,
    TIME,
    AttributeColumn,
)

if TYPE_CHECKING:
    from distributary.matching.batch import EventBatch

DAY = 86_400_000_000
"""Microseconds of a day."""


def date_part(part: Callable[[NDArray[np.int64]], NDArray[Any]]) -> Callable[..., Partial | None]:
    """A part of instants by array arithmetic; texts and times of day once for each distinct value."""

    def column(batch: EventBatch, operand: Computation) -> Partial | None:
        given = argument_column(batch, operand.arguments[0])
        moments = (given.tags == INSTANT) & (np.abs(given.numbers) < EXACT_MICROSECONDS)
        if not moments.any():
            return per_distinct(batch, operand)
        microseconds = np.floor(np.where(moments, given.numbers, 0.0)).astype(np.int64)
        result = part(microseconds).astype(np.float64)
        forms = np.full(batch.rows, INTEGER, np.uint8)
        return column_of_numbers(result, forms, moments), ~(moments | (given.tags == NULL))

    return column


def instant(batch: EventBatch, operand: Computation) -> Partial | None:
    """Instants as they are, or the days on which they are; texts once for each distinct one."""
    given = argument_column(batch, operand.arguments[0])
    moments = given.tags == INSTANT
    if not moments.any():
        return per_distinct(batch, operand)
    if operand.function == "date":
        moments &= np.abs(given.numbers) < EXACT_MICROSECONDS
        days = np.floor_divide(np.where(moments, given.numbers, 0.0), DAY) * DAY
        return column_of_times(days, Instant, moments), ~(moments | (given.tags == NULL))
    column = AttributeColumn(
        np.where(moments, given.tags, np.uint8(NULL)),
        given.numbers,
        None,
        lambda row: given.value(row) if moments[row] else None,
    )
    return column, given.tags == STRING


def later(batch: EventBatch, operand: Computation) -> Partial:
    """Instants moved by months that are a literal: to the same day, or the last of a shorter month."""
    argument, by = operand.arguments
    given = argument_column(batch, argument)
    moments = has_whole_time(given) & (given.tags == INSTANT)
    microseconds = np.where(moments, given.numbers, 0.0).astype(np.int64)
    days = _days(microseconds)
    months = days.astype("datetime64[M]")
    moved = months + np.timedelta64(by.months if operand.function == "+" else -by.months, "M")
    first, last = moved.astype("datetime64[D]"), (moved + 1).astype("datetime64[D]") - 1
    day = np.minimum(first + (days - months.astype("datetime64[D]")), last).astype(np.int64)
    numbers = (day * DAY + microseconds % DAY).astype(np.float64)
    inside = (numbers >= FIRST // MICROSECOND) & (numbers <= LAST // MICROSECOND)
    rest = ~(moments | (given.tags == NULL)) | (moments & (np.abs(numbers) >= EXACT_MICROSECONDS))
    return column_of_times(numbers, Instant, moments & inside), rest


def as_time(batch: EventBatch, operand: Computation) -> Partial | None:
    """Times of day as they are; texts once for each distinct one."""
    given = argument_column(batch, operand.arguments[0])
    times = given.tags == TIME
    if not times.any():
        return per_distinct(batch, operand)
    return column_of_day_times(given.numbers, times), given.tags == STRING


def cast(batch: EventBatch, operand: Computation) -> Partial | None:
    """Casts of instants to times, and of numbers to doubles, by arrays."""
    given, target = argument_column(batch, operand.arguments[0]), operand.arguments[1]
    nothing = given.tags == NULL
    if target == "double":
        zeros = (given.numbers == 0) & np.signbit(given.numbers)
        numbers = given.plain_numbers() & np.isfinite(given.numbers) & ~zeros
        return column_of_numbers(given.numbers, np.full(batch.rows, DOUBLE, np.uint8), numbers), ~(
            numbers | nothing
        )
    moments = has_whole_time(given) & (given.tags == INSTANT)
    if target not in ("date", "timestamp", "time") or not moments.any():
        return per_distinct(batch, operand)
    numbers = np.where(moments, given.numbers, 0.0)
    rest = ~(moments | nothing)
    if target == "time":
        return column_of_day_times(np.mod(numbers, DAY) * MICROSECOND, moments), rest
    return column_of_times(
        np.floor_divide(numbers, DAY) * DAY if target == "date" else numbers, Instant, moments
    ), rest


def _days(microseconds: NDArray[np.int64]) -> NDArray[Any]:
    return (microseconds // DAY).astype("datetime64[D]")


def months_of(microseconds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The months since January 1970."""
    return _days(microseconds).astype("datetime64[M]").astype(np.int64)


def day_of_month(microseconds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The day of its month, from 1 on."""
    days = _days(microseconds)
    passed: NDArray[np.int64] = (days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64)
    return passed + 1

"""Operations of conditions as columns: `arr_delay - dep_delay` or `lower(name)` for all rows at once.

An operation's column is computed when it is first asked for, by the first of these that applies:

- without attributes it is one value for all rows;
- arithmetic on numbers that doubles hold, on instants and intervals is array arithmetic, as are parts of
  dates, `case` and `coalesce` (they choose among columns), conditions, and places in polygons;
- a function of one column is computed once for each distinct value;
- everything else, and rows that the above leaves out, are computed one by one as `operand_value` has it,
  with which all must agree; rows with the same attributes share the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distributary.filters.where.closures import operand_function
from distributary.filters.where.evaluate import NOW, operand_value
from distributary.filters.where.expression import (
    CONDITIONS,
    AttributeReference,
    Computation,
    attributes_of_operand,
)
from distributary.filters.where.geometry import read_polygon
from distributary.filters.where.operations import FUNCTIONS, MAX_TEXT
from distributary.filters.where.values import FIRST, LAST, Duration, Instant, Months, plain
from distributary.filters.where.write import operand_key
from distributary.kernel import Bytes, Flags, Floats, Longs, kernel, sealed_table
from distributary.matching import truths
from distributary.matching.column_making import (
    EXACT_MICROSECONDS,
    chosen_rows,
    column_of_day_times,
    column_of_numbers,
    column_of_times,
    column_of_truths,
    distinct_rows,
    has_whole_time,
    joined_rows,
    patched,
)
from distributary.matching.columns import (
    DOUBLE,
    EXACT_INTEGER,
    INSTANT,
    INTEGER,
    MICROSECOND,
    NULL,
    OTHER,
    STRING,
    TIME,
    AttributeColumn,
    Strings,
)
from distributary.matching.text_codes import TextCodes

if TYPE_CHECKING:
    from distributary.matching.batch import EventBatch

FEW = 32
"""Of so few rows each is computed by itself."""
DAY = 86_400_000_000
"""Microseconds of a day."""

Partial = tuple[AttributeColumn, Flags]
"""A column, and the rows that it leaves to be computed one by one."""


def computed_column(batch: EventBatch, operand: Computation) -> AttributeColumn:
    """The values of an operation in all rows."""
    if not attributes_of_operand(operand) and batch.shared_arrival is not None:
        value = operand_value(operand, {NOW: Instant(batch.shared_arrival)})  # type: ignore[dict-item]
        return chosen_rows(AttributeColumn.from_values([value]), np.zeros(batch.rows, np.int64))
    compute = COLUMNS.get(operand.function, _per_distinct)
    partial = compute(batch, operand)
    if partial is None:
        values, places = _one_by_one(batch, operand, np.arange(batch.rows))
        return chosen_rows(AttributeColumn.from_values(values), places)
    column, rest = partial
    rows = np.flatnonzero(rest)
    return patched(column, rows, *_one_by_one(batch, operand, rows)) if len(rows) else column


def _one_by_one(
    batch: EventBatch, operand: Computation, rows: NDArray[np.int64]
) -> tuple[list[Any], NDArray[Any]]:
    """The values in these rows, and for each row which it has; rows with the same attributes share one."""
    present = [
        (name, column)
        for name in attributes_of_operand(operand)
        if (column := batch.column(name)) is not None
    ]
    places = np.arange(len(rows))
    if len(rows) > FEW and batch.shared_arrival is not None:
        first, place_of = distinct_rows([_with_codes(batch, *each) for each in present], batch.rows)
        wanted, places = np.unique(place_of[rows], return_inverse=True)
        rows = first[wanted].astype(np.int64)
    value_of = operand_function(operand)
    values = []
    for row in rows.tolist():
        attributes = {name: column.value(row) for name, column in present}
        attributes[NOW] = Instant(batch.arrival(row))
        values.append(value_of(attributes))
    return values, places


def _with_codes(
    batch: EventBatch, name: str, column: AttributeColumn
) -> tuple[AttributeColumn, TextCodes | None]:
    return column, None if column.strings is None else batch.codes(name, column)


# Columns made of columns


def _argument(batch: EventBatch, argument: Any) -> AttributeColumn:
    """The column of an argument: an attribute, an operation, a condition or a literal."""
    if isinstance(argument, AttributeReference):
        column = batch.column(argument.name)
        return chosen_rows(AttributeColumn.from_values([None]), _first(batch)) if column is None else column
    if isinstance(argument, Computation):
        column = batch.column(operand_key(argument))
        assert column is not None, "an operation always has a column"
        return column
    if isinstance(argument, CONDITIONS):
        return column_of_truths(truths.truths_of(batch, argument))
    return chosen_rows(AttributeColumn.from_values([argument]), _first(batch))


def _first(batch: EventBatch) -> NDArray[np.int64]:
    return np.zeros(batch.rows, np.int64)


# A function of one column


def _per_distinct(batch: EventBatch, operand: Computation) -> Partial | None:
    """A function of one column and literals, computed for each distinct value."""
    function = FUNCTIONS.get(operand.function)
    columns = [
        place
        for place, argument in enumerate(operand.arguments)
        if isinstance(argument, (AttributeReference, Computation, *CONDITIONS))
    ]
    if function is None or len(columns) != 1 or function.takes_null:
        return None
    place = columns[0]
    argument = operand.arguments[place]
    column = _argument(batch, argument)
    codes = None if column.strings is None else batch.codes(_name(argument), column)
    first, places = distinct_rows([(column, codes)], batch.rows)
    values = []
    for row in first.tolist():
        value = plain(column.value(row))
        given = [value if at == place else each for at, each in enumerate(operand.arguments)]
        values.append(None if None in given else plain(function.compute(*given)))
    return chosen_rows(AttributeColumn.from_values(values), places), np.zeros(batch.rows, np.bool_)


def _name(argument: Any) -> str:
    return argument.name if isinstance(argument, AttributeReference) else operand_key(argument)


# Texts


def _substring(batch: EventBatch, operand: Computation) -> Partial | None:
    """A part of each distinct text, by Arrow, where the places are literals."""
    argument, *places = operand.arguments
    column = _argument(batch, argument)
    if (
        column.strings is None
        or any(type(place) is not int for place in places)
        or min(places[1:], default=0) < 0
    ):
        return _per_distinct(batch, operand)
    codes = batch.codes(_name(argument), column)
    start = max(places[0] - 1, 0)
    end = max(places[0] - 1 + (places[1] if len(places) > 1 else MAX_TEXT), start)
    parts = pc.utf8_slice_codeunits(codes.array, start, end)
    parts = pa.concat_arrays([parts, pa.nulls(1, parts.type)])  # NO_TEXT is the last of them
    return chosen_rows(AttributeColumn.from_strings(Strings.from_arrow(parts)), codes.codes), np.zeros(
        batch.rows, np.bool_
    )


def _length(batch: EventBatch, operand: Computation) -> Partial | None:
    """The length of each distinct text, by Arrow."""
    argument = operand.arguments[0]
    column = _argument(batch, argument)
    if column.strings is None or not len(codes := batch.codes(_name(argument), column)):
        return _per_distinct(batch, operand)
    lengths = pc.utf8_length(codes.array).to_numpy().astype(np.float64)
    forms = np.full(batch.rows, INTEGER, np.uint8)
    return column_of_numbers(lengths[codes.codes], forms, column.tags == STRING), column.tags == OTHER


# Arithmetic


def _arithmetic(batch: EventBatch, operand: Computation) -> Partial | None:
    if isinstance(operand.arguments[1], Months) and operand.function in "+-":
        return _later(batch, operand)
    left, right = (_argument(batch, argument) for argument in operand.arguments)
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


def _unary(compute: Callable[[Floats], Floats], *, gives_integer: bool) -> Callable[..., Partial | None]:
    def column(batch: EventBatch, operand: Computation) -> Partial | None:
        given = _argument(batch, operand.arguments[0])
        if len(operand.arguments) != 1 or given.forms is None:
            return _per_distinct(batch, operand)
        numbers = given.plain_numbers() & np.isfinite(given.numbers)
        result = compute(given.numbers)
        forms = np.full(batch.rows, INTEGER, np.uint8) if gives_integer else given.forms
        signed_zero = (result == 0) & np.signbit(result) & (forms == DOUBLE)
        large = numbers & ((np.abs(result) >= EXACT_INTEGER) | signed_zero)
        rest = ~(numbers | (given.tags == NULL)) | large
        return column_of_numbers(result, forms, numbers & ~large), rest

    return column


# Times


def _date_part(part: Callable[[NDArray[np.int64]], NDArray[Any]]) -> Callable[..., Partial | None]:
    """A part of instants by array arithmetic; texts and times of day once for each distinct value."""

    def column(batch: EventBatch, operand: Computation) -> Partial | None:
        given = _argument(batch, operand.arguments[0])
        moments = (given.tags == INSTANT) & (np.abs(given.numbers) < EXACT_MICROSECONDS)
        if not moments.any():
            return _per_distinct(batch, operand)
        microseconds = np.floor(np.where(moments, given.numbers, 0.0)).astype(np.int64)
        result = part(microseconds).astype(np.float64)
        forms = np.full(batch.rows, INTEGER, np.uint8)
        return column_of_numbers(result, forms, moments), ~(moments | (given.tags == NULL))

    return column


def _instant(batch: EventBatch, operand: Computation) -> Partial | None:
    """Instants as they are, or the days on which they are; texts once for each distinct one."""
    given = _argument(batch, operand.arguments[0])
    moments = given.tags == INSTANT
    if not moments.any():
        return _per_distinct(batch, operand)
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


def _later(batch: EventBatch, operand: Computation) -> Partial:
    """Instants moved by months that are a literal: to the same day, or the last of a shorter month."""
    argument, by = operand.arguments
    given = _argument(batch, argument)
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


def _as_time(batch: EventBatch, operand: Computation) -> Partial | None:
    """Times of day as they are; texts once for each distinct one."""
    given = _argument(batch, operand.arguments[0])
    times = given.tags == TIME
    if not times.any():
        return _per_distinct(batch, operand)
    return column_of_day_times(given.numbers, times), given.tags == STRING


def _cast(batch: EventBatch, operand: Computation) -> Partial | None:
    """Casts of instants to times, and of numbers to doubles, by arrays."""
    given, target = _argument(batch, operand.arguments[0]), operand.arguments[1]
    nothing = given.tags == NULL
    if target == "double":
        zeros = (given.numbers == 0) & np.signbit(given.numbers)
        numbers = given.plain_numbers() & np.isfinite(given.numbers) & ~zeros
        return column_of_numbers(given.numbers, np.full(batch.rows, DOUBLE, np.uint8), numbers), ~(
            numbers | nothing
        )
    moments = has_whole_time(given) & (given.tags == INSTANT)
    if target not in ("date", "timestamp", "time") or not moments.any():
        return _per_distinct(batch, operand)
    numbers = np.where(moments, given.numbers, 0.0)
    rest = ~(moments | nothing)
    if target == "time":
        return column_of_day_times(np.mod(numbers, DAY) * MICROSECOND, moments), rest
    return column_of_times(
        np.floor_divide(numbers, DAY) * DAY if target == "date" else numbers, Instant, moments
    ), rest


def _days(microseconds: NDArray[np.int64]) -> NDArray[Any]:
    return (microseconds // DAY).astype("datetime64[D]")


def _months(microseconds: NDArray[np.int64]) -> NDArray[np.int64]:
    return _days(microseconds).astype("datetime64[M]").astype(np.int64)


def _day_of_month(microseconds: NDArray[np.int64]) -> NDArray[np.int64]:
    days = _days(microseconds)
    passed: NDArray[np.int64] = (days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64)
    return passed + 1


# Choices


def _case(batch: EventBatch, operand: Computation) -> Partial:
    """The first branch whose condition is true."""
    *branches, otherwise = operand.arguments
    choice = np.full(batch.rows, len(branches) // 2, np.int64)
    for number in reversed(range(len(branches) // 2)):
        choice[truths.truths_of(batch, branches[2 * number]) == truths.TRUE] = number
    columns = [_argument(batch, value) for value in (*branches[1::2], otherwise)]
    return _picked(columns, choice, batch.rows)


def _coalesce(batch: EventBatch, operand: Computation) -> Partial:
    """The first argument that is not null."""
    columns = [_argument(batch, argument) for argument in operand.arguments]
    choice = np.full(batch.rows, len(columns) - 1, np.int64)
    for number in reversed(range(len(columns))):
        choice[columns[number].tags != NULL] = number
    return _picked(columns, choice, batch.rows)


def _picked(columns: list[AttributeColumn], choice: NDArray[np.int64], rows: int) -> Partial:
    column = chosen_rows(joined_rows(columns), choice * rows + np.arange(rows))
    return column, np.zeros(rows, np.bool_)


def _nullif(batch: EventBatch, operand: Computation) -> Partial:
    """The first argument, but null where the second equals it."""
    value, other = (_argument(batch, argument) for argument in operand.arguments)
    equal, open = truths.compared(value, "=", other)
    nothing = chosen_rows(AttributeColumn.from_values([None]), _first(batch))
    column, _ = _picked([value, nothing], (equal == truths.TRUE).astype(np.int64), batch.rows)
    return column, open


def _joined_texts(batch: EventBatch, operand: Computation) -> Partial:
    """Texts one after another; null where one is missing or none."""
    columns = [_argument(batch, argument) for argument in operand.arguments]
    texts = np.ones(batch.rows, np.bool_)
    length = np.zeros(batch.rows, np.int64)
    parts: list[Strings] = []
    for column in columns:
        texts &= column.tags == STRING
        if column.strings is not None:
            parts.append(column.strings)
            length += column.strings.ends - column.strings.starts
    if len(parts) < len(columns):
        return chosen_rows(AttributeColumn.from_values([None]), _first(batch)), np.zeros(batch.rows, np.bool_)
    ends = np.cumsum(np.where(texts, length, 0))
    data, starts = np.empty(int(ends[-1]), np.uint8), ends - np.where(texts, length, 0)
    filled = starts.copy()
    for part in parts:
        copy_texts(sealed_table(part), texts, data, filled)
    strings = Strings(data, starts, ends, texts)
    return AttributeColumn.from_strings(strings), texts & (length > MAX_TEXT)


@kernel
def copy_texts(texts: Strings, chosen: Flags, data: Bytes, filled: Longs) -> None:
    """Append the text of each chosen row to what is filled of its place in the data."""
    for row in range(len(chosen)):
        if chosen[row]:
            for at in range(texts.starts[row], texts.ends[row]):
                data[filled[row]] = texts.data[at]
                filled[row] += 1


def _condition(batch: EventBatch, operand: Computation) -> Partial:
    return column_of_truths(truths.truths_of(batch, operand.arguments[0])), np.zeros(batch.rows, np.bool_)


def _within(batch: EventBatch, operand: Computation) -> Partial | None:
    """Places in a polygon that is a literal."""
    polygon = operand.arguments[2]
    if not isinstance(polygon, str):
        return None
    latitude, longitude = (_argument(batch, argument) for argument in operand.arguments[:2])
    known = latitude.plain_numbers() & longitude.plain_numbers()
    known &= np.isfinite(latitude.numbers) & np.isfinite(longitude.numbers)
    nothing = (latitude.tags == NULL) | (longitude.tags == NULL)
    import shapely  # here, because it takes a while to load and few conditions need it

    inside = np.zeros(batch.rows, np.bool_)
    inside[known] = shapely.intersects_xy(
        read_polygon(polygon), longitude.numbers[known], latitude.numbers[known]
    )
    outcomes = np.where(known, inside.view(np.uint8) * np.uint8(truths.TRUE), np.uint8(truths.UNKNOWN))
    return column_of_truths(outcomes), ~(known | nothing)


COLUMNS: dict[str, Callable[[EventBatch, Computation], Partial | None]] = {
    **dict.fromkeys(SIGNS, _arithmetic),
    "negative": _unary(np.negative, gives_integer=False),
    "abs": _unary(np.abs, gives_integer=False),
    "floor": _unary(np.floor, gives_integer=True),
    "ceil": _unary(np.ceil, gives_integer=True),
    "year": _date_part(lambda microseconds: _months(microseconds) // 12 + 1970),
    "month": _date_part(lambda microseconds: _months(microseconds) % 12 + 1),
    "day": _date_part(_day_of_month),
    "weekday": _date_part(lambda microseconds: (microseconds // DAY + 3) % 7 + 1),
    "hour": _date_part(lambda microseconds: microseconds // 3_600_000_000 % 24),
    "minute": _date_part(lambda microseconds: microseconds // 60_000_000 % 60),
    "second": _date_part(lambda microseconds: microseconds // 1_000_000 % 60),
    "as_timestamp": _instant,
    "as_time": _as_time,
    "cast": _cast,
    "substring": _substring,
    "length": _length,
    "date": _instant,
    "concat": _joined_texts,
    "||": _joined_texts,
    "nullif": _nullif,
    "case": _case,
    "coalesce": _coalesce,
    "condition": _condition,
    "within": _within,
}
"""How an operation's column is computed by arrays, by its function."""

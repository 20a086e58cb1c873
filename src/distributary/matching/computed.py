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
    Computation,
    attributes_of_operand,
)
from distributary.filters.where.geometry import read_polygon
from distributary.filters.where.operations import MAX_TEXT
from distributary.filters.where.values import Instant
from distributary.kernel import Bytes, Flags, Longs, kernel, sealed_table
from distributary.matching import truths
from distributary.matching.arguments import Partial, argument_column, argument_name, first_rows, per_distinct
from distributary.matching.arithmetic import SIGNS, arithmetic, unary
from distributary.matching.column_making import (
    chosen_rows,
    column_of_numbers,
    column_of_truths,
    distinct_rows,
    joined_rows,
    patched,
)
from distributary.matching.columns import (
    INTEGER,
    NULL,
    OTHER,
    STRING,
    AttributeColumn,
    Strings,
)
from distributary.matching.dates import DAY, as_time, cast, date_part, day_of_month, instant, months_of
from distributary.matching.elements import containing
from distributary.matching.text_codes import TextCodes

if TYPE_CHECKING:
    from distributary.matching.batch import EventBatch

FEW = 32
"""Of so few rows each is computed by itself."""


def computed_column(batch: EventBatch, operand: Computation) -> AttributeColumn:
    """The values of an operation in all rows."""
    if not attributes_of_operand(operand) and batch.shared_arrival is not None:
        value = operand_value(operand, {NOW: Instant(batch.shared_arrival)})  # type: ignore[dict-item]
        return chosen_rows(AttributeColumn.from_values([value]), np.zeros(batch.rows, np.int64))
    compute = COLUMNS.get(operand.function, per_distinct)
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


# Texts


def _substring(batch: EventBatch, operand: Computation) -> Partial | None:
    """A part of each distinct text, by Arrow, where the places are literals."""
    argument, *places = operand.arguments
    column = argument_column(batch, argument)
    if (
        column.strings is None
        or any(type(place) is not int for place in places)
        or min(places[1:], default=0) < 0
    ):
        return per_distinct(batch, operand)
    codes = batch.codes(argument_name(argument), column)
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
    column = argument_column(batch, argument)
    if column.strings is None or not len(codes := batch.codes(argument_name(argument), column)):
        return per_distinct(batch, operand)
    lengths = pc.utf8_length(codes.array).to_numpy().astype(np.float64)
    forms = np.full(batch.rows, INTEGER, np.uint8)
    return column_of_numbers(lengths[codes.codes], forms, column.tags == STRING), column.tags == OTHER


# Choices


def _case(batch: EventBatch, operand: Computation) -> Partial:
    """The first branch whose condition is true."""
    *branches, otherwise = operand.arguments
    choice = np.full(batch.rows, len(branches) // 2, np.int64)
    for number in reversed(range(len(branches) // 2)):
        choice[truths.truths_of(batch, branches[2 * number]) == truths.TRUE] = number
    columns = [argument_column(batch, value) for value in (*branches[1::2], otherwise)]
    return _picked(columns, choice, batch.rows)


def _coalesce(batch: EventBatch, operand: Computation) -> Partial:
    """The first argument that is not null."""
    columns = [argument_column(batch, argument) for argument in operand.arguments]
    choice = np.full(batch.rows, len(columns) - 1, np.int64)
    for number in reversed(range(len(columns))):
        choice[columns[number].tags != NULL] = number
    return _picked(columns, choice, batch.rows)


def _picked(columns: list[AttributeColumn], choice: NDArray[np.int64], rows: int) -> Partial:
    column = chosen_rows(joined_rows(columns), choice * rows + np.arange(rows))
    return column, np.zeros(rows, np.bool_)


def _nullif(batch: EventBatch, operand: Computation) -> Partial:
    """The first argument, but null where the second equals it."""
    value, other = (argument_column(batch, argument) for argument in operand.arguments)
    equal, open = truths.compared(value, "=", other)
    nothing = chosen_rows(AttributeColumn.from_values([None]), first_rows(batch))
    column, _ = _picked([value, nothing], (equal == truths.TRUE).astype(np.int64), batch.rows)
    return column, open


def _joined_texts(batch: EventBatch, operand: Computation) -> Partial:
    """Texts one after another; null where one is missing or none."""
    columns = [argument_column(batch, argument) for argument in operand.arguments]
    texts = np.ones(batch.rows, np.bool_)
    length = np.zeros(batch.rows, np.int64)
    parts: list[Strings] = []
    for column in columns:
        texts &= column.tags == STRING
        if column.strings is not None:
            parts.append(column.strings)
            length += column.strings.ends - column.strings.starts
    if len(parts) < len(columns):
        return chosen_rows(AttributeColumn.from_values([None]), first_rows(batch)), np.zeros(
            batch.rows, np.bool_
        )
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


def _contains(batch: EventBatch, operand: Computation) -> Partial | None:
    """Whether arrays contain a literal."""
    array, wanted = operand.arguments
    column = argument_column(batch, array)
    found = None if column.elements is None else containing(column.elements, wanted)
    if found is None:
        return per_distinct(batch, operand)
    outcomes, left = found
    outcomes[column.tags == NULL] = truths.UNKNOWN
    return column_of_truths(outcomes), left


def _condition(batch: EventBatch, operand: Computation) -> Partial:
    return column_of_truths(truths.truths_of(batch, operand.arguments[0])), np.zeros(batch.rows, np.bool_)


def _within(batch: EventBatch, operand: Computation) -> Partial | None:
    """Places in a polygon that is a literal."""
    polygon = operand.arguments[2]
    if not isinstance(polygon, str):
        return None
    latitude, longitude = (argument_column(batch, argument) for argument in operand.arguments[:2])
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
    **dict.fromkeys(SIGNS, arithmetic),
    "negative": unary(np.negative, gives_integer=False),
    "abs": unary(np.abs, gives_integer=False),
    "floor": unary(np.floor, gives_integer=True),
    "ceil": unary(np.ceil, gives_integer=True),
    "year": date_part(lambda microseconds: months_of(microseconds) // 12 + 1970),
    "month": date_part(lambda microseconds: months_of(microseconds) % 12 + 1),
    "day": date_part(day_of_month),
    "weekday": date_part(lambda microseconds: (microseconds // DAY + 3) % 7 + 1),
    "hour": date_part(lambda microseconds: microseconds // 3_600_000_000 % 24),
    "minute": date_part(lambda microseconds: microseconds // 60_000_000 % 60),
    "second": date_part(lambda microseconds: microseconds // 1_000_000 % 60),
    "as_timestamp": instant,
    "as_time": as_time,
    "cast": cast,
    "substring": _substring,
    "length": _length,
    "date": instant,
    "concat": _joined_texts,
    "||": _joined_texts,
    "nullif": _nullif,
    "array_contains": _contains,
    "case": _case,
    "coalesce": _coalesce,
    "condition": _condition,
    "within": _within,
}
"""How an operation's column is computed by arrays, by its function."""

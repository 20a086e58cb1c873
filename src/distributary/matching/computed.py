"""Operations of conditions as columns: `arr_delay - dep_delay` or `lower(name)` for all rows at once.

An operation's column is computed when it is first asked for, by the first of these that applies:

- without attributes it is one value for all rows;
- arithmetic on numbers that doubles hold, on instants and intervals is array arithmetic, as are parts of
  dates, `case` and `coalesce` (they choose among columns), conditions, and places in polygons;
- a function of one column is computed once for each distinct value;
- everything else, and rows that the above leaves out, are computed one by one by `operand_value`, which is
  what all of them must agree with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from distributary.filters.where.evaluate import NOW, operand_value
from distributary.filters.where.expression import (
    CONDITIONS,
    AttributeReference,
    Computation,
    attributes_of_operand,
)
from distributary.filters.where.geometry import read_polygon
from distributary.filters.where.operations import FUNCTIONS, MAX_TEXT
from distributary.filters.where.values import FIRST, LAST, Duration, Instant, plain
from distributary.filters.where.write import operand_key
from distributary.kernel import Bytes, Flags, Floats, Longs, kernel, sealed_table
from distributary.matching import truths
from distributary.matching.columns import (
    BOOLEAN,
    DOUBLE,
    DURATION,
    EXACT_INTEGER,
    INSTANT,
    INTEGER,
    MICROSECOND,
    NO_FORM,
    NULL,
    NUMBER,
    STRING,
    AttributeColumn,
    Strings,
)

if TYPE_CHECKING:
    from distributary.matching.batch import EventBatch

EXACT_MICROSECONDS = 2.0**51
"""Sums of two instants or intervals below this are exact in doubles."""
DAY = 86_400_000_000
"""Microseconds of a day."""

Partial = tuple[AttributeColumn, Flags]
"""A column, and the rows that it leaves to be computed one by one."""


def computed_column(batch: EventBatch, operand: Computation) -> AttributeColumn:
    """The values of an operation in all rows."""
    if not attributes_of_operand(operand) and batch.shared_arrival is not None:
        value = operand_value(operand, {NOW: Instant(batch.shared_arrival)})  # type: ignore[dict-item]
        return _chosen(AttributeColumn.from_values([value]), np.zeros(batch.rows, np.int64))
    compute = COLUMNS.get(operand.function, _per_distinct)
    partial = compute(batch, operand)
    if partial is None:
        return AttributeColumn.from_values(_one_by_one(batch, operand, range(batch.rows)))
    column, rest = partial
    rows = np.flatnonzero(rest)
    return _patched(column, rows, _one_by_one(batch, operand, rows.tolist())) if len(rows) else column


def _one_by_one(batch: EventBatch, operand: Computation, rows: Sequence[int]) -> list[Any]:
    present = [
        (name, column.value)
        for name in attributes_of_operand(operand)
        if (column := batch.column(name)) is not None
    ]
    values = []
    for row in rows:
        attributes = {name: value(row) for name, value in present}
        attributes[NOW] = Instant(batch.arrival(row))
        values.append(operand_value(operand, attributes))
    return values


# Columns made of columns


def _argument(batch: EventBatch, argument: Any) -> AttributeColumn:
    """The column of an argument: an attribute, an operation, a condition or a literal."""
    if isinstance(argument, AttributeReference):
        column = batch.column(argument.name)
        return _chosen(AttributeColumn.from_values([None]), _first(batch)) if column is None else column
    if isinstance(argument, Computation):
        column = batch.column(operand_key(argument))
        assert column is not None, "an operation always has a column"
        return column
    if isinstance(argument, CONDITIONS):
        return _of_truths(truths.truths_of(batch, argument))
    return _chosen(AttributeColumn.from_values([argument]), _first(batch))


def _first(batch: EventBatch) -> NDArray[np.int64]:
    return np.zeros(batch.rows, np.int64)


def _chosen(column: AttributeColumn, places: NDArray[Any]) -> AttributeColumn:
    """The column that has in row i what the given one has at `places[i]`."""
    strings, hard, forms = column.strings, column.hard, column.forms
    return AttributeColumn(
        column.tags[places],
        column.numbers[places],
        None
        if strings is None
        else Strings(strings.data, strings.starts[places], strings.ends[places], strings.valid[places]),
        lambda row: column.value(int(places[row])),
        None if hard is None else hard[places],
        None if forms is None else forms[places],
    )


def _joined(columns: Sequence[AttributeColumn]) -> AttributeColumn:
    """The rows of all columns, one column after another."""
    rows = len(columns[0].tags)
    sizes = [0 if column.strings is None else len(column.strings.data) for column in columns]
    bases = np.concatenate([[0], np.cumsum(sizes)])
    nothing = np.zeros(rows, np.int64)
    texts = None
    if any(column.strings is not None for column in columns):
        parts = [(column.strings, base) for column, base in zip(columns, bases, strict=False)]
        texts = Strings(
            np.concatenate([s.data for s, _ in parts if s is not None]),
            np.concatenate([nothing if s is None else s.starts + base for s, base in parts]),
            np.concatenate([nothing if s is None else s.ends + base for s, base in parts]),
            np.concatenate([nothing.astype(np.bool_) if s is None else s.valid for s, _ in parts]),
        )
    none = np.zeros(rows, np.bool_)
    return AttributeColumn(
        np.concatenate([column.tags for column in columns]),
        np.concatenate([column.numbers for column in columns]),
        texts,
        lambda row: plain(columns[row // rows].value(row % rows)),
        None
        if all(column.hard is None for column in columns)
        else np.concatenate([none if column.hard is None else column.hard for column in columns]),
        np.concatenate([none.view(np.uint8) if c.forms is None else c.forms for c in columns]),
    )


def _patched(column: AttributeColumn, rows: NDArray[Any], values: list[Any]) -> AttributeColumn:
    """The column with these values in these rows."""
    size = len(column.tags)
    patches = _chosen(AttributeColumn.from_values(values), np.minimum(np.arange(size), len(values) - 1))
    places = np.arange(size)
    places[rows] = size + np.arange(len(rows))
    return _chosen(_joined([column, patches]), places)


def _of_truths(outcomes: Bytes) -> AttributeColumn:
    tags = np.where(outcomes == truths.UNKNOWN, np.uint8(NULL), np.uint8(BOOLEAN))
    holds = outcomes == truths.TRUE
    return AttributeColumn(
        tags,
        holds.astype(np.float64),
        None,
        lambda row: None if tags[row] == NULL else bool(holds[row]),
    )


def _of_numbers(numbers: Floats, forms: Bytes, known: Flags) -> AttributeColumn:
    """A column of numbers that doubles hold; null where not known or not finite."""
    known = known & np.isfinite(numbers)
    numbers = np.where(known, numbers, 0.0) + 0.0

    def value(row: int) -> Any:
        if not known[row]:
            return None
        return int(numbers[row]) if forms[row] == INTEGER else float(numbers[row])

    tags = np.where(known, np.uint8(NUMBER), np.uint8(NULL))
    return AttributeColumn(tags, numbers, None, value, forms=np.where(known, forms, np.uint8(NO_FORM)))


def _of_times(numbers: Floats, make: type[Instant] | type[Duration], known: Flags) -> AttributeColumn:
    """A column of instants or intervals of whole microseconds; null where not known."""
    tag = INSTANT if make is Instant else DURATION
    numbers = np.where(known, numbers, 0.0)
    return AttributeColumn(
        np.where(known, np.uint8(tag), np.uint8(NULL)),
        numbers,
        None,
        lambda row: make(int(numbers[row]) * MICROSECOND) if known[row] else None,
    )


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
    known = (column.tags == NULL) | (column.tags == STRING) | column.plain_numbers()
    known |= column.tags == BOOLEAN
    if not known.any():
        return None
    distinct, places = _distinct_values(batch, argument, column)
    values = []
    for value in distinct:
        given = [value if at == place else each for at, each in enumerate(operand.arguments)]
        values.append(None if None in given else plain(function.compute(*given)))
    return _chosen(AttributeColumn.from_values(values), places), ~known


def _distinct_values(
    batch: EventBatch, argument: Any, column: AttributeColumn
) -> tuple[list[Any], NDArray[np.int64]]:
    """Values, null the first of them, and the place of each row's value; rows of other types have null."""
    values: list[Any] = [None]
    places = np.zeros(len(column.tags), np.int64)
    if column.strings is not None:
        codes = batch.codes(_name(argument), column)
        places = np.where(codes.codes >= 0, codes.codes + len(values), 0).astype(np.int64)
        values += codes.texts
    simple = np.flatnonzero(column.plain_numbers() | (column.tags == BOOLEAN))
    if len(simple):
        bits = column.numbers[simple].view(np.int64)
        forms = np.zeros(len(simple), np.int64) if column.forms is None else column.forms[simple]
        kinds = np.where(column.tags[simple] == BOOLEAN, 3, forms)
        _, first, inverse = np.unique(np.stack([bits, kinds]), axis=1, return_index=True, return_inverse=True)
        places[simple] = inverse.reshape(-1) + len(values)
        values += [plain(column.value(row)) for row in simple[first].tolist()]
    return values, places


def _name(argument: Any) -> str:
    return argument.name if isinstance(argument, AttributeReference) else operand_key(argument)


# Arithmetic


def _arithmetic(batch: EventBatch, operand: Computation) -> Partial | None:
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
    column = _of_numbers(result, np.where(whole, np.uint8(INTEGER), np.uint8(DOUBLE)), known & ~inexact)
    nothing = (left.tags == NULL) | (right.tags == NULL)
    rest = ~(numbers | nothing) | inexact
    times = _time_arithmetic(sign, left, right)
    if times is None:
        return column, rest
    sum_, known_times = times
    return _chosen(
        _joined([column, sum_]), np.arange(batch.rows) + batch.rows * known_times
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
    whole = _has_whole_time(left) & _has_whole_time(right)
    if not whole.any():
        return None
    moments, others = left.tags == INSTANT, right.tags == INSTANT
    between = whole & moments & others if sign == "-" else np.zeros(len(whole), np.bool_)
    moved = whole & moments & ~others
    if sign == "+":
        moved |= whole & ~moments & others
    lengths = between | (whole & ~moments & ~others)
    result = SIGNS[sign](left.numbers, right.numbers)
    inside = (result * 1.0 >= FIRST // MICROSECOND) & (result <= LAST // MICROSECOND)
    columns = [_of_times(result, Duration, lengths), _of_times(result, Instant, moved & inside)]
    places = np.arange(len(whole)) + len(whole) * moved
    return _chosen(_joined(columns), places), lengths | moved


def _has_whole_time(column: AttributeColumn) -> Flags:
    times = (column.tags == INSTANT) | (column.tags == DURATION)
    small = np.abs(column.numbers) < EXACT_MICROSECONDS
    found: Flags = times & small & (column.numbers == np.floor(column.numbers))
    return found


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
        return _of_numbers(result, forms, numbers & ~large), rest

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
        return _of_numbers(result, forms, moments), ~(moments | (given.tags == NULL))

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
        return _of_times(days, Instant, moments), ~(moments | (given.tags == NULL))
    column = AttributeColumn(
        np.where(moments, given.tags, np.uint8(NULL)),
        given.numbers,
        None,
        lambda row: given.value(row) if moments[row] else None,
    )
    return column, given.tags == STRING


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
    column = _chosen(_joined(columns), choice * rows + np.arange(rows))
    return column, np.zeros(rows, np.bool_)


def _nullif(batch: EventBatch, operand: Computation) -> Partial:
    """The first argument, but null where the second equals it."""
    value, other = (_argument(batch, argument) for argument in operand.arguments)
    equal, open = truths.compared(value, "=", other)
    nothing = _chosen(AttributeColumn.from_values([None]), _first(batch))
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
        return _chosen(AttributeColumn.from_values([None]), _first(batch)), np.zeros(batch.rows, np.bool_)
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
    return _of_truths(truths.truths_of(batch, operand.arguments[0])), np.zeros(batch.rows, np.bool_)


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
    return _of_truths(outcomes), ~(known | nothing)


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

"""Columns made of other columns and of arrays: what operations for whole columns are put together from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributary.filters.where.values import Duration, Instant, TimeOfDay, plain
from distributary.kernel import Bytes, Flags, Floats, Ints, Longs, kernel
from distributary.matching.columns import (
    BOOLEAN,
    DURATION,
    INSTANT,
    INTEGER,
    MICROSECOND,
    NO_FORM,
    NULL,
    NUMBER,
    STRING,
    TIME,
    AttributeColumn,
    Elements,
    Strings,
)
from distributary.matching.text_codes import TextCodes
from distributary.matching.truths import TRUE, UNKNOWN

EXACT_MICROSECONDS = 2.0**51
"""Sums of two instants or intervals below this are exact in doubles."""
NOT_ALIKE = 255
"""The kind of a value that is taken to equal no other."""
FOLD = np.uint64(29)


def chosen_rows(column: AttributeColumn, places: NDArray[Any]) -> AttributeColumn:
    """The column that has in row i what the given one has at `places[i]`."""
    strings, hard, forms, elements = column.strings, column.hard, column.forms, column.elements
    return AttributeColumn(
        column.tags[places],
        column.numbers[places],
        None
        if strings is None
        else Strings(strings.data, strings.starts[places], strings.ends[places], strings.valid[places]),
        lambda row: column.value(int(places[row])),
        None if hard is None else hard[places],
        None if forms is None else forms[places],
        None
        if elements is None
        else Elements(elements.column, elements.starts[places], elements.ends[places]),
    )


def joined_rows(columns: Sequence[AttributeColumn]) -> AttributeColumn:
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


def patched(
    column: AttributeColumn, rows: NDArray[Any], values: Sequence[Any], places: NDArray[Any]
) -> AttributeColumn:
    """The column with other values in these rows: row `rows[i]` has `values[places[i]]`."""
    size = len(column.tags)
    of_row = np.zeros(size, np.int64)
    of_row[rows] = places
    patches = chosen_rows(AttributeColumn.from_values(values), of_row)
    taken = np.arange(size)
    taken[rows] = size + rows
    return chosen_rows(joined_rows([column, patches]), taken)


def column_of_truths(outcomes: Bytes) -> AttributeColumn:
    """A column of booleans; null where unknown."""
    tags = np.where(outcomes == UNKNOWN, np.uint8(NULL), np.uint8(BOOLEAN))
    holds = outcomes == TRUE
    return AttributeColumn(
        tags,
        holds.astype(np.float64),
        None,
        lambda row: None if tags[row] == NULL else bool(holds[row]),
    )


def column_of_numbers(numbers: Floats, forms: Bytes, known: Flags) -> AttributeColumn:
    """A column of numbers that doubles hold; null where not known or not finite."""
    known = known & np.isfinite(numbers)
    numbers = np.where(known, numbers, 0.0) + 0.0

    def value(row: int) -> Any:
        if not known[row]:
            return None
        return int(numbers[row]) if forms[row] == INTEGER else float(numbers[row])

    tags = np.where(known, np.uint8(NUMBER), np.uint8(NULL))
    return AttributeColumn(tags, numbers, None, value, forms=np.where(known, forms, np.uint8(NO_FORM)))


def column_of_day_times(nanoseconds: Floats, known: Flags) -> AttributeColumn:
    """A column of times of day; null where not known."""
    numbers = np.where(known, nanoseconds, 0.0)
    return AttributeColumn(
        np.where(known, np.uint8(TIME), np.uint8(NULL)),
        numbers,
        None,
        lambda row: TimeOfDay(int(numbers[row])) if known[row] else None,
    )


def column_of_times(numbers: Floats, make: type[Instant] | type[Duration], known: Flags) -> AttributeColumn:
    """A column of instants or intervals of whole microseconds; null where not known."""
    tag = INSTANT if make is Instant else DURATION
    numbers = np.where(known, numbers, 0.0)
    return AttributeColumn(
        np.where(known, np.uint8(tag), np.uint8(NULL)),
        numbers,
        None,
        lambda row: make(int(numbers[row]) * MICROSECOND) if known[row] else None,
    )


# Rows that hold the same


def distinct_rows(
    columns: Sequence[tuple[AttributeColumn, TextCodes | None]], rows: int
) -> tuple[Ints, Ints]:
    """Rows that have different values in these columns, and for each row its place among those.

    With a column come the codes of its texts, if it has some. Values that their doubles do not tell apart are
    taken to be different.
    """
    keys = np.zeros((2 * len(columns), rows), np.int64)
    for number, (column, codes) in enumerate(columns):
        tags = column.tags
        simple = column.plain_numbers() | (tags == BOOLEAN) | (tags == TIME) | has_whole_time(column)
        value = np.where(simple, column.numbers.view(np.int64), np.arange(rows))
        kind = np.where(simple, tags, np.uint8(NOT_ALIKE)).astype(np.int64)
        if column.forms is not None:
            kind += np.where(tags == NUMBER, column.forms.astype(np.int64) << 8, 0)
        if codes is not None:
            texts = tags == STRING
            value, kind = np.where(texts, codes.codes, value), np.where(texts, STRING, kind)
        keys[2 * number] = np.where(tags == NULL, 0, value)
        keys[2 * number + 1] = np.where(tags == NULL, NULL, kind)
    return _numbered(keys)


@kernel
def _numbered(keys: Longs) -> tuple[Ints, Ints]:
    """The rows in which each distinct combination of keys is first, and the number of each row's."""
    rows = keys.shape[1]
    size = 64
    while size < 2 * rows:
        size *= 2
    slots = np.full(size, -1, np.int32)
    first, places = np.empty(rows, np.int32), np.empty(rows, np.int32)
    count = 0
    for row in range(rows):
        code = np.uint64(0xCBF29CE484222325)
        for key in range(keys.shape[0]):
            code = (code ^ np.uint64(keys[key, row])) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> FOLD
        at = np.int64(code & np.uint64(size - 1))
        while True:
            number = slots[at]
            if number < 0:
                slots[at] = count
                first[count] = row
                places[row] = count
                count += 1
                break
            same = True
            for key in range(keys.shape[0]):
                same &= keys[key, row] == keys[key, first[number]]
            if same:
                places[row] = number
                break
            at = (at + 1) & (size - 1)
    return first[:count].copy(), places


def has_whole_time(column: AttributeColumn) -> Flags:
    """Which rows hold an instant or an interval of whole microseconds, not too many of them."""
    times = (column.tags == INSTANT) | (column.tags == DURATION)
    small = np.abs(column.numbers) < EXACT_MICROSECONDS
    found: Flags = times & small & (column.numbers == np.floor(column.numbers))
    return found

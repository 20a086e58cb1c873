"""One attribute of a batch as columns: a tag and a double for every row, texts as bytes, and the exact value.

The tag of a row says what kind of value it holds; the double is what kernels compare:

- NUMBER: the number. It may be rounded where no kernel compares it with a bound that it cannot be told from:
  whole numbers beyond 2^53 (a bound that large makes a condition uncertain, see `where.constraints`), and
  decimals of more digits than a double has. Such a decimal is *moved* to a double that lies on the right side
  of every number of 15 digits or fewer; against bounds of more digits it is *hard*, which the column tells.
- BOOLEAN: 0 or 1. INSTANT and DURATION: microseconds, with a half added to what is between two. TIME:
  nanoseconds.
- STRING: see `strings`. NULL: missing. OTHER: compares with no literal that has a range: bytes, arrays,
  objects, NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distributary.filters.change import as_float
from distributary.filters.where.values import (
    PLAIN_DIGITS,
    Duration,
    Instant,
    TimeOfDay,
    exact,
    moved_double,
    plain,
)
from distributary.kernel import Bytes, Flags, Floats, Longs

NULL, NUMBER, STRING, BOOLEAN, OTHER, INSTANT, TIME, DURATION = range(8)

MICROSECOND = 1000
EXACT_INTEGER = 2**53
"""Whole numbers up to this are doubles."""
NO_FORM, INTEGER, DOUBLE = range(3)
"""How a number is given: otherwise (a decimal, a large integer), or by the double that stands for it."""
EXACT_POWER = 22
"""Powers of ten up to this are doubles, so that dividing by them rounds once."""


class Strings(NamedTuple):
    """Text of every row as bytes: row i is `data[starts[i]:ends[i]]`; a null row is empty and not valid."""

    data: Bytes
    starts: Longs
    ends: Longs
    valid: Flags

    @classmethod
    def from_arrow(cls, array: pa.Array) -> Strings:
        """The texts of an Arrow array, read in place; other types are cast to strings."""
        wide = pa.types.is_large_string(array.type)
        if not wide and not pa.types.is_string(array.type):
            array, wide = array.cast(pa.large_string()), True
        _, offset_buffer, data_buffer = array.buffers()
        width = np.int64 if wide else np.int32
        offsets = np.frombuffer(offset_buffer, width)[array.offset : array.offset + len(array) + 1].astype(
            np.int64
        )
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.empty(0, np.uint8)
        return cls(data, offsets[:-1], offsets[1:], validity(array))

    @classmethod
    def from_texts(cls, texts: Sequence[str | None]) -> Strings | None:
        """The texts in bytes; None when there is no text in any row."""
        if len(texts) == 1:
            return cls.of_text(texts[0])
        return None if all(text is None for text in texts) else cls.of_texts(texts)

    @classmethod
    def of_texts(cls, texts: Sequence[str | None]) -> Strings:
        """The texts in bytes."""
        valid = np.array([text is not None for text in texts], np.bool_)
        encoded = [text.encode() if text else b"" for text in texts]
        ends = np.cumsum(np.array([len(text) for text in encoded], np.int64))
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), starts, ends, valid)

    @classmethod
    def of_text(cls, text: str | None) -> Strings | None:
        """One text, in the only row; None when there is none."""
        if text is None:
            return None
        data = np.frombuffer(text.encode(), np.uint8)
        return cls(data, np.zeros(1, np.int64), np.full(1, len(data), np.int64), np.ones(1, np.bool_))

    def text(self, row: int) -> str | None:
        """The text of a row; None when it is null."""
        if not self.valid[row]:
            return None
        return self.data[self.starts[row] : self.ends[row]].tobytes().decode()


class ArrowValues:
    """From a row of an Arrow array to its value; and all of them at once, which is faster than one by one."""

    __slots__ = ("_array",)

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def __call__(self, row: int) -> Any:
        return self._array[row].as_py()

    def all(self) -> list[Any]:
        """The values of all rows."""
        return list(self._array.to_pylist())


class Elements(NamedTuple):
    """The elements of every row's array: row i has those from `starts[i]` to `ends[i]` of a column.

    A row that is null has none.
    """

    column: Callable[[], AttributeColumn]
    starts: Longs
    ends: Longs

    @classmethod
    def from_arrow(cls, array: pa.ListArray | pa.LargeListArray) -> Elements:
        """The elements of Arrow's lists, read in place."""
        offsets = array.offsets.to_numpy().astype(np.int64)
        values, valid = array.values, validity(array)
        starts = offsets[:-1]
        return cls(lambda: AttributeColumn.from_arrow(values), starts, np.where(valid, offsets[1:], starts))


class AttributeColumn(NamedTuple):
    """One attribute of every row."""

    tags: Bytes
    """What each row holds: NULL, NUMBER, STRING, BOOLEAN, OTHER, INSTANT, TIME or DURATION."""
    numbers: Floats
    """What kernels compare; 0 for what is no number, boolean or time."""
    strings: Strings | None
    """The texts where there are any; None when no row holds one."""
    value: Callable[[int], Any]
    """From a row to its value itself, exact whatever its size."""
    hard: Flags | None = None
    """The rows whose number only its value tells from bounds of more than 15 digits; None for none."""
    forms: Bytes | None = None
    """Where the tag is NUMBER: INTEGER or DOUBLE when `numbers` has the very number, else NO_FORM. None when
    it has none of those."""
    elements: Elements | None = None
    """The elements of the rows' arrays, where all that are not null are arrays and that is known."""

    def plain_numbers(self) -> Flags:
        """Which rows hold a number that its double is: an integer or a double, exactly."""
        if self.forms is None:
            return np.zeros(len(self.tags), np.bool_)
        found: Flags = (self.tags == NUMBER) & (self.forms != NO_FORM)
        return found

    def values(self) -> list[Any]:
        """The values of all rows, at once where they are integers or doubles throughout, or Arrow's."""
        rows = len(self.tags)
        if self.forms is not None and rows and (self.tags == NUMBER).all():
            form = self.forms[0]
            if form != NO_FORM and (self.forms == form).all():
                exactly = self.numbers.astype(np.int64) if form == INTEGER else self.numbers
                found: list[Any] = exactly.tolist()
                return found
        if isinstance(self.value, ArrowValues):
            return self.value.all()
        return [self.value(row) for row in range(rows)]

    @classmethod
    def from_arrow(cls, array: pa.Array) -> AttributeColumn:
        """The column of an Arrow array."""
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_run_end_encoded(array.type):
            array = pa.compute.run_end_decode(array)
        kind = array.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return _of_numbers(array)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
            return cls.from_strings(Strings.from_arrow(array), ArrowValues(array))
        if pa.types.is_decimal(kind):
            return _of_decimals(array)
        valid = validity(array)
        numbers = np.zeros(len(array), np.float64)
        tag = OTHER
        is_object = pa.types.is_struct(kind)  # its attributes have columns of their own

        def value(row: int) -> Any:
            if is_object:
                return {} if valid[row] else None
            return _plain(array[row].as_py())

        if pa.types.is_boolean(kind):
            tag = BOOLEAN
            numbers = _filled(array, False).astype(np.float64)
        elif pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
            return _of_times(array, valid)
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        elements = Elements.from_arrow(array) if is_list else None
        return cls(tagged(valid, tag), numbers, None, value, elements=elements)

    @classmethod
    def from_strings(cls, strings: Strings, value: Callable[[int], Any] | None = None) -> AttributeColumn:
        """The column of texts."""
        tags = tagged(strings.valid, STRING)
        return cls(tags, np.zeros(len(tags), np.float64), strings, value or strings.text)

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> AttributeColumn:
        """The column of Python values, one a row; None where an event does not have the attribute."""
        kinds = set(map(type, values)) - {type(None)}
        if kinds == {str}:
            return cls.from_strings(Strings.of_texts(values), values.__getitem__)
        if kinds == {float}:
            return _of_doubles(values)
        if kinds == {int}:
            with suppress(OverflowError):  # what 64 bits do not hold is taken one by one
                return _of_integers(values)
        values = [plain(value) for value in values]
        tags = np.fromiter(map(tag_of, values), np.uint8, len(values))
        numbers = np.fromiter(map(number_of_value, values), np.float64, len(values))
        hard = np.fromiter(map(is_hard, values), np.bool_, len(values))
        texts = [value if isinstance(value, str) else None for value in values]
        forms = np.fromiter(map(form_of, values), np.uint8, len(values))
        strings = Strings.from_texts(texts)
        return cls(tags, numbers, strings, values.__getitem__, hard if hard.any() else None, forms)


_TAGS: dict[type, int] = {
    type(None): NULL,
    bool: BOOLEAN,
    int: NUMBER,
    float: NUMBER,
    Decimal: NUMBER,
    str: STRING,
    Instant: INSTANT,
    TimeOfDay: TIME,
    Duration: DURATION,
}


def tag_of(value: Any) -> int:
    """How a plain value is tagged. NaN compares with nothing, so it counts as something else."""
    if type(value) is float and value != value:
        return OTHER
    return _TAGS.get(type(value), OTHER)


def form_of(value: Any) -> int:
    """How a plain value is given as a number: NO_FORM, INTEGER or DOUBLE."""
    if type(value) is float:
        return DOUBLE
    return INTEGER if type(value) is int and -EXACT_INTEGER < value < EXACT_INTEGER else NO_FORM


def number_of_value(value: Any) -> float:
    """The double that kernels compare for a plain value."""
    match value:
        case Decimal():
            return moved_double(value)
        case int() | float():
            return as_float(value) if value == value else 0.0
        case Instant() | Duration():
            return microseconds(value.nanoseconds)
        case TimeOfDay():
            return float(value.nanoseconds)
    return 0.0


def microseconds(nanoseconds: int) -> float:
    """Nanoseconds as a double: whole microseconds as they are, all between two as the half between them."""
    whole, rest = divmod(nanoseconds, MICROSECOND)
    return whole + (0.5 if rest else 0.0)


def is_hard(value: Any) -> bool:
    """Whether a value is a decimal that no double is written as."""
    return type(value) is Decimal and exact(float(value)) != value


def _of_numbers(array: pa.Array) -> AttributeColumn:
    """The column of Arrow's integers or floats."""
    numbers = _filled(array, 0).astype(np.float64)
    tags = repeated(NUMBER, len(numbers))
    if pa.types.is_floating(array.type):
        forms = repeated(DOUBLE, len(numbers))
        tags[np.isnan(numbers)] = OTHER
    else:
        forms = repeated(INTEGER, len(numbers))
        if array.type.bit_width > 32:
            forms[np.abs(numbers) >= EXACT_INTEGER] = NO_FORM
    if array.null_count:
        tags[~validity(array)] = NULL
    return AttributeColumn(tags, numbers, None, ArrowValues(array), forms=forms)


def _of_doubles(values: Sequence[float | None]) -> AttributeColumn:
    """The column of doubles, of which some may be missing."""
    numbers = np.array(values, np.float64)  # None becomes NaN
    tags = repeated(NUMBER, len(values))
    odd = np.flatnonzero(np.isnan(numbers))
    if len(odd):
        tags[odd] = [NULL if values[row] is None else OTHER for row in odd.tolist()]
        numbers[odd] = 0.0
    forms = repeated(DOUBLE, len(values))
    return AttributeColumn(tags, numbers, None, values.__getitem__, forms=forms)


def _of_integers(values: Sequence[int | None]) -> AttributeColumn:
    """The column of integers, of which some may be missing; OverflowError when one has more than 64 bits."""
    numbers = np.array([0 if value is None else value for value in values], np.int64).astype(np.float64)
    tags, forms = repeated(NUMBER, len(values)), repeated(INTEGER, len(values))
    forms[np.abs(numbers) >= EXACT_INTEGER] = NO_FORM
    if None in values:
        tags[[value is None for value in values]] = NULL
    return AttributeColumn(tags, numbers, None, values.__getitem__, forms=forms)


def _of_decimals(array: pa.Array) -> AttributeColumn:
    """Decimals by their unscaled integers, where those are small; the others one by one."""
    valid = validity(array)
    tags = tagged(valid, NUMBER)

    def value(row: int) -> Any:
        return array[row].as_py()

    scale, width = array.type.scale, array.type.byte_width
    words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, width // 8) if width in (16, 32) else None
    if words is None or not 0 <= scale <= EXACT_POWER:
        return AttributeColumn.from_values([value(row) for row in range(len(array))])
    words = words[array.offset : array.offset + len(array)]
    unscaled = words[:, 0]
    small = (np.abs(unscaled) < 10**PLAIN_DIGITS) & (words[:, 1:] == (unscaled >> 63)[:, None]).all(axis=1)
    numbers = np.where(small & valid, unscaled, 0) / 10.0**scale
    large = np.flatnonzero(valid & ~small)
    if not len(large):
        return AttributeColumn(tags, numbers, None, value)
    exactly = [value(row) for row in large.tolist()]
    numbers[large] = [moved_double(each) for each in exactly]
    hard = np.zeros(len(array), np.bool_)
    hard[large] = [is_hard(each) for each in exactly]
    return AttributeColumn(tags, numbers, None, value, hard if hard.any() else None)


_UNITS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}


def _of_times(array: pa.Array, valid: Flags) -> AttributeColumn:
    """Dates, timestamps, times and durations by the integers that they are."""
    kind = array.type
    if pa.types.is_date(kind):
        array = array.cast(pa.timestamp("s" if pa.types.is_date32(kind) else "ms"))
        kind = array.type
    unit = _UNITS[kind.unit]
    integers = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    raw = _filled(integers, 0).astype(np.int64)
    make: Any = (
        Instant if pa.types.is_timestamp(kind) else Duration if pa.types.is_duration(kind) else TimeOfDay
    )
    if make is TimeOfDay:
        numbers, tag = raw.astype(np.float64) * unit, TIME
    elif unit < MICROSECOND:
        numbers, tag = (
            np.floor_divide(raw, 1000) + 0.5 * (raw % 1000 != 0),
            INSTANT if make is Instant else DURATION,
        )
    else:
        numbers, tag = (
            raw.astype(np.float64) * (unit // MICROSECOND),
            INSTANT if make is Instant else DURATION,
        )

    def value(row: int) -> Any:
        return make(int(raw[row]) * unit) if valid[row] else None

    return AttributeColumn(tagged(valid, tag), numbers, None, value)


def tagged(valid: Flags, tag: int) -> Bytes:
    """The tags of rows of which the valid ones have this tag; the others are NULL, which is 0."""
    tags: Bytes = valid.view(np.uint8) * np.uint8(tag)
    return tags


def repeated(byte: int, rows: int) -> Bytes:
    """The same byte for each row: for a small batch, several times as fast as `np.full`."""
    same: Bytes = np.empty(rows, np.uint8)
    same.fill(byte)
    return same


def validity(array: pa.Array) -> Flags:
    """Which rows of an Arrow array are not null."""
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    valid: Flags = array.is_valid().to_numpy(zero_copy_only=False).copy()
    return valid


def _filled(array: pa.Array, value: object) -> NDArray[Any]:
    filled: NDArray[Any] = (array.fill_null(value) if array.null_count else array).to_numpy(
        zero_copy_only=False
    )
    return filled


def _plain(value: Any) -> Any:
    """An Arrow value as an event carries it: lists become tuples, maps become objects."""
    if isinstance(value, list):
        if value and all(isinstance(each, tuple) and len(each) == 2 for each in value):
            return dict(value)
        return tuple(value)
    return {} if isinstance(value, Mapping) and not value else value

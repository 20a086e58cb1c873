"""Rows of an Arrow table as the kernels read them, made in one call.

For a few rows this spares the making of columns, which costs more than the search.

A *plain* column is one of Arrow's numbers, booleans or texts, whose buffers a kernel reads in place. Its
*words* say where they are, as those of bound arrays do (see `bound`): four pairs of an address and a length,
of its values or offsets, the bytes of its texts, its bits of validity; and last the attribute's number in the
segment, and the kind of the column with the place where it begins. Who calls a kernel with these holds on to
the arrays meanwhile.

What the rows hold is what `columns` and `constraints.encode` make of the same arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from distributary.kernel import Bytes, Floats, Longs, inlined
from distributary.matching.batch import EventBatch
from distributary.matching.bound import WORDS, array_at
from distributary.matching.columns import BOOLEAN, NULL, NUMBER, OTHER, STRING
from distributary.matching.where.constraints import Rows
from distributary.matching.where.texts import Texts, rank_text

PAIRS = 4
"""Pairs of words of a column."""
KIND_BITS = 4
"""Bits of a column's last word that hold its kind; above them is the place where it begins."""
KIND = (1 << KIND_BITS) - 1

DOUBLES, FLOATS, LONGS, INTS, SHORTS, BYTES = range(6)
UNSIGNED_LONGS, UNSIGNED_INTS, UNSIGNED_SHORTS, UNSIGNED_BYTES = range(6, 10)
BITS, TEXTS, LARGE_TEXTS = range(10, 13)
"""Kinds of plain columns."""

_PLAIN: dict[int, tuple[int, DTypeLike]] = {
    pa.float64().id: (DOUBLES, np.float64),
    pa.float32().id: (FLOATS, np.float32),
    pa.int64().id: (LONGS, np.int64),
    pa.int32().id: (INTS, np.int32),
    pa.int16().id: (SHORTS, np.int16),
    pa.int8().id: (BYTES, np.int8),
    pa.uint64().id: (UNSIGNED_LONGS, np.uint64),
    pa.uint32().id: (UNSIGNED_INTS, np.uint32),
    pa.uint16().id: (UNSIGNED_SHORTS, np.uint16),
    pa.uint8().id: (UNSIGNED_BYTES, np.uint8),
    pa.bool_().id: (BITS, np.uint8),
    pa.string().id: (TEXTS, np.int32),
    pa.large_string().id: (LARGE_TEXTS, np.int64),
}
_SIZES = {kind: np.dtype(type).itemsize for kind, type in _PLAIN.values()}


def plain_columns(numbers: Mapping[str, int], batch: EventBatch) -> Longs | None:
    """The words of the attributes that the batch has, of those with a number; None when some is not plain."""
    arrays = batch.arrays
    words: list[int] = []
    for name in batch.attributes:
        number = numbers.get(name)
        if number is not None:
            array = arrays.get(name)
            column = None if array is None else _words(array, number)
            if column is None:
                return None
            words += column
    return np.array(words, np.int64)


def _words(array: pa.Array, number: int) -> tuple[int, ...] | None:
    """The words of a column; None when it is not plain, or not aligned, or has nothing at all."""
    kind = _PLAIN.get(array.type.id)
    if kind is None:
        return None
    validity, values, *texts = array.buffers()
    if values is None or values.address % _SIZES[kind[0]]:
        return None
    data = texts[0] if texts else None
    return (
        *(values.address, values.size // _SIZES[kind[0]]),
        *((0, 0) if data is None else (data.address, data.size)),
        *((0, 0) if validity is None else (validity.address, validity.size)),
        *(number, array.offset << KIND_BITS | kind[0]),
    )


@inlined
def plain_rows(texts: Texts, columns: Longs, count: int) -> Rows:
    """The first `count` rows of these columns; `texts` are those that conditions name."""
    places = len(columns) // (PAIRS * WORDS)
    tags = np.zeros((count, places + 1), np.uint8)
    values = np.zeros((count, places + 1), np.float64)
    where = np.zeros(len(texts.first) - 1, np.int32)
    for at in range(places):
        pair, place = PAIRS * at, at + 1
        attribute = columns[WORDS * (pair + 3)]
        kind, begin = columns[WORDS * (pair + 3) + 1] & KIND, columns[WORDS * (pair + 3) + 1] >> KIND_BITS
        where[attribute] = place
        _put_tags(array_at(columns, pair + 2, np.uint8), begin, _tag_of(kind), tags, place)
        if kind == DOUBLES:
            _put_numbers(array_at(columns, pair, np.float64), begin, tags, values, place)
        elif kind == FLOATS:
            _put_numbers(array_at(columns, pair, np.float32), begin, tags, values, place)
        elif kind == LONGS:
            _put_numbers(array_at(columns, pair, np.int64), begin, tags, values, place)
        elif kind == INTS:
            _put_numbers(array_at(columns, pair, np.int32), begin, tags, values, place)
        elif kind == SHORTS:
            _put_numbers(array_at(columns, pair, np.int16), begin, tags, values, place)
        elif kind == BYTES:
            _put_numbers(array_at(columns, pair, np.int8), begin, tags, values, place)
        elif kind == UNSIGNED_LONGS:
            _put_numbers(array_at(columns, pair, np.uint64), begin, tags, values, place)
        elif kind == UNSIGNED_INTS:
            _put_numbers(array_at(columns, pair, np.uint32), begin, tags, values, place)
        elif kind == UNSIGNED_SHORTS:
            _put_numbers(array_at(columns, pair, np.uint16), begin, tags, values, place)
        elif kind == UNSIGNED_BYTES:
            _put_numbers(array_at(columns, pair, np.uint8), begin, tags, values, place)
        elif kind == BITS:
            _put_bits(array_at(columns, pair, np.uint8), begin, tags, values, place)
        else:
            data = array_at(columns, pair + 1, np.uint8)
            if kind == TEXTS:
                offsets = array_at(columns, pair, np.int32)
                _put_ranks(texts, attribute, data, offsets, begin, tags, values, place)
            else:
                large_offsets = array_at(columns, pair, np.int64)
                _put_ranks(texts, attribute, data, large_offsets, begin, tags, values, place)
    return Rows(tags, values, where)


@inlined
def _tag_of(kind: Any) -> Any:
    """The tag of the values of a column of this kind."""
    return BOOLEAN if kind == BITS else STRING if kind >= TEXTS else NUMBER


@inlined
def _bit(bits: Bytes, place: Any) -> Any:
    """The bit at a place of Arrow's bits, the lowest of a byte first."""
    return bits[place >> 3] >> np.uint8(place & 7) & 1


@inlined
def _put_tags(validity: Bytes, begin: Any, tag: Any, tags: Bytes, place: Any) -> None:
    """Write the tag of each row: NULL, which is there already, where the bits of validity say so."""
    for row in range(len(tags)):
        if len(validity) == 0 or _bit(validity, begin + row):
            tags[row, place] = tag


@inlined
def _put_numbers(numbers: Any, begin: Any, tags: Bytes, values: Floats, place: Any) -> None:
    """Write the doubles of numbers; a NaN compares with nothing."""
    for row in range(len(tags)):
        if tags[row, place] != NULL:
            number = np.float64(numbers[begin + row])
            if number == number:
                values[row, place] = number + 0.0
            else:
                tags[row, place] = OTHER


@inlined
def _put_bits(bits: Bytes, begin: Any, tags: Bytes, values: Floats, place: Any) -> None:
    for row in range(len(tags)):
        if tags[row, place] != NULL:
            values[row, place] = np.float64(_bit(bits, begin + row))


@inlined
def _put_ranks(
    texts: Texts,
    attribute: Any,
    data: Bytes,
    offsets: Any,
    begin: Any,
    tags: Bytes,
    values: Floats,
    place: Any,
) -> None:
    """Write the ranks of texts among those that conditions name."""
    for row in range(len(tags)):
        if tags[row, place] != NULL:
            start, end = np.int64(offsets[begin + row]), np.int64(offsets[begin + row + 1])
            values[row, place] = rank_text(texts, attribute, data, start, end)

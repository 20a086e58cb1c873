"""Texts copied next to each other, in the order in which they are asked for: by number, or by key.

Texts lie all over a large buffer, so each step asks for what the next will read; and they are copied eight
bytes at a time. What is joined with separators is one text, which Python divides into many in one call: that
is faster than making one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from distributary.kernel import Bytes, Ints, Longs, inlined, kernel, sealed
from distributary.matching.memory import WORD, load_word, prefetch, store_word

EXPECTED = 24
"""Bytes that are made room for, for each text of one event; more are made when they are needed."""

NUMBER_BITS = 32
"""Bits of a *key* that hold the number of a text; above them is its rank, so that keys sort as texts do."""

NUMBER = (1 << NUMBER_BITS) - 1
"""The bits of a key that are the number."""


def take_texts(numbers: Ints, offsets: Longs, data: Bytes) -> tuple[Longs, Bytes]:
    """The offsets and bytes of the texts of these numbers; behind the last are bytes of no meaning."""
    # The arrays are NumPy's, which asks for large pages: they are much faster to get than those of kernels.
    ends = np.empty(len(numbers) + 1, np.int64)
    _add_lengths(numbers, offsets, data, ends)
    taken = np.empty(int(ends[-1]) + WORD, np.uint8)
    _copy_texts(numbers, offsets, data, ends, taken)
    return ends, taken


def take_array(texts: pa.Array, numbers: Ints) -> pa.Array:
    """The texts at these places of an Arrow array of large strings without nulls."""
    _, offsets, data = texts.buffers()
    first, last = texts.offset, texts.offset + len(texts) + 1
    starts = sealed(np.frombuffer(offsets, np.int64)[first:last]) if len(texts) else np.zeros(1, np.int64)
    return texts_array(*take_texts(sealed(numbers), starts, sealed(np.frombuffer(data or b"", np.uint8))))


@kernel
def copied_texts(numbers: Ints, offsets: Longs, data: Bytes) -> tuple[Longs, Bytes]:
    """What `take_texts` gives, for kernels that name a few."""
    for number in numbers:
        prefetch(offsets, number)
    ends = np.empty(len(numbers) + 1, np.int64)
    _add_lengths(numbers, offsets, data, ends)
    taken = np.empty(ends[-1] + WORD, np.uint8)
    _copy_texts(numbers, offsets, data, ends, taken)
    return ends, taken


def texts_array(offsets: Longs, data: Bytes) -> pa.Array:
    """Texts with these offsets and bytes as an Arrow array of large strings."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)


@kernel
def _add_lengths(numbers: Ints, offsets: Longs, data: Bytes, ends: Longs) -> None:
    """Write where each text ends if they lie one after another."""
    ends[0] = total = np.int64(0)
    for at in range(len(numbers)):
        number = np.uint64(numbers[at])
        start = offsets[number]
        prefetch(data, start)
        total += offsets[number + np.uint64(1)] - start
        ends[at + 1] = total


@kernel
def _copy_texts(numbers: Ints, offsets: Longs, data: Bytes, ends: Longs, taken: Bytes) -> None:
    for at in range(len(numbers)):
        _copy(data, offsets[numbers[at]], taken, ends[at], ends[at + 1])


@inlined
def _copy(data: Bytes, start: Any, taken: Bytes, to: Any, end: Any) -> None:
    """Copy what starts there to these places; a word behind the end may be written to as well."""
    if start + end - to + WORD <= len(data):
        while to < end:  # what is written beyond the end is overwritten by the next
            store_word(taken, to, load_word(data, start))
            to += WORD
            start += WORD
    while to < end:
        taken[to] = data[start]
        to += 1
        start += 1


@inlined
def join_texts(offsets: Longs, data: Bytes, keys: Longs, separator: Any, joined: Bytes) -> Any:
    """Write the texts of these keys, each with a separator behind it, if there is room; how long they are.

    If there is not, that is told with the word more that copying needs.
    """
    for key in keys:
        prefetch(offsets, np.int32(key))
    length = len(keys)
    for key in keys:
        number = np.int32(key)
        start, end = offsets[number], offsets[number + 1]
        prefetch(data, start)
        length += end - start
    if length + WORD > len(joined):
        return length + WORD
    to = 0
    for key in keys:
        number = np.int32(key)
        start, end = offsets[number], offsets[number + 1]
        _copy(data, start, joined, to, to + end - start)
        to += end - start
        joined[to] = separator
        to += 1
    return length


def divided(joined: Bytes, length: int, separator: int) -> list[str]:
    """The texts that `join_texts` wrote."""
    return str(joined.data[: length - 1], "utf-8").split(chr(separator))

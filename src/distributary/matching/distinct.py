"""Distinct texts by number, in arrays: for building, where a dictionary of a million texts would weigh more
than all that is built.

The texts lie one after another in one buffer, in the order in which they were first met; a hash table of
their numbers finds them. The hash only says where to look: bytes decide.

Cost: O(bytes) a text, amortised. Space: the bytes, 8 for where a text ends, and 8 to 16 for the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distributary.kernel import Bytes, Ints, Longs, hash_bytes, kernel, same_text, sealed
from distributary.matching.growing import paged, with_room
from distributary.matching.index import Arrays

FREE = -1
FOLD = np.uint64(32)
FIRST_TEXTS, FIRST_BYTES = 64, 1024


class DistinctTexts:
    """Numbers texts, given as bytes of UTF-8, from 0 on; equal texts have one number.

    >>> texts = DistinctTexts()
    >>> data = np.frombuffer(b"abab", np.uint8)
    >>> texts.number(data, np.array([0, 1, 2, 0]), np.array([1, 2, 3, 4])).tolist()
    [0, 1, 0, 2]
    """

    def __init__(self) -> None:
        self._offsets: Longs = np.zeros(FIRST_TEXTS + 1, np.int64)
        self._bytes: Bytes = np.empty(FIRST_BYTES, np.uint8)
        self._table: Ints = np.full(2 * FIRST_TEXTS, FREE, np.int32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def number(self, data: Bytes, starts: Longs, ends: Longs) -> Ints:
        """The number of each text `data[start:end]`; those that are new get the next ones, in order."""
        self._reserve(len(starts), int((ends - starts).sum()))
        numbers = np.empty(len(starts), np.int32)
        self._count = _number(
            sealed(data),
            sealed(starts.astype(np.int64, copy=False)),
            sealed(ends.astype(np.int64, copy=False)),
            self._offsets,
            self._bytes,
            self._table,
            self._count,
            numbers,
        )
        return numbers

    def texts(self) -> list[str]:
        """All texts, by number."""
        return [self.text(number) for number in range(self._count)]

    def text(self, number: int) -> str:
        """One of the texts."""
        return self._bytes[self._offsets[number] : self._offsets[number + 1]].tobytes().decode()

    def packed(self) -> Arrays:
        """The texts as `frozen.pack_texts` has them. No text may be new after that."""
        offsets = self._offsets[: self._count + 1]
        return {"offsets": offsets, "bytes": self._bytes[: offsets[-1]]}

    def _reserve(self, texts: int, size: int) -> None:
        """Have room for so many texts more, of so many bytes, even if all are new."""
        needed, used = self._count + texts, int(self._offsets[self._count])
        self._offsets = with_room(self._offsets, self._count + 1, needed + 1)
        self._bytes = with_room(self._bytes, used, used + size)
        if 2 * needed > len(self._table):
            self._table = paged(1 << (2 * needed - 1).bit_length(), np.int32)
            self._table.fill(FREE)
            _enter(self._offsets, self._bytes, self._table, self._count)


@kernel
def _home(data: Bytes, start: int, end: int, size: int) -> Any:
    """Where to look first for a text in a table of this size, a power of two."""
    value = hash_bytes(data, start, end)
    return np.int64((value ^ (value >> FOLD)) & np.uint64(size - 1))


@kernel
def _number(
    data: Bytes,
    starts: Longs,
    ends: Longs,
    offsets: Longs,
    held: Bytes,
    table: Ints,
    count: int,
    numbers: Ints,
) -> int:
    """Write the number of each text; returns how many texts there are then."""
    for at in range(len(starts)):
        start, end = starts[at], ends[at]
        place = _home(data, start, end, len(table))
        number = table[place]
        while number != FREE and not same_text(held, offsets[number], offsets[number + 1], data, start, end):
            place = (place + 1) & (len(table) - 1)
            number = table[place]
        if number == FREE:
            number = count
            table[place] = number
            used = offsets[count]
            for byte in range(end - start):
                held[used + byte] = data[start + byte]
            count += 1
            offsets[count] = used + end - start
        numbers[at] = number
    return count


@kernel
def _enter(offsets: Longs, held: Bytes, table: Ints, count: int) -> None:
    """Enter the texts, which differ, into an empty table."""
    for number in range(count):
        place = _home(held, offsets[number], offsets[number + 1], len(table))
        while table[place] != FREE:
            place = (place + 1) & (len(table) - 1)
        table[place] = number

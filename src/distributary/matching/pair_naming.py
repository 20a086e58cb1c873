"""The ids and subscribers of the matches of a small batch, in their order, by one kernel.

What `naming` does for the slots of one event this does for pairs of a row and a slot. Pairs with a slot that
has no key take the longer way, as do very many pairs, for which a kernel's call costs little.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from distributary.kernel import Bytes, Ints, Longs, kernel
from distributary.matching.bound import BoundArrays, array_at
from distributary.matching.index import Pairs
from distributary.matching.joining import NUMBER, NUMBER_BITS, copied_texts, texts_array
from distributary.matching.memory import prefetch
from distributary.matching.names import NameTable
from distributary.matching.naming import NONE, SHORT, SlotIds, bound_ids, fetch_keys, put_keys
from distributary.matching.order import WORD_BITS, sort_words

MOST = 1 << 14
"""Up to so many pairs are named by one kernel."""

NamedPairs = tuple[Ints, pa.Array, pa.Array]
"""Rows, ids and subscribers of matches, as those of `matcher.Matches`."""


class PairNames:
    """What kernels read of the registry to name pairs.

    It holds while `of`, the slots' keys that it was made of, does, the array is the same that has the number
    of each subscription's subscriber, and these names have the same base, which `bases` says.
    """

    __slots__ = ("_bits", "_bound", "bases", "of")

    def __init__(self, of: SlotIds, subscriber_of: Ints, subscribers: NameTable) -> None:
        self.of, self.bases = of, subscribers.bases
        self._bits = len(of.names).bit_length()
        self._bound = BoundArrays([(subscriber_of, np.int32), *subscribers.base()])

    def named(self, pairs: Pairs, rows: int) -> NamedPairs | None:
        """The matches of these pairs of a batch of so many rows; None when that takes the longer way."""
        row_bits = rows.bit_length()
        if not 0 < len(pairs.rows) <= MOST or row_bits + 2 * self._bits > WORD_BITS:
            return None
        found = _named(self.of.words, self._bound.words, pairs.rows, pairs.slots, self._bits, row_bits)
        if not found[0]:
            return None
        _, out_rows, offsets, data, subscriber_offsets, subscriber_data = found
        return out_rows, texts_array(offsets, data), texts_array(subscriber_offsets, subscriber_data)


@kernel
def _named(
    ids_words: Longs, words: Longs, rows: Ints, slots: Ints, bits: int, row_bits: int
) -> tuple[bool, Ints, Longs, Bytes, Longs, Bytes]:
    """Whether nothing takes the longer way; the rows, and the texts of ids and subscribers, in order."""
    ids, keys = bound_ids(ids_words), np.empty(2 * len(slots) + SHORT, np.int64)
    fetch_keys(ids, slots)
    count = 0
    for at in range(len(slots)):
        before, count = count, put_keys(ids, slots[at], keys, count)
        if count == NONE:
            break
        for place in range(before, count):  # from a key to a word with the row in front
            ranked = np.int64(rows[at]) << bits | keys[place] >> NUMBER_BITS
            keys[place] = ranked << bits | keys[place] & NUMBER
    known, count = count != NONE, max(count, 0)
    out_rows, numbers, codes = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int32)
    sort_words(keys[:count], np.empty(count, np.int64), bits, row_bits + bits, bits, out_rows, numbers)
    subscriber_of, offsets = array_at(words, 0, np.int32), array_at(words, 1, np.int64)
    for number in numbers:
        prefetch(subscriber_of, number)
    for at in range(count):
        codes[at] = subscriber_of[numbers[at]]
        known &= codes[at] < len(offsets) - 1
    codes = codes if known else codes[:0]
    names = copied_texts(numbers, ids.offsets, ids.data)
    subscribers = copied_texts(codes, offsets, array_at(words, 2, np.uint8))
    return known, out_rows, names[0], names[1], subscribers[0], subscribers[1]

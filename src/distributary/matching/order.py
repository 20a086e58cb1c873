"""Pairs in the order in which answers are given: by event, then by subscription id."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from distributary.kernel import Ints, Longs, kernel, sealed
from distributary.matching.index import Pairs

WORD_BITS = 63
"""Bits of a whole number that stands for a pair."""
DIGIT = 11
"""Bits by which they are sorted at a time: as many counters as the processor's nearest cache holds."""
MANY = 1 << 9
"""So many places are worth a kernel."""
SPARSE = 16
"""Numbers are sorted by comparing them when fewer than one in so many possible ones is there."""


def by_row(pairs: Pairs, rows: int) -> Pairs:
    """The pairs with ascending rows; pairs of one row keep their order. O(pairs + rows)."""
    if len(pairs.rows) < 2 or bool(np.all(pairs.rows[1:] >= pairs.rows[:-1])):
        return pairs
    order, _ = buckets(pairs.rows, rows)
    return Pairs(pairs.rows[order], pairs.slots[order])


def by_row_and_rank(pairs: Pairs, ranks: Callable[[Ints], Longs], rows: int) -> Pairs:
    """The pairs by row, and within a row by the ranks that their numbers have. O(pairs + rows).

    Where rows have a good part of all numbers, `placing` is the faster way.
    """
    if not len(pairs.rows):
        return pairs
    return _by_words(pairs, ranks(pairs.slots), rows, int(pairs.slots.max()))


def _by_words(pairs: Pairs, ranks: Longs, rows: int, most: int) -> Pairs:
    """The pairs by row and rank, from sorting one whole number for each: its row, its rank, its number."""
    rank_bits, number_bits = int(ranks.max()).bit_length(), most.bit_length()
    sorted_bits = rows.bit_length() + rank_bits
    if sorted_bits + number_bits > WORD_BITS:
        order = np.lexsort((ranks, pairs.rows))
        return Pairs(pairs.rows[order], pairs.slots[order])
    count = len(ranks)
    words, spare = np.empty(count, np.int64), np.empty(count, np.int64)
    out = Pairs(np.empty(count, np.int32), np.empty(count, np.int32))
    _make_words(pairs.rows, pairs.slots, ranks, rank_bits, number_bits, words)
    sort_words(words, spare, number_bits, sorted_bits, rank_bits, *out)
    return out


def at_places(values: Ints, places: Ints) -> Ints:
    """The values at these places: `values[places]`, for which NumPy copies the places to wider ones first."""
    if len(places) < MANY or values.dtype != np.int32 or places.dtype != np.int32:
        return values[places]
    taken = np.empty(len(places), np.int32)
    _take(sealed(values), sealed(places), taken)
    return taken


@kernel
def _take(values: Ints, places: Ints, taken: Ints) -> None:
    for at in range(len(places)):
        taken[at] = values[places[at]]


def grouped(numbers: Ints, count: int) -> Longs:
    """The stable order of these numbers, all below `count`."""
    if len(numbers) < count // SPARSE:
        return np.argsort(numbers, kind="stable")
    return buckets(numbers, count)[0]


@kernel
def buckets(pair_rows: Ints, rows: int) -> tuple[Longs, Longs]:
    """A stable counting sort: the order of the pairs by row, and where each row starts in it."""
    starts = np.zeros(rows + 1, np.int64)
    for row in pair_rows:
        starts[row + 1] += 1
    for row in range(rows):
        starts[row + 1] += starts[row]
    filled = starts[:-1].copy()
    order = np.empty(len(pair_rows), np.int64)
    for at in range(len(pair_rows)):
        row = pair_rows[at]
        order[filled[row]] = at
        filled[row] += 1
    return order, starts


@kernel
def _make_words(
    rows: Ints, numbers: Ints, ranks: Longs, rank_bits: int, number_bits: int, words: Longs
) -> None:
    """Write the row, the rank and the number of each pair into one word."""
    for at in range(len(rows)):
        key = np.int64(rows[at]) << rank_bits | np.int64(ranks[at])
        words[at] = key << number_bits | np.int64(numbers[at])


@kernel
def sort_words(
    words: Longs, spare: Longs, low: int, bits: int, rank_bits: int, out_rows: Ints, out_numbers: Ints
) -> None:
    """Sort words by so many bits from the low-th on, and take rows and numbers out of them.

    A counting sort for each digit, the lowest first; both arrays are written over.
    """
    passes = -(-bits // DIGIT)
    digit = -(-bits // passes)
    mask = (1 << digit) - 1
    starts = np.empty(mask + 2, np.int64)
    for shift in range(low, low + passes * digit, digit):
        starts[:] = 0
        for word in words:
            starts[(word >> shift & mask) + 1] += 1
        for value in range(mask):
            starts[value + 1] += starts[value]
        for word in words:
            value = word >> shift & mask
            spare[starts[value]] = word
            starts[value] += 1
        words, spare = spare, words
    for at in range(len(words)):
        out_rows[at] = words[at] >> (low + rank_bits)
        out_numbers[at] = words[at] & ((1 << low) - 1)

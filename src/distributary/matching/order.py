"""Pairs in the order in which answers are given: by event, then by subscription id."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from distributary.kernel import Floats, Ints, Longs, Words, kernel, sealed
from distributary.matching.index import Pairs
from distributary.matching.memory import lowest_bit

SHORT = 24
"""Up to this many matches of one event are sorted by insertion."""
DENSE = 1
"""Pairs are put in order by bits when there are so many words of bits, or fewer, for each of them."""
KEY_BITS = 63
"""Bits of a number that stands for a pair."""
MANY = 1 << 16
"""So many places are worth a kernel."""
SPARSE = 16
"""Numbers are sorted by comparing them when fewer than one in so many possible ones is there."""


def by_row(pairs: Pairs, rows: int) -> Pairs:
    """The pairs with ascending rows; pairs of one row keep their order. O(pairs + rows)."""
    if len(pairs.rows) < 2 or bool(np.all(pairs.rows[1:] >= pairs.rows[:-1])):
        return pairs
    order, _ = buckets(pairs.rows, rows)
    return Pairs(pairs.rows[order], pairs.slots[order])


def by_row_and_rank(pairs: Pairs, ranks: Callable[[Ints], Floats], rows: int) -> Pairs:
    """The pairs by row, and within a row by the ranks that their numbers have.

    When rows have many pairs, the numbers are sorted once for all rows: O(pairs + rows + numbers). When rows
    have a good part of all numbers, a bit for each row and number puts the pairs in order.
    """
    if len(pairs.rows) > SHORT * rows and len(pairs.rows) > int(pairs.slots.max()):
        numbers = _present(pairs.slots, int(pairs.slots.max()))
        ordered = numbers[np.argsort(ranks(numbers))]
        place = np.zeros(int(numbers[-1]) + 1, np.int32)
        place[ordered] = np.arange(len(numbers), dtype=np.int32)
        words = -(-len(numbers) // 64)
        if rows * words <= DENSE * len(pairs.rows):
            # Made here, because NumPy asks for large pages, which are much faster to get.
            out = Pairs(np.empty(len(pairs.rows), np.int32), np.empty(len(pairs.rows), np.int32))
            _by_bits(pairs.rows, pairs.slots, place, ordered, np.zeros((rows, words), np.uint64), *out)
            return out
        return Pairs(*_by_place_and_row(pairs.rows, pairs.slots, place, len(numbers), rows))
    of_pairs = ranks(pairs.slots)
    order = _order_by_keys(pairs.rows, of_pairs, rows) if len(pairs.rows) > SHORT * rows else None
    if order is None:
        order, starts = buckets(pairs.rows, rows)
        _sort_within(order, starts, of_pairs)
    return Pairs(pairs.rows[order], pairs.slots[order])


def _order_by_keys(pair_rows: Ints, ranks: Floats, rows: int) -> Longs | None:
    """The order by row and rank, from sorting one whole number for each pair: its row, its rank, its place.

    NumPy sorts whole numbers many times as fast as it finds an order. None when they do not fit, or when
    ranks are no whole numbers.
    """
    whole = ranks.astype(np.int64)
    rank_bits, place_bits = int(whole.max()).bit_length(), len(whole).bit_length()
    if rows.bit_length() + rank_bits + place_bits > KEY_BITS or (whole != ranks).any():
        return None
    keys = (pair_rows.astype(np.int64) << rank_bits | whole) << place_bits | np.arange(len(whole))
    keys.sort()
    order: Longs = keys & ((1 << place_bits) - 1)
    return order


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
def _present(numbers: Ints, most: int) -> Ints:
    """The distinct numbers, of which none is larger than `most`, ascending."""
    found = np.zeros(most + 1, np.bool_)
    for number in numbers:
        found[number] = True
    return np.flatnonzero(found).astype(np.int32)


@kernel
def _by_bits(
    rows: Ints, numbers: Ints, place: Ints, ordered: Ints, bits: Words, out_rows: Ints, out_numbers: Ints
) -> None:
    """Write the pairs by row and place: set a bit for each, and read the bits of every row in turn.

    No pair comes twice, so there are as many bits as pairs; `ordered[p]` is the number of place p.
    """
    for at in range(len(rows)):
        to = np.uint64(place[numbers[at]])
        bits[rows[at], to >> np.uint64(6)] |= np.uint64(1) << (to & np.uint64(63))
    filled = np.uint64(0)
    for row in range(bits.shape[0]):
        for word in range(bits.shape[1]):
            left, base = bits[row, word], np.uint64(64 * word)
            while left != 0:
                out_rows[filled] = row
                out_numbers[filled] = ordered[base + lowest_bit(left)]
                filled += np.uint64(1)
                left &= left - np.uint64(1)


@kernel
def _by_place_and_row(rows: Ints, numbers: Ints, place: Ints, places: int, count: int) -> tuple[Ints, Ints]:
    """The pairs by row, and within a row by the place of their number: two stable counting sorts."""
    of_place, of_row = np.zeros(places + 1, np.int64), np.zeros(count + 1, np.int64)
    for at in range(len(rows)):
        of_place[place[numbers[at]] + 1] += 1
        of_row[rows[at] + 1] += 1
    for at in range(places):
        of_place[at + 1] += of_place[at]
    placed_rows, placed_numbers = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
    for at in range(len(rows)):
        to = of_place[place[numbers[at]]]
        placed_rows[to], placed_numbers[to] = rows[at], numbers[at]
        of_place[place[numbers[at]]] = to + 1
    out_rows, out_numbers = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
    for row in range(count):
        of_row[row + 1] += of_row[row]
        out_rows[of_row[row] : of_row[row + 1]] = row
    for at in range(len(rows)):
        to = of_row[placed_rows[at]]
        out_numbers[to] = placed_numbers[at]
        of_row[placed_rows[at]] = to + 1
    return out_rows, out_numbers


@kernel
def _sort_within(order: Longs, starts: Longs, ranks: Floats) -> None:
    for row in range(len(starts) - 1):
        start, end = starts[row], starts[row + 1]
        if end - start > SHORT:
            part = order[start:end].copy()
            order[start:end] = part[np.argsort(ranks[part])]
            continue
        for at in range(start + 1, end):
            moving = order[at]
            rank = ranks[moving]
            to = at
            while to > start and ranks[order[to - 1]] > rank:
                order[to] = order[to - 1]
                to -= 1
            order[to] = moving

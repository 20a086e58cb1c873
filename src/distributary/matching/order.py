"""Pairs in the order in which answers are given: by event, then by subscription id."""

from __future__ import annotations

import numpy as np

from distributary.kernel import Floats, Ints, Longs, kernel
from distributary.matching.index import Pairs

SHORT = 24
"""Up to this many matches of one event are sorted by insertion."""


def by_row(pairs: Pairs, rows: int) -> Pairs:
    """The pairs with ascending rows; pairs of one row keep their order. O(pairs + rows)."""
    if len(pairs.rows) < 2 or bool(np.all(pairs.rows[1:] >= pairs.rows[:-1])):
        return pairs
    order, _ = buckets(pairs.rows, rows)
    return Pairs(pairs.rows[order], pairs.slots[order])


def by_row_and_rank(pairs: Pairs, ranks: Floats, rows: int) -> Pairs:
    """The pairs by row, and within a row by the rank that each has."""
    order, starts = buckets(pairs.rows, rows)
    _sort_within(order, starts, ranks)
    return Pairs(pairs.rows[order], pairs.slots[order])


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

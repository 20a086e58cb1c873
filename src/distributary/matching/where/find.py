"""The search for one event in a segment of conditions, in one kernel: what `bitsets` does for a batch.

The keyed conjunctions, the grouped ones and those without a constraint are found one lot after the other, as
in a batch. Filters that are found through several of their conjunctions are told once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from distributary.kernel import Bytes, Floats, Ints, Longs, inlined, kernel, read_table, with_room
from distributary.matching.bound import array_at
from distributary.matching.index import Arrays
from distributary.matching.layers import OWN_ARRAYS, live_slots
from distributary.matching.memory import prefetch
from distributary.matching.where.blocks import BLOCK, BitsetBlocks, single_buckets, single_candidates
from distributary.matching.where.constraints import UNCERTAIN, Constraints, Rows, holds
from distributary.matching.where.keys import KeyTable, find_keyed
from distributary.matching.where.plan import GROUPED_BY, SPECIAL, Buckets
from distributary.matching.where.single import (
    CONDITION_TYPES,
    bind_conditions,
    bound_conditions,
    single_row,
)

ROOM = 4 * BLOCK
"""Conjunctions of one event that are checked at a time."""


class SearchedConditions(NamedTuple):
    """What the index has bound beside the conditions."""

    owner: Ints
    buckets: Buckets
    keys: KeyTable
    blocks: BitsetBlocks


SEARCHED_TYPES = (
    np.int32,
    *(np.int32, np.float64, np.uint8, np.uint8, np.int32),
    *(np.int32, np.int32, np.int64, np.int32, np.int32, np.int32),
    *(np.int32, np.int32, np.bool_, np.int32, np.int32, np.int32, np.int64, np.int32, np.uint64),
)
"""The types of the arrays of `SearchedConditions`, one after another: as they are bound."""


@inlined
def _searched(words: Longs) -> SearchedConditions:
    """What `bind_searched` has bound behind the conditions."""
    at = OWN_ARRAYS + len(CONDITION_TYPES)
    return SearchedConditions(
        array_at(words, at, np.int32),
        Buckets(
            array_at(words, at + 1, np.int32),
            array_at(words, at + 2, np.float64),
            array_at(words, at + 3, np.uint8),
            array_at(words, at + 4, np.uint8).reshape(-1, SPECIAL),
            array_at(words, at + 5, np.int32),
        ),
        KeyTable(
            array_at(words, at + 6, np.int32),
            array_at(words, at + 7, np.int32),
            array_at(words, at + 8, np.int64),
            array_at(words, at + 9, np.int32),
            array_at(words, at + 10, np.int32),
            array_at(words, at + 11, np.int32),
        ),
        BitsetBlocks(
            array_at(words, at + 12, np.int32),
            array_at(words, at + 13, np.int32),
            array_at(words, at + 14, np.bool_),
            array_at(words, at + 15, np.int32),
            array_at(words, at + 16, np.int32),
            array_at(words, at + 17, np.int32).reshape(-1, GROUPED_BY),
            array_at(words, at + 18, np.int64).reshape(-1, GROUPED_BY),
            array_at(words, at + 19, np.int32),
            array_at(words, at + 20, np.uint64),
        ),
    )


def bind_searched(arrays: Arrays) -> Iterable[tuple[NDArray[Any], DTypeLike]]:
    """The conditions, and the arrays of `SearchedConditions`."""
    buckets, keys = read_table(Buckets, arrays, "bucket_"), read_table(KeyTable, arrays, "key_")
    blocks = read_table(BitsetBlocks, arrays, "block_")
    tables: tuple[NDArray[Any], ...] = (arrays["owner"], *buckets, *keys, *blocks)
    return (*bind_conditions(arrays), *zip(tables, SEARCHED_TYPES, strict=True))


@kernel
def find_conditions(
    number: int, words: Longs, attributes: Floats, data: Bytes, found: Ints
) -> tuple[int, int]:
    """Write what the encoded event finds in a segment of that number, as far as it fits.

    The live slots whose filters it passes come from the front, the positions of live filters that must be
    evaluated from the back. Returns how many there are of both.
    """
    live, bound, searched = live_slots(words), bound_conditions(words, OWN_ARRAYS), _searched(words)
    rows = single_row(bound.texts, attributes, data)
    conjunctions, count = _holding(bound.constraints, searched, rows)
    # What is read of each lies all over large arrays: it is fetched step by step.
    for place in range(count):
        prefetch(searched.owner, conjunctions[place])
        prefetch(bound.flags, conjunctions[place])
    for place in range(count):
        prefetch(live.slots, searched.owner[conjunctions[place]])
    for place in range(count):
        prefetch(live.home, live.slots[searched.owner[conjunctions[place]]])
    certain = undecided = shared = 0
    for place in range(count):
        conjunction = conjunctions[place]
        position = searched.owner[conjunction]
        slot = live.slots[position]
        if live.home[slot] != number:
            continue
        if bound.flags[conjunction] == 0:
            if certain < len(found):
                found[certain] = slot
            certain += 1
        else:  # kept in front, for a filter may be found through several of its conjunctions
            conjunctions[shared] = 2 * position + (bound.flags[conjunction] & UNCERTAIN)
            shared += 1
    before = -1
    for found_so in np.sort(conjunctions[:shared]):
        position = found_so >> 1
        if position == before:
            continue
        before = position
        if found_so & 1:
            undecided += 1
            if undecided <= len(found):
                found[len(found) - undecided] = position
        else:
            if certain < len(found):
                found[certain] = live.slots[position]
            certain += 1
    return certain, undecided


@kernel
def _holding(constraints: Constraints, searched: SearchedConditions, rows: Rows) -> tuple[Ints, int]:
    """The conjunctions that hold for the only row: the keyed, the grouped, and those without a constraint."""
    keys, blocks = searched.keys, searched.blocks
    out_rows, held, count = np.empty(ROOM, np.int32), np.empty(ROOM, np.int32), 0
    if len(keys.postings):
        bits = rows.values.view(np.int64)
        out_rows, held, count = find_keyed(constraints, keys, rows, bits, 0, out_rows, held, count)
    if len(blocks.width):
        candidates = np.empty(ROOM, np.int32)
        in_buckets = single_buckets(searched.buckets, blocks.used, rows)
        block = 0
        while block < len(blocks.width):
            block, left = single_candidates(blocks, block, in_buckets, candidates)
            held = with_room(held, count, left)
            for place in range(left):
                prefetch(constraints.start, candidates[place])
            for place in range(left):
                first = constraints.start[candidates[place]]
                prefetch(constraints.attribute, first)
                prefetch(constraints.tag, first)
                prefetch(constraints.low, first)
                prefetch(constraints.high, first)
            for place in range(left):
                conjunction = np.uint64(candidates[place])
                first, last = constraints.start[conjunction], constraints.start[conjunction + np.uint64(1)]
                held[count] = conjunction
                if holds(constraints, rows, first, last, 0):
                    count += 1
    free, end = blocks.first[-1], len(constraints.start) - 1
    held = with_room(held, count, end - free)
    for conjunction_ in range(free, end):
        held[count] = conjunction_
        count += 1
    return held, count

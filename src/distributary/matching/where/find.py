"""The search for one event in a segment of conditions, in one kernel: what `bitsets` does for a batch.

The keyed conjunctions, the grouped ones and those without a constraint are found one lot after the other, as
in a batch. Filters that are found through several of their conjunctions are told once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from distributary.kernel import (
    Bytes,
    Floats,
    Ints,
    Longs,
    inlined,
    kernel,
    read_table,
    sealed,
    with_room,
)
from distributary.matching.bound import array_at
from distributary.matching.index import AnyArrays
from distributary.matching.layers import OWN_ARRAYS, live_slots
from distributary.matching.memory import prefetch
from distributary.matching.where.blocks import BLOCK, BitsetBlocks, constraints_of
from distributary.matching.where.constraints import UNCERTAIN, Constraints, Rows, holds_alike
from distributary.matching.where.keys import KeyTable, find_keyed
from distributary.matching.where.plan import GROUPED_BY, SPECIAL, Buckets
from distributary.matching.where.rough import NOT_ROUGH, may_hold, surely_holds
from distributary.matching.where.single import (
    CONDITION_TYPES,
    bind_conditions,
    bound_conditions,
    single_row,
)
from distributary.matching.where.visits import (
    Candidates,
    LeadLists,
    candidates_in,
    lead_lists,
    single_buckets,
    single_words,
    visited_blocks,
)

ALL_ALIVE = -1
"""The number of a segment none of whose filters was removed: nobody need ask which slots are live."""
FLAG_BITS = 3
FLAGS = (1 << FLAG_BITS) - 1
CONJUNCTION_BITS = 32
CONJUNCTION = (1 << CONJUNCTION_BITS) - 1
ROOM = 16 * BLOCK
"""Conjunctions of one event that are checked at a time."""


class SearchedConditions(NamedTuple):
    """What the index has bound beside the conditions."""

    owner: Ints
    target: Longs
    """For each conjunction the slot of its filter, shifted by `FLAG_BITS`, and its flags."""
    buckets: Buckets
    keys: KeyTable
    blocks: BitsetBlocks
    lists: LeadLists


SEARCHED_TYPES = (
    *(np.int32, np.int64),
    *(np.int32, np.float64, np.uint8, np.uint8, np.int32),
    *(np.int32, np.int32, np.int64, np.int32, np.int32, np.int32),
    *(np.int32, np.int32, np.bool_, np.int32, np.int32, np.int32, np.int64, np.int32, np.uint64),
    *(np.int32, np.int32, np.int32, np.int32, np.uint64),
    *(np.int32, np.int32, np.int32),
)
"""The types of the arrays of `SearchedConditions`, one after another: as they are bound."""


@inlined
def searched_conditions(words: Longs) -> SearchedConditions:
    """What `bind_searched` has bound behind the conditions."""
    at = OWN_ARRAYS + len(CONDITION_TYPES)
    return SearchedConditions(
        array_at(words, at, np.int32),
        array_at(words, at + 1, np.int64),
        Buckets(
            array_at(words, at + 2, np.int32),
            array_at(words, at + 3, np.float64),
            array_at(words, at + 4, np.uint8),
            array_at(words, at + 5, np.uint8).reshape(-1, SPECIAL),
            array_at(words, at + 6, np.int32),
        ),
        KeyTable(
            array_at(words, at + 7, np.int32),
            array_at(words, at + 8, np.int32),
            array_at(words, at + 9, np.int64),
            array_at(words, at + 10, np.int32),
            array_at(words, at + 11, np.int32),
            array_at(words, at + 12, np.int32),
        ),
        BitsetBlocks(
            array_at(words, at + 13, np.int32),
            array_at(words, at + 14, np.int32),
            array_at(words, at + 15, np.bool_),
            array_at(words, at + 16, np.int32),
            array_at(words, at + 17, np.int32),
            array_at(words, at + 18, np.int32).reshape(-1, GROUPED_BY),
            array_at(words, at + 19, np.int64).reshape(-1, GROUPED_BY),
            array_at(words, at + 20, np.int32),
            array_at(words, at + 21, np.uint64),
            array_at(words, at + 22, np.int32),
            array_at(words, at + 23, np.int32),
            array_at(words, at + 24, np.int32),
            array_at(words, at + 25, np.int32),
            array_at(words, at + 26, np.uint64),
        ),
        LeadLists(
            array_at(words, at + 27, np.int32),
            array_at(words, at + 28, np.int32),
            array_at(words, at + 29, np.int32),
        ),
    )


def bind_searched(arrays: AnyArrays, slots: Ints) -> Iterable[tuple[NDArray[Any], DTypeLike]]:
    """The conditions, and the arrays of `SearchedConditions`; `slots` are those of the filters."""
    buckets, keys = read_table(Buckets, arrays, "bucket_"), read_table(KeyTable, arrays, "key_")
    blocks = read_table(BitsetBlocks, arrays, "block_")
    owner = arrays["owner"]
    target = _targets(sealed(slots), owner, arrays["flags"])
    tables: tuple[NDArray[Any], ...] = (owner, target, *buckets, *keys, *blocks, *lead_lists(blocks))
    return (*bind_conditions(arrays), *zip(tables, SEARCHED_TYPES, strict=True))


@kernel
def _targets(slots: Ints, owner: Ints, flags: Bytes) -> Longs:
    """What `SearchedConditions.target` is: in one pass, for the first event after opening waits for it."""
    target = np.empty(len(owner), np.int64)
    for conjunction in range(len(owner)):
        slot = np.int64(slots[owner[conjunction]])
        target[conjunction] = slot << FLAG_BITS | np.int64(flags[conjunction])
    return target


@kernel
def find_conditions(
    number: int, words: Longs, codes: Longs, values: Floats, data: Bytes, found: Ints
) -> tuple[int, int]:
    """Write what the encoded event finds in a segment of that number, as far as it fits.

    The live slots whose filters it passes come from the front, the conjunctions of live filters that must be
    evaluated from the back. Returns how many there are of both. A number of `ALL_ALIVE` says that all slots
    of the segment are live.
    """
    live, bound, searched = live_slots(words), bound_conditions(words, OWN_ARRAYS), searched_conditions(words)
    rows = single_row(bound.texts, codes, values, data)
    conjunctions, count = _holding(bound.constraints, searched, rows)
    # What is read of each lies all over large arrays: it is fetched step by step.
    for place in range(count):
        prefetch(searched.target, conjunctions[place])
    if number != ALL_ALIVE:
        for place in range(count):
            prefetch(live.home, searched.target[conjunctions[place]] >> FLAG_BITS)
    certain = undecided = shared = 0
    flagged = np.empty(count, np.int64)
    for place in range(count):
        conjunction = conjunctions[place]
        target = searched.target[conjunction]
        slot, flags = target >> FLAG_BITS, target & FLAGS
        if number != ALL_ALIVE and live.home[slot] != number:
            continue
        if flags == 0:
            if certain < len(found):
                found[certain] = slot
            certain += 1
        else:  # a filter may be found through several of its conjunctions, of which one may be certain
            order = 2 * np.int64(searched.owner[conjunction]) + np.int64(flags & UNCERTAIN)
            flagged[shared] = order << CONJUNCTION_BITS | np.int64(conjunction)
            shared += 1
    settled = np.int64(-1)
    for found_so in np.sort(flagged[:shared]):
        order = found_so >> CONJUNCTION_BITS
        position = order >> 1
        if position == settled:
            continue
        if order & 1:
            undecided += 1
            if undecided <= len(found):
                found[len(found) - undecided] = found_so & CONJUNCTION
        else:
            settled = position
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
        held, count = _grouped(constraints, searched, rows, held, count)
    free, end = blocks.first[-1], len(constraints.start) - 1
    held = with_room(held, count, end - free)
    for conjunction in range(free, end):
        held[count] = conjunction
        count += 1
    return held, count


@kernel
def _grouped(
    constraints: Constraints, searched: SearchedConditions, rows: Rows, held: Ints, count: int
) -> tuple[Ints, int]:
    """Add the grouped conjunctions that hold for the only row; what is held then, and how many."""
    blocks = searched.blocks
    in_buckets, rough = single_buckets(searched.buckets, blocks.used, rows, 0)
    visited = visited_blocks(searched.lists, in_buckets)
    left, place_of = np.empty(ROOM // 64, np.uint64), np.empty(ROOM // 64, np.int32)
    candidates = Candidates(
        np.empty(ROOM, np.int32),
        np.empty(ROOM, np.int32),
        np.empty(ROOM, np.int32),
        np.empty(ROOM, np.uint64),
    )
    next_block = 0
    while next_block < len(visited):
        next_block, words = single_words(blocks, visited, next_block, in_buckets, left, place_of)
        found = candidates_in(constraints, blocks, left[:words], place_of, rough, candidates)
        held = with_room(held, count, found)
        count = _checked(constraints, blocks, rows, candidates, found, held, count)
    return held, count


@inlined
def _checked(
    constraints: Constraints,
    blocks: BitsetBlocks,
    rows: Rows,
    candidates: Candidates,
    found: Any,
    held: Ints,
    count: Any,
) -> Any:
    """Add those of the candidates that hold; how many are held then."""
    open_count = np.uint64(0)
    for at in range(found):
        place = np.uint64(at)
        rough = candidates.rough[place]
        block, bit = np.uint64(candidates.block[place]), candidates.bit[place]
        is_open = True
        if rough != NOT_ROUGH:
            lower, upper = blocks.rough_bounds[np.uint64(rough)], blocks.rough_bounds[np.uint64(rough + 1)]
            lanes = candidates.lanes[place]
            if surely_holds(lower, upper, lanes):
                held[count] = blocks.first[block] + bit
                count += 1
                is_open = False
            else:
                is_open = may_hold(lower, upper, lanes)
        if is_open:  # noted where those before it were
            candidates.block[open_count], candidates.bit[open_count] = block, bit
            open_count += np.uint64(1)
            if blocks.alike[block] == 0:
                prefetch(constraints.start, blocks.first[block] + bit)
    return _checked_exactly(constraints, blocks, rows, candidates, np.int64(open_count), held, count)


@inlined
def _checked_exactly(
    constraints: Constraints,
    blocks: BitsetBlocks,
    rows: Rows,
    candidates: Candidates,
    found: Any,
    held: Ints,
    count: Any,
) -> Any:
    """Add those of the candidates whose constraints hold; how many are held then."""
    for place in range(found):
        kinds, first, last = constraints_of(
            constraints, blocks, candidates.block[place], candidates.bit[place]
        )
        prefetch(constraints.bounds, 2 * first)
        prefetch(constraints.bounds, 2 * last - 1)
        prefetch(constraints.kind, kinds)
    for place in range(found):
        block, bit = candidates.block[place], candidates.bit[place]
        kinds, first, last = constraints_of(constraints, blocks, block, bit)
        held[count] = blocks.first[block] + bit
        if holds_alike(constraints, rows, kinds, first, last, 0):
            count += 1
    return count

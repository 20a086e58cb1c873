"""A few rows in a segment of conditions, in one kernel: what `bitsets` does for many, without fixed costs.

Rows meet the blocks that are of interest to them block by block, as many rows do (see `blocks`). But of a few
rows each block meets some, for which its bitsets are not in the processor's cache. So meetings are noted
first, as many as MEETINGS, and the bitsets of all of them fetched at once; what is left of these is noted in
the same way, and its constraints fetched before they are checked. Where each block meets many rows, waiting
for its bitsets is shared by them, and they are searched as those of a large batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Bytes, Floats, Ints, Longs, Words, inlined, kernel, with_room
from distributary.matching.index import Pairs
from distributary.matching.layers import OWN_ARRAYS
from distributary.matching.memory import lowest_bit, prefetch
from distributary.matching.where.blocks import (
    BLOCK,
    MOST_BUCKETS,
    BitsetBlocks,
    RowBuckets,
    attribute_of_block,
    find_grouped,
    places_of_interest,
    row_buckets,
)
from distributary.matching.where.constraints import Constraints, Found, Rows, holds
from distributary.matching.where.find import FLAGS, ROOM, SearchedConditions, searched_conditions
from distributary.matching.where.keys import find_keyed
from distributary.matching.where.plain_rows import plain_rows
from distributary.matching.where.plan import GROUPED_BY
from distributary.matching.where.single import bound_conditions
from distributary.matching.where.visits import LeadLists

SHARED = 16
"""When this many of a few rows meet a block, on average, they are searched as those of a large batch."""
MEETINGS = 32
"""Meetings of a row and a block whose bitsets are fetched at once."""
CHECKED = 128
"""When so many conjunctions are left, they are checked."""
ALL: Words = np.empty(0, np.uint64)
"""For `find_grouped`: no conjunction is unwanted."""

LINE = 7
"""Doubles from the first of a line of the cache to the last."""


class Meetings(NamedTuple):
    """Rows that meet blocks, and where the first four bitsets begin that each asks for."""

    block: Ints
    row: Ints
    starts: Words


FoundInFew = tuple[Ints, Ints, Ints, int]
"""What a few rows have found: rows, conjunctions, the positions of their filters, and all their flags."""


@kernel
def find_in_few_rows(words: Longs, tags: Bytes, values: Floats, where: Ints) -> FoundInFew:
    """What a few rows find. They are those of `Rows`, in three arrays: a kernel takes longer to be called
    with a table of them."""
    return _found(words, Rows(tags, values, where))


@kernel
def find_in_plain_rows(words: Longs, columns: Longs, count: int) -> FoundInFew:
    """What the first few rows of plain columns find (see `plain_rows`)."""
    return _found(words, plain_rows(bound_conditions(words, OWN_ARRAYS).texts, columns, count))


@kernel
def _found(words: Longs, rows: Rows) -> FoundInFew:
    """The keyed and the grouped conjunctions that hold, with the positions of their filters."""
    searched, constraints = searched_conditions(words), bound_conditions(words, OWN_ARRAYS).constraints
    out_rows, held, count = np.empty(ROOM, np.int32), np.empty(ROOM, np.int32), 0
    if len(searched.keys.postings):
        bits = rows.values.view(np.int64)
        out_rows, held, count = find_keyed(constraints, searched.keys, rows, bits, 0, out_rows, held, count)
    if len(searched.blocks.width):
        out_rows, held, count = _grouped(constraints, searched, rows, out_rows, held, count)
    for place in range(count):
        prefetch(searched.owner, held[place])
        prefetch(searched.target, held[place])
    positions, flags = np.empty(count, np.int32), 0
    for place in range(count):
        positions[place] = searched.owner[held[place]]
        flags |= searched.target[held[place]] & FLAGS
    return out_rows[:count], held[:count], positions, flags


@kernel
def _grouped(
    constraints: Constraints, searched: SearchedConditions, rows: Rows, out_rows: Ints, held: Ints, count: int
) -> Found:
    """Add the grouped conjunctions that hold to what was found."""
    blocks, room = searched.blocks, CHECKED + MEETINGS * BLOCK
    buckets = row_buckets(searched.buckets, blocks.used, rows)
    if _count_meetings(searched.lists, buckets) >= SHARED * len(blocks.width):
        candidates = np.empty(BLOCK * len(rows.tags), np.int32)
        return find_grouped(constraints, blocks, rows, buckets, ALL, candidates, 0, out_rows, held, count)
    noted = Meetings(
        np.empty(MEETINGS, np.int32), np.empty(MEETINGS, np.int32), np.empty((MEETINGS, 4), np.uint64)
    )
    left = Pairs(np.empty(room, np.int32), np.empty(room, np.int32))
    met, remaining = 0, 0
    for block in range(len(blocks.width)):
        first, last = places_of_interest(blocks, block, buckets)
        for place in range(first, last):
            _note(noted, met, blocks, block, buckets, place)
            met += 1
            if met == MEETINGS:
                remaining, met = _leave(left, remaining, constraints, blocks, buckets, noted, met), 0
                if remaining >= CHECKED:
                    out_rows, held = with_room(out_rows, count, remaining), with_room(held, count, remaining)
                    count = _check(constraints, rows, left, remaining, out_rows, held, count)
                    remaining = 0
    remaining = _leave(left, remaining, constraints, blocks, buckets, noted, met)
    out_rows, held = with_room(out_rows, count, remaining), with_room(held, count, remaining)
    return out_rows, held, _check(constraints, rows, left, remaining, out_rows, held, count)


@inlined
def _note(
    noted: Meetings, met: Any, blocks: BitsetBlocks, block: Any, buckets: RowBuckets, place: Any
) -> None:
    """Note that the row at a place among those sorted by the block's lead meets it; fetch its bitsets."""
    at_block, at = np.uint64(block), np.uint64(met)
    lead, _ = attribute_of_block(blocks, at_block, 0)
    row, width = np.uint64(buckets.order[lead, np.uint64(place)]), np.uint64(blocks.width[at_block])
    noted.block[at], noted.row[at] = block, row
    for j in range(4):
        attribute, table = attribute_of_block(blocks, at_block, j)
        start = table + np.uint64(buckets.number[attribute, row]) * width
        prefetch(blocks.words, start)
        noted.starts[at, np.uint64(j)] = start


@inlined
def _leave(
    left: Pairs,
    remaining: Any,
    constraints: Constraints,
    blocks: BitsetBlocks,
    buckets: RowBuckets,
    noted: Meetings,
    met: Any,
) -> Any:
    """AND the bitsets of the meetings noted, and add the conjunctions left; how many there are then."""
    words, starts, count = blocks.words, noted.starts, np.uint64(remaining)
    for meeting in range(met):
        at = np.uint64(meeting)
        block, row = np.uint64(noted.block[at]), np.uint64(noted.row[at])
        at0, at1 = starts[at, np.uint64(0)], starts[at, np.uint64(1)]
        at2, at3 = starts[at, np.uint64(2)], starts[at, np.uint64(3)]
        width, wide = np.uint64(blocks.width[block]), blocks.wide[block]
        for offset in range(width):
            word = np.uint64(offset)
            common = words[at0 + word] & words[at1 + word] & words[at2 + word] & words[at3 + word]
            if wide and common != 0:
                for j in range(4, GROUPED_BY):
                    attribute, table = attribute_of_block(blocks, block, j)
                    common &= words[table + np.uint64(buckets.number[attribute, row]) * width + word]
            while common != 0:
                conjunction = np.int64(blocks.first[block]) + np.int64(64 * offset + lowest_bit(common))
                prefetch(constraints.start, conjunction)
                left.rows[count], left.slots[count] = row, conjunction
                count += np.uint64(1)
                common &= common - np.uint64(1)
    return np.int64(count)


@inlined
def _check(
    constraints: Constraints, rows: Rows, left: Pairs, remaining: Any, out_rows: Ints, held: Ints, count: Any
) -> Any:
    """Add those of the conjunctions left whose constraints hold; how many are held then."""
    for place in range(remaining):
        first = constraints.start[np.uint64(left.slots[np.uint64(place)])]
        prefetch(constraints.kind, first)
        prefetch(constraints.bounds, 2 * first)
        prefetch(constraints.bounds, 2 * first + LINE)
    for place in range(remaining):
        row, conjunction = left.rows[np.uint64(place)], np.uint64(left.slots[np.uint64(place)])
        out_rows[count], held[count] = row, conjunction
        first, last = constraints.start[conjunction], constraints.start[conjunction + np.uint64(1)]
        if holds(constraints, rows, first, last, row):
            count += 1
    return count


@kernel
def _count_meetings(lists: LeadLists, buckets: RowBuckets) -> int:
    """How many blocks the rows may want, all rows together."""
    count = 0
    for place in range(len(lists.leads)):
        lead = lists.leads[place]
        if buckets.wanted[lead]:
            for bucket in buckets.number[lead]:
                at = place * (MOST_BUCKETS + 1) + np.int64(bucket)
                count += lists.begin[at + 1] - lists.begin[at]
    return count

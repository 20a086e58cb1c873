"""Bitsets over buckets: the AND of a few words rules out most of a block of conjunctions at once.

Conjunctions that constrain the same attributes stand in blocks of up to BLOCK. For each of its attributes and
each bucket of that attribute's values, a block has a bitset of the conjunctions that may hold there. The AND
of the bitsets of the event's buckets leaves few candidates, which are checked. All rows meet one block before
the next, so that its tables stay in the processor's nearest cache; and as rows are sorted by the bucket of
the block's lead (its most selective attribute), those it cannot want are never looked at.

Cost of an event, for g conjunctions of k constraints: about k * g / 64 word operations, plus the candidates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import Bytes, Flags, Floats, Ints, Longs, Words, inlined, kernel, sealed
from distributary.matching.columns import NULL
from distributary.matching.memory import lowest_bit, prefetch
from distributary.matching.where.constraints import (
    MANY,
    Constraints,
    FlatConditions,
    Found,
    Rows,
    grown,
    holds,
    holds_alike,
    kind_of,
    runs,
)
from distributary.matching.where.plan import (
    GROUPED_BY,
    NOTHING,
    Buckets,
    SegmentPlan,
    bucket_of,
    piece_buckets,
)
from distributary.matching.where.rough import build_rough

WIDTHS = (1, 2, 4, 8)
"""Words that a block's bitset may have; eight make one line of a processor's cache."""
BLOCK = 64 * WIDTHS[-1]
VISIT = 5.0
"""What it costs a row to meet a block, in words that could be ANDed instead."""
MOST_BUCKETS = 256
"""A byte numbers the buckets of an attribute."""


class BitsetBlocks(NamedTuple):
    """Block i holds the conjunctions from `first[i]` to `first[i + 1]`, in bitsets of `width[i]` words.

    The bitset of attribute `attributes[i, j]` and bucket b starts at `words[tables[i, j] + b * width[i]]`.
    A block of fewer attributes repeats its last one. `wide[i]` says whether there are more than four. Only
    rows whose bucket of the first attribute lies between `from_bucket[i]` and `to_bucket[i]` are of interest.
    `used` lists the attributes of all blocks.

    The conjunctions of a block with `alike[i]` greater than zero have so many constraints each, which are of
    the same kinds in the same order and of one piece. `constraint[i]` is the first of them, and the kinds of
    those from `kinds[i]` on tell for all: the block before has the same where it can, so that few are read.
    Their rough bounds, if they have some, stand in `rough_bounds` from `rough[i]` on (see `rough`).
    """

    first: Ints
    width: Ints
    wide: Flags
    from_bucket: Ints
    to_bucket: Ints
    attributes: Ints
    tables: Longs
    used: Ints
    words: Words
    alike: Ints
    constraint: Ints
    kinds: Ints
    rough: Ints
    rough_bounds: Words


class RowBuckets(NamedTuple):
    """The rows by bucket: row i is in `number[a, i]` of attribute a; the rows of bucket b are
    `order[a, begin[a, b]:begin[a, b + 1]]`. Where not `wanted[a]`, no constraint on a holds for any row."""

    number: Bytes
    order: NDArray[np.uint16]
    begin: NDArray[np.uint16]
    wanted: Flags


def build_blocks(planned: SegmentPlan) -> BitsetBlocks:
    """The blocks of every group and their bitsets."""
    flat = planned.flat
    sizes = np.bincount(planned.group, minlength=len(planned.grouped_by))
    counts = -(-sizes // (64 * _widths(sizes, planned.lead_often)))
    group = np.repeat(np.arange(len(sizes)), counts)
    number = runs(np.zeros(len(sizes), np.int64), counts)
    begins = np.cumsum(sizes) - sizes
    first = begins[group] + number * sizes[group] // np.maximum(counts[group], 1)
    first = (planned.keyed + np.append(first, planned.grouped)).astype(np.int32)
    width = -(-np.diff(first) // 64)
    named = (planned.grouped_by >= 0).sum(axis=1)
    place = np.minimum(np.arange(GROUPED_BY), np.maximum(named[:, None] - 1, 0))
    attributes = np.take_along_axis(planned.grouped_by, place, axis=1)[group]
    rows = np.where(np.arange(GROUPED_BY) < named[group][:, None], planned.buckets.size[attributes], 0)
    # In whole lines of the processor's cache, so that a bitset of one, two, four or eight words lies in one.
    table_sizes = -(-rows * width[:, None] // WIDTHS[-1]) * WIDTHS[-1]
    ends = np.cumsum(table_sizes.reshape(-1), dtype=np.int64).reshape(table_sizes.shape)
    tables = np.take_along_axis(ends - table_sizes, place[group], axis=1)
    total = int(ends[-1, -1]) if len(ends) else 0
    alike, kinds = _alike(flat, first)
    attributes = attributes.astype(np.int32)
    buckets = piece_buckets(flat, planned.buckets)
    blocks = BitsetBlocks(
        first,
        width,
        named[group] > 4,
        np.full(len(width), np.iinfo(np.int32).max, np.int32),
        np.zeros(len(width), np.int32),
        attributes,
        tables,
        np.unique(attributes),
        np.zeros(total, np.uint64),
        alike,
        flat.start[first[:-1]],
        kinds,
        *build_rough(flat, planned.buckets, buckets, first, alike, attributes),
    )
    _fill_blocks(blocks, named[group], flat.start, flat.attribute, flat.piece_start, *buckets)
    return blocks


def _alike(flat: FlatConditions, first: Ints) -> tuple[Ints, Ints]:
    """What `BitsetBlocks.alike` and `kinds` are, of blocks with the conjunctions from `first` on."""
    pieces = np.diff(flat.piece_start)
    tag: Bytes = np.full(len(pieces), MANY, np.uint8)
    tag[pieces == 1] = flat.tag[flat.piece_start[:-1][pieces == 1]]
    return _count_alike(first, sealed(flat.start), sealed(kind_of(flat.attribute, tag)))


@kernel
def _count_alike(first: Ints, start: Ints, kind: Ints) -> tuple[Ints, Ints]:
    alike, kinds = np.zeros(len(first) - 1, np.int32), np.zeros(len(first) - 1, np.int32)
    for block in range(len(alike)):
        constraint = start[first[block]]
        count = start[first[block] + 1] - constraint
        same = True
        for conjunction in range(first[block], first[block + 1]):
            same &= start[conjunction + 1] - start[conjunction] == count
        for at in range(start[first[block]], start[first[block + 1]]):
            if not same:
                break
            wanted = kind[constraint + (at - constraint) % count]
            same = kind[at] == wanted and (wanted & MANY) != MANY
        alike[block] = count if same else 0
        kinds[block] = constraint
        if same and block > 0 and alike[block - 1] == count:
            before = kinds[block - 1]
            if (kind[before : before + count] == kind[constraint : constraint + count]).all():
                kinds[block] = before
    return alike, kinds


def _widths(sizes: Longs, lead_often: Floats) -> Longs:
    """The width that suits each group best: narrow blocks are met by fewer rows, wide ones save meetings."""
    widths = np.array(WIDTHS)
    blocks = np.maximum(sizes[:, None] / (64 * widths), 1)
    cost = (1 + blocks * lead_often[:, None]) * (VISIT + np.minimum(widths, sizes[:, None] / 64))
    best: Longs = widths[np.argmin(cost, axis=1)]
    return best


@kernel
def _fill_blocks(
    blocks: BitsetBlocks,
    named: Longs,
    start: Ints,
    attribute: Ints,
    piece_start: Ints,
    first_bucket: Bytes,
    last_bucket: Bytes,
) -> None:
    """Set the bit of each conjunction in the bitsets of the buckets that its constraints reach into.

    Block i has `named[i]` attributes. The other arrays are those of the conditions (see `FlatConditions`),
    and the first and last bucket of each piece.
    """
    for block in range(len(blocks.width)):
        first = blocks.first[block]
        for conjunction in range(first, blocks.first[block + 1]):
            bit = conjunction - first
            mask = np.uint64(1) << np.uint64(bit & 63)
            for constraint in range(start[conjunction], start[conjunction + 1]):
                for j in range(named[block]):
                    if blocks.attributes[block, j] != attribute[constraint]:
                        continue
                    table = blocks.tables[block, j] + (bit >> 6)
                    for piece in range(piece_start[constraint], piece_start[constraint + 1]):
                        if j == 0:
                            blocks.from_bucket[block] = min(blocks.from_bucket[block], first_bucket[piece])
                            blocks.to_bucket[block] = max(blocks.to_bucket[block], last_bucket[piece])
                        for bucket in range(first_bucket[piece], np.int64(last_bucket[piece]) + 1):
                            blocks.words[table + bucket * blocks.width[block]] |= mask


@kernel
def row_buckets(buckets: Buckets, attributes: Ints, rows: Rows) -> RowBuckets:
    """Put the rows into the buckets of each attribute (of those that are asked for)."""
    count = len(rows.tags)
    number = np.empty((len(buckets.size), count), np.uint8)
    order = np.empty((len(buckets.size), count), np.uint16)
    begin = np.empty((len(buckets.size), MOST_BUCKETS + 2), np.uint16)
    wanted = np.zeros(len(buckets.size), np.bool_)
    for attribute in attributes:
        absent = rows.where[attribute] == 0
        wanted[attribute] = not absent or bucket_of(buckets, attribute, NULL, 0.0) != NOTHING
    for at in range(count):
        row = np.uint64(at)
        for attribute in attributes:
            if wanted[attribute]:
                column = np.uint64(rows.where[attribute])
                tag, value = rows.tags[row, column], rows.values[row, column]
                number[attribute, row] = bucket_of(buckets, attribute, tag, value)
    for attribute in attributes:
        if wanted[attribute]:
            _sort_by_bucket(number[attribute], order[attribute], begin[attribute])
    return RowBuckets(number, order, begin, wanted)


@kernel
def _sort_by_bucket(number: Bytes, order: NDArray[np.uint16], begin: NDArray[np.uint16]) -> None:
    """Fill in the order of the rows, and where each bucket begins in it (a counting sort)."""
    begin[:] = 0
    for bucket in number:
        begin[np.uint64(bucket) + np.uint64(2)] += 1
    for bucket in range(2, len(begin)):
        begin[bucket] += begin[bucket - 1]
    for row in range(len(number)):
        after = np.uint64(number[row]) + np.uint64(1)
        order[begin[after]] = row
        begin[after] += 1


@kernel
def find_grouped(
    constraints: Constraints,
    blocks: BitsetBlocks,
    rows: Rows,
    buckets: RowBuckets,
    wanted: Words,
    candidates: Ints,
    base: int,
    out_rows: Ints,
    out_conjunctions: Ints,
    count: int,
) -> Found:
    """Add the grouped conjunctions that hold to what was found.

    `wanted` are the bits of those to look for, `WIDTHS[-1]` words a block; empty stands for all. `candidates`
    is room for those of one block; `base` is what the first row is called in the answer.
    """
    for block in range(len(blocks.width)):
        left = _candidates(constraints.bounds, blocks, block, buckets, wanted, candidates)
        while count + left > len(out_rows):
            out_rows, out_conjunctions = grown(out_rows), grown(out_conjunctions)
        kinds, alike = np.int64(blocks.kinds[block]), np.int64(blocks.alike[block])
        first_of_block, first_constraint = blocks.first[block], np.int64(blocks.constraint[block])
        for place in range(left):
            candidate = np.uint64(candidates[np.uint64(place)])
            row, bit = candidate // np.uint64(BLOCK), np.int64(candidate % np.uint64(BLOCK))
            out_rows[np.uint64(count)] = base + np.int64(row)
            out_conjunctions[np.uint64(count)] = first_of_block + bit
            if alike > 0:
                first = first_constraint + bit * alike
                passes = holds_alike(constraints, rows, kinds, first, first + alike, row)
            else:
                conjunction = np.uint64(first_of_block + bit)
                first, last = constraints.start[conjunction], constraints.start[conjunction + np.uint64(1)]
                passes = holds(constraints, rows, first, last, row)
            if passes:
                count += 1
    return out_rows, out_conjunctions, count


@inlined
def constraints_of(
    constraints: Constraints, blocks: BitsetBlocks, block: Any, bit: Any
) -> tuple[Any, Any, Any]:
    """Of a conjunction, the bit-th of a block: where kinds are told, and its first and last constraint."""
    alike = blocks.alike[np.uint64(block)]
    if alike > 0:
        first = np.int64(blocks.constraint[np.uint64(block)]) + np.int64(bit) * alike
        return np.int64(blocks.kinds[np.uint64(block)]), first, first + alike
    conjunction = np.uint64(blocks.first[np.uint64(block)] + bit)
    first = np.int64(constraints.start[conjunction])
    return first, first, np.int64(constraints.start[conjunction + np.uint64(1)])


@kernel
def wanted_bits(blocks: BitsetBlocks, unwanted: Flags) -> Words:
    """The bits of the grouped conjunctions but those that are unwanted, for `find_grouped`."""
    wanted = np.zeros(len(blocks.width) * WIDTHS[-1], np.uint64)
    for block in range(len(blocks.width)):
        for conjunction in range(blocks.first[block], blocks.first[block + 1]):
            if not unwanted[conjunction]:
                bit = conjunction - blocks.first[block]
                wanted[block * WIDTHS[-1] + (bit >> 6)] |= np.uint64(1) << np.uint64(bit & 63)
    return wanted


@inlined
def attribute_of_block(blocks: BitsetBlocks, block: np.uint64, j: int) -> tuple[np.uint64, np.uint64]:
    """A block's j-th attribute, and where its bitsets begin."""
    return np.uint64(blocks.attributes[block, j]), np.uint64(blocks.tables[block, j])


@inlined
def places_of_interest(blocks: BitsetBlocks, block: Any, buckets: RowBuckets) -> tuple[Any, Any]:
    """The first and the last place, among the rows sorted by its lead, of those that a block may want."""
    at_block = np.uint64(block)
    lead, _ = attribute_of_block(blocks, at_block, 0)
    if not buckets.wanted[lead]:
        return np.uint16(0), np.uint16(0)
    first = buckets.begin[lead, np.uint64(blocks.from_bucket[at_block])]
    last = buckets.begin[lead, np.uint64(blocks.to_bucket[at_block] + 1)]
    if first < last:  # no row of a small batch is in the buckets of most blocks
        for j in range(1, GROUPED_BY):
            if not buckets.wanted[attribute_of_block(blocks, at_block, j)[0]]:
                return last, last
    return first, last


@kernel
def _candidates(
    bounds: Floats, blocks: BitsetBlocks, block: int, buckets: RowBuckets, wanted: Words, found: Ints
) -> int:
    """AND the bitsets of every row's buckets; what is left, as BLOCK * row + place in the block.

    Checking the candidates is left to a loop of its own, which lets this one run ahead undisturbed; the
    bounds that it will read are fetched meanwhile.
    """
    at_block = np.uint64(block)
    attribute0, table0 = attribute_of_block(blocks, at_block, 0)
    first_place, last_place = places_of_interest(blocks, at_block, buckets)
    if first_place == last_place:
        return 0
    words, number, count = blocks.words, buckets.number, np.uint64(0)
    width, wide = np.uint64(blocks.width[at_block]), blocks.wide[at_block]
    bounds_each = np.uint64(2 * blocks.alike[at_block])
    first_bound = np.uint64(2 * blocks.constraint[at_block])
    some, of_block = len(wanted) > 0, np.uint64(block * WIDTHS[-1])
    attribute1, table1 = attribute_of_block(blocks, at_block, 1)
    attribute2, table2 = attribute_of_block(blocks, at_block, 2)
    attribute3, table3 = attribute_of_block(blocks, at_block, 3)
    for place in range(first_place, last_place):
        row = np.uint64(buckets.order[attribute0, np.uint64(place)])
        at0 = table0 + np.uint64(number[attribute0, row]) * width
        at1 = table1 + np.uint64(number[attribute1, row]) * width
        at2 = table2 + np.uint64(number[attribute2, row]) * width
        at3 = table3 + np.uint64(number[attribute3, row]) * width
        for offset in range(width):
            word = np.uint64(offset)
            left = words[at0 + word] & words[at1 + word] & words[at2 + word] & words[at3 + word]
            if some:
                left &= wanted[of_block + word]
            if wide and left != 0:
                for j in range(4, GROUPED_BY):
                    attribute, table = attribute_of_block(blocks, at_block, j)
                    left &= words[table + np.uint64(number[attribute, row]) * width + word]
            while left != 0:
                bit = word * np.uint64(64) + lowest_bit(left)
                prefetch(bounds, first_bound + bit * bounds_each)
                prefetch(bounds, first_bound + bit * bounds_each + bounds_each - np.uint64(1))
                found[count] = row * np.uint64(BLOCK) + bit
                count += np.uint64(1)
                left &= left - np.uint64(1)
    return int(count)

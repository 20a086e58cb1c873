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

WIDTHS = (1, 2, 4, 8)
"""Words that a block's bitset may have; eight make one line of a processor's cache."""
BLOCK = 64 * WIDTHS[-1]
VISIT = 5.0
"""What it costs a row to meet a block, in words that could be ANDed instead."""
AHEAD = 16
"""For one event, the bitsets of a block are fetched while so many blocks before it are looked at."""
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
    blocks = BitsetBlocks(
        first,
        width,
        named[group] > 4,
        np.full(len(width), np.iinfo(np.int32).max, np.int32),
        np.zeros(len(width), np.int32),
        attributes.astype(np.int32),
        tables,
        np.unique(attributes).astype(np.int32),
        np.zeros(total, np.uint64),
        alike,
        flat.start[first[:-1]],
        kinds,
    )
    buckets = piece_buckets(flat, planned.buckets)
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


class LeadLists(NamedTuple):
    """The blocks that are of interest to a row, by the bucket that it is in of their lead.

    Those with the lead `leads[i]` that a row in bucket b may want are `blocks[begin[i, b]:begin[i, b + 1]]`.
    """

    leads: Ints
    begin: Ints
    blocks: Ints


def lead_lists(blocks: BitsetBlocks) -> LeadLists:
    """The lists of a segment's blocks."""
    leads = np.unique(blocks.attributes[:, 0])
    counts = np.maximum(blocks.to_bucket - blocks.from_bucket + 1, 0)
    block = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    bucket = runs(blocks.from_bucket, counts)
    place = np.searchsorted(leads, blocks.attributes[block, 0]) * (MOST_BUCKETS + 1) + bucket
    order = np.argsort(place, kind="stable")
    begin = np.searchsorted(place[order], np.arange(len(leads) * (MOST_BUCKETS + 1) + 1)).astype(np.int32)
    return LeadLists(leads.astype(np.int32), begin, block[order])


@kernel
def visited_blocks(lists: LeadLists, number: Words) -> Ints:
    """The blocks that a row in these buckets may want. No block wants the bucket NOTHING."""
    count = 0
    for place in range(len(lists.leads)):
        at = place * (MOST_BUCKETS + 1) + np.int64(number[lists.leads[place]])
        count += lists.begin[at + 1] - lists.begin[at]
    visited, count = np.empty(count, np.int32), 0
    for place in range(len(lists.leads)):
        at = place * (MOST_BUCKETS + 1) + np.int64(number[lists.leads[place]])
        for listed in range(lists.begin[at], lists.begin[at + 1]):
            visited[count] = lists.blocks[listed]
            count += 1
    return visited


@kernel
def single_buckets(buckets: Buckets, attributes: Ints, rows: Rows, row: int) -> Words:
    """The bucket of a row for each attribute (of those that are asked for); NOTHING for the others."""
    number = np.zeros(len(buckets.size), np.uint64)
    for attribute in attributes:
        column = rows.where[attribute]
        number[attribute] = bucket_of(buckets, attribute, rows.tags[row, column], rows.values[row, column])
    return number


@kernel
def single_words(
    blocks: BitsetBlocks, visited: Ints, first: int, number: Words, left: Words, place_of: Ints
) -> tuple[int, int]:
    """AND the bitsets of a row's buckets, and write the words that are not empty while there is room.

    The blocks are those of interest, `visited`, from the first-th on. The place of a word is its number in
    its block, plus `WIDTHS[-1]` times the block's. Returns which block is the next, and how many words there
    are.
    """
    words, count = blocks.words, np.uint64(0)
    starts = np.empty((AHEAD, 4), np.uint64)
    for place in range(first, min(first + AHEAD, len(visited))):
        _fetch_bitsets(blocks, visited[place], number, starts[place % AHEAD])
    for place in range(first, len(visited)):
        if np.int64(count) + WIDTHS[-1] > len(left):
            return place, int(count)
        block, ahead = np.uint64(visited[place]), np.uint64(place % AHEAD)
        at0, at1 = starts[ahead, np.uint64(0)], starts[ahead, np.uint64(1)]
        at2, at3 = starts[ahead, np.uint64(2)], starts[ahead, np.uint64(3)]
        if place + AHEAD < len(visited):
            _fetch_bitsets(blocks, visited[place + AHEAD], number, starts[ahead])
        width, wide = np.uint64(blocks.width[block]), blocks.wide[block]
        for offset in range(width):
            word = np.uint64(offset)
            common = words[at0 + word] & words[at1 + word] & words[at2 + word] & words[at3 + word]
            if wide and common != 0:
                for j in range(4, GROUPED_BY):
                    common &= words[_bitset(blocks, block, j, number, width) + word]
            left[count] = common
            place_of[count] = block * np.uint64(WIDTHS[-1]) + word
            # Arithmetic in place of a jump, which would be a coin toss.
            count += np.uint64(common != 0)
    return len(visited), int(count)


@inlined
def candidates_in(left: Words, place_of: Ints, found: Ints, in_block: Ints) -> int:
    """Write the bit and the block of each conjunction that is left in these words; how many there are."""
    count = np.uint64(0)
    for at in range(len(left)):
        word, place = left[at], place_of[at]
        block, bit = place // WIDTHS[-1], 64 * (place % WIDTHS[-1])
        while word != 0:
            found[count] = bit + np.int64(lowest_bit(word))
            in_block[count] = block
            count += np.uint64(1)
            word &= word - np.uint64(1)
    return int(count)


@inlined
def _fetch_bitsets(blocks: BitsetBlocks, visited: Any, number: Words, starts: Words) -> None:
    """Note where the first bitsets begin that a block will be asked for, and have them fetched."""
    block = np.uint64(visited)
    width = np.uint64(blocks.width[block])
    for j in range(4):
        starts[j] = _bitset(blocks, block, j, number, width)
        prefetch(blocks.words, starts[j])


@inlined
def _bitset(blocks: BitsetBlocks, block: np.uint64, j: int, number: Words, width: np.uint64) -> Any:
    """Where the bitset begins of a block's j-th attribute and the bucket that it has."""
    attribute, table = attribute_of_block(blocks, block, j)
    return table + number[attribute] * width


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

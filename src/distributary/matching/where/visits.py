"""The blocks that one row visits, and which of their conjunctions may hold for it.

What `blocks` does for many rows that meet one block after another, for one row that meets many blocks: those
that may want it are listed by the bucket of their lead, and the bitsets of the next ones are fetched while
those of the last are combined.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Ints, Words, inlined, kernel
from distributary.matching.memory import lowest_bit, prefetch
from distributary.matching.where.blocks import MOST_BUCKETS, WIDTHS, BitsetBlocks, attribute_of_block
from distributary.matching.where.constraints import TAG_BITS, Constraints, Rows, runs
from distributary.matching.where.plan import GROUPED_BY, Buckets, bucket_of
from distributary.matching.where.rough import EACH, NOT_ROUGH, lane, rough_value

AHEAD = 16
"""The bitsets of a block are fetched while so many blocks before it are looked at."""


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
def single_buckets(buckets: Buckets, attributes: Ints, rows: Rows, row: int) -> tuple[Words, Words]:
    """The bucket of a row for each attribute, and its rough value; 0 for those that are not asked for."""
    number, rough = np.zeros(len(buckets.size), np.uint64), np.zeros(len(buckets.size), np.uint64)
    for attribute in attributes:
        column = rows.where[attribute]
        tag, value = rows.tags[row, column], rows.values[row, column]
        bucket = bucket_of(buckets, attribute, tag, value)
        number[attribute] = bucket
        rough[attribute] = rough_value(buckets, attribute, tag, value, bucket)
    return number, rough


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


class Candidates(NamedTuple):
    """Conjunctions that may hold: the bit of each in its block; and of those with rough bounds, the place of
    these and the rough values of the row."""

    bit: Ints
    block: Ints
    rough: Ints
    lanes: Words


@inlined
def candidates_in(
    constraints: Constraints,
    blocks: BitsetBlocks,
    left: Words,
    place_of: Ints,
    rough: Words,
    found: Candidates,
) -> Any:
    """Write the conjunctions that are left in these words, and have their rough bounds fetched; how many.

    `rough` are the rough values of the row.
    """
    count = np.uint64(0)
    for at in range(len(left)):
        word, place = left[at], place_of[at]
        block, bit = np.uint64(place // WIDTHS[-1]), 64 * (place % WIDTHS[-1])
        first_bound = blocks.rough[block]
        lanes = EACH
        if first_bound != NOT_ROUGH:
            for j in range(blocks.alike[block]):
                attribute = constraints.kind[np.uint64(blocks.kinds[block] + j)] >> TAG_BITS
                lanes |= lane(rough[np.uint64(attribute)], j)
        while word != 0:
            found.bit[count] = bit + np.int64(lowest_bit(word))
            found.block[count] = block
            found.lanes[count] = lanes
            found.rough[count] = first_bound
            if first_bound != NOT_ROUGH:
                found.rough[count] += 2 * found.bit[count]
                prefetch(blocks.rough_bounds, found.rough[count])
            count += np.uint64(1)
            word &= word - np.uint64(1)
    return np.int64(count)


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

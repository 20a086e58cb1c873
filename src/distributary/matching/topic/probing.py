"""The lookups of topics in the tables of a segment: what the Bloom filter lets pass, shape by shape.

Each level of a topic is hashed once. Where shapes are few they are looked up one by one, where they are many
the trie is walked; both add up the hashes of fixed levels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import Bytes, Ints, Words, inlined, kernel
from distributary.matching.columns import Strings
from distributary.matching.memory import prefetch
from distributary.matching.topic import keys
from distributary.matching.topic.keys import ShapeTable, bucket_of, key_of, may_hold
from distributary.matching.topic.text import has_leading_slash
from distributary.matching.topic.trie import CHECKED, CLOSED, MQTTS, OPEN, OURS, WILD, FewShapes, ShapeTrie

BLOCK = 512
"""Lookups that are made at a time, step by step, so that one does not wait for the memory of another."""


class Lookups(NamedTuple):
    """A block of lookups, with room for those of one row more."""

    keys: Words
    shapes: NDArray[np.uint32]
    rows: Ints


@kernel
def room_for_lookups(shapes: ShapeTrie, few: FewShapes, more: int) -> Lookups:
    """Room for the lookups of one row and some more."""
    # A row looks a shape up once at most: its syntax sees it once.
    room = more + (len(few.numbers) if len(few.numbers) else 2 * len(shapes.levels))
    scratch = np.empty(2 * room, np.uint64)  # one piece of memory is had in less time than three
    halves = scratch[room:].view(np.uint32)
    return Lookups(scratch[:room], halves[:room], halves[room:].view(np.int32))


@kernel
def probe(
    first_row: int, topics: Strings, shapes: ShapeTrie, few: FewShapes, table: ShapeTable, lookups: Lookups
) -> tuple[int, int]:
    """Write the lookups of rows that the Bloom filter lets pass: a block of them, if there are so many.

    Returns the first row that was not looked at, and the number of lookups.
    """
    hashes, totals = room_for_levels(few)
    count = 0
    for row in range(first_row, len(topics.starts)):
        if count >= BLOCK:
            return row, count
        if not topics.valid[row]:
            continue
        start, end = topics.starts[row], topics.ends[row]
        count = probe_topic(row, topics.data, start, end, shapes, few, table, hashes, totals, lookups, count)
    return len(topics.starts), count


@kernel
def room_for_levels(few: FewShapes) -> tuple[Words, Words]:
    """Room for the hashes of a topic's levels, and for sums of them; the first sum is 0."""
    room = np.zeros(2 * few.deepest[0] + 2, np.uint64)
    return room[: few.deepest[0] + 1], room[few.deepest[0] + 1 :]


@inlined
def probe_topic(
    row: int,
    topic: Bytes,
    start: int | np.int64,
    end: int | np.int64,
    shapes: ShapeTrie,
    few: FewShapes,
    table: ShapeTable,
    hashes: Words,
    totals: Words,
    lookups: Lookups,
    count: int,
) -> int:
    """Add the lookups of one row, whose topic is given, that the Bloom filter lets pass."""
    # Where there is a leading slash, the two syntaxes see different levels; else they see the same.
    skipped = MQTTS if has_leading_slash(topic, start, end) else 0
    while True:
        depth = keys.hash_levels(topic, start + (skipped == MQTTS), end, hashes)
        if len(few.numbers):
            count = _probe_few(row, depth, skipped, hashes, totals, few, table, lookups, count)
        else:
            count = _walk_trie(row, depth, skipped, hashes, totals, shapes, table, lookups, count)
        if skipped != MQTTS:
            break
        skipped = OURS
    return count


@inlined
def _probe_few(
    row: int,
    depth: int,
    skipped: int,
    hashes: Words,
    totals: Words,
    few: FewShapes,
    table: ShapeTable,
    lookups: Lookups,
    count: int,
) -> int:
    """Look up shape by shape, but for those of one syntax that are skipped.

    From the sum of all hashes those of the wildcard levels are taken off.
    """
    for level in range(min(depth, len(totals) - 1)):
        totals[level + 1] = totals[level] + hashes[level]
    for at in range(len(few.numbers)):
        shape = few.numbers[at]
        if few.depths[at] > depth or (shape & 1 and few.depths[at] != depth) or few.syntax[at] & skipped:
            continue
        total = totals[few.depths[at]]
        for wild in range(few.wild_starts[at], few.wild_starts[at + 1]):
            total -= hashes[few.wild_levels[wild]]
        count = _ask(total, np.uint64(shape), row, table, lookups, count)
    return count


@inlined
def _walk_trie(
    row: int,
    depth: int,
    skipped: int,
    hashes: Words,
    totals: Words,
    shapes: ShapeTrie,
    table: ShapeTable,
    lookups: Lookups,
    count: int,
) -> int:
    """Look up the shapes of the trie that are no deeper than the topic and whose prefixes may exist.

    Those of one syntax are skipped if need be.
    """
    node = 1
    while node < len(shapes.levels):
        level = shapes.levels[node]
        known = shapes.flags[node]
        if level >= depth or known & skipped:
            node = shapes.ends[node]
            continue
        total = totals[level]
        if not known & WILD:
            total += hashes[level]
        totals[level + 1] = total
        if known & CHECKED and not may_hold(
            table.bloom, key_of(total, keys.prefix_number(node), table.mask[0])
        ):
            node = shapes.ends[node]
            continue
        if known & OPEN:
            count = _ask(total, np.uint64(2 * node), row, table, lookups, count)
        if known & CLOSED and level + 1 == depth:
            count = _ask(total, np.uint64(2 * node + 1), row, table, lookups, count)
        node += 1
    return count


@inlined
def _ask(
    total: np.uint64, shape: np.uint64, row: int, table: ShapeTable, lookups: Lookups, count: int
) -> int:
    """Note a lookup unless the Bloom filter rules it out; how many there are then."""
    key = key_of(total, shape, table.mask[0])
    if not may_hold(table.bloom, key):
        return count
    prefetch(table.buckets, bucket_of(key, len(table.buckets) - 1))
    lookups.keys[count] = key
    lookups.shapes[count] = shape
    lookups.rows[count] = row
    return count + 1

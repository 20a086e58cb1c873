"""Our topic index: filters grouped by shape, found by the hashes of their fixed levels, decided on bytes.

A filter of a given shape (see `trie`) matches a topic if and only if their fixed levels agree, so one lookup
per shape answers (see `keys`). In the order of life:

- Compile: `trie` collects the shapes, `keys` hashes the filters into a Bloom filter and a table.
- Search: each level of a topic is hashed once. Where shapes are few they are looked up one by one, where they
  are many the trie is walked; both add up the hashes of fixed levels. What the Bloom filter lets pass is
  looked up in the table, a block of lookups at a time, in steps each of which has fetched what the next
  reads. What the table nominates is decided by comparing the filter's canonical text (`text.agrees`). Equal
  filters are one entry of the table and decided once.
- What was found for a topic is remembered (`memo`), for streams that repeat their topics.
- Changes are the business of `layers`: a segment is compiled once.

Match: O(bytes of the topic + shapes, or prefixes that exist where shapes are many), independent of the number
of filters; O(bytes of the topic) when it was seen before. Compile: O(bytes of the texts + n log n). Memory:
about 20 bytes a filter beside its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.filters.topic import TopicFilter
from distributary.kernel import Ints, Words, inlined, kernel, read_table, sealed_arrays, table_arrays
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.columns import Strings
from distributary.matching.index import Arrays, Pairs
from distributary.matching.layers import CompiledIndex, CompiledSegment
from distributary.matching.memory import prefetch
from distributary.matching.topic import keys, trie
from distributary.matching.topic.keys import ShapeTable, bucket_of, key_of, may_hold
from distributary.matching.topic.memo import TopicMemo
from distributary.matching.topic.text import TEXTS, FilterTexts, agrees, has_leading_slash
from distributary.matching.topic.trie import (
    CHECKED,
    CLOSED,
    MQTTS,
    OPEN,
    OURS,
    WILD,
    FewShapes,
    ShapeTrie,
    few_shapes,
)

BLOCK = 512
"""Lookups that are made at a time, step by step, so that one does not wait for the memory of another."""

LEAST_HITS = 1024
"""How many hits are made room for at first, at least; room for one a row is made in any case."""

REMEMBERED = 1024
"""A segment of so many filters remembers what it found for a topic; a smaller one is searched as fast."""


SEARCHED = (*(TEXTS + field for field in FilterTexts._fields), *ShapeTrie._fields, *ShapeTable._fields)
"""The arrays of a segment that are searched, in the order in which `_nominate` takes them."""


class Lookups(NamedTuple):
    """A block of lookups, with room for those of one row more."""

    keys: Words
    shapes: NDArray[np.uint32]
    rows: Ints


class Hits(NamedTuple):
    """Rows and the entries of the table that match them."""

    rows: Ints
    entries: Ints
    positions: Ints
    """The position of the first filter of each entry; of use while a block is decided."""


class TopicShapes(CompiledIndex[TopicFilter]):
    """The default topic index.

    >>> from distributary.model import Event
    >>> index = TopicShapes()
    >>> index.add(7, TopicFilter.parse("Streams/Sensor/*/Pressure"))
    >>> index.match(Event("e1", topic="Streams/Sensor/Fluid/Pressure"))
    [7]
    """

    kind: ClassVar[str] = "topic"
    name: ClassVar[str] = "shapes"
    filter_class: ClassVar[type[Any]] = TopicFilter

    key_bits: ClassVar[int] = 64
    """How much of a key is used. Fewer bits make keys collide, which must change no answer."""

    def compile(self, filters: Sequence[TopicFilter]) -> Arrays:
        """Collect the shapes, then hash every filter into the table."""
        texts = read_table(FilterTexts, frozen.pack_texts([filter.text for filter in filters]))
        grown = trie.grow_trie(texts)
        shapes, numbers, prefixes = trie.preorder(grown)
        table = keys.build_table(texts, grown, shapes, numbers, prefixes, self.key_bits)
        return {**table_arrays(shapes), **table_arrays(table)}

    def search(self, arrays: Arrays, batch: EventBatch) -> Pairs:
        """Search for every topic of the batch, without the memo."""
        return Pairs.none() if batch.topics is None else self._search(arrays, batch.topics)

    def search_segment(self, segment: CompiledSegment, batch: EventBatch) -> Pairs:
        """Search with the segment's memo, if the segment is large and no other thread uses the memo."""
        topics = batch.topics
        if topics is None or len(segment) < REMEMBERED:
            return self.search(segment.readable, batch)
        if segment.memo is None:
            segment.memo = TopicMemo()
        memo: TopicMemo = segment.memo
        if not memo.free.acquire(blocking=False):
            return self._search(segment.readable, topics)
        try:
            return self._search_with(memo, segment, topics)
        finally:
            memo.free.release()

    def _search_with(self, memo: TopicMemo, segment: CompiledSegment, topics: Strings) -> Pairs:
        """Search for those topics that the memo does not know, and tell it."""
        recalled = memo.recall(topics)
        if recalled is None:
            return self._search(segment.readable, topics)
        if not recalled.unknown.any():
            return recalled.pairs
        found = self._search(segment.readable, topics._replace(valid=recalled.unknown))
        memo.learn(topics, recalled, found)
        return Pairs.joined([recalled.pairs, found])

    def _search(self, arrays: Arrays, topics: Strings) -> Pairs:
        rows = len(topics.starts)
        tables = (*sealed_arrays(topics), *(arrays[name] for name in SEARCHED))
        hits = Hits(*np.empty((3, max(LEAST_HITS, rows)), np.int32))
        parts: list[Pairs] = []
        row = 0
        while row < rows:
            following, count = _nominate(row, *hits, *tables)
            if following == row:
                hits = Hits(*np.empty((3, 2 * len(hits.rows)), np.int32))
            entries = hits.entries[:count]
            parts.append(Pairs(*_expand(hits.rows[:count], entries, arrays["members"], arrays["positions"])))
            row = following
        return Pairs.joined(parts)


@kernel
def _nominate(first_row: int, *arrays: Any) -> tuple[int, int]:
    """Write each row and entry that match, until the hits are full.

    The arrays are those of the hits, the topics, the texts, the trie and the table, one after another: a
    kernel that is given tables takes microseconds longer to be called, which one event alone would notice.

    Returns the first row that is not answered yet, and the number of hits of the rows before it. The arrays
    to write to are given, for a loop that may also replace them is compiled to much slower code.
    """
    hits = Hits(*arrays[0:3])
    topics = Strings(*arrays[3:7])
    texts = FilterTexts(*arrays[7:9])
    shapes = ShapeTrie(*arrays[9:12])
    table = ShapeTable(*arrays[12:18])
    room = BLOCK + 2 * len(shapes.levels)  # a row looks a shape up once at most: its syntax sees it once
    lookups = Lookups(np.empty(room, np.uint64), np.empty(room, np.uint32), np.empty(room, np.int32))
    few = few_shapes(shapes)
    row = first_row
    count = 0
    while row < len(topics.starts):
        following, asked = _probe(row, topics, shapes, few, table, lookups)
        nominated = _look_up(lookups, asked, shapes, table, hits, count)
        if nominated < 0:
            return row, count
        # Decide what was nominated on its text; what matches is moved to the front.
        for hit in range(count, nominated):
            hits.positions[hit] = table.positions[table.members[hits.entries[hit]]]
        for hit in range(count, nominated):
            prefetch(texts.bytes, texts.offsets[hits.positions[hit]])
        for hit in range(count, nominated):
            if agrees(texts, hits.positions[hit], topics, hits.rows[hit]):
                hits.rows[count] = hits.rows[hit]
                hits.entries[count] = hits.entries[hit]
                count += 1
        row = following
    return row, count


@kernel
def _probe(
    first_row: int, topics: Strings, shapes: ShapeTrie, few: FewShapes, table: ShapeTable, lookups: Lookups
) -> tuple[int, int]:
    """Write the lookups of rows that the Bloom filter lets pass: a block of them, if there are so many.

    Returns the first row that was not looked at, and the number of lookups.
    """
    deepest = shapes.levels.max() + 1
    hashes = np.empty(deepest + 1, np.uint64)
    totals = np.zeros(deepest + 1, np.uint64)
    count = 0
    for row in range(first_row, len(topics.starts)):
        if count >= BLOCK:
            return row, count
        if not topics.valid[row]:
            continue
        start, end = topics.starts[row], topics.ends[row]
        # Where there is a leading slash, the two syntaxes see different levels; else they see the same.
        skipped = MQTTS if has_leading_slash(topics.data, start, end) else 0
        while True:
            depth = keys.hash_levels(topics.data, start + (skipped == MQTTS), end, hashes)
            if len(few.numbers):
                count = _probe_few(row, depth, skipped, hashes, totals, few, table, lookups, count)
            else:
                count = _walk_trie(row, depth, skipped, hashes, totals, shapes, table, lookups, count)
            if skipped != MQTTS:
                break
            skipped = OURS
    return len(topics.starts), count


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


@kernel
def _look_up(
    lookups: Lookups, asked: int, shapes: ShapeTrie, table: ShapeTable, hits: Hits, count: int
) -> int:
    """Write the entries with the marks asked for; the number of hits then, or -1 if they are full."""
    buckets, marks = table.buckets, table.marks
    shape_bits = keys.shape_bits(shapes)
    for at in range(asked):
        prefetch(marks, buckets[bucket_of(lookups.keys[at], len(buckets) - 1)])
    for at in range(asked):
        bucket = bucket_of(lookups.keys[at], len(buckets) - 1)
        wanted = keys.mark_of(lookups.keys[at], lookups.shapes[at], shape_bits)
        for entry in range(buckets[bucket], buckets[bucket + 1]):
            if marks[entry] == wanted:
                if count == len(hits.rows):
                    return -1
                prefetch(table.members, entry)
                hits.rows[count] = lookups.rows[at]
                hits.entries[count] = entry
                count += 1
    return count


@kernel
def _expand(rows: Ints, entries: Ints, members: Ints, positions: Ints) -> tuple[Ints, Ints]:
    """Every filter that these entries of the table stand for, with the row that was found for the entry."""
    total = 0
    for entry in entries:
        total += members[entry + 1] - members[entry]
    found_rows = np.empty(total, np.int32)
    found = np.empty(total, np.int32)
    count = 0
    for hit in range(len(entries)):
        for member in range(members[entries[hit]], members[entries[hit] + 1]):
            found_rows[count] = rows[hit]
            found[count] = positions[member]
            count += 1
    return found_rows, found

"""Our topic index: filters grouped by shape, found by the hashes of their fixed levels, decided on bytes.

A filter of a given shape (see `trie`) matches a topic if and only if their fixed levels agree, so one lookup
per shape answers (see `keys`). In the order of life:

- Compile: `trie` collects the shapes, `keys` hashes the filters into a Bloom filter and a table.
- Search: the keys of a topic are worked out (`probing`). What the Bloom filter lets pass is
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

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from distributary.filters.topic import TopicFilter
from distributary.kernel import (
    Bytes,
    Flags,
    Ints,
    Longs,
    inlined,
    kernel,
    read_table,
    sealed_arrays,
    table_arrays,
    with_room,
)
from distributary.matching.batch import EventBatch
from distributary.matching.bound import array_at
from distributary.matching.columns import Strings
from distributary.matching.gathering import Gatherer, TextGatherer
from distributary.matching.index import NO_SLOTS, Arrays, Pairs
from distributary.matching.layers import OWN_ARRAYS, TEXTS, CompiledIndex, CompiledSegment, live_slots
from distributary.matching.memory import prefetch
from distributary.matching.single import SingleEvent
from distributary.matching.topic import keys, trie
from distributary.matching.topic.keys import ShapeTable, bucket_of
from distributary.matching.topic.memo import TopicMemo
from distributary.matching.topic.probing import (
    BLOCK,
    Lookups,
    probe,
    probe_topic,
    room_for_levels,
    room_for_lookups,
)
from distributary.matching.topic.text import FilterTexts, agrees
from distributary.matching.topic.trie import FewShapes, ShapeTrie, few_shapes

LEAST_HITS = 1024
"""How many hits are made room for at first, at least; room for one a row is made in any case."""

REMEMBERED = 1024
"""A segment of so many filters remembers what it found for a topic; a smaller one is searched as fast."""


FEW_HITS = 64
"""How many filters of one topic, or of a few, are made room for at first."""


class Searched(NamedTuple):
    """The tables of a segment that are searched."""

    texts: FilterTexts
    shapes: ShapeTrie
    table: ShapeTable
    few: FewShapes


SEARCHED_TYPES = (
    *(np.uint8, np.int64),
    *(np.int32, np.int32, np.uint8),
    *(np.uint64, np.uint64, np.int32, np.uint32, np.int32, np.int32),
    *(np.uint32, np.int32, np.uint8, np.int32, np.int32, np.int32),
)
"""The types of the arrays of `Searched`, one after another: as they are bound."""


@inlined
def _searched(words: Longs) -> Searched:
    """The tables, as `TopicShapes.searched` has bound them."""
    at = OWN_ARRAYS
    return Searched(
        FilterTexts(array_at(words, at, np.uint8), array_at(words, at + 1, np.int64)),
        ShapeTrie(
            array_at(words, at + 2, np.int32),
            array_at(words, at + 3, np.int32),
            array_at(words, at + 4, np.uint8),
        ),
        ShapeTable(
            array_at(words, at + 5, np.uint64),
            array_at(words, at + 6, np.uint64),
            array_at(words, at + 7, np.int32),
            array_at(words, at + 8, np.uint32),
            array_at(words, at + 9, np.int32),
            array_at(words, at + 10, np.int32),
        ),
        FewShapes(
            array_at(words, at + 11, np.uint32),
            array_at(words, at + 12, np.int32),
            array_at(words, at + 13, np.uint8),
            array_at(words, at + 14, np.int32),
            array_at(words, at + 15, np.int32),
            array_at(words, at + 16, np.int32),
        ),
    )


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

    few: ClassVar[int] = 256
    """Up to so many events are searched by one kernel."""

    def gatherer(self) -> TextGatherer[TopicFilter]:
        """The texts are all there is to compile."""
        return TextGatherer()

    def compile_gathered(self, gathered: Gatherer[TopicFilter]) -> Arrays:
        """Collect the shapes, then hash every filter into the table."""
        texts = read_table(FilterTexts, gathered.texts())
        grown = trie.grow_trie(texts)
        shapes, numbers, prefixes = trie.preorder(grown)
        table = keys.build_table(texts, grown, shapes, numbers, prefixes, self.key_bits)
        return {**table_arrays(shapes), **table_arrays(table)}

    def searched(self, segment: CompiledSegment) -> Iterable[tuple[NDArray[Any], DTypeLike]]:
        """The arrays of `Searched`."""
        arrays = segment.readable
        texts, shapes = read_table(FilterTexts, arrays, TEXTS), read_table(ShapeTrie, arrays)
        tables = (*texts, *shapes, *read_table(ShapeTable, arrays), *few_shapes(shapes))
        return zip(tables, SEARCHED_TYPES, strict=True)

    def find_in(self, number: int, segment: CompiledSegment, single: SingleEvent) -> Ints:
        """Search for the event's topic, without the memo."""
        topic = single.topic
        if topic is None:
            return NO_SLOTS
        bound = self.bound(segment)
        found: Ints = np.empty(FEW_HITS, np.int32)
        count = _find(number, bound.words, topic, found)
        while count > len(found):
            found = np.empty(count, np.int32)
            count = _find(number, bound.words, topic, found)
        return found[:count]

    def search(self, segment: CompiledSegment, batch: EventBatch) -> Pairs:
        """Search with the segment's memo, if the segment is large and no other thread uses the memo."""
        topics = batch.topics
        if topics is None:
            return Pairs.none()
        if len(segment) < REMEMBERED:
            return self._search(segment, topics)
        if segment.memo is None:
            segment.memo = TopicMemo()
        memo: TopicMemo = segment.memo
        if not memo.free.acquire(blocking=False):
            return self._search(segment, topics)
        try:
            return self._search_with(memo, segment, topics)
        finally:
            memo.free.release()

    def match_batch(self, batch: EventBatch) -> Pairs:
        """Search for a few events by one kernel, without the memo, whose calls cost more than it spares."""
        topics = batch.topics
        if topics is None or len(topics.starts) > self.few:
            return super().match_batch(batch)
        texts = sealed_arrays(topics)
        return Pairs.joined(
            [
                Pairs(*_find_in_few(number, self.bound(segment).words, *texts))
                for number, segment in self.segments()
            ]
        )

    def _search_with(self, memo: TopicMemo, segment: CompiledSegment, topics: Strings) -> Pairs:
        """Search for those topics that the memo does not know, and tell it."""
        recalled = memo.recall(topics)
        if recalled is None:
            return self._search(segment, topics)
        if not recalled.unknown.any():
            return recalled.pairs
        found = self._search(segment, topics._replace(valid=recalled.unknown))
        memo.learn(topics, recalled, found)
        return Pairs.joined([recalled.pairs, found])

    def _search(self, segment: CompiledSegment, topics: Strings) -> Pairs:
        rows = len(topics.starts)
        bound = self.bound(segment)
        texts = sealed_arrays(topics)
        members, positions = segment.readable["members"], segment.readable["positions"]
        hits = Hits(*np.empty((3, max(LEAST_HITS, rows)), np.int32))
        parts: list[Pairs] = []
        row = 0
        while row < rows:
            following, count = _nominate(row, bound.words, *hits, *texts)
            if following == row:
                hits = Hits(*np.empty((3, 2 * len(hits.rows)), np.int32))
            parts.append(Pairs(*_expand(hits.rows[:count], hits.entries[:count], members, positions)))
            row = following
        return Pairs.joined(parts)


@kernel
def _find(number: int, words: Longs, topic: Bytes, found: Ints) -> int:
    """Write the live slots of a segment, of that number, whose filters match a topic, as far as they fit.

    Returns how many there are. The steps are those of a batch, for a single row.
    """
    live = live_slots(words)
    texts, shapes, table, few = _searched(words)
    lookups = room_for_lookups(shapes, few, 0)
    hashes, totals = room_for_levels(few)
    asked = probe_topic(0, topic, 0, len(topic), shapes, few, table, hashes, totals, lookups, 0)
    buckets, marks = table.buckets, table.marks
    shape_bits = keys.shape_bits(shapes)
    for at in range(asked):
        prefetch(marks, buckets[bucket_of(lookups.keys[at], len(buckets) - 1)])
    count = 0
    for at in range(asked):
        bucket = bucket_of(lookups.keys[at], len(buckets) - 1)
        wanted = keys.mark_of(lookups.keys[at], lookups.shapes[at], shape_bits)
        for entry in range(buckets[bucket], buckets[bucket + 1]):
            first = table.members[entry]
            if marks[entry] != wanted or not agrees(texts, table.positions[first], topic, 0, len(topic)):
                continue
            for member in range(first, table.members[entry + 1]):
                slot = live.slots[table.positions[member]]
                if live.home[slot] == number:
                    if count < len(found):
                        found[count] = slot
                    count += 1
    return count


@kernel
def _nominate(first_row: int, words: Longs, *arrays: Any) -> tuple[int, int]:
    """Write each row and entry that match, until the hits are full.

    The other arrays are those of the hits and of the topics, one after another: a kernel that is given
    tables takes microseconds longer to be called, which a few events would notice.

    Returns the first row that is not answered yet, and the number of hits of the rows before it. The arrays
    to write to are given, for a loop that may also replace them is compiled to much slower code.
    """
    hits = Hits(*arrays[0:3])
    searched = _searched(words)
    lookups = room_for_lookups(searched.shapes, searched.few, BLOCK)
    following, count = _nominated(first_row, Strings(*arrays[3:7]), searched, lookups, hits)
    return int(following), int(count)


@kernel
def _nominated(
    first_row: int, topics: Strings, searched: Searched, lookups: Lookups, hits: Hits
) -> tuple[int, int]:
    """What `_nominate` does, with room for its lookups."""
    texts, shapes, table, few = searched
    row = first_row
    count = 0
    while row < len(topics.starts):
        following, asked = probe(row, topics, shapes, few, table, lookups)
        nominated = _look_up(lookups, asked, shapes, table, hits, count)
        if nominated < 0:
            return row, count
        # Decide what was nominated on its text; what matches is moved to the front.
        for hit in range(count, nominated):
            hits.positions[hit] = table.positions[table.members[hits.entries[hit]]]
        for hit in range(count, nominated):
            prefetch(texts.bytes, texts.offsets[hits.positions[hit]])
        for hit in range(count, nominated):
            row_hit = hits.rows[hit]
            start, end = topics.starts[row_hit], topics.ends[row_hit]
            if agrees(texts, hits.positions[hit], topics.data, start, end):
                hits.rows[count] = hits.rows[hit]
                hits.entries[count] = hits.entries[hit]
                count += 1
        row = following
    return row, count


@kernel
def _find_in_few(
    number: int, words: Longs, data: Bytes, starts: Longs, ends: Longs, valid: Flags
) -> tuple[Ints, Ints]:
    """The rows and live slots that a few topics find in the segment of that number."""
    topics = Strings(data, starts, ends, valid)
    live, searched = live_slots(words), _searched(words)
    table, lookups = searched.table, room_for_lookups(searched.shapes, searched.few, BLOCK)
    hits, room = _room_for_hits(FEW_HITS), FEW_HITS
    found_rows, found = np.empty(FEW_HITS, np.int32), np.empty(FEW_HITS, np.int32)
    row = count = 0
    while row < len(starts):
        following, hit_count = _nominated(row, topics, searched, lookups, hits)
        if following == row:
            room *= 2
            hits = _room_for_hits(room)
            continue
        for hit in range(hit_count):
            first, last = table.members[hits.entries[hit]], table.members[hits.entries[hit] + 1]
            found_rows, found = (
                with_room(found_rows, count, last - first),
                with_room(found, count, last - first),
            )
            for member in range(first, last):
                slot = live.slots[table.positions[member]]
                if live.home[slot] == number:
                    found_rows[count], found[count] = hits.rows[hit], slot
                    count += 1
        row = following
    return found_rows[:count], found[:count]


@inlined
def _room_for_hits(room: Any) -> Hits:
    return Hits(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32))


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

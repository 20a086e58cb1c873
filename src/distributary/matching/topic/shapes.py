"""Our topic index: filters grouped by shape, found by the hashes of their fixed levels, decided on bytes.

The *shape* of a filter is its depth, which of its levels are wildcards, and whether it is open. A filter of a
given shape matches a topic if and only if their fixed levels agree, so one lookup per shape answers.

- The shapes form a binary trie: at each level a filter goes on with a value or with the wildcard. It is laid
  out in preorder, each node with its level, its flags and the end of its subtree, so that an event walks it
  by going forward and jumping over what cannot match.
- Each level of a topic is hashed once. The key of a prefix is the sum of the hashes of its fixed levels: the
  walk adds one number per node. Mixed with the number of its node, it is the key of a lookup.
- A Bloom filter answers most lookups with no. It also knows the prefixes of filters at each node below which
  many shapes lie (`CROWDED`), so thousands of shapes cost what the prefixes that exist cost, as in a tree.
- Behind it stands a hash table without gaps: filters sorted by key, `buckets` of one filter on average, and a
  *mark* per distinct filter that holds its shape and the bits of its key that still fit into 32.
- A mark only nominates. The shape in it is exact, and the canonical text decides (`text.agrees`), so
  colliding keys cost time and nothing else. Equal filters are adjacent and decided once.
- Lookups are made a block at a time in steps, each of which has fetched what the next one reads.
- Where shapes are few they are looked up one by one, without the trie. What was found for a topic is
  remembered (`memo`), for streams that repeat their topics.

Match: O(bytes of the topic + shapes, or prefixes that exist where shapes are many), independent of the number
of filters; O(bytes of the topic) when it was seen before. Compile: O(bytes of the texts + n log n). Memory:
about 20 bytes a filter beside its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from distributary.filters.topic import TopicFilter
from distributary.kernel import kernel, sealed
from distributary.matching import frozen
from distributary.matching.batch import EventBatch, Strings
from distributary.matching.index import Arrays, Pairs
from distributary.matching.layers import CompiledIndex, CompiledSegment
from distributary.matching.memory import prefetch
from distributary.matching.topic.memo import TopicMemo
from distributary.matching.topic.text import (
    SLASH,
    agrees,
    read_ends,
    text_arrays,
    topic_arrays,
)

CROWDED = 8
"""A node with more shapes than this below it has its prefixes in the Bloom filter: a check costs a lookup."""

SPARSE = 8
"""The Bloom filter is folded in half while less than one bit of this many is set."""

BLOCK = 512
"""Lookups that are made at a time, step by step, so that one does not wait for the memory of another."""

LEAST_HITS = 1024
"""How many hits are made room for at first, at least; room for one a row is made in any case."""

REMEMBERED = 1024
"""A segment of so many filters remembers what it found for a topic; a smaller one is searched as fast."""

COMPILED = ("levels", "ends", "flags", "mask", "bloom", "buckets", "marks", "members", "positions")
"""The arrays of a segment, in the order in which the search takes them."""

WILD, OPEN, CLOSED, CHECKED = 1, 2, 4, 8
"""What is known of a node: its last level is the wildcard; open or closed filters end here; see `CROWDED`."""

U32 = np.uint64(32)
LEVEL_SEED = np.uint64(0x9E3779B97F4A7C15)
BYTE_FACTOR = np.uint64(0x9FB21C651E98DF25)
LEVEL_FACTOR = np.uint64(0xD6E8FEB86659FD93)
NODE_FACTOR = np.uint64(0xC2B2AE3D27D4EB4F)
MARK_FACTOR = np.uint64(0xA0761D6478BD642F)


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
        texts = frozen.pack_texts([filter.text for filter in filters])
        data, offsets = sealed(texts["bytes"]), sealed(texts["offsets"])
        children, parents, ends_at = _grow_trie(data, offsets)
        numbers, levels, ends, flags, prefixes = _preorder(children, parents, ends_at)
        mask = np.uint64(2**self.key_bits - 1)
        words = _power_of_two((len(filters) + prefixes) // 4)
        bloom = np.zeros(words, np.uint64)
        keys, shapes = _keys(data, offsets, children, numbers, flags, mask, bloom)
        table = _table(data, offsets, keys, shapes, 2 * len(levels))
        return {
            "levels": levels,
            "ends": ends,
            "flags": flags,
            "mask": np.array([mask]),
            "bloom": _folded(bloom),
            **table,
        }

    def search(self, arrays: Arrays, batch: EventBatch) -> Pairs:
        return Pairs.none() if batch.topics is None else self._search(arrays, batch.topics)

    def search_segment(self, segment: CompiledSegment, batch: EventBatch) -> Pairs:
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
        unknown = Strings(topics.data, topics.starts, topics.ends, recalled.unknown)
        found = self._search(segment.readable, unknown)
        memo.learn(topics, recalled, found)
        return Pairs.joined([recalled.pairs, found])

    def _search(self, arrays: Arrays, topics: Strings) -> Pairs:
        rows = len(topics.starts)
        readable = (*topic_arrays(topics), *text_arrays(arrays))
        compiled = [sealed(arrays[name]) for name in COMPILED]
        hits = np.empty((3, max(LEAST_HITS, rows)), np.int32)
        parts: list[Pairs] = []
        row = 0
        while row < rows:
            following, count = _nominate(row, hits[0], hits[1], hits[2], *readable, *compiled)
            if following == row:
                hits = np.empty((3, 2 * hits.shape[1]), np.int32)
            parts.append(Pairs(*_expand(hits[0, :count], hits[1, :count], *compiled[-2:])))
            row = following
        return Pairs.joined(parts)


def _table(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    keys: NDArray[np.uint64],
    shapes: NDArray[np.uint32],
    shape_count: int,
) -> Arrays:
    """The hash table: `members[i]:members[i+1]` are the `positions` of the i-th distinct filter."""
    order = np.argsort(keys, kind="stable").astype(np.int32)
    distinct = np.flatnonzero(_differs_from_previous(data, offsets, keys, shapes, order))
    first = order[distinct]
    bucket_count = len(distinct)
    sizes = np.bincount(_buckets(keys[first], bucket_count), minlength=bucket_count)
    buckets = np.zeros(bucket_count + 1, np.int32)
    np.cumsum(sizes, out=buckets[1:])
    return {
        "buckets": buckets,
        "marks": _marks(keys[first], shapes[first], np.uint64(_shape_bits(shape_count))),
        "members": np.append(distinct, len(order)).astype(np.int32),
        "positions": order,
    }


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()


def _folded(bloom: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The smallest filter that is not crowded: a word's number in half the filter has one bit less."""
    while len(bloom) > 1 and np.bitwise_count(bloom).sum() * SPARSE < 64 * len(bloom):
        bloom = bloom[: len(bloom) // 2] | bloom[len(bloom) // 2 :]
    return bloom


@kernel
def _grow_trie(
    data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """The trie of all shapes in order of creation, so that a node comes after its parent.

    Returns each node's children (value, wildcard; 0 is none, for the root is nobody's child) and parent, and
    for each filter twice the node where it ends, plus one if it is closed.
    """
    children = np.zeros((64, 2), np.int32)
    parents = np.zeros(64, np.int32)
    nodes = 1
    ends_at = np.empty(len(offsets) - 1, np.int32)
    for position in range(len(ends_at)):
        at, end, wildcard, is_open = read_ends(data, offsets[position], offsets[position + 1])
        node = 0
        while at < end:
            branch = 1 if data[at] == wildcard and (at + 1 == end or data[at + 1] == SLASH) else 0
            child = children[node, branch]
            if child == 0:
                if nodes == len(parents):
                    children = np.concatenate((children, np.zeros_like(children)))
                    parents = np.concatenate((parents, np.zeros_like(parents)))
                child = nodes
                children[node, branch] = child
                parents[child] = node
                nodes += 1
            node = child
            while at < end and data[at] != SLASH:
                at += 1
            at += 1
        ends_at[position] = 2 * node + (0 if is_open else 1)
    return children[:nodes], parents[:nodes], ends_at


@kernel
def _preorder(
    children: NDArray[np.int32], parents: NDArray[np.int32], ends_at: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8], int]:
    """The preorder number of each node; by that number its level, the end of its subtree and its flags.

    The last number is how many prefixes the Bloom filter will be told, counting equal ones each time.
    """
    nodes = len(parents)
    known = np.zeros(nodes, np.uint8)
    sizes = np.ones(nodes, np.int32)
    shapes = np.zeros(nodes, np.int32)
    filters = np.zeros(nodes, np.int64)
    for shape in ends_at:
        bit = CLOSED if shape & 1 else OPEN
        node = shape >> 1
        filters[node] += 1
        if not known[node] & bit:
            known[node] |= bit
            shapes[node] += 1
    for node in range(nodes - 1, 0, -1):
        sizes[parents[node]] += sizes[node]
        shapes[parents[node]] += shapes[node]
        filters[parents[node]] += filters[node]

    numbers = np.zeros(nodes, np.int32)
    levels = np.full(nodes, -1, np.int32)
    ends = np.empty(nodes, np.int32)
    flags = np.zeros(nodes, np.uint8)
    prefixes = 0
    for node in range(nodes):
        number = numbers[node]
        ends[number] = number + sizes[node]
        flags[number] |= known[node]
        if node and shapes[node] > CROWDED:
            flags[number] |= CHECKED
            prefixes += filters[node]
        following = number + 1
        for branch in range(2):
            child = children[node, branch]
            if child:
                numbers[child] = following
                levels[following] = levels[number] + 1
                flags[following] = WILD if branch else 0
                following += sizes[child]
    return numbers, levels, ends, flags, prefixes


@kernel
def _level_hash(state: np.uint64, level: int) -> np.uint64:
    """The hash of a whole level from the state after its last byte; the level's number goes in."""
    state = (state ^ (state >> U32)) + np.uint64(level) * LEVEL_SEED
    state *= LEVEL_FACTOR
    return state ^ (state >> U32)


@kernel
def _key(total: np.uint64, number: np.uint64, mask: np.uint64) -> np.uint64:
    """The key of fixed levels whose hashes add up to `total`, at the node or shape of that number."""
    key = total + number * NODE_FACTOR
    key = (key ^ (key >> U32)) * LEVEL_FACTOR
    return (key ^ (key >> U32)) & mask


@kernel
def _prefix_number(node: int) -> np.uint64:
    """Prefixes share the Bloom filter with shapes, whose numbers have 32 bits, and must differ from them."""
    return np.uint64(node) | (np.uint64(1) << U32)


@kernel
def _bits(key: np.uint64) -> np.uint64:
    """The two bits that a key sets in its word of the Bloom filter."""
    one = np.uint64(1)
    return (one << ((key >> np.uint64(52)) & np.uint64(63))) | (one << (key >> np.uint64(58)))


@kernel
def _learn(bloom: NDArray[np.uint64], key: np.uint64) -> None:
    bloom[key & np.uint64(len(bloom) - 1)] |= _bits(key)


@kernel
def _may_hold(bloom: NDArray[np.uint64], key: np.uint64) -> bool:
    bits = _bits(key)
    return bool(bloom[key & np.uint64(len(bloom) - 1)] & bits == bits)


@kernel
def _bucket(key: np.uint64, count: int) -> np.int64:
    """Ascending with the key, so that filters sorted by key are sorted by bucket."""
    return np.int64(((key >> U32) * np.uint64(count)) >> U32)


@kernel
def _mark(key: np.uint64, shape: np.uint64, shape_bits: np.uint64) -> np.uint32:
    return np.uint32((((key * MARK_FACTOR) >> U32) << shape_bits) & np.uint64(0xFFFFFFFF) | shape)


@kernel
def _shape_bits(count: int) -> np.uint64:
    bits = 1
    while (1 << bits) < count:
        bits += 1
    return np.uint64(bits)


@kernel
def _keys(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    children: NDArray[np.int32],
    numbers: NDArray[np.int32],
    flags: NDArray[np.uint8],
    mask: np.uint64,
    bloom: NDArray[np.uint64],
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """The key and the shape of each filter; the Bloom filter learns them, and the prefixes it must know."""
    keys = np.empty(len(offsets) - 1, np.uint64)
    shapes = np.empty(len(offsets) - 1, np.uint32)
    for position in range(len(keys)):
        at, end, wildcard, is_open = read_ends(data, offsets[position], offsets[position + 1])
        node = 0
        level = 0
        total = np.uint64(0)
        while at < end:
            wild = data[at] == wildcard and (at + 1 == end or data[at + 1] == SLASH)
            node = children[node, 1 if wild else 0]
            state = LEVEL_SEED
            while at < end and data[at] != SLASH:
                state = (state ^ np.uint64(data[at])) * BYTE_FACTOR
                at += 1
            at += 1
            if not wild:
                total += _level_hash(state, level)
            level += 1
            if flags[numbers[node]] & CHECKED:
                _learn(bloom, _key(total, _prefix_number(numbers[node]), mask))
        shape = np.uint64(2 * numbers[node] + (0 if is_open else 1))
        key = _key(total, shape, mask)
        _learn(bloom, key)
        keys[position] = key
        shapes[position] = shape
    return keys, shapes


@kernel
def _differs_from_previous(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    keys: NDArray[np.uint64],
    shapes: NDArray[np.uint32],
    order: NDArray[np.int32],
) -> NDArray[np.bool_]:
    """Which filters, in this order, are not equal to the one before."""
    differs = np.ones(len(order), np.bool_)
    for place in range(1, len(order)):
        one, other = order[place - 1], order[place]
        start, before = offsets[other], offsets[one]
        length = offsets[other + 1] - start
        if keys[one] != keys[other] or shapes[one] != shapes[other] or offsets[one + 1] - before != length:
            continue
        at = 0
        while at < length and data[start + at] == data[before + at]:
            at += 1
        differs[place] = at < length
    return differs


@kernel
def _buckets(keys: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
    buckets = np.empty(len(keys), np.int64)
    for place in range(len(keys)):
        buckets[place] = _bucket(keys[place], count)
    return buckets


@kernel
def _marks(keys: NDArray[np.uint64], shapes: NDArray[np.uint32], shape_bits: np.uint64) -> NDArray[np.uint32]:
    marks = np.empty(len(keys), np.uint32)
    for place in range(len(keys)):
        marks[place] = _mark(keys[place], np.uint64(shapes[place]), shape_bits)
    return marks


@kernel
def _nominate(
    first_row: int,
    hit_rows: NDArray[np.int32],
    hit_entries: NDArray[np.int32],
    hit_texts: NDArray[np.int32],
    topics: NDArray[np.uint8],
    starts: NDArray[np.int64],
    topic_ends: NDArray[np.int64],
    valid: NDArray[np.bool_],
    texts: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    levels: NDArray[np.int32],
    ends: NDArray[np.int32],
    flags: NDArray[np.uint8],
    masks: NDArray[np.uint64],
    bloom: NDArray[np.uint64],
    buckets: NDArray[np.int32],
    marks: NDArray[np.uint32],
    members: NDArray[np.int32],
    positions: NDArray[np.int32],
) -> tuple[int, int]:
    """Write each row and distinct filter that match, until the hits are full.

    Returns the first row that is not answered yet, and the number of hits of the rows before it. The arrays
    to write to are given, for a loop that may also replace them is compiled to much slower code.
    """
    shape_bits = _shape_bits(2 * len(levels))
    keys, shapes, rows = _room_for_keys(len(levels))
    few, depths, wild_starts, wild_levels = _flattened(levels, flags)
    row = first_row
    count = 0
    while row < len(starts):
        if len(few):
            following, found = _probe_few(
                row,
                keys,
                shapes,
                rows,
                topics,
                starts,
                topic_ends,
                valid,
                few,
                depths,
                wild_starts,
                wild_levels,
                masks[0],
                bloom,
                buckets,
            )
        else:
            following, found = _probe(
                row,
                keys,
                shapes,
                rows,
                topics,
                starts,
                topic_ends,
                valid,
                levels,
                ends,
                flags,
                masks[0],
                bloom,
                buckets,
            )
        nominated = _look_up(
            found, keys, shapes, rows, hit_rows, hit_entries, count, buckets, marks, shape_bits, members
        )
        if nominated < 0:
            return row, count
        for hit in range(count, nominated):
            hit_texts[hit] = positions[members[hit_entries[hit]]]
        for hit in range(count, nominated):
            prefetch(texts, offsets[hit_texts[hit]])
        for hit in range(count, nominated):
            hit_row, text = hit_rows[hit], hit_texts[hit]
            if agrees(texts, offsets[text], offsets[text + 1], topics, starts[hit_row], topic_ends[hit_row]):
                hit_rows[count] = hit_row
                hit_entries[count] = hit_entries[hit]
                count += 1
        row = following
    return row, count


@kernel
def _room_for_keys(nodes: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int32]]:
    """Room for the keys of a block and of one row more, with the shape and the row of each."""
    room = BLOCK + 2 * nodes
    return np.empty(room, np.uint64), np.empty(room, np.uint32), np.empty(room, np.int32)


@kernel
def _flattened(
    levels: NDArray[np.int32], flags: NDArray[np.uint8]
) -> tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """The shapes one by one, where they are few: the number of each, its depth and its wildcard levels.

    The wildcard levels of shape i are `wild_levels[wild_starts[i]:wild_starts[i + 1]]`. Where they are many,
    none are given, and the trie has to be walked.
    """
    shapes = 0
    for node in range(len(levels)):
        known = flags[node]
        shapes += (1 if known & OPEN else 0) + (1 if known & CLOSED else 0)
        if known & CHECKED:
            shapes = 0
            break
    numbers = np.empty(shapes, np.uint32)
    depths = np.empty(shapes, np.int32)
    wild_starts = np.zeros(shapes + 1, np.int32)
    wild_levels = np.empty(shapes * (levels.max() + 1), np.int32)
    path = np.zeros(levels.max() + 1, np.bool_)
    count = 0
    for node in range(1, len(levels) if shapes else 0):
        path[levels[node]] = flags[node] & WILD
        for closed in range(2):
            if not flags[node] & (CLOSED if closed else OPEN):
                continue
            numbers[count] = 2 * node + closed
            depths[count] = levels[node] + 1
            filled = wild_starts[count]
            for level in range(levels[node] + 1):
                if path[level]:
                    wild_levels[filled] = level
                    filled += 1
            count += 1
            wild_starts[count] = filled
    return numbers, depths, wild_starts, wild_levels


@kernel
def _probe_few(
    first_row: int,
    keys: NDArray[np.uint64],
    shapes: NDArray[np.uint32],
    rows: NDArray[np.int32],
    topics: NDArray[np.uint8],
    starts: NDArray[np.int64],
    topic_ends: NDArray[np.int64],
    valid: NDArray[np.bool_],
    few: NDArray[np.uint32],
    depths: NDArray[np.int32],
    wild_starts: NDArray[np.int32],
    wild_levels: NDArray[np.int32],
    mask: np.uint64,
    bloom: NDArray[np.uint64],
    buckets: NDArray[np.int32],
) -> tuple[int, int]:
    """What `_probe` does, shape by shape: from the sum of all hashes those of the wildcards are taken off."""
    deepest = depths.max()
    hashes = np.empty(deepest + 1, np.uint64)
    totals = np.zeros(deepest + 1, np.uint64)
    count = 0
    for row in range(first_row, len(starts)):
        if count >= BLOCK:
            return row, count
        if not valid[row]:
            continue
        depth = _hash_levels(topics, starts[row], topic_ends[row], hashes)
        for level in range(min(depth, deepest)):
            totals[level + 1] = totals[level] + hashes[level]
        for at in range(len(few)):
            shape = few[at]
            if depths[at] > depth or (shape & 1 and depths[at] != depth):
                continue
            total = totals[depths[at]]
            for wild in range(wild_starts[at], wild_starts[at + 1]):
                total -= hashes[wild_levels[wild]]
            key = _key(total, np.uint64(shape), mask)
            if _may_hold(bloom, key):
                prefetch(buckets, _bucket(key, len(buckets) - 1))
                keys[count] = key
                shapes[count] = shape
                rows[count] = row
                count += 1
    return len(starts), count


@kernel
def _probe(
    first_row: int,
    keys: NDArray[np.uint64],
    shapes: NDArray[np.uint32],
    rows: NDArray[np.int32],
    topics: NDArray[np.uint8],
    starts: NDArray[np.int64],
    topic_ends: NDArray[np.int64],
    valid: NDArray[np.bool_],
    levels: NDArray[np.int32],
    ends: NDArray[np.int32],
    flags: NDArray[np.uint8],
    mask: np.uint64,
    bloom: NDArray[np.uint64],
    buckets: NDArray[np.int32],
) -> tuple[int, int]:
    """Write the keys of rows that the Bloom filter lets pass: a block of them, if there are so many.

    Returns the first row that was not looked at, and the number of keys.
    """
    deepest = levels.max() + 1
    hashes = np.empty(deepest + 1, np.uint64)
    totals = np.zeros(deepest + 1, np.uint64)
    count = 0
    for row in range(first_row, len(starts)):
        if count >= BLOCK:
            return row, count
        if not valid[row]:
            continue
        depth = _hash_levels(topics, starts[row], topic_ends[row], hashes)
        node = 1
        while node < len(levels):
            level = levels[node]
            known = flags[node]
            if level >= depth:
                node = ends[node]
                continue
            total = totals[level]
            if not known & WILD:
                total += hashes[level]
            totals[level + 1] = total
            if known & CHECKED and not _may_hold(bloom, _key(total, _prefix_number(node), mask)):
                node = ends[node]
                continue
            for closed in range(2):
                if not known & (CLOSED if closed else OPEN) or (closed and level + 1 != depth):
                    continue
                shape = np.uint64(2 * node + closed)
                key = _key(total, shape, mask)
                if _may_hold(bloom, key):
                    prefetch(buckets, _bucket(key, len(buckets) - 1))
                    keys[count] = key
                    shapes[count] = shape
                    rows[count] = row
                    count += 1
            node += 1
    return len(starts), count


@kernel
def _look_up(
    found: int,
    keys: NDArray[np.uint64],
    shapes: NDArray[np.uint32],
    rows: NDArray[np.int32],
    hit_rows: NDArray[np.int32],
    hit_entries: NDArray[np.int32],
    count: int,
    buckets: NDArray[np.int32],
    marks: NDArray[np.uint32],
    shape_bits: np.uint64,
    members: NDArray[np.int32],
) -> int:
    """Write the entries with the marks of these keys; the number of hits then, or -1 if they are full."""
    for at in range(found):
        prefetch(marks, buckets[_bucket(keys[at], len(buckets) - 1)])
    for at in range(found):
        bucket = _bucket(keys[at], len(buckets) - 1)
        wanted = _mark(keys[at], np.uint64(shapes[at]), shape_bits)
        for entry in range(buckets[bucket], buckets[bucket + 1]):
            if marks[entry] == wanted:
                if count == len(hit_rows):
                    return -1
                prefetch(members, entry)
                hit_rows[count] = rows[at]
                hit_entries[count] = entry
                count += 1
    return count


@kernel
def _expand(
    hit_rows: NDArray[np.int32],
    hit_entries: NDArray[np.int32],
    members: NDArray[np.int32],
    positions: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Every filter that a hit stands for, with its row."""
    total = 0
    for entry in hit_entries:
        total += members[entry + 1] - members[entry]
    rows = np.empty(total, np.int32)
    found = np.empty(total, np.int32)
    count = 0
    for hit in range(len(hit_rows)):
        entry = hit_entries[hit]
        for member in range(members[entry], members[entry + 1]):
            rows[count] = hit_rows[hit]
            found[count] = positions[member]
            count += 1
    return rows, found


@kernel
def _hash_levels(data: NDArray[np.uint8], start: int, end: int, hashes: NDArray[np.uint64]) -> int:
    """Hash the levels of a topic, as many as fit; return its depth, or one too many when it is deeper."""
    level = 0
    state = LEVEL_SEED
    for at in range(start, end):
        byte = data[at]
        if byte != SLASH:
            state = (state ^ np.uint64(byte)) * BYTE_FACTOR
            continue
        hashes[level] = _level_hash(state, level)
        level += 1
        if level == len(hashes):
            return level
        state = LEVEL_SEED
    hashes[level] = _level_hash(state, level)
    return level + 1

"""Keys of topic filters: one number for the fixed levels of a filter, and the table in which it is found.

- Each level is hashed with its number. The hashes of the fixed levels are added up, so that a topic's sum for
  a shape takes one addition a level. Mixed with the number of the shape, the sum is the *key* of a lookup.
- A Bloom filter answers most lookups with no. It knows the keys of filters, and those of the prefixes of
  filters at crowded nodes of the trie (see `trie.CROWDED`): thousands of shapes then cost what the prefixes
  that exist cost, as in a tree.
- Behind it stands a hash table without gaps: filters sorted by key, one filter a bucket on average, and for
  each distinct filter a *mark* with its shape and those bits of its key that still fit into 32.

Marks only nominate. Who uses the table compares texts, so colliding keys cost time and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import Bytes, Flags, Ints, Longs, Words, kernel, same_text
from distributary.matching.topic.text import SLASH, FilterTexts, is_wildcard, read_ends
from distributary.matching.topic.trie import CHECKED, GrownTrie, ShapeTrie, root_of

SPARSE = 8
"""The Bloom filter is folded in half while less than one bit of this many is set."""

U32 = np.uint64(32)
LEVEL_SEED = np.uint64(0x9E3779B97F4A7C15)
BYTE_FACTOR = np.uint64(0x9FB21C651E98DF25)
LEVEL_FACTOR = np.uint64(0xD6E8FEB86659FD93)
NODE_FACTOR = np.uint64(0xC2B2AE3D27D4EB4F)
MARK_FACTOR = np.uint64(0xA0761D6478BD642F)


class ShapeTable(NamedTuple):
    """The filters of a segment by key. An *entry* is one distinct filter, in the order of keys."""

    mask: Words
    """One number: the bits of a key that are used."""
    bloom: Words
    """The Bloom filter; its number of words is a power of two."""
    buckets: Ints
    """Bucket b has the entries `buckets[b]` to `buckets[b + 1]`."""
    marks: NDArray[np.uint32]
    """The mark of each entry."""
    members: Ints
    """Entry e stands for the filters `positions[members[e]:members[e + 1]]`, which are all equal."""
    positions: Ints


def build_table(
    texts: FilterTexts, grown: GrownTrie, trie: ShapeTrie, numbers: Ints, prefixes: int, bits: int
) -> ShapeTable:
    """The table of these filters, whose trie and number of prefixes are known; a key has so many bits."""
    mask = np.uint64(2**bits - 1)
    words = max((len(grown.shape_of) + prefixes) // 4, 1)
    bloom = np.zeros(1 << (words - 1).bit_length(), np.uint64)
    keys, shapes = _filter_keys(texts, grown, trie, numbers, mask, bloom)
    order = np.argsort(keys, kind="stable").astype(np.int32)
    distinct = np.flatnonzero(_differs_from_previous(texts, keys, shapes, order))
    first = order[distinct]
    sizes = np.bincount(_buckets(keys[first]), minlength=len(distinct))
    return ShapeTable(
        np.array([mask]),
        _folded(bloom),
        np.append(0, np.cumsum(sizes)).astype(np.int32),
        _marks(keys[first], shapes[first], shape_bits(trie)),
        np.append(distinct, len(order)).astype(np.int32),
        order,
    )


def _folded(bloom: Words) -> Words:
    """The smallest filter that is not crowded: a word's number in half the filter has one bit less."""
    while len(bloom) > 1 and np.bitwise_count(bloom).sum() * SPARSE < 64 * len(bloom):
        bloom = bloom[: len(bloom) // 2] | bloom[len(bloom) // 2 :]
    return bloom


# Hashes and keys


@kernel
def level_hash(state: np.uint64, level: int) -> np.uint64:
    """The hash of a whole level from the state after its last byte; the level's number goes in."""
    state = (state ^ (state >> U32)) + np.uint64(level) * LEVEL_SEED
    state *= LEVEL_FACTOR
    return state ^ (state >> U32)


@kernel
def hash_levels(data: Bytes, start: int | np.int64, end: int | np.int64, hashes: Words) -> int:
    """Hash the levels of a topic, as many as fit; return its depth, or one too many when it is deeper."""
    level = 0
    state = LEVEL_SEED
    for at in range(start, end):
        byte = data[at]
        if byte != SLASH:
            state = (state ^ np.uint64(byte)) * BYTE_FACTOR
            continue
        hashes[level] = level_hash(state, level)
        level += 1
        if level == len(hashes):
            return level
        state = LEVEL_SEED
    hashes[level] = level_hash(state, level)
    return level + 1


@kernel
def key_of(total: np.uint64, number: np.uint64, mask: np.uint64) -> np.uint64:
    """The key of fixed levels whose hashes add up to `total`, for the shape or prefix of that number."""
    key = total + number * NODE_FACTOR
    key = (key ^ (key >> U32)) * LEVEL_FACTOR
    return (key ^ (key >> U32)) & mask


@kernel
def prefix_number(node: int | np.int32) -> np.uint64:
    """The number of the prefixes that end at a node; those of shapes, which have 32 bits, are others."""
    return np.uint64(node) | (np.uint64(1) << U32)


@kernel
def _filter_keys(
    texts: FilterTexts, grown: GrownTrie, trie: ShapeTrie, numbers: Ints, mask: np.uint64, bloom: Words
) -> tuple[Words, NDArray[np.uint32]]:
    """The key and the shape of each filter; the Bloom filter learns them, and the prefixes it must know."""
    data = texts.bytes
    keys = np.empty(len(texts.offsets) - 1, np.uint64)
    shapes = np.empty(len(keys), np.uint32)
    for position in range(len(keys)):
        first, end, wildcard, is_open = read_ends(data, texts.offsets[position], texts.offsets[position + 1])
        at, node, level = first, root_of(wildcard), 0
        total = np.uint64(0)
        while at <= end:
            wild = is_wildcard(data, at, first, end, wildcard)
            node = grown.children[node, 1 if wild else 0]
            state = LEVEL_SEED
            while at < end and data[at] != SLASH:
                state = (state ^ np.uint64(data[at])) * BYTE_FACTOR
                at += 1
            at += 1
            if not wild:
                total += level_hash(state, level)
            level += 1
            if trie.flags[numbers[node]] & CHECKED:
                _learn(bloom, key_of(total, prefix_number(numbers[node]), mask))
        shapes[position] = 2 * numbers[node] + (0 if is_open else 1)
        keys[position] = key_of(total, np.uint64(shapes[position]), mask)
        _learn(bloom, keys[position])
    return keys, shapes


# The Bloom filter: a key sets two bits of one word


@kernel
def _bits(key: np.uint64) -> np.uint64:
    one = np.uint64(1)
    return (one << ((key >> np.uint64(52)) & np.uint64(63))) | (one << (key >> np.uint64(58)))


@kernel
def _learn(bloom: Words, key: np.uint64) -> None:
    bloom[key & np.uint64(len(bloom) - 1)] |= _bits(key)


@kernel
def may_hold(bloom: Words, key: np.uint64) -> bool:
    """False when the key was certainly not learnt."""
    bits = _bits(key)
    return bool(bloom[key & np.uint64(len(bloom) - 1)] & bits == bits)


# Buckets and marks


@kernel
def bucket_of(key: np.uint64, count: int) -> np.int64:
    """Ascending with the key, so that filters sorted by key are sorted by bucket."""
    return np.int64(((key >> U32) * np.uint64(count)) >> U32)


@kernel
def mark_of(key: np.uint64, shape: np.uint32, shape_bits: np.uint64) -> np.uint32:
    """The shape in the lower bits, and as much of the key as fits above."""
    bits = ((key * MARK_FACTOR) >> U32) << shape_bits
    return np.uint32(bits & np.uint64(0xFFFFFFFF) | np.uint64(shape))


@kernel
def shape_bits(trie: ShapeTrie) -> np.uint64:
    """How many bits the number of a shape takes."""
    bits = 1
    while (1 << bits) < 2 * len(trie.levels):
        bits += 1
    return np.uint64(bits)


@kernel
def _differs_from_previous(texts: FilterTexts, keys: Words, shapes: NDArray[np.uint32], order: Ints) -> Flags:
    """Which filters, in this order, are not equal to the one before."""
    differs = np.ones(len(order), np.bool_)
    for place in range(1, len(order)):
        one, other = order[place - 1], order[place]
        if keys[one] == keys[other] and shapes[one] == shapes[other]:
            start, end = texts.offsets[one], texts.offsets[one + 1]
            other_start, other_end = texts.offsets[other], texts.offsets[other + 1]
            differs[place] = not same_text(texts.bytes, start, end, texts.bytes, other_start, other_end)
    return differs


@kernel
def _buckets(keys: Words) -> Longs:
    buckets = np.empty(len(keys), np.int64)
    for place in range(len(keys)):
        buckets[place] = bucket_of(keys[place], len(keys))
    return buckets


@kernel
def _marks(keys: Words, shapes: NDArray[np.uint32], bits: np.uint64) -> NDArray[np.uint32]:
    marks = np.empty(len(keys), np.uint32)
    for place in range(len(keys)):
        marks[place] = mark_of(keys[place], shapes[place], bits)
    return marks

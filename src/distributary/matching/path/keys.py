"""Which equalities does a document satisfy somewhere? Its labels and values are looked up in a hash table.

A *key* is a label and a literal, as a string or as a number; all filters entered by that equality hang
on it (see `postings`). Looking up thousands of values costs fetching places of large tables. So each step is
done for all values before the next, and asks for what the next will read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Bytes, Ints, Longs, Words, inlined, kernel, same_text, uncounted
from distributary.matching.memory import hash_words, prefetch
from distributary.matching.path import expressions as kinds
from distributary.matching.path.bounds import PATH
from distributary.matching.path.evaluate import ExpressionTable, NodeValues
from distributary.matching.path.labels import LabelCodes
from distributary.matching.path.trie import RELATIONS, Trie, mixed_key

SLOT_KEY, SLOT_TAG = range(2)
"""The columns of the slots of a hash table of keys: the key, -1 for none, and half of its hash."""

KEY_VALUE, KEY_CODE, KEY_LOW, KEY_HIGH = range(4)
"""The columns of keys: the bits of a number, or where a string begins and (in the lower 16 bits) its length;
twice the label's code, plus one for a string; and its postings from LOW up to HIGH."""

TEXT, NUMBER, HASH = 1, 2, 4
"""Bits of what a code is asked for: keys with strings, keys with numbers, the hashes of its strings."""

HIT_TREE, HIT_PLACE = range(2)
"""The columns of hits, by key: the tree that last had it, and its place among the keys that this tree has."""


class PathKeys(NamedTuple):
    """A segment's keys, laid out so that what is read together stands together."""

    asked: Bytes
    """By code: TEXT, NUMBER and HASH."""
    present: Words
    """A set of bits, of which a key has the one that `_bit_of` gives: most look-ups end here."""
    slots: Ints
    keys: Longs
    hits: Ints
    """By key: HIT_TREE and HIT_PLACE."""


class KeyHits(NamedTuple):
    """The keys that a tree has, and the nodes that have their values."""

    keys: Ints
    paths: Words
    """By hit: the bits of the paths (see `bounds`) that have the value."""
    low: Ints
    """By hit: its nodes are `nodes[low[hit] : low[hit + 1]]`, ascending."""
    nodes: Ints


@kernel
def pack_keys(table: ExpressionTable, trie: Trie) -> PathKeys:
    """The keys of a trie."""
    count = len(trie.key_code)
    size = 16
    while size < 2 * count:
        size *= 2
    slots, keys = np.full((size, 2), -1, np.int32), np.empty((count, 4), np.int64)
    present = np.zeros((size >> 4) + 1, np.uint64)  # four bits for each slot
    for key in range(count):
        string = trie.key_string[key]
        value = trie.key_number[key]
        keys[key, KEY_VALUE] = np.int64(value)
        if string >= 0:
            low, high = table.string_offsets[string], table.string_offsets[string + 1]
            value = hash_words(table.string_bytes, low, high)
            keys[key, KEY_VALUE] = (low << 16) | (high - low)
        keys[key, KEY_CODE] = 2 * np.int64(trie.key_code[key]) + np.int64(string >= 0)
        keys[key, KEY_LOW], keys[key, KEY_HIGH] = trie.key_low[key], trie.key_low[key + 1]
        mixed = mixed_key(trie.key_code[key], value)
        place = _place_of(mixed, size)
        while slots[place, SLOT_KEY] >= 0:
            place = (place + 1) & (size - 1)
        slots[place, SLOT_KEY], slots[place, SLOT_TAG] = key, np.int32(mixed >> np.uint64(33))
        bit = _bit_of(mixed, len(present))
        present[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))
    return PathKeys(_asked_of_codes(table, trie), present, slots, keys, np.full((count, 2), -1, np.int32))


@kernel
def _asked_of_codes(table: ExpressionTable, trie: Trie) -> Bytes:
    asked = np.zeros(len(trie.code_has_strings), np.uint8)
    for code in range(len(asked)):
        run = code * RELATIONS + kinds.STRING_UNEQUAL
        asked[code] = (
            (TEXT | HASH if trie.code_has_strings[code] else 0)
            | (NUMBER if trie.code_has_numbers[code] else 0)
            | (HASH if trie.test_low[run] < trie.test_low[run + 1] else 0)
        )
    for row in range(len(table.rows)):
        if table.rows[row, kinds.KIND] == kinds.COMPARED and table.rows[row, kinds.SECOND] < kinds.EQUAL:
            asked[table.rows[row, kinds.FIRST]] |= HASH
    return asked


@inlined
def _bit_of(mixed: np.uint64, words: int) -> np.uint64:
    """The bit of a key with that hash in a set of so many words."""
    return ((mixed >> np.uint64(32)) * np.uint64(64 * words)) >> np.uint64(32)


@inlined
def _place_of(mixed: np.uint64, size: int) -> int:
    """Where to start looking for a key with that hash in a table of that size, a power of two."""
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(size - 1))  # type: ignore[return-value]


@kernel
def find_keys(
    tree: int,
    longest: int,
    table: ExpressionTable,
    keys: PathKeys,
    codes: LabelCodes,
    label: Ints,
    of_node: Ints,
    classes: Ints,
    values: NodeValues,
) -> KeyHits:
    """The equalities that some node's label and value satisfy.

    Longer strings than `longest` equal no literal. `label` and `of_node` give each node's label and class.
    """
    # Each node has at most four keys: its label and the wildcard's, with its value as a string and a number.
    room = 4 * len(label)
    wanted, asked = np.empty((room, 2), np.uint64), np.empty((room, 2), np.int32)
    masks = _asked_of_labels(codes, keys.asked)
    count = _ask_values(longest, masks, codes, label, values, wanted, asked)
    count = _find_slots(count, wanted, asked, keys)
    hits, paths, pairs = np.empty(count, np.int32), np.zeros(count, np.uint64), np.empty(2 * count, np.int32)
    used = np.zeros(2, np.int64)
    _look_up(tree, count, wanted, asked, table, keys, of_node, classes, values, hits, paths, pairs, used)
    return _nodes_of_hits(hits[: used[0]], paths[: used[0]], pairs[: used[1]])


WILDCARDS = 3
"""By label, what is asked of the wildcard's code stands so many bits above what is asked of its own."""


@kernel
def _asked_of_labels(codes: LabelCodes, asked: Bytes) -> Bytes:
    """By label: what its own code and the wildcard's are asked for."""
    masks = np.zeros(len(codes.own), np.uint8)
    for label in range(len(masks)):
        own, wildcard = codes.own[label], codes.wildcard[label]
        if own >= 0:
            masks[label] |= asked[own]
        if wildcard >= 0 and wildcard != own:
            masks[label] |= asked[wildcard] << WILDCARDS
    return masks


ASKED_HASH, ASKED_VALUE = range(2)
"""The columns of what is looked up: the hash of the key, and the bits of a number or the hash of a string."""
ASKED_NODE, ASKED_CODE = range(2)
"""The node, and twice the label's code, plus one for a string."""


@uncounted
def _ask_values(
    longest: int,
    masks: Bytes,
    codes: LabelCodes,
    label: Ints,
    values: NodeValues,
    wanted: Words,
    asked: Ints,
) -> int:
    """List the keys that the nodes may have: ASKED_HASH and ASKED_VALUE, ASKED_NODE and ASKED_CODE.

    Strings get their hash in `values.hashes`.
    """
    bits = values.numbers.view(np.uint64)
    count: Any = np.int64(0)
    for node in range(1, len(label)):
        mask = masks[label[node]]
        if mask & (HASH | (HASH << WILDCARDS)) and values.end[node] - values.start[node] <= longest:
            text = values.hashes[node] = hash_words(values.data, values.start[node], values.end[node])
            for shift in (0, WILDCARDS):
                if (mask >> shift) & TEXT:
                    code = codes.wildcard[label[node]] if shift else codes.own[label[node]]
                    wanted[count, ASKED_HASH], wanted[count, ASKED_VALUE] = mixed_key(code, text), text
                    asked[count, ASKED_NODE], asked[count, ASKED_CODE] = node, 2 * code + 1
                    count += 1
        if mask & (NUMBER | (NUMBER << WILDCARDS)) and values.numbers[node] == values.numbers[node]:
            for shift in (0, WILDCARDS):
                if (mask >> shift) & NUMBER:
                    code = codes.wildcard[label[node]] if shift else codes.own[label[node]]
                    wanted[count, ASKED_HASH] = mixed_key(code, bits[node])
                    wanted[count, ASKED_VALUE] = bits[node]
                    asked[count, ASKED_NODE], asked[count, ASKED_CODE] = node, 2 * code
                    count += 1
    return count  # type: ignore[no-any-return]


@uncounted
def _find_slots(count: int, wanted: Words, asked: Ints, keys: PathKeys) -> int:
    """Keep of what is looked up only what may be there, and have its slots fetched; how much that is."""
    present, size = keys.present, len(keys.slots)
    kept: Any = np.int64(0)
    for at in range(count):
        mixed = wanted[at, ASKED_HASH]
        bit = _bit_of(mixed, len(present))
        wanted[kept, ASKED_HASH], wanted[kept, ASKED_VALUE] = mixed, wanted[at, ASKED_VALUE]
        asked[kept, ASKED_NODE], asked[kept, ASKED_CODE] = asked[at, ASKED_NODE], asked[at, ASKED_CODE]
        if (present[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & np.uint64(1):
            prefetch(keys.slots, 2 * _place_of(mixed, size))
            kept += 1
    slots = keys.slots
    for at in range(kept):
        key = slots[_place_of(wanted[at, ASKED_HASH], size), SLOT_KEY]
        if key >= 0:
            prefetch(keys.keys, 4 * key)
            prefetch(keys.hits, 2 * key)
    return kept  # type: ignore[no-any-return]


@uncounted
def _look_up(
    tree: int,
    count: int,
    wanted: Words,
    asked: Ints,
    table: ExpressionTable,
    keys: PathKeys,
    of_node: Ints,
    classes: Ints,
    values: NodeValues,
    hits: Ints,
    paths: Words,
    pairs: Ints,
    counts: Longs,
) -> None:
    """Write the keys there are of those asked, and pairs of a place among them and a node; count both."""
    slots, rows, data, found = keys.slots, keys.keys, table.string_bytes, keys.hits
    size = len(slots)
    used: Any = np.int64(0)
    paired: Any = np.int64(0)
    for at in range(count):
        mixed = wanted[at, ASKED_HASH]
        place = _place_of(mixed, size)
        key = slots[place, SLOT_KEY]
        tag, code, value = np.int32(mixed >> np.uint64(33)), asked[at, ASKED_CODE], wanted[at, ASKED_VALUE]
        node = asked[at, ASKED_NODE]
        while key >= 0:
            if slots[place, SLOT_TAG] == tag and rows[key, KEY_CODE] == code:
                held = rows[key, KEY_VALUE]
                low, high = held >> 16, (held >> 16) + (held & 0xFFFF)
                if not code & 1:
                    if np.uint64(held) == value:
                        break
                elif same_text(data, low, high, values.data, values.start[node], values.end[node]):
                    break
            place = (place + 1) & (size - 1)
            key = slots[place, SLOT_KEY]
        if key < 0:
            continue
        if found[key, HIT_TREE] != tree:
            found[key, HIT_TREE], found[key, HIT_PLACE] = tree, used
            hits[used] = key
            used += 1
        hit = found[key, HIT_PLACE]
        paths[hit] |= np.uint64(1) << np.uint64(classes[of_node[node], PATH] & 63)
        pairs[paired], pairs[paired + 1] = hit, node
        paired += 2
    counts[0], counts[1] = used, paired


@kernel
def _nodes_of_hits(hits: Ints, paths: Words, pairs: Ints) -> KeyHits:
    """The hits with the nodes that they are paired with."""
    low = np.zeros(len(hits) + 2, np.int32)
    for at in range(0, len(pairs), 2):
        low[pairs[at] + 2] += 1
    for hit in range(2, len(hits) + 2):
        low[hit] += low[hit - 1]
    ordered = np.empty(len(pairs) // 2, np.int32)
    for at in range(0, len(pairs), 2):
        ordered[low[pairs[at] + 1]] = pairs[at + 1]
        low[pairs[at] + 1] += 1
    return KeyHits(hits, paths, low, ordered)

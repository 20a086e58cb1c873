"""The trie of filter shapes: which shapes there are, laid out so that an event walks it by going forward.

The *shape* of a topic filter is its syntax, its depth, which of its levels are wildcards, and whether it is
open. The shapes form a binary trie for each syntax: at each level a filter goes on with a value or with the
wildcard. The nodes are numbered in preorder, those of MQTT's syntax behind all others; an event skips what
cannot match by jumping to the end of a subtree. The shape of the filters that end at a node has the number
2 * node, plus one if they are closed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import Bytes, Ints, kernel
from distributary.matching.topic.text import PLUS, SLASH, FilterTexts, is_wildcard, read_ends

CROWDED = 8
"""A node with more shapes than this below it has its prefixes in the Bloom filter: a check costs a lookup."""

WILD, OPEN, CLOSED, CHECKED = 1, 2, 4, 8
"""What is known of a node: its last level is the wildcard; open or closed filters end here; see `CROWDED`."""

OURS, MQTTS = 16, 32
"""What is known of a node, too: the syntax of the filters that pass it."""

VALUE, WILDCARD = 0, 1
"""The two children of a node, as columns of `GrownTrie.children`."""

OUR_ROOT, MQTT_ROOT = 0, 1
"""The roots of a `GrownTrie`. In preorder they are one, node 0."""


class ShapeTrie(NamedTuple):
    """The trie in preorder; each array has one entry a node, and node 0 is the root."""

    levels: Ints
    """The level that a node stands for, from 0; -1 for the root."""
    ends: Ints
    """One beyond the last node of its subtree."""
    flags: Bytes
    """WILD, OPEN, CLOSED, CHECKED, and OURS or MQTTS."""


class GrownTrie(NamedTuple):
    """The trie in order of creation, so that a node comes after its parent."""

    children: Ints
    """A row a node, with the columns VALUE and WILDCARD; 0 is none, for a root is nobody's child."""
    parents: Ints
    shape_of: Ints
    """By filter: twice the node where it ends, plus one if it is closed."""


class FewShapes(NamedTuple):
    """The shapes one by one; empty where there are too many for that."""

    numbers: NDArray[np.uint32]
    depths: Ints
    syntax: Bytes
    """OURS or MQTTS."""
    wild_starts: Ints
    wild_levels: Ints
    """The wildcard levels of shape i are `wild_levels[wild_starts[i]:wild_starts[i + 1]]`."""
    deepest: Ints
    """One number: the levels of the deepest shape, where there are many as well."""


@kernel
def grow_trie(texts: FilterTexts) -> GrownTrie:
    """The trie of the shapes of these filters."""
    children = np.zeros((64, 2), np.int32)
    parents = np.zeros(64, np.int32)
    nodes = 2
    shape_of = np.empty(len(texts.offsets) - 1, np.int32)
    data = texts.bytes
    for position in range(len(shape_of)):
        first, end, wildcard, is_open = read_ends(data, texts.offsets[position], texts.offsets[position + 1])
        at, node = first, root_of(wildcard)
        while at <= end:
            branch = WILDCARD if is_wildcard(data, at, first, end, wildcard) else VALUE
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
        shape_of[position] = 2 * node + (0 if is_open else 1)
    return GrownTrie(children[:nodes], parents[:nodes], shape_of)


@kernel
def root_of(wildcard: int) -> int:
    """The root of a `GrownTrie` for the filters that write the wildcard so."""
    return MQTT_ROOT if wildcard == PLUS else OUR_ROOT


@kernel
def preorder(grown: GrownTrie) -> tuple[ShapeTrie, Ints, int]:
    """The trie in preorder, the number there of each node, and how many prefixes must be in the Bloom filter.

    Prefixes are counted for each filter, equal ones each time.
    """
    nodes = len(grown.parents)
    # What ends at each node, and then what is in its subtree: children come after their parents.
    ending = np.zeros(nodes, np.uint8)
    sizes = np.ones(nodes, np.int32)
    shapes = np.zeros(nodes, np.int32)
    filters = np.zeros(nodes, np.int64)
    for shape in grown.shape_of:
        bit = CLOSED if shape & 1 else OPEN
        node = shape >> 1
        filters[node] += 1
        if not ending[node] & bit:
            ending[node] |= bit
            shapes[node] += 1
    for node in range(nodes - 1, MQTT_ROOT, -1):
        parent = grown.parents[node]
        sizes[parent] += sizes[node]
        shapes[parent] += shapes[node]
        filters[parent] += filters[node]

    # A parent tells its children their numbers: the first comes next, the second behind the first's subtree.
    # The roots are one, so that the first child of the second comes behind the subtrees of the first.
    numbers = np.zeros(nodes, np.int32)
    levels = np.full(nodes - 1, -1, np.int32)
    ends = np.full(nodes - 1, nodes - 1, np.int32)
    flags = np.zeros(nodes - 1, np.uint8)
    prefixes = 0
    for node in range(nodes):
        number = numbers[node]
        following = number + 1
        if node == MQTT_ROOT:
            following = sizes[OUR_ROOT]
        elif node != OUR_ROOT:
            ends[number] = number + sizes[node]
            flags[number] |= ending[node]
            if shapes[node] > CROWDED:
                flags[number] |= CHECKED
                prefixes += filters[node]
        for branch in range(2):
            child = grown.children[node, branch]
            if child:
                numbers[child] = following
                levels[following] = levels[number] + 1
                flags[following] = WILD if branch == WILDCARD else 0
                if node <= MQTT_ROOT:
                    flags[following] |= MQTTS if node == MQTT_ROOT else OURS
                else:
                    flags[following] |= flags[number] & (OURS | MQTTS)
                following += sizes[child]
    return ShapeTrie(levels, ends, flags), numbers, prefixes


@kernel
def few_shapes(trie: ShapeTrie) -> FewShapes:
    """The shapes one by one, where they are few: then the trie need not be walked."""
    shapes = 0
    for known in trie.flags:
        shapes += (1 if known & OPEN else 0) + (1 if known & CLOSED else 0)
        if known & CHECKED:
            shapes = 0
            break
    deepest = trie.levels.max() + 1
    numbers = np.empty(shapes, np.uint32)
    depths = np.empty(shapes, np.int32)
    syntax = np.empty(shapes, np.uint8)
    wild_starts = np.zeros(shapes + 1, np.int32)
    wild_levels = np.empty(shapes * deepest, np.int32)
    is_wild = np.zeros(deepest, np.bool_)  # of the levels on the way to the current node
    count = 0
    for node in range(1, len(trie.levels) if shapes else 0):
        depth = trie.levels[node] + 1
        is_wild[depth - 1] = trie.flags[node] & WILD
        for closed in range(2):
            if not trie.flags[node] & (CLOSED if closed else OPEN):
                continue
            numbers[count] = 2 * node + closed
            depths[count] = depth
            syntax[count] = trie.flags[node] & (OURS | MQTTS)
            filled = wild_starts[count]
            for level in range(depth):
                if is_wild[level]:
                    wild_levels[filled] = level
                    filled += 1
            count += 1
            wild_starts[count] = filled
    return FewShapes(numbers, depths, syntax, wild_starts, wild_levels, np.full(1, deepest, np.int32))

"""Summaries: the smallest trees on which every pattern without values has the same answer as on a document.

Two nodes with the same label and the same set of kinds of children are of one *kind*. A tree of kinds
unfolded from the root, in which no node has two children of one kind, decides child and descendant steps,
branches, `or` and `not()` exactly as the document does, because patterns only look downwards and never count.
The nodes of this tree are the *classes* of the summary. A document of a thousand nodes usually folds into
some dozens of classes, and documents often fold into the same summary.

Cost: one pass over the nodes; the kinds of a batch live in one hash table, exact on its keys.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distributary.kernel import Ints, Longs, kernel


class Summaries(NamedTuple):
    """Summaries side by side: summary s has the classes from `first[s]` up to `first[s + 1]`, in preorder."""

    of_tree: Ints
    """By tree: its summary."""
    first: Longs
    label: Ints
    parent: Ints
    """By class: the parent, counted from the summary's first class."""
    of_node: Ints
    """By node of the forest: its class, counted from the summary's first."""


class Kinds(NamedTuple):
    """The kinds of a batch's nodes. Kind k has the children `children[low[k] : low[k + 1]]`, ascending."""

    of_node: Ints
    label: Ints
    low: Longs
    children: Ints


@kernel
def summarise(first: Longs, label: Ints, parent: Ints, shared: bool) -> Summaries:
    """The summaries of a forest's trees; unless shared, each tree gets one of its own, alike or not.

    Tree t has the nodes from `first[t]` up to `first[t + 1]`; parents are counted from the tree's first node.
    """
    nodes, trees = len(label), len(first) - 1
    kinds = _find_kinds(first, label, parent)
    of_tree, low = np.empty(trees, np.int32), np.zeros(trees + 1, np.int64)
    class_kind, class_parent = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    # The children of class c, in the order of their kinds, are the classes `child[child_low[c]:]`.
    child_low, child = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    of_node, of_root = np.empty(nodes, np.int32), np.full(nodes, -1, np.int32)
    recent = np.zeros(nodes, np.int32)  # by kind: the class that a node of it had last
    stack = np.empty((nodes + 1, 3), np.int32)
    count = 0
    for tree in range(trees):
        begin, stop = first[tree], first[tree + 1]
        root = kinds.of_node[begin]
        summary = of_root[root] if shared else -1
        if summary < 0:
            summary = of_root[root] = count
            base = low[count]
            rest = _unfold(
                root, kinds, stack, class_kind[base:], class_parent[base:], child_low[base:], child[base:]
            )
            count += 1
            low[count] = base + rest
        of_tree[tree] = summary
        base, size = low[summary], low[summary + 1] - low[summary]
        # A node's class is the child of its parent's class that is of its kind.
        of_node[begin] = 0
        for node in range(begin + 1, stop):
            kind, above = kinds.of_node[node], of_node[begin + parent[node]]
            guess = recent[kind]
            if guess >= size or class_kind[base + guess] != kind or class_parent[base + guess] != above:
                among = _place_of(kind, kinds, class_kind[base + above])
                guess = child[base + child_low[base + above] + among]
                recent[kind] = guess
            of_node[node] = guess
    total = low[count]
    class_label = kinds.label[class_kind[:total]]
    return Summaries(of_tree, low[: count + 1].copy(), class_label, class_parent[:total].copy(), of_node)


@kernel
def _find_kinds(first: Longs, label: Ints, parent: Ints) -> Kinds:
    """The kind of every node, by a hash table of labels and sets of children's kinds."""
    nodes = len(label)
    of_node, kind_label = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    low, children = np.zeros(nodes + 1, np.int64), np.empty(nodes, np.int32)
    size = 16
    while size < 2 * nodes:
        size *= 2
    table = np.full(size, -1, np.int32)
    chosen = np.full(nodes, -1, np.int64)  # by kind: the node that last had a child of it
    first_child, next_sibling = np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64)
    kinds = 0
    for tree in range(len(first) - 1):
        begin = first[tree]
        # Children follow their parents, so that going backwards meets every child before its parent.
        for node in range(first[tree + 1] - 1, begin - 1, -1):
            bottom = top = low[kinds]
            child = first_child[node]
            while child >= 0:
                kind = of_node[child]
                if chosen[kind] != node:
                    chosen[kind] = node
                    children[top] = kind
                    top += 1
                child = next_sibling[child]
            _sort(children, bottom, top)
            place = _hash_kind(label[node], children[bottom:top]) & (size - 1)
            while table[place] >= 0:
                known = table[place]
                if kind_label[known] == label[node] and _same_kinds(children, low, known, bottom, top):
                    break
                place = (place + 1) & (size - 1)
            if table[place] < 0:
                table[place] = kinds
                kind_label[kinds] = label[node]
                kinds += 1
                low[kinds] = top
            of_node[node] = table[place]
            if node > begin:
                above = begin + parent[node]
                next_sibling[node] = first_child[above]
                first_child[above] = node
    return Kinds(of_node, kind_label, low, children)


@kernel
def _place_of(kind: int, kinds: Kinds, above: int) -> int:
    """The place of a kind among the children of another, which are ascending."""
    first: int = kinds.low[above]
    last: int = kinds.low[above + 1] - 1
    while first < last:
        middle = (first + last) >> 1
        if kinds.children[middle] < kind:
            first = middle + 1
        else:
            last = middle
    return first - int(kinds.low[above])


@kernel
def _unfold(
    root: int, kinds: Kinds, stack: Ints, class_kind: Ints, parent: Ints, child_low: Ints, child: Ints
) -> int:
    """Write the classes below a kind into the arrays, in preorder, and give their number."""
    count, children = 0, 0
    stack[0, 0], stack[0, 1], stack[0, 2] = root, -1, -1  # a kind, its parent's class, its place in `child`
    depth = 1
    while depth:
        depth -= 1
        kind = stack[depth, 0]
        class_kind[count], parent[count], child_low[count] = kind, stack[depth, 1], children
        if stack[depth, 2] >= 0:
            child[stack[depth, 2]] = count
        for at in range(kinds.low[kind + 1] - 1, kinds.low[kind] - 1, -1):
            place = children + at - kinds.low[kind]
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = kinds.children[at], count, place
            depth += 1
        children += kinds.low[kind + 1] - kinds.low[kind]
        count += 1
    return count


@kernel
def _hash_kind(label: int, children: Ints) -> int:
    code = np.uint64(label + 1) * np.uint64(0x9E3779B97F4A7C15)
    for kind in children:
        code = (code ^ np.uint64(kind + 1)) * np.uint64(0xBF58476D1CE4E5B9)
        code ^= code >> np.uint64(29)
    return np.int64(code >> np.uint64(20))  # type: ignore[return-value]


@kernel
def _same_kinds(children: Ints, low: Longs, known: int, bottom: int, top: int) -> bool:
    """Whether a known kind has the children from `bottom` up to `top`."""
    length, same = top - bottom, 0
    if low[known + 1] - low[known] != length:
        return False
    while same < length and children[low[known] + same] == children[bottom + same]:
        same += 1
    return same == length


@kernel
def _sort(array: Ints, low: int, high: int) -> None:
    """Sort a stretch of an array in place, by insertion at shrinking distances."""
    gap = 1
    while 3 * gap + 1 < high - low:
        gap = 3 * gap + 1
    while gap:
        for at in range(low + gap, high):
            value = array[at]
            place = at
            while place - gap >= low and array[place - gap] > value:
                array[place] = array[place - gap]
                place -= gap
            array[place] = value
        gap //= 3

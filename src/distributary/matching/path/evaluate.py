"""The kernels that evaluate shared expressions (see `expressions`) exactly.

Evaluating an expression gives the set of a tree's nodes for which it holds, as a bit mask. That is
worked out from operands to results, only as far as it is asked for, and remembered until the next tree.
A statement about a label costs as many steps as the tree has nodes of that label, so an expression on
labels that the tree lacks costs next to nothing.

The evaluator runs on any tree: a document's nodes, or a summary (see `summaries`) when no value is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import (
    Bytes,
    Flags,
    Floats,
    Ints,
    Longs,
    Words,
    fused,
    inlined,
    kernel,
    same_text,
    sealed,
    uncounted,
)
from distributary.matching.memory import hash_words
from distributary.matching.path import expressions as kinds
from distributary.matching.path.forest import Forest
from distributary.matching.path.labels import TEXT_CODE, LabelCodes


class ExpressionTable(NamedTuple):
    """Compiled expressions, as the kernels read them. All arrays are read-only."""

    rows: Ints
    """By expression: `expressions.KIND`, FIRST, SECOND and THIRD."""
    numbers: Floats
    string_offsets: Longs
    string_bytes: Bytes

    @property
    def longest(self) -> int:
        """The length of the longest string."""
        return int(np.diff(self.string_offsets).max(initial=0))

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> ExpressionTable:
        """The table in a segment's arrays."""
        names = ("expressions", "numbers", "strings.offsets", "strings.bytes")
        return cls(*(sealed(arrays[name]) for name in names))


class NodeValues(NamedTuple):
    """The values of one tree's nodes: as numbers, and as stretches of bytes."""

    numbers: Floats
    start: Longs
    end: Longs
    data: Bytes
    hashes: Words
    """The hashes of strings. One that is compared with no literal, or longer than all, may have any hash."""


class Subject(NamedTuple):
    """The tree that expressions are evaluated on, with its labels in a segment's codes.

    The nodes that a step of code c accepts are `order[low[c]:low[c + 1]]`, ascending; so `*`, `@*` and
    `text()` have theirs, and nodes with a label that no filter names are found only there.
    """

    number: int
    """Stamped on whatever is remembered about this tree."""
    parent: Ints
    order: Ints
    low: Ints
    values: NodeValues


class Evaluated(NamedTuple):
    """What has been worked out about one tree: where the mask of each expression begins among all masks.

    A place counts only when the stamp is the current tree's; NOWHERE means that it holds for no node.
    """

    stamp: Ints
    place: Longs
    code_stamp: Ints
    code_place: Longs
    """The same for the nodes that a code accepts."""
    state_stamp: Ints
    state_place: Longs
    """The same for the nodes that the route to a state leads to (see `ways`)."""
    stack: Ints
    used: Longs
    """How many words of masks are in use, in its only place."""


MOST_WORDS = 1 << 22
"""How many words of masks are kept; what one question needs may be more."""
NOWHERE = -1
READY, EMPTY = -1, -2
"""Instead of an operand that must be worked out first: none is missing; it holds for no node anyhow."""

DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
BIT = np.zeros(64, np.int64)
"""Which bit a power of two is, by the six highest bits of its product with DE_BRUIJN."""
for _number in range(64):
    BIT[((1 << _number) * int(DE_BRUIJN) & (1 << 64) - 1) >> 58] = _number


@kernel
def order_by_code(label: Ints, codes: LabelCodes) -> tuple[Ints, Ints]:
    """A tree's nodes ordered by the codes that accept them, and where each code's begin (see `Subject`)."""
    low = np.zeros(codes.size + 2, np.int32)
    for node in range(len(label)):
        wildcard, own = codes.wildcard[label[node]], codes.own[label[node]]
        if wildcard >= 0:
            low[wildcard + 2] += 1
        if own > TEXT_CODE:
            low[own + 2] += 1
    for code in range(2, codes.size + 2):
        low[code] += low[code - 1]
    order = np.empty(low[codes.size + 1], np.int32)
    for node in range(len(label)):
        wildcard, own = codes.wildcard[label[node]], codes.own[label[node]]
        if wildcard >= 0:
            order[low[wildcard + 1]] = node
            low[wildcard + 1] += 1
        if own > TEXT_CODE:
            order[low[own + 1]] = node
            low[own + 1] += 1
    return order, low


@kernel
def nothing_evaluated(count: int, codes: int, states: int) -> Evaluated:
    """An empty memory for so many expressions. A filter's length bounds how deep its expressions nest."""
    return Evaluated(
        np.full(count, -1, np.int32),
        np.full(count, NOWHERE, np.int64),
        np.full(codes, -1, np.int32),
        np.full(codes, NOWHERE, np.int64),
        np.full(states, -1, np.int32),
        np.full(states, NOWHERE, np.int64),
        np.empty(1 << 14, np.int32),
        np.zeros(1, np.int64),
    )


@kernel
def no_values() -> NodeValues:
    """In place of values, where no expression asks for one."""
    longs, floats = np.empty(0, np.int64), np.empty(0, np.float64)
    return NodeValues(floats, longs, longs, np.empty(0, np.uint8), np.empty(0, np.uint64))


@inlined
def holds_at(masks: Words, place: int, node: int) -> bool:
    """Whether the mask that begins at `place` has the node."""
    return place != NOWHERE and (masks[place + (node >> 6)] >> np.uint64(node & 63)) & np.uint64(1) != 0


@kernel
def with_words(masks: Words, evaluated: Evaluated, subject: Subject) -> Words:
    """A larger copy of the masks, with room for two more of the subject's."""
    larger = np.empty(2 * len(masks) + 2 * ((len(subject.parent) + 63) >> 6), np.uint64)
    for word in range(evaluated.used[0]):
        larger[word] = masks[word]
    return larger


@fused
def forget_many(evaluated: Evaluated) -> None:
    """Forget all masks when they are many, so that they never need more memory. No place may be in use."""
    if evaluated.used[0] > MOST_WORDS:
        evaluated.stamp[:] = -1
        evaluated.code_stamp[:] = -1
        evaluated.state_stamp[:] = -1
        evaluated.used[0] = 0


@uncounted
def work_out(
    wanted: int, table: ExpressionTable, subject: Subject, evaluated: Evaluated, masks: Words
) -> bool:
    """Evaluate an expression and what it needs; False when the masks have no room, to be asked again."""
    # One loop over a stack rather than recursion, which Numba compiles badly; its steps that pay for a call
    # are functions of their own.
    words = (len(subject.parent) + 63) >> 6
    rows, low, number = table.rows, subject.low, subject.number
    stamp, place, stack, used = evaluated.stamp, evaluated.place, evaluated.stack, evaluated.used
    stack[0] = wanted
    depth = 1
    while depth:
        expression = stack[depth - 1]
        if stamp[expression] == number:
            depth -= 1
            continue
        kind, first = rows[expression, kinds.KIND], rows[expression, kinds.FIRST]
        second, third = rows[expression, kinds.SECOND], rows[expression, kinds.THIRD]
        missing = _missing(kind, first, second, low, number, stamp, place)
        if missing >= 0:
            stack[depth] = missing
            depth += 1
            continue
        if missing == READY and used[0] + 2 * words > len(masks):
            return False
        depth -= 1
        stamp[expression], place[expression] = number, NOWHERE
        if missing == EMPTY:
            continue
        any_node = False
        if kind in (kinds.CHILD, kinds.DESCENDANT):
            if evaluated.code_stamp[first] != number:
                evaluated.code_stamp[first], evaluated.code_place[first] = number, used[0]
                _set_bits(masks[used[0] : used[0] + words], subject.order[low[first] : low[first + 1]])
                used[0] += words
            here = used[0]
            accepted = evaluated.code_place[first]
            condition = NOWHERE if second == kinds.TRUE else place[second]
            deep = kind == kinds.DESCENDANT
            any_node = _set_parents(masks, here, words, accepted, condition, subject.parent, deep)
        elif kind == kinds.COMPARED:
            here = used[0]
            any_node = _set_compared(masks[here : here + words], first, second, third, table, subject)
        elif kind == kinds.BOTH:
            here = used[0]
            one, other = place[first], place[second]
            for word in range(words):
                bits = masks[one + word] & masks[other + word]
                masks[here + word] = bits
                any_node |= bits != 0
        else:
            here = used[0]
            for word in range(words):
                if kind == kinds.EITHER:
                    bits = _word(masks, place[first], word) | _word(masks, place[second], word)
                elif kind == kinds.NEGATED:
                    bits = ~_word(masks, place[first], word)
                else:
                    bits = ~np.uint64(0)
                masks[here + word] = bits
                any_node |= bits != 0
        if any_node:
            place[expression] = here
            used[0] += words
    return True


@inlined
def _missing(kind: int, first: int, second: int, low: Ints, number: int, stamp: Ints, place: Longs) -> int:
    """The operand that must be worked out first, READY, or EMPTY when the expression holds for no node."""
    if kind in (kinds.CHILD, kinds.DESCENDANT):
        if low[first] == low[first + 1]:
            return EMPTY
        if second == kinds.TRUE:
            return READY
        if stamp[second] != number:
            return second
        return EMPTY if place[second] == NOWHERE else READY
    if kind == kinds.BOTH:
        # The later expression is the more particular one, and fails more often.
        for operand in (second, first):
            if stamp[operand] != number:
                return operand
            if place[operand] == NOWHERE:
                return EMPTY
    elif kind == kinds.EITHER or kind == kinds.NEGATED:
        if stamp[first] != number:
            return first
        if kind == kinds.EITHER and stamp[second] != number:
            return second
    elif kind == kinds.COMPARED:
        return EMPTY if low[first] == low[first + 1] else READY
    return EMPTY if kind == kinds.FALSE else READY


@inlined
def _word(masks: Words, place: int, word: int) -> Any:
    return np.uint64(0) if place == NOWHERE else masks[place + word]


@inlined
def _set_bits(mask: Words, nodes: Ints) -> None:
    """Make the mask one of these nodes."""
    mask[:] = 0
    for node in nodes:
        mask[node >> 6] |= np.uint64(1) << np.uint64(node & 63)


@inlined
def _set_parents(
    masks: Words, here: int, words: int, accepted: int, condition: int, parent: Ints, deep: bool
) -> bool:
    """Mark the parents (or all ancestors) of the accepted nodes for which the condition holds.

    A condition that begins NOWHERE holds for all nodes. Gives whether any node is marked.
    """
    masks[here : here + words] = 0
    any_node = False
    for word in range(words):
        rest = masks[accepted + word]
        if condition != NOWHERE:
            rest &= masks[condition + word]
        while rest:
            lowest = rest & (~rest + np.uint64(1))
            rest ^= lowest
            any_node = True
            above = parent[64 * word + BIT[(lowest * DE_BRUIJN) >> np.uint64(58)]]
            while above >= 0:
                bit = np.uint64(1) << np.uint64(above & 63)
                if masks[here + (above >> 6)] & bit:
                    break
                masks[here + (above >> 6)] |= bit
                above = parent[above] if deep else -1
    return any_node


@inlined
def _set_compared(
    mask: Words, code: int, relation: int, literal: int, table: ExpressionTable, subject: Subject
) -> bool:
    """Make the mask one of the nodes of a code whose value compares so, and say whether there is any."""
    mask[:] = 0
    any_node = False
    order, values = subject.order, subject.values
    hashed, low, high = np.uint64(0), 0, 0
    if relation <= kinds.STRING_UNEQUAL:
        low, high = table.string_offsets[literal], table.string_offsets[literal + 1]
        hashed = hash_words(table.string_bytes, low, high)
    for place in range(subject.low[code], subject.low[code + 1]):
        node = order[place]
        if relation <= kinds.STRING_UNEQUAL:
            passed = values.hashes[node] == hashed
            if passed:
                passed = same_text(
                    table.string_bytes, low, high, values.data, values.start[node], values.end[node]
                )
            passed = passed == (relation == kinds.STRING_EQUAL)
        else:
            passed = compares(relation, values.numbers[node], table.numbers[literal])
        if passed:
            any_node = True
            mask[node >> 6] |= np.uint64(1) << np.uint64(node & 63)
    return any_node


@kernel
def compares(relation: int, value: float, bound: float) -> bool:
    """Whether a number compares so with another."""
    if relation == kinds.EQUAL:
        return value == bound
    if relation == kinds.UNEQUAL:
        return value != bound
    if relation == kinds.LESS:
        return value < bound
    if relation == kinds.AT_MOST:
        return value <= bound
    if relation == kinds.GREATER:
        return value > bound
    return value >= bound


@kernel
def values_of(forest: Forest, numbers: Floats, begin: int, stop: int) -> NodeValues:
    """The values of the nodes from `begin` up to `stop`, with room for their hashes."""
    start, end = forest.start[begin:stop], forest.end[begin:stop]
    return NodeValues(numbers[begin:stop], start, end, forest.data, np.zeros(stop - begin, np.uint64))


@kernel
def hash_values(values: NodeValues, longest: int) -> None:
    """Hash all strings but those that are longer than every literal."""
    for node in range(len(values.start)):
        if values.end[node] - values.start[node] <= longest:
            values.hashes[node] = hash_words(values.data, values.start[node], values.end[node])


@kernel
def check_pairs(
    trees: Ints,
    wanted: Ints,
    table: ExpressionTable,
    forest: Forest,
    numbers: Floats,
    codes: LabelCodes,
    evaluated: Evaluated,
    serial: int,
    longest: int,
) -> Flags:
    """For each pair of a tree and an expression: does it hold for the tree's document?

    The pairs of a tree stand together. Nothing in `evaluated` may have a stamp of `serial` or above.
    `longest` is the length of the longest literal.
    """
    passed = np.zeros(len(trees), np.bool_)
    masks = np.empty(1 << 12, np.uint64)
    pair = 0
    while pair < len(trees):
        tree: Any = np.int64(trees[pair])
        begin, stop = forest.first[tree], forest.first[tree + 1]
        order, low = order_by_code(forest.label[begin:stop], codes)
        values = values_of(forest, numbers, begin, stop)
        hash_values(values, longest)
        subject = Subject(serial + tree, forest.parent[begin:stop], order, low, values)
        evaluated.used[0] = 0
        while pair < len(trees) and trees[pair] == tree:
            forget_many(evaluated)
            while not work_out(wanted[pair], table, subject, evaluated, masks):
                masks = with_words(masks, evaluated, subject)
            passed[pair] = holds_at(masks, evaluated.place[wanted[pair]], 0)
            pair += 1
    return passed

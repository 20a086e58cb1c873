"""Path filters as one table of shared expressions, and the kernel that evaluates them exactly.

An expression says something about a node: it has a child (or a descendant) of a label for which another
expression holds; its value compares so with a literal; or a combination of such statements. A filter is an
expression about the document's own node. Equal expressions are kept once, whichever filters they come from,
so a document pays for each only once.

Evaluating an expression gives the set of the document's nodes for which it holds, as a bit mask. That is
worked out from operands to results, only as far as it is asked for, and remembered until the next document.
A statement about a label costs as many steps as the document has nodes of that label, so an expression on
labels that the document lacks costs next to nothing.

The evaluator runs on any tree: a document's nodes, or a summary (see `path_forest`) when no value is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.filters.path.filter import PathFilter
from distributary.filters.path.pattern import (
    ANY_ATTRIBUTE,
    ANY_ELEMENT,
    TEXT,
    And,
    Axis,
    Compares,
    Exists,
    LocationPath,
    Not,
    Or,
    Predicate,
    number,
)
from distributary.kernel import kernel, sealed
from distributary.matching import frozen
from distributary.matching.index import Arrays
from distributary.matching.path.forest import Forest

FALSE, TRUE, CHILD, DESCENDANT, BOTH, EITHER, NEGATED, COMPARED = range(8)
"""What an expression is. The first two are also the numbers of the expressions that hold never and always."""

ELEMENT_CODE, ATTRIBUTE_CODE, TEXT_CODE = range(3)
"""The codes of `*`, `@*` and `text()`; names have the codes after these."""

STRING_EQUAL, STRING_UNEQUAL, EQUAL, UNEQUAL, LESS, AT_MOST, GREATER, AT_LEAST = range(8)
"""How a value is compared: as a string, or as a number."""

_NUMERIC = {"=": EQUAL, "!=": UNEQUAL, "<": LESS, "<=": AT_MOST, ">": GREATER, ">=": AT_LEAST}

UNKNOWN = -1
"""A label of a document that no filter names."""


class Comparison(NamedTuple):
    """A comparison of a value: how, and with what."""

    relation: int
    literal: str | float

    @classmethod
    def of(cls, predicate: Compares) -> Comparison:
        literal = predicate.literal
        if isinstance(literal, str):
            if predicate.operator in ("=", "!="):
                return cls(STRING_EQUAL if predicate.operator == "=" else STRING_UNEQUAL, literal)
            literal = number(literal)
        return cls(_NUMERIC[predicate.operator], literal + 0.0)

    @property
    def always(self) -> bool | None:
        """Whether it holds for every value or for none, whatever the value; None when that depends."""
        if isinstance(self.literal, float) and isnan(self.literal):
            return self.relation == UNEQUAL
        return None


class Expressions:
    """The table while it is being made. Operands come before what they are operands of."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {
            ANY_ELEMENT: ELEMENT_CODE,
            ANY_ATTRIBUTE: ATTRIBUTE_CODE,
            TEXT: TEXT_CODE,
        }
        self.text_asked = False
        """Whether some step selects text nodes; a reader that asks for none can leave them out."""
        self._rows: dict[tuple[int, int, int, int], int] = {(FALSE, 0, 0, 0): FALSE, (TRUE, 0, 0, 0): TRUE}
        self._strings: dict[str, int] = {}
        self._numbers: dict[float, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def code(self, label: str) -> int:
        self.text_asked |= label == TEXT
        return self.codes.setdefault(label, len(self.codes))

    def of_filter(self, path_filter: PathFilter) -> int:
        """The expression that holds for the document's node exactly when the filter selects the document."""
        return self.either([self.of_path(branch) for branch in path_filter.branches])

    def of_path(
        self, path: LocationPath, start: int = 0, last: Compares | None = None, upper: bool | None = None
    ) -> int:
        """The path from its step `start` on selects something (that compares like `last`).

        `upper` turns values into bounds: True assumes that every comparison with an existing node may hold,
        False that none does, and None looks at the values.
        """
        found = TRUE
        for place in range(len(path.steps) - 1, start - 1, -1):
            step = path.steps[place]
            code = self.code(step.label)
            if last is not None:
                found = self.compared(code, last, upper)
                last = None
            for predicate in step.predicates:
                found = self.both(found, self.of_predicate(predicate, code, upper))
            if found == FALSE:
                return FALSE
            found = self._row(CHILD if step.axis is Axis.CHILD else DESCENDANT, code, found)
        return found

    def of_predicate(self, predicate: Predicate, code: int, upper: bool | None) -> int:
        """A node with the label of that code satisfies the predicate."""
        match predicate:
            case Exists(path):
                return self.of_path(path, 0, None, upper)
            case Compares(path):
                if not path.steps:
                    return self.compared(code, predicate, upper)
                return self.of_path(path, 0, predicate, upper)
            case And(parts):
                return self.all_of([self.of_predicate(part, code, upper) for part in parts])
            case Or(parts):
                return self.either([self.of_predicate(part, code, upper) for part in parts])
            case Not(part):
                opposite = None if upper is None else not upper
                return self.negated(self.of_predicate(part, code, opposite))

    def compared(self, code: int, predicate: Compares, upper: bool | None) -> int:
        if upper is not None:
            return TRUE if upper else FALSE
        comparison = Comparison.of(predicate)
        if comparison.always is not None:
            return TRUE if comparison.always else FALSE
        return self._row(COMPARED, code, comparison.relation, self.literal(comparison.literal))

    def literal(self, literal: str | float) -> int:
        """The place of a literal among the strings or the numbers."""
        if isinstance(literal, str):
            return self._strings.setdefault(literal, len(self._strings))
        return self._numbers.setdefault(literal, len(self._numbers))

    def both(self, one: int, other: int) -> int:
        if one == other or other == TRUE:
            return one
        if one == TRUE:
            return other
        if FALSE in (one, other):
            return FALSE
        return self._row(BOTH, min(one, other), max(one, other))

    def all_of(self, parts: Iterable[int]) -> int:
        found = TRUE
        for part in sorted(set(parts)):
            found = self.both(found, part)
        return found

    def either(self, parts: Iterable[int]) -> int:
        found = FALSE
        for part in sorted(set(parts)):
            if part == TRUE:
                return TRUE
            found = part if found == FALSE else self._row(EITHER, found, part)
        return found

    def negated(self, part: int) -> int:
        return TRUE - part if part <= TRUE else self._row(NEGATED, part)

    def compiled(self) -> Arrays:
        """The table as arrays."""
        rows = np.array(list(self._rows), np.int32).reshape(-1, 4)
        return {
            "expressions": rows,
            "text_asked": np.array([self.text_asked]),
            "numbers": np.array(list(self._numbers), np.float64),
            **frozen.under("strings", frozen.pack_texts(list(self._strings))),
            **frozen.under("labels", frozen.pack_texts(list(self.codes))),
        }

    def _row(self, kind: int, first: int, second: int = 0, third: int = 0) -> int:
        return self._rows.setdefault((kind, first, second, third), len(self._rows))


class Table(NamedTuple):
    """Compiled expressions, as the kernels read them. All arrays are read-only."""

    rows: NDArray[np.int32]
    numbers: NDArray[np.float64]
    string_offsets: NDArray[np.int64]
    string_bytes: NDArray[np.uint8]

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Table:
        names = ("expressions", "numbers", "strings.offsets", "strings.bytes")
        return cls(*(sealed(arrays[name]) for name in names))


class Tree(NamedTuple):
    """One tree with its labels in a segment's codes. Nodes are ordered by label as well.

    The nodes that a step of code c accepts are `order[low[c]:low[c + 1]]`, ascending; so `*`, `@*` and
    `text()` have theirs, and nodes with a label that no filter names are found only there.
    """

    parent: NDArray[np.int32]
    order: NDArray[np.int32]
    low: NDArray[np.int32]


class Values(NamedTuple):
    """The values of one tree's nodes."""

    numbers: NDArray[np.float64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    data: NDArray[np.uint8]


class Memory(NamedTuple):
    """What has been worked out about one tree: where in `masks` the mask of each expression begins.

    A place counts only when the stamp is the current tree's; NOWHERE means that it holds for no node.
    """

    stamp: NDArray[np.int32]
    place: NDArray[np.int64]
    code_stamp: NDArray[np.int32]
    code_place: NDArray[np.int64]
    """The same for the nodes that a code accepts."""
    stack: NDArray[np.int32]


NOWHERE = -1

DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
BIT = np.zeros(64, np.int64)
"""Which bit a power of two is, by the six highest bits of its product with DE_BRUIJN."""
for _number in range(64):
    BIT[((1 << _number) * int(DE_BRUIJN) & (1 << 64) - 1) >> 58] = _number


def label_codes(arrays: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """The codes that a segment gave to labels."""
    return {label: code for code, label in enumerate(frozen.unpack_texts(frozen.within(arrays, "labels")))}


def label_groups(labels: Sequence[str]) -> NDArray[np.int8]:
    """By label of a batch: the code of the wildcard that accepts it; -1 for the document's own label."""
    return np.array([_group(label) for label in labels], np.int8)


def _group(label: str) -> int:
    if not label:
        return -1
    if label == TEXT:
        return TEXT_CODE
    return ATTRIBUTE_CODE if label[0] == "@" else ELEMENT_CODE


@kernel
def planted(
    label: NDArray[np.int32],
    parent: NDArray[np.int32],
    recode: NDArray[np.int32],
    groups: NDArray[np.int8],
    codes: int,
) -> Tree:
    """The tree with its nodes ordered by the codes that accept them."""
    low = np.zeros(codes + 2, np.int32)
    for node in range(len(label)):
        group, code = groups[label[node]], recode[label[node]]
        if group >= 0:
            low[group + 2] += 1
        if code > TEXT_CODE:
            low[code + 2] += 1
    for code in range(2, codes + 2):
        low[code] += low[code - 1]
    order = np.empty(low[codes + 1], np.int32)
    for node in range(len(label)):
        group, code = groups[label[node]], recode[label[node]]
        if group >= 0:
            order[low[group + 1]] = node
            low[group + 1] += 1
        if code > TEXT_CODE:
            order[low[code + 1]] = node
            low[code + 1] += 1
    return Tree(parent, order, low)


@kernel
def remembered(expressions: int, codes: int) -> Memory:
    """An empty memory for that many expressions. A filter's length bounds how deep its expressions nest."""
    return Memory(
        np.full(expressions, -1, np.int32),
        np.full(expressions, NOWHERE, np.int64),
        np.full(codes, -1, np.int32),
        np.full(codes, NOWHERE, np.int64),
        np.empty(1 << 14, np.int32),
    )


@kernel
def no_values() -> Values:
    """In place of values, where no expression asks for one."""
    return Values(
        np.empty(0, np.float64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8)
    )


@kernel
def holds_at(masks: NDArray[np.uint64], place: int, node: int) -> bool:
    """Whether the mask that begins at `place` has the node."""
    return place != NOWHERE and (masks[place + (node >> 6)] >> np.uint64(node & 63)) & np.uint64(1) != 0


@kernel
def work_out(
    wanted: int,
    epoch: int,
    table: Table,
    tree: Tree,
    values: Values,
    memory: Memory,
    masks: NDArray[np.uint64],
    used: int,
) -> tuple[NDArray[np.uint64], int]:
    """Evaluate an expression and what it needs; returns the masks, which may have moved, and their length."""
    words = (len(tree.parent) + 63) >> 6
    stamp, place, stack = memory.stamp, memory.place, memory.stack
    stack[0] = wanted
    depth = 1
    while depth:
        expression = stack[depth - 1]
        if stamp[expression] == epoch:
            depth -= 1
            continue
        kind, first = table.rows[expression, 0], table.rows[expression, 1]
        second, third = table.rows[expression, 2], table.rows[expression, 3]
        needs = np.int32(-1)
        empty = False
        if kind in (CHILD, DESCENDANT):
            if tree.low[first] == tree.low[first + 1]:
                empty = True
            elif second != TRUE:
                if stamp[second] != epoch:
                    needs = second
                elif place[second] == NOWHERE:
                    empty = True
        elif kind == BOTH:
            # The later expression is the more particular one, and fails more often.
            if stamp[second] != epoch:
                needs = second
            elif place[second] == NOWHERE:
                empty = True
            elif stamp[first] != epoch:
                needs = first
            elif place[first] == NOWHERE:
                empty = True
        elif kind == EITHER:
            if stamp[first] != epoch:
                needs = first
            elif stamp[second] != epoch:
                needs = second
        elif kind == NEGATED:
            if stamp[first] != epoch:
                needs = first
        elif kind == COMPARED:
            empty = tree.low[first] == tree.low[first + 1]
        elif kind == FALSE:
            empty = True
        if needs >= 0:
            stack[depth] = needs
            depth += 1
            continue
        depth -= 1
        stamp[expression] = epoch
        if empty:
            place[expression] = NOWHERE
            continue
        if used + 2 * words > len(masks):
            larger = np.empty(2 * len(masks) + 2 * words, np.uint64)
            for word in range(used):
                larger[word] = masks[word]
            masks = larger
        if kind in (CHILD, DESCENDANT) and memory.code_stamp[first] != epoch:
            memory.code_stamp[first], memory.code_place[first] = epoch, used
            masks[used : used + words] = 0
            for at in range(tree.low[first], tree.low[first + 1]):
                node = tree.order[at]
                masks[used + (node >> 6)] |= np.uint64(1) << np.uint64(node & 63)
            used += words
        here = used
        any_node = False
        if kind in (CHILD, DESCENDANT):
            masks[here : here + words] = 0
            deep = kind == DESCENDANT
            condition, accepted = place[second], memory.code_place[first]
            for word in range(words):
                rest = masks[accepted + word]
                if second != TRUE:
                    rest &= masks[condition + word]
                while rest:
                    lowest = rest & (~rest + np.uint64(1))
                    rest ^= lowest
                    any_node = True
                    above = tree.parent[64 * word + BIT[(lowest * DE_BRUIJN) >> np.uint64(58)]]
                    while above >= 0:
                        bit = np.uint64(1) << np.uint64(above & 63)
                        if masks[here + (above >> 6)] & bit:
                            break
                        masks[here + (above >> 6)] |= bit
                        above = tree.parent[above] if deep else -1
        elif kind == BOTH:
            for word in range(words):
                masks[here + word] = masks[place[first] + word] & masks[place[second] + word]
                any_node |= masks[here + word] != 0
        elif kind == EITHER:
            for word in range(words):
                masks[here + word] = 0
                if place[first] != NOWHERE:
                    masks[here + word] |= masks[place[first] + word]
                if place[second] != NOWHERE:
                    masks[here + word] |= masks[place[second] + word]
                any_node |= masks[here + word] != 0
        elif kind == NEGATED:
            any_node = True
            for word in range(words):
                masks[here + word] = ~np.uint64(0)
                if place[first] != NOWHERE:
                    masks[here + word] = ~masks[place[first] + word]
        elif kind == COMPARED:
            masks[here : here + words] = 0
            string = table.string_offsets[third] if second <= STRING_UNEQUAL else 0
            for at in range(tree.low[first], tree.low[first + 1]):
                node = tree.order[at]
                if second <= STRING_UNEQUAL:
                    start, size = values.start[node], values.end[node] - values.start[node]
                    passed = size == table.string_offsets[third + 1] - string
                    if passed:
                        for byte in range(size):
                            if values.data[start + byte] != table.string_bytes[string + byte]:
                                passed = False
                                break
                    passed = passed == (second == STRING_EQUAL)
                else:
                    passed = _compares(second, values.numbers[node], table.numbers[third])
                if passed:
                    any_node = True
                    masks[here + (node >> 6)] |= np.uint64(1) << np.uint64(node & 63)
        else:
            any_node = True
            masks[here : here + words] = ~np.uint64(0)
        place[expression] = here if any_node else NOWHERE
        if any_node:
            used += words
    return masks, used


@kernel
def _compares(relation: int, value: float, bound: float) -> bool:
    if relation == EQUAL:
        return value == bound
    if relation == UNEQUAL:
        return value != bound
    if relation == LESS:
        return value < bound
    if relation == AT_MOST:
        return value <= bound
    if relation == GREATER:
        return value > bound
    return value >= bound


@kernel
def check_pairs(
    trees: NDArray[np.int32],
    wanted: NDArray[np.int32],
    table: Table,
    forest: Forest,
    numbers: NDArray[np.float64],
    recode: NDArray[np.int32],
    groups: NDArray[np.int8],
    codes: int,
) -> NDArray[np.bool_]:
    """For each pair of a tree (ascending) and an expression: does it hold for the tree's document?"""
    passed = np.zeros(len(trees), np.bool_)
    memory = remembered(len(table.rows), codes)
    masks = np.empty(1 << 12, np.uint64)
    pair = 0
    while pair < len(trees):
        number: Any = np.int64(trees[pair])
        begin, stop = forest.first[number], forest.first[number + 1]
        tree = planted(forest.label[begin:stop], forest.parent[begin:stop], recode, groups, codes)
        values = Values(numbers[begin:stop], forest.start[begin:stop], forest.end[begin:stop], forest.data)
        used: Any = np.int64(0)  # A literal would make Numba compile `work_out` once more.
        while pair < len(trees) and trees[pair] == number:
            masks, used = work_out(wanted[pair], number, table, tree, values, memory, masks, used)
            passed[pair] = holds_at(masks, memory.place[wanted[pair]], 0)
            pair += 1
    return passed

"""Which ranges and inequalities does a document satisfy somewhere? Its paths' and classes' values decide.

What is kept of the values of a path, or of a class, is the least and the greatest number, whether some value
is not a number, and whether two values differ as texts. That decides every comparison but an inequality with
a text where no two values were seen to differ, for which the values are compared one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distributary.kernel import Bytes, Floats, Ints, fused, kernel, same_text, uncounted
from distributary.matching.path import expressions as kinds
from distributary.matching.path.bounds import PATH, SummaryPaths
from distributary.matching.path.evaluate import ExpressionTable, NodeValues, compares

WORDLESS, VARIED = 1, 2
"""Bits of what values are like: some is not a number; two differ as texts, or one is longer than literals."""


class ValueRanges(NamedTuple):
    """What is known of the values of each class of a tree, or of each path."""

    least: Floats
    """Infinite when there is no number."""
    greatest: Floats
    like: Bytes
    """WORDLESS and VARIED."""
    first: Ints
    """The first node that is in it."""


class TreeValues(NamedTuple):
    """The values of one tree: of its nodes, of its classes, and of the paths of its summary."""

    nodes: NodeValues
    of_node: Ints
    """By node: its class."""
    classes: ValueRanges
    paths: ValueRanges
    """Of no meaning when the paths are too many to be told apart."""


@kernel
def gather_values(of_node: Ints, classes: Ints, nodes: NodeValues, longest: int) -> TreeValues:
    """The values of a tree, given the class of each node; `longest` is the length of the longest literal."""
    values = TreeValues(nodes, of_node, _no_ranges(len(classes)), _no_ranges(64))
    _fill_ranges(values, classes, longest)
    return values


@uncounted
def _fill_ranges(values: TreeValues, classes: Ints, longest: int) -> None:
    nodes, of_node, by_class, by_path = values
    for node in range(len(of_node)):
        value, long = nodes.numbers[node], nodes.end[node] - nodes.start[node] > longest
        _widen(by_class, of_node[node], node, value, value, (value != value) | (long << 1), nodes)
    for each in range(len(classes)):
        least, greatest, like = by_class.least[each], by_class.greatest[each], by_class.like[each]
        _widen(by_path, classes[each, PATH] & 63, by_class.first[each], least, greatest, like, nodes)


@kernel
def _no_ranges(count: int) -> ValueRanges:
    return ValueRanges(
        np.full(count, np.inf),
        np.full(count, -np.inf),
        np.zeros(count, np.uint8),
        np.full(count, -1, np.int32),
    )


@fused
def _widen(
    ranges: ValueRanges, at: int, node: int, least: float, greatest: float, like: int, nodes: NodeValues
) -> None:
    """Have the ranges at that place include another node, or a class by its first node and its ranges."""
    first = ranges.first[at]
    if first < 0:
        first = ranges.first[at] = node
    differs = (
        nodes.hashes[node] != nodes.hashes[first]
        or nodes.end[node] - nodes.start[node] != nodes.end[first] - nodes.start[first]
    )
    ranges.like[at] |= np.uint8(like) | np.uint8(differs << 1)
    if least < ranges.least[at]:
        ranges.least[at] = least
    if greatest > ranges.greatest[at]:
        ranges.greatest[at] = greatest


@fused
def paths_passing(
    relation: int,
    literal: float,
    code: int,
    table: ExpressionTable,
    paths: SummaryPaths,
    values: TreeValues,
) -> tuple[np.uint64, np.uint64]:
    """The paths of a code that have a value which compares so for certain, and those that may have one."""
    sure, open_to = np.uint64(0), np.uint64(0)
    for at in range(paths.low[code], paths.low[code + 1]):
        path = paths.order[at]
        bit = np.uint64(1) << np.uint64(path)
        if _passes(relation, literal, path, values.paths, table, values.nodes):
            sure |= bit
            open_to |= bit
        elif relation == kinds.STRING_UNEQUAL:
            open_to |= bit
    return sure, open_to


@fused
def class_passes(
    relation: int, literal: float, each: int, table: ExpressionTable, values: TreeValues
) -> bool:
    """Whether a node of a class has a value that compares so with the literal."""
    if _passes(relation, literal, each, values.classes, table, values.nodes):
        return True
    if relation != kinds.STRING_UNEQUAL:
        return False
    # Texts with the same hash and length may still differ.
    for node in range(len(values.of_node)):
        if values.of_node[node] == each and not _is_literal(literal, node, table, values.nodes):
            return True
    return False


@fused
def _passes(
    relation: int, literal: float, at: int, ranges: ValueRanges, table: ExpressionTable, nodes: NodeValues
) -> bool:
    """Whether some value there compares so for certain."""
    if relation > kinds.UNEQUAL:
        value = ranges.least[at] if relation <= kinds.AT_MOST else ranges.greatest[at]
        return ranges.least[at] <= ranges.greatest[at] and compares(relation, value, literal)
    like = ranges.like[at]
    if relation == kinds.UNEQUAL:
        return bool(like & WORDLESS) or ranges.least[at] != literal or ranges.greatest[at] != literal
    return bool(like & VARIED) or not _is_literal(literal, ranges.first[at], table, nodes)


@fused
def _is_literal(literal: float, node: int, table: ExpressionTable, nodes: NodeValues) -> bool:
    """Whether a node's value is the string at that place."""
    string = int(literal)
    low, high = table.string_offsets[string], table.string_offsets[string + 1]
    start, end = nodes.start[node], nodes.end[node]
    return same_text(table.string_bytes, low, high, nodes.data, start, end)


@uncounted
def first_beyond(literals: Floats, first: int, last: int, value: float, beyond: bool) -> int:
    """The first place whose literal is at least the value, or `beyond` it."""
    while first < last:
        middle = (first + last) >> 1
        if literals[middle] < value or (beyond and literals[middle] == value):
            first = middle + 1
        else:
            last = middle
    return first

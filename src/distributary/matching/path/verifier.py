"""PathVerifier: path filters that are asked only about pairs which another index has found.

Each filter is one expression of a shared table (see `expressions`). A document's pairs are answered
together, so that what their filters have in common is evaluated once. A filter that says more than a tree
pattern has a *rest*: it is evaluated on the documents for which its expression holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from distributary.filters.path.filter import PathFilter, selects
from distributary.kernel import Flags, Ints
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.index import Arrays
from distributary.matching.layers import CompiledSegment, PairVerifier
from distributary.matching.path.evaluate import ExpressionTable, check_pairs, nothing_evaluated
from distributary.matching.path.expressions import Expressions
from distributary.matching.path.forest import grove
from distributary.matching.path.labels import labels_of


class PathVerifier(PairVerifier[PathFilter]):
    """Exact answers for pairs of a row and a path filter."""

    kind: ClassVar[str] = "path"
    name: ClassVar[str] = "verifier"
    filter_class: ClassVar[type[PathFilter]] = PathFilter

    def compile(self, filters: Sequence[PathFilter]) -> Arrays:
        return compile_exact(filters)

    def check(self, segment: CompiledSegment, batch: EventBatch, rows: Ints, positions: Ints) -> Flags:
        return check_exact(segment, batch, rows, positions)


def compile_exact(filters: Sequence[PathFilter]) -> Arrays:
    """The table of the filters' expressions, which of them each filter is, and which have a rest."""
    expressions = Expressions()
    exact = np.array([expressions.of_filter(each) for each in filters], np.int32)
    return {**expressions.compiled(), "exact": exact, "rest": rests(filters)}


def rests(filters: Sequence[PathFilter]) -> Flags:
    """By filter: whether it says more than its expression."""
    return np.array([not each.is_pattern for each in filters], np.bool_)


def passes_rest(
    arrays: Mapping[str, NDArray[Any]], batch: EventBatch, rows: Sequence[int], positions: Sequence[int]
) -> Flags:
    """For each pair of a row and a position of a filter: does the filter, evaluated in full, select it?"""
    texts = frozen.within(arrays, "texts")
    passed = np.zeros(len(rows), np.bool_)
    for at, (row, position) in enumerate(zip(rows, positions, strict=True)):
        document = batch.document(row)
        passed[at] = document is not None and selects(_filter(frozen.unpack_text(texts, position)), document)
    return passed


@lru_cache(maxsize=1 << 12)
def _filter(text: str) -> PathFilter:
    """The filter of a text, remembered: the same filters are asked about one document after another."""
    return PathFilter.parse(text)


def check_exact(segment: CompiledSegment, batch: EventBatch, rows: Ints, positions: Ints) -> Flags:
    """For each pair of a row and a position of `compile_exact`: does the row's document pass?"""
    arrays = segment.readable
    passed = np.zeros(len(rows), np.bool_)
    if not len(rows):
        return passed
    trees = grove(batch, with_text=bool(arrays["text_asked"][0]))
    tree_of_row = np.full(batch.rows, -1, np.int32)
    tree_of_row[trees.rows] = np.arange(len(trees.rows), dtype=np.int32)
    order = np.argsort(rows, kind="stable")
    order = order[tree_of_row[rows[order]] >= 0]
    wanted, table = arrays["exact"][positions[order]], ExpressionTable.of(arrays)
    codes = trees.codes(labels_of(segment))
    evaluated = nothing_evaluated(len(table.rows), codes.size, 0)
    passed[order] = check_pairs(
        tree_of_row[rows[order]],
        wanted,
        table,
        trees.forest,
        trees.numbers,
        codes,
        evaluated,
        0,
        table.longest,
    )
    open_still = np.flatnonzero(passed & arrays["rest"][positions])
    passed[open_still] = passes_rest(arrays, batch, rows[open_still].tolist(), positions[open_still].tolist())
    return passed

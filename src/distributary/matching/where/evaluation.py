"""What constraints cannot decide: predicates and filters evaluated, each for all its rows at once.

A pair that was found through an uncertain conjunction is decided here (see `constraints`): by the predicates
that the conjunction asks for, each evaluated for the rows that were found through any of its conjunctions, or
else by the whole filter. So are rows
with a decimal of more digits than a double has, where a bound has more than 15 digits (see `columns`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf, isfinite, nextafter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributary.filters.where.values import PLAIN_DIGITS
from distributary.kernel import Flags, Ints
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.columns import NUMBER, AttributeColumn
from distributary.matching.index import AnyArrays, Pairs
from distributary.matching.order import grouped
from distributary.matching.truths import passing
from distributary.matching.where.constraints import MANY, TAG_BITS, runs
from distributary.matching.where.everywhere import expression_of


def evaluate_rows(arrays: AnyArrays, batch: EventBatch, rows: Ints, positions: Ints | None = None) -> Pairs:
    """All pairs of these rows and filters that pass, by evaluating these filters, or all of the segment."""
    if positions is None:
        positions = np.arange(len(arrays["texts.offsets"]) - 1, dtype=np.int32)
    texts = frozen.within(arrays, "texts")
    found = []
    for position in positions.tolist():
        passed = passing(batch, expression_of(frozen.unpack_text(texts, position)), rows)
        found.append(np.flatnonzero(passed))
    counts = np.fromiter(map(len, found), np.int64, len(found))
    chosen = np.concatenate([*found, np.empty(0, np.int64)]).astype(np.int32)
    return Pairs(rows[chosen], np.repeat(positions, counts))


def predicates_hold(arrays: AnyArrays, batch: EventBatch, rows: Ints, conjunctions: Ints) -> Flags:
    """Whether each row makes the predicates true that the conjunction at its place asks for."""
    starts = arrays["predicate_start"]
    begins = starts[conjunctions]
    sizes = starts[conjunctions + np.int32(1)] - begins
    asked = arrays["predicate_of"][runs(begins, sizes)]
    pairs = np.repeat(np.arange(len(rows)), sizes)
    texts = frozen.within(arrays, "predicates")
    order = grouped(asked, len(texts["offsets"]))
    ordered = asked[order]
    held = np.ones(len(rows), np.bool_)
    for begin, end in pairwise([*_begins(ordered), len(ordered)]):
        chosen = pairs[order[begin:end]]
        chosen = chosen[held[chosen]]
        if len(chosen):
            expression = expression_of(frozen.unpack_text(texts, int(ordered[begin])))
            held[chosen] = passing(batch, expression, rows[chosen])
    return held


def evaluate_pairs(arrays: AnyArrays, batch: EventBatch, rows: Ints, positions: Ints) -> Flags:
    """Evaluate filters that are uncertain, for pairs of a row and a position."""
    texts = frozen.within(arrays, "evaluated")
    return _evaluated(texts, batch, rows, np.searchsorted(arrays["evaluated"], positions))


def evaluate_any_pairs(arrays: AnyArrays, batch: EventBatch, rows: Ints, positions: Ints) -> Flags:
    """Evaluate any filters of the segment, for pairs of a row and a position."""
    return _evaluated(frozen.within(arrays, "texts"), batch, rows, positions)


def _evaluated(
    texts: Mapping[str, NDArray[Any]], batch: EventBatch, rows: Ints, places: NDArray[Any]
) -> Flags:
    """Whether each row passes the filter whose text is at the place: all rows of a filter at once."""
    passed = np.zeros(len(rows), np.bool_)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    for begin, end in pairwise([*_begins(ordered), len(rows)]):
        chosen = order[begin:end]
        expression = expression_of(frozen.unpack_text(texts, int(ordered[begin])))
        passed[chosen] = passing(batch, expression, rows[chosen])
    return passed


def _begins(ordered: NDArray[Any]) -> list[int]:
    """Where each run of equal numbers begins."""
    new = np.concatenate([np.ones(min(1, len(ordered)), np.bool_), np.diff(ordered) != 0])
    return np.flatnonzero(new).tolist()


def undecidable_rows(
    arrays: AnyArrays, columns: Sequence[tuple[int, AttributeColumn]], rows: int
) -> Flags | None:
    """The rows that only evaluation can decide: a hard decimal that meets a bound of more than 15 digits."""
    found: Flags | None = None
    for attribute, column in columns:
        if column.hard is not None and _has_long_bounds(arrays, attribute):
            found = column.hard if found is None else found | column.hard
    return found


def _has_long_bounds(arrays: AnyArrays, attribute: int) -> bool:
    """Whether some bound on the attribute's numbers has more than 15 digits, or is as large as 2^51."""
    kind = arrays["kind"]
    bounds = set(
        arrays["bounds"].reshape(-1, 2)[kind == (attribute << TAG_BITS | NUMBER)].reshape(-1).tolist()
    )
    if (kind == (attribute << TAG_BITS | MANY)).any():
        pieces = arrays["piece_tag"] == NUMBER
        bounds |= {*arrays["piece_low"][pieces].tolist(), *arrays["piece_high"][pieces].tolist()}
    return any(_is_long(bound) for bound in bounds if isfinite(bound))


def _is_long(bound: float) -> bool:
    """A closed bound may be the neighbour of the one that was written."""
    near = (bound, nextafter(bound, inf), nextafter(bound, -inf))
    return abs(bound) >= 2**51 or not any(float(f"{each:.{PLAIN_DIGITS}g}") == each for each in near)

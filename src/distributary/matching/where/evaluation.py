"""What constraints cannot decide: filters evaluated event by event, exact whatever they say, and slow.

A pair that was found through an uncertain conjunction is decided here (see `constraints`), and so are rows
with a decimal of more digits than a double has, where a bound has more than 15 digits (see `columns`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import inf, isfinite, nextafter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.values import PLAIN_DIGITS
from distributary.kernel import Flags, Ints
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.columns import NUMBER, AttributeColumn
from distributary.matching.index import Arrays
from distributary.matching.where.constraints import MANY
from distributary.model import Event


@lru_cache(maxsize=1 << 16)
def _filter_of(text: str) -> WhereFilter:
    return WhereFilter.parse(text)


def evaluate_rows(arrays: Arrays, batch: EventBatch, rows: Ints) -> tuple[Ints, Ints]:
    """All pairs of these rows and filters that pass, by evaluating every filter of the segment: very slow."""
    filters = [_filter_of(text) for text in frozen.unpack_texts(frozen.within(arrays, "texts"))]
    pairs = [
        (row, position)
        for row in rows.tolist()
        for event in (batch.event(row),)
        for position, filter in enumerate(filters)
        if filter.matches(event)
    ]
    found = np.array(pairs, np.int32).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def evaluate_pairs(arrays: Arrays, batch: EventBatch, rows: Ints, positions: Ints) -> Flags:
    """Evaluate filters that are uncertain: exact whatever they say, and slow."""
    texts = frozen.within(arrays, "evaluated")
    return _evaluated(texts, batch, rows, np.searchsorted(arrays["evaluated"], positions))


def evaluate_any_pairs(arrays: Arrays, batch: EventBatch, rows: Ints, positions: Ints) -> Flags:
    """Evaluate any filters of the segment."""
    return _evaluated(frozen.within(arrays, "texts"), batch, rows, positions)


def _evaluated(
    texts: Mapping[str, NDArray[Any]], batch: EventBatch, rows: Ints, places: NDArray[Any]
) -> Flags:
    """Whether each row passes the filter whose text is at the place."""
    passed = np.zeros(len(rows), np.bool_)
    events: dict[int, Event] = {}
    for pair, (row, place) in enumerate(zip(rows.tolist(), places.tolist(), strict=True)):
        event = events.get(row)
        if event is None:
            event = events[row] = batch.event(row)
        passed[pair] = _filter_of(frozen.unpack_text(texts, place)).matches(event)
    return passed


def undecidable_rows(
    arrays: Arrays, columns: Sequence[tuple[int, AttributeColumn]], rows: int
) -> Flags | None:
    """The rows that only evaluation can decide: a hard decimal that meets a bound of more than 15 digits."""
    found: Flags | None = None
    for attribute, column in columns:
        if column.hard is not None and _has_long_bounds(arrays, attribute):
            found = column.hard if found is None else found | column.hard
    return found


def _has_long_bounds(arrays: Arrays, attribute: int) -> bool:
    """Whether some bound on the attribute's numbers has more than 15 digits, or is as large as 2^51."""
    chosen = arrays["attribute"] == attribute
    single = chosen & (arrays["tag"] == NUMBER)
    bounds = {*arrays["low"][single].tolist(), *arrays["high"][single].tolist()}
    if (chosen & (arrays["tag"] == MANY)).any():
        pieces = arrays["piece_tag"] == NUMBER
        bounds |= {*arrays["piece_low"][pieces].tolist(), *arrays["piece_high"][pieces].tolist()}
    return any(_is_long(bound) for bound in bounds if isfinite(bound))


def _is_long(bound: float) -> bool:
    """A closed bound may be the neighbour of the one that was written."""
    near = (bound, nextafter(bound, inf), nextafter(bound, -inf))
    return abs(bound) >= 2**51 or not any(float(f"{each:.{PLAIN_DIGITS}g}") == each for each in near)

"""The where verifier: conditions of subscriptions that another filter's index has already found.

A pair costs the constraints of its filter's conjunctions, up to the first conjunction that holds. Only
rows that occur in a pair are looked at. Space: 21 bytes a constraint and 9 a conjunction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from distributary.filters.where.filter import WhereFilter
from distributary.kernel import (
    Bytes,
    Flags,
    Floats,
    Ints,
    Longs,
    inlined,
    kernel,
    read_table,
    sealed,
    with_room,
)
from distributary.matching.batch import EventBatch
from distributary.matching.bound import array_at
from distributary.matching.index import AnyArrays, Arrays
from distributary.matching.layers import (
    OWN_ARRAYS,
    CompiledSegment,
    LiveSlots,
    PairVerifier,
    is_at_home,
    live_slots,
)
from distributary.matching.memory import prefetch
from distributary.matching.single import SingleEvent
from distributary.matching.where import constraints as conditions
from distributary.matching.where import evaluation
from distributary.matching.where.collecting import ConditionGatherer
from distributary.matching.where.column import ConditionColumn
from distributary.matching.where.constraints import PREDICATED, UNCERTAIN, Constraints, Rows, holds
from distributary.matching.where.single import (
    CONDITION_TYPES,
    SegmentConditions,
    bind_conditions,
    bound_conditions,
    single_row,
)

FAILS, PASSES, OPEN = range(3)
"""What the constraints say of a pair: no, yes, or that its filter must be evaluated."""


class WhereVerifier(PairVerifier[WhereFilter]):
    """Exact answers for pairs of an event and a condition."""

    kind: ClassVar[str] = "where"
    filter_class: ClassVar[type[Any]] = WhereFilter

    def gatherer(self) -> ConditionGatherer:
        """Takes conditions apart as they come."""
        return ConditionGatherer()

    def column(self, texts: AnyArrays, first: int, last: int) -> ConditionColumn:
        """Conditions read by the column."""
        return ConditionColumn.of_texts(texts, first, last)

    def compile_gathered(self, gathered: ConditionGatherer) -> Arrays:  # type: ignore[override]
        """The constraints of all filters, and where those of each filter begin."""
        flat = gathered.flat()
        first = np.searchsorted(flat.owner, np.arange(len(gathered) + 1)).astype(np.int32)
        return {**flat.arrays(gathered.texts()), "first": first}

    def searched(self, segment: CompiledSegment) -> Iterable[tuple[NDArray[Any], DTypeLike]]:
        """The conditions, and where those of each filter begin."""
        return (*bind_conditions(segment.readable), (segment.readable["first"], np.int32))

    def passing_in(self, number: int, segment: CompiledSegment, single: SingleEvent, slots: Ints) -> Ints:
        """Check the constraints, and evaluate the filters that they leave open."""
        known: SegmentConditions | None = segment.known
        if known is None:
            known = segment.known = SegmentConditions(segment.readable)
        encoded = known.encode(single)
        if encoded is None:
            return super().passing_in(number, segment, single, slots)
        bound = self.bound(segment)
        undecided: Ints = np.empty(len(slots), np.int32)
        kept, left_open = _keep(number, bound.words, *encoded, slots, undecided)
        if not left_open:
            return slots[:kept]
        passed = [
            slot for slot in undecided[:left_open].tolist() if known.passes(int(self._place[slot]), single)
        ]
        return np.concatenate((slots[:kept], np.array(passed, np.int32)))

    def check(self, segment: CompiledSegment, batch: EventBatch, rows: Ints, positions: Ints) -> Flags:
        """Check the constraints, and evaluate the filters that they leave open."""
        arrays = segment.readable
        wanted = np.zeros(batch.rows, np.bool_)
        wanted[rows] = True
        chosen = np.flatnonzero(wanted).astype(np.int32)
        places = np.cumsum(wanted, dtype=np.int32) - np.int32(1)
        columns = conditions.columns_of(arrays, batch)
        encoded = conditions.encode(arrays, columns, chosen, len(chosen))
        answers = _check(
            read_table(Constraints, arrays),
            encoded,
            sealed(arrays["first"]),
            sealed(arrays["flags"]),
            sealed(places),
            sealed(rows),
            sealed(positions),
        )
        passed: Flags = answers == PASSES
        undecided = np.flatnonzero(answers == OPEN)
        if len(undecided):
            held = _open_conjunctions(
                read_table(Constraints, arrays),
                encoded,
                sealed(arrays["first"]),
                sealed(arrays["flags"]),
                sealed(places[rows[undecided]]),
                sealed(positions[undecided]),
            )
            passed[undecided] = _evaluated(arrays, batch, rows[undecided], positions[undecided], *held)
        undecidable = evaluation.undecidable_rows(arrays, columns, batch.rows)
        if undecidable is not None:
            pairs = np.flatnonzero(undecidable[rows])
            passed[pairs] = evaluation.evaluate_any_pairs(arrays, batch, rows[pairs], positions[pairs])
        return passed


def _evaluated(
    arrays: AnyArrays, batch: EventBatch, rows: Ints, positions: Ints, pairs: Ints, conjunctions: Ints
) -> Flags:
    """Which pairs of a row and a filter pass; `conjunctions` left open the pairs of those numbers."""
    passed = np.zeros(len(rows), np.bool_)
    predicated = arrays["flags"][conjunctions] & PREDICATED != 0
    asked = pairs[predicated]
    held = evaluation.predicates_hold(arrays, batch, rows[asked], conjunctions[predicated])
    passed[asked[held]] = True
    left = np.unique(pairs[~predicated])
    left = left[~passed[left]]
    passed[left] = evaluation.evaluate_pairs(arrays, batch, rows[left], positions[left])
    return passed


@kernel
def _keep(
    number: int, words: Longs, codes: Longs, values: Floats, data: Bytes, slots: Ints, undecided: Ints
) -> tuple[int, int]:
    """Move the slots that the encoded event may pass to the front, and note those that must be evaluated.

    Slots at home elsewhere stay. Returns how many there are of both.
    """
    live, bound = live_slots(words), bound_conditions(words, OWN_ARRAYS)
    first = array_at(words, OWN_ARRAYS + len(CONDITION_TYPES), np.int32)
    rows = single_row(bound.texts, codes, values, data)
    _fetch(number, live, first, bound.constraints, slots)
    kept = left_open = 0
    for slot in slots:
        says = PASSES
        if is_at_home(live, number, slot):
            says = _answer(bound.constraints, rows, first, bound.flags, live.place[slot], 0)
        if says == OPEN:
            undecided[left_open] = slot
            left_open += 1
        elif says == PASSES:
            slots[kept] = slot
            kept += 1
    return kept, left_open


@inlined
def _fetch(number: int, live: LiveSlots, first: Ints, constraints: Constraints, slots: Ints) -> None:
    """Have what is read of these slots fetched meanwhile, step by step: it lies all over large arrays."""
    for slot in slots:
        prefetch(live.home, slot)
        prefetch(live.place, slot)
    for slot in slots:
        if is_at_home(live, number, slot):
            prefetch(first, live.place[slot])
    for slot in slots:
        if is_at_home(live, number, slot):
            prefetch(constraints.start, first[live.place[slot]])
    for slot in slots:
        if is_at_home(live, number, slot):
            start = constraints.start[first[live.place[slot]]]
            prefetch(constraints.kind, start)
            prefetch(constraints.bounds, 2 * start)


@inlined
def _answer(constraints: Constraints, rows: Rows, first: Ints, flags: Bytes, position: int, row: int) -> int:
    """What the constraints of the filter at a position say of a row."""
    says = FAILS
    for conjunction in range(first[position], first[position + 1]):
        start, end = constraints.start[conjunction], constraints.start[conjunction + 1]
        if holds(constraints, rows, start, end, row):
            if flags[conjunction] & UNCERTAIN == 0:
                return PASSES
            says = OPEN
    return says


@kernel
def _check(
    constraints: Constraints,
    rows: Rows,
    first: Ints,
    flags: Bytes,
    places: Ints,
    pair_row: Ints,
    pair_position: Ints,
) -> Bytes:
    """What the constraints say of each pair; `places` says where a row of the batch is among `rows`."""
    answers = np.zeros(len(pair_row), np.uint8)
    for pair in range(len(pair_row)):
        row = places[pair_row[pair]]
        answers[pair] = _answer(constraints, rows, first, flags, pair_position[pair], row)
    return answers


@kernel
def _open_conjunctions(
    constraints: Constraints,
    rows: Rows,
    first: Ints,
    flags: Bytes,
    pair_row: Ints,
    pair_position: Ints,
) -> tuple[Ints, Ints]:
    """The uncertain conjunctions that hold for pairs of a row and a position: numbers of pairs, and them."""
    pairs, conjunctions, count = np.empty(len(pair_row), np.int32), np.empty(len(pair_row), np.int32), 0
    for pair in range(len(pair_row)):
        for conjunction in range(first[pair_position[pair]], first[pair_position[pair] + 1]):
            start, end = constraints.start[conjunction], constraints.start[conjunction + 1]
            if flags[conjunction] & UNCERTAIN and holds(constraints, rows, start, end, pair_row[pair]):
                pairs, conjunctions = with_room(pairs, count, 1), with_room(conjunctions, count, 1)
                pairs[count], conjunctions[count] = pair, conjunction
                count += 1
    return pairs[:count], conjunctions[:count]

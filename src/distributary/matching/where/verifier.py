"""The where verifier: conditions of subscriptions that another filter's index has already found.

A pair costs the constraints of its filter's conjunctions, up to the first conjunction that holds. Only
rows that occur in a pair are looked at. Space: 21 bytes a constraint and 9 a conjunction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from distributary.filters.where.filter import WhereFilter
from distributary.kernel import Bytes, Flags, Ints, kernel, read_table, sealed
from distributary.matching.batch import EventBatch
from distributary.matching.index import Arrays
from distributary.matching.layers import Verifier
from distributary.matching.where import constraints as conditions
from distributary.matching.where import evaluation
from distributary.matching.where.constraints import UNCERTAIN, Constraints, Rows, holds

FAILS, PASSES, OPEN = range(3)
"""What the constraints say of a pair: no, yes, or that its filter must be evaluated."""


class WhereVerifier(Verifier[WhereFilter]):
    """Exact answers for pairs of an event and a condition."""

    kind: ClassVar[str] = "where"
    filter_class: ClassVar[type[Any]] = WhereFilter

    def compile(self, filters: Sequence[WhereFilter]) -> Arrays:
        """The constraints of all filters, and where those of each filter begin."""
        flat = conditions.flatten(filters)
        first = np.searchsorted(flat.owner, np.arange(len(filters) + 1)).astype(np.int32)
        return {**flat.arrays(filters), "first": first}

    def check(self, arrays: Arrays, batch: EventBatch, rows: Ints, positions: Ints) -> Flags:
        """Check the constraints, and evaluate the filters that they leave open."""
        wanted = np.zeros(batch.rows, np.bool_)
        wanted[rows] = True
        chosen = np.flatnonzero(wanted).astype(np.int32)
        places = np.cumsum(wanted, dtype=np.int32) - np.int32(1)
        columns = conditions.columns_of(arrays, batch)
        answers = _check(
            read_table(Constraints, arrays),
            conditions.encode(arrays, columns, chosen, len(chosen)),
            sealed(arrays["first"]),
            sealed(arrays["flags"]),
            sealed(places),
            sealed(rows),
            sealed(positions),
        )
        passed: Flags = answers == PASSES
        undecided = np.flatnonzero(answers == OPEN)
        if len(undecided):
            passed[undecided] = evaluation.evaluate_pairs(
                arrays, batch, rows[undecided], positions[undecided]
            )
        undecidable = evaluation.undecidable_rows(arrays, columns, batch.rows)
        if undecidable is not None:
            pairs = np.flatnonzero(undecidable[rows])
            passed[pairs] = evaluation.evaluate_any_pairs(arrays, batch, rows[pairs], positions[pairs])
        return passed


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
        position = pair_position[pair]
        place = places[pair_row[pair]]
        for conjunction in range(first[position], first[position + 1]):
            start, end = constraints.start[conjunction], constraints.start[conjunction + 1]
            if holds(constraints, rows, start, end, place):
                if flags[conjunction] & UNCERTAIN == 0:
                    answers[pair] = PASSES
                    break
                answers[pair] = OPEN
    return answers

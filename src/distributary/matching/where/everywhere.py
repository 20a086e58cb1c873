"""The conditions of a segment that are evaluated for every event, because searching would spare nothing.

These are the conditions with an alternative that bounds no operand, and those that were seen to hold often.
They are kept as formulas (see `formulas`), some hundred together. Where they are half of a segment, not too
large, all of its conditions are: then the index is not asked at all, until few of them hold again.

What is chosen decides only how fast the answer comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from distributary.filters.where.expression import Expression
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.write import OPERATION_KEY
from distributary.kernel import Flags, Ints
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.index import NO_SLOTS, AnyArrays, Pairs
from distributary.matching.truths import passing
from distributary.matching.where.formulas import Formulas
from distributary.matching.where.groups import HardValueError
from distributary.matching.where.rows import RowFormulas, Values

TOGETHER = 1 << 14
"""Conditions whose formulas share their predicates, and what an event's values come to."""
MOST_OF_ALL = 1 << 14
"""Of larger segments, what does not hold often is always searched for."""
BY_ROW = 128
"""Rows of a batch that are evaluated one by one: columns would cost more."""
SOME = 32
"""Conditions of a segment for which single events are looked at."""
HARD = 16
"""So many operations, and conditions that constraints do not decide, make a single event costly to search
for: fewer, and it is searched for even where many conditions hold."""
DENSE_EVENTS = 4
"""So many single events that pass many conditions show that many hold often."""
SMALL = 32
"""Batches of fewer rows do not show which conditions hold often, only that many do."""
OFTEN = 1 / 16
"""A condition that holds for a larger part of the rows is evaluated everywhere."""
SELDOM = 1 / 64
"""Where all conditions are evaluated everywhere, and on average they hold for a smaller part than this, most
of them are searched for again."""


@lru_cache(maxsize=1 << 16)
def expression_of(text: str) -> Expression:
    """The tree of a condition."""
    return WhereFilter.parse(text).expression


class ChosenConditions:
    """Conditions that are evaluated for every row, called by their positions; it never changes."""

    def __init__(self, flags: Flags, parts: Sequence[tuple[Ints, Formulas]]) -> None:
        self.flags = flags
        """Which positions of the segment are chosen."""
        self.parts = parts
        self.count = sum(len(positions) for positions, _ in parts)
        self.are_all = self.count == len(flags)
        self._by_row: list[RowFormulas] | None = None

    def holding(self, values: Values, now: Callable[[], Any]) -> Ints | None:
        """The chosen positions whose conditions are true for one row; None when that must be evaluated."""
        try:
            found = [formulas.holding(values, now) for formulas in self._row_formulas()]
        except HardValueError:
            return None
        return found[0] if len(found) == 1 else np.concatenate([*found, NO_SLOTS])

    def _row_formulas(self) -> list[RowFormulas]:
        by_row = self._by_row
        if by_row is None:
            by_row = self._by_row = [RowFormulas(formulas, positions) for positions, formulas in self.parts]
        return by_row

    def pairs(self, batch: EventBatch, expression: Callable[[int], Expression]) -> Pairs:
        """The pairs of a row and a chosen condition that is true for it, each once."""
        found = []
        for positions, formulas in self.parts:
            some, left = formulas.pairs(batch, positions)
            found.append(some)
            for position in left.tolist():
                rows = np.flatnonzero(passing(batch, expression(position), None)).astype(np.int32)
                found.append(Pairs(rows, np.full(len(rows), position, np.int32)))
        return Pairs.joined(found)

    def pairs_by_row(self, batch: EventBatch) -> Pairs | None:
        """The pairs of a small batch, row by row; None when a row must be evaluated.

        Columns have costs that do not depend on the number of rows.
        """
        try:
            return Pairs.joined([formulas.pairs(batch) for formulas in self._row_formulas()])
        except HardValueError:
            return None


class EverywhereConditions:
    """Which of the `size` conditions of a segment are evaluated for every row, as far as was learned.

    Threads may ask at once: who matches takes `chosen`, and keeps to it.
    """

    def __init__(self, arrays: AnyArrays, size: int, unbounded: Ints) -> None:
        self._texts = frozen.within(arrays, "texts")
        self._size = size
        self._unbounded = np.unique(unbounded)
        self._dense_events = 0
        names = frozen.unpack_texts(frozen.within(arrays, "attributes"))
        operations = sum(name.startswith(OPERATION_KEY) for name in names)
        self.is_hard = len(arrays["evaluated"]) + operations >= HARD
        """Whether single events and a few rows are better asked about formulas one by one."""
        self.chosen = self._with(ChosenConditions(np.zeros(self._size, np.bool_), ()), self._unbounded)
        """What is chosen now."""

    def choose(self, positions: Ints) -> bool:
        """Evaluate these too, and all when that makes half of the segment; whether any are new."""
        before = self.chosen
        self.chosen = self._with(before, positions)
        return self.chosen is not before

    def _with(self, chosen: ChosenConditions, positions: Ints) -> ChosenConditions:
        new = positions[~chosen.flags[positions]]
        if not len(new):
            return chosen
        if chosen.count + len(new) >= self._size / 2 and self._size <= MOST_OF_ALL:
            new = np.flatnonzero(~chosen.flags).astype(np.int32)
        flags, parts = chosen.flags.copy(), list(chosen.parts)
        flags[new] = True
        if flags.all() or len(parts) > 2 + 2 * chosen.count // TOGETHER:  # together they share more
            parts, new = [], np.flatnonzero(flags).astype(np.int32)
        for start in range(0, len(new), TOGETHER):
            some = new[start : start + TOGETHER]
            parts.append((some, Formulas([self._expression(each) for each in some.tolist()])))
        return ChosenConditions(flags, parts)

    def hold_often(self, pairs: Pairs, rows: int) -> bool:
        """Whether the pairs of so many rows are worth a look: on average a condition holds often enough."""
        return len(pairs.rows) >= rows * self._size * SELDOM

    def learn(self, positions: Ints, rows: int) -> bool:
        """Choose the conditions that were found for a good part of so many rows; whether any are new."""
        found, times = np.unique(positions, return_counts=True)
        return self.choose(found[times > rows * OFTEN])

    def learn_of_few(self, found: int, rows: int) -> None:
        """Take note of what a few events pass; after some that pass many conditions, all are chosen."""
        if self.is_hard and found > rows * self._size * OFTEN and SOME <= self._size <= MOST_OF_ALL:
            self._dense_events += rows
            if self._dense_events >= DENSE_EVENTS:
                self.choose(np.arange(self._size, dtype=np.int32))

    def pairs(self, chosen: ChosenConditions, batch: EventBatch) -> Pairs:
        """The pairs of a row and a chosen condition that is true for it, each once."""
        pairs = chosen.pairs_by_row(batch) if self.is_hard and batch.rows <= BY_ROW else None
        if pairs is None:
            pairs = chosen.pairs(batch, self._expression)
        if chosen.are_all and batch.rows >= SMALL and not self.hold_often(pairs, batch.rows):
            self._search_again(chosen)
        return pairs

    def memory(self) -> int:
        """The bytes it occupies."""
        return self.chosen.flags.nbytes + sum(formulas.memory() for _, formulas in self.chosen.parts)

    def _search_again(self, chosen: ChosenConditions) -> None:
        """Forget what was chosen because it held often."""
        if 2 * len(self._unbounded) < self._size and self.chosen is chosen:
            self._dense_events = 0
            self.chosen = self._with(ChosenConditions(np.zeros(self._size, np.bool_), ()), self._unbounded)

    def _expression(self, position: int) -> Expression:
        return expression_of(frozen.unpack_text(self._texts, position))

"""The conditions of a segment that are evaluated for every event, because searching would spare nothing.

These are the conditions with an alternative that bounds no operand, and those that were seen to hold often.
They are kept as formulas (see `formulas`), some hundred together. Where they are half of a segment, not too
large, all of its conditions are: then the index is not asked at all, until few of them hold again.

What is chosen decides only how fast the answer comes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from distributary.filters.where.expression import Expression
from distributary.filters.where.filter import WhereFilter
from distributary.kernel import Flags, Ints
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.index import Arrays, Pairs
from distributary.matching.truths import passing
from distributary.matching.where.formulas import Formulas

TOGETHER = 1024
"""Conditions whose formulas share their predicates: what 64 rows need of them stays in the caches."""
MOST_OF_ALL = 1 << 14
"""Of larger segments, what does not hold often is always searched for."""
OFTEN = 1 / 16
"""A condition that holds for a larger part of the rows is evaluated everywhere."""
SELDOM = 1 / 64
"""Where all conditions are evaluated everywhere, and on average they hold for a smaller part than this, most
of them are searched for again."""


@lru_cache(maxsize=1 << 16)
def expression_of(text: str) -> Expression:
    """The tree of a condition."""
    return WhereFilter.parse(text).expression


class EverywhereConditions:
    """The conditions of a segment, called by position, of which some are chosen for every row."""

    def __init__(self, arrays: Arrays, unbounded: Ints) -> None:
        self._texts = frozen.within(arrays, "texts")
        self._size = len(arrays["texts.offsets"]) - 1
        self._unbounded = np.unique(unbounded)
        self._parts: list[tuple[Ints, Formulas]] = []
        self.chosen: Flags = np.zeros(self._size, np.bool_)
        """Which positions are chosen."""
        self.count = 0
        self.choose(self._unbounded)

    @property
    def are_all(self) -> bool:
        """Whether all conditions of the segment are evaluated everywhere."""
        return self.count == self._size

    def choose(self, positions: Ints) -> None:
        """Evaluate these too, and all when that makes half of the segment."""
        new = positions[~self.chosen[positions]]
        if self.count + len(new) >= self._size / 2 and self._size <= MOST_OF_ALL:
            new = np.flatnonzero(~self.chosen).astype(np.int32)
        if not len(new):
            return
        self.chosen[new] = True
        self.count += len(new)
        if len(self._parts) > 2 + 2 * self.count // TOGETHER:  # many small parts
            self._parts, new = [], np.flatnonzero(self.chosen).astype(np.int32)
        for start in range(0, len(new), TOGETHER):
            some = new[start : start + TOGETHER]
            self._parts.append((some, Formulas([self._expression(each) for each in some.tolist()])))

    def hold_often(self, pairs: Pairs, rows: int) -> bool:
        """Whether the pairs of so many rows are worth a look: on average a condition holds often enough."""
        return len(pairs.rows) >= rows * self._size * SELDOM

    def learn(self, positions: Ints, rows: int) -> bool:
        """Choose the conditions that were found for a good part of so many rows; whether there are any."""
        found, times = np.unique(positions, return_counts=True)
        before = self.count
        self.choose(found[times > rows * OFTEN])
        return self.count > before

    def pairs(self, batch: EventBatch) -> Pairs:
        """The pairs of a row and a chosen condition that is true for it, each once."""
        found = []
        for positions, formulas in self._parts:
            some, left = formulas.pairs(batch, positions)
            found.append(some)
            found.extend(self._evaluated(batch, position) for position in left.tolist())
        pairs = Pairs.joined(found)
        if self.are_all and not self.hold_often(pairs, batch.rows):
            self._search_again()
        return pairs

    def memory(self) -> int:
        """The bytes it occupies."""
        return self.chosen.nbytes + sum(formulas.memory() for _, formulas in self._parts)

    def _evaluated(self, batch: EventBatch, position: int) -> Pairs:
        """The pairs of a condition that its formula leaves open."""
        rows = np.flatnonzero(passing(batch, self._expression(position), None)).astype(np.int32)
        return Pairs(rows, np.full(len(rows), position, np.int32))

    def _search_again(self) -> None:
        """Forget what was chosen because it held often."""
        if 2 * len(self._unbounded) < self._size:
            self._parts, self.count = [], 0
            self.chosen[:] = False
            self.choose(self._unbounded)

    def _expression(self, position: int) -> Expression:
        return expression_of(frozen.unpack_text(self._texts, position))

"""The filters that a vertex of the hypercube knows, and from which neighbours each came.

A *source* is the neighbour across a bit, named by that bit, or the subscriptions registered at this vertex,
named by the dimension, which is above all bits. What came across bit i is advertised across the bits below i
only (that is the spanning tree), so the neighbour across j is sent what came from the sources above j:

- If the bits of one filter are a subset of another's, the neighbour needs only the first, which is less
  demanding. What a neighbour is sent is the set of the least demanding filters.
- With a `budget`, at most so many filters are sent; the two most similar ones are replaced by the bits they
  have in common, as often as needed. A budget of 1 is one aggregated filter for each neighbour, as in section
  4.5: a vertex of weight w knows at most w of its neighbours' filters, and w is at most log2 N. (AND, not OR:
  an event that covers one of two filters covers their common bits, but not the bits of both.)

Removing a filter is exact, as every filter is kept with all its sources: what a neighbour is sent is always
what it would be sent had the removed filter never been there.

Cost, with n distinct filters: a match reads each of them once, a few machine words. Adding takes n
comparisons; removing takes n for every filter that the removed one had covered. A budget of 1 costs one pass
over the filters sent; exceeding a greater one costs the square of their number for each that is too many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import combinations
from operator import and_


class FilterTable:
    """The filters of one vertex by source, and what its neighbours are to be sent.

    >>> table = FilterTable(dimension=4, vertex=0b0100)
    >>> table.add(0b0111, source=4)                  # of a subscription registered at this vertex
    >>> table.add(0b0011, source=2)                  # from the neighbour across bit 2
    >>> table.told(3), table.told(1)    # the second goes across bits below 2 and covers the first
    (frozenset({7}), frozenset({3}))
    >>> f"{table.matching(0b1011):b}"                  # the source across bit 2 alone
    '100'
    """

    def __init__(self, dimension: int, vertex: int, budget: int | None = None) -> None:
        self.dimension = dimension
        self.budget = budget
        self.open_bits = tuple(bit for bit in range(dimension) if not vertex >> bit & 1)
        """The bits across which this vertex advertises: those that its key lacks."""
        self._sources: dict[int, int] = {}
        """For each filter its sources, as a bit mask."""
        self._covered_below: dict[int, int] = {}
        """For each filter the highest source of a less demanding one: it is not sent across lower bits."""
        self._told: dict[int, set[int]] = {bit: set() for bit in self.open_bits}
        self._from: dict[int, set[int]] = {}

    def __len__(self) -> int:
        return len(self._sources)

    def of(self, source: int) -> frozenset[int]:
        """The filters of one source."""
        return frozenset(self._from.get(source, ()))

    def add(self, filter: int, source: int) -> None:
        """Add a filter of a source."""
        self._from.setdefault(source, set()).add(filter)
        mask = self._sources.get(filter, 0)
        if mask >> source:
            self._sources[filter] = mask | 1 << source
            return
        before = self._range(filter)
        self._sources[filter] = mask | 1 << source
        if not mask:
            self._covered_below[filter] = self._less_demanding(filter)
        self._retell(filter, before)
        for other in self._more_demanding(filter):
            if self._covered_below[other] < source:
                before = self._range(other)
                self._covered_below[other] = source
                self._retell(other, before)

    def remove(self, filter: int, source: int) -> None:
        """Remove a filter of a source, if it is there."""
        mask = self._sources.get(filter, 0)
        if not mask >> source & 1:
            return
        self._from[source].discard(filter)
        left = mask & ~(1 << source)
        if left >> source:
            self._sources[filter] = left
            return
        before = self._range(filter)
        if left:
            self._sources[filter] = left
        else:
            del self._sources[filter], self._covered_below[filter]
        self._retell(filter, before)
        for other in list(self._more_demanding(filter)):
            if self._covered_below[other] == source:
                before = self._range(other)
                self._covered_below[other] = self._less_demanding(other)
                self._retell(other, before)

    def told(self, bit: int) -> frozenset[int]:
        """The filters that the neighbour across a bit that this vertex lacks is to be sent."""
        return aggregate(self._told[bit], self.budget)

    def matching(self, filter: int, above: int = -1) -> int:
        """The sources above a bit that have a filter covered by this event filter, as a bit mask."""
        found = 0
        lacking = ~filter
        for asked, mask in self._sources.items():
            if mask & ~found and not asked & lacking:
                found |= mask
        return found >> (above + 1) << (above + 1)

    def _range(self, filter: int) -> range:
        """The bits across which a filter is sent."""
        mask = self._sources.get(filter)
        return range(0) if mask is None else range(self._covered_below[filter], mask.bit_length() - 1)

    def _retell(self, filter: int, before: range) -> None:
        after = self._range(filter)
        for bit, told in self._told.items():
            if bit in after:
                told.add(filter)
            elif bit in before:
                told.discard(filter)

    def _less_demanding(self, filter: int) -> int:
        """The highest source of any less demanding filter; 0 when there is none."""
        found = (mask for other, mask in self._sources.items() if not other & ~filter and other != filter)
        return max((mask.bit_length() - 1 for mask in found), default=0)

    def _more_demanding(self, filter: int) -> Iterator[int]:
        return (other for other in self._sources if not filter & ~other and other != filter)


def least_demanding(filters: Iterable[int]) -> frozenset[int]:
    """The filters of which no other is a subset.

    >>> sorted(least_demanding([0b011, 0b111, 0b100]))
    [3, 4]
    """
    kept: list[int] = []
    for filter in sorted(set(filters), key=int.bit_count):
        if all(other & ~filter for other in kept):
            kept.append(filter)
    return frozenset(kept)


def aggregate(filters: Iterable[int], budget: int | None) -> frozenset[int]:
    """At most `budget` filters that match whatever one of these matches; a function of the set alone.

    >>> sorted(aggregate([0b0011, 0b0111_0000, 0b0110_0001], budget=2))
    [3, 96]
    """
    left = frozenset(filters)
    if budget == 1 and left:
        return frozenset([reduce(and_, left)])
    while budget is not None and len(left) > budget:
        pairs = combinations(sorted(left), 2)
        _, one, other = max(((first & second).bit_count(), first, second) for second, first in pairs)
        left = least_demanding(left - {one, other} | {one & other})
    return left

"""Counting match: a list for each attribute, and a count of the lists in which a conjunction is found.

For the event's value of an attribute there is a list of the conjunctions whose constraint on it holds.
A conjunction matches when it is found in as many lists as it constrains attributes, the number that the
paper's subscription id carries as its third part (Triantafillou & Aekaterinidis, sections 3 and 3.2). The
paper spreads the lists over the nodes of a ring by hashing every value a constraint admits; on one machine
an equality is a hash table entry and a range is a pair of bounds, so that ranges need no precision step.

A condition with OR has several conjunctions, and is reported once. A missing attribute has a list too: of
those that ask for it to be missing. A bound that floats cannot tell apart from its neighbours, a residual,
and a condition without disjunctive form make a conjunction a candidate only; its filter is evaluated.

For an event: O(a log r + h + s + c), with a attributes, r ranges on one, h entries of the lists, s ranges
that begin below the value but end before it, and c conjunctions (whose counts are compared all at once).
Ranges of texts are looked at one by one. Adding and removing are O(constraints) for equalities;
the first event after a change of ranges pays O(r log r) to sort the attribute's ranges again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from decimal import Decimal
from math import inf, nextafter
from typing import Any, ClassVar

import numpy as np

from distributary.filters.change import as_float
from distributary.filters.where.domain import Conjunction, Domain, NumberRange, TextRange, contains_value
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.lookup import value_under
from distributary.filters.where.values import plain
from distributary.kernel import Floats, Longs
from distributary.matching.columns import BOOLEAN, NULL, NUMBER, OTHER, STRING, is_hard, tag_of
from distributary.matching.index import HeldFilters
from distributary.model import Event, Value

EXACT_BELOW = 2**53
"""Whole numbers below this size are floats; above, a float may stand for several."""

NO_IDS = np.empty(0, np.int64)


class WhereCounting(HeldFilters[WhereFilter]):
    """The paper's matching algorithm, exact for every condition."""

    kind: ClassVar[str] = "where"
    name: ClassVar[str] = "counting"
    filter_class: ClassVar[type[Any]] = WhereFilter

    def __init__(self) -> None:
        super().__init__()
        self._ids: dict[int, list[int]] = {}
        self._lists: dict[str, _Lists] = {}
        self._conjunctions: dict[int, Conjunction] = {}
        self._owner: dict[int, int] = {}
        self._candidate_only: set[int] = set()
        self._always: set[int] = set()
        self._unused: list[int] = []
        self._constrained = np.zeros(64, np.int64)

    def add(self, slot: int, filter: WhereFilter) -> None:
        """Enter each conjunction of the filter into the lists of its attributes."""
        super().add(slot, filter)
        conjunctions = filter.conjunctions
        if conjunctions is None:
            conjunctions = (Conjunction((), residual=True),)
        self._ids[slot] = [self._enter(slot, conjunction) for conjunction in conjunctions]

    def _enter(self, slot: int, conjunction: Conjunction) -> int:
        number = self._unused.pop() if self._unused else len(self._conjunctions)
        if number == len(self._constrained):
            self._constrained = np.concatenate([self._constrained, np.zeros_like(self._constrained)])
        self._conjunctions[number] = conjunction
        self._constrained[number] = len(conjunction.domains)
        self._owner[number] = slot
        exact = not conjunction.residual
        for name, domain in conjunction.domains:
            exact &= self._lists.setdefault(name, _Lists()).add(number, domain)
        if not exact:
            self._candidate_only.add(number)
        if not conjunction.domains:
            self._always.add(number)
        return number

    def remove(self, slot: int) -> None:
        """Take the filter's conjunctions out of the lists."""
        super().remove(slot)
        for number in self._ids.pop(slot):
            for name, domain in self._conjunctions.pop(number).domains:
                self._lists[name].remove(number, domain)
            del self._owner[number]
            self._candidate_only.discard(number)
            self._always.discard(number)
            self._unused.append(number)

    def match(self, event: Event) -> list[int]:
        """Count in how many lists each conjunction is; evaluate those that the lists do not decide."""
        certain: set[int] = set()
        candidates: set[int] = set()
        for number in self._complete(event):
            (candidates if number in self._candidate_only else certain).add(self._owner[number])
        certain.update(slot for slot in candidates - certain if self._filters[slot].matches(event))
        return sorted(certain)

    def lists(self, event: Event) -> dict[str, list[int]]:
        """For each attribute, the slots of which a constraint on it holds.

        >>> index = WhereCounting()
        >>> index.add(1, WhereFilter.parse("exchange = 'NYSE' and price < 8.7"))
        >>> index.lists(Event("e", attributes={"exchange": "NYSE", "price": 9.1}))
        {'exchange': [1], 'price': []}
        """
        return {
            name: sorted({self._owner[number] for number in lists.holding(value_under(event, name)).tolist()})
            for name, lists in self._lists.items()
        }

    def _complete(self, event: Event) -> Iterable[int]:
        """The conjunctions found in as many lists as they constrain attributes."""
        found = [lists.holding(value_under(event, name)) for name, lists in self._lists.items()]
        counts = np.bincount(np.concatenate([NO_IDS, *found]))
        complete = (counts == self._constrained[: len(counts)]) & (counts > 0)
        return [*np.flatnonzero(complete).tolist(), *self._always]

    def memory(self) -> int:
        """The bytes of the tables and lists."""
        tables = (
            self._filters,
            self._ids,
            self._conjunctions,
            self._owner,
            self._candidate_only,
            self._always,
        )
        return sum(map(sys.getsizeof, tables)) + sum(lists.memory() for lists in self._lists.values())


class _Lists:
    """One attribute: from a value to the conjunctions whose constraint on it holds."""

    def __init__(self) -> None:
        self._equal: dict[tuple[int, Value], set[int]] = {}
        self._numbers = _NumberRanges()
        self._texts: dict[int, list[TextRange]] = {}
        self._domains: dict[int, Domain] = {}
        """What is asked one by one: ranges of numbers by a decimal that is no double, and times."""
        self._widened: set[int] = set()

    def add(self, number: int, domain: Domain) -> bool:
        """Enter a conjunction; whether the lists decide its constraint, or only narrow it down."""
        exact = True
        for key in _single_values(domain):
            self._equal.setdefault(key, set()).add(number)
        for numbers in domain.numbers:
            if not _is_single(numbers):
                low, high, precise = _closed(numbers)
                exact &= precise
                self._numbers.add(number, low, high)
        if domain.numbers or domain.instants or domain.times or domain.durations:
            self._domains[number] = domain
        ranges = [texts for texts in domain.texts if not _is_single(texts)]
        if ranges:
            self._texts[number] = ranges
        if not exact:
            self._widened.add(number)
        return exact

    def remove(self, number: int, domain: Domain) -> None:
        for key in _single_values(domain):
            self._equal[key].discard(number)
            if not self._equal[key]:
                del self._equal[key]
        self._numbers.remove(number)
        self._texts.pop(number, None)
        self._domains.pop(number, None)
        self._widened.discard(number)

    def holding(self, value: Value) -> Longs:
        value = plain(value)
        tag = tag_of(value)
        if is_hard(value) or tag > OTHER:
            holding = (number for number, domain in self._domains.items() if contains_value(domain, value))
            return np.fromiter(holding, np.int64)
        if isinstance(value, Decimal):
            value = int(value) if value == value.to_integral_value() else float(value)
        key = (tag, None if tag in (NULL, OTHER) else value)
        equal = np.fromiter(self._equal.get(key, ()), np.int64)
        if tag == NUMBER:
            found = np.concatenate([equal, self._numbers.holding(as_float(value))])
            # Ranges that lie apart may meet once their bounds are rounded: still one list, one entry.
            return np.unique(found) if self._widened else found
        if tag == STRING and self._texts:
            in_range = [
                number
                for number, ranges in self._texts.items()
                if any(_contains(texts, str(value)) for texts in ranges)
            ]
            return np.concatenate([equal, np.array(in_range, np.int64)])
        return equal

    def memory(self) -> int:
        sets = sum(map(sys.getsizeof, self._equal.values()))
        return sys.getsizeof(self._equal) + sets + sys.getsizeof(self._texts) + self._numbers.memory()


class _NumberRanges:
    """Closed ranges of floats, sorted by where they begin when somebody asks."""

    def __init__(self) -> None:
        self._ranges: dict[int, list[tuple[float, float]]] = {}
        self._sorted: tuple[Floats, Floats, Longs] | None = None

    def add(self, number: int, low: float, high: float) -> None:
        self._ranges.setdefault(number, []).append((low, high))
        self._sorted = None

    def remove(self, number: int) -> None:
        if self._ranges.pop(number, None) is not None:
            self._sorted = None

    def holding(self, value: float) -> Longs:
        if self._sorted is None:
            entries = sorted(
                (low, high, number) for number, ranges in self._ranges.items() for low, high in ranges
            )
            table = np.array(entries, np.float64).reshape(-1, 3)
            self._sorted = (table[:, 0].copy(), table[:, 1].copy(), table[:, 2].astype(np.int64))
        lows, highs, numbers = self._sorted
        begun = int(np.searchsorted(lows, value, "right"))
        holding: Longs = numbers[:begun][highs[:begun] >= value]
        return holding

    def memory(self) -> int:
        arrays = sum(part.nbytes for part in self._sorted) if self._sorted else 0
        return sys.getsizeof(self._ranges) + arrays


def _is_single(piece: NumberRange | TextRange) -> bool:
    return piece.low == piece.high


def _single_values(domain: Domain) -> Iterable[tuple[int, Value]]:
    """The values that the domain names one by one, each under its tag, for True equals 1 in Python."""
    yield from ((NUMBER, numbers.low) for numbers in domain.numbers if _is_single(numbers))
    yield from ((STRING, texts.low) for texts in domain.texts if _is_single(texts))
    yield from ((BOOLEAN, value) for value in domain.booleans)
    if domain.null:
        yield NULL, None
    if domain.other:
        yield OTHER, None


def _closed(numbers: NumberRange) -> tuple[float, float, bool]:
    """The range with closed float bounds, and whether it says the same of every number."""
    low, high = as_float(numbers.low), as_float(numbers.high)
    precise = _precise(numbers.low, -inf, numbers.low_open) and _precise(numbers.high, inf, numbers.high_open)
    if precise and numbers.low_open:
        low = nextafter(low, inf)
    if precise and numbers.high_open:
        high = nextafter(high, -inf)
    return low, high, precise


def _precise(bound: float, unbounded: float, is_open: bool) -> bool:
    return abs(bound) < EXACT_BELOW or (bound == unbounded and not is_open)


def _contains(texts: TextRange, value: str) -> bool:
    if value < texts.low or (texts.low_open and value == texts.low):
        return False
    return texts.high is None or value < texts.high or (not texts.high_open and value == texts.high)

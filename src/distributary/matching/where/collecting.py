"""Conditions on their way into a segment: conjunctions, constraints and pieces in arrays that grow.

Bounds are noted as they are written; `CollectedConditions.flat` closes them and ranks the texts, once for all
(see `constraints` for the form). Conditions come one by one, from their conjunctions, or by the column, from
their recipes (see `recipes`); both say the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import numpy as np

from distributary.filters.where.domain import Domain, TextRange
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.write import OPERATION_KEY
from distributary.kernel import Bytes, Flags, Floats, Ints, Longs
from distributary.matching.columns import (
    BOOLEAN,
    DURATION,
    INSTANT,
    MICROSECOND,
    NULL,
    NUMBER,
    OTHER,
    STRING,
    TIME,
)
from distributary.matching.distinct import DistinctTexts
from distributary.matching.gathering import FilterColumn, Gatherer
from distributary.matching.growing import GrowingArray
from distributary.matching.where.column import ConditionColumn
from distributary.matching.where.constraints import (
    EXACT_MICROSECONDS,
    HIGH_FREE,
    HIGH_OPEN,
    LOW_FREE,
    LOW_OPEN,
    MOST_OPERATIONS,
    PREDICATED,
    ROUNDED_FROM,
    SHARED,
    UNCERTAIN,
    FlatConditions,
    starts_of,
)
from distributary.matching.where.recipes import NO_RECIPE, constraints_of
from distributary.matching.where.texts import Texts, named_texts


class ConditionGatherer(Gatherer[WhereFilter]):
    """Gathers what the where index and the where verifier compile."""

    def __init__(self) -> None:
        super().__init__()
        self._collected = CollectedConditions()

    def flat(self) -> FlatConditions:
        """The conditions taken apart, which are given away: nothing may be added or asked after that."""
        collected, self._collected = self._collected, CollectedConditions()
        return collected.flat()

    def take(self, slots: Ints, column: FilterColumn[WhereFilter], codes: Ints) -> None:
        """Take the conditions that have a recipe by the column, then the others one by one."""
        if not isinstance(column, ConditionColumn):
            super().take(slots, column, codes)
            return
        by_recipe = column.recipes[codes] != NO_RECIPE
        chosen = codes[by_recipe]
        position = self.take_texts(slots[by_recipe], column, chosen)
        self._collected.take(position, column, chosen)
        super().take(slots[~by_recipe], column, codes[~by_recipe])

    def keep(self, position: int, filter: WhereFilter) -> None:
        """Take the condition apart."""
        self._collected.add_filter(position, filter)


def flatten_domains(domains: Iterable[tuple[str, Domain]]) -> FlatConditions:
    """Domains of operands as conjunctions of one constraint each, owned by their places; however many
    operations there are. Those that no value is in are left out, and those that are not exact are UNCERTAIN.
    """
    collected = CollectedConditions(most_operations=None)
    for place, domain in enumerate(domains):
        collected.add(place, 0, (domain,))
    return collected.flat()


class CollectedConditions:
    """Growing arrays of pieces, constraints and conjunctions, those of later filters behind the earlier."""

    def __init__(self, most_operations: int | None = MOST_OPERATIONS) -> None:
        self._most_operations = most_operations
        self.attributes: dict[str, int] = {}
        self.texts: list[dict[str, int]] = []
        self.owner, self.flags, self.start = GrowingArray("i"), GrowingArray("B"), GrowingArray("i")
        self.attribute, self.piece_start = GrowingArray("i"), GrowingArray("i")
        self.tag, self.bounds = GrowingArray("B"), GrowingArray("B")
        self.low, self.high = GrowingArray("d"), GrowingArray("d")
        self.operations = 0
        self.predicates: dict[str, int] = {}
        self.predicated, self.predicate_of = GrowingArray("i"), GrowingArray("i")

    def add_filter(self, position: int, filter: WhereFilter) -> None:
        """Take a filter apart. A conjunction that no event can pass is left out."""
        conjunctions = filter.conjunctions
        if conjunctions is None:
            self.add(position, UNCERTAIN, ())
            return
        shared = SHARED if len(conjunctions) > 1 else 0
        for conjunction in conjunctions:
            flags = shared | (UNCERTAIN * conjunction.residual) | (PREDICATED * bool(conjunction.residue))
            if self.add(position, flags, conjunction.domains):
                self._add_predicates(conjunction.residue)

    def _add_predicates(self, residue: Iterable[str]) -> None:
        """Note what else must be true for the conjunction that was added last."""
        for text in residue:
            self.predicate_of.append(self.predicates.setdefault(text, len(self.predicates)))
            self.predicated.append(len(self.owner) - 1)

    def take(self, position: int, column: ConditionColumn, codes: Ints) -> None:
        """Take the filters of these codes, which have recipes; the first has this position."""
        made = constraints_of(column.table, column.cut, column.recipes, codes)
        attributes = np.array([self._attribute(name) for name in column.names], np.int32)
        attribute, tag = attributes[made.constraint], column.table.tag[made.constraint]
        texts = np.flatnonzero(tag == STRING)
        if len(texts):
            numbers = self._number_texts(column, attribute[texts], made.low[texts].astype(np.int64))
            made.low[texts] = made.high[texts] = numbers
        first = len(self.attribute)
        self.start.extend(first + np.append(0, made.ends[:-1])[: len(made.ends)])
        self.owner.extend(position + made.owner)
        self.flags.extend(np.zeros(len(made.owner), np.uint8))
        self.piece_start.extend(len(self.tag) + np.arange(len(attribute)))
        self.attribute.extend(attribute)
        self.tag.extend(tag)
        self.bounds.extend(made.bounds)
        self.low.extend(made.low)
        self.high.extend(made.high)

    def _number_texts(self, column: ConditionColumn, attributes: Ints, literals: Longs) -> Ints:
        """The number of each literal among the texts of its attribute."""
        distinct = DistinctTexts()
        cut = column.cut
        codes = distinct.number(column.data, cut.starts[literals] + 1, cut.ends[literals] - 1)
        texts = distinct.texts()
        pairs, of_pair = np.unique(attributes * np.int64(len(texts)) + codes, return_inverse=True)
        numbers = []
        for pair in pairs.tolist():
            known = self.texts[pair // len(texts)]
            numbers.append(known.setdefault(texts[pair % len(texts)], len(known)))
        return np.array(numbers, np.int32)[of_pair]

    def _attribute(self, name: str) -> int:
        attribute = self.attributes.get(name)
        if attribute is None:
            attribute = self.attributes[name] = len(self.attributes)
            self.texts.append({})
        return attribute

    def add(self, position: int, flags: int, domains: Iterable[tuple[str, Domain]]) -> bool:
        """Add one conjunction of the filter at this position, unless no event can pass it; whether it did."""
        first, first_piece = len(self.attribute), len(self.tag)
        for name, domain in domains:
            if name.startswith(OPERATION_KEY) and name not in self.attributes:
                self.operations += 1
                if self._most_operations is not None and self.operations > self._most_operations:
                    flags = UNCERTAIN | flags & SHARED
                    continue
            attribute = self._attribute(name)
            before = len(self.tag)
            self.attribute.append(attribute)
            self.piece_start.append(before)
            for numbers in domain.numbers:
                self.tag.append(NUMBER)
                self.low.append(numbers.low)
                self.high.append(numbers.high)
                self.bounds.append(LOW_OPEN * numbers.low_open | HIGH_OPEN * numbers.high_open)
            if domain.texts or domain.booleans or domain.null or domain.other:
                self._rest(attribute, domain)
            if domain.instants or domain.times or domain.durations:
                flags = self._times(domain, flags)
            if len(self.tag) == before:
                for of_constraints in (self.attribute, self.piece_start):
                    of_constraints.shorten(first)
                for of_pieces in (self.tag, self.bounds, self.low, self.high):
                    of_pieces.shorten(first_piece)
                return False
        self.owner.append(position)
        self.flags.append(flags)
        self.start.append(first)
        return True

    def _rest(self, attribute: int, domain: Domain) -> None:
        for texts in domain.texts:
            self._text(attribute, texts)
        for value in domain.booleans:
            self._piece(BOOLEAN, float(value), float(value), 0)
        if domain.null:
            self._piece(NULL, 0.0, 0.0, 0)
        if domain.other:
            self._piece(OTHER, 0.0, 0.0, 0)

    def _times(self, domain: Domain, flags: int) -> int:
        """The pieces of times, closed at once; the flags, UNCERTAIN when a bound is not exact."""
        exact = True
        for tag, ranges in ((INSTANT, domain.instants), (DURATION, domain.durations)):
            for range_ in ranges:
                low, low_exact = _lowest(range_.low, range_.low_open)
                high, high_exact = _lowest(-range_.high, range_.high_open)
                self._piece(tag, low, -high, 0)
                exact &= low_exact and high_exact
        for range_ in domain.times:
            self._piece(TIME, range_.low + range_.low_open, range_.high - range_.high_open, 0)
        return flags if exact else UNCERTAIN | flags & SHARED

    def _text(self, attribute: int, texts: TextRange) -> None:
        numbers = self.texts[attribute]
        low = high = 0
        bounds = LOW_OPEN * texts.low_open | HIGH_OPEN * texts.high_open
        if texts.low == "" and not texts.low_open and texts.high != "":
            bounds |= LOW_FREE
        else:
            low = numbers.setdefault(texts.low, len(numbers))
        if texts.high is None:
            bounds |= HIGH_FREE
        else:
            high = numbers.setdefault(texts.high, len(numbers))
        self._piece(STRING, low, high, bounds)

    def _piece(self, tag: int, low: float, high: float, bounds: int) -> None:
        self.tag.append(tag)
        self.low.append(low)
        self.high.append(high)
        self.bounds.append(bounds)

    def flat(self) -> FlatConditions:
        """Everything with closed bounds. Nothing may be added after that."""
        self.start.append(len(self.attribute))
        self.piece_start.append(len(self.tag))
        start, piece_start = self.start.taken(), self.piece_start.taken()
        attribute, tag, bounds = self.attribute.taken(), self.tag.taken(), self.bounds.taken()
        low, high, flags = self.low.taken(), self.high.taken(), self.flags.taken()
        inexact = _close_numbers(tag == NUMBER, bounds, low, high)
        if inexact.any():
            of_piece = np.repeat(np.arange(len(attribute)), np.diff(piece_start))[inexact]
            uncertain = np.searchsorted(start, of_piece, "right") - 1
            flags[uncertain] = UNCERTAIN | flags[uncertain] & SHARED
        of_attribute = np.repeat(attribute, np.diff(piece_start))
        texts = self._close_texts(np.flatnonzero(tag == STRING), of_attribute, bounds, low, high)
        return FlatConditions(
            list(self.attributes),
            self.owner.taken(),
            flags,
            start,
            attribute,
            piece_start,
            tag,
            low,
            high,
            texts,
            list(self.predicates),
            starts_of(np.bincount(self.predicated.taken(), minlength=len(flags))),
            self.predicate_of.taken(),
        )

    def _close_texts(self, pieces: Longs, attribute: Ints, bounds: Bytes, low: Floats, high: Floats) -> Texts:
        """Turn the numbers of texts, as they were met, into closed ranges of ranks."""
        ordered = np.zeros(len(self.texts), np.bool_)
        ends_free = (bounds[pieces] & (LOW_FREE | HIGH_FREE)) == (LOW_FREE | HIGH_FREE)
        ordered[attribute[pieces[~ends_free & ((bounds[pieces] != 0) | (low[pieces] != high[pieces]))]]] = (
            True
        )
        lists, ranks = [], []
        for numbers in self.texts:
            met = list(numbers)
            order = np.array(sorted(range(len(met)), key=met.__getitem__), np.int64)
            rank = np.empty(len(met), np.float64)
            rank[order] = 2.0 * np.arange(len(met)) + 1.0
            lists.append([met[number] for number in order.tolist()])
            ranks.append(rank)
        first = starts_of(np.array([len(rank) for rank in ranks], np.int64))
        rank = np.concatenate([*ranks, np.zeros(1)])
        bits, base = bounds[pieces], first[attribute[pieces]]
        lows = rank[base + low[pieces].astype(np.int64)] + ((bits & LOW_OPEN) != 0)
        highs = rank[base + high[pieces].astype(np.int64)] - ((bits & HIGH_OPEN) != 0)
        low[pieces] = np.where(bits & LOW_FREE, -inf, lows)
        high[pieces] = np.where(bits & HIGH_FREE, inf, highs)
        return named_texts(lists, ordered)


def _lowest(bound: float, is_open: bool) -> tuple[float, bool]:
    """The least microsecond or half of one that a bound in nanoseconds lets pass, and whether it is exact."""
    if bound in (-inf, inf):
        return bound, True
    whole, rest = divmod(int(bound), MICROSECOND)
    certain = rest == 0 and abs(whole) < EXACT_MICROSECONDS
    return whole + (0.5 if rest or (is_open and certain) else 0.0), certain


def _close_numbers(chosen: Flags, bounds: Bytes, low: Floats, high: Floats) -> Flags:
    """Make the chosen ranges closed, in place; which of them let pass more than they should."""
    low_open, high_open = (bounds & LOW_OPEN) != 0, (bounds & HIGH_OPEN) != 0
    low_rounded = (np.abs(low) >= ROUNDED_FROM) & ((low != -inf) | low_open)
    high_rounded = (np.abs(high) >= ROUNDED_FROM) & ((high != inf) | high_open)
    inward = chosen & low_open & ~low_rounded
    low[inward] = np.nextafter(low[inward], inf)
    inward = chosen & high_open & ~high_rounded
    high[inward] = np.nextafter(high[inward], -inf)
    low += 0.0  # turns -0.0 into 0.0, so that equal bounds have equal bits
    high += 0.0
    inexact: Flags = chosen & (low_rounded | high_rounded)
    return inexact

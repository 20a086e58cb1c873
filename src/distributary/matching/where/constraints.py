"""Conditions as arrays: what the where index and the where verifier share.

A *conjunction* is a run of *constraints*, one for each attribute it names; a constraint is a union of
*pieces*; a piece is a tag (number, string, boolean, null, other) and a closed range of numbers. Everything
a `Domain` can say fits that form: an open bound is the next number further in, a text is its rank (see
`texts`), a boolean is 0 or 1, a missing value is 0 under its own tag. A constraint of one piece is
kept in place (`tag`, `low`, `high`); one of several has the tag `MANY` and its pieces numbered `low` to
`high`.

A batch holds numbers as floats, so a whole number beyond 2^53 is rounded there. Rounding keeps order, so
bounds below that are exact. A bound beyond is kept rounded, which lets pass all it should and perhaps
more; its conjunction is *uncertain*, as are those with a residual and filters that have no disjunctive
form: a pair that was found through an uncertain conjunction is decided by evaluating the filter itself,
whose text is kept for that. Times are in microseconds, between two of which a batch knows one place, the half
(see `columns`): a bound that is no whole microsecond, or very far away, is uncertain too.

An operation is an attribute whose column the batch computes for all rows. A segment has `MOST_OPERATIONS` of
them; constraints on others are left out, which makes their conjunctions uncertain.

Flattening is one pass over the filters, O(pieces); checking a conjunction is O(its pieces), and stops at the
first constraint that fails.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.filters.where.domain import Domain, TextRange
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.write import OPERATION_KEY
from distributary.kernel import Bytes, Flags, Floats, Ints, Longs, kernel, read_table, sealed, table_arrays
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
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
    AttributeColumn,
)
from distributary.matching.index import Arrays
from distributary.matching.where.texts import Texts, named_texts, rank_texts

MANY = 255
ROUNDED_FROM = 2.0**53
"""From here on a float may stand for more than one whole number."""

EXACT_MICROSECONDS = 2**52
"""Up to here a double holds halves of microseconds."""
MOST_OPERATIONS = 64
"""Operations that a segment has computed for every row of a batch."""

LOW_OPEN, HIGH_OPEN, LOW_FREE, HIGH_FREE = 1, 2, 4, 8
"""Flags of a bound as it is written: left out itself, or absent (texts only: a number has infinities)."""
UNCERTAIN, SHARED = 1, 2
"""Flags of a conjunction: its filter must be evaluated; its filter has other conjunctions too."""


class Constraints(NamedTuple):
    """The constraints of every conjunction, as the kernels read them."""

    start: Ints
    attribute: Ints
    tag: Bytes
    low: Floats
    high: Floats
    piece_tag: Bytes
    piece_low: Floats
    piece_high: Floats


class Rows(NamedTuple):
    """Some rows of a batch: attribute a of row i is `tags[i, where[a]]`, `values[i, where[a]]`.

    Column 0 stands for all attributes that the batch does not have.
    """

    tags: Bytes
    values: Floats
    where: Ints


@dataclass(frozen=True, slots=True)
class FlatConditions:
    """Filters taken apart, in their order: conjunctions, constraints, pieces.

    Conjunction c belongs to the filter at `owner[c]` and has the constraints `start[c]` to `start[c + 1]`;
    constraint k has the pieces `piece_start[k]` to `piece_start[k + 1]`.
    """

    names: list[str]
    owner: Ints
    flags: Bytes
    start: Ints
    attribute: Ints
    piece_start: Ints
    tag: Bytes
    low: Floats
    high: Floats
    texts: Texts

    def piece_attribute(self) -> Ints:
        """The attribute of each piece."""
        return np.repeat(self.attribute, np.diff(self.piece_start))

    def reordered(self, conjunctions: NDArray[Any], constraints: NDArray[Any]) -> FlatConditions:
        """The same with its conjunctions and constraints in another order, which must agree."""
        sizes = np.diff(self.start)[conjunctions]
        piece_sizes = np.diff(self.piece_start)[constraints]
        pieces = runs(self.piece_start[:-1][constraints], piece_sizes)
        return replace(
            self,
            owner=self.owner[conjunctions],
            flags=self.flags[conjunctions],
            start=starts_of(sizes),
            attribute=self.attribute[constraints],
            piece_start=starts_of(piece_sizes),
            tag=self.tag[pieces],
            low=self.low[pieces],
            high=self.high[pieces],
        )

    def arrays(self, filters: Sequence[WhereFilter]) -> Arrays:
        """What a segment keeps; `filters` are those that were flattened."""
        evaluated = np.unique(self.owner[(self.flags & UNCERTAIN) != 0])
        texts = frozen.pack_texts([filters[position].text for position in evaluated.tolist()])
        many = np.diff(self.piece_start) > 1
        pieces = runs(self.piece_start[:-1][many], np.diff(self.piece_start)[many])
        kept = starts_of(np.diff(self.piece_start)[many])
        tag = self.tag[self.piece_start[:-1]]
        low = self.low[self.piece_start[:-1]]
        high = self.high[self.piece_start[:-1]]
        tag[many], low[many], high[many] = MANY, kept[:-1], kept[1:]
        return {
            **frozen.under("attributes", frozen.pack_texts(self.names)),
            **table_arrays(self.texts, "text_"),
            **frozen.under("evaluated", texts),
            "evaluated": evaluated,
            "owner": self.owner,
            "flags": self.flags,
            "start": self.start,
            "attribute": self.attribute,
            "tag": tag,
            "low": low,
            "high": high,
            "piece_tag": self.tag[pieces],
            "piece_low": self.low[pieces],
            "piece_high": self.high[pieces],
        }


Found = tuple[Ints, Ints, int]
"""What a search has found so far: rows, conjunctions, and how many of both; behind them is room for more."""


@kernel
def grown(array: Ints) -> Ints:
    """The array with as much room again behind it."""
    larger = np.empty(2 * len(array), np.int32)
    larger[: len(array)] = array
    return larger


def starts_of(sizes: NDArray[Any]) -> Ints:
    """Where runs of these sizes start, one after another, and where the last one ends."""
    starts = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=starts[1:])
    return starts


def runs(starts: NDArray[Any], sizes: NDArray[Any]) -> Longs:
    """The numbers start, start + 1, ... of each run, one run after another.

    >>> runs(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    shift: Longs = np.repeat(starts - (ends - sizes), sizes)
    return np.arange(total, dtype=np.int64) + shift


def flatten(filters: Iterable[WhereFilter]) -> FlatConditions:
    """Take the filters apart. A conjunction that no event can pass is left out."""
    collected = _Collected()
    for position, filter in enumerate(filters):
        conjunctions = filter.conjunctions
        if conjunctions is None:
            collected.add(position, UNCERTAIN, ())
            continue
        shared = SHARED if len(conjunctions) > 1 else 0
        for conjunction in conjunctions:
            collected.add(position, shared | conjunction.residual, conjunction.domains)
    return collected.flat()


def flatten_domains(domains: Iterable[tuple[str, Domain]]) -> FlatConditions:
    """Domains of operands as conjunctions of one constraint each, owned by their places; however many
    operations there are. Those that no value is in are left out, and those that are not exact are UNCERTAIN.
    """
    collected = _Collected(most_operations=None)
    for place, domain in enumerate(domains):
        collected.add(place, 0, (domain,))
    return collected.flat()


class _Collected:
    """Growing arrays of pieces, constraints and conjunctions; bounds as written, made closed at the end."""

    def __init__(self, most_operations: int | None = MOST_OPERATIONS) -> None:
        self._most_operations = most_operations
        self.attributes: dict[str, int] = {}
        self.texts: list[dict[str, int]] = []
        self.owner, self.flags, self.start = array("i"), array("B"), array("i")
        self.attribute, self.piece_start = array("i"), array("i")
        self.tag, self.bounds = array("B"), array("B")
        self.low, self.high = array("d"), array("d")
        self.operations = 0

    def add(self, position: int, flags: int, domains: Iterable[tuple[str, Domain]]) -> None:
        first, first_piece = len(self.attribute), len(self.tag)
        for name, domain in domains:
            attribute = self.attributes.get(name)
            if attribute is None:
                if name.startswith(OPERATION_KEY):
                    self.operations += 1
                    if self._most_operations is not None and self.operations > self._most_operations:
                        flags |= UNCERTAIN
                        continue
                attribute = self.attributes[name] = len(self.attributes)
                self.texts.append({})
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
                flags |= self._times(domain)
            if len(self.tag) == before:
                del self.attribute[first:], self.piece_start[first:]
                del self.tag[first_piece:], self.bounds[first_piece:]
                del self.low[first_piece:], self.high[first_piece:]
                return
        self.owner.append(position)
        self.flags.append(flags)
        self.start.append(first)

    def _rest(self, attribute: int, domain: Domain) -> None:
        for texts in domain.texts:
            self._text(attribute, texts)
        for value in domain.booleans:
            self._piece(BOOLEAN, float(value), float(value), 0)
        if domain.null:
            self._piece(NULL, 0.0, 0.0, 0)
        if domain.other:
            self._piece(OTHER, 0.0, 0.0, 0)

    def _times(self, domain: Domain) -> int:
        """The pieces of times, closed at once; UNCERTAIN when a bound is not exact."""
        exact = True
        for tag, ranges in ((INSTANT, domain.instants), (DURATION, domain.durations)):
            for range_ in ranges:
                low, low_exact = _lowest(range_.low, range_.low_open)
                high, high_exact = _lowest(-range_.high, range_.high_open)
                self._piece(tag, low, -high, 0)
                exact &= low_exact and high_exact
        for range_ in domain.times:
            self._piece(TIME, range_.low + range_.low_open, range_.high - range_.high_open, 0)
        return 0 if exact else UNCERTAIN

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
        start = np.array([*self.start, len(self.attribute)], np.int32)
        piece_start = np.array([*self.piece_start, len(self.tag)], np.int32)
        attribute = np.array(self.attribute, np.int32)
        tag, bounds = np.array(self.tag, np.uint8), np.array(self.bounds, np.uint8)
        low, high = np.array(self.low, np.float64), np.array(self.high, np.float64)
        flags = np.array(self.flags, np.uint8)
        inexact = _close_numbers(tag == NUMBER, bounds, low, high)
        if inexact.any():
            of_piece = np.repeat(np.arange(len(attribute)), np.diff(piece_start))[inexact]
            flags[np.searchsorted(start, of_piece, "right") - 1] |= UNCERTAIN
        of_attribute = np.repeat(attribute, np.diff(piece_start))
        texts = self._close_texts(np.flatnonzero(tag == STRING), of_attribute, bounds, low, high)
        return FlatConditions(
            list(self.attributes),
            np.array(self.owner, np.int32),
            flags,
            start,
            attribute,
            piece_start,
            tag,
            low,
            high,
            texts,
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


@lru_cache(maxsize=64)
def _attribute_numbers(offsets: bytes, data: bytes) -> dict[str, int]:
    packed: Arrays = {"offsets": np.frombuffer(offsets, np.int64), "bytes": np.frombuffer(data, np.uint8)}
    return {name: number for number, name in enumerate(frozen.unpack_texts(packed))}


def columns_of(arrays: Arrays, batch: EventBatch) -> list[tuple[int, AttributeColumn]]:
    """The attributes that both the segment and the batch have: their numbers and columns."""
    numbers = _attribute_numbers(arrays["attributes.offsets"].tobytes(), arrays["attributes.bytes"].tobytes())
    names = [name for name in batch.attributes if name in numbers]
    names += [name for name in numbers if name.startswith(OPERATION_KEY)]
    present = [(numbers[name], batch.column(name)) for name in names]
    return [(number, column) for number, column in present if column is not None]


def encode(
    arrays: Arrays, columns: Sequence[tuple[int, AttributeColumn]], chosen: slice | Ints, count: int
) -> Rows:
    """The chosen rows of a batch (`count` of them) as the kernels read them."""
    texts = read_table(Texts, arrays, "text_")
    tags = np.zeros((count, len(columns) + 1), np.uint8)
    values = np.zeros((count, len(columns) + 1), np.float64)
    where = np.zeros(len(texts.first) - 1, np.int32)
    for place, (attribute, column) in enumerate(columns, 1):
        where[attribute] = place
        of_column = sealed(column.tags[chosen])
        _put_column(of_column, sealed(column.numbers[chosen]), tags, values, place)
        if column.strings is not None:
            strings = column.strings
            rank_texts(
                texts,
                attribute,
                sealed(strings.data),
                sealed(strings.starts[chosen]),
                sealed(strings.ends[chosen]),
                of_column,
                values,
                place,
            )
    return Rows(sealed(tags), sealed(values), sealed(where))


@kernel
def _put_column(of_column: Bytes, numbers: Floats, tags: Bytes, values: Floats, place: int) -> None:
    """Write the tags and numbers of one column; what is no number, boolean or time has the number 0."""
    for row in range(len(of_column)):
        tag = of_column[row]
        tags[row, place] = tag
        if tag != OTHER and tag != NULL and tag != STRING:
            values[row, place] = numbers[row] + 0.0  # turns -0.0 into 0.0


@kernel
def holds(constraints: Constraints, rows: Rows, first: int, last: int, row: int) -> bool:
    """Whether the row passes the constraints numbered `first` to `last`.

    Unsigned numbers spare each access to an array the question whether its index is negative.
    """
    at_row = np.uint64(row)
    for constraint in range(first, last):
        number = np.uint64(constraint)
        column = np.uint64(rows.where[np.uint64(constraints.attribute[number])])
        tag, value = rows.tags[at_row, column], rows.values[at_row, column]
        wanted = constraints.tag[number]
        if wanted == tag:
            if not constraints.low[number] <= value <= constraints.high[number]:
                return False
        elif wanted != MANY or not _in_pieces(
            constraints, constraints.low[number], constraints.high[number], tag, value
        ):
            return False
    return True


@kernel
def _in_pieces(constraints: Constraints, first: float, last: float, tag: int, value: float) -> bool:
    for piece in range(np.int64(first), np.int64(last)):
        if (
            constraints.piece_tag[piece] == tag
            and constraints.piece_low[piece] <= value <= constraints.piece_high[piece]
        ):
            return True
    return False

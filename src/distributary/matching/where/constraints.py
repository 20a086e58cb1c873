"""Conditions as arrays: what the where index and the where verifier share.

A *conjunction* is a run of *constraints*, one for each attribute it names; a constraint is a union of
*pieces*; a piece is a tag (number, string, boolean, null, other) and a closed range of numbers. Everything
a `Domain` can say fits that form: an open bound is the next number further in, a text is its rank (see
`texts`), a boolean is 0 or 1, a missing value is 0 under its own tag. A constraint of one piece is
kept in place (its tag and `bounds`); one of several has the tag `MANY` and its pieces numbered from the one
bound to the other.

A batch holds numbers as floats, so a whole number beyond 2^53 is rounded there. Rounding keeps order, so
bounds below that are exact. A bound beyond is kept rounded, which lets pass all it should and perhaps
more; its conjunction is *uncertain*, as are those with a residue and filters that have no disjunctive
form: a pair that was found through an uncertain conjunction is decided by evaluating the filter itself,
whose text is kept for that, or, where that is all that is left to know, the residue alone: its conditions are
*predicates*, which are kept once however many conjunctions ask for them. Times are in microseconds, between
two of which a batch knows one place, the half (see `columns`): a bound that is no whole microsecond, or very
far away, is uncertain too.

An operation is an attribute whose column the batch computes for all rows. A segment has `MOST_OPERATIONS` of
them; constraints on others are left out, which makes their conjunctions uncertain.

Taking filters apart (`collecting`) is one pass over them, O(pieces); checking a conjunction is O(its pieces),
and stops at the first constraint that fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.filters.where.write import OPERATION_KEY
from distributary.kernel import (
    Bytes,
    Floats,
    Ints,
    empty_in_line,
    inlined,
    kernel,
    read_table,
    sealed,
    table_arrays,
)
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.columns import (
    NULL,
    OTHER,
    STRING,
    AttributeColumn,
)
from distributary.matching.index import AnyArrays, Arrays
from distributary.matching.where.texts import Texts, rank_texts

MANY = 255
TAG_BITS = 8
"""Bits of a constraint's kind that hold its tag."""
ROUNDED_FROM = 2.0**53
"""From here on a float may stand for more than one whole number."""

EXACT_MICROSECONDS = 2**52
"""Up to here a double holds halves of microseconds."""
MOST_OPERATIONS = 64
"""Operations that a segment has computed for every row of a batch."""

LOW_OPEN, HIGH_OPEN, LOW_FREE, HIGH_FREE = 1, 2, 4, 8
"""Flags of a bound as it is written: left out itself, or absent (texts only: a number has infinities)."""
UNCERTAIN, SHARED, PREDICATED = 1, 2, 4
"""Flags of a conjunction: its constraints do not decide; its filter has other conjunctions too; where they do
not decide, its predicates do."""


class Constraints(NamedTuple):
    """The constraints of every conjunction, as the kernels read them.

    What a check reads of one constraint lies together, for most of its time goes into fetching it.
    """

    start: Ints
    kind: Ints
    """The attribute, shifted by `TAG_BITS`, and the tag."""
    bounds: Floats
    """For each constraint, the lowest and the highest value that pass."""
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
    predicates: list[str]
    predicate_start: Ints
    """Conjunction c asks for the predicates `predicate_of[predicate_start[c]:predicate_start[c + 1]]`."""
    predicate_of: Ints

    def piece_attribute(self) -> Ints:
        """The attribute of each piece."""
        return np.repeat(self.attribute, np.diff(self.piece_start))

    def reordered(self, conjunctions: NDArray[Any], constraints: NDArray[Any]) -> FlatConditions:
        """The same with its conjunctions and constraints in another order, which must agree."""
        sizes = np.diff(self.start)[conjunctions]
        piece_sizes = np.diff(self.piece_start)[constraints]
        pieces = runs(self.piece_start[:-1][constraints], piece_sizes)
        asked = np.diff(self.predicate_start)[conjunctions]
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
            predicate_start=starts_of(asked),
            predicate_of=self.predicate_of[runs(self.predicate_start[:-1][conjunctions], asked)],
        )

    def arrays(self, filters: Arrays) -> Arrays:
        """What a segment keeps; `filters` are the texts of those that were taken apart, packed."""
        evaluated = np.unique(self.owner[(self.flags & UNCERTAIN) != 0])
        texts = frozen.pack_texts([frozen.unpack_text(filters, position) for position in evaluated.tolist()])
        many = np.diff(self.piece_start) > 1
        pieces = runs(self.piece_start[:-1][many], np.diff(self.piece_start)[many])
        kept = starts_of(np.diff(self.piece_start)[many])
        tag = self.tag[self.piece_start[:-1]]
        low = self.low[self.piece_start[:-1]]
        high = self.high[self.piece_start[:-1]]
        tag[many], low[many], high[many] = MANY, kept[:-1], kept[1:]
        bounds = empty_in_line(2 * len(low), np.float64)
        bounds[0::2], bounds[1::2] = low, high
        return {
            **frozen.under("attributes", frozen.pack_texts(self.names)),
            **table_arrays(self.texts, "text_"),
            **frozen.under("evaluated", texts),
            "evaluated": evaluated,
            **frozen.under("predicates", frozen.pack_texts(self.predicates)),
            "predicate_start": self.predicate_start,
            "predicate_of": self.predicate_of,
            "owner": self.owner,
            "flags": self.flags,
            "start": self.start,
            "kind": kind_of(self.attribute, tag),
            "bounds": bounds,
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


def runs(starts: NDArray[Any], sizes: NDArray[Any]) -> NDArray[Any]:
    """The numbers start, start + 1, ... of each run, one run after another; of 32 bits if all fit.

    >>> runs(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    total = int(sizes.sum())
    if not total:
        return np.empty(0, np.int32)
    greatest = max(total, int(starts.max()) + int(sizes.max()))
    width = np.int32 if greatest <= np.iinfo(np.int32).max else np.int64
    shift = np.cumsum(sizes, dtype=np.int64)
    shift -= sizes
    np.subtract(starts, shift, out=shift)
    numbers = np.repeat(shift.astype(width), sizes)
    numbers += np.arange(total, dtype=width)
    return numbers


@lru_cache(maxsize=64)
def _attribute_numbers(offsets: bytes, data: bytes) -> dict[str, int]:
    packed: Arrays = {"offsets": np.frombuffer(offsets, np.int64), "bytes": np.frombuffer(data, np.uint8)}
    return {name: number for number, name in enumerate(frozen.unpack_texts(packed))}


def columns_of(arrays: AnyArrays, batch: EventBatch) -> list[tuple[int, AttributeColumn]]:
    """The attributes that both the segment and the batch have: their numbers and columns."""
    numbers = _attribute_numbers(arrays["attributes.offsets"].tobytes(), arrays["attributes.bytes"].tobytes())
    names = [name for name in batch.attributes if name in numbers]
    names += [name for name in numbers if name.startswith(OPERATION_KEY)]
    present = [(numbers[name], batch.column(name)) for name in names]
    return [(number, column) for number, column in present if column is not None]


def encode(
    arrays: AnyArrays, columns: Sequence[tuple[int, AttributeColumn]], chosen: slice | Ints, count: int
) -> Rows:
    """The chosen rows of a batch (`count` of them) as the kernels read them."""
    texts = read_table(Texts, arrays, "text_")
    tags = np.zeros((count, len(columns) + 1), np.uint8)
    values = np.zeros((count, len(columns) + 1), np.float64)
    where = np.zeros(len(texts.first) - 1, np.int32)
    if columns:
        # All columns at once, which costs a few rows a fraction of what column by column would.
        shape = (len(columns), count)
        tags[:, 1:] = np.concatenate([column.tags[chosen] for _, column in columns]).reshape(shape).T
        values[:, 1:] = np.concatenate([column.numbers[chosen] for _, column in columns]).reshape(shape).T
        _clear_others(tags, values)
    for place, (attribute, column) in enumerate(columns, 1):
        where[attribute] = place
        if column.strings is not None:
            strings = column.strings
            rank_texts(
                texts,
                attribute,
                sealed(strings.data),
                sealed(strings.starts[chosen]),
                sealed(strings.ends[chosen]),
                sealed(column.tags[chosen]),
                values,
                place,
            )
    return Rows(sealed(tags), sealed(values), sealed(where))


@kernel
def _clear_others(tags: Bytes, values: Floats) -> None:
    """Give what is no number, boolean or time the number 0, and the negative zero the sign of the other."""
    for row in range(len(tags)):
        for place in range(tags.shape[1]):
            tag = tags[row, place]
            number = tag != OTHER and tag != NULL and tag != STRING
            values[row, place] = values[row, place] + 0.0 if number else 0.0


def kind_of(attribute: Ints, tag: Bytes) -> Ints:
    """The kinds of constraints on these attributes with these tags."""
    kind: Ints = attribute << np.int32(TAG_BITS) | tag.astype(np.int32)
    return kind


@inlined
def holds(constraints: Constraints, rows: Rows, first: Any, last: Any, row: Any) -> bool:
    """Whether the row passes the constraints numbered `first` to `last`."""
    return holds_alike(constraints, rows, first, first, last, row)


@inlined
def holds_alike(constraints: Constraints, rows: Rows, kinds: Any, first: Any, last: Any, row: Any) -> bool:
    """Whether the row passes the constraints numbered `first` to `last`, of the kinds of those from `kinds`.

    Unsigned numbers spare each access to an array the question whether its index is negative.
    """
    at_row, ahead = np.uint64(row), np.int64(kinds) - np.int64(first)
    for constraint in range(first, last):
        kind = constraints.kind[np.uint64(constraint + ahead)]
        column = np.uint64(rows.where[np.uint64(kind >> TAG_BITS)])
        tag, value = rows.tags[at_row, column], rows.values[at_row, column]
        low = constraints.bounds[np.uint64(2 * constraint)]
        high = constraints.bounds[np.uint64(2 * constraint + 1)]
        wanted = kind & MANY
        if wanted == tag:
            if not low <= value <= high:
                return False
        elif wanted != MANY or not _in_pieces(constraints, low, high, tag, value):
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

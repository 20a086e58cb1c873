"""Predicates: the leaves of conditions, each with its sign, as bits.

Whether a condition is true follows from which of its leaves are true and which are false, by AND and OR alone
(see `filters.where.normal_form`). So each leaf gives up to two *predicates*: it is true, it is false.

A predicate on one operand whose domain is exact is *ranged*. The bounds of an operand's ranged predicates cut
its values into buckets within which none of them changes, and for each bucket one bitset says which of them
hold: a value costs one search for its bucket, however many predicates there are. All other predicates are
*evaluated*, by columns (see `matching.truths`) or one by one.

Predicates are numbered: those of an operand have whole words of bits, then come the evaluated ones, then one
that never holds and one that always does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from distributary.filters.where.domain import Domain
from distributary.filters.where.expression import Leaf
from distributary.filters.where.normal_form import leaf_domain
from distributary.kernel import Bytes, Floats, Ints, Longs, Words, inlined, kernel, sealed_table
from distributary.matching.columns import (
    BOOLEAN,
    DURATION,
    INSTANT,
    NULL,
    NUMBER,
    OTHER,
    STRING,
    TIME,
    AttributeColumn,
    Strings,
)
from distributary.matching.where.collecting import flatten_domains
from distributary.matching.where.constraints import UNCERTAIN, FlatConditions, starts_of
from distributary.matching.where.texts import Texts, rank_text

LINES = 5
"""An operand's lines: numbers, texts, instants, times of day, durations; on each its values are ordered."""
SPECIAL = 4
"""Buckets of an operand behind those of its lines: false, true, null and all other values."""
WORD = 64


class SignedLeaf(NamedTuple):
    """A leaf, and whether it is to be true or to be false."""

    leaf: Leaf
    positive: bool


class PredicateTable(NamedTuple):
    """Where the values of each operand are cut, and which predicates hold between the cuts.

    Operand o has the lines `LINES * o` and following; line l is cut at `cuts[first[l]:first[l + 1]]`, and a
    value there lies in the bucket `base[l]` plus the number of cuts at or below it. The buckets from
    `special[o]` on are those of false, true, null and all other values. The bitset of bucket b has `width[o]`
    words, from `words[start[o] + b * width[o]]` on; they are the words from `place[o]` on of all predicates.
    """

    first: Ints
    cuts: Floats
    base: Ints
    special: Ints
    width: Ints
    start: Longs
    place: Ints
    words: Words


class Predicates:
    """The predicates of some signed leaves; `numbers` has the number of each, in their order."""

    def __init__(self, given: Sequence[SignedLeaf]) -> None:
        domains: list[tuple[str, Domain]] = []
        ranged: list[int] = []
        for at, (leaf, positive) in enumerate(given):
            domain = leaf_domain(leaf, positive)
            if domain is not None:
                ranged.append(at)
                domains.append(domain)
        flat = flatten_domains(domains)
        certain = flat.flags & UNCERTAIN == 0
        places = np.array(ranged, np.int64)
        owners = places[flat.owner[certain]]
        self.operands: list[str] = flat.names
        """The keys of the operands, in the order of the table."""
        self.table, self.texts = _table(flat), sealed_table(flat.texts)
        self.ranged_words = int(self.table.width.sum())
        evaluated = np.ones(len(given), np.bool_)
        evaluated[places] = False
        evaluated[places[flat.owner[~certain]]] = True
        self.evaluated = [given[at] for at in np.flatnonzero(evaluated).tolist()]
        """The predicates that are evaluated."""
        self.never = WORD * self.ranged_words + len(self.evaluated)
        self.always = self.never + 1
        self.count = self.always + 1
        numbers = np.full(len(given), self.never, np.int64)  # of those whose domain is empty
        numbers[owners] = _numbers(flat, self.table)[certain]
        numbers[evaluated] = WORD * self.ranged_words + np.arange(len(self.evaluated))
        self.numbers: list[int] = numbers.tolist()
        self.operand_of = np.full(self.count, -1, np.int32)
        """The operand of each predicate that is ranged, else -1."""
        self.operand_of[numbers[owners]] = flat.attribute[certain]

    def buckets(self, operand: int, column: AttributeColumn | None, rows: int) -> Ints:
        """The bucket of each row's value of an operand; None for a column that no event has."""
        if column is None:
            return np.full(rows, self.table.special[operand] + 2, np.int32)
        found = np.empty(rows, np.int32)
        strings = _NO_STRINGS if column.strings is None else column.strings
        _find_buckets(
            self.table, self.texts, operand, column.tags, column.numbers, sealed_table(strings), found
        )
        return found

    def memory(self) -> int:
        """The bytes of the tables."""
        return sum(array.nbytes for array in (*self.table, *self.texts))


_NO_STRINGS = Strings(
    np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_)
)
_LINE_OF = np.zeros(DURATION + 1, np.int64)
_LINE_OF[[NUMBER, STRING, INSTANT, TIME, DURATION]] = range(LINES)
_RANGED = np.zeros(DURATION + 1, np.bool_)
_RANGED[[NUMBER, STRING, INSTANT, TIME, DURATION]] = True


def _numbers(flat: FlatConditions, table: PredicateTable) -> Longs:
    """The number of each predicate: those of an operand one after another from its first word on."""
    order = np.argsort(flat.attribute, kind="stable")
    firsts = starts_of(np.bincount(flat.attribute, minlength=len(table.width)))
    numbers = np.empty(len(order), np.int64)
    rank = np.arange(len(order)) - firsts[flat.attribute[order]]
    numbers[order] = WORD * table.place[flat.attribute[order]].astype(np.int64) + rank
    return numbers


def _table(flat: FlatConditions) -> PredicateTable:
    """Cut each line at every bound, and set each predicate's bit in the buckets that it reaches into."""
    operands = len(flat.names)
    attribute = flat.piece_attribute()
    line = LINES * attribute.astype(np.int64) + _LINE_OF[flat.tag]
    on_line = _RANGED[flat.tag]
    cuts = [np.empty(0)] * (LINES * operands)
    for each in np.unique(line[on_line]).tolist():
        pieces = on_line & (line == each)
        low, high = flat.low[pieces], flat.high[pieces]
        with np.errstate(over="ignore"):  # what comes after the largest double is infinity
            bounds = np.concatenate([low, np.nextafter(high[high < np.inf], np.inf)])
        cuts[each] = np.unique(bounds[bounds > -np.inf])
    sizes = np.array([len(one) + 1 for one in cuts], np.int64).reshape(operands, LINES)
    ends = np.cumsum(sizes, axis=1)
    base = (ends - sizes).reshape(-1)
    special = ends[:, -1] if operands else np.empty(0, np.int64)
    width = -(-np.bincount(flat.attribute, minlength=operands) // WORD)
    spans = (special + SPECIAL) * width
    table = PredicateTable(
        starts_of(sizes.reshape(-1) - 1),
        np.concatenate([*cuts, np.empty(0)]),
        base.astype(np.int32),
        special.astype(np.int32),
        width.astype(np.int32),
        np.cumsum(spans) - spans,
        starts_of(width)[:-1].copy(),
        np.zeros(int(spans.sum()), np.uint64),
    )
    numbers = _numbers(flat, table)
    of_piece = np.repeat(np.arange(len(flat.attribute)), np.diff(flat.piece_start))
    _set_bits(table, numbers[of_piece], attribute, flat.tag, flat.low, flat.high)
    return sealed_table(table)


@kernel
def _set_bits(
    table: PredicateTable, number: Longs, operand: Ints, tag: Bytes, low: Floats, high: Floats
) -> None:
    """Set the bit of each piece's predicate in all buckets from that of its low to that of its high bound."""
    for piece in range(len(tag)):
        of = operand[piece]
        bit = number[piece] - WORD * table.place[of]
        mask = np.uint64(1) << np.uint64(bit & 63)
        first = bucket_of(table, of, tag[piece], low[piece])
        last = bucket_of(table, of, tag[piece], high[piece])
        for bucket in range(first, last + 1):
            table.words[table.start[of] + bucket * table.width[of] + (bit >> 6)] |= mask


@inlined
def bucket_of(table: PredicateTable, operand: Any, tag: Any, value: Any) -> Any:
    """The bucket of one value of an operand, for a text that of its rank."""
    special = np.int64(table.special[operand])
    if tag == BOOLEAN:
        return special + (1 if value != 0.0 else 0)
    if tag == NULL:
        return special + 2
    if tag == OTHER:
        return special + 3
    kind = 0
    if tag == STRING:
        kind = 1
    elif tag == INSTANT:
        kind = 2
    elif tag == TIME:
        kind = 3
    elif tag == DURATION:
        kind = 4
    line = np.uint64(LINES * operand + kind)
    start = np.uint64(table.first[line])
    left = np.uint64(table.first[line + np.uint64(1)]) - start
    low = start
    while left > np.uint64(0):
        # Arithmetic in place of a jump, which would be a coin toss.
        half = (left + np.uint64(1)) >> np.uint64(1)
        low += half * np.uint64(table.cuts[low + half - np.uint64(1)] <= value)
        left -= half
    return np.int64(table.base[line]) + np.int64(low - start)


@kernel
def _find_buckets(
    table: PredicateTable,
    texts: Texts,
    operand: int,
    tags: Bytes,
    numbers: Floats,
    strings: Strings,
    found: Ints,
) -> None:
    """Write the bucket of each row's value."""
    for row in range(len(tags)):
        value = numbers[row]
        if tags[row] == STRING:
            value = rank_text(texts, operand, strings.data, strings.starts[row], strings.ends[row])
        found[row] = bucket_of(table, operand, tags[row], value)

"""Formulas for one row at a time: from the values of an event, without columns.

The predicates of the formulas (see `predicates`) are grouped by the attributes that they look at. What the
values of these attributes make of a group's operands and evaluated predicates is worked out once, and kept
for the next event with the same values: streams repeat their carriers, places and hours. The kernel does the
rest for all operands of an event at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

import numpy as np

from distributary.filters.change import as_float
from distributary.filters.where.closures import OperandValue, leaf_function, operand_function
from distributary.filters.where.evaluate import NOW
from distributary.filters.where.expression import (
    Computation,
    Like,
    attributes_of,
    attributes_of_operand,
    calls,
)
from distributary.filters.where.parse import operand_of
from distributary.filters.where.values import plain
from distributary.kernel import Bytes, Floats, Ints, Words, kernel
from distributary.matching.columns import NULL, NUMBER, OTHER, STRING, is_hard, number_of_value, tag_of
from distributary.matching.where.formulas import ALL_OF, OTHERWISE, FormulaCodes, Formulas
from distributary.matching.where.predicates import WORD, PredicateTable, SignedLeaf, bucket_of
from distributary.matching.where.texts import Texts, rank_text

KEPT = 4096
"""Combinations of values that a group remembers; then all are forgotten."""
PLAIN_KINDS = frozenset((int, str, bool, float, date, datetime, type(None)))
"""Types of values that are remembered."""
FIELDS = 3
"""Numbers of an encoded operand: its number, the tag, and the double or the length of the text."""

Values = Callable[[str], Any]
"""From the name of an attribute to its value in a row; None where it has none."""


class EncodedGroup(NamedTuple):
    """What the values of a group's attributes come to."""

    operands: tuple[float, ...]
    texts: bytes
    true: tuple[int, ...]
    """The evaluated predicates that hold."""


class HardValueError(Exception):
    """A decimal that kernels cannot tell from some bounds."""


class PredicateGroup:
    """The operands and evaluated predicates that look at the same attributes."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.operands: list[tuple[int, OperandValue]] = []
        self.evaluated: list[tuple[int, Callable[[Mapping[str, Any]], bool]]] = []
        self.looks_at_clock = False
        self._kept: dict[Any, EncodedGroup] = {}

    def encoded(self, values: Values, now: Callable[[], Any]) -> EncodedGroup:
        """What this row's values come to; HardValueError when that is not for kernels."""
        found = [values(name) for name in self.names]
        kinds = tuple(map(type, found))
        # Zero has a sign, which decides how it is written; NaN equals nothing, not even itself.
        if self.looks_at_clock or not PLAIN_KINDS.issuperset(kinds) or 0.0 in found:
            return self._work_out(found, now)
        key = (*found, *kinds)
        encoded = self._kept.get(key)
        if encoded is None:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            encoded = self._kept[key] = self._work_out(found, now)
        return encoded

    def _work_out(self, found: list[Any], now: Callable[[], Any]) -> EncodedGroup:
        attributes = dict(zip(self.names, found, strict=True))
        if self.looks_at_clock:
            attributes[NOW] = now()
        fields: list[float] = []
        texts: list[bytes] = []
        for number, value_of in self.operands:
            _encode(number, value_of(attributes), fields, texts)
        true = [number for number, holds in self.evaluated if holds(attributes)]
        return EncodedGroup(tuple(fields), b"".join(texts), tuple(true))


def _encode(number: int, value: Any, fields: list[float], texts: list[bytes]) -> None:
    """Add what an operand's value is to kernels; null is left out."""
    kind = type(value)
    if kind is int:
        fields += (number, NUMBER, as_float(value))
        return
    value = plain(value)
    tag = tag_of(value)
    if tag == STRING:
        text = value.encode()
        texts.append(text)
        fields += (number, STRING, len(text))
    elif tag != NULL:
        if is_hard(value):
            raise HardValueError
        fields += (number, tag, 0.0 if tag == OTHER else number_of_value(value))


class RowFormulas:
    """Formulas that are asked about single rows."""

    def __init__(self, formulas: Formulas, positions: Ints) -> None:
        self._formulas = formulas
        self._positions = positions
        predicates = formulas.predicates
        groups: dict[tuple[str, ...], PredicateGroup] = {}
        for number, key in enumerate(predicates.operands):
            operand = operand_of(key)
            group = _group(groups, attributes_of_operand(operand))
            group.operands.append((number, operand_function(operand)))
            group.looks_at_clock |= isinstance(operand, Computation) and _looks_at_clock(operand)
        first = WORD * predicates.ranged_words
        for place, signed in enumerate(predicates.evaluated):
            group = _group(groups, attributes_of(signed.leaf))
            group.evaluated.append((first + place, _predicate(signed)))
            group.looks_at_clock |= calls(signed.leaf, "now")
        self._groups = list(groups.values())
        self._nothing = _bits_of_nothing(predicates.table, predicates.count, predicates.always)

    def holding(self, values: Values, now: Callable[[], Any]) -> Ints:
        """The positions of the formulas that hold for a row; HardValueError when that is not for kernels."""
        fields = array("d")
        texts: list[bytes] = []
        true: list[int] = []
        for group in self._groups:
            encoded = group.encoded(values, now)
            if encoded.operands:
                fields.extend(encoded.operands)
                if encoded.texts:
                    texts.append(encoded.texts)
            if encoded.true:
                true.extend(encoded.true)
        predicates = self._formulas.predicates
        found = np.empty(self._formulas.count, np.int32)
        count = _hold(
            predicates.table,
            predicates.texts,
            self._formulas.codes,
            self._formulas.deepest,
            np.frombuffer(fields) if fields else _NO_FIELDS,
            np.frombuffer(b"".join(texts), np.uint8),
            np.array(true, np.int32),
            self._nothing,
            self._positions,
            found,
        )
        return found[:count]


_NO_FIELDS: Floats = np.empty(0)
_NO_FIELDS.flags.writeable = False


def _group(groups: dict[tuple[str, ...], PredicateGroup], names: tuple[str, ...]) -> PredicateGroup:
    names = tuple(sorted(names))
    return groups.setdefault(names, PredicateGroup(names))


def _looks_at_clock(operand: Computation) -> bool:
    return calls(Like(operand, ""), "now")


def _predicate(signed: SignedLeaf) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a leaf is true, or is false, for some attributes."""
    truth, positive = leaf_function(signed.leaf), signed.positive
    return lambda attributes: truth(attributes) is positive


@kernel
def _bits_of_nothing(table: PredicateTable, predicates: int, always: int) -> Words:
    """The bits of the predicates that hold where an event has no attributes, before any is evaluated."""
    bits = np.zeros((predicates + WORD - 1) // WORD, np.uint64)
    for operand in range(len(table.width)):
        _put_words(table, operand, np.int64(table.special[operand]) + 2, bits)
    bits[always >> 6] |= np.uint64(1) << np.uint64(always & 63)
    return bits


@kernel
def _put_words(table: PredicateTable, operand: Any, bucket: Any, bits: Words) -> None:
    """Write the bitset of an operand's bucket."""
    width, place = table.width[operand], table.place[operand]
    start = table.start[operand] + bucket * width
    for word in range(width):
        bits[place + word] = table.words[start + word]


@kernel
def _hold(
    table: PredicateTable,
    texts: Texts,
    formulas: FormulaCodes,
    deepest: int,
    fields: Floats,
    data: Bytes,
    true: Ints,
    nothing: Words,
    positions: Ints,
    found: Ints,
) -> int:
    """Write the positions of the formulas that hold for an encoded row; how many."""
    bits = nothing.copy()
    start: Any = 0
    for at in range(0, len(fields), FIELDS):
        operand, tag, value = np.int64(fields[at]), np.int64(fields[at + 1]), fields[at + 2]
        if tag == STRING:
            end = start + np.int64(value)
            value = rank_text(texts, operand, data, start, end)
            start = end
        _put_words(table, operand, bucket_of(table, operand, tag, value), bits)
    for number in true:
        bits[number >> 6] |= np.uint64(1) << np.uint64(number & 63)
    waiting = np.empty(deepest, np.uint64)
    count: Any = 0
    for formula in range(len(formulas.first) - 1):
        depth, outcome = np.uint64(0), np.uint64(0)
        for at in range(formulas.first[formula], formulas.first[formula + 1]):
            code = formulas.codes[at]
            if code >= 0:
                waiting[depth] = outcome
                depth += np.uint64(1)
                place = np.uint64(code)
                outcome = bits[place >> np.uint64(6)] >> (place & np.uint64(63))
            elif code == OTHERWISE:
                outcome ^= np.uint64(1)  # the lowest bit alone counts
            else:
                depth -= np.uint64(1)
                outcome = outcome & waiting[depth] if code == ALL_OF else outcome | waiting[depth]
        found[count] = positions[formula]
        count += np.int64(outcome & np.uint64(1))
    return int(count)

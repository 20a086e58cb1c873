"""Groups: the predicates that look at the same attributes, and what the values of these make of them.

What some values come to is worked out once, and kept for the next event with the same values: streams repeat
their carriers, places and hours. It is encoded for the kernel of `rows`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from distributary.filters.change import as_float
from distributary.filters.where.closures import OperandValue, leaf_function, operand_function
from distributary.filters.where.evaluate import NOW
from distributary.filters.where.expression import Operand
from distributary.filters.where.values import Instant, plain
from distributary.matching.columns import NULL, NUMBER, OTHER, STRING, is_hard, number_of_value, tag_of
from distributary.matching.where.patterns import PatternSet
from distributary.matching.where.predicates import SignedLeaf

KEPT = 1 << 22
"""Bytes that a group remembers, about; then all is forgotten."""
ENTRY = 256
"""Bytes of what is remembered beside what is encoded, about."""
PLAIN_KINDS = frozenset((int, str, bool, float, Instant, type(None)))
"""Types of values that are remembered."""
FIELDS = 3
"""Numbers of an encoded operand: its number, the tag, and the double or the length of the text. Also those
that an encoded group begins with: how many operands and true predicates it has, and bytes of texts."""
EIGHT = 8
"""Bytes of a number; texts are filled up to a multiple of it."""

Predicate = Callable[[Mapping[str, Any]], bool]
"""Whether a leaf is as it should be, for some attributes."""


class HardValueError(Exception):
    """A decimal that kernels cannot tell from some bounds."""


class TextPatterns:
    """Predicates that are patterns on one operand, by their numbers."""

    def __init__(self, operand: Operand, predicates: Sequence[tuple[int, SignedLeaf]]) -> None:
        self._value_of = operand_function(operand)
        self._set = PatternSet([signed.leaf for _, signed in predicates])  # type: ignore[misc]
        self._one_by_one = [(number, predicate_function(signed)) for number, signed in predicates]
        self._numbers = [(number, signed.positive) for number, signed in predicates]
        self._unmatched = {number for number, positive in self._numbers if not positive}
        """Those that are true of a text that matches no pattern."""

    def true(self, attributes: Mapping[str, Any]) -> Iterable[int]:
        """The predicates that hold."""
        value = self._value_of(attributes)
        if value is None:
            return ()
        found = self._set.find(value) if type(value) is str else None
        if found is None:
            return [number for number, holds in self._one_by_one if holds(attributes)]
        # A predicate is of one sign: to match it makes it true, or takes it from those that are.
        return self._unmatched.symmetric_difference([self._numbers[place][0] for place in found])


class PredicateGroup:
    """The operands and evaluated predicates that look at the same attributes."""

    def __init__(self, names: Sequence[str], places: Sequence[int], looks_at_clock: bool) -> None:
        self._names = names
        self._places = places
        """Where the values of these attributes are among those of a row."""
        self._looks_at_clock = looks_at_clock
        self.chosen: Callable[[Sequence[Any]], Any] = itemgetter(*places) if places else lambda given: ()
        """From what a row has of all attributes to what it has of these."""
        self.kept: dict[Any, bytes] = {}
        """What was worked out, by the values of the attributes and their types."""
        self._size = 0
        """Bytes that are remembered, about."""
        self.operands: list[tuple[int, OperandValue]] = []
        self.patterns: list[TextPatterns] = []
        self.evaluated: list[tuple[int, Predicate]] = []

    def encoded(self, values: Sequence[Any], kinds: Sequence[type], now: Callable[[], Any]) -> bytes:
        """What a row's values, which are of these types, come to; HardValueError when not for kernels.

        For who finds nothing in `kept`.
        """
        encoded = self._work_out(values, now)
        if self._is_plain(values, kinds):
            self._keep((self.chosen(values), self.chosen(kinds)), encoded)
        return encoded

    def encoded_each(
        self, rows: Sequence[tuple[Sequence[Any], Sequence[type]]], now: Callable[[int], Any]
    ) -> list[bytes]:
        """What the values of each row, with their types, come to; `now` says when a row arrived."""
        kept, chosen = self.kept, self.chosen
        try:  # by types too, for Python takes 1, 1.0 and true for equal
            known = [kept.get((chosen(values), chosen(kinds))) for values, kinds in rows]
        except TypeError:  # a value that has no hash
            known = [None] * len(rows)
        return [
            self.encoded(*rows[row], partial(now, row)) if encoded is None else encoded
            for row, encoded in enumerate(known)
        ]

    def _keep(self, key: Any, encoded: bytes) -> None:
        self._size += len(encoded) + ENTRY
        if self._size > KEPT:
            self.kept.clear()
            self._size = len(encoded) + ENTRY
        self.kept[key] = encoded

    def _is_plain(self, values: Sequence[Any], kinds: Sequence[type]) -> bool:
        """Whether the values say all that there is to know: not the clock, nor the sign of a zero."""
        if self._looks_at_clock:
            return False
        for place in self._places:
            value, kind = values[place], kinds[place]
            # NaN equals nothing, not even itself.
            if kind not in PLAIN_KINDS or (kind is float and (value == 0.0 or value != value)):
                return False
        return True

    def _work_out(self, values: Sequence[Any], now: Callable[[], Any]) -> bytes:
        attributes = {name: values[place] for name, place in zip(self._names, self._places, strict=True)}
        if self._looks_at_clock:
            attributes[NOW] = now()
        fields: list[float] = []
        texts: list[bytes] = []
        for number, value_of in self.operands:
            _encode(number, value_of(attributes), fields, texts)
        true = [number for number, holds in self.evaluated if holds(attributes)]
        for patterns in self.patterns:
            true += patterns.true(attributes)
        text = b"".join(texts)
        numbers = array("d", (len(fields) // FIELDS, len(true), len(text), *fields, *true))
        return numbers.tobytes() + text + bytes(-len(text) % EIGHT)


def encoded_groups(
    groups: Sequence[PredicateGroup], values: Sequence[Any], kinds: Sequence[type], now: Callable[[], Any]
) -> list[bytes]:
    """What a row's values, which are of these types, come to in each group."""
    try:
        found = [group.kept.get((group.chosen(values), group.chosen(kinds))) for group in groups]
    except TypeError:  # a value that has no hash
        found = [None] * len(groups)
    return [
        group.encoded(values, kinds, now) if encoded is None else encoded
        for group, encoded in zip(groups, found, strict=True)
    ]


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


def predicate_function(signed: SignedLeaf) -> Predicate:
    """Whether a leaf is true, or is false, for some attributes."""
    truth, positive = leaf_function(signed.leaf), signed.positive
    return lambda attributes: truth(attributes) is positive

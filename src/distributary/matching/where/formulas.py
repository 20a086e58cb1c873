"""Conditions as formulas over bits: all rows of a batch against many conditions at once.

A formula is a condition with its negations pushed to the leaves: AND and OR over predicates (see
`predicates`). 64 rows are evaluated at a time. For each row the bits of all ranged predicates are looked up;
turned around, they are words with a bit for each row, and AND and OR of such words decide a condition for all
64 rows. The outcome is turned around again, and read row by row.

Cost of a row: a search for each operand, and some bit operations for each 64 predicates and each 64th of a
formula: fractions of a nanosecond for a condition that does not hold, and a nanosecond or two for one that
does. What is not sure in some row of a batch (see `matching.truths`) is left to evaluation, for that batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from distributary.filters.where.expression import (
    And,
    Computation,
    Expression,
    IsNull,
    IsTruth,
    Not,
    Or,
    TruthConstant,
)
from distributary.filters.where.write import write
from distributary.kernel import Flags, Ints, Words, inlined, kernel, sealed
from distributary.matching.batch import EventBatch
from distributary.matching.index import Pairs
from distributary.matching.memory import count_bits, lowest_bit
from distributary.matching.truths import FALSE, TRUE, leaf_truths
from distributary.matching.where.predicates import WORD, Predicates, PredicateTable, SignedLeaf

ALL_OF, ANY_OF, OTHERWISE = -1, -2, -3
"""What stands in a formula for AND and OR of the two outcomes before it, and for where the one before it does
not hold; a number is a predicate's."""
ALL_ROWS = np.uint64(0xFFFFFFFFFFFFFFFF)


class FormulaCodes(NamedTuple):
    """Formula f is `codes[first[f]:first[f + 1]]`, each operation behind what it is applied to."""

    first: Ints
    codes: Ints


class Formulas:
    """The formulas of some conditions, by their place among them."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        leaves: dict[tuple[str, bool], int] = {}
        given: list[SignedLeaf] = []
        first, codes = [0], list[int]()
        for expression in expressions:
            _translate(expression, True, leaves, given, codes)
            first.append(len(codes))
        self.leaves = [signed.leaf for signed in given]
        """The leaves of all conditions."""
        self.predicates = Predicates(given)
        numbers = np.array(
            [*self.predicates.numbers, self.predicates.never, self.predicates.always], np.int64
        )
        raw = np.array(codes, np.int64)
        is_predicate = raw >= 0
        raw[is_predicate] = numbers[
            np.where(raw >= _CONSTANT, raw - _CONSTANT + len(given), raw)[is_predicate]
        ]
        self.codes = FormulaCodes(sealed(np.array(first, np.int32)), sealed(raw.astype(np.int32)))
        self.deepest = _deepest(first, codes)
        self.count = len(expressions)

    def hold(self, batch: EventBatch) -> tuple[Words, Ints]:
        """For each 64 rows and formula the bits of the rows for which it holds; the formulas left open.

        The bits of formulas that are open mean nothing.
        """
        predicates, blocks = self.predicates, -(-batch.rows // WORD)
        buckets = np.empty((len(predicates.operands), batch.rows), np.int32)
        is_open = np.zeros(predicates.count, np.bool_)
        for operand, key in enumerate(predicates.operands):
            column = batch.column(key)
            buckets[operand] = predicates.buckets(operand, column, batch.rows)
            if column is not None and column.hard is not None:
                is_open |= predicates.operand_of == operand
        evaluated = np.zeros((len(predicates.evaluated), blocks), np.uint64)
        for place, (leaf, positive) in enumerate(predicates.evaluated):
            known = leaf_truths(batch, leaf)
            if known.open is not None:
                is_open[WORD * predicates.ranged_words + place] = True
            else:
                evaluated[place] = _packed(known.truths == (TRUE if positive else FALSE), blocks)
        held = np.zeros((blocks, WORD * -(-self.count // WORD)), np.uint64)
        _evaluate(
            predicates.table, buckets, evaluated, self.codes, predicates.count, self.deepest, batch.rows, held
        )
        left = _open_formulas(self.codes, is_open) if is_open.any() else np.empty(0, np.int32)
        return held, left

    def pairs(self, batch: EventBatch, positions: Ints) -> tuple[Pairs, Ints]:
        """The pairs of a row and a formula that holds, called by its position, by row; those left open."""
        held, left = self.hold(batch)
        held[:, left] = 0
        return pairs_of(held, positions), positions[left]

    def memory(self) -> int:
        """The bytes of the tables."""
        return self.predicates.memory() + sum(array.nbytes for array in self.codes)


def pairs_of(held: Words, positions: Ints) -> Pairs:
    """The pairs of a row and a formula that holds, called by its position; `held` is turned around."""
    total = _count(held)
    # Made here, because NumPy asks for large pages, which are much faster to get.
    found = Pairs(np.empty(total, np.int32), np.empty(total, np.int32))
    _read_pairs(held, sealed(positions), *found)
    return found


_CONSTANT = 1 << 30
"""Before predicates are numbered: false, and true behind it."""


def _translate(
    expression: Expression,
    positive: bool,
    leaves: dict[tuple[str, bool], int],
    given: list[SignedLeaf],
    codes: list[int],
) -> None:
    """Append the codes of an expression that is to be true, or to be false; leaves are numbered as met."""
    match expression:
        case Not(part):
            _translate(part, not positive, leaves, given, codes)
        case IsTruth(Computation("condition", (part,)), truth):
            _translate(part, truth, leaves, given, codes)
            codes.extend([] if positive else [OTHERWISE])
        case IsNull(Computation("condition", (part,))):
            _translate(part, True, leaves, given, codes)
            _translate(part, False, leaves, given, codes)
            codes.extend([ANY_OF, OTHERWISE] if positive else [ANY_OF])
        case And(parts) | Or(parts):
            operation = ALL_OF if isinstance(expression, And) == positive else ANY_OF
            for number, part in enumerate(parts):
                _translate(part, positive, leaves, given, codes)
                if number:
                    codes.append(operation)
        case TruthConstant(truth):
            codes.append(_CONSTANT + (truth is positive))
        case _:
            key = write(expression), positive  # 1 and true are equal to Python, but not written alike
            number = leaves.setdefault(key, len(given))
            if number == len(given):
                given.append(SignedLeaf(expression, positive))
            codes.append(number)


def _deepest(first: list[int], codes: list[int]) -> int:
    """How many outcomes wait at most while a formula is evaluated."""
    deepest = 0
    for start, end in pairwise(first):
        depth = 0
        for code in codes[start:end]:
            depth += 1 if code >= 0 else 0 if code == OTHERWISE else -1
            deepest = max(deepest, depth)
    return deepest + 1


def _packed(flags: Flags, blocks: int) -> Words:
    """Flags as words of bits, the first flag lowest."""
    packed = np.zeros(8 * blocks, np.uint8)
    some = np.packbits(flags, bitorder="little")
    packed[: len(some)] = some
    return packed.view(np.uint64)


@kernel
def _open_formulas(formulas: FormulaCodes, is_open: Flags) -> Ints:
    """The formulas with a predicate that is open."""
    found = np.zeros(len(formulas.first) - 1, np.bool_)
    for formula in range(len(found)):
        for at in range(formulas.first[formula], formulas.first[formula + 1]):
            code = formulas.codes[at]
            if code >= 0 and is_open[code]:
                found[formula] = True
    return np.flatnonzero(found).astype(np.int32)


@kernel
def _evaluate(
    table: PredicateTable,
    buckets: Ints,
    evaluated: Words,
    formulas: FormulaCodes,
    predicates: int,
    deepest: int,
    rows: int,
    held: Words,
) -> None:
    """Write for each 64 rows and formula the bits of the rows for which it holds."""
    bits = np.zeros(predicates, np.uint64)
    ranged = predicates - 2 - len(evaluated)
    waiting = np.empty(deepest, np.uint64)
    for block in range(held.shape[0]):
        base = WORD * block
        count = min(WORD, rows - base)
        bits[:ranged] = 0
        for operand in range(len(table.width)):
            width, start = np.uint64(table.width[operand]), np.uint64(table.start[operand])
            place = np.uint64(WORD * table.place[operand])
            for row in range(count):
                source = start + np.uint64(buckets[operand, base + row]) * width
                for word in range(width):
                    at = np.uint64(word)
                    bits[place + np.uint64(WORD) * at + np.uint64(row)] = table.words[source + at]
        for word in range(ranged // WORD):
            turn_around(bits, WORD * word)
        for place_ in range(len(evaluated)):
            bits[ranged + place_] = evaluated[place_, block]
        bits[predicates - 1] = ALL_ROWS >> np.uint64(WORD - count)
        for formula in range(len(formulas.first) - 1):
            held[block, formula] = outcome_of(formulas, formula, bits, waiting)


@inlined
def outcome_of(formulas: FormulaCodes, formula: Any, bits: Words, waiting: Words) -> Any:
    """The bits of the rows for which a formula holds, from those of the predicates."""
    depth = np.uint64(0)
    outcome = np.uint64(0)
    for at in range(formulas.first[formula], formulas.first[formula + 1]):
        code = formulas.codes[at]
        if code >= 0:
            waiting[depth] = outcome
            depth += np.uint64(1)
            outcome = bits[np.uint64(code)]
        elif code == OTHERWISE:
            outcome ^= bits[len(bits) - 1]  # the predicate that always holds
        else:
            depth -= np.uint64(1)
            outcome = outcome & waiting[depth] if code == ALL_OF else outcome | waiting[depth]
    return outcome


@inlined
def turn_around(bits: Words, start: Any) -> None:
    """Exchange rows and columns of 64 words from there on: bit i of word j becomes bit j of word i."""
    distance, mask = 32, np.uint64(0x00000000FFFFFFFF)
    while distance > 0:
        shift = np.uint64(distance)
        for group in range(start, start + WORD, 2 * distance):
            for one in range(group, group + distance):
                low, high = np.uint64(one), np.uint64(one + distance)
                swapped = ((bits[low] >> shift) ^ bits[high]) & mask
                bits[high] ^= swapped
                bits[low] ^= swapped << shift
        distance >>= 1
        mask ^= mask << np.uint64(distance)


@kernel
def _count(held: Words) -> int:
    total = np.uint64(0)
    for word in held.reshape(-1):
        total += count_bits(word)
    return int(np.int64(total))


@kernel
def _read_pairs(held: Words, positions: Ints, out_rows: Ints, out_positions: Ints) -> None:
    """Write the pairs of row and position, by row; `held` is turned around."""
    filled = np.uint64(0)
    words = held.shape[1] // WORD
    for block in range(held.shape[0]):
        of_block = held[block]
        for word in range(words):
            turn_around(of_block, WORD * word)
        for row in range(WORD):
            for word in range(words):
                left, base = of_block[WORD * word + row], np.uint64(WORD * word)
                while left != 0:
                    out_rows[filled] = WORD * block + row
                    out_positions[filled] = positions[base + lowest_bit(left)]
                    filled += np.uint64(1)
                    left &= left - np.uint64(1)

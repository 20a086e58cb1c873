"""Formulas for one row, or for a few: from the values of an event, without a column for each operation.

Arithmetic on attributes that are numbers, and comparisons of such, are a program that the kernel runs (see
`programs`). All other operands and evaluated predicates (see `predicates`) are grouped by the attributes that
they look at, and what the values of these make of a group is remembered (see `groups`). The kernel does the
rest, for all operands at once: it sets the bits of the predicates that hold, and decides the formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from distributary.filters.where.closures import operand_function
from distributary.filters.where.expression import (
    Operand,
    attributes_of,
    attributes_of_operand,
    calls,
    operands_of,
)
from distributary.filters.where.lookup import operand_looks_at_clock
from distributary.filters.where.parse import operand_of
from distributary.filters.where.values import Instant, plain
from distributary.filters.where.write import operand_key
from distributary.kernel import Bytes, Floats, Ints, Longs, Words, inlined, kernel, sealed
from distributary.matching.batch import EventBatch
from distributary.matching.bound import BoundArrays, array_at
from distributary.matching.columns import INTEGER, NO_FORM, NULL, NUMBER, STRING, AttributeColumn
from distributary.matching.index import Pairs
from distributary.matching.where.formulas import (
    ALL_OF,
    OTHERWISE,
    FormulaCodes,
    Formulas,
    outcome_of,
    pairs_of,
    turn_around,
)
from distributary.matching.where.groups import (
    EIGHT,
    FIELDS,
    PLAIN_KINDS,
    PredicateGroup,
    TextPatterns,
    encoded_groups,
    predicate_function,
)
from distributary.matching.where.patterns import is_pattern
from distributary.matching.where.predicates import WORD, PredicateTable, SignedLeaf, bucket_of
from distributary.matching.where.programs import (
    COMPARISON,
    KINDS,
    NOTHING,
    OPEN,
    OUTCOME,
    STEP,
    Program,
    ProgramWriter,
    compared,
    numeric_attributes,
    run,
)
from distributary.matching.where.texts import Texts, rank_text

TOGETHER = 64
"""Patterns that are looked for in one pass: more would go through too many states."""

Values = Callable[[Sequence[str]], list[Any]]
"""From the names of attributes to their values in a row; None where it has none."""


class RowFormulas:
    """Formulas that are asked about single rows."""

    def __init__(self, formulas: Formulas, positions: Ints) -> None:
        self._count = formulas.count
        self._positions = positions
        predicates = formulas.predicates
        operands = [(number, operand_of(key)) for number, key in enumerate(predicates.operands)]
        first = WORD * predicates.ranged_words
        evaluated = [(first + place, signed) for place, signed in enumerate(predicates.evaluated)]
        writer = ProgramWriter(numeric_attributes(formulas.leaves))
        computed = {number for number, operand in operands if writer.takes_operand(number, operand)}
        paired = {number for number, signed in evaluated if writer.takes_comparison(number, *signed)}
        self._program_size = len(writer.names)
        self._names = writer.names
        """The attributes that are looked at, those of the program first."""
        self._integers = np.full(self._program_size, INTEGER, np.uint8)
        self._groups = self._grouped(
            [one for one in operands if one[0] not in computed],
            [one for one in evaluated if one[0] not in paired],
        )
        self._without_program = self._grouped(
            [one for one in operands if one[0] in computed], [one for one in evaluated if one[0] in paired]
        )
        """What the program does, for rows that it is not for."""
        self._bound = _bound(formulas, writer.program(), positions)

    def holding(self, values: Values, now: Callable[[], Any]) -> Ints:
        """The positions of the formulas that hold for a row; HardValueError when that is not for kernels."""
        given = values(self._names)
        kinds = list(map(type, given))
        if not PLAIN_KINDS.issuperset(kinds):
            given = [
                plain(value) if kind not in PLAIN_KINDS else value
                for value, kind in zip(given, kinds, strict=True)
            ]
            kinds = list(map(type, given))
        groups = encoded_groups(self._groups, given, kinds, now)
        found = np.empty(self._count, np.int32)
        count = _UNDECIDED
        numbers = self._numbers(given[: self._program_size], kinds[: self._program_size])
        if numbers is not None:
            count = _hold(self._bound.words, *numbers, np.frombuffer(b"".join(groups)), found)
        if count == _UNDECIDED:
            groups += encoded_groups(self._without_program, given, kinds, now)
            count = _hold(self._bound.words, *_NO_NUMBERS, np.frombuffer(b"".join(groups)), found)
        return found[:count]

    def pairs(self, batch: EventBatch) -> Pairs:
        """The pairs of a row and a formula that holds, called by its position; as `holding` says of a row.

        For some dozen rows: 64 are decided at a time, but the values of each row are looked at one by one.
        """

        def now(row: int) -> Instant:
            return Instant(batch.arrival(row))

        columns = [batch.column(name) for name in self._names]
        given = list(zip(*(_plain_values(column, batch.rows) for column in columns), strict=True))
        if not given:
            given = [()] * batch.rows
        typed = [(values, list(map(type, values))) for values in given]
        groups = [group.encoded_each(typed, now) for group in self._groups]
        encoded = list(map(b"".join, zip(*groups, strict=True))) if groups else [b""] * batch.rows
        starts = np.zeros(batch.rows + 1, np.int64)
        np.cumsum([len(each) // EIGHT for each in encoded], out=starts[1:])
        held = np.zeros((-(-batch.rows // WORD), WORD * -(-self._count // WORD)), np.uint64)
        numbers = _program_numbers(columns[: self._program_size], batch.rows)
        left = _hold_each(self._bound.words, *numbers, np.frombuffer(b"".join(encoded)), starts, held)
        found = [pairs_of(held, self._positions)]
        for row in left.tolist():
            slots = self.holding(partial(_same, list(given[row])), partial(now, row))
            found.append(Pairs(np.full(len(slots), row, np.int32), slots))
        return Pairs.joined(found)

    def _numbers(self, values: list[Any], kinds: list[type]) -> tuple[Bytes, Floats] | None:
        """The kinds and values of the attributes that the program reads; None when it is not for them."""
        try:
            if all(kind is int for kind in kinds):
                return self._integers, np.array(values, np.float64)
            registers = np.array([KINDS[kind] for kind in kinds], np.uint8)
            return registers, np.array([0.0 if value is None else value for value in values], np.float64)
        except (KeyError, OverflowError):
            return None

    def _grouped(
        self, operands: Iterable[tuple[int, Operand]], evaluated: Iterable[tuple[int, SignedLeaf]]
    ) -> list[PredicateGroup]:
        """The groups of these operands and predicates; names that are new are added to all."""
        groups: dict[tuple[tuple[str, ...], bool], PredicateGroup] = {}

        def group(names: tuple[str, ...], looks_at_clock: bool) -> PredicateGroup:
            names = tuple(sorted(names))
            found = groups.get((names, looks_at_clock))
            if found is None:
                self._names += [name for name in names if name not in self._names]
                places = [self._names.index(name) for name in names]
                found = groups[names, looks_at_clock] = PredicateGroup(names, places, looks_at_clock)
            return found

        for number, operand in operands:
            group(attributes_of_operand(operand), operand_looks_at_clock(operand)).operands.append(
                (number, operand_function(operand))
            )
        patterns: dict[str, list[tuple[int, SignedLeaf]]] = {}
        for number, signed in evaluated:
            if is_pattern(signed.leaf):
                patterns.setdefault(operand_key(operands_of(signed.leaf)[0]), []).append((number, signed))
                continue
            group(attributes_of(signed.leaf), calls(signed.leaf, "now")).evaluated.append(
                (number, predicate_function(signed))
            )
        for predicates in patterns.values():
            leaf = predicates[0][1].leaf
            for first in range(0, len(predicates), TOGETHER):
                some = TextPatterns(operands_of(leaf)[0], predicates[first : first + TOGETHER])
                group(attributes_of(leaf), calls(leaf, "now")).patterns.append(some)
        return list(groups.values())


def _plain_values(column: AttributeColumn | None, rows: int) -> list[Any]:
    """The values of all rows of a column, as they are remembered."""
    if column is None:
        return [None] * rows
    values = column.values()
    return values if PLAIN_KINDS.issuperset(map(type, values)) else list(map(plain, values))


def _same(values: list[Any], names: Sequence[str]) -> list[Any]:
    """The values that are known already."""
    return values


def _program_numbers(columns: Sequence[AttributeColumn | None], rows: int) -> tuple[Bytes, Floats]:
    """The kinds and values of the attributes that the program reads, for all rows."""
    kinds, numbers = np.zeros((rows, len(columns)), np.uint8), np.zeros((rows, len(columns)))
    for place, column in enumerate(columns):
        if column is not None:
            forms = np.zeros(rows, np.uint8) if column.forms is None else column.forms
            _fill(sealed(column.tags), sealed(forms), sealed(column.numbers), place, kinds, numbers)
    return kinds, numbers


@kernel
def _fill(tags: Bytes, forms: Bytes, given: Floats, place: int, kinds: Bytes, numbers: Floats) -> None:
    """Write the kinds and numbers of a column into that place of each row."""
    for row in range(len(tags)):
        if tags[row] == NUMBER and forms[row] != NO_FORM:
            kinds[row, place], numbers[row, place] = forms[row], given[row]
        elif tags[row] != NULL:
            kinds[row, place] = OPEN


_UNDECIDED = -1
"""Said of a row that has something open."""
_NO_NUMBERS: tuple[Bytes, Floats] = np.empty(0, np.uint8), np.empty(0)


class BoundFormulas(NamedTuple):
    """What the kernel reads of formulas and their predicates."""

    table: PredicateTable
    texts: Texts
    formulas: FormulaCodes
    program: Program
    nothing: Words
    """The bits of the predicates that hold where an event has no attributes, before any is evaluated."""
    positions: Ints
    sizes: Longs
    """How many outcomes wait at most while a formula is evaluated, and how many predicates there are."""


_TABLE, _TEXTS, _CODES, _PROGRAM = 0, 8, 14, 16
_REST = 21
"""The numbers of the first arrays of each table, as they are bound."""


def _bound(formulas: Formulas, program: Program, positions: Ints) -> BoundArrays:
    predicates = formulas.predicates
    nothing = _bits_of_nothing(predicates.table, predicates.count, predicates.always)
    tables = (*predicates.table, *predicates.texts, *formulas.codes, *program)
    arrays = (
        *tables,
        nothing,
        np.ascontiguousarray(positions),
        np.array([formulas.deepest, predicates.count]),
    )
    return BoundArrays(zip(arrays, _TYPES, strict=True))


_TYPES = (
    *(np.int32, np.float64, np.int32, np.int32, np.int32, np.int64, np.int32, np.uint64),
    *(np.int32, np.int64, np.uint8, np.int32, np.int32, np.bool_),
    *(np.int32, np.int32),
    *(np.uint8, np.float64, np.int32, np.int32, np.int32),
    *(np.uint64, np.int32, np.int64),
)


@inlined
def _formulas_at(words: Longs) -> BoundFormulas:
    """What `_bound` has bound."""
    return BoundFormulas(
        PredicateTable(
            array_at(words, _TABLE, np.int32),
            array_at(words, _TABLE + 1, np.float64),
            array_at(words, _TABLE + 2, np.int32),
            array_at(words, _TABLE + 3, np.int32),
            array_at(words, _TABLE + 4, np.int32),
            array_at(words, _TABLE + 5, np.int64),
            array_at(words, _TABLE + 6, np.int32),
            array_at(words, _TABLE + 7, np.uint64),
        ),
        Texts(
            array_at(words, _TEXTS, np.int32),
            array_at(words, _TEXTS + 1, np.int64),
            array_at(words, _TEXTS + 2, np.uint8),
            array_at(words, _TEXTS + 3, np.int32),
            array_at(words, _TEXTS + 4, np.int32),
            array_at(words, _TEXTS + 5, np.bool_),
        ),
        FormulaCodes(array_at(words, _CODES, np.int32), array_at(words, _CODES + 1, np.int32)),
        Program(
            array_at(words, _PROGRAM, np.uint8),
            array_at(words, _PROGRAM + 1, np.float64),
            array_at(words, _PROGRAM + 2, np.int32),
            array_at(words, _PROGRAM + 3, np.int32),
            array_at(words, _PROGRAM + 4, np.int32),
        ),
        array_at(words, _REST, np.uint64),
        array_at(words, _REST + 1, np.int32),
        array_at(words, _REST + 2, np.int64),
    )


@kernel
def _bits_of_nothing(table: PredicateTable, predicates: int, always: int) -> Words:
    """The bits of the predicates that hold where an event has no attributes, before any is evaluated."""
    bits = np.zeros((predicates + WORD - 1) // WORD, np.uint64)
    for operand in range(len(table.width)):
        _put_words(table, operand, np.int64(table.special[operand]) + 2, bits)
    bits[always >> 6] |= np.uint64(1) << np.uint64(always & 63)
    return bits


@inlined
def _put_words(table: PredicateTable, operand: Any, bucket: Any, bits: Words) -> None:
    """Write the bitset of an operand's bucket."""
    width, place = table.width[operand], table.place[operand]
    start = table.start[operand] + bucket * width
    for word in range(width):
        bits[place + word] = table.words[start + word]


@inlined
def _put_bit(number: Any, bits: Words) -> None:
    """Say that a predicate holds."""
    bits[number >> 6] |= np.uint64(1) << np.uint64(number & 63)


@kernel
def _hold(words: Longs, kinds: Bytes, numbers: Floats, groups: Floats, found: Ints) -> int:
    """Write the positions of the formulas that hold for an encoded row; how many, or _UNDECIDED."""
    bound = _formulas_at(words)
    bits = bound.nothing.copy()
    if len(kinds) and not _put_computed(bound.table, bound.program, kinds, numbers, bits):
        return _UNDECIDED
    _put_groups(bound.table, bound.texts, groups, bits)
    formulas = bound.formulas
    waiting = np.empty(bound.sizes[0], np.uint64)
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
        found[count] = bound.positions[formula]
        count += np.int64(outcome & np.uint64(1))
    return int(count)


@kernel
def _hold_each(
    words: Longs, kinds: Bytes, numbers: Floats, groups: Floats, starts: Longs, held: Words
) -> Ints:
    """Write for each 64 encoded rows and formula the bits of the rows for which it holds.

    Returns the rows that have something open, for which no bit is set.
    """
    bound = _formulas_at(words)
    formulas, rows, size = bound.formulas, len(kinds), len(bound.nothing)
    bits, of_row = np.empty(WORD * size, np.uint64), np.empty(size, np.uint64)
    waiting = np.empty(bound.sizes[0], np.uint64)
    is_open = np.zeros(rows, np.bool_)
    for block in range(held.shape[0]):
        bits[:] = 0
        for place in range(min(WORD, rows - WORD * block)):
            row = WORD * block + place
            of_row[:] = bound.nothing
            if not _put_computed(bound.table, bound.program, kinds[row], numbers[row], of_row):
                is_open[row] = True
                continue
            _put_groups(bound.table, bound.texts, groups[starts[row] : starts[row + 1]], of_row)
            for word in range(size):
                bits[WORD * word + place] = of_row[word]
        for word in range(size):
            turn_around(bits, WORD * word)
        predicates = bits[: bound.sizes[1]]  # the last of them always holds
        for formula in range(len(formulas.first) - 1):
            held[block, formula] = outcome_of(formulas, formula, predicates, waiting)
    return np.flatnonzero(is_open).astype(np.int32)


@inlined
def _put_computed(
    table: PredicateTable, program: Program, given: Bytes, numbers: Floats, bits: Words
) -> bool:
    """Run the program and write the bits of what it computes; False when something is open."""
    size = len(given) + len(program.kinds) + len(program.steps) // STEP
    kinds, values = np.empty(size, np.uint8), np.empty(size)
    kinds[: len(given)] = given
    values[: len(given)] = numbers
    run(program, kinds, values, len(given))
    for at in range(0, len(program.operands), OUTCOME):
        operand, register = program.operands[at], program.operands[at + 1]
        if kinds[register] == OPEN:
            return False
        if kinds[register] != NOTHING:
            _put_words(table, operand, bucket_of(table, operand, NUMBER, values[register]), bits)
    for at in range(0, len(program.comparisons), COMPARISON):
        left, right = program.comparisons[at + 2], program.comparisons[at + 3]
        if kinds[left] == OPEN or kinds[right] == OPEN:
            return False
        if kinds[left] != NOTHING and kinds[right] != NOTHING:
            holds = compared(program.comparisons[at + 1], values[left], values[right])
            if holds == (program.comparisons[at + 4] != 0):
                _put_bit(program.comparisons[at], bits)
    return True


@inlined
def _put_groups(table: PredicateTable, texts: Texts, groups: Floats, bits: Words) -> None:
    """Write the bits of encoded groups, one after another."""
    data = groups.view(np.uint8)
    at: Any = 0
    while at < len(groups):
        operands, true, length = np.int64(groups[at]), np.int64(groups[at + 1]), np.int64(groups[at + 2])
        at += FIELDS
        start = EIGHT * (at + FIELDS * operands + true)
        for _ in range(operands):
            operand, tag, value = np.int64(groups[at]), np.int64(groups[at + 1]), groups[at + 2]
            if tag == STRING:
                end = start + np.int64(value)
                value = rank_text(texts, operand, data, start, end)
                start = end
            _put_words(table, operand, bucket_of(table, operand, tag, value), bits)
            at += FIELDS
        for _ in range(true):
            _put_bit(np.int64(groups[at]), bits)
            at += 1
        at += (length + EIGHT - 1) // EIGHT

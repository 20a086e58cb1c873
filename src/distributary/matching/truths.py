"""Conditions for whole columns: whether each row of a batch makes an expression true, false or unknown.

Truth is a number, so that three-valued logic is arithmetic: FALSE < UNKNOWN < TRUE, AND is the minimum, OR
the maximum, NOT the difference from TRUE. A leaf is evaluated once a batch, for all rows, however many
conditions share it.

A leaf knows some rows at once, by comparing a column of doubles or the codes of its texts. What that cannot
tell exactly stays *open* (numbers that a double does not hold, arrays, values of a type that the literal is
read as), and is evaluated value by value for those rows alone of which somebody wants to know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.filters.where.evaluate import NOW, evaluate
from distributary.filters.where.expression import (
    And,
    Between,
    Compare,
    CompareAttributes,
    Computation,
    Expression,
    In,
    IsNull,
    IsTruth,
    Leaf,
    Like,
    MatchesPattern,
    Not,
    Operand,
    Or,
    Truth,
    TruthConstant,
    attributes_of,
    leaves,
    operands_of,
)
from distributary.filters.where.like import like_pattern
from distributary.filters.where.values import (
    PLAIN_DIGITS,
    READERS,
    Duration,
    Instant,
    Kind,
    TimeOfDay,
    compare,
    exact,
)
from distributary.filters.where.write import operand_key, write
from distributary.kernel import Bytes, Flags, Ints, Longs, kernel, sealed_table, text_order
from distributary.matching.columns import (
    BOOLEAN,
    DURATION,
    EXACT_INTEGER,
    INSTANT,
    MICROSECOND,
    NULL,
    NUMBER,
    OTHER,
    STRING,
    TIME,
    AttributeColumn,
    Strings,
)
from distributary.matching.text_codes import TextCodes

if TYPE_CHECKING:
    from distributary.matching.batch import EventBatch

FALSE, UNKNOWN, TRUE = range(3)
OUTCOMES: dict[bool | None, int] = {False: FALSE, None: UNKNOWN, True: TRUE}

EXACT_MICROSECONDS = 2.0**52
FEW = 3
"""Of so few rows a condition is evaluated value by value."""
FEW_OF_MANY = 16
"""And so many of a batch of which they are a small part."""
SPARSE = 8
"""Rows of which a batch has so many times as many are evaluated without the others."""

OPERATORS: dict[str, Callable[[Any, Any], Flags]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


class LeafTruths:
    """What is known of a leaf for every row: `truths`, but for the rows that are open."""

    __slots__ = ("_evaluate", "open", "truths")

    def __init__(self, truths: Bytes, open: Flags | None, evaluate: Callable[[Ints], Bytes]) -> None:
        self.truths = truths
        self.open = open.copy() if open is not None and open.any() else None
        self._evaluate = evaluate

    def at(self, rows: Ints | None) -> Bytes:
        """The truths of these rows; None stands for all."""
        if self.open is not None:
            wanted = np.flatnonzero(self.open) if rows is None else np.unique(rows[self.open[rows]])
            if len(wanted):
                self.truths[wanted] = self._evaluate(wanted.astype(np.int32))
                self.open[wanted] = False
        return self.truths if rows is None else self.truths[rows]


def passing(batch: EventBatch, expression: Expression, rows: Ints | None) -> Flags:
    """Which of these rows, or of all, make the expression true.

    A few rows are evaluated value by value. Where they are a small part of the batch, and the leaves are not
    known yet, they are made a batch of their own: nobody may ask about the others.
    """
    is_sparse = rows is not None and len(rows) * SPARSE <= batch.rows
    if rows is None or all(_key(leaf) in batch.leaves for leaf in leaves(expression)):
        truths = _truths(batch, expression, rows)
    elif len(rows) <= (FEW_OF_MANY if is_sparse else FEW):
        truths = evaluated(batch, expression, rows)
    elif not is_sparse:
        truths = _truths(batch, expression, rows)
    else:
        distinct, places = np.unique(rows, return_inverse=True)
        truths = _truths(batch.taken(distinct), expression, None)[places]
    passed: Flags = truths == TRUE
    return passed


def truths_of(batch: EventBatch, expression: Expression) -> Bytes:
    """The truth of the expression in every row."""
    return _truths(batch, expression, None)


def evaluated(batch: EventBatch, expression: Expression, rows: Ints) -> Bytes:
    """The truth of the expression in these rows, one by one."""
    columns = [(name, batch.column(name)) for name in attributes_of(expression)]
    present = [(name, column.value) for name, column in columns if column is not None]
    truths = np.empty(len(rows), np.uint8)
    for at, row in enumerate(rows.tolist()):
        attributes = {name: value(row) for name, value in present}
        attributes[NOW] = Instant(batch.arrival(row))
        truths[at] = OUTCOMES[evaluate(expression, attributes)]
    return truths


def _truths(batch: EventBatch, expression: Expression, rows: Ints | None) -> Bytes:
    match expression:
        case And(parts):
            return _combined(batch, parts, rows, FALSE)
        case Or(parts):
            return _combined(batch, parts, rows, TRUE)
        case Not(part):
            negated: Bytes = TRUE - _truths(batch, part, rows)
            return negated
    return leaf_truths(batch, expression).at(rows)


def _combined(batch: EventBatch, parts: tuple[Expression, ...], rows: Ints | None, deciding: int) -> Bytes:
    """AND is decided by FALSE, OR by TRUE; parts with open rows come last, and see the undecided alone."""
    combine = np.minimum if deciding == FALSE else np.maximum
    known = [part for part in parts if not _has_open(batch, part)]
    result: Bytes | None = None
    for part in known:
        truths = _truths(batch, part, rows)
        result = truths if result is None else combine(result, truths)
    for part in parts:
        if part in known:
            continue
        if result is None:
            result = _truths(batch, part, rows).copy()
            continue
        undecided = np.flatnonzero(result != deciding).astype(np.int32)
        if not len(undecided):
            break
        chosen = undecided if rows is None else rows[undecided]
        result = result.copy()
        result[undecided] = combine(result[undecided], _truths(batch, part, chosen))
    assert result is not None, "And and Or have parts"
    return result


def _has_open(batch: EventBatch, expression: Expression) -> bool:
    match expression:
        case And(parts) | Or(parts):
            return any(_has_open(batch, part) for part in parts)
        case Not(part):
            return _has_open(batch, part)
    return leaf_truths(batch, expression).open is not None


def leaf_truths(batch: EventBatch, leaf: Leaf) -> LeafTruths:
    """What is known of a leaf for every row, worked out when it is first asked for."""
    key = _key(leaf)
    found = batch.leaves.get(key)
    if found is None:
        truths, open = _compute(batch, leaf)
        found = batch.leaves[key] = LeafTruths(truths, open, lambda rows: evaluated(batch, leaf, rows))
    return found


def _key(leaf: Leaf) -> Any:
    """What tells leaves apart; 1, 1.0 and true are equal to Python, also as arguments of operations."""
    if any(isinstance(operand, Computation) for operand in operands_of(leaf)):
        return write(leaf)
    match leaf:
        case Compare(_, _, literal):
            return leaf, type(literal)
        case Between(_, low, high):
            return leaf, type(low), type(high)
        case In(_, literals):
            return leaf, tuple(map(type, literals))
    return leaf


def _compute(batch: EventBatch, leaf: Leaf) -> tuple[Bytes, Flags | None]:
    match leaf:
        case TruthConstant(truth):
            return np.full(batch.rows, OUTCOMES[truth], np.uint8), None
        case CompareAttributes(left, operator, right):
            return _compare_columns(batch, left, operator, right)
    column = batch.column(operand_key(leaf.attribute))
    if column is None:
        outcome = {IsNull: TRUE, IsTruth: FALSE}.get(type(leaf), UNKNOWN)
        return np.full(batch.rows, outcome, np.uint8), None
    truths = np.full(batch.rows, UNKNOWN, np.uint8)
    open = column.tags == OTHER if isinstance(leaf.attribute, Computation) else None
    match leaf:
        case IsNull():
            truths = np.where(column.tags == NULL, np.uint8(TRUE), np.uint8(FALSE))
        case IsTruth(_, wanted):
            holds = (column.tags == BOOLEAN) & (column.numbers == wanted)
            truths = np.where(holds, np.uint8(TRUE), np.uint8(FALSE))
        case Truth():
            _put(truths, column.tags == BOOLEAN, column.numbers != 0)
        case Compare(operand, operator, literal):
            open = _either(open, _compare(batch, operand, column, operator, literal, truths))
        case Between(operand, low, high):
            open = _either(open, _compare(batch, operand, column, ">=", low, truths))
            upper = np.full(batch.rows, UNKNOWN, np.uint8)
            open = _either(open, _compare(batch, operand, column, "<=", high, upper))
            truths = np.minimum(truths, upper)
        case In(operand, literals):
            truths, open = _in(batch, operand, column, literals, open)
        case Like() | MatchesPattern():
            _by_text(batch, leaf.attribute, column, _found_in(leaf), truths)
    return truths, open


def _put(truths: Bytes, rows: Flags, holds: Flags) -> None:
    """Say of these rows whether the leaf holds."""
    np.copyto(truths, holds.view(np.uint8) * np.uint8(TRUE), where=rows)


def _either(one: Flags | None, other: Flags | None) -> Flags | None:
    return other if one is None else one if other is None else one | other


def _by_text(
    batch: EventBatch,
    operand: Operand,
    column: AttributeColumn,
    outcomes: Callable[[TextCodes], Any],
    truths: Bytes,
) -> None:
    """Fill in the truths of rows that hold a text, from the outcomes for each distinct text."""
    if column.strings is not None:
        codes = batch.codes(operand_key(operand), column)
        np.copyto(truths, codes.taken(outcomes(codes), UNKNOWN, np.uint8), where=column.tags == STRING)


def _found_in(leaf: Like | MatchesPattern) -> Callable[[TextCodes], Any]:
    """Which texts match a pattern, by Arrow; of patterns that are too much for it, one by one."""

    def outcomes(codes: TextCodes) -> Any:
        try:
            if isinstance(leaf, Like):
                found = pc.match_like(codes.array, like_pattern(leaf.pattern, leaf.escape).with_backslashes)
            else:
                found = pc.match_substring_regex(codes.array, leaf.pattern)
        except pa.ArrowInvalid:
            bare = replace(leaf, attribute="")
            return [OUTCOMES[evaluate(bare, {"": text})] for text in codes.texts]
        return found.to_numpy(zero_copy_only=False).astype(np.uint8) * np.uint8(TRUE)

    return outcomes


def _read_as_time(operator: str, literal: Instant | TimeOfDay) -> Callable[[TextCodes], Any]:
    """How texts that are read as times compare with a literal."""
    return lambda codes: [OUTCOMES[compare(text, operator, literal)] for text in codes.texts]


def _compare(
    batch: EventBatch,
    operand: Operand,
    column: AttributeColumn,
    operator: str,
    literal: Any,
    truths: Bytes,
) -> Flags | None:
    """Fill in the truths of a comparison with a literal; the rows that are open."""
    if isinstance(literal, bool):
        _put(truths, column.tags == BOOLEAN, OPERATORS[operator](column.numbers, float(literal)))
    elif isinstance(literal, (int, float, Decimal)):
        return _compare_number(column, operator, literal, truths)
    elif isinstance(literal, str):
        _compare_text(batch, operand, column, operator, literal, truths)
        return _either(
            _compare_time(column, INSTANT, operator, READERS[Kind.INSTANT](literal), truths),
            _compare_time(column, TIME, operator, READERS[Kind.TIME](literal), truths),
        )
    elif isinstance(literal, (Instant, TimeOfDay)):
        _by_text(batch, operand, column, _read_as_time(operator, literal), truths)
        tag = INSTANT if isinstance(literal, Instant) else TIME
        return _compare_time(column, tag, operator, literal, truths)
    elif isinstance(literal, Duration):
        return _compare_time(column, DURATION, operator, literal, truths)
    elif isinstance(literal, bytes):
        others: Flags = column.tags == OTHER
        return others
    return None


def _compare_number(column: AttributeColumn, operator: str, literal: Any, truths: Bytes) -> Flags | None:
    try:
        bound = float(literal)
    except OverflowError:
        bound = inf if literal > 0 else -inf
    if bound != bound:
        return None
    rows = column.tags == NUMBER
    _put(truths, rows, OPERATORS[operator](column.numbers, bound))
    exactly = abs(bound) < EXACT_INTEGER and exact(bound) == exact(literal)
    open = None if exactly else rows & (column.numbers == bound)
    if column.hard is not None and not (exactly and float(f"{bound:.{PLAIN_DIGITS}g}") == bound):
        open = _either(open, column.hard)
    return open


def _compare_text(
    batch: EventBatch,
    operand: Operand,
    column: AttributeColumn,
    operator: str,
    literal: str,
    truths: Bytes,
) -> None:
    if column.strings is None:
        return
    codes = batch.codes(operand_key(operand), column)
    if operator in ("=", "<>"):
        holds = codes.equal(literal)
    elif operator in ("<", ">="):
        holds = codes.below(literal)
    else:
        holds = codes.below(literal) | codes.equal(literal)
    _put(truths, column.tags == STRING, ~holds if operator in ("<>", ">=", ">") else holds)


def _compare_time(
    column: AttributeColumn,
    tag: int,
    operator: str,
    literal: Any,
    truths: Bytes,
) -> Flags | None:
    """Times with a literal, or with nothing when a text is no time."""
    if literal is None:
        return None
    rows = column.tags == tag
    if tag == TIME:
        _put(truths, rows, OPERATORS[operator](column.numbers, float(literal.nanoseconds)))
        return None
    whole, rest = divmod(literal.nanoseconds, MICROSECOND)
    bound = float(whole)
    _put(truths, rows, OPERATORS[operator](column.numbers, bound + (0.5 if rest else 0.0)))
    if rest == 0 and abs(whole) < EXACT_MICROSECONDS:
        return None
    near: Flags = rows & (np.abs(column.numbers - bound) <= max(1.0, abs(bound) * 1e-15))
    return near


def _in(
    batch: EventBatch,
    operand: Operand,
    column: AttributeColumn,
    literals: tuple[Any, ...],
    open: Flags | None,
) -> tuple[Bytes, Flags | None]:
    """True where one of the literals is equal, unknown where none is and some does not compare."""
    truths = np.full(batch.rows, FALSE, np.uint8)
    texts = [literal for literal in literals if isinstance(literal, str)]
    numbers = [literal for literal in literals if type(literal) in (int, float) and _is_plain(literal)]
    rest = [literal for literal in literals if not isinstance(literal, str)]
    if len(texts) == len(literals) and not _has_times(column):
        unknown = column.tags != STRING
        if column.strings is not None:
            codes = batch.codes(operand_key(operand), column)
            wanted = np.zeros(len(codes) + 1, np.bool_)
            wanted[[code for text in set(texts) if (code := codes.code(text)) is not None]] = True
            _put(truths, ~unknown, wanted[codes.codes])
        truths[unknown] = UNKNOWN
        return truths, open
    if len(numbers) == len(rest) == len(literals) and column.hard is None:
        unknown = column.tags != NUMBER
        _put(truths, ~unknown, np.isin(column.numbers, np.array(numbers, np.float64)))
        truths[unknown] = UNKNOWN
        return truths, open
    for literal in literals:
        equal = np.full(batch.rows, UNKNOWN, np.uint8)
        open = _either(open, _compare(batch, operand, column, "=", literal, equal))
        truths = np.maximum(truths, equal)
    return truths, open


def _is_plain(literal: float) -> bool:
    return literal == literal and abs(literal) < EXACT_INTEGER


def _has_times(column: AttributeColumn) -> bool:
    return bool(((column.tags == INSTANT) | (column.tags == TIME)).any())


def _compare_columns(
    batch: EventBatch, left: Operand, operator: str, right: Operand
) -> tuple[Bytes, Flags | None]:
    one, other = batch.column(operand_key(left)), batch.column(operand_key(right))
    if one is None or other is None:
        return np.full(batch.rows, UNKNOWN, np.uint8), None
    return compared(one, operator, other)


def compared(one: AttributeColumn, operator: str, other: AttributeColumn) -> tuple[Bytes, Flags]:
    """Two columns row by row: the truths, and the rows that are open."""
    truths = np.full(len(one.tags), UNKNOWN, np.uint8)
    alike = one.tags == other.tags
    _put(truths, alike & _comparable(one.tags), OPERATORS[operator](one.numbers, other.numbers))
    if one.strings is not None and other.strings is not None:
        rows = alike & (one.tags == STRING)
        order = _text_orders(sealed_table(one.strings), sealed_table(other.strings), rows)
        _put(truths, rows, OPERATORS[operator](order, 0))
    # Numbers that doubles do not hold, times between two microseconds, and texts that are read as times.
    inexact = alike & (one.tags == NUMBER) & ~(one.plain_numbers() & other.plain_numbers())
    times = alike & ((one.tags == INSTANT) | (one.tags == DURATION))
    halves = times & ((one.numbers != np.floor(one.numbers)) | (np.abs(one.numbers) >= EXACT_MICROSECONDS))
    read = (
        ~alike & ((one.tags == STRING) | (other.tags == STRING)) & (_is_time(one.tags) | _is_time(other.tags))
    )
    others = (one.tags == OTHER) | (other.tags == OTHER)
    return truths, inexact | (halves & (one.numbers == other.numbers)) | read | others


def _comparable(tags: Bytes) -> Flags:
    comparable: Flags = (tags == NUMBER) | (tags == BOOLEAN) | _is_time(tags) | (tags == DURATION)
    return comparable


def _is_time(tags: Bytes) -> Flags:
    times: Flags = (tags == INSTANT) | (tags == TIME)
    return times


@kernel
def _text_orders(one: Strings, other: Strings, rows: Flags) -> Longs:
    """Negative, zero or positive as the row's first text comes before, equals or follows the second."""
    orders = np.zeros(len(rows), np.int64)
    for row in range(len(rows)):
        if rows[row]:
            orders[row] = text_order(
                one.data, one.starts[row], one.ends[row], other.data, other.starts[row], other.ends[row]
            )
    return orders

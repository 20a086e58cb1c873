"""Arithmetic on the attributes of one row as a program, which a kernel runs: no object of Python's a step.

A program computes operands such as `arr_delay - dep_delay` from attributes that are numbers or missing, and
compares two of them. Its *registers* are the attributes, then the constants, then the outcome of each step. A
register is an integer that a double holds exactly, a double, nothing (null), or *open*: something that a
double does not hold, which is left to the exact way, for that row.

What is numeric is guessed from the conditions: an attribute that is computed with, or compared with a number.
A row where such an attribute holds something else takes the exact way too, so a wrong guess costs time alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from distributary.filters.where.expression import (
    AttributeReference,
    Between,
    Compare,
    CompareAttributes,
    Computation,
    In,
    Leaf,
    Operand,
    attributes_of_operand,
    literals_of,
    operands_of,
)
from distributary.filters.where.values import Duration, Instant, Months
from distributary.kernel import Bytes, Floats, Ints, inlined
from distributary.matching.columns import DOUBLE, EXACT_INTEGER, INTEGER

NOTHING, OPEN = 0, 3
"""Kinds of registers beside INTEGER and DOUBLE."""
KINDS: dict[type, int] = {int: INTEGER, float: DOUBLE, type(None): NOTHING}
"""The types of values that programs compute with."""

FUNCTIONS = ("+", "-", "*", "/", "%", "negative", "abs", "floor", "ceil", "coalesce", "nullif")
"""What programs compute, by the numbers of their steps."""
PLUS, MINUS, TIMES, OVER, REST, NEGATIVE, ABSOLUTE, FLOOR, CEILING, COALESCE, NULLIF = range(len(FUNCTIONS))
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
EQUAL, DIFFERENT, BELOW, AT_MOST, ABOVE, AT_LEAST = range(len(COMPARISONS))
STEP, OUTCOME, COMPARISON = 3, 2, 5
"""How many numbers a step, an operand and a comparison take."""


class Program(NamedTuple):
    """What is computed: `steps` are (function, register, register), the second repeated where there is one.

    `operands` are (operand, register), and `comparisons` (predicate, operator, register, register, whether it
    holds where the comparison is true).
    """

    kinds: Bytes
    """The kinds of the constants."""
    constants: Floats
    steps: Ints
    operands: Ints
    comparisons: Ints


def numeric_attributes(leaves: Iterable[Leaf]) -> frozenset[str]:
    """The attributes that are computed with or compared with a number.

    >>> sorted(numeric_attributes([Compare("a", "<", 1), Compare("b", "=", "x")]))
    ['a']
    """
    found: set[str] = set()
    for leaf in leaves:
        for operand in operands_of(leaf):
            found |= _computed_with(operand)
        if isinstance(leaf, (Compare, Between, In)) and isinstance(leaf.attribute, str):
            literals = literals_of(leaf)
            found |= {leaf.attribute} if all(type(each) in KINDS for each in literals) else set()
    return frozenset(found)


def _computed_with(argument: Any) -> set[str]:
    """The attributes that arithmetic in an operand reads."""
    if not isinstance(argument, Computation) or argument.function not in FUNCTIONS[:COALESCE]:
        return set()
    if any(isinstance(part, (Instant, Duration, Months)) for part in argument.arguments):
        return set()
    own = {part.name for part in argument.arguments if isinstance(part, AttributeReference)}
    return own.union(*map(_computed_with, argument.arguments))


class Register(NamedTuple):
    """A register by its part of them all, and its place there."""

    part: int
    place: int


ATTRIBUTE, CONSTANT, COMPUTED = range(3)
"""The parts of the registers."""


class ProgramWriter:
    """Writes the program of some operands and comparisons; what it cannot have is not taken."""

    def __init__(self, numeric: frozenset[str]) -> None:
        self._numeric = numeric
        self._attributes: dict[str, Register] = {}
        self._constants: dict[tuple[type, int | float], Register] = {}
        self._steps: dict[tuple[int, Register, Register], Register] = {}
        self._operands: list[tuple[int, Register]] = []
        self._comparisons: list[tuple[int, int, Register, Register, bool]] = []

    @property
    def names(self) -> list[str]:
        """The attributes that the program reads: its first registers."""
        return list(self._attributes)

    def takes_operand(self, number: int, operand: Operand) -> bool:
        """Compute the operand of that number; False when a program cannot."""
        if not self._is_numeric(operand) or not _is_computable(operand):
            return False
        self._operands.append((number, self._register(operand)))
        return True

    def takes_comparison(self, predicate: int, leaf: Leaf, positive: bool) -> bool:
        """Have the predicate hold where a comparison of two operands is true, or false; False for others."""
        if not isinstance(leaf, CompareAttributes):
            return False
        sides = leaf.left, leaf.right
        if not any(map(self._is_numeric, sides)) or not all(map(_is_computable, sides)):
            return False
        left, right = map(self._register, sides)
        self._comparisons.append((predicate, COMPARISONS.index(leaf.operator), left, right, positive))
        return True

    def program(self) -> Program:
        """What was written."""
        first = (0, len(self._attributes), len(self._attributes) + len(self._constants))

        def number(register: Register) -> int:
            return first[register.part] + register.place

        steps = [(step, number(left), number(right)) for step, left, right in self._steps]
        operands = [(operand, number(register)) for operand, register in self._operands]
        comparisons = [
            (predicate, operator, number(left), number(right), int(positive))
            for predicate, operator, left, right, positive in self._comparisons
        ]
        return Program(
            np.array([KINDS[kind] for kind, _ in self._constants], np.uint8),
            np.array([value for _, value in self._constants], np.float64),
            *(np.array(rows, np.int32).reshape(-1) for rows in (steps, operands, comparisons)),
        )

    def _is_numeric(self, operand: Operand) -> bool:
        names = attributes_of_operand(operand)
        return bool(names) and self._numeric.issuperset(names)

    def _register(self, argument: Any) -> Register:
        """The register that holds an argument, which is computable."""
        if isinstance(argument, (str, AttributeReference)):
            name = argument if isinstance(argument, str) else argument.name
            return self._attributes.setdefault(name, Register(ATTRIBUTE, len(self._attributes)))
        if not isinstance(argument, Computation):
            key = type(argument), argument
            return self._constants.setdefault(key, Register(CONSTANT, len(self._constants)))
        step = FUNCTIONS.index(argument.function)
        first, *others = map(self._register, argument.arguments)
        for other in others or [first]:
            key_of_step = step, first, other
            first = self._steps.setdefault(key_of_step, Register(COMPUTED, len(self._steps)))
        return first


def _is_computable(argument: Any) -> bool:
    """Whether a program has a register for an operand, or for an argument of one."""
    if isinstance(argument, Computation):
        # A text is an attribute's name as an operand and a literal as an argument.
        return argument.function in FUNCTIONS and all(
            not isinstance(part, str) and _is_computable(part) for part in argument.arguments
        )
    if isinstance(argument, (str, AttributeReference)):
        return True
    if type(argument) is int:
        return -EXACT_INTEGER < argument < EXACT_INTEGER
    return type(argument) is float and isfinite(argument)


@inlined
def run(program: Program, kinds: Bytes, values: Floats, attributes: int) -> None:
    """Fill the registers behind the attributes, which are given, as numbers that may be too large."""
    for place in range(attributes):
        if not abs(values[place]) < (EXACT_INTEGER if kinds[place] == INTEGER else inf):
            kinds[place] = OPEN
    filled = attributes
    for place in range(len(program.kinds)):
        kinds[filled], values[filled] = program.kinds[place], program.constants[place]
        filled += 1
    for at in range(0, len(program.steps), STEP):
        left, right = program.steps[at + 1], program.steps[at + 2]
        kinds[filled], values[filled] = _computed(
            program.steps[at], kinds[left], values[left], kinds[right], values[right]
        )
        filled += 1


@inlined
def _computed(function: Any, kind: Any, value: Any, other_kind: Any, other: Any) -> Any:
    """The kind and value of a step's outcome."""
    if kind == OPEN or other_kind == OPEN:
        return np.uint8(OPEN), 0.0
    if function == COALESCE:
        return (other_kind, other) if kind == NOTHING else (kind, value)
    if function == NULLIF:
        equal = kind != NOTHING and other_kind != NOTHING and value == other
        return (np.uint8(NOTHING), 0.0) if equal else (kind, value)
    if kind == NOTHING or other_kind == NOTHING:
        return np.uint8(NOTHING), 0.0
    if function in (OVER, REST) and other == 0.0:
        return np.uint8(NOTHING), 0.0
    whole = kind == INTEGER and other_kind == INTEGER and function != OVER
    if function == PLUS:
        found = value + other
    elif function == MINUS:
        found = value - other
    elif function == TIMES:
        found = value * other
    elif function == OVER:
        found = value / other
    elif function == REST:
        found = np.fmod(value, other)
    elif function == NEGATIVE:
        found = -value
    elif function == ABSOLUTE:
        found = abs(value)
    else:
        found = np.floor(value) if function == FLOOR else np.ceil(value)
        whole = True
    found += 0.0  # zero has no sign
    if whole:
        return np.uint8(INTEGER if abs(found) < EXACT_INTEGER else OPEN), found
    return np.uint8(DOUBLE if abs(found) < inf else NOTHING), found


@inlined
def compared(operator: Any, value: Any, other: Any) -> Any:
    """Whether two numbers compare so."""
    if operator == EQUAL:
        return value == other
    if operator == DIFFERENT:
        return value != other
    if operator == BELOW:
        return value < other
    if operator == AT_MOST:
        return value <= other
    return value > other if operator == ABOVE else value >= other

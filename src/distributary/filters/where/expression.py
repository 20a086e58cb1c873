"""Conditions as trees: what a where filter says, how it is evaluated, and how it is written.

A tree has leaves (a comparison, BETWEEN, IN, LIKE and so on) and, above them, `And`, `Or` and `Not`.

SQL's three-valued logic: an expression is true, false or unknown (None). A comparison is unknown when a
side is missing, when the sides are of different types, or when a side is NaN or opaque (a tuple). Numbers
are compared exactly, whatever their size and whether whole or not; texts are ordered by code point; false
comes before true.

`And` and `Or` are flat (no part of an `And` is an `And`), which makes the written form unique. Depth is
bounded by `MAX_DEPTH`, so plain recursion is safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from distributary.filters.connectives import And as And
from distributary.filters.connectives import Not as Not
from distributary.filters.connectives import Or as Or
from distributary.filters.where.like import like_pattern
from distributary.model import Value

MAX_DEPTH = 50

KEYWORDS = frozenset({"and", "or", "not", "in", "between", "like", "escape", "is", "null", "true", "false"})


@dataclass(frozen=True, slots=True)
class Blank:
    """The place of a literal in a template: the literal itself is `values[index]`."""

    index: int


Literal = str | int | float | bool | None | Blank


@dataclass(frozen=True, slots=True)
class Compare:
    """`attribute operator literal`, the operator one of = <> < <= > >=."""

    attribute: str
    operator: str
    literal: Literal


@dataclass(frozen=True, slots=True)
class CompareAttributes:
    """`left operator right`: two attributes of one event."""

    left: str
    operator: str
    right: str


@dataclass(frozen=True, slots=True)
class Between:
    """`attribute between low and high`, both bounds included."""

    attribute: str
    low: Literal
    high: Literal


@dataclass(frozen=True, slots=True)
class In:
    """`attribute in (literals)`."""

    attribute: str
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`attribute like pattern [escape escape]`; `like` says what patterns mean."""

    attribute: str
    pattern: str | Blank
    escape: str | Blank | None = None


@dataclass(frozen=True, slots=True)
class IsNull:
    """`attribute is null`: the event does not have it."""

    attribute: str


@dataclass(frozen=True, slots=True)
class IsTruth:
    """`attribute is true` or `attribute is false`: never unknown."""

    attribute: str
    truth: bool


@dataclass(frozen=True, slots=True)
class Truth:
    """A boolean attribute by itself; unknown when it holds anything but a boolean."""

    attribute: str


@dataclass(frozen=True, slots=True)
class TruthConstant:
    """`true`, `false` or `null` as a condition."""

    truth: bool | None


Leaf = Compare | CompareAttributes | Between | In | Like | IsNull | IsTruth | Truth | TruthConstant
Expression = Leaf | Not["Expression"] | And["Expression"] | Or["Expression"]

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def conjunction_of(parts: list[Expression]) -> Expression:
    """All of the parts, flat."""
    return _flat(And, parts)


def disjunction_of(parts: list[Expression]) -> Expression:
    """Any of the parts, flat."""
    return _flat(Or, parts)


def _flat(connective: type[And[Expression]] | type[Or[Expression]], parts: list[Expression]) -> Expression:
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, connective) else (part,))]
    return connective(tuple(flat)) if len(flat) > 1 else flat[0]


def depth(expression: Expression) -> int:
    """How many connectives stand above the deepest leaf."""
    if isinstance(expression, (And, Or)):
        return 1 + max(map(depth, expression.parts))
    return 1 + depth(expression.part) if isinstance(expression, Not) else 0


def leaves(expression: Expression) -> Iterator[Leaf]:
    """The leaves, in the order in which they are written."""
    if isinstance(expression, (And, Or)):
        for part in expression.parts:
            yield from leaves(part)
    elif isinstance(expression, Not):
        yield from leaves(expression.part)
    else:
        yield expression


def attributes_of(expression: Expression) -> tuple[str, ...]:
    """The attributes it looks at, in the order in which they are written."""
    names: dict[str, None] = {}
    for leaf in leaves(expression):
        if isinstance(leaf, CompareAttributes):
            names[leaf.left] = names[leaf.right] = None
        elif not isinstance(leaf, TruthConstant):
            names[leaf.attribute] = None
    return tuple(names)


def rebuilt(expression: Expression, literal: Callable[[Any], Any], name: Callable[[str], str]) -> Expression:
    """The expression with each literal and each attribute's name changed, in the order they are written."""
    match expression:
        case And(parts) | Or(parts):
            return type(expression)(tuple([rebuilt(part, literal, name) for part in parts]))
        case Not(part):
            return Not(rebuilt(part, literal, name))
        case Compare(attribute, operator, value):
            return Compare(name(attribute), operator, literal(value))
        case Between(attribute, low, high):
            return Between(name(attribute), literal(low), literal(high))
        case In(attribute, literals):
            return In(name(attribute), tuple([literal(value) for value in literals]))
        case Like(attribute, pattern, escape):
            return Like(name(attribute), literal(pattern), literal(escape))
        case CompareAttributes(left, operator, right):
            return CompareAttributes(name(left), operator, name(right))
        case IsTruth(attribute, truth):
            return IsTruth(name(attribute), truth)
        case IsNull(attribute):
            return IsNull(name(attribute))
        case Truth(attribute):
            return Truth(name(attribute))
    return expression


def fill(expression: Expression, values: tuple[Any, ...]) -> Expression:
    """The expression with each blank replaced by its value."""
    return rebuilt(expression, lambda literal: value_of(literal, values), str)


def value_of(literal: Any, values: tuple[Any, ...]) -> Any:
    """The literal, or the value that a blank stands for."""
    return values[literal.index] if type(literal) is Blank else literal


# Evaluation


def evaluate(
    expression: Expression, attributes: Mapping[str, Value], values: tuple[Any, ...] = ()
) -> bool | None:
    """Whether the expression is true, false or unknown (None) for these attributes.

    `values` are what the blanks of a template stand for.

    >>> evaluate(Compare("price", ">", 8), {"price": 8.4})
    True
    >>> evaluate(Not(Compare("price", ">", 8)), {"price": "8.4"}) is None
    True
    """
    match expression:
        case And(parts):
            return _combined(parts, attributes, values, deciding=False)
        case Or(parts):
            return _combined(parts, attributes, values, deciding=True)
        case Not(part):
            truth = evaluate(part, attributes, values)
            return None if truth is None else not truth
        case TruthConstant(truth):
            return truth
        case CompareAttributes(left, operator, right):
            return compare(attributes.get(left), operator, attributes.get(right))
    return _evaluate_leaf(expression, attributes.get(expression.attribute), values)


def _evaluate_leaf(
    leaf: Compare | Between | In | Like | IsNull | IsTruth | Truth, value: Any, values: tuple[Any, ...]
) -> bool | None:
    match leaf:
        case Compare(_, operator, literal):
            return compare(value, operator, value_of(literal, values))
        case Between(_, low, high):
            bounds = (
                compare(value, ">=", value_of(low, values)),
                compare(value, "<=", value_of(high, values)),
            )
            return False if False in bounds else None if None in bounds else True
        case In(_, literals):
            outcomes = [compare(value, "=", value_of(literal, values)) for literal in literals]
            return True if True in outcomes else None if None in outcomes else False
        case Like(_, pattern, escape):
            if not isinstance(value, str):
                return None
            return like_pattern(value_of(pattern, values), value_of(escape, values)).matches(value)
        case IsNull():
            return value is None
        case IsTruth(_, truth):
            return value is truth
        case Truth():
            return value if isinstance(value, bool) else None


def compare(left: Any, operator: str, right: Any) -> bool | None:
    """The comparison of two values; None when they do not compare.

    >>> compare(2**53 + 1, ">", 2.0**53)
    True
    """
    kind = kind_of(left)
    if kind is None or kind is not kind_of(right):
        return None
    return OPERATORS[operator](left, right)


def kind_of(value: Any) -> type | None:
    """float for every number, str, bool, or None for what compares with nothing."""
    kind = type(value)
    if kind is float or kind is int:
        return float if value == value else None
    if kind is str or kind is bool:
        return kind
    for known in (bool, int, float, str):
        if isinstance(value, known):
            return kind_of(known(value))
    return None


def _combined(
    parts: tuple[Expression, ...], attributes: Mapping[str, Value], values: tuple[Any, ...], deciding: bool
) -> bool | None:
    """AND is decided by a false part, OR by a true one; else an unknown part makes it unknown."""
    result: bool | None = not deciding
    for part in parts:
        truth = evaluate(part, attributes, values)
        if truth is deciding:
            return deciding
        if truth is None:
            result = None
    return result


# Writing

_BARE_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")

BLANK_MARK = "\0"
"""What `write` puts in the place of a blank: no condition has this character outside a literal."""


def write(expression: Expression) -> str:
    """The condition as SQL: lower-case keywords, single spaces, no parentheses that are not needed.

    >>> write(Not(Or((Compare("a", "=", 1), In("wind.speed", ("it's", True))))))
    "not (a = 1 or wind.speed in ('it''s', true))"
    """
    match expression:
        case And(parts):
            return " and ".join(_enclosed(part) if isinstance(part, Or) else write(part) for part in parts)
        case Or(parts):
            return " or ".join(map(write, parts))
        case Not(part):
            return _write_negation(part)
        case Compare(attribute, operator, literal):
            return f"{write_name(attribute)} {operator} {write_literal(literal)}"
        case CompareAttributes(left, operator, right):
            return f"{write_name(left)} {operator} {write_name(right)}"
        case Between() | In() | Like() | IsNull() | IsTruth():
            return _write_predicate(expression, "")
        case Truth(attribute):
            return write_name(attribute)
        case TruthConstant(truth):
            return write_literal(truth)
    raise TypeError(f"not an expression: {expression!r}")


def _write_negation(part: Expression) -> str:
    if isinstance(part, (Between, In, Like, IsNull, IsTruth)):
        return _write_predicate(part, "not ")
    return f"not {_enclosed(part) if isinstance(part, (And, Or)) else write(part)}"


def _write_predicate(leaf: Between | In | Like | IsNull | IsTruth, negation: str) -> str:
    name = write_name(leaf.attribute)
    match leaf:
        case Between(_, low, high):
            return f"{name} {negation}between {write_literal(low)} and {write_literal(high)}"
        case In(_, literals):
            return f"{name} {negation}in ({', '.join(map(write_literal, literals))})"
        case Like(_, pattern, escape):
            ending = "" if escape is None else f" escape {write_literal(escape)}"
            return f"{name} {negation}like {write_literal(pattern)}{ending}"
        case IsNull():
            return f"{name} is {negation}null"
        case IsTruth(_, truth):
            return f"{name} is {negation}{write_literal(truth)}"


def _enclosed(expression: Expression) -> str:
    return f"({write(expression)})"


@lru_cache(maxsize=4096)
def write_name(name: str) -> str:
    """An attribute's name, quoted when it would not be read as one otherwise.

    >>> write_name("wind.speed"), write_name("odd name"), write_name("in")
    ('wind.speed', '"odd name"', '"in"')
    """
    if _BARE_NAME.fullmatch(name) and KEYWORDS.isdisjoint(name.lower().split(".")):
        return name
    return '"' + name.replace('"', '""') + '"'


def write_literal(literal: Literal) -> str:
    """A literal as SQL writes it.

    >>> write_literal("it's"), write_literal(-2.5), write_literal(None)
    ("'it''s'", '-2.5', 'null')
    """
    if type(literal) is float or type(literal) is int:
        return repr(literal)
    if type(literal) is str:
        return "'" + literal.replace("'", "''") + "'"
    if type(literal) is Blank:
        return BLANK_MARK
    return "null" if literal is None else "true" if literal else "false"

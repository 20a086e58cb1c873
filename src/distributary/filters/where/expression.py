"""Conditions as trees: what a where filter says.

A tree has leaves (a comparison, BETWEEN, IN, LIKE and so on) and, above them, `And`, `Or` and `Not`. A leaf
is about an *operand*: an attribute, or an `Computation` on attributes and literals (`price * size`,
`lower(name)`).

`And` and `Or` are flat (no part of an `And` is an `And`), which makes the written form unique. Depth is
bounded by `MAX_DEPTH`, so plain recursion is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from distributary.filters.connectives import And as And
from distributary.filters.connectives import Not as Not
from distributary.filters.connectives import Or as Or
from distributary.filters.where.values import Duration, Instant, Months, TimeOfDay

MAX_DEPTH = 50


@dataclass(frozen=True, slots=True)
class Blank:
    """The place of a literal in a template: the literal itself is `values[index]`."""

    index: int


Literal = str | int | float | Decimal | bool | bytes | Instant | TimeOfDay | Duration | Months | None | Blank


@dataclass(frozen=True, slots=True)
class AttributeReference:
    """An attribute as an argument of an operation."""

    name: str


@dataclass(frozen=True, slots=True)
class Computation:
    """A function of `operations.FUNCTIONS`, or `now`, `case` or `condition`, and what it is applied to.

    An argument is an attribute, another operation, a literal or a condition. `case` has pairs of a condition
    and a value, and the value otherwise; `condition` is the truth of one condition. A third argument of
    `element` is the attribute that has the value where maps are flattened (`props['utm']` is `props.utm`).
    """

    function: str
    arguments: tuple[Any, ...] = ()


Operand = str | Computation
"""What a leaf is about: an attribute's name, or an operation."""


@dataclass(frozen=True, slots=True)
class Compare:
    """`attribute operator literal`, the operator one of = <> < <= > >=."""

    attribute: Operand
    operator: str
    literal: Literal


@dataclass(frozen=True, slots=True)
class CompareAttributes:
    """`left operator right`: two attributes of one event, or operations on them."""

    left: Operand
    operator: str
    right: Operand


@dataclass(frozen=True, slots=True)
class Between:
    """`attribute between low and high`, both bounds included."""

    attribute: Operand
    low: Literal
    high: Literal


@dataclass(frozen=True, slots=True)
class In:
    """`attribute in (literals)`."""

    attribute: Operand
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`attribute like pattern [escape escape]`; `like` says what patterns mean."""

    attribute: Operand
    pattern: str | Blank
    escape: str | Blank | None = None


@dataclass(frozen=True, slots=True)
class MatchesPattern:
    """`attribute regexp pattern`: the pattern, one of RE2's, is found in the text."""

    attribute: Operand
    pattern: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """`attribute is null`: the event does not have it."""

    attribute: Operand


@dataclass(frozen=True, slots=True)
class IsTruth:
    """`attribute is true` or `attribute is false`: never unknown."""

    attribute: Operand
    truth: bool


@dataclass(frozen=True, slots=True)
class Truth:
    """A boolean attribute by itself; unknown when it holds anything but a boolean."""

    attribute: Operand


@dataclass(frozen=True, slots=True)
class TruthConstant:
    """`true`, `false` or `null` as a condition."""

    truth: bool | None


Leaf = (
    Compare
    | CompareAttributes
    | Between
    | In
    | Like
    | MatchesPattern
    | IsNull
    | IsTruth
    | Truth
    | TruthConstant
)
Expression = Leaf | Not["Expression"] | And["Expression"] | Or["Expression"]

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


def all_leaves(expression: Expression) -> Iterator[Leaf]:
    """The leaves, and those of the conditions within operations (`case when a > 1 then ...`)."""
    for leaf in leaves(expression):
        yield leaf
        for operand in operands_of(leaf):
            yield from _leaves_in(operand)


def _leaves_in(argument: Any) -> Iterator[Leaf]:
    if isinstance(argument, Computation):
        for part in argument.arguments:
            yield from _leaves_in(part)
    elif isinstance(argument, CONDITIONS):
        yield from all_leaves(argument)


def operands_of(leaf: Leaf) -> tuple[Operand, ...]:
    """What a leaf is about."""
    if isinstance(leaf, CompareAttributes):
        return leaf.left, leaf.right
    return () if isinstance(leaf, TruthConstant) else (leaf.attribute,)


def attributes_of(expression: Expression) -> tuple[str, ...]:
    """The attributes it looks at, in the order in which they are written."""
    return tuple(dict.fromkeys(_names_in(expression)))


def attributes_of_operand(operand: Operand) -> tuple[str, ...]:
    """The attributes that an operand looks at, in the order in which they are written."""
    return (operand,) if isinstance(operand, str) else tuple(dict.fromkeys(_names_in_argument(operand)))


def _names_in(expression: Expression) -> Iterator[str]:
    for leaf in leaves(expression):
        for operand in operands_of(leaf):
            if isinstance(operand, str):
                yield operand
            else:
                yield from _names_in_argument(operand)


def _names_in_argument(argument: Any) -> Iterator[str]:
    if isinstance(argument, AttributeReference):
        yield argument.name
    elif isinstance(argument, Computation):
        for part in argument.arguments:
            yield from _names_in_argument(part)
    elif isinstance(argument, CONDITIONS):
        yield from _names_in(argument)


def fixed_literals(expression: Expression) -> Iterator[Any]:
    """The literals in operations and, blanks among them, those that leaves compare with."""
    for leaf in leaves(expression):
        yield from literals_of(leaf)
        for operand in operands_of(leaf):
            yield from _literals_in(operand) if isinstance(operand, Computation) else ()


def literals_of(leaf: Leaf) -> tuple[Any, ...]:
    """The literals that a leaf's operand is compared with, blanks among them."""
    match leaf:
        case Compare(_, _, literal):
            return (literal,)
        case Between(_, low, high):
            return low, high
        case In(_, literals):
            return literals
        case Like(_, pattern, escape):
            return pattern, escape
        case MatchesPattern(_, pattern):
            return (pattern,)
    return ()


def blanks_in(expression: Expression) -> set[int]:
    """The numbers of the blanks that leaves are compared with."""
    found = [literal for leaf in leaves(expression) for literal in literals_of(leaf)]
    return {literal.index for literal in found if isinstance(literal, Blank)}


def _literals_in(argument: Any) -> Iterator[Any]:
    if isinstance(argument, Computation):
        for part in argument.arguments:
            yield from _literals_in(part)
    elif isinstance(argument, CONDITIONS):
        yield from fixed_literals(argument)
    elif not isinstance(argument, AttributeReference):
        yield argument


def attributes_asked_for(expression: Expression) -> frozenset[str]:
    """The attributes of which it matters whether they are there: those of IS NULL and those in operations."""
    operands = [operand for leaf in leaves(expression) for operand in operands_of(leaf)]
    computed = {
        name for operand in operands if not isinstance(operand, str) for name in _names_in_argument(operand)
    }
    tested = {leaf.attribute for leaf in leaves(expression) if isinstance(leaf, IsNull)}
    return frozenset(computed | {name for name in tested if isinstance(name, str)})


def calls(expression: Expression, function: str) -> bool:
    """Whether an operation in it has this function."""
    operands = [operand for leaf in leaves(expression) for operand in operands_of(leaf)]
    return any(_calls(operand, function) for operand in operands)


def _calls(argument: Any, function: str) -> bool:
    if isinstance(argument, Computation):
        return argument.function == function or any(_calls(part, function) for part in argument.arguments)
    return isinstance(argument, CONDITIONS) and calls(argument, function)


CONDITIONS = (
    Compare,
    CompareAttributes,
    Between,
    In,
    Like,
    MatchesPattern,
    IsNull,
    IsTruth,
    Truth,
    TruthConstant,
)
CONDITIONS += (And, Or, Not)  # type: ignore[assignment]
"""The classes of expressions, which tell a condition from a literal among arguments."""


def rebuilt(expression: Expression, literal: Callable[[Any], Any], name: Callable[[str], str]) -> Expression:
    """The expression with each literal and each attribute's name changed, in the order they are written.

    The literals in operations stay as they are.
    """
    match expression:
        case And(parts) | Or(parts):
            return type(expression)(tuple([rebuilt(part, literal, name) for part in parts]))
        case Not(part):
            return Not(rebuilt(part, literal, name))
        case CompareAttributes(left, operator, right):
            return CompareAttributes(renamed(left, name), operator, renamed(right, name))
        case TruthConstant():
            return expression
    operand = expression.attribute
    operand = name(operand) if isinstance(operand, str) else renamed(operand, name)
    match expression:
        case Compare(_, operator, value):
            return Compare(operand, operator, literal(value))
        case Between(_, low, high):
            return Between(operand, literal(low), literal(high))
        case In(_, literals):
            return In(operand, tuple([literal(value) for value in literals]))
        case Like(_, pattern, escape):
            return Like(operand, literal(pattern), literal(escape))
        case MatchesPattern(_, pattern):
            return MatchesPattern(operand, pattern)
        case IsTruth(_, truth):
            return IsTruth(operand, truth)
        case IsNull():
            return IsNull(operand)
        case Truth():
            return Truth(operand)
    raise TypeError(f"not an expression: {expression!r}")


def argument_of(operand: Operand) -> AttributeReference | Computation:
    """The operand as an argument of an operation."""
    return AttributeReference(operand) if isinstance(operand, str) else operand


def renamed(operand: Operand, name: Callable[[str], str]) -> Operand:
    """The operand with each attribute's name changed."""
    if isinstance(operand, str):
        return name(operand)
    return Computation(operand.function, tuple([_renamed_argument(part, name) for part in operand.arguments]))


def _renamed_argument(argument: Any, name: Callable[[str], str]) -> Any:
    if isinstance(argument, AttributeReference):
        return AttributeReference(name(argument.name))
    if isinstance(argument, Computation):
        return renamed(argument, name)
    return rebuilt(argument, lambda literal: literal, name) if isinstance(argument, CONDITIONS) else argument


def fill(expression: Expression, values: tuple[Any, ...]) -> Expression:
    """The expression with each blank replaced by its value."""
    return rebuilt(expression, lambda literal: value_of(literal, values), str)


def value_of(literal: Any, values: tuple[Any, ...]) -> Any:
    """The literal, or the value that a blank stands for."""
    return values[literal.index] if type(literal) is Blank else literal

"""Scalar expressions over the attributes of an item: the tree, its types, its value, its text.

The language is the part of SQL that plain Python and Spark's ANSI mode can give the very same meaning:

- Integers have 64 bits. A result beyond them is null. `/` always divides numbers (both sides become doubles
  first) and gives null for a zero divisor, as `%` does; `%` has the sign of the left side.
- Numbers are finite doubles. A result that is not finite is null, and -0.0 is 0.0. An integer that meets a
  number in arithmetic, CASE or COALESCE becomes a double first; in a comparison the two compare exactly.
- Any operation on null is null, but for AND and OR (three-valued), IS NULL, COALESCE and CASE.
- Texts compare by code point. LENGTH counts code points; UPPER and LOWER change the letters a to z only, TRIM
  takes spaces (U+0020) only: everything else depends on an engine's edition of Unicode.
- SUBSTRING counts from 1; its start and length are literals. FLOOR and CEIL give an integer.

`resolve` checks an expression against a schema and puts a `Widen` where an integer becomes a number; after
it, `evaluate` needs no types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import sqlglot
from sqlglot.tokens import TokenType

from distributary.errors import InputError
from distributary.filters.where.write import write_literal, write_name
from distributary.flow.language.schema import MAX_INTEGER, MIN_INTEGER, Schema, Type, listed

MAX_DEPTH = 60

Place = int | None
"""Where in the text an expression stands; ignored when two expressions are compared."""


@dataclass(frozen=True, slots=True)
class Column:
    """The value of an attribute."""

    name: str
    place: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is written out; None is null."""

    value: str | int | float | bool | None
    place: Place = field(default=None, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:  # 1, 1.0 and true are three literals
        return (
            isinstance(other, Literal) and type(self.value) is type(other.value) and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Unary:
    """`operator` is one of -, not, is null."""

    operator: str
    operand: Expression
    place: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """`operator` is one of + - * / % || = <> < <= > >= and or."""

    operator: str
    left: Expression
    right: Expression
    place: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true, else `otherwise`."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    place: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`function` is one of `FUNCTIONS`."""

    function: str
    arguments: tuple[Expression, ...]
    place: Place = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Widen:
    """An integer as a number; put in by `resolve`, never written."""

    operand: Expression
    place: Place = field(default=None, compare=False, repr=False)


Expression = Column | Literal | Unary | Binary | Case | Call | Widen

Comparison = Callable[[Any, Any], bool]
COMPARISONS: dict[str, Comparison] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": lambda value: settled(abs(value)),
    "floor": lambda value: settled(math.floor(value)),
    "ceil": lambda value: settled(math.ceil(value)),
    "upper": lambda text: text.translate(UPPER),
    "lower": lambda text: text.translate(LOWER),
    "trim": lambda text: text.strip(" "),
    "length": len,
    "substring": lambda text, start, length=MAX_INTEGER: text[start - 1 : start - 1 + length],
    "concat": lambda *texts: "".join(texts),
    "coalesce": lambda *values: next((value for value in values if value is not None), None),
}
"""What each function gives for values none of which is null; `coalesce` takes nulls."""


def children(expression: Expression) -> tuple[Expression, ...]:
    """The parts an expression is made of."""
    match expression:
        case Unary(_, operand) | Widen(operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Case(branches, otherwise):
            return (*(part for branch in branches for part in branch), otherwise)
        case Call(_, arguments):
            return arguments
    return ()


# Types


@dataclass(frozen=True, slots=True)
class TypedExpression:
    """An expression that fits a schema, and the type of its value."""

    expression: Expression
    type: Type


def resolve(
    expression: Expression, schema: Schema, field: str = "expression", text: str | None = None
) -> TypedExpression:
    """Check an expression against a schema; `text` is what it was read from, for the position in an error.

    >>> schema = Schema({"size": "integer", "at": "integer"}, "at")
    >>> resolve(Binary("+", Column("size"), Literal(0.5)), schema).expression.left
    Widen(operand=Column(name='size'))
    """
    resolved, type = _Resolver(schema, field, text).resolve(expression)
    if type is None:
        raise InputError(
            "is always null, which has no type; use coalesce or case to give it one", field=field
        )
    return TypedExpression(resolved, type)


Outcome = tuple[Expression, Type | None]
"""A resolved expression and its type, None for a null."""

NUMERIC = (Type.INTEGER, Type.NUMBER)


class _Resolver:
    def __init__(self, schema: Schema, field: str, text: str | None) -> None:
        self._schema = schema
        self._field = field
        self._text = text

    def resolve(self, expression: Expression) -> Outcome:
        match expression:
            case Column(name):
                type = self._schema.type_of(name)
                if type is None:
                    there = listed(self._schema.attributes)
                    raise self._refusal(f"no attribute {name!r}; there are {there}", expression)
                return expression, type
            case Literal(value):
                return expression, literal_type(value)
            case Unary():
                return self._unary(expression)
            case Binary():
                return self._binary(expression)
            case Case(branches, otherwise):
                conditions = [
                    self._wanted(condition, Type.BOOLEAN, "a condition") for condition, _ in branches
                ]
                values, type = self._unified([*(value for _, value in branches), otherwise], "case")
                pairs = tuple(zip(conditions, values[:-1], strict=True))
                return replace(expression, branches=pairs, otherwise=values[-1]), type
            case Call():
                return self._call(expression)
            case Widen():
                return expression, Type.NUMBER
        raise TypeError(f"not an expression: {expression!r}")

    def _unary(self, node: Unary) -> Outcome:
        if node.operator == "is null":
            return replace(node, operand=self.resolve(node.operand)[0]), Type.BOOLEAN
        if node.operator == "not":
            return replace(node, operand=self._wanted(node.operand, Type.BOOLEAN, "not")), Type.BOOLEAN
        operand, type = self._numeric(node.operand, "-")
        return replace(node, operand=operand), type

    def _binary(self, node: Binary) -> Outcome:
        sign = node.operator
        if sign in ("and", "or", "||"):
            type = Type.TEXT if sign == "||" else Type.BOOLEAN
            sides = [self._wanted(side, type, sign) for side in (node.left, node.right)]
            return replace(node, left=sides[0], right=sides[1]), type
        if sign in COMPARISONS:
            return self._comparison(node)
        left, left_type = self._numeric(node.left, sign)
        right, right_type = self._numeric(node.right, sign)
        if sign == "/" or Type.NUMBER in (left_type, right_type):
            pair = widened(left, left_type), widened(right, right_type)
            return replace(node, left=pair[0], right=pair[1]), Type.NUMBER
        return replace(node, left=left, right=right), Type.INTEGER

    def _comparison(self, node: Binary) -> Outcome:
        (left, left_type), (right, right_type) = self.resolve(node.left), self.resolve(node.right)
        alike = left_type is right_type or None in (left_type, right_type)
        if not alike and not (left_type in NUMERIC and right_type in NUMERIC):
            raise self._refusal(f"{left_type} cannot be compared with {right_type}", node)
        return replace(node, left=left, right=right), Type.BOOLEAN

    def _call(self, node: Call) -> Outcome:
        name = node.function
        if name == "coalesce":
            values, type = self._unified(list(node.arguments), name)
            return replace(node, arguments=tuple(values)), type
        if name in ("abs", "floor", "ceil"):
            operand, type = self._numeric(node.arguments[0], name)
            return replace(node, arguments=(operand,)), type if name == "abs" else Type.INTEGER
        texts = node.arguments[:1] if name == "substring" else node.arguments
        resolved = tuple(self._wanted(text, Type.TEXT, name) for text in texts)
        rest = node.arguments[len(texts) :]
        result = Type.INTEGER if name == "length" else Type.TEXT
        return replace(node, arguments=resolved + rest), result

    def _wanted(self, part: Expression, type: Type, whose: str) -> Expression:
        resolved, found = self.resolve(part)
        if found is not None and found is not type:
            raise self._refusal(f"{whose} takes {type}, not {found}", part)
        return resolved

    def _numeric(self, part: Expression, whose: str) -> Outcome:
        resolved, found = self.resolve(part)
        if found is not None and found not in NUMERIC:
            raise self._refusal(f"{whose} takes integer or number, not {found}", part)
        return resolved, found or Type.INTEGER

    def _unified(self, parts: list[Expression], whose: str) -> tuple[list[Expression], Type | None]:
        """The parts as values of one type: integers beside numbers become numbers."""
        outcomes = [self.resolve(part) for part in parts]
        types = {type for _, type in outcomes if type is not None}
        if types == set(NUMERIC):
            return [widened(part, type) for part, type in outcomes], Type.NUMBER
        if len(types) > 1:
            first, second = sorted(types)[:2]
            raise self._refusal(f"{whose} would give {first} or {second}; one type is needed", parts[0])
        return [part for part, _ in outcomes], next(iter(types), None)

    def _refusal(self, reason: str, node: Expression) -> InputError:
        place = node.place if self._text is not None else None
        return InputError(reason, field=self._field, text=self._text or write(node), position=place)


def widened(part: Expression, type: Type | None) -> Expression:
    """The part as a number."""
    return Widen(part, part.place) if type is Type.INTEGER else part


def literal_type(value: Any) -> Type | None:
    """The type that a literal has; None for null."""
    kinds = {str: Type.TEXT, bool: Type.BOOLEAN, int: Type.INTEGER, float: Type.NUMBER}
    return kinds.get(type(value))


# Values


def evaluate(expression: Expression, attributes: Mapping[str, Any]) -> Any:
    """The value of a resolved expression for an item's attributes.

    >>> evaluate(Binary("%", Literal(-7), Literal(3)), {})
    -1
    """
    match expression:
        case Column(name):
            return attributes[name]
        case Literal(value):
            return value
        case Binary("and" | "or" as operator, left, right):
            return _connected(operator == "or", left, right, attributes)
        case Binary(operator, left, right):
            values = evaluate(left, attributes), evaluate(right, attributes)
            return None if None in values else _combined(operator, *values)
        case Unary("is null", operand):
            return evaluate(operand, attributes) is None
        case Unary(operator, operand):
            value = evaluate(operand, attributes)
            if value is None:
                return None
            return not value if operator == "not" else settled(-value)
        case Widen(operand):
            value = evaluate(operand, attributes)
            return None if value is None else float(value)
        case Case(branches, otherwise):
            for condition, result in branches:
                if evaluate(condition, attributes) is True:
                    return evaluate(result, attributes)
            return evaluate(otherwise, attributes)
        case Call(function, arguments):
            given = [evaluate(argument, attributes) for argument in arguments]
            return None if None in given and function != "coalesce" else FUNCTIONS[function](*given)
    raise TypeError(f"not an expression: {expression!r}")


def _connected(
    deciding: bool, left: Expression, right: Expression, attributes: Mapping[str, Any]
) -> bool | None:
    """Three-valued AND (decided by false) and OR (decided by true)."""
    sides = evaluate(left, attributes), evaluate(right, attributes)
    if deciding in sides:
        return deciding
    return None if None in sides else not deciding


def _combined(operator: str, left: Any, right: Any) -> Any:
    if operator in COMPARISONS:
        return COMPARISONS[operator](left, right)
    match operator:
        case "||" | "+":
            return left + right if operator == "||" else settled(left + right)
        case "-":
            return settled(left - right)
        case "*":
            return settled(left * right)
    if right == 0:
        return None
    if operator == "/":
        return settled(left / right)
    if isinstance(left, float):
        return settled(math.fmod(left, right))
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def settled(value: int | float) -> int | float | None:
    """A result of arithmetic as a stream may hold it: null beyond 64 bits or the finite, and no -0.0."""
    if isinstance(value, int):
        return value if MIN_INTEGER <= value <= MAX_INTEGER else None
    return value + 0.0 if math.isfinite(value) else None


# Writing


def write(expression: Expression) -> str:
    """The expression as SQL; read again it is the same. `Widen` is not written, for `resolve` puts it back.

    >>> write(Binary("*", Binary("+", Column("a"), Literal(1)), Column("odd name")))
    '(a + 1) * "odd name"'
    """
    match expression:
        case Column(name):
            return _write_column(name)
        case Literal(value):
            return write_literal(value)
        case Unary("is null", operand):
            return f"{_enclosed(operand)} is null"
        case Unary("not", operand):
            return f"not {_enclosed(operand)}"
        case Unary(_, operand):
            return f"-{_enclosed(operand)}"
        case Binary(operator, left, right):
            return f"{_enclosed(left)} {operator} {_enclosed(right)}"
        case Case(branches, otherwise):
            cases = " ".join(f"when {write(condition)} then {write(value)}" for condition, value in branches)
            return f"case {cases} else {write(otherwise)} end"
        case Call(function, arguments):
            return f"{function}({', '.join(map(write, arguments))})"
        case Widen(operand):
            return write(operand)
    raise TypeError(f"not an expression: {expression!r}")


def _enclosed(part: Expression) -> str:
    negative = isinstance(part, Literal) and type(part.value) in (int, float) and write(part)[0] == "-"
    compound = isinstance(part, (Unary, Binary)) or negative
    if isinstance(part, Widen):
        return _enclosed(part.operand)
    return f"({write(part)})" if compound else write(part)


@lru_cache(maxsize=4096)
def _write_column(name: str) -> str:
    """Quoted unless it is a plain word that SQL cannot read as something else."""
    written = write_name(name)
    if written.startswith('"'):
        return written
    tokens = [token for part in name.split(".") for token in sqlglot.tokenize(part, dialect="postgres")]
    return written if all(token.token_type is TokenType.VAR for token in tokens) else f'"{name}"'

"""How conditions are written: the one text of each, which is read back as the same condition."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

from distributary.filters.where.expression import (
    CONDITIONS,
    And,
    AttributeReference,
    Between,
    Blank,
    Compare,
    CompareAttributes,
    Computation,
    Expression,
    In,
    IsNull,
    IsTruth,
    Like,
    Literal,
    MatchesPattern,
    Not,
    Operand,
    Or,
    Truth,
    TruthConstant,
)
from distributary.filters.where.operations import EXACT
from distributary.filters.where.values import Duration, Instant, Months, TimeOfDay

KEYWORDS = frozenset({"and", "or", "not", "in", "between", "like", "escape", "is", "null", "true", "false"})
"""Words that are never an attribute unless they are quoted."""
SPECIAL_VALUES = frozenset(
    {"nan", "infinity", "current_timestamp", "current_date", "current_time", "localtimestamp"}
)
"""Words that other databases take for values; as attributes they must be quoted."""

OPERATION_KEY = "\x03"
"""What the key of an operation begins with, so that it is no attribute's name."""

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
        case Compare(operand, operator, literal):
            return f"{write_operand(operand)} {operator} {write_literal(literal)}"
        case CompareAttributes(left, operator, right):
            return f"{write_operand(left)} {operator} {write_operand(right)}"
        case Between() | In() | Like() | MatchesPattern() | IsNull() | IsTruth():
            return _write_predicate(expression, "")
        case Truth(operand):
            return write_operand(operand)
        case TruthConstant(truth):
            return write_literal(truth)
    raise TypeError(f"not an expression: {expression!r}")


def _write_negation(part: Expression) -> str:
    if isinstance(part, (Between, In, Like, MatchesPattern, IsNull, IsTruth)):
        return _write_predicate(part, "not ")
    return f"not {_enclosed(part) if isinstance(part, (And, Or)) else write(part)}"


def _write_predicate(leaf: Between | In | Like | MatchesPattern | IsNull | IsTruth, negation: str) -> str:
    name = write_operand(leaf.attribute)
    match leaf:
        case Between(_, low, high):
            return f"{name} {negation}between {write_literal(low)} and {write_literal(high)}"
        case In(_, literals):
            return f"{name} {negation}in ({', '.join(map(write_literal, literals))})"
        case Like(_, pattern, escape):
            ending = "" if escape is None else f" escape {write_literal(escape)}"
            return f"{name} {negation}like {write_literal(pattern)}{ending}"
        case MatchesPattern(_, pattern):
            return f"{name} {negation}regexp {write_literal(pattern)}"
        case IsNull():
            return f"{name} is {negation}null"
        case IsTruth(_, truth):
            return f"{name} is {negation}{write_literal(truth)}"


def _enclosed(expression: Expression) -> str:
    return f"({write(expression)})"


def operand_key(operand: Operand) -> str:
    """What an operand is called where attributes go by their names: an operation by its text, marked."""
    return operand if isinstance(operand, str) else OPERATION_KEY + write_operand(operand)


def write_operand(operand: Operand) -> str:
    """An attribute's name or an operation as SQL.

    >>> write_operand(Computation("+", (AttributeReference("a"), 1)))
    '(a + 1)'
    """
    if isinstance(operand, str):
        return write_name(operand)
    function, arguments = operand.function, operand.arguments
    written = [_write_argument(argument) for argument in arguments]
    match function:
        case "+" | "-" | "*" | "/" | "%" | "||":
            return f"({written[0]} {function} {written[1]})"
        case "negative":
            return f"(- {written[0]})"
        case "condition":
            return written[0]
        case "cast":
            name, _, scale = str(arguments[1]).partition(" ")
            size = f"({scale.replace(' ', ', ')})" if scale else ""
            return f"cast({written[0]} as {name}{size})"
        case "case":
            pairs = zip(written[:-1:2], written[1::2], strict=True)
            whens = " ".join(f"when {test} then {value}" for test, value in pairs)
            return f"case {whens} else {written[-1]} end"
        case "element":
            return f"{written[0]}[{written[1]}]"
        case "each":
            return f"{written[0]}[*]" + "".join(f"[{key}]" for key in written[1:])
    return f"{function}({', '.join(written)})"


def _write_argument(argument: Any) -> str:
    if isinstance(argument, AttributeReference):
        return write_name(argument.name)
    if isinstance(argument, Computation):
        return write_operand(argument)
    return _enclosed(argument) if isinstance(argument, CONDITIONS) else write_literal(argument)


@lru_cache(maxsize=4096)
def write_name(name: str) -> str:
    """An attribute's name, quoted when it would not be read as one otherwise.

    >>> write_name("wind.speed"), write_name("odd name"), write_name("in")
    ('wind.speed', '"odd name"', '"in"')
    """
    if _BARE_NAME.fullmatch(name) and (KEYWORDS | SPECIAL_VALUES).isdisjoint(name.lower().split(".")):
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
    if type(literal) is Decimal:
        return _write_decimal(literal)
    if type(literal) is bytes:
        return f"x'{literal.hex()}'"
    for kind, word in _TIMES.items():
        if type(literal) is kind:
            is_date = type(literal) is Instant and " " not in str(literal)
            return f"{'date' if is_date else word} '{literal!s}'"
    return "null" if literal is None else "true" if literal else "false"


_TIMES: dict[type, str] = {
    Instant: "timestamp",
    TimeOfDay: "time",
    Duration: "interval",
    Months: "interval",
}


def _write_decimal(literal: Decimal) -> str:
    """A decimal with a point or an exponent, so that it is not read as an integer."""
    reduced = literal.normalize(EXACT)
    sign, digits, exponent = reduced.as_tuple()
    if isinstance(exponent, int) and -40 < exponent < 0:
        return format(reduced, "f")
    written = f"{'-' if sign else ''}{''.join(map(str, digits))}"
    return f"{written}e{exponent}" if exponent else f"{written}.0"

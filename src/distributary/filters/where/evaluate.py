"""How a condition is evaluated for an event.

SQL's three-valued logic: an expression is true, false or unknown (None). A comparison is unknown when a
side is missing or the sides are of different kinds; `values` says what compares with what. A leaf about
`items[*].price` is true when it is true of any of the items.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from distributary.errors import FilterError
from distributary.filters.where.expression import (
    CONDITIONS,
    And,
    AttributeReference,
    Between,
    Compare,
    CompareAttributes,
    Computation,
    Expression,
    In,
    IsNull,
    IsTruth,
    Like,
    MatchesPattern,
    Not,
    Or,
    Truth,
    TruthConstant,
    value_of,
)
from distributary.filters.where.like import like_pattern
from distributary.filters.where.operations import FUNCTIONS
from distributary.filters.where.values import Several, compare, compare_with_literal, plain
from distributary.model import Value

NOW = "\x03now"
"""Under this key the attributes of an event hold its arrival, for `now()`."""

Attributes = Mapping[str, Value]


def evaluate(expression: Expression, attributes: Attributes, values: tuple[Any, ...] = ()) -> bool | None:
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
            return _compare_any(operand_value(left, attributes), operator, operand_value(right, attributes))
    operand = expression.attribute
    value = attributes.get(operand) if type(operand) is str else operand_value(operand, attributes)
    if type(value) is Several:
        return _any_of([_evaluate_leaf(expression, each, values) for each in value.values])
    return _evaluate_leaf(expression, value, values)


def _evaluate_leaf(
    leaf: Compare | Between | In | Like | MatchesPattern | IsNull | IsTruth | Truth,
    value: Any,
    values: tuple[Any, ...],
) -> bool | None:
    match leaf:
        case Compare(_, operator, literal):
            return compare_with_literal(value, operator, value_of(literal, values))
        case Between(_, low, high):
            bounds = (
                compare_with_literal(value, ">=", value_of(low, values)),
                compare_with_literal(value, "<=", value_of(high, values)),
            )
            return False if False in bounds else None if None in bounds else True
        case In(_, literals):
            return _any_of(
                [compare_with_literal(value, "=", value_of(literal, values)) for literal in literals]
            )
        case Like(_, pattern, escape):
            if not isinstance(value, str):
                return None
            return like_pattern(value_of(pattern, values), value_of(escape, values)).matches(value)
        case MatchesPattern(_, pattern):
            return regular_expression(pattern).search(value) is not None if isinstance(value, str) else None
        case IsNull():
            return value is None
    truth = plain(value)
    match leaf:
        case IsTruth(_, wanted):
            return truth is wanted
        case Truth():
            return truth if isinstance(truth, bool) else None


def _any_of(outcomes: list[bool | None]) -> bool | None:
    return True if True in outcomes else None if None in outcomes else False


def _compare_any(left: Any, operator: str, right: Any) -> bool | None:
    if isinstance(left, Several):
        return _any_of([_compare_any(each, operator, right) for each in left.values])
    if isinstance(right, Several):
        return _any_of([compare(left, operator, each) for each in right.values])
    return compare(left, operator, right)


def operand_value(operand: Any, attributes: Attributes) -> Any:
    """The value of an operand, or of an argument of an operation, for these attributes; None for none.

    >>> operand_value(Computation("lower", (AttributeReference("name"),)), {"name": "Ann"})
    'ann'
    """
    if isinstance(operand, str):
        return attributes.get(operand)
    return _operation_value(operand, attributes)


def _operation_value(operation: Computation, attributes: Attributes) -> Any:
    arguments = operation.arguments
    match operation.function:
        case "now":
            return attributes.get(NOW)
        case "condition":
            return evaluate(arguments[0], attributes)
        case "case":
            for place in range(0, len(arguments) - 1, 2):
                if evaluate(arguments[place], attributes) is True:
                    return _argument_value(arguments[place + 1], attributes)
            return _argument_value(arguments[-1], attributes)
        case "element" if len(arguments) == 3:
            within = _argument_value(Computation("element", arguments[:2]), attributes)
            return _argument_value(arguments[2], attributes) if within is None else within
    function = FUNCTIONS[operation.function]
    values = [_argument_value(argument, attributes) for argument in arguments]
    if None in values and not function.takes_null:
        return None
    return plain(function.compute(*values))


def _argument_value(argument: Any, attributes: Attributes) -> Any:
    if isinstance(argument, AttributeReference):
        return plain(attributes.get(argument.name))
    if isinstance(argument, Computation):
        return _operation_value(argument, attributes)
    return evaluate(argument, attributes) if isinstance(argument, CONDITIONS) else argument


def _combined(
    parts: tuple[Expression, ...], attributes: Attributes, values: tuple[Any, ...], deciding: bool
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


MAX_PATTERN = 1000
"""A regular expression of more characters is refused."""


@lru_cache(maxsize=1024)
def regular_expression(pattern: str) -> Any:
    """The pattern as RE2 has it, whose time is linear in the text; FilterError when it is none."""
    import re2

    if len(pattern) > MAX_PATTERN:
        raise FilterError(f"a regular expression of more than {MAX_PATTERN} characters", field="where")
    options = re2.Options()
    options.log_errors, options.max_mem = False, 1 << 22
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args else "it is not understood"
        raise FilterError(f"a regular expression that RE2 refuses: {reason}", field="where") from None

"""Operands and leaves of conditions as functions of attributes: what is fixed is looked up once.

For whoever asks the same condition about event after event. They give what `evaluate` gives, which walks the
tree each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distributary.filters.where.evaluate import (
    Attributes,
    evaluate,
    operand_value,
    regular_expression,
)
from distributary.filters.where.expression import (
    CONDITIONS,
    AttributeReference,
    Blank,
    Compare,
    CompareAttributes,
    Computation,
    Leaf,
    Like,
    MatchesPattern,
    Operand,
)
from distributary.filters.where.like import like_pattern
from distributary.filters.where.operations import FUNCTIONS
from distributary.filters.where.values import Several, compare, compare_with_literal, plain

OperandValue = Callable[[Attributes], Any]
LeafTruth = Callable[[Attributes], bool | None]


def operand_function(operand: Operand) -> OperandValue:
    """The value of an operand, as a function of the attributes; as `operand_value` has it.

    >>> operand_function(Computation("lower", (AttributeReference("name"),)))({"name": "Ann"})
    'ann'
    """
    if isinstance(operand, str):
        return lambda attributes: attributes.get(operand)
    if operand.function == "case":
        return _case_function(operand)
    function = FUNCTIONS.get(operand.function)
    if function is None or (operand.function == "element" and len(operand.arguments) == 3):
        return lambda attributes: operand_value(operand, attributes)
    compute, takes_null = function.compute, function.takes_null
    arguments = [_argument_function(argument) for argument in operand.arguments]
    if len(arguments) == 2:
        left, right = arguments

        def of_two(attributes: Attributes) -> Any:
            one, other = left(attributes), right(attributes)
            if (one is None or other is None) and not takes_null:
                return None
            return plain(compute(one, other))

        return of_two
    if len(arguments) == 1 and not takes_null:
        (only,) = arguments

        def of_one(attributes: Attributes) -> Any:
            value = only(attributes)
            return None if value is None else plain(compute(value))

        return of_one

    def of_any(attributes: Attributes) -> Any:
        values = [argument(attributes) for argument in arguments]
        if not takes_null:
            for value in values:
                if value is None:
                    return None
        return plain(compute(*values))

    return of_any


def _case_function(operand: Computation) -> OperandValue:
    """The value behind the first condition that is true."""
    *branches, otherwise = map(_argument_function, operand.arguments)
    choices = list(zip(branches[::2], branches[1::2], strict=True))

    def chosen(attributes: Attributes) -> Any:
        for condition, value in choices:
            if condition(attributes) is True:
                return value(attributes)
        return otherwise(attributes)

    return chosen


def _argument_function(argument: Any) -> OperandValue:
    if isinstance(argument, AttributeReference):
        name = argument.name
        return lambda attributes: plain(attributes.get(name))
    if isinstance(argument, Computation):
        return operand_function(argument)
    if isinstance(argument, Compare):
        return leaf_function(argument)
    if isinstance(argument, CONDITIONS):
        return lambda attributes: evaluate(argument, attributes)
    return lambda attributes: argument


def leaf_function(leaf: Leaf) -> LeafTruth:
    """The truth of a leaf, as a function of the attributes; as `evaluate` has it.

    >>> leaf_function(Like("name", "A%"))({"name": "Ann"})
    True
    """
    match leaf:
        case CompareAttributes(left, operator, right):
            return _comparison(operand_function(left), operator, operand_function(right), leaf)
        case Compare(str(name), operator, literal) if not isinstance(literal, Blank):
            return lambda attributes: compare_with_literal(attributes.get(name), operator, literal)
        case Like(str(name), str(pattern), escape) if escape is None or isinstance(escape, str):
            return _text_test(name, like_pattern(pattern, escape).matches)
        case MatchesPattern(str(name), pattern):
            search = regular_expression(pattern).search
            return _text_test(name, lambda text: search(text) is not None)
    return lambda attributes: evaluate(leaf, attributes)


def _comparison(left: OperandValue, operator: str, right: OperandValue, leaf: Leaf) -> LeafTruth:
    def compared(attributes: Attributes) -> bool | None:
        one, other = left(attributes), right(attributes)
        if isinstance(one, Several) or isinstance(other, Several):
            return evaluate(leaf, attributes)
        return compare(one, operator, other)

    return compared


def _text_test(name: str, holds: Callable[[str], bool]) -> LeafTruth:
    def tested(attributes: Attributes) -> bool | None:
        value = attributes.get(name)
        return holds(value) if isinstance(value, str) else None

    return tested

"""Evaluating expressions on plain numbers, exactly where the numbers are whole or fractions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from distributary.plan.goal.expression import GoalFunction, Number


def divide(left: Number, right: Number) -> Number:
    """A quotient, as a fraction if both are whole numbers; divided by 0 it is infinite.

    >>> divide(1, 3), divide(1.0, 4), divide(-1, 0)
    (Fraction(1, 3), 0.25, -inf)
    """
    if right == 0:
        return math.inf if left >= 0 else -math.inf
    return Fraction(left, right) if isinstance(left, int) and isinstance(right, int) else left / right


OPERATIONS: Mapping[str, Callable[[Any, Any], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
}


def combine(sign: str, left: Number | None, right: Number | None) -> Number | None:
    """Two values joined by `+ - * /`; without one of them there is no value."""
    return None if left is None or right is None else OPERATIONS[sign](left, right)


def fold(function: GoalFunction, values: Sequence[Number | None], *, zero: bool = False) -> Number | None:
    """MIN, MAX, SUM or AVERAGE of the values that there are; of none, nothing (with `zero`, a SUM of 0)."""
    there = [value for value in values if value is not None]
    if not there:
        return 0 if zero and function is GoalFunction.SUM else None
    if function is GoalFunction.MIN:
        return min(there)
    if function is GoalFunction.MAX:
        return max(there)
    total = sum(there)
    return total if function is GoalFunction.SUM else divide(total, len(there))

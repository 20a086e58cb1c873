"""Expressions over arrays: evaluating them, folding them, and taking them apart into sums.

An array holds a value for each node, or for each node (last axis) and each site that is tried (first axis).
What has no value is not a number (NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.goal import expression as goals
from distributary.plan.goal.expression import Combination, Expression, GoalAggregate, GoalFunction, Measure
from distributary.plan.queries.state import Floats


class UnfitError(DistributaryError):
    """A cost that none of the forms here can say; it is measured anew instead."""


Multiples = list[tuple[float, str]]
"""Quantities of nodes, each with the factor that it is multiplied by."""


def evaluated(expression: Expression, lookup: Callable[[Expression], Floats]) -> Floats:
    """An expression over arrays; measures and aggregates are looked up.

    >>> double = Combination("*", Measure("load", goals.Place.NODE), goals.GoalConstant(2))
    >>> evaluated(double, lambda part: np.array([1.0, 5.0]))
    array([ 2., 10.])
    """
    if isinstance(expression, goals.GoalConstant):
        return np.array(float(expression.value))
    if not isinstance(expression, Combination):
        return lookup(expression)
    left, right = evaluated(expression.left, lookup), evaluated(expression.right, lookup)
    if expression.operator != "/":
        combined: Any = goals.OPERATIONS[expression.operator](left, right)
        return np.asarray(combined)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(right == 0, np.where(left >= 0, np.inf, -np.inf), left / right)


def folded(function: GoalFunction, values: Floats) -> Floats:
    """MIN, MAX, SUM or AVERAGE along the last axis, of the values that there are."""
    missing = np.isnan(values)
    if not missing.any():
        if not values.shape[-1]:
            return np.full(values.shape[:-1], 0.0 if function is GoalFunction.SUM else np.nan)
        if function.is_additive:
            total = values.sum(axis=-1)
            return np.asarray(total if function is GoalFunction.SUM else total / values.shape[-1])
        return np.asarray(values.min(axis=-1) if function is GoalFunction.MIN else values.max(axis=-1))
    filled = np.where(missing, function.identity, values)
    if function is GoalFunction.SUM:
        return np.asarray(filled.sum(axis=-1))
    if function is GoalFunction.AVERAGE:
        there = (~missing).sum(axis=-1)
        return np.where(there > 0, filled.sum(axis=-1) / np.maximum(there, 1), np.nan)
    found = filled.min(axis=-1) if function is GoalFunction.MIN else filled.max(axis=-1)
    return np.where(missing.all(axis=-1), np.nan, found)


# Sums of parts


def terms(
    expression: Expression, is_part: Callable[[Expression], bool]
) -> tuple[list[tuple[float, Expression]], Expression | None]:
    """The expression as a sum of multiples of such parts, and the rest, in which there are none.

    >>> load, delay = Measure("load", goals.Place.OPERATOR), Measure("node delay", goals.Place.NODE)
    >>> both = Combination("-", load, Combination("*", goals.GoalConstant(2), delay))
    >>> found, rest = terms(both, lambda part: part == delay)
    >>> [(factor, part.name) for factor, part in found], rest.name
    ([(-2.0, 'node delay')], 'load')
    """
    if is_part(expression):
        return [(1.0, expression)], None
    if not any(is_part(part) for part in goals.parts(expression)):
        return [], expression
    if not isinstance(expression, Combination):
        raise UnfitError("a value of nodes inside another aggregate")
    left, left_rest = terms(expression.left, is_part)
    right, right_rest = terms(expression.right, is_part)
    if expression.operator in ("+", "-"):
        sign = 1.0 if expression.operator == "+" else -1.0
        found = left + [(sign * factor, part) for factor, part in right]
        if left_rest is not None and right_rest is not None:
            return found, Combination(expression.operator, left_rest, right_rest)
        if right_rest is not None and sign < 0:
            return found, Combination("-", goals.GoalConstant(0), right_rest)
        return found, left_rest if right_rest is None else right_rest
    if isinstance(expression.right, goals.GoalConstant) and expression.right.value and left_rest is None:
        by = float(expression.right.value)
        by = by if expression.operator == "*" else 1 / by
        return [(by * factor, part) for factor, part in left], None
    if isinstance(expression.left, goals.GoalConstant) and expression.operator == "*" and right_rest is None:
        by = float(expression.left.value)
        return [(by * factor, part) for factor, part in right], None
    raise UnfitError("values of nodes that are multiplied or divided")


def weighted_sum(found: Sequence[tuple[float, Expression]]) -> Expression | None:
    """The sum of multiples of parts as one expression; None of no parts."""
    multiplied: list[Expression] = [
        Combination("*", goals.GoalConstant(factor), part) for factor, part in found
    ]
    return reduce(partial(Combination, "+"), multiplied) if multiplied else None


def is_of_node(expression: Expression) -> bool:
    """Whether an expression is a value of a node, by itself."""
    if isinstance(expression, Measure):
        return expression.place is goals.Place.NODE or expression.name == "processing latency"
    return isinstance(expression, GoalAggregate) and expression.over is goals.Scope.LOCAL


# Quantities of nodes

OPERATOR_SUMS: Mapping[str, str] = {
    "load": "load",
    "input rate": "input",
    "produced rate": "produced",
    "output rate": "published",
    "selectivity": "selectivity",
}
"""Statistics of operators, and the quantity that is their sum at each node (`state.QUANTITIES`)."""

NODE_QUANTITIES: Mapping[str, str] = {
    "node load": "load",
    "operators": "operators",
    "fanout": "fanout",
    "incoming rate": "incoming",
    "forwarding rate": "forwarding",
}
"""Statistics of nodes, and the quantity that each is."""


def local_multiples(aggregate: GoalAggregate) -> Multiples:
    """An aggregate of local operators as multiples of quantities."""
    if aggregate.function is not GoalFunction.SUM:
        raise UnfitError("an aggregate of local operators that is no sum")
    found, rest = terms(
        aggregate.value, lambda part: isinstance(part, Measure) and part.name in OPERATOR_SUMS
    )
    if rest is not None:
        raise UnfitError("a sum over local operators of something else than their statistics")
    return [(factor, OPERATOR_SUMS[part.name]) for factor, part in found if isinstance(part, Measure)]


def multiples(expression: Expression) -> Multiples | None:
    """A value of nodes as multiples of quantities (a constant aside), if it is nothing else."""

    def simple(part: Expression) -> bool:
        return isinstance(part, GoalAggregate) or (isinstance(part, Measure) and part.name in NODE_QUANTITIES)

    try:
        found, rest = terms(expression, simple)
        if rest is not None and not isinstance(rest, goals.GoalConstant):
            return None
        quantities: Multiples = []
        for factor, part in found:
            if isinstance(part, GoalAggregate):
                quantities += [(factor * times, name) for times, name in local_multiples(part)]
            elif isinstance(part, Measure):
                quantities.append((factor, NODE_QUANTITIES[part.name]))
    except UnfitError:
        return None
    return quantities

"""The unit of a goal's values, from the units of what it measures.

Rules:

- A unit is a text, such as `ms`. `""` is the unit of what is only a number. None is no unit: values of
  different units were added, or many were multiplied.
- MIN, MAX, SUM, AVERAGE and STD keep the unit of what they take together; a VARIANCE has its square.
- A number that is written into the goal is of the unit that it is added to.
"""

from __future__ import annotations

from collections.abc import Mapping

from distributary.plan.goal.expression import (
    Combination,
    Expression,
    GoalAggregate,
    GoalConstant,
    GoalFunction,
    Measure,
    SystemCost,
    parts,
)


def unit_of(value: Expression, units: Mapping[str, str]) -> str | None:
    """The unit of an expression; `units` has those of the measures by name, `""` if one is not there.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> cost = parse_goal("minimise aggregate(MAX, aggregate(SUM, link latency * 2 + 5, PATH), BROKERS)").cost
    >>> unit_of(cost.value, {"link latency": "ms"})
    'ms'
    """
    if isinstance(value, Measure):
        return units.get(value.name, "")
    if isinstance(value, GoalAggregate):
        return unit_of(value.value, units)
    if not isinstance(value, Combination):
        return ""
    left, right = unit_of(value.left, units), unit_of(value.right, units)
    if value.operator in ("+", "-"):
        if _is_number(value.left):
            return right
        return left if left == right or _is_number(value.right) else None
    if left is None or right is None:
        return None
    return _product(left, right) if value.operator == "*" else _quotient(left, right)


def system_unit(cost: SystemCost, units: Mapping[str, str]) -> str | None:
    """The unit of the system's cost."""
    unit = unit_of(cost.value, units)
    if cost.function is GoalFunction.PRODUCT:
        return "" if unit == "" else None
    if cost.function is GoalFunction.VARIANCE and unit:
        return f"{unit}²" if unit.isalpha() else f"({unit})²"
    return unit


def _is_number(value: Expression) -> bool:
    """Whether nothing in it is measured."""
    return all(isinstance(part, GoalConstant | Combination) for part in parts(value))


def _product(left: str, right: str) -> str:
    return f"{left}·{right}" if left and right else left or right


def _quotient(left: str, right: str) -> str:
    if left == right:
        return ""
    return f"{left or '1'}/{right}" if right else left

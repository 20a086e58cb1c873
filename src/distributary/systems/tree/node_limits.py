"""Constraints on the whole tree and over CHILDREN that are constraints on single nodes in other words.

Brokers keep constraints that a node and its parent can weigh. Some of the others say nothing else:

- `aggregate(MAX, X, BROKERS) <= c` says that X is at most c at every node that has it; so do `MIN` and `>=`.
- `aggregate(MAX, X, CHILDREN) <= c`, where X is of the link from the parent, says the same of every node but
  the root, which has no such link.

All others stay as they are, and are refused (`CostModel`). A sum, an average or a spread over the tree
changes with every change anywhere: two newcomers that keep it each would break it together, so whoever let
nodes in would need its value as of this moment, and what the root is told is a period old. The same is true
over the CHILDREN of a node, whose parent knows neither the link nor the values of who comes. A MAX that must
be large, or a MIN that must be small, is kept by one node, and nobody could tell which may move.
"""

from __future__ import annotations

from dataclasses import replace

from distributary.plan.goal.expression import (
    Constraint,
    GoalAggregate,
    GoalFunction,
    GoalMembers,
    Place,
    Scope,
    SystemCost,
)
from distributary.plan.trees.metrics import metrics_of

OF_EACH = frozenset(
    {(GoalFunction.MAX, "<"), (GoalFunction.MAX, "<="), (GoalFunction.MIN, ">"), (GoalFunction.MIN, ">=")}
)
"""Functions and comparisons that hold of an aggregate if and only if they hold of each value in it."""


def on_nodes(constraint: Constraint) -> Constraint:
    """The same constraint on single nodes, where there is one; else as it is.

    >>> from distributary.plan.goal.text import constraint_text
    >>> from distributary.plan.trees.goals import parse_goal
    >>> cost, limit = "aggregate(SUM, fanout, BROKERS)", "aggregate(MAX, cpu, BROKERS) <= 7"
    >>> goal = parse_goal(f"minimise {cost}; subject to {limit}")
    >>> constraint_text(on_nodes(goal.constraints[0]))
    'cpu <= 7'
    """
    metric = constraint.metric
    if isinstance(metric, SystemCost):
        of_brokers = metric.members is not GoalMembers.CLIENTS
        if of_brokers and (metric.function, constraint.comparison) in OF_EACH:
            return on_nodes(replace(constraint, metric=metric.value))
    elif isinstance(metric, GoalAggregate) and metric.over is Scope.CHILDREN:
        of_links = any(one.place is Place.LINK for one in metrics_of(metric.value))
        if of_links and (metric.function, constraint.comparison) in OF_EACH:
            return replace(constraint, metric=metric.value)
    return constraint

"""Goals that a node can follow with what its neighbourhood tells it, and what these goals ask for.

Rules:

- Over BROKERS: any cost of nodes that is made of totals which a node can tell: the work of its operators, how
  many these are, what comes in, is forwarded, sent and given out. The system's cost may be any aggregate.
- Over QUERIES: sums and averages of queries' costs that are sums of path costs, of what lies between
  operators and their producers. A change then touches the operators that move and those that read them, and
  no others.
- Constraints on nodes, of the same totals.

All others (the worst query, say, or the time an item takes at a node, on which all queries depend that pass
there) need more than a neighbourhood knows: such a network is sent a snapshot of the whole (`snapshot`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.plan.goal import expression as language
from distributary.plan.goal.expression import Goal, GoalAggregate, GoalFunction, GoalMembers
from distributary.plan.queries.evaluation import terms
from distributary.plan.queries.forms import NodeForm
from distributary.plan.queries.graph import QueryWorkload
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.queries.state import PlacementState
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree

TOTALS: Mapping[str, str] = {
    "load": "load",
    "node load": "load",
    "operators": "operators",
    "incoming rate": "incoming",
    "forwarding rate": "forwarding",
    "output rate": "published",
    "produced rate": "produced",
}
"""Statistics that a node can tell its total of, and the planner's names for the totals."""


def is_local(goal: Goal) -> bool:
    """Whether a goal's changes can be weighed exactly by what neighbours know of themselves.

    >>> from distributary.plan.queries.goals import parse_query_goal
    >>> is_local(parse_query_goal("minimise aggregate(MAX, node load, BROKERS)"))
    True
    """
    bounded = all(_bounds_nodes(constraint.metric) for constraint in goal.constraints)
    if goal.cost.members is GoalMembers.QUERIES:
        return bounded and path_cost_of(goal.cost) is not None
    return bounded and _is_of_totals(goal.cost.value)


def _bounds_nodes(metric: language.Expression | language.SystemCost) -> bool:
    if isinstance(metric, language.SystemCost):
        return False
    return language.place_of(metric) is language.Place.NODE and _is_of_totals(metric)


def _is_of_totals(expression: language.Expression) -> bool:
    for part in language.parts(expression):
        if isinstance(part, language.Measure) and part.name not in (*TOTALS, "capacity"):
            return False
        if isinstance(part, GoalAggregate) and part.function is not GoalFunction.SUM:
            return False
    try:
        value_of(expression, {})
    except DistributaryError:
        return False
    return True


class OperatorPathCost(NamedTuple):
    """The cost of an operator: a factor of the links between it and its producers, and a constant."""

    factor: float
    link: language.Expression
    constant: float


def path_cost_of(cost: language.SystemCost) -> OperatorPathCost | None:
    """The path cost that a cost is a sum of, over queries and their operators; None if it is another."""
    query = cost.value
    if cost.members is not GoalMembers.QUERIES or not cost.function.is_additive:
        return None
    if not isinstance(query, GoalAggregate) or query.function is not GoalFunction.SUM:
        return None
    try:
        found, rest = terms(query.value, lambda part: isinstance(part, GoalAggregate))
    except DistributaryError:
        return None
    if len(found) != 1 or not (rest is None or isinstance(rest, language.GoalConstant)):
        return None
    factor, path = found[0]
    assert isinstance(path, GoalAggregate)
    named = language.names_in(path.value)
    if path.function is not GoalFunction.SUM or path.over is not language.Scope.UPSTREAM:
        return None
    constant = 0.0 if rest is None else float(rest.value)
    return OperatorPathCost(factor, path.value, constant) if named == {"latency"} else None


def value_of(expression: language.Expression, totals: Mapping[str, float], speed: float = 1000.0) -> float:
    """A node's value, from its totals and the cycles a second of its processor."""
    alone = SiteNetwork(Sites([[0]]), (Tree((NO_PARENT,)),), (speed / 1000,))
    state = PlacementState(Placement(QueryWorkload((), (), ()), alone, ()))
    for name, total in totals.items():
        state.quantities[name][0] = total
    return float(NodeForm(expression, state).values()[0])


def totals_of(goal: Goal) -> tuple[str, ...]:
    """The totals that nodes must know of each other to weigh changes."""
    expressions = [goal.cost.value] if goal.cost.members is GoalMembers.BROKERS else []
    expressions += [one.metric for one in goal.constraints if not isinstance(one.metric, language.SystemCost)]
    named = {name for one in expressions for name in language.names_in(one)}
    return tuple(sorted({TOTALS[name] for name in named if name in TOTALS}))

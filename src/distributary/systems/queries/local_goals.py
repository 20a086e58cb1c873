"""Goals that a node can follow with what its neighbourhood tells it, and what these goals ask for.

Rules:

- Scope BROKERS: any cost of nodes that is made of totals which a node can tell: what its operators work, how
  many these are, what comes in, is forwarded, sent and given out. The system's cost may be any aggregate.
- Scope QUERIES: sums and averages of queries' costs that are sums of what lies between operators and their
  producers. A change then touches the operators that move and those that read them, and nobody else.
- Constraints on nodes, of the same totals.

All others (the worst query, say, or the time an item takes at a node, on which all queries hang that pass
there) need more than a neighbourhood knows: such a network is told the whole situation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.plan.goal import (
    Constraint,
    Expression,
    Goal,
    GoalAggregate,
    GoalConstant,
    GoalFunction,
    GoalMembers,
    Measure,
    Place,
    Scope,
    SystemCost,
    parts,
    place_of,
)
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
    bounded = all(_bounds_nodes(constraint) for constraint in goal.constraints)
    if goal.cost.members is GoalMembers.QUERIES:
        return bounded and path_cost_of(goal.cost) is not None
    return bounded and _is_of_totals(goal.cost.value)


def _bounds_nodes(constraint: Constraint) -> bool:
    metric = constraint.metric
    return not isinstance(metric, SystemCost) and place_of(metric) is Place.NODE and _is_of_totals(metric)


def _is_of_totals(expression: Expression) -> bool:
    for part in parts(expression):
        if isinstance(part, Measure) and part.name not in (*TOTALS, "capacity"):
            return False
        if isinstance(part, GoalAggregate) and part.function is not GoalFunction.SUM:
            return False
    try:
        value_of(expression, {})
    except DistributaryError:
        return False
    return True


class PathCost(NamedTuple):
    """Costs of operators that are what lies between them and their producers, and constants."""

    factor: float
    link: Expression
    constant: float


def path_cost_of(cost: SystemCost) -> PathCost | None:
    """The ways that a cost is a sum of, over queries and their operators; None if it is another."""
    query = cost.value
    if cost.members is not GoalMembers.QUERIES or not cost.function.is_additive:
        return None
    if not isinstance(query, GoalAggregate) or query.function is not GoalFunction.SUM:
        return None
    try:
        found, rest = terms(query.value, lambda part: isinstance(part, GoalAggregate))
    except DistributaryError:
        return None
    if len(found) != 1 or not (rest is None or isinstance(rest, GoalConstant)):
        return None
    factor, way = found[0]
    assert isinstance(way, GoalAggregate)
    named = [part.name for part in parts(way.value) if isinstance(part, Measure)]
    plain = way.function is GoalFunction.SUM and way.over is Scope.UPSTREAM and set(named) == {"latency"}
    return PathCost(factor, way.value, 0.0 if rest is None else float(rest.value)) if plain else None


def value_of(expression: Expression, totals: Mapping[str, float]) -> float:
    """A node's value, from its totals."""
    alone = SiteNetwork(Sites([[0]]), (Tree((NO_PARENT,)),))
    state = PlacementState(Placement(QueryWorkload((), (), ()), alone, ()))
    for name, total in totals.items():
        state.quantities[name][0] = total
    return float(NodeForm(expression, state).values()[0])


def totals_of(goal: Goal) -> tuple[str, ...]:
    """The totals that nodes must know of each other to weigh changes."""
    expressions = [goal.cost.value] if goal.cost.members is GoalMembers.BROKERS else []
    expressions += [one.metric for one in goal.constraints if not isinstance(one.metric, SystemCost)]
    named = {part.name for one in expressions for part in parts(one) if isinstance(part, Measure)}
    return tuple(sorted({TOTALS[name] for name in named if name in TOTALS}))

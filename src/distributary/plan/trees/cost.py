"""What a tree costs, measured site by site: the plain answer that everything faster is checked against.

Cost: one pass over the tree for each aggregate, and one measurement of each metric a site.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from distributary.errors import DistributaryError
from distributary.plan.goal.tree_goal import (
    Aggregate,
    Combination,
    Constant,
    Constraint,
    Expression,
    Function,
    Goal,
    Local,
    Members,
    Over,
    SystemCost,
)
from distributary.plan.goal.tree_text import cost_text
from distributary.plan.trees.metrics import Place
from distributary.plan.trees.tree import NO_PARENT, Number, Sites, Tree

Costs = list[Number | None]


def divide(left: Number, right: Number) -> Number:
    """A quotient; by nothing at all it is beyond all bounds, and no climb goes there."""
    if right == 0:
        return math.inf if left >= 0 else -math.inf
    return Fraction(left, right) if isinstance(left, int) and isinstance(right, int) else left / right


OPERATIONS: Mapping[str, Callable[[Any, Any], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
}


def local_value(expression: Expression, sites: Sites, tree: Tree, site: int) -> Number | None:
    """A local metric, or a combination of them, at one site."""
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Local):
        if expression.metric.place is Place.LINK and tree.parents[site] == NO_PARENT:
            return None
        return expression.metric.function(sites, tree, site)
    if isinstance(expression, Combination):
        left = local_value(expression.left, sites, tree, site)
        right = local_value(expression.right, sites, tree, site)
        return None if left is None or right is None else OPERATIONS[expression.operator](left, right)
    raise DistributaryError("a local metric holds no aggregate")


def fold(function: Function, values: Sequence[Number]) -> Number | None:
    """MIN, MAX, SUM or AVERAGE of some values; of none, nothing."""
    if not values:
        return None
    if function is Function.MIN:
        return min(values)
    if function is Function.MAX:
        return max(values)
    total = sum(values)
    return total if function is Function.SUM else divide(total, len(values))


def node_costs(expression: Expression, sites: Sites, tree: Tree) -> Costs:
    """Every site's cost; None where it has none."""
    everyone = range(len(tree.parents))
    if isinstance(expression, Combination):
        left = node_costs(expression.left, sites, tree)
        right = node_costs(expression.right, sites, tree)
        combine = OPERATIONS[expression.operator]
        return [None if a is None or b is None else combine(a, b) for a, b in zip(left, right, strict=True)]
    if not isinstance(expression, Aggregate):
        return [local_value(expression, sites, tree, site) for site in everyone]
    local = [local_value(expression.value, sites, tree, site) for site in everyone]
    reach = tree.path if expression.over is Over.PATH else tree.children.__getitem__
    costs: Costs = []
    for members in map(reach, everyone):
        values = [value for value in map(local.__getitem__, members) if value is not None]
        empty_sum = expression.over is Over.CHILDREN and expression.function is Function.SUM
        costs.append(0 if empty_sum and not values else fold(expression.function, values))
    return costs


def weights(members: Members, sites: Sites) -> list[int]:
    """How many values each site's cost counts for in the system's."""
    if sites.counts:
        return list(sites.counts)
    brokers = 0 if members is Members.CLIENTS else 1
    if members is Members.BROKERS:
        return [brokers] * sites.count
    if not sites.clients:
        raise DistributaryError("the goal aggregates over clients, and no clients were given")
    return [brokers + clients for clients in sites.clients]


def aggregated(function: Function, costs: Sequence[Number | None], weight: Sequence[int]) -> Number:
    """The system's cost from the sites' costs."""
    pairs = [(cost, times) for cost, times in zip(costs, weight, strict=True) if cost is not None and times]
    if not pairs:
        raise DistributaryError("no site has the cost that the goal aggregates")
    values = [cost for cost, _ in pairs]
    if function is Function.MIN:
        return min(values)
    if function is Function.MAX:
        return max(values)
    if function is Function.PRODUCT:
        product: Number = 1
        for cost, times in pairs:
            product *= cost**times
        return product
    count = sum(times for _, times in pairs)
    total = sum(cost * times for cost, times in pairs)
    if function is Function.SUM:
        return total
    mean = divide(total, count)
    if function is Function.AVERAGE:
        return mean
    variance = divide(sum((cost - mean) ** 2 * times for cost, times in pairs), count - 1) if count > 1 else 0
    return variance if function is Function.VARIANCE else math.sqrt(variance)


def system_cost(cost: SystemCost, sites: Sites, tree: Tree) -> Number:
    """What the tree costs.

    >>> from distributary.plan.goal.tree_text import parse_goal
    >>> goal = parse_goal("minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)")
    >>> sites = Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]])
    >>> system_cost(goal.cost, sites, Tree((-1, 0, 1))), system_cost(goal.cost, sites, Tree((-1, 0, 0)))
    (8, 9)
    """
    return aggregated(cost.function, node_costs(cost.node, sites, tree), weights(cost.members, sites))


def violations(goal: Goal, sites: Sites, tree: Tree) -> list[str]:
    """Which constraints the tree breaks, and where."""
    return [text for constraint in goal.constraints for text in broken(constraint, sites, tree)]


def broken(constraint: Constraint, sites: Sites, tree: Tree) -> list[str]:
    wanted = f"{cost_text(constraint.metric)} {constraint.comparison} {constraint.threshold}"
    if isinstance(constraint.metric, SystemCost):
        value = system_cost(constraint.metric, sites, tree)
        return [] if constraint.holds(value) else [f"{wanted}: it is {value}"]
    costs = node_costs(constraint.metric, sites, tree)
    return [
        f"{wanted}: at {sites.name(site)} it is {cost}"
        for site, cost in enumerate(costs)
        if cost is not None and not constraint.holds(cost)
    ]

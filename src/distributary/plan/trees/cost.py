"""What a tree costs, measured site by site: the plain answer that everything faster is checked against.

Cost: one pass over the tree for each aggregate, and one measurement of each metric a site.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from distributary.errors import DistributaryError
from distributary.plan.goal import expression as goals
from distributary.plan.goal.expression import Expression, GoalFunction, Number, SystemCost
from distributary.plan.goal.text import constraint_text
from distributary.plan.trees.metrics import Metric
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree

Costs = list[Number | None]


def local_value(expression: Expression, sites: Sites, tree: Tree, site: int) -> Number | None:
    """A local metric, or a combination of them, at one site; the root has no value of a link."""
    if isinstance(expression, goals.GoalConstant):
        return expression.value
    if isinstance(expression, Metric):
        if expression.place is goals.Place.LINK and tree.parents[site] == NO_PARENT:
            return None
        return expression.function(sites, tree, site)
    if isinstance(expression, goals.Combination):
        left = local_value(expression.left, sites, tree, site)
        return goals.combine(expression.operator, left, local_value(expression.right, sites, tree, site))
    raise DistributaryError("a local metric holds no aggregate")


def node_costs(expression: Expression, sites: Sites, tree: Tree) -> Costs:
    """Every site's cost; None where it has none."""
    if isinstance(expression, goals.Combination):
        both = zip(
            node_costs(expression.left, sites, tree), node_costs(expression.right, sites, tree), strict=True
        )
        return [goals.combine(expression.operator, left, right) for left, right in both]
    everyone = range(len(tree.parents))
    if not isinstance(expression, goals.GoalAggregate):
        return [local_value(expression, sites, tree, site) for site in everyone]
    local = [local_value(expression.value, sites, tree, site) for site in everyone]
    return [folded_at(expression, tree, site, local.__getitem__) for site in everyone]


def folded_at(
    expression: goals.GoalAggregate, tree: Tree, site: int, local: Callable[[int], Number | None]
) -> Number | None:
    """An aggregate at one site, from the local values along its path or of its children."""
    over_children = expression.over is goals.Scope.CHILDREN
    members = tree.children[site] if over_children else tree.path(site)
    return goals.fold(expression.function, list(map(local, members)), zero=over_children)


def weights(members: goals.GoalMembers, sites: Sites) -> list[int]:
    """How many values each site's cost counts for in the system's."""
    if sites.counts:
        return list(sites.counts)
    brokers = 0 if members is goals.GoalMembers.CLIENTS else 1
    if members is goals.GoalMembers.BROKERS:
        return [brokers] * sites.count
    if not sites.clients:
        raise DistributaryError("the goal aggregates over clients, and no clients were given")
    return [brokers + clients for clients in sites.clients]


def aggregated(function: GoalFunction, costs: Sequence[Number | None], weight: Sequence[int]) -> Number:
    """The system's cost from the sites' costs."""
    pairs = [(cost, times) for cost, times in zip(costs, weight, strict=True) if cost is not None and times]
    if not pairs:
        raise DistributaryError("no site has the cost that the goal aggregates")
    values = [cost for cost, _ in pairs]
    if function.is_bottleneck:
        return min(values) if function is GoalFunction.MIN else max(values)
    if function is GoalFunction.PRODUCT:
        return 0 if 0 in values else _product(pairs)
    count = sum(times for _, times in pairs)
    total = sum(cost * times for cost, times in pairs)
    if function is GoalFunction.SUM:
        return total
    mean = goals.divide(total, count)
    if function is GoalFunction.AVERAGE:
        return mean
    variance = (
        goals.divide(sum((cost - mean) ** 2 * times for cost, times in pairs), count - 1) if count > 1 else 0
    )
    return variance if function is GoalFunction.VARIANCE else math.sqrt(variance)


def _product(pairs: Iterable[tuple[Number, int]]) -> Number:
    """The product of costs other than 0, each so many times; infinite beyond what a float holds.

    Whole numbers and fractions could be larger, but then a float could not be compared with them.
    """
    product: Number = 1
    for cost, times in pairs:
        try:
            larger = product * cost**times
            float(larger)
        except OverflowError:
            turns = cost < 0 and times % 2 == 1
            larger = -math.inf if (product < 0) != turns else math.inf
        product = larger
    return product


def from_moments(function: GoalFunction, count: int, total: Number, squares: Number) -> Number:
    """SUM, AVERAGE, VARIANCE or STD from the number of values, their sum and the sum of their squares."""
    if function is GoalFunction.SUM:
        return total
    if function is GoalFunction.AVERAGE:
        return goals.divide(total, count)
    variance = goals.divide(squares - goals.divide(total * total, count), count - 1) if count > 1 else 0
    variance = max(variance, 0)  # rounding may leave a trace below
    return variance if function is GoalFunction.VARIANCE else math.sqrt(variance)


Moments = tuple[int, Number, Number]
"""How many values there are, their sum and the sum of their squares, about a reference."""


class TreeCost:
    """The system's cost of a tree, and every site's; subclasses know what it is after a rewrite."""

    def __init__(self, cost: SystemCost, sites: Sites, tree: Tree, costs: Costs) -> None:
        self.function = cost.function
        self.tree = tree
        self.costs = costs
        self.weights = weights(cost.members, sites)
        self.cost: Number = aggregated(self.function, costs, self.weights)
        # Squares are taken about the present mean: about zero they would drown the variance in rounding.
        about_mean = self.function in (GoalFunction.VARIANCE, GoalFunction.STD)
        self.reference = aggregated(GoalFunction.AVERAGE, costs, self.weights) if about_mean else 0

    def moments(self, times: int, cost: Number | None) -> Moments:
        """The moments of so many sites with the same cost."""
        if cost is None or not times:
            return 0, 0, 0
        distance = cost - self.reference
        return times, times * distance, times * distance * distance

    def cost_after(self, changes: Mapping[int, int]) -> Number:
        """The system's cost with these sites under these parents."""
        raise NotImplementedError

    def values(self) -> Iterable[tuple[int, Number | None]]:
        """The cost as a constraint sees it: one value, for which the root stands."""
        return [(self.tree.root, self.cost)]

    def changed(
        self, changes: Mapping[int, int], after: Tree
    ) -> Iterable[tuple[Number | None, Number | None]]:
        """The value before and after a rewrite."""
        return [(self.cost, self.cost_after(changes))]


def system_cost(cost: SystemCost, sites: Sites, tree: Tree) -> Number:
    """What the tree costs.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> goal = parse_goal("minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)")
    >>> sites = Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]])
    >>> system_cost(goal.cost, sites, Tree((-1, 0, 1))), system_cost(goal.cost, sites, Tree((-1, 0, 0)))
    (8, 9)
    """
    return aggregated(cost.function, node_costs(cost.value, sites, tree), weights(cost.members, sites))


def violations(goal: goals.Goal, sites: Sites, tree: Tree) -> list[str]:
    """Which constraints the tree breaks, and where."""
    return [text for constraint in goal.constraints for text in broken(constraint, sites, tree)]


def broken(constraint: goals.Constraint, sites: Sites, tree: Tree) -> list[str]:
    """Where the tree breaks one constraint."""
    wanted = constraint_text(constraint)
    if isinstance(constraint.metric, SystemCost):
        value = system_cost(constraint.metric, sites, tree)
        return [] if constraint.holds(value) else [f"{wanted}: it is {value}"]
    return [
        f"{wanted}: at {sites.name(site)} it is {cost}"
        for site, cost in enumerate(node_costs(constraint.metric, sites, tree))
        if cost is not None and not constraint.holds(cost)
    ]

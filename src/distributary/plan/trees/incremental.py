"""What a rewrite does to the cost of any goal: only the sites that it can reach are measured again.

Rules:

- Whom a rewrite reaches follows from what the metrics read (`metrics.Reads`): a moved site, its old and new
  parent, or the paths above it; then, where costs aggregate over PATH, all below those, and where they
  aggregate over CHILDREN, their parents.
- The system's cost then needs the old costs, and the new ones of those that were reached (equation 4.3, which
  the seed uses for combined metrics and local ones).

Cost: the new tree's sites once, and for each site reached its path. `path_cost` is faster, for fewer goals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from distributary.plan.goal import expression as goals
from distributary.plan.goal.expression import Expression, GoalAggregate, GoalFunction, Number, Scope
from distributary.plan.trees import cost as costing
from distributary.plan.trees.cost import Costs, TreeCost, local_value
from distributary.plan.trees.metrics import Reads, metrics_of
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree


def measured_again(expression: Expression, tree: Tree, after: Tree, changes: Mapping[int, int]) -> set[int]:
    """The sites where a local metric, or a combination of them, may have another value."""
    reads = {metric.reads for metric in metrics_of(expression)}
    if Reads.ANYTHING in reads:
        return set(range(len(tree.parents)))
    again: set[int] = set()
    if reads - {Reads.NOTHING}:
        again |= changes.keys()
    if Reads.CHILDREN in reads:
        again |= {tree.parents[site] for site in changes} | set(changes.values())
    if Reads.SUBTREE in reads:
        for site in changes:
            again.update(tree.path(site))
            again.update(after.path(site))
    return again


class NodeCosts:
    """The sites' costs in a tree, and those that a rewrite changes."""

    def __init__(self, expression: Expression, sites: Sites, tree: Tree) -> None:
        self.expression = expression
        self.sites = sites
        self.tree = tree
        self.costs: Costs = costing.node_costs(expression, sites, tree)
        self.local: Costs = []
        self.parts: tuple[NodeCosts, ...] = ()
        if isinstance(expression, GoalAggregate):
            self.local = [local_value(expression.value, sites, tree, site) for site in range(sites.count)]
        elif isinstance(expression, goals.Combination):
            self.parts = (NodeCosts(expression.left, sites, tree), NodeCosts(expression.right, sites, tree))

    def values(self) -> Iterable[tuple[int, Number | None]]:
        """Every site and its cost."""
        return enumerate(self.costs)

    def changed(
        self, changes: Mapping[int, int], after: Tree
    ) -> Iterable[tuple[Number | None, Number | None]]:
        """The costs before and after a rewrite of all sites whose cost may change."""
        return ((self.costs[site], cost) for site, cost in self.after(changes, after).items())

    def after(self, changes: Mapping[int, int], after: Tree) -> dict[int, Number | None]:
        """The new costs of all sites whose cost may change; `after` is the tree with the changes."""
        if isinstance(self.expression, GoalAggregate):
            return self._aggregate_after(self.expression, changes, after)
        if isinstance(self.expression, goals.Combination):
            return self._combination_after(self.expression, changes, after)
        again = measured_again(self.expression, self.tree, after, changes)
        return {site: local_value(self.expression, self.sites, after, site) for site in again}

    def _combination_after(
        self, expression: goals.Combination, changes: Mapping[int, int], after: Tree
    ) -> dict[int, Number | None]:
        left, right = (part.after(changes, after) for part in self.parts)
        costs: dict[int, Number | None] = {}
        for site in left.keys() | right.keys():
            one = left[site] if site in left else self.parts[0].costs[site]
            other = right[site] if site in right else self.parts[1].costs[site]
            costs[site] = goals.combine(expression.operator, one, other)
        return costs

    def _aggregate_after(
        self, expression: GoalAggregate, changes: Mapping[int, int], after: Tree
    ) -> dict[int, Number | None]:
        again = measured_again(expression.value, self.tree, after, changes)
        local = {site: local_value(expression.value, self.sites, after, site) for site in again}
        reached: set[int] = set()
        if expression.over is Scope.PATH:
            for site in again | changes.keys():
                if site not in reached:
                    reached.update(after.subtree(site))
        else:
            reached = {after.parents[site] for site in again | changes.keys()}
            reached |= {self.tree.parents[site] for site in changes}
            reached.discard(NO_PARENT)

        def value(member: int) -> Number | None:
            return local[member] if member in local else self.local[member]

        return {site: costing.folded_at(expression, after, site, value) for site in reached}


class IncrementalCost(TreeCost):
    """The system's cost of a tree, and what it is after a rewrite."""

    def __init__(self, cost: goals.SystemCost, sites: Sites, tree: Tree) -> None:
        self.nodes = NodeCosts(cost.value, sites, tree)
        super().__init__(cost, sites, tree, self.nodes.costs)
        self.measured = 0
        """How many costs were measured for rewrites: what has been spent on them."""
        counted = [site for site, c in enumerate(self.costs) if c is not None and self.weights[site]]
        moments = [self.moments(self.weights[site], self.costs[site]) for site in counted]
        self._totals = [sum(moment[part] for moment in moments) for part in range(3)]
        largest_first = self.function is GoalFunction.MAX
        self._ranked = sorted(counted, key=lambda site: self.costs[site] or 0, reverse=largest_first)

    def cost_after(self, changes: Mapping[int, int]) -> Number:
        """The system's cost with these sites under these parents; not a number if no site has a cost then."""
        costs = self.nodes.after(changes, self.tree.changed(changes))
        self.measured += len(costs)
        if self.function.is_bottleneck:
            values = [cost for site, cost in costs.items() if cost is not None and self.weights[site]]
            untouched = next((self.costs[site] for site in self._ranked if site not in costs), None)
            best: Number = (min if self.function is GoalFunction.MIN else max)(
                [*values, *([] if untouched is None else [untouched])], default=math.nan
            )
            return best
        if self.function is GoalFunction.PRODUCT:
            merged = [costs.get(site, cost) for site, cost in enumerate(self.costs)]
            someone = any(c is not None and times for c, times in zip(merged, self.weights, strict=True))
            return costing.aggregated(self.function, merged, self.weights) if someone else math.nan
        count, total, squares = self._totals
        for site, cost in costs.items():
            before = self.moments(self.weights[site], self.costs[site])
            now = self.moments(self.weights[site], cost)
            count += now[0] - before[0]
            total += now[1] - before[1]
            squares += now[2] - before[2]
        return costing.from_moments(self.function, int(count), total, squares) if count else math.nan

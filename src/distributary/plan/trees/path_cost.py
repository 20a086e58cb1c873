"""What a rewrite does to a cost that aggregates links over the path: from the state of Table 4.6 alone.

Below a site whose cost changed, everybody's new cost follows from the site's own, without measuring anything:
with SUM it changes by as much; with MIN (or MAX) it becomes the smaller (larger) of the site's new cost and
`h`, the worst link between the two. Both hold whether costs rise or fall and whether they are maximised or
minimised, which the case by case equations of the seed's section 4.3.3 mix up in places; only the first line
of each of those is needed.

Rules:

- A subtree that moves in one piece is known by its top: how many there are (the weight of D), the extreme of
  their costs, sums and squares of them (three numbers, where the seed keeps every cost), or how often each
  `h` occurs below (T). A site with a move below it is taken apart into itself and its children.
- Sites untouched by a rewrite are intervals of the depth-first order, whose totals and extremes are known.
- AVERAGE over the path is left to `incremental`: a change of depth changes everyone's divisor.

| type | state of a subtree |
|---|---|
| I | weight |
| II | T |
| III | extreme of the costs |
| IV | extreme of h |
| V | weight, sum, sum of squares (PRODUCT: every cost) |
| VI | T |

Cost: a tree is read in the sites times the logarithm (T: times the depth); a rewrite costs its unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import accumulate

from distributary.plan.goal.expression import (
    Expression,
    GoalAggregate,
    GoalFunction,
    Number,
    Place,
    Scope,
    SystemCost,
)
from distributary.plan.trees.cost import Moments, TreeCost, aggregated, from_moments, local_value
from distributary.plan.trees.metrics import BUILT_IN, Metric, Reads, measured, metrics_of
from distributary.plan.trees.tree import Matrix, Sites, Tree, star

Links = list[list[Number | None]]
"""The local value of a site under a parent, `[parent][site]`; on the diagonal, of the site as root."""

MATRICES = {"link latency": "latency", "link bandwidth": "bandwidth"}
"""Metrics whose values need no measuring: they were given for every pair."""


def is_path_cost(cost: SystemCost) -> bool:
    """Whether the cost is one that this module knows."""
    node = cost.value
    return (
        isinstance(node, GoalAggregate)
        and node.over is Scope.PATH
        and node.function is not GoalFunction.AVERAGE
        and all(metric.reads in (Reads.NOTHING, Reads.PARENT) for metric in metrics_of(node))
    )


def link_values(cost: SystemCost, sites: Sites) -> Links:
    """Measure the local metric of a cost that this module knows, for every pair of sites."""
    assert isinstance(cost.value, GoalAggregate)
    expression = cost.value.value
    matrix = _matrix(expression, sites)
    if matrix:
        return [
            [None if site == parent else value for site, value in enumerate(row)]
            for parent, row in enumerate(matrix)
        ]
    stars = (star(sites.count, root) for root in range(sites.count))
    return [[local_value(expression, sites, tree, site) for site in range(sites.count)] for tree in stars]


def _matrix(expression: Expression, sites: Sites) -> Matrix:
    """The values of a metric that was given for every pair; empty for any other expression."""
    if isinstance(expression, Metric) and expression.name in MATRICES:
        is_built_in = expression is BUILT_IN[expression.name]
        return getattr(sites, MATRICES[expression.name]) if is_built_in else ()
    if isinstance(expression, Metric) and expression == measured(expression.name, Place.LINK):
        return sites.link_metrics.get(expression.name, ())
    return ()


class TreePathCost(TreeCost):
    """The system's cost of a tree, and what it is after a rewrite."""

    def __init__(self, cost: SystemCost, sites: Sites, tree: Tree, links: Links) -> None:
        assert isinstance(cost.value, GoalAggregate)
        self.node_function = cost.value.function
        self._join = self.node_function.join
        self.links = links
        self.local: list[Number | None] = [
            links[site if site == tree.root else tree.parents[site]][site] for site in range(sites.count)
        ]
        costs: list[Number | None] = [None] * sites.count
        for site in tree.order:
            above = None if site == tree.root else costs[tree.parents[site]]
            costs[site] = self.joined(above, self.local[site])
        super().__init__(cost, sites, tree, costs)
        self.extreme: Callable[[Number, Number], Number] = self.function.join
        """Of two costs, the one that a system's MIN or MAX takes."""
        self._below: dict[int, dict[Number, int]] = {}
        self._read_order()

    def joined(self, above: Number | None, local: Number | None) -> Number | None:
        """A cost from the one above and the site's own metric; either may be missing."""
        if above is None or local is None:
            return local if above is None else above
        joined: Number = self._join(above, local)
        return joined

    def _read_order(self) -> None:
        """Totals and extremes along the depth-first order, in which every subtree is an interval."""
        order = self.tree.order
        if self.function.is_bottleneck:
            self._nothing = self.function.identity
            costs = ((self.costs[site], self.weights[site]) for site in order)
            row: list[Number] = [self._nothing if c is None or not times else c for c, times in costs]
            self._extremes = [row]
            width = 1
            while 2 * width <= len(row):
                last = self._extremes[-1]
                self._extremes.append(list(map(self.extreme, last, last[width:])))
                width *= 2
        else:
            moments = (self.moments(self.weights[site], self.costs[site]) for site in order)
            self._sums = [list(accumulate(row, initial=0)) for row in zip(*moments, strict=True)]

    def extreme_between(self, start: int, end: int) -> Number:
        """The extreme cost in an interval of the order."""
        if start >= end:
            return self._nothing
        level = (end - start).bit_length() - 1
        row = self._extremes[level]
        return self.extreme(row[start], row[end - (1 << level)])

    def moments_of(self, site: int) -> Moments:
        """Weight, sum and sum of squares of a subtree."""
        start = self.tree.position[site]
        end = start + self.tree.size[site]
        count, total, squares = (sums[end] - sums[start] for sums in self._sums)
        return int(count), total, squares

    def below(self, site: int) -> dict[Number, int]:
        """T: how many below the site see each worst link between the site and themselves."""
        if site not in self._below:
            known: Counter[Number] = Counter()
            for child in self.tree.children[site]:
                local = self.local[child]
                assert local is not None
                known[local] += self.weights[child]
                for worst, times in self.below(child).items():
                    known[self._join(worst, local)] += times
            self._below[site] = known
        return self._below[site]

    # A rewrite

    def pieces(self, changes: Mapping[int, int]) -> tuple[list[int], list[int]]:
        """The sites to look at one by one, and the tops of the subtrees that stay in one piece."""
        above: set[int] = set()
        for site in changes:
            parent = self.tree.parents[site]
            while parent != -1 and parent not in above:
                above.add(parent)
                parent = self.tree.parents[parent]
        apart: list[int] = []
        whole: list[int] = []
        waiting = list(changes)
        while waiting:
            site = waiting.pop()
            if site not in above:
                whole.append(site)
                continue
            apart.append(site)
            waiting.extend(child for child in self.tree.children[site] if child not in changes)
        return apart, whole

    def costs_of(self, changes: Mapping[int, int]) -> Callable[[int], Number | None]:
        """A function that tells any site's new cost, by way of the sites above it."""
        known: dict[int, Number | None] = {self.tree.root: self.costs[self.tree.root]}

        def new_cost(site: int) -> Number | None:
            way = []
            while site not in known:
                way.append(site)
                site = changes.get(site, self.tree.parents[site])
            for below in reversed(way):
                parent = changes.get(below, self.tree.parents[below])
                local = self.links[parent][below] if below in changes else self.local[below]
                known[below] = self.joined(known[parent], local)
            return known[way[0]] if way else known[site]

        return new_cost

    def cost_after(self, changes: Mapping[int, int]) -> Number:
        apart, whole = self.pieces(changes)
        new_cost = self.costs_of(changes)
        if self.function.is_bottleneck:
            return self._extreme_after(apart, whole, new_cost)
        if self.function is GoalFunction.PRODUCT:
            return self._product_after(apart, whole, new_cost)
        count, total, squares = self.moments_of(self.tree.root)
        moments, weights = self.moments, self.weights
        moved = [(moments(weights[at], self.costs[at]), moments(weights[at], new_cost(at))) for at in apart]
        moved += [(self.moments_of(top), self.subtree_moments(top, new_cost(top))) for top in whole]
        for before, now in moved:
            total, squares = total + now[1] - before[1], squares + now[2] - before[2]
        return from_moments(self.function, count, total, squares)

    def subtree_moments(self, site: int, cost: Number | None) -> Moments:
        """The moments of a subtree when its top has this cost."""
        before = self.costs[site]
        assert cost is not None
        assert before is not None
        if self.node_function is GoalFunction.SUM:
            count, total, squares = self.moments_of(site)
            change = cost - before
            return count, total + change * count, squares + 2 * change * total + change * change * count
        count, total, squares = self.moments(self.weights[site], cost)
        for worst, times in self.below(site).items():
            more = self.moments(times, self.joined(cost, worst))
            count, total, squares = count + more[0], total + more[1], squares + more[2]
        return count, total, squares

    def extreme_of(self, site: int) -> Number:
        """The extreme cost of a subtree."""
        start = self.tree.position[site]
        return self.extreme_between(start, start + self.tree.size[site])

    def worst_below(self, site: int) -> Number:
        """The extreme of h below the site, over those that count."""
        values = [worst for worst, times in self.below(site).items() if times]
        best = min if self.function is GoalFunction.MIN else max
        return best(values, default=self._nothing)

    def _extreme_after(
        self, apart: list[int], whole: list[int], new_cost: Callable[[int], Number | None]
    ) -> Number:
        found: Number = self._nothing
        for site in apart:
            cost = new_cost(site)
            if cost is not None and self.weights[site]:
                found = self.extreme(found, cost)
        for site in whole:
            found = self.extreme(found, self.subtree_extreme(site, new_cost(site)))
        position, size = self.tree.position, self.tree.size
        cuts = [(position[site], position[site] + 1) for site in apart]
        cuts += [(position[site], position[site] + size[site]) for site in whole]
        cuts.sort()
        start = 0
        for cut, end in cuts:
            found = self.extreme(found, self.extreme_between(start, cut))
            start = end
        return self.extreme(found, self.extreme_between(start, len(position)))

    def subtree_extreme(self, site: int, cost: Number | None) -> Number:
        """The extreme cost of a subtree when its top has this cost."""
        before = self.costs[site]
        assert cost is not None
        assert before is not None
        if self.node_function is GoalFunction.SUM:
            return self.extreme_of(site) + (cost - before)
        found: Number = cost if self.weights[site] else self._nothing
        worst = self.worst_below(site)
        if worst != self._nothing:
            joined = self.joined(cost, worst)
            assert joined is not None
            found = self.extreme(found, joined)
        return found

    def _product_after(
        self, apart: list[int], whole: list[int], new_cost: Callable[[int], Number | None]
    ) -> Number:
        costs = list(self.costs)
        for site in [*apart, *(below for top in whole for below in self.tree.subtree(top))]:
            costs[site] = new_cost(site)
        return aggregated(self.function, costs, self.weights)

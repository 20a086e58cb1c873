"""What it costs to move one site under each of many parents, all at once.

The same state as in `path_cost`, as arrays of floats: for a site and a row of parents outside its subtree,
one array operation gives the system's cost after each move. A climb that looks at every pair of sites spends
its time here.

Cost: a few array operations a site; with MIN and MAX over the path also a search in the sorted values of T.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from distributary.plan.goal.expression import GoalFunction
from distributary.plan.trees.path_cost import TreePathCost

Floats = npt.NDArray[np.float64]

JOINS: Mapping[GoalFunction, Callable[..., Floats]] = {
    GoalFunction.SUM: np.add,
    GoalFunction.MIN: np.minimum,
    GoalFunction.MAX: np.maximum,
}
"""How costs go on along a path, by the function of the path."""


class Moves:
    """The moves out of one tree."""

    def __init__(self, dependence: TreePathCost, links: Floats) -> None:
        self.state = dependence
        self.links = links
        identity = dependence.node_function.identity
        self.costs: Floats = np.array([identity if c is None else float(c) for c in dependence.costs])

    def new_costs(self, site: int, parents: npt.NDArray[np.intp]) -> Floats:
        """The moved site's own cost under each parent."""
        above: Floats = self.costs[parents]
        links: Floats = self.links[parents, site]
        return JOINS[self.state.node_function](above, links)

    def system_costs(self, site: int, parents: npt.NDArray[np.intp]) -> Floats:
        """The system's cost with the site under each parent; none of them may be in its subtree."""
        costs = self.new_costs(site, parents)
        function = self.state.function
        if function.is_bottleneck:
            return self._extremes(site, costs)
        if function is GoalFunction.PRODUCT:
            return np.array([float(self.state.cost_after({site: int(parent)})) for parent in parents])
        count, total, squares = self._moments(site, costs)
        if function is GoalFunction.SUM:
            return total
        if function is GoalFunction.AVERAGE:
            return total / count
        variance = np.maximum((squares - total * total / count) / max(count - 1, 1), 0)
        return variance if function is GoalFunction.VARIANCE else np.sqrt(variance)

    def _extremes(self, site: int, costs: Floats) -> Floats:
        state = self.state
        start = state.tree.position[site]
        end = start + state.tree.size[site]
        rest = state.extreme(state.extreme_between(0, start), state.extreme_between(end, len(state.costs)))
        extreme = JOINS[state.function]
        if state.node_function is GoalFunction.SUM:
            shifted: Floats = extreme(float(rest), float(state.extreme_of(site)) + costs - self.costs[site])
            return shifted
        joined = JOINS[state.node_function]
        found = np.full(len(costs), float(rest))
        if state.weights[site]:
            found = extreme(found, costs)
        worst = float(state.worst_below(site))
        return extreme(found, joined(costs, worst)) if np.isfinite(worst) else found

    def _moments(self, site: int, costs: Floats) -> tuple[float, Floats, Floats]:
        state = self.state
        count, total, squares = (float(value) for value in state.moments_of(state.tree.root))
        own = [float(value) for value in state.moments_of(site)]
        if state.node_function is GoalFunction.SUM:
            change = costs - self.costs[site]
            return count, total + change * own[0], squares + 2 * change * own[1] + change * change * own[0]
        below = sorted(state.below(site).items())
        worst = np.array([float(value) for value, _ in below]) - float(state.reference)
        times = np.array([float(value) for _, value in below])
        sums = [np.concatenate(([0.0], np.cumsum(times * worst**power))) for power in range(3)]
        near = costs - float(state.reference)
        # Of the sorted values, those beyond the new cost give way to it: above for MIN, below for MAX.
        at = np.searchsorted(worst, near)
        kept_low = state.node_function is GoalFunction.MIN
        kept = [row[at] if kept_low else row[-1] - row[at] for row in sums]
        replaced = sums[0][-1] - kept[0] + state.weights[site]
        new_total = kept[1] + replaced * near
        new_squares = kept[2] + replaced * near * near
        return count, total - own[1] + new_total, squares - own[2] + new_squares

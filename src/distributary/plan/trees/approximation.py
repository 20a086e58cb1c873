"""Optimising on what was last heard: sites that matter less broadcast their cost less often (equation 4.4).

Rules:

- A site broadcasts its cost once in so many phases: its weight times `period`, and at least one. Where costs
  add up along the path, its weight is the number of sites over the size of its subtree; where they are
  bottlenecks, how far its own link is from the worst link in its subtree. In the first phase everyone does.
- Costs of the sites a rewrite touches are measured; of all others they are what was last heard, shifted by as
  much as the rewrite shifts them.

Cost: a benefit takes time linear in the sites: this saves messages, not time.
"""

from __future__ import annotations

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import GoalAggregate, GoalFunction, Number, Scope
from distributary.plan.trees.benefit import TreeEstimate
from distributary.plan.trees.cost import aggregated
from distributary.plan.trees.incremental import NodeCosts
from distributary.plan.trees.moves import Floats
from distributary.plan.trees.rules import TreeRewrite


class Broadcasts:
    """What everybody knows of everybody, and how often it is told."""

    def __init__(self, period: float = 1.0) -> None:
        if period < 1:
            raise DistributaryError(f"the period of broadcasts is at least 1, not {period}")
        self.period = period
        self.phases = 0
        self.messages = 0
        self._known: list[Number | None] = []
        self._nodes: NodeCosts | None = None

    def phase(self, estimate: TreeEstimate) -> int:
        """Let those broadcast whose turn it is; tells how many did."""
        self._nodes = NodeCosts(estimate.problem.goal.cost.value, estimate.problem.sites, estimate.tree)
        weight = weights_of(estimate)
        told = 0
        if not self._known:
            self._known = list(estimate.costs)
            told = len(self._known)
        else:
            for site, cost in enumerate(estimate.costs):
                if self.phases % max(1, round(weight[site] * self.period)) == 0:
                    self._known[site] = cost
                    told += 1
        self.phases += 1
        self.messages += told
        return told

    def heard(self) -> Floats:
        """The costs last heard; of a site without one, nothing."""
        return np.array([0.0 if cost is None else float(cost) for cost in self._known])

    def benefit(self, estimate: TreeEstimate, rewrite: TreeRewrite) -> float:
        """What the rewrite seems to be worth, by what was broadcast up to this phase."""
        if self._nodes is None or self._nodes.tree is not estimate.tree:
            raise DistributaryError("nothing was broadcast about this tree: begin a phase first")
        goal = estimate.problem.goal
        new = self._nodes.after(rewrite.changes, estimate.tree.changed(rewrite.changes))
        touched = rewrite.touched(estimate.tree)
        before, then = list(self._known), list(self._known)
        for site in touched:
            before[site] = then[site] = estimate.costs[site]
        for site, cost in new.items():
            heard, own = before[site], estimate.costs[site]
            shift = None if heard is None or own is None or cost is None else heard + cost - own
            then[site] = cost if shift is None else shift
        times = estimate.system.weights
        function = goal.cost.function
        return goal.sign * float(aggregated(function, before, times) - aggregated(function, then, times))


def weights_of(estimate: TreeEstimate) -> list[float]:
    """How seldom each site may broadcast."""
    tree, node = estimate.tree, estimate.problem.goal.cost.value
    if not isinstance(node, GoalAggregate) or node.over is not Scope.PATH:
        return [1.0] * len(tree.parents)
    if not node.function.is_bottleneck:
        return [len(tree.parents) / size for size in tree.size]
    local = NodeCosts(node, estimate.problem.sites, tree).local
    worst = list(local)
    choose = min if node.function is GoalFunction.MIN else max
    for site in reversed(tree.order[1:]):
        own, above = worst[site], worst[tree.parents[site]]
        if own is not None:
            worst[tree.parents[site]] = own if above is None else choose(own, above)
    pairs = zip(local, worst, strict=True)
    return [0.0 if own is None or far is None else abs(float(own - far)) for own, far in pairs]

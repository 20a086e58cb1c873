"""Keeping a tree good while latencies, bandwidths, processing times and rates drift.

Rules:

- Measurements are smoothed: what is believed of a value moves a share of the way to each new measurement.
- A tree is changed only when the better one is better by a margin, under what is believed now. Noise that
  moves the cost by less than the margin changes nothing, however long it lasts.
- After a change the tree rests for some periods, so that what the change itself does to the measurements is
  seen before the next one. Constraints that are broken are mended at once, whatever the margin.

Cost: that of the optimiser in every period without rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Goal, Number
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.cost import violations
from distributary.plan.trees.escape import improve
from distributary.plan.trees.tree import Matrix, Sites, Tree


@dataclass(frozen=True)
class Patience:
    """How reluctant to change a tree."""

    margin: float = 0.1
    """The share of the cost that a change must save."""
    smoothing: float = 0.3
    """How far a new measurement moves what is believed: 1 is all the way."""
    rest: int = 2
    """Periods without a change after a change."""

    def __post_init__(self) -> None:
        if self.margin < 0 or self.rest < 0 or not 0 < self.smoothing <= 1:
            raise DistributaryError("margin and rest are at least 0, and smoothing is above 0 and at most 1")


class TreeAdaptation:
    """A tree that is kept good while measurements come in.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> goal = parse_goal("minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)")
    >>> keeper = TreeAdaptation(goal, Tree((-1, 0, 0)))
    >>> keeper.period(Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]])) is not None, keeper.tree.parents
    (True, (-1, 0, 1))
    """

    def __init__(self, goal: Goal, tree: Tree, patience: Patience | None = None) -> None:
        self.goal = goal
        self.tree = tree
        self.patience = patience or Patience()
        self.believed: Sites | None = None
        self._resting = 0

    def period(self, measured: Sites) -> TreeClimb | None:
        """Take new measurements in; what was changed, or None."""
        self.believed = measured if self.believed is None else self._smoothed(self.believed, measured)
        if self._resting:
            self._resting -= 1
            return None
        problem = Problem(self.goal, self.believed)
        found = improve(problem, self.tree)
        if not found.steps or not self._is_worth(problem, found):
            return None
        self.tree = found.tree
        self._resting = self.patience.rest
        return found

    def _is_worth(self, problem: Problem, found: TreeClimb) -> bool:
        """Whether another tree saves the margin, or breaks fewer constraints."""
        before = problem.at(self.tree).cost
        if self.goal.sign * float(before - found.cost) > self.patience.margin * abs(float(before)):
            return True
        now, then = (len(violations(self.goal, problem.sites, tree)) for tree in (self.tree, found.tree))
        return then < now

    def _smoothed(self, old: Sites, new: Sites) -> Sites:
        """What to believe after a measurement. Clients and interest are known, not measured."""
        return replace(
            new,
            latency=self._nearer_matrix(old.latency, new.latency),
            bandwidth=self._nearer_matrix(old.bandwidth, new.bandwidth),
            processing=self._nearer(old.processing, new.processing),
            rates=self._nearer(old.rates, new.rates),
            link_metrics={
                name: self._nearer_matrix(old.link_metrics.get(name, ()), matrix)
                for name, matrix in new.link_metrics.items()
            },
            site_metrics={
                name: self._nearer(old.site_metrics.get(name, ()), row)
                for name, row in new.site_metrics.items()
            },
        )

    def _nearer(self, old: Sequence[Number], new: Sequence[Number]) -> Sequence[Number]:
        """Values moved a share of the way to others."""
        if len(old) != len(new):
            return new
        share = self.patience.smoothing
        return [float(a) + share * (float(b) - float(a)) for a, b in zip(old, new, strict=True)]

    def _nearer_matrix(self, old: Matrix, new: Matrix) -> Matrix:
        return new if len(old) != len(new) else [self._nearer(a, b) for a, b in zip(old, new, strict=True)]

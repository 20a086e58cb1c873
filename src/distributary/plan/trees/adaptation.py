"""Keeping a tree good while latencies, bandwidths, processing times and rates drift (`plan.adaptation`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from distributary.plan.adaptation import Adaptation, Patience, nearer
from distributary.plan.goal.expression import Goal, Number
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.cost import violations
from distributary.plan.trees.escape import improve
from distributary.plan.trees.tree import Matrix, Sites, Tree


class TreeAdaptation(Adaptation[Sites, TreeClimb]):
    """A tree that is kept good while measurements come in.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> goal = parse_goal("minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)")
    >>> keeper = TreeAdaptation(goal, Tree((-1, 0, 0)))
    >>> keeper.period(Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]])) is not None, keeper.tree.parents
    (True, (-1, 0, 1))
    """

    def __init__(
        self,
        goal: Goal,
        tree: Tree,
        patience: Patience | None = None,
        optimise: Callable[[Problem, Tree], TreeClimb] = improve,
    ) -> None:
        super().__init__(goal, patience)
        self.tree = tree
        self.optimise = optimise

    def improved(self, believed: Sites) -> TreeClimb | None:
        problem = Problem(self.goal, believed)
        found = self.optimise(problem, self.tree)
        if not found.steps:
            return None
        if not self.saves_enough(problem.at(self.tree).cost, found.cost):
            broken = violations(self.goal, believed, self.tree)
            if len(violations(self.goal, believed, found.tree)) >= len(broken):
                return None
        self.tree = found.tree
        return found

    def smoothed(self, old: Sites, new: Sites) -> Sites:
        """What to believe after a measurement. Clients and interest are known, not measured."""
        return replace(
            new,
            latency=self._nearer_matrix(old.latency, new.latency),
            bandwidth=self._nearer_matrix(old.bandwidth, new.bandwidth),
            processing=self._nearer(old.processing, new.processing),
            rates=self._nearer(old.rates, new.rates),
        )

    def _nearer(self, old: Sequence[Number], new: Sequence[Number]) -> Sequence[Number]:
        if len(old) != len(new):
            return new
        return [nearer(a, b, self.patience.smoothing) for a, b in zip(old, new, strict=True)]

    def _nearer_matrix(self, old: Matrix, new: Matrix) -> Matrix:
        return new if len(old) != len(new) else [self._nearer(a, b) for a, b in zip(old, new, strict=True)]

"""Following conditions that drift, without going to and fro.

Rules:

- Measurements are smoothed: what is believed of a link or a site moves a share of the way to each new value.
- A tree is changed only when the better one is better by a margin, under what is believed now. Measuring
  noise that moves the cost by less than the margin changes nothing, however long it lasts.
- After a change the tree rests for some periods, so that what the change itself does to the measurements is
  seen before the next one. Constraints that are broken are mended at once, whatever the margin.

Cost: that of the optimiser in every period without rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from distributary.errors import DistributaryError
from distributary.plan.goal import Goal, Number
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.cost import violations
from distributary.plan.trees.escape import improve
from distributary.plan.trees.tree import Matrix, Sites, Tree


@dataclass(frozen=True)
class Patience:
    """How reluctant to be."""

    margin: float = 0.1
    """The share of the cost that a change must save."""
    smoothing: float = 0.3
    """How far a new measurement moves what is believed: 1 is all the way."""
    rest: int = 2
    """Periods without a change after a change."""

    def __post_init__(self) -> None:
        if self.margin < 0 or self.rest < 0 or not 0 < self.smoothing <= 1:
            raise DistributaryError("margin and rest are at least 0, and smoothing is above 0 and at most 1")


class Adaptation:
    """A tree that is kept good while measurements come in.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> goal = parse_goal("minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)")
    >>> keeper = Adaptation(goal, Tree((-1, 0, 0)))
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
        self.goal = goal
        self.tree = tree
        self.patience = patience or Patience()
        self.optimise = optimise
        self.believed: Sites | None = None
        self._resting = 0

    def period(self, measured: Sites) -> TreeClimb | None:
        """Take new measurements in; what was changed, or None."""
        self.believed = smoothed(self.believed, measured, self.patience.smoothing)
        if self._resting:
            self._resting -= 1
            return None
        problem = Problem(self.goal, self.believed)
        found = self.optimise(problem, self.tree)
        if not found.steps or not self._worth_it(problem, found):
            return None
        self.tree = found.tree
        self._resting = self.patience.rest
        return found

    def _worth_it(self, problem: Problem, found: TreeClimb) -> bool:
        now = problem.at(self.tree).cost
        if self.goal.sign * float(now - found.cost) > self.patience.margin * abs(float(now)):
            return True
        broken = violations(self.goal, problem.sites, self.tree)
        return len(violations(self.goal, problem.sites, found.tree)) < len(broken)


def smoothed(believed: Sites | None, measured: Sites, share: float) -> Sites:
    """What to believe after a measurement. Clients and interest are known, not measured."""
    if believed is None:
        return measured
    return replace(
        measured,
        latency=_nearer_matrix(believed.latency, measured.latency, share),
        bandwidth=_nearer_matrix(believed.bandwidth, measured.bandwidth, share),
        processing=_nearer(believed.processing, measured.processing, share),
        rates=_nearer(believed.rates, measured.rates, share),
    )


def _nearer(old: Sequence[Number], new: Sequence[Number], share: float) -> Sequence[Number]:
    if len(old) != len(new):
        return new
    return [float(a) + share * (float(b) - float(a)) for a, b in zip(old, new, strict=True)]


def _nearer_matrix(old: Matrix, new: Matrix, share: float) -> Matrix:
    if len(old) != len(new):
        return new
    return [_nearer(a, b, share) for a, b in zip(old, new, strict=True)]

"""What every way of improving a tree hands back: the tree, and the way there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from distributary.plan.goal.expression import Number
from distributary.plan.trees.rules import TreeRewrite
from distributary.plan.trees.tree import Tree


@dataclass(frozen=True)
class TreeStep:
    """One optimisation period: the rewrites applied together, and the cost before and after."""

    rewrites: tuple[TreeRewrite, ...]
    before: Number
    after: Number


@dataclass(frozen=True)
class TreeClimb:
    """A tree reached from another.

    `considered` counts the rewrites that were weighed on the way, `unlisted` those that were applied and are
    in no step.
    """

    start: Tree
    tree: Tree
    cost: Number
    steps: tuple[TreeStep, ...]
    considered: int
    unlisted: int = 0

    @property
    def applied(self) -> int:
        """How many rewrites were applied."""
        return len(self.rewrites) + self.unlisted

    @property
    def rewrites(self) -> list[TreeRewrite]:
        """All rewrites, in the order in which they were applied."""
        return list(chain.from_iterable(step.rewrites for step in self.steps))

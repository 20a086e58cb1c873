"""What a rewrite is worth: by how much it brings the goal nearer, and whether the constraints allow it.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> goal = parse_goal("minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)")
    >>> sites = Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]])
    >>> problem = Problem(goal, sites)
    >>> problem.at(Tree((-1, 0, 0))).benefit({2: 1})
    1

Rules:

- A benefit is positive where the rewrite is good, whichever way the goal goes, and is exactly the difference
  that measuring both trees anew would show (up to rounding, where the numbers are floats).
- A rewrite is legal when no site that it reaches breaks a constraint it kept, or breaks it more than before:
  so a tree that starts out wrong can be mended step by step.

Cost: that of `path_cost` where that applies, else that of `incremental`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from distributary.plan.goal.expression import Constraint, Goal, GoalFunction, Number, SystemCost
from distributary.plan.trees.cost import TreeCost
from distributary.plan.trees.incremental import IncrementalCost, NodeCosts
from distributary.plan.trees.moves import Floats, Moves
from distributary.plan.trees.path_cost import Links, TreePathCost, is_path_cost, link_values
from distributary.plan.trees.tree import Sites, Tree

if TYPE_CHECKING:
    from distributary.plan.trees.bulk import Layout  # Numba is loaded by those who weigh with it


class Problem:
    """A goal for some sites; what can be measured before there is a tree is measured here once."""

    def __init__(self, goal: Goal, sites: Sites) -> None:
        self.goal = goal
        self.sites = sites
        self._links: dict[SystemCost, Links] = {}
        self._arrays: dict[SystemCost, Floats] = {}

    def links(self, cost: SystemCost) -> Links:
        """The local values for every pair of sites, for a cost that `path_cost` knows."""
        if cost not in self._links:
            self._links[cost] = link_values(cost, self.sites)
        return self._links[cost]

    def link_array(self, cost: SystemCost) -> Floats:
        """The same as an array; where there is no value, it is not a number."""
        if cost not in self._arrays:
            self._arrays[cost] = np.array(self.links(cost), dtype=np.float64)
        return self._arrays[cost]

    def system(self, cost: SystemCost, tree: Tree) -> TreePathCost | IncrementalCost:
        """The system's cost of a tree, in the quickest way that applies."""
        if is_path_cost(cost):
            return TreePathCost(cost, self.sites, tree, self.links(cost))
        return IncrementalCost(cost, self.sites, tree)

    def constrained(self, tree: Tree) -> list[tuple[Constraint, TreeCost | NodeCosts]]:
        """The constraints, each with the values of a tree that it is on."""
        return [
            (
                constraint,
                self.system(constraint.metric, tree)
                if isinstance(constraint.metric, SystemCost)
                else NodeCosts(constraint.metric, self.sites, tree),
            )
            for constraint in self.goal.constraints
        ]

    def at(self, tree: Tree) -> TreeEstimate:
        """A tree's cost, and what rewrites of it are worth."""
        return TreeEstimate(self, tree)


class TreeEstimate:
    """A tree's cost, and what rewrites of it are worth."""

    def __init__(self, problem: Problem, tree: Tree) -> None:
        self.problem = problem
        self.tree = tree
        self.system = problem.system(problem.goal.cost, tree)

    @property
    def cost(self) -> Number:
        """The system's cost."""
        return self.system.cost

    @property
    def costs(self) -> list[Number | None]:
        """Every site's cost."""
        return self.system.costs

    def benefit(self, changes: Mapping[int, int]) -> Number:
        """By how much these changes of parents bring the goal nearer."""
        return self.problem.goal.sign * (self.cost - self.system.cost_after(changes))

    @cached_property
    def moves(self) -> Moves | None:
        """All moves of single sites at once, where `path_cost` applies."""
        if not isinstance(self.system, TreePathCost):
            return None
        return Moves(self.system, self.problem.link_array(self.problem.goal.cost))

    @cached_property
    def layout(self) -> Layout | None:
        """The tree as `bulk` has it, where that applies; its arrays are this estimate's own."""
        system = self.system
        if not isinstance(system, TreePathCost) or system.function is GoalFunction.PRODUCT:
            return None
        from distributary.plan.trees.bulk import FUNCTIONS, layout_of

        weights = np.array(system.weights, dtype=np.float64)
        if system.costs[self.tree.root] is None:
            weights[self.tree.root] = 0.0
        functions = FUNCTIONS.index(system.node_function), FUNCTIONS.index(system.function)
        links = self.problem.link_array(self.problem.goal.cost)
        return layout_of(links, weights, functions, self.tree.parents)

    def move_benefits(self, site: int, parents: npt.NDArray[np.intp]) -> Floats:
        """The benefit of moving the site under each of these parents, none of which is below it."""
        if self.moves is None:
            return np.array([float(self.benefit({site: parent})) for parent in parents.tolist()])
        return self.problem.goal.sign * (float(self.cost) - self.moves.system_costs(site, parents))

    def legal(self, changes: Mapping[int, int], after: Tree | None = None) -> bool:
        """Whether the constraints allow these changes; `after` is the tree with them, if it is known."""
        if not self._constrained:
            return True
        after = after or self.tree.changed(changes)
        return all(
            allowed(constraint, old, new)
            for constraint, now in self._constrained
            for old, new in now.changed(changes, after)
        )

    @cached_property
    def _constrained(self) -> list[tuple[Constraint, TreeCost | NodeCosts]]:
        return self.problem.constrained(self.tree)


def allowed(constraint: Constraint, old: Number | None, new: Number | None) -> bool:
    """Whether a value keeps the constraint, or breaks it no more than it did before."""
    if new is None or constraint.holds(new):
        return True
    return old is not None and not constraint.holds(old) and constraint.no_worse(new, old)

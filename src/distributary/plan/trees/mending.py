"""Making a tree legal: moves that break the constraints less, until they hold or no single move helps.

If that fails, it is tried once more from a tree in which sites joined nearest first.

Rules:

- The breach is how far all values together are from what the constraints ask; every move makes it smaller.
- Where a site breaks a constraint, its children are moved away, or the site or one above it is moved; the
  worst offender first, and the best of some dozens of moves, if one of them helps.
- A constraint that no tree can keep is named, with the proof (`feasibility`). Otherwise, if no move helps, a
  constraint that is still broken is named: this is a search, not a proof, and says so.

Cost: for each move, those it tries; each costs as much as the sites whose values it changes, and a copy of
the parents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from random import Random

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Constraint, Goal, Number
from distributary.plan.goal.text import constraint_text
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import broken, violations
from distributary.plan.trees.feasibility import impossible
from distributary.plan.trees.starts import nearest_first
from distributary.plan.trees.tree import Tree

AT_ONCE = 60
"""Moves that are compared, if one of them helps."""

MOST_TRIES = 50_000
"""Moves tried in a search."""

LEAST_GAP = 1e-6
"""A strict bound that is just met, and a forbidden value, are broken without any distance."""


def mended(problem: Problem, tree: Tree, seed: int = 0) -> Tree:
    """A legal tree near this one; raises where none is found.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> from distributary.plan.trees.tree import Sites
    >>> goal = parse_goal("minimise aggregate(SUM, link latency, BROKERS); subject to fanout <= 1")
    >>> problem = Problem(goal, Sites(latency=[[1] * 3] * 3))
    >>> sorted(mended(problem, Tree((-1, 0, 0))).depth)
    [0, 1, 2]
    """
    if not violations(problem.goal, problem.sites, tree):
        return tree
    proof = impossible(problem, tree.root)
    if proof:
        raise DistributaryError(f"no tree can keep the constraint {proof}")
    for first in (tree, nearest_first(problem, tree.root)):
        found = _search(problem, first, Random(seed))
        if not breach(problem, found):
            return found
    raise DistributaryError(_complaint(problem, found, seed))


def breach(problem: Problem, tree: Tree) -> float:
    """How far the tree is from keeping all constraints; 0 where it keeps them."""
    return Breaches(problem, tree).total


class Breaches:
    """Who breaks the constraints of a tree, by how much, and what a move makes of it."""

    def __init__(self, problem: Problem, tree: Tree) -> None:
        self.tree = tree
        self._values = problem.constrained(tree)
        found = [
            (gap, site)
            for constraint, now in self._values
            for site, cost in now.values()
            if (gap := _gap(constraint, cost))
        ]
        self.total = sum(gap for gap, _ in found)
        self.offenders = [site for _, site in sorted(found, key=lambda item: (-item[0], item[1]))]
        """The worst first; the root stands for the system."""

    def after(self, changes: Mapping[int, int]) -> float:
        """The breach that these changes of parents would leave."""
        total = self.total
        after = self.tree.changed(changes)
        for constraint, now in self._values:
            for old, new in now.changed(changes, after):
                total += _gap(constraint, new) - _gap(constraint, old)
        return total


def _gap(constraint: Constraint, value: Number | None) -> float:
    if value is None or constraint.holds(value):
        return 0.0
    return abs(float(value) - float(constraint.threshold)) + LEAST_GAP


def _search(problem: Problem, tree: Tree, random: Random) -> Tree:
    """Move after move, until nothing is broken, no move helps, or too many were tried."""
    tried = 0
    while True:
        now = Breaches(problem, tree)
        enough = now.total - LEAST_GAP / 2  # less than the smallest gap, more than rounding
        tries = _tries(now, random)
        while tried < MOST_TRIES and (some := list(islice(tries, AT_ONCE))):
            tried += len(some)
            breaches = [now.after(change) for change in some]
            least = min(breaches)
            if least < enough:
                tree = tree.changed(some[breaches.index(least)])
                break
        else:
            return tree


def _tries(now: Breaches, random: Random) -> Iterator[dict[int, int]]:
    """Moves after which the worst offender may be better off, then the next."""
    tree = now.tree
    for offender in now.offenders:
        everyone = [site for site in tree.order if site != tree.root]
        moving = [*tree.children[offender], *tree.path(offender)[:-1]] if offender != tree.root else everyone
        for site in moving:
            parents = [other for other in range(len(tree.parents)) if not tree.below(other, site)]
            random.shuffle(parents)
            yield from ({site: parent} for parent in parents if parent != tree.parents[site])


def _complaint(problem: Problem, tree: Tree, seed: int) -> str:
    """Which constraints the nearest tree breaks, and whether one of them is broken even by itself."""
    found = [
        (constraint, places)
        for constraint in problem.goal.constraints
        if (places := broken(constraint, problem.sites, tree))
    ]
    alone = [item for item in found if not _kept_alone(problem, tree, item[0], seed)]
    constraint, places = (alone or found)[0]
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    together = "" if alone else " together with the others, though it can be kept by itself"
    return (
        f"no tree was found that keeps the constraint {constraint_text(constraint)}{together}; the nearest "
        f"breaks it: {places[0]}{more}"
    )


def _kept_alone(problem: Problem, tree: Tree, constraint: Constraint, seed: int) -> bool:
    alone = Problem(Goal(problem.goal.cost, problem.goal.direction, (constraint,)), problem.sites)
    return not breach(alone, _search(alone, tree, Random(seed)))

"""Making a tree legal: moves that break the constraints less, until they hold or no single move helps.

Rules:

- The breach is how far all values together are from what the constraints ask; every move makes it smaller.
- Where a site breaks a constraint, its children are moved away, or the site or one above it is moved.
- If no move helps, the first constraint that is still broken is named as the one that could not be met: this
  is a search, not a proof, and says so.

Cost: for each move, those it tries, each linear in the sites.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from distributary.errors import DistributaryError
from distributary.plan.benefit import Problem
from distributary.plan.cost import broken, node_costs, system_cost, violations
from distributary.plan.goal import Constraint, SystemCost
from distributary.plan.goal_text import cost_text
from distributary.plan.tree import Sites, Tree


def mended(problem: Problem, tree: Tree, seed: int = 0) -> Tree:
    """A legal tree near this one; raises where none is found.

    >>> from distributary.plan.goal_text import parse_goal
    >>> goal = parse_goal("minimise aggregate(SUM, link latency, BROKERS); subject to fanout <= 1")
    >>> problem = Problem(goal, Sites(latency=[[1] * 3] * 3))
    >>> sorted(mended(problem, Tree((-1, 0, 0))).depth)
    [0, 1, 2]
    """
    random = Random(seed)
    while violations(problem.goal, problem.sites, tree):
        now = breach(problem, tree)
        better = next(
            (moved for moved in _tries(problem, tree, random) if breach(problem, moved) < now), None
        )
        if better is None:
            raise DistributaryError(_complaint(problem, tree))
        tree = better
    return tree


def breach(problem: Problem, tree: Tree) -> float:
    """How far the tree is from keeping all constraints; 0 where it keeps them."""
    constraints = problem.goal.constraints
    return sum(gap for constraint in constraints for _, gap in _gaps(constraint, problem.sites, tree))


def _gaps(constraint: Constraint, sites: Sites, tree: Tree) -> Iterator[tuple[int, float]]:
    """The sites that break a constraint and by how much; the root stands for the system."""
    if isinstance(constraint.metric, SystemCost):
        values = [(tree.root, system_cost(constraint.metric, sites, tree))]
    else:
        costs = enumerate(node_costs(constraint.metric, sites, tree))
        values = [(site, cost) for site, cost in costs if cost is not None]
    for site, value in values:
        if not constraint.holds(value):
            # A strict bound that is just met, and a forbidden value, are broken without any distance.
            yield site, abs(float(value) - float(constraint.threshold)) + 1e-6


def _tries(problem: Problem, tree: Tree, random: Random) -> Iterator[Tree]:
    """Trees one move away in which the worst offender is better off, as far as one can tell."""
    gaps = [gap for constraint in problem.goal.constraints for gap in _gaps(constraint, problem.sites, tree)]
    for offender, _ in sorted(gaps, key=lambda gap: -gap[1]):
        moving = [*tree.children[offender], *tree.path(offender)[:-1]]
        for site in moving if offender != tree.root else [s for s in tree.order if s != tree.root]:
            parents = [other for other in range(len(tree.parents)) if not tree.below(other, site)]
            random.shuffle(parents)
            yield from (tree.changed({site: parent}) for parent in parents if parent != tree.parents[site])


def _complaint(problem: Problem, tree: Tree) -> str:
    for constraint in problem.goal.constraints:
        found = broken(constraint, problem.sites, tree)
        if found:
            wanted = f"{cost_text(constraint.metric)} {constraint.comparison} {constraint.threshold}"
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            nearest = f"the nearest breaks it: {found[0]}{more}"
            return f"no tree was found that keeps the constraint {wanted}; {nearest}"
    raise AssertionError("a legal tree is not complained about")

"""Trees to start from, and to compare with: star, minimum spanning tree, random, best effort.

Cost: the square of the sites.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from distributary.plan.goal.expression import Goal, GoalAggregate
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.metrics import BUILT_IN
from distributary.plan.trees.moves import JOINS, Floats
from distributary.plan.trees.path_cost import is_path_cost
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree, random_tree, star


def minimum_spanning_tree(sites: Sites, root: int = 0) -> Tree:
    """The tree whose links together have the least latency (Prim).

    >>> minimum_spanning_tree(Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]])).parents
    (-1, 0, 1)
    """
    latency = np.array(sites.latency, dtype=np.float64)
    nearest = latency[root].copy()
    parents = np.full(sites.count, root)
    waiting = np.ones(sites.count, dtype=bool)
    waiting[root] = False
    while waiting.any():
        site = int(np.argmin(np.where(waiting, nearest, np.inf)))
        waiting[site] = False
        closer = waiting & (latency[site] < nearest)
        nearest[closer] = latency[site][closer]
        parents[closer] = site
    parents[root] = NO_PARENT
    return Tree(tuple(parents.tolist()))


def fanout_limit(goal: Goal) -> int | None:
    """How many children the constraints leave a site, as far as they say so directly."""
    limits = [
        math.floor(constraint.threshold)
        if constraint.comparison == "<="
        else math.ceil(constraint.threshold) - 1
        for constraint in goal.constraints
        if constraint.metric == BUILT_IN["fanout"] and constraint.comparison in ("<", "<=")
    ]
    return min(limits, default=None)


def best_effort(problem: Problem, random: Random, root: int = 0) -> Tree:
    """Sites join in random order, each under the parent that gives it the best cost of its own (section 3.1).

    Where the goal's node cost is not one along the path, the least latency to the root counts.
    """
    joining = [site for site in range(problem.sites.count) if site != root]
    random.shuffle(joining)
    return _joined(problem, root, joining)


def nearest_first(problem: Problem, root: int = 0) -> Tree:
    """The same, but sites with the best link to the root join first: those after them find room near it."""
    links, _, _, sign = _path_cost(problem)
    joining = [site for site in range(problem.sites.count) if site != root]
    return _joined(problem, root, sorted(joining, key=lambda site: (sign * links[root, site], site)))


def _joined(problem: Problem, root: int, joining: Sequence[int]) -> Tree:
    """Each site in its turn joins under the best parent that has room."""
    count = problem.sites.count
    links, join, nothing, sign = _path_cost(problem)
    limit = fanout_limit(problem.goal)
    costs = np.full(count, np.nan)
    costs[root] = nothing
    room = np.full(count, math.inf if limit is None else float(limit))
    parents = [NO_PARENT] * count
    for site in joining:
        offered = np.where((room > 0) & ~np.isnan(costs), sign * join(costs, links[:, site]), np.inf)
        parent = int(np.argmin(offered))
        parents[site] = parent
        costs[site] = join(costs[parent], links[parent, site])
        room[parent] -= 1
    return Tree(tuple(parents))


def _path_cost(problem: Problem) -> tuple[Floats, Callable[..., Floats], float, int]:
    """The links, how costs go on along them, what they begin with, and 1 where less is better."""
    cost = problem.goal.cost
    if not is_path_cost(cost) or not isinstance(cost.value, GoalAggregate):
        return np.array(problem.sites.latency, dtype=np.float64), np.add, 0.0, 1
    function = cost.value.function
    return problem.link_array(cost), JOINS[function], function.identity, problem.goal.sign


def usual_trees(problem: Problem, root: int, seed: int) -> dict[str, Tree]:
    """The trees that a plan is compared with: each is made without regard to the whole goal."""
    sites = problem.sites
    return {
        "star": star(sites.count, root),
        "minimum spanning tree": minimum_spanning_tree(sites, root),
        "random": random_tree(sites.count, Random(seed), root, fanout_limit(problem.goal)),
        "best effort": best_effort(problem, Random(seed), root),
    }

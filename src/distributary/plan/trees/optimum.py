"""The best tree, where one tree is best for every site: by best paths.

A cost that grows along the path (latency summed, bandwidth's minimum) and that may be as good as possible at
every site at once has one tree that is best for all of them: shortest paths (Dijkstra), widest paths, or
paths whose largest link is smallest. Every system function that gets no worse when a site gets better then
has its optimum there. Constraints, variances and costs over children have no such tree.

Cost: the square of the sites.
"""

from __future__ import annotations

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Direction, GoalAggregate, GoalFunction
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.moves import JOINS, Floats
from distributary.plan.trees.path_cost import is_path_cost
from distributary.plan.trees.tree import NO_PARENT, Tree


def has_best_paths(problem: Problem) -> bool:
    """Whether one tree is best for every site, and so for the goal."""
    cost, direction = problem.goal.cost, problem.goal.direction
    if problem.goal.constraints or not is_path_cost(cost) or not isinstance(cost.value, GoalAggregate):
        return False
    if cost.function in (GoalFunction.VARIANCE, GoalFunction.STD):
        return False
    wanted = Direction.MAXIMISE if cost.value.function is GoalFunction.MIN else Direction.MINIMISE
    if direction is not wanted:
        return False
    lowest = float(np.nanmin(problem.link_array(cost), initial=0.0))
    needs_positive = cost.value.function is GoalFunction.SUM or cost.function is GoalFunction.PRODUCT
    return lowest >= 0 or not needs_positive


def best_paths(problem: Problem, root: int = 0) -> tuple[Tree, Floats, list[int]]:
    """The tree in which every site's path is best, the sites' costs, and the sites from best to worst.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> from distributary.plan.trees.tree import Sites
    >>> goal = parse_goal("minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)")
    >>> best_paths(Problem(goal, Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]])))[0].parents
    (-1, 0, 1)
    """
    if not has_best_paths(problem):
        raise DistributaryError("no tree is best for every site under this goal: see has_best_paths")
    cost = problem.goal.cost
    assert isinstance(cost.value, GoalAggregate)
    sign = problem.goal.sign
    links = problem.link_array(cost)
    count = problem.sites.count
    nothing, join = cost.value.function.identity, JOINS[cost.value.function]
    at_root = links[root, root]
    costs = np.full(count, sign * np.inf)
    costs[root] = nothing if np.isnan(at_root) else at_root
    parents = np.full(count, NO_PARENT)
    settled = np.zeros(count, dtype=bool)
    order: list[int] = []
    site = root
    for _ in range(count):
        settled[site] = True
        order.append(site)
        offered = join(costs[site], links[site])
        better = ~settled & (sign * offered < sign * costs)
        parents[better] = site
        costs[better] = offered[better]
        site = int(np.argmin(np.where(settled, np.inf, sign * costs)))
    return Tree(tuple(int(parent) for parent in parents)), costs, order

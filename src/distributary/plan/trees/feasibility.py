"""Proofs that a constraint cannot be kept by any tree over the sites.

What can be told of a constraint by itself:

- A cost along the path has a best value at every site (`optimum.best_paths`); if that is not good enough, the
  site and its best path say so. Likewise for a system's cost of such.
- A local metric of a site and its parent alone has to hold under some parent.
- In every tree of several sites somebody has a child, and somebody has none.

Constraints that each can be kept, and not together, are left to the search of `mending`.

Cost: the square of the sites a constraint.
"""

from __future__ import annotations

from distributary.plan.goal import expression as goals
from distributary.plan.goal.expression import Constraint, GoalAggregate, SystemCost
from distributary.plan.goal.text import constraint_text
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import local_value
from distributary.plan.trees.metrics import BUILT_IN, Reads, metrics_of
from distributary.plan.trees.optimum import best_paths, has_best_paths
from distributary.plan.trees.tree import Sites, Tree, star


def impossible(problem: Problem, root: int) -> str | None:
    """The first constraint that cannot be kept, and why; None if there may be a tree that keeps all.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> text = "minimise aggregate(SUM, fanout, BROKERS); subject to aggregate(SUM, link latency, PATH) <= 7"
    >>> sites = Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]], names=["fra", "ams", "nyc"])
    >>> print(impossible(Problem(parse_goal(text), sites), 0))
    aggregate(SUM, link latency, PATH) <= 7: for nyc at best it is 8, on the path fra, ams, nyc
    """
    for constraint in problem.goal.constraints:
        reason = _reason(constraint, problem.sites, root)
        if reason:
            return f"{constraint_text(constraint)}: {reason}"
    return None


def _reason(constraint: Constraint, sites: Sites, root: int) -> str | None:
    metric = constraint.metric
    if sites.count < 2:
        return None
    if metric == BUILT_IN["fanout"]:
        return _fanout(constraint)
    if isinstance(metric, (SystemCost, GoalAggregate)):
        return _at_best(constraint, metric, sites, root)
    if all(each.reads in (Reads.NOTHING, Reads.PARENT) for each in metrics_of(metric)):
        return _nowhere(constraint, metric, sites, root)
    return None


def _fanout(constraint: Constraint) -> str | None:
    if not constraint.holds(0):
        return "every tree has a site without children"
    if constraint.comparison in ("<", "<=") and not constraint.holds(1):
        return "in a tree of several sites somebody has a child"
    return None


def _at_best(
    constraint: Constraint, metric: SystemCost | GoalAggregate, sites: Sites, root: int
) -> str | None:
    lower = constraint.comparison in ("<", "<=")
    if not lower and constraint.comparison not in (">", ">="):
        return None
    direction = goals.Direction.MINIMISE if lower else goals.Direction.MAXIMISE
    worst = goals.GoalFunction.MAX if lower else goals.GoalFunction.MIN
    whole = metric if isinstance(metric, SystemCost) else SystemCost(worst, metric)
    problem = Problem(goals.Goal(whole, direction), sites)
    if not has_best_paths(problem):
        return None
    tree, costs, order = best_paths(problem, root)
    if isinstance(metric, SystemCost):
        best = problem.at(tree).cost
        return None if constraint.holds(best) else f"at best it is {float(best):.6g}"
    for site in reversed(order):
        if site != root and not constraint.holds(float(costs[site])):
            way = ", ".join(sites.name(each) for each in reversed(tree.path(site)))
            return f"for {sites.name(site)} at best it is {costs[site]:.6g}, on the path {way}"
    return None


def _nowhere(constraint: Constraint, metric: goals.Expression, sites: Sites, root: int) -> str | None:
    everyone = range(sites.count)
    trees: list[Tree] = [star(sites.count, parent) for parent in everyone]
    for site in everyone:
        parents = [root] if site == root else [parent for parent in everyone if parent != site]
        values = [local_value(metric, sites, trees[parent], site) for parent in parents]
        if all(value is not None and not constraint.holds(value) for value in values):
            return f"for {sites.name(site)} it holds under no parent"
    return None

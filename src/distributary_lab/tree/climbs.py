"""Goals for trees, and climbs towards them turned into rows: what the experiments on planned trees share.

Every step of every climb is measured again from scratch, and a run fails if a step is not worth what the
climb promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

from distributary.errors import DistributaryError
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.cost import system_cost
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.optimiser import HYBRID
from distributary.plan.trees.optimum import best_paths
from distributary.plan.trees.rules import DIRECTED, LOCAL, TreeRule
from distributary.plan.trees.tree import Sites, Tree
from distributary_lab.experiment import Row

TOTAL_LATENCY = "minimise aggregate(SUM, aggregate(SUM, link latency, PATH), BROKERS)"
AVERAGE_LATENCY = "minimise aggregate(AVERAGE, aggregate(SUM, link latency, PATH), BROKERS)"
MAXIMUM_LATENCY = "minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)"
WIDEST = "maximise aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS)"
REDUNDANT_DATA = "minimise aggregate(SUM, superfluous data, BROKERS)"

LOCAL_RULES, DIRECTED_RULES, HYBRID_RULES = "local", "directed", "hybrid"
OURS, UNTOUCHED = "escape", "start"
RULES: dict[str, Sequence[TreeRule]] = {LOCAL_RULES: LOCAL, DIRECTED_RULES: DIRECTED, HYBRID_RULES: HYBRID}


def problem_of(goal: str, sites: Sites, constraint: str = "") -> Problem:
    """A goal over sites, subject to a constraint if there is one."""
    return Problem(parse_goal(f"{goal}; subject to {constraint}" if constraint else goal), sites)


def optimum(problem: Problem) -> float:
    """The cost of the best tree there is for a path metric without limits, by Dijkstra."""
    return float(problem.at(best_paths(problem)[0]).cost)


def standing(problem: Problem, tree: Tree) -> TreeClimb:
    """A tree as it is, to be measured like a climb."""
    return TreeClimb(tree, tree, problem.at(tree).cost, (), 0)


def promised_costs(problem: Problem, found: TreeClimb) -> list[float]:
    """The cost at the start and after each period, as the climb has them."""
    return [float(problem.at(found.start).cost), *(float(step.after) for step in found.steps)]


def measured_costs(problem: Problem, found: TreeClimb, near_zero: float = 0.0) -> list[float]:
    """The same, measured again; an error where a step was promised another cost.

    Costs that may be 0 need a difference `near_zero` that is allowed all the same.
    """
    tree = found.start
    costs = [float(system_cost(problem.goal.cost, problem.sites, tree))]
    for step in found.steps:
        for rewrite in step.rewrites:
            tree = tree.changed(rewrite.changes)
        costs.append(float(system_cost(problem.goal.cost, problem.sites, tree)))
        if not isclose(costs[-1], float(step.after), rel_tol=1e-9, abs_tol=near_zero):
            raise DistributaryError(f"a step was to lead to {step.after} and led to {costs[-1]}")
    return costs


def measured(problem: Problem, method: str, found: TreeClimb, best: float) -> Row:
    """A climb in numbers, after its steps were measured again."""
    measured_costs(problem, found)
    return {
        "method": method,
        "share": float(found.cost) / best,
        "rewrites": len(found.rewrites),
        "connections": sum(len(rewrite.changes) for rewrite in found.rewrites),
        "weighed": found.considered,
    }

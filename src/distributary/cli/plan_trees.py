"""`distributary plan` for trees: the tree for a set of sites and a goal, what it costs, and why."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path
from random import Random
from typing import Any

from distributary.cli.plan_output import PlanFiles, print_comparison, several
from distributary.plan.amounts import shown, with_unit
from distributary.plan.goal.text import goal_text
from distributary.plan.goal.units import system_unit, unit_of
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.cost import violations
from distributary.plan.trees.drawing import DrawnTree, TreePictureUnits, tree_svg, tree_text
from distributary.plan.trees.escape import improve
from distributary.plan.trees.mending import mended
from distributary.plan.trees.reasons import moves_of
from distributary.plan.trees.sites_file import TreePlan, read_plan
from distributary.plan.trees.starts import best_effort, nearest_first, usual_trees
from distributary.plan.trees.tree import Tree


def plan_tree(arguments: argparse.Namespace) -> PlanFiles:
    """Find the tree for the sites of a file and tell what came of it."""
    plan = read_plan(
        arguments.file,
        goal=arguments.goal,
        root=arguments.root,
        bandwidth=_absolute(arguments.bandwidth),
        site=_absolute(arguments.sites),
        streams=_absolute(arguments.streams),
    )
    problem = Problem(plan.goal, plan.sites)
    start = plan.today or _start(problem, plan.root, arguments.seed)
    found = improve(problem, start, arguments.seed)
    usual = usual_trees(problem, plan.root, arguments.seed)
    record = _record(plan, problem, found, usual)
    costs = problem.at(found.tree).costs
    print(tree_text(found.tree, plan.sites, costs))
    print(f"\n{'today' if plan.today else 'best-effort start'}: {shown(record['before'])}")
    many = several(len(record["moves"]), "site")
    print(f"planned: {shown(record['after'])}, with {many} under another parent\n")
    for move in record["moves"]:
        before, after = (shown(cost) or "none" for cost in move["cost"])
        why = f"its cost: {before} to {after}; {move['reason']}"
        print(f"  {move['site']}: from {move['from']} to {move['to']}  ({why})")
    others = (
        (name, shown(other["cost"]), (other["broken"] or [""])[0])
        for name, other in record["comparison"].items()
    )
    print_comparison(others)
    return PlanFiles(record, lambda: _picture(plan, problem, found))


def _start(problem: Problem, root: int, seed: int) -> Tree:
    """A best-effort tree; if that breaks a constraint, one in which the nearest sites joined first."""
    tree = best_effort(problem, Random(seed), root)
    if violations(problem.goal, problem.sites, tree):
        tree = mended(problem, nearest_first(problem, root))
    return tree


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())


def _picture(plan: TreePlan, problem: Problem, found: TreeClimb) -> str:
    """The tree of today, if there is one, and the planned one."""
    goal, units = plan.goal, plan.units.by_metric
    system = system_unit(goal.cost, units)

    def drawn(name: str, what: str, tree: Tree, new: Collection[int]) -> DrawnTree:
        measured = problem.at(tree)
        worst = measured.cost if goal.cost.function.is_bottleneck else None
        heading = f"{what}: {with_unit(measured.cost, system)}"
        return DrawnTree(name, heading, tree, measured.costs, new, worst)

    parents = zip(found.start.parents, found.tree.parents, strict=True)
    new = {site for site, (before, after) in enumerate(parents) if before != after}
    trees = [drawn("planned", "Planned", found.tree, new)]
    if plan.today is not None:
        trees.insert(0, drawn("before", "Today", found.start, ()))
    shown_units = TreePictureUnits(plan.units, unit_of(goal.cost.value, units))
    return tree_svg(plan.sites, trees, goal_text(goal).splitlines()[0], shown_units)


def _record(plan: TreePlan, problem: Problem, found: TreeClimb, usual: dict[str, Tree]) -> dict[str, Any]:
    name = plan.sites.name
    before, after = problem.at(found.start), problem.at(found.tree)

    def cost(value: Any) -> float | None:
        return None if value is None else float(value)

    return {
        "goal": goal_text(plan.goal),
        "root": name(plan.root),
        "parents": {name(s): name(found.tree.parents[s]) for s in found.tree.order if s != plan.root},
        "costs": {name(site): cost(after.costs[site]) for site in found.tree.order},
        "before": float(before.cost),
        "after": float(after.cost),
        "moves": [
            {
                "site": name(move.site),
                "from": name(move.old),
                "to": name(move.new),
                "cost": [cost(move.before), cost(move.after)],
                "reason": move.reason,
            }
            for move in moves_of(problem, found)
        ],
        "comparison": {
            label: {
                "cost": float(problem.at(tree).cost),
                "broken": violations(plan.goal, plan.sites, tree),
            }
            for label, tree in usual.items()
        },
    }

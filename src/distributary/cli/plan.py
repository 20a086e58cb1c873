"""The command `distributary plan`: the tree for a set of sites and a goal, what it costs, and why.

Files with queries are for `plan_queries`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributary.cli.terminal import SEED, WELL, add_options, describe, write_text
from distributary.errors import DistributaryError

if TYPE_CHECKING:
    from distributary.plan.goal.expression import Number
    from distributary.plan.trees.benefit import Problem
    from distributary.plan.trees.climb import TreeClimb
    from distributary.plan.trees.sites_file import TreePlan
    from distributary.plan.trees.tree import Tree


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command and add its arguments."""
    describe(
        command,
        """Reads sites, latencies, bandwidths, interests and a goal, and prints the tree, what it costs before
and after, which sites get another parent and why, and how it compares with the trees one would have drawn. It
starts from the parents given, if they are there, else from a best-effort tree. FILE is a TOML file that names
or holds everything, or a CSV file of latencies.

If the file names queries, it is their operators that are placed: printed are where each runs, what it costs
before and after, what moved and why, and how it compares with all at the clients, all at the sources, and
each in turn where it is best.""",
        """  distributary plan sites.toml
  distributary plan sites.toml --goal 'maximise aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS)'
  distributary plan sites.toml --json tree.json --svg tree.svg
  distributary plan latency.csv --root fra --goal \\
    'minimise aggregate(AVERAGE, aggregate(SUM, link latency, PATH), BROKERS); subject to fanout <= 6'
  distributary plan queries-on-sites.toml --svg placement.svg""",
    )
    command.add_argument("file", type=Path, metavar="FILE", help="what is known of the sites (TOML or CSV)")
    add_options(
        command,
        ("--goal TEXT", str, "instead of the one in the file"),
        ("--root SITE", str, "where everything comes from, instead of the file's"),
        ("--bandwidth CSV", Path, "bandwidths, instead of the file's"),
        ("--sites CSV", Path, "clients, interests and parents of the sites, likewise"),
        ("--streams CSV", Path, "streams and their rates, likewise"),
        ("--trees", False, "with queries: give sites other parents in the trees as well"),
        ("--json FILE", Path, "write the plan there as JSON"),
        ("--svg FILE", Path, "draw the plan there"),
        SEED,
    )
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from distributary.plan.queries.plan_file import asks_for_queries

    if asks_for_queries(arguments.file):
        return _run_queries(arguments)
    if arguments.trees:
        raise DistributaryError(f"--trees is for plans of queries, and {arguments.file} names none")
    return _run_tree(arguments)


def _run_queries(arguments: argparse.Namespace) -> int:
    from distributary.cli.plan_queries import plan_queries

    for option in ("root", "bandwidth", "sites", "streams"):
        if getattr(arguments, option) is not None:
            raise DistributaryError(f"--{option} is for plans of trees, and {arguments.file} names queries")
    return plan_queries(arguments.file, arguments.goal, arguments.trees, arguments.json, arguments.svg)


def _run_tree(arguments: argparse.Namespace) -> int:
    from distributary.plan.trees.benefit import Problem
    from distributary.plan.trees.drawing import shown, tree_text
    from distributary.plan.trees.escape import improve
    from distributary.plan.trees.sites_file import read_plan
    from distributary.plan.trees.starts import usual_trees

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
    many = "1 site" if len(record["moves"]) == 1 else f"{len(record['moves'])} sites"
    print(f"planned: {shown(record['after'])}, with {many} under another parent\n")
    for move in record["moves"]:
        why = f"{_change(move['cost'])}; {move['reason']}"
        print(f"  {move['site']}: from {move['from']} to {move['to']}  ({why})")
    print("\ncompared with")
    for name, other in record["comparison"].items():
        broken = f"  breaks {other['broken'][0]}" if other["broken"] else ""
        print(f"  {name:<22} {shown(other['cost']):>10}{broken}")
    if arguments.json:
        write_text(arguments.json, json.dumps(record, indent=2) + "\n")
    if arguments.svg:
        write_text(arguments.svg, _picture(plan, found, costs))
    return WELL


def _start(problem: Problem, root: int, seed: int) -> Tree:
    """A best-effort tree; if that breaks a constraint, one in which the nearest sites joined first."""
    from random import Random

    from distributary.plan.trees.cost import violations
    from distributary.plan.trees.mending import mended
    from distributary.plan.trees.starts import best_effort, nearest_first

    tree = best_effort(problem, Random(seed), root)
    if violations(problem.goal, problem.sites, tree):
        tree = mended(problem, nearest_first(problem, root))
    return tree


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())


def _picture(plan: TreePlan, found: TreeClimb, costs: Sequence[Number | None]) -> str:
    from distributary.plan.goal.text import goal_text
    from distributary.plan.trees.drawing import shown, tree_svg

    title = f"{goal_text(plan.goal).splitlines()[0]}: {shown(found.cost)}"
    parents = zip(found.start.parents, found.tree.parents, strict=True)
    new = {site for site, (before, after) in enumerate(parents) if before != after}
    bottleneck = plan.goal.cost.function.is_bottleneck
    return tree_svg(found.tree, plan.sites, costs, title, new, found.cost if bottleneck else None)


def _change(costs: list[float | None]) -> str:
    from distributary.plan.trees.drawing import shown

    return f"its cost: {shown(costs[0]) or 'none'} to {shown(costs[1]) or 'none'}"


def _record(plan: TreePlan, problem: Problem, found: TreeClimb, usual: dict[str, Tree]) -> dict[str, Any]:
    from distributary.plan.goal.text import goal_text
    from distributary.plan.trees.cost import violations
    from distributary.plan.trees.reasons import moves_of

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

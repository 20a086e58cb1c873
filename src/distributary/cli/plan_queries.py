"""`distributary plan` for queries: where each operator runs, what moved and why, and what that brings."""

from __future__ import annotations

import argparse
from typing import Any

from distributary.cli.plan_output import PlanFiles, print_comparison, several
from distributary.plan.amounts import amount, with_unit
from distributary.plan.goal.text import goal_text
from distributary.plan.goal.units import system_unit
from distributary.plan.queries.baselines import at_sources, client_star, globally
from distributary.plan.queries.beginnings import best_from_beginnings
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.cost import query_violations
from distributary.plan.queries.drawing import (
    DrawnPlacement,
    flows_of,
    operators_at,
    placement_svg,
    placement_text,
    spread_streams,
)
from distributary.plan.queries.generator import at_clients
from distributary.plan.queries.graph import RETIRED
from distributary.plan.queries.joint import improve_both
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.plan_file import QueryPlan, read_query_plan
from distributary.plan.queries.rules import HYBRID


def plan_queries(arguments: argparse.Namespace) -> PlanFiles:
    """Place the queries of a file and tell what came of it."""
    plan = read_query_plan(arguments.file, arguments.goal)
    found = _placed(plan, arguments.trees)
    told = _record(plan, found)
    print(placement_text(found))
    print(f"\n{'today' if plan.today else 'all at their clients'}: {amount(told['before'])}")
    print(f"planned: {amount(told['after'])}, with {several(len(told['moves']), 'operator')} elsewhere\n")
    for move in told["moves"]:
        origin = f"from {move['from']} to {move['to']}" if move["from"] else f"new, at {move['to']}"
        print(f"  {move['operator']}: {origin}  ({move['reason']})")
    for root, parents in told["new_parents"].items():
        print(f"  tree of {root}: {', '.join(f'{site} under {above}' for site, above in parents.items())}")
    if told["broken"]:
        print(f"\nthe plan still breaks {several(len(told['broken']), 'limit')}: {told['broken'][0]}")
    others = (
        (name, amount(other["cost"]), several(other["broken"], "limit") if other["broken"] else "")
        for name, other in told["comparison"].items()
    )
    print_comparison(others)
    return PlanFiles(told, lambda: _picture(plan, found, told))


def _picture(plan: QueryPlan, found: Placement, told: dict[str, Any]) -> str:
    """Where operators are at first, and where they are planned to be."""
    unit = system_unit(plan.goal.cost, plan.units)
    moved = {index for index, _ in _moved(plan.start, found)}
    first = "Today" if plan.today else "All at their clients"
    return placement_svg(
        [
            DrawnPlacement("before", f"{first}: {with_unit(told['before'], unit)}", plan.start, moved),
            DrawnPlacement("planned", f"Planned: {with_unit(told['after'], unit)}", found, moved),
        ],
        str(told["goal"]).splitlines()[0],
    )


def _placed(plan: QueryPlan, trees: bool) -> Placement:
    def improve(placement: Placement) -> Placement:
        if trees:
            return improve_both(plan.goal, placement, plan.rules, HYBRID)
        return climb(plan.goal, placement, plan.rules, HYBRID).placement

    return best_from_beginnings(plan.goal, plan.start, improve)


def _moved(start: Placement, found: Placement) -> list[tuple[int, int | None]]:
    """The operators that run elsewhere, with their site before; replicas have none."""
    before: list[int | None] = [*start.hosts]
    before += [None] * (len(found.hosts) - len(before))
    return [
        (index, old)
        for index, (old, new) in enumerate(zip(before, found.hosts, strict=True))
        if old != new and found.workload.operators[index].kind != RETIRED
    ]


def _record(plan: QueryPlan, found: Placement) -> dict[str, Any]:
    goal, name, workload = plan.goal, found.network.sites.name, found.workload
    estimate = PlacementEstimate(goal, found)
    streams = [source.name for source in workload.sources] + [one.name for one in workload.operators]
    return {
        "goal": goal_text(goal),
        "operators": {
            workload.operators[index].name: {
                "site": name(site),
                "kind": workload.operators[index].kind,
                "reads": [streams[stream] for stream in workload.operators[index].inputs],
                "load": float(found.load(index)),
                "rate": float(workload.output_rate(index)),
            }
            for site, operators in operators_at(found).items()
            for index in operators
        },
        "before": float(PlacementEstimate(goal, plan.start).cost),
        "after": float(estimate.cost),
        "broken": query_violations(goal, found) if estimate.broken() else [],
        "moves": [_move(estimate, index, old) for index, old in _moved(plan.start, found)],
        "trees": {
            workload.operators[operator].name: {name(site): name(parent) for site, parent in parents.items()}
            for operator, parents in spread_streams(found).items()
        },
        "new_parents": _new_parents(plan.start, found),
        "links": [
            {"from": name(one), "to": name(other), "rate": rate}
            for (one, other), rate in sorted(flows_of(found).items())
        ],
        "comparison": _comparison(plan),
    }


def _move(estimate: Any, index: int, old: int | None) -> dict[str, Any]:
    """A move, and what would be if the operator went back, all others where they are."""
    state = estimate.state
    name = state.network.sites.name
    move = {
        "operator": state.workload.operators[index].name,
        "from": None if old is None else name(old),
        "to": name(state.hosts[index]),
    }
    if old is None:
        return {**move, "reason": "a replica, so that each works on a part"}
    benefit = float(estimate.benefits(index, [old])[0])
    if benefit == float("-inf"):
        return {**move, "reason": "there it would break a limit"}
    cost = estimate.cost - estimate.goal.sign * benefit
    return {**move, "reason": f"the whole would cost {amount(cost)} without"}


def _new_parents(start: Placement, found: Placement) -> dict[str, dict[str, str]]:
    """By root: the sites that have another parent in its tree, and which."""
    name = found.network.sites.name
    changed: dict[str, dict[str, str]] = {}
    for before, after in zip(start.network.trees, found.network.trees, strict=True):
        pairs = enumerate(zip(before.parents, after.parents, strict=True))
        new = {name(site): name(now) for site, (old, now) in pairs if old != now}
        if new:
            changed[name(after.root)] = new
    return changed


def _comparison(plan: QueryPlan) -> dict[str, dict[str, Any]]:
    workload, network = plan.start.workload, plan.start.network
    usual = {
        "CLIENT-STAR": client_star(workload, network),
        "CLIENT-TREE": at_clients(workload, network),
        "SOURCE": at_sources(workload, network),
        "GLOBAL": globally(plan.goal, workload, network),
    }
    standings = {label: PlacementEstimate(plan.goal, placement) for label, placement in usual.items()}
    return {
        label: {"cost": float(estimate.cost), "broken": estimate.broken()}
        for label, estimate in standings.items()
    }

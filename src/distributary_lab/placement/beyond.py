"""Beyond the thesis: trees and queries improved together, placement by rules beside springs, and shedding.

Nothing here is in the papers but the question: the thesis leaves open (section 7) whether its rules for trees
and its rules for queries are better applied together.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from distributary.plan.queries.goals import BANDWIDTH, LATENCY, LOAD
from distributary.plan.queries.joint import improve_both, improve_trees
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.relaxation import relaxed
from distributary.plan.queries.rules import DIRECTED, HYBRID, LOCAL, MIGRATIONS
from distributary.plan.queries.shedding import shed_load
from distributary.plan.queries.state import Floats
from distributary_lab.claims import Claim
from distributary_lab.experiment import Answer, Experiment, Plot, Point, Row, Rows, Verdict, grid
from distributary_lab.placement.networks import (
    CLIENT_TREE,
    DEVIATION,
    HYBRID_RULES,
    goal_of,
    row_of,
    start_at,
)
from distributary_lab.rows import mean, means, number, select
from distributary_lab.tree.networks import OPTIONS

METRICS = {"bandwidth": BANDWIDTH, "latency": LATENCY}
LIMITS = ("node load <= 5", "fanout <= 12")
LIMIT = 5.0

TREES_ALONE, QUERIES_ALONE, BOTH = "trees", "queries", "both"
SPRINGS, AFTER_SPRINGS = "springs", "springs, then rules"
ALIKE, WORTH, PLACED = "all alike", "by worth", "placed, then by worth"
WORK = "work that cannot be done"


# What is measured


def run_joint(point: Point, random: np.random.Generator) -> list[Row]:
    """Rules for trees, rules for queries, and both in turns, under limits on load and fanout."""
    start = start_at(point, random, limit=LIMIT)
    rows: list[Row] = []
    for name, text in METRICS.items():
        goal = goal_of(text, *LIMITS)
        trees, _, _ = improve_trees(goal, start)
        found = [
            row_of(goal, CLIENT_TREE, start),
            row_of(goal, TREES_ALONE, trees),
            row_of(goal, QUERIES_ALONE, climb(goal, start, MIGRATIONS, LOCAL)),
            row_of(goal, BOTH, improve_both(goal, start).placement),
        ]
        first = number(found[0], "cost")
        rows += [{**row, "metric": name, "share": number(row, "cost") / first} for row in found]
    return rows


def run_springs(point: Point, random: np.random.Generator) -> list[Row]:
    """Rules beside springs in a space of latencies, and rules after them."""
    start = start_at(point, random)
    rows: list[Row] = []
    for name, text in {**METRICS, "load": LOAD}.items():
        goal = goal_of(text)
        springs = relaxed(start.workload, start.network)
        found = [
            row_of(goal, CLIENT_TREE, start),
            row_of(goal, SPRINGS, springs),
            row_of(goal, AFTER_SPRINGS, climb(goal, springs, MIGRATIONS, HYBRID)),
            row_of(goal, HYBRID_RULES, climb(goal, start, MIGRATIONS, HYBRID)),
        ]
        first = number(found[0], "cost")
        rows += [{**row, "metric": name, "share": number(row, "cost") / first} for row in found]
    return rows


def run_shedding(point: Point, random: np.random.Generator) -> list[Row]:
    """More to do than sites can: what is lost of the queries' worth, in three ways."""
    start = start_at(point, random)
    workload = start.workload
    worth = np.exp(random.normal(0.0, 1.0, len(workload.queries)))
    queries = (
        replace(query, utility=float(each)) for query, each in zip(workload.queries, worth, strict=True)
    )
    start = Placement(replace(workload, queries=tuple(queries)), start.network, start.hosts)
    placed = climb(goal_of(LOAD), start, MIGRATIONS, DIRECTED).placement
    average = float(sum(map(workload.load, range(len(workload.operators))))) / start.network.sites.count
    rows: list[Row] = []
    for overload in map(float, str(point["overloads"]).split()):
        limit = average / overload
        lost = {
            ALIKE: lost_alike(start, limit),
            WORTH: shed_load(start, limit).lost,
            PLACED: shed_load(placed, limit).lost,
        }
        # Without regard to who is worth more, this share of the work cannot be done wherever it is.
        least = 100 * max(0.0, 1 - 1 / overload)
        rows.extend(
            {"overload": overload, "method": name, "lost": 100 * share, "work": least}
            for name, share in lost.items()
        )
        rows.append({"overload": overload, "method": WORK, "lost": least, "work": least})
    return rows


def lost_alike(placement: Placement, limit: float) -> float:
    """The share of all worth that is lost when a site with too much thins out all its queries alike.

    A query passes all its sites, and keeps what the most loaded of them lets through.
    """
    workload = placement.workload
    loads: Floats = np.zeros(placement.network.sites.count)
    for index, host in enumerate(placement.hosts):
        loads[host] += float(workload.load(index))
    let_through = np.minimum(1.0, limit / np.maximum(loads, limit))
    worth = np.array([float(query.utility) for query in workload.queries])
    kept = np.array(
        [min(let_through[placement.hosts[at]] for at in query.operators) for query in workload.queries]
    )
    return float((worth * (1 - kept)).sum() / worth.sum())


# Checks


def check_joint(rows: Rows) -> Verdict:
    """Both together beat each alone, in every run."""
    shares = {
        name: {
            method: mean(rows, "share", metric=name, method=method)
            for method in (TREES_ALONE, QUERIES_ALONE, BOTH)
        }
        for name in METRICS
    }
    gains = {
        name: 100 * (1 - found[BOTH] / min(found[TREES_ALONE], found[QUERIES_ALONE]))
        for name, found in shares.items()
    }
    costs = {
        method: [number(row, "cost") for row in select(rows, method=method)]
        for method in (TREES_ALONE, QUERIES_ALONE, BOTH)
    }
    everywhere = all(
        both < min(one, other)
        for both, one, other in zip(
            *(costs[each] for each in (BOTH, TREES_ALONE, QUERIES_ALONE)), strict=True
        )
    )
    first = [number(row, "broken") for row in select(rows, method=CLIENT_TREE)]
    kept = all(
        number(row, "broken") <= before for row, before in zip(select(rows, method=BOTH), first, strict=True)
    )
    return Verdict.of(
        everywhere and kept,
        ours=", ".join(f"{name} {gain:.0f} % less" for name, gain in gains.items())
        + " than the better alone",
        reason="Judged: below either alone in every run, and no more limits broken than at the start. Of the "
        "start's cost remain "
        + "; ".join(
            f"{name}: " + ", ".join(f"{method} {100 * share:.0f} %" for method, share in found.items())
            for name, found in shares.items()
        )
        + f". Limits: {' and '.join(LIMITS)}.",
    )


def check_springs(rows: Rows) -> Verdict:
    """Rules beat springs for every metric."""
    names = list(means(rows, "share", by="metric"))
    methods = (SPRINGS, HYBRID_RULES, AFTER_SPRINGS)
    shares = {
        str(name): {method: mean(rows, "share", metric=name, method=method) for method in methods}
        for name in names
    }
    return Verdict.of(
        all(found[HYBRID_RULES] < found[SPRINGS] for found in shares.values()),
        ours="; ".join(
            f"{name}: " + ", ".join(f"{method} {100 * share:.0f} %" for method, share in found.items())
            for name, found in shares.items()
        )
        + " of the start's cost",
        reason="Judged: rules below springs for every metric. Springs know rates and latencies, and "
        "neither the goal nor what is shared.",
    )


def check_shedding(rows: Rows) -> Verdict:
    """Shedding by worth loses less than thinning out alike, and least where queries were placed first."""
    lost = {name: means(select(rows, method=name), "lost", by="overload") for name in (ALIKE, WORTH, PLACED)}
    least = means(rows, "work", by="overload")
    return Verdict.of(
        all(lost[PLACED][at] < lost[WORTH][at] < lost[ALIKE][at] for at in least),
        ours="; ".join(
            f"{name} " + ", ".join(f"{share:.0f} %" for share in shares.values())
            for name, shares in lost.items()
        )
        + f" of the worth lost at {', '.join(f'{float(at):g}' for at in least)} times what all sites can do",
        reason="Judged: in this order at every overload. Work that has to be dropped: "
        + ", ".join(f"{share:.0f} %" for share in least.values())
        + ". Worths are lognormal.",
    )


# The experiments

JOINT = Claim(
    "beyond-placement-joint",
    "trees and queries improved together cost less than with either kind of rules alone, under limits on "
    "load and fanout",
    "an open question of the thesis (003 section 7)",
)
SPRING = Claim(
    "beyond-placement-springs",
    "placement by rules costs less than by springs in a space of latencies, for bandwidth, latency and load",
    "no such comparison",
)
SHED = Claim(
    "beyond-placement-shedding",
    "under overload, shedding by worth loses less of it than thinning out all queries alike, and less still "
    "after placement",
    "no such comparison",
)

LEFT = "of CLIENT-TREE's cost"

EXPERIMENTS = (
    Experiment(
        name="placement-joint",
        title="Trees and queries improved together",
        grid=grid(nodes=[40], queries=[150], run=[1, 2]),
        quick=grid(nodes=[24], queries=[60], run=[1, 2]),
        run=run_joint,
        options=OPTIONS,
        answers={
            JOINT.id: Answer(
                check_joint,
                (
                    Plot(
                        "What remains of the cost",
                        x="metric",
                        y="share",
                        series="method",
                        kind="bars",
                        where={"method": (TREES_ALONE, QUERIES_ALONE, BOTH)},
                        y_label=LEFT,
                    ),
                ),
                claim=JOINT,
            ),
        },
        deviation=DEVIATION,
    ),
    Experiment(
        name="placement-springs",
        title="Placement by rules and by springs in a space of latencies",
        grid=grid(nodes=[100], queries=[500], run=[1]),
        quick=grid(nodes=[30], queries=[80], run=[1]),
        run=run_springs,
        options=OPTIONS,
        answers={
            SPRING.id: Answer(
                check_springs,
                (
                    Plot(
                        "What remains of the cost",
                        x="metric",
                        y="share",
                        series="method",
                        kind="bars",
                        where={"method": (SPRINGS, HYBRID_RULES, AFTER_SPRINGS)},
                        y_label=LEFT,
                    ),
                ),
                claim=SPRING,
            ),
        },
        deviation=DEVIATION,
    ),
    Experiment(
        name="placement-shedding",
        title="What is lost under overload",
        grid=grid(nodes=[40], queries=[200], overloads=["1.1 1.5 2 3"], run=[1, 2]),
        quick=grid(nodes=[20], queries=[80], overloads=["1.1 1.5 2 3"], run=[1]),
        run=run_shedding,
        options=OPTIONS,
        answers={
            SHED.id: Answer(
                check_shedding,
                (
                    Plot(
                        "Worth lost",
                        x="overload",
                        y="lost",
                        series="method",
                        x_label="work, times what all sites together can do",
                        y_label="of all queries' worth, %",
                    ),
                ),
                claim=SHED,
            ),
        },
        deviation=DEVIATION,
    ),
)

"""Beyond the thesis: trees and queries improved together, placement by rules beside springs, and shedding.

Nothing here is in the papers but the question: the thesis leaves open (section 7) whether its rules for trees
and its rules for queries are better applied together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from distributary.plan.goal.expression import Goal
from distributary.plan.queries.goals import BANDWIDTH, LATENCY, LOAD
from distributary.plan.queries.joint import improve_both, improve_trees
from distributary.plan.queries.optimiser import QueryClimb, climb
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.relaxation import relaxed
from distributary.plan.queries.rules import DIRECTED, HYBRID, LOCAL, MIGRATIONS
from distributary.plan.queries.shedding import shed_load
from distributary_lab.experiment import Point, Row, Rows, Verdict, answer, grid
from distributary_lab.placement import setup
from distributary_lab.rows import curves, listed, mean, means, named, number, numbers

METRICS = {"bandwidth": BANDWIDTH, "latency": LATENCY}
LIMITS = ("node load <= 5", "fanout <= 12")
LIMIT = 5.0

TREES_ALONE, QUERIES_ALONE, BOTH = "trees", "queries", "both"
SPRINGS, AFTER_SPRINGS = "springs", "springs, then rules"
ALIKE, WORTH, PLACED = "all alike", "by worth", "placed, then by worth"
WORK = "work that cannot be done"

Ends = dict[str, QueryClimb | Placement]
"""What each method came to."""


# What is measured


def compared(metric: str, goal: Goal, ends: Ends) -> list[Row]:
    """Placements for one metric, each also as a share of the first one's cost."""
    rows = [setup.row_of(goal, method, found) for method, found in ends.items()]
    first = number(rows[0], "cost")
    return [{**row, "metric": metric, "share": number(row, "cost") / first} for row in rows]


def run_joint(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Rules for trees, rules for queries, and both in turns, under limits on load and fanout."""
    start = setup.start_at(point, random, limit=LIMIT)
    for metric, text in METRICS.items():
        goal = setup.goal_of(text, *LIMITS)
        ends: Ends = {
            setup.CLIENT_TREE: start,
            TREES_ALONE: improve_trees(goal, start),
            QUERIES_ALONE: climb(goal, start, MIGRATIONS, LOCAL),
            BOTH: improve_both(goal, start),
        }
        yield from compared(metric, goal, ends)


def run_springs(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Rules beside springs in a space of latencies, and rules after them."""
    start = setup.start_at(point, random)
    springs = relaxed(start.workload, start.network)
    for metric, text in {**METRICS, "load": LOAD}.items():
        goal = setup.goal_of(text)
        ends: Ends = {
            setup.CLIENT_TREE: start,
            SPRINGS: springs,
            AFTER_SPRINGS: climb(goal, springs, MIGRATIONS, HYBRID),
            setup.HYBRID_RULES: climb(goal, start, MIGRATIONS, HYBRID),
        }
        yield from compared(metric, goal, ends)


def run_shedding(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """More to do than sites can: what is lost of the queries' worth, in three ways."""
    start = setup.start_at(point, random)
    workload = start.workload
    worth = np.exp(random.normal(0.0, 1.0, len(workload.queries)))
    queries = (
        replace(query, utility=float(each)) for query, each in zip(workload.queries, worth, strict=True)
    )
    start = Placement(replace(workload, queries=tuple(queries)), start.network, start.hosts)
    placed = climb(setup.goal_of(LOAD), start, MIGRATIONS, DIRECTED).placement
    average = float(sum(map(workload.load, range(len(workload.operators))))) / start.network.sites.count
    for overload in map(float, str(point["overloads"]).split()):
        limit = average / overload
        lost = {
            ALIKE: lost_alike(start, limit),
            WORTH: shed_load(start, limit).lost,
            PLACED: shed_load(placed, limit).lost,
        }
        # Without regard to who is worth more, this share of the work cannot be done wherever it is.
        least = 100 * max(0.0, 1 - 1 / overload)
        for name, share in lost.items():
            yield {"overload": overload, "method": name, "lost": 100 * share, "work": least}
        yield {"overload": overload, "method": WORK, "lost": least, "work": least}


def lost_alike(placement: Placement, limit: float) -> float:
    """The share of all worth that is lost when a site with too much thins out all its queries alike.

    A query passes all its sites, and keeps what the most loaded of them lets through.
    """
    workload = placement.workload
    weights = [float(workload.load(index)) for index in range(len(placement.hosts))]
    loads = np.bincount(placement.hosts, weights, placement.network.sites.count)
    let_through = np.minimum(1.0, limit / np.maximum(loads, limit))
    worth = np.array([float(query.utility) for query in workload.queries])
    kept = np.array(
        [min(let_through[placement.hosts[at]] for at in query.operators) for query in workload.queries]
    )
    return float((worth * (1 - kept)).sum() / worth.sum())


# Checks


def shares_of(rows: Rows, *methods: str) -> dict[str, dict[str, float]]:
    """By metric, as it stands in texts, and method: what remains of the start's cost, on average."""
    return {
        f"{metric}:": {method: mean(rows, "share", metric=metric, method=method) for method in methods}
        for metric in means(rows, "share", by="metric")
    }


def _told(shares: Mapping[str, Mapping[str, float]]) -> str:
    return named(shares, lambda each: named(each, lambda share: f"{100 * share:.0f} %"), separator="; ")


def check_joint(rows: Rows) -> Verdict:
    """Both together beat each alone, in every run."""
    shares = shares_of(rows, TREES_ALONE, QUERIES_ALONE, BOTH)
    gains = {
        metric.rstrip(":"): 100 * (1 - each[BOTH] / min(each[TREES_ALONE], each[QUERIES_ALONE]))
        for metric, each in shares.items()
    }
    trees, queries, both = (numbers(rows, "cost", method=name) for name in (TREES_ALONE, QUERIES_ALONE, BOTH))
    before, after = (numbers(rows, "broken", method=name) for name in (setup.CLIENT_TREE, BOTH))
    everywhere = all(all_ < min(one, other) for all_, one, other in zip(both, trees, queries, strict=True))
    kept = all(now <= first for now, first in zip(after, before, strict=True))
    return Verdict.of(
        everywhere and kept,
        ours=named(gains, "{:.0f} % less") + " than the better alone",
        reason="Judged: below either alone in every run, and no more limits broken than at the start. Of the "
        f"start's cost remain {_told(shares)}. Limits: {' and '.join(LIMITS)}.",
    )


def check_springs(rows: Rows) -> Verdict:
    """Rules beat springs for every metric."""
    shares = shares_of(rows, SPRINGS, setup.HYBRID_RULES, AFTER_SPRINGS)
    return Verdict.of(
        all(each[setup.HYBRID_RULES] < each[SPRINGS] for each in shares.values()),
        ours=f"{_told(shares)} of the start's cost",
        reason="Judged: rules below springs for every metric. Springs know rates and latencies, and "
        "neither the goal nor what is shared.",
    )


def check_shedding(rows: Rows) -> Verdict:
    """Shedding by worth loses less than thinning out alike, and least where queries were placed first."""
    lost = curves(rows, "lost", "overload", method=(ALIKE, WORTH, PLACED))
    texts = named(lost, lambda shares: listed(shares, "{:.0f} %"), separator="; ")
    return Verdict.of(
        all(lost[PLACED][at] < lost[WORTH][at] < lost[ALIKE][at] for at in lost[WORTH]),
        ours=f"{texts} of the worth lost at {listed(list(lost[WORTH]), '{:g}')} times what all sites can do",
        reason="Judged: in this order at every overload. Worths are lognormal.",
    )


# The experiments


remaining = partial(
    setup.by_method,
    "What remains of the cost",
    "metric",
    "share",
    kind="bars",
    y_label="of CLIENT-TREE's cost",
)
LOST = setup.by_method(
    "Worth lost",
    "overload",
    "lost",
    x_label="work, times what all sites together can do",
    y_label="of all queries' worth, %",
)

EXPERIMENTS = (
    setup.placement_experiment(
        name="placement-joint",
        title="Trees and queries improved together",
        grid=grid(nodes=[40], queries=[150], run=[1, 2]),
        quick=grid(nodes=[24], queries=[60], run=[1, 2]),
        run=run_joint,
        measured=("cost", "broken", "share"),
        labels=("method", "metric"),
        answers={
            "beyond-placement-joint": answer(check_joint, remaining((TREES_ALONE, QUERIES_ALONE, BOTH)))
        },
    ),
    setup.placement_experiment(
        name="placement-springs",
        title="Placement by rules and by springs in a space of latencies",
        grid=grid(nodes=[100], queries=[500], run=[1]),
        quick=grid(nodes=[30], queries=[80], run=[1]),
        run=run_springs,
        measured=("cost", "broken", "share"),
        labels=("method", "metric"),
        answers={
            "beyond-placement-springs": answer(
                check_springs, remaining((SPRINGS, setup.HYBRID_RULES, AFTER_SPRINGS))
            )
        },
    ),
    setup.placement_experiment(
        name="placement-shedding",
        title="What is lost under overload",
        grid=grid(nodes=[40], queries=[200], overloads=["1.1 1.5 2 3"], run=[1, 2]),
        quick=grid(nodes=[20], queries=[80], overloads=["1.1 1.5 2 3"], run=[1]),
        run=run_shedding,
        measured=("lost",),
        labels=("method", "overload"),
        answers={"beyond-placement-shedding": answer(check_shedding, LOST)},
    ),
)

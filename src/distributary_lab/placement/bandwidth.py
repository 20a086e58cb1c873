"""Queries placed for the least total bandwidth: Figures 5.9, 5.13 and 5.22 of 003.

Total bandwidth is what all sites send: on the trees' links, each stream once a link, and from operators to
others that read them elsewhere. Chains of filters belong to the roots. Moves up the trees get them there if
operators that share a feed may move together, which is ours. Operators that read two feeds of different trees
do not know where to go, until they are replicated.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from distributary.plan.queries.goals import BANDWIDTH
from distributary.plan.queries.rules import LOCAL, MIGRATION, REPLICATION
from distributary_lab import words
from distributary_lab.experiment import Plot, Point, Row, Rows, Verdict, answer, grid
from distributary_lab.placement import setup
from distributary_lab.rows import curves, listed, mean, means, named, numbers

CAPACITY = 100.0
"""Cycles a second that a site has where loads are limited: so 5 % are the five cycles of Figure 5.12."""
FREE = 100
"""The limit in per cent of the capacity that stands for none."""

PERIODS = 12
"""Periods shown in Figure 5.13."""

LOCAL_TOGETHER = setup.LOCAL_RULES + setup.TOGETHER
MIGRATED, REPLICATED, TOGETHER = "migration", "replication", "both"
RULES = {MIGRATED: (MIGRATION,), REPLICATED: (REPLICATION,), TOGETHER: (MIGRATION, REPLICATION)}


# What is measured


def run_filters(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Figure 5.9: chains of five filters, by local rules."""
    start, goal = setup.start_at(point, random, filters_only=True, two_feeds=0.0), setup.goal_of(BANDWIDTH)
    for name in (setup.CLIENT_TREE, setup.CLIENT_STAR, setup.SOURCE, setup.GLOBAL):
        yield setup.baseline(name, goal, start)
    yield setup.row_of(goal, setup.LOCAL_RULES, setup.moved(goal, start, LOCAL))
    yield setup.row_of(goal, LOCAL_TOGETHER, setup.moved_together(goal, start, LOCAL))


def run_limits(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Figure 5.13: period by period, with every site's load limited to a share of its capacity."""
    limits = [int(each) for each in str(point["limits"]).split()]
    tightest = min(limits) / 100 * CAPACITY
    start = setup.start_at(
        point, random, speed=CAPACITY / 1000, filters_only=True, two_feeds=0.0, limit=tightest
    )
    for limit in limits:
        constraints = [] if limit == FREE else [f"node load <= {limit / 100} * capacity"]
        goal = setup.goal_of(BANDWIDTH, *constraints)
        found = setup.moved(goal, start, LOCAL)
        end = setup.row_of(goal, setup.LOCAL_RULES, found)
        ends = {"limit": limit, "end": end["cost"], "broken": end["broken"]}
        yield from setup.rows_by_period(found, PERIODS, "bandwidth", **ends)


def run_replication(point: Point, random: np.random.Generator) -> list[Row]:
    """Figure 5.22: every query reads two feeds."""
    start = setup.start_at(point, random, two_feeds=1.0)
    return setup.rows_by_rules(setup.goal_of(BANDWIDTH), start, RULES, LOCAL)


# Checks


def check_filters(rows: Rows) -> Verdict:
    """Figure 5.9: local rules come to the same as GLOBAL."""
    methods = (setup.LOCAL_RULES, setup.GLOBAL, setup.SOURCE, setup.CLIENT_STAR, setup.CLIENT_TREE)
    costs = curves(rows, "cost", "queries", method=methods)
    ours, best = costs[setup.LOCAL_RULES], costs[setup.GLOBAL]
    ratios = [ours[queries] / best[queries] for queries in ours]
    last = max(ours)
    local, optimal, source, star, tree = (each[last] / 1000 for each in costs.values())
    return Verdict.of(
        all(words.equal(ratio, 1) for ratio in ratios) and local < star < tree,
        ours=f"{listed(ratios, '{:.3g}')} times GLOBAL, {min(ours)} to {last} queries",
        ratio=max(ratios),
        reason="Operators are moved one by one, as the thesis has it. As long as another operator at a site "
        "reads a feed, the feed travels there all the same, so no single move pays, and the climb stops. "
        f"At {last} queries: local {local:,.0f} kB/s, GLOBAL {optimal:,.0f}, "
        f"SOURCE {source:,.0f}, CLIENT-STAR {star:,.0f}, CLIENT-TREE {tree:,.0f}.",
    )


def check_together(rows: Rows) -> Verdict:
    """Ours: moved together where they share a feed, operators come to where GLOBAL puts them."""
    methods = (LOCAL_TOGETHER, setup.LOCAL_RULES, setup.GLOBAL)
    ours, single, best = curves(rows, "cost", "queries", method=methods).values()
    ratios = [ours[queries] / best[queries] for queries in ours]
    alone = [single[queries] / best[queries] for queries in ours]
    return Verdict.of(
        all(words.equal(ratio, 1) for ratio in ratios) and all(ours[at] < single[at] for at in ours),
        ours=f"{listed(ratios, '{:.3f}')} times GLOBAL; one by one {listed(alone, '{:.3g}')} times",
        ratio=max(ratios),
        reason="Local rules from CLIENT-TREE, chains of five filters.",
    )


def check_limits(rows: Rows) -> Verdict:
    """Figure 5.13: the looser the limit, the less bandwidth."""
    ends = {
        f"{limit} %": cost / 1000 for limit, cost in means(rows, "end", by="limit", period=PERIODS).items()
    }
    start = mean(rows, "bandwidth", period=0) / 1000
    kept = not any(numbers(rows, "broken", period=PERIODS))
    return Verdict.of(
        words.falls(list(ends.values())) and kept and max(ends.values()) < start,
        ours=f"{listed(ends, '{:,.0f}')} kB/s with limits {', '.join(ends)}; {start:,.0f} at the start",
        reason="Judged: every looser limit ends lower, all below the start, and every limit is kept.",
    )


def check_replication(rows: Rows) -> Verdict:
    """Figure 5.22: replication with migration is best."""
    gains = {name: mean(rows, "improvement", method=name) for name in RULES}
    unlike = (
        " Unlike in the thesis, migration alone saves more than replication alone: its rules reach two "
        "levels and the operators' own trees, so that an operator with two feeds finds a site that is better "
        "for both."
    )
    return Verdict.of(
        gains[TOGETHER] >= max(gains.values()) and gains[TOGETHER] > gains[MIGRATED],
        ours=named(gains, "{:.0f} %") + " less bandwidth",
        reason="Judged: both rules together save most."
        + ("" if gains[REPLICATED] > gains[MIGRATED] else unlike),
    )


# The experiments

TOTAL = "total bandwidth, B/s"
BY_QUERIES = setup.by_method(
    "Total bandwidth",
    "queries",
    "cost",
    y_label=TOTAL,
    log_y=True,
    about="SOURCE and GLOBAL lie on one another, and so does the climb that moves operators together.",
)
BY_LIMIT = setup.by_period(
    "Total bandwidth by limit, per cent of a site's capacity",
    y="bandwidth",
    series="limit",
    log_y=True,
    y_label=TOTAL,
)
BY_RULES = Plot(
    "Bandwidth saved, by rules",
    "method",
    "improvement",
    where={"method": tuple(RULES)},
    kind="bars",
    y_label="below CLIENT-TREE, %",
)

EXPERIMENTS = (
    setup.placement_experiment(
        name="placement-bandwidth",
        title="Total bandwidth of chains of filters, by the number of queries",
        grid=grid(nodes=[100], queries=[100, 300, 500, 700, 900], run=[1]),
        quick=grid(nodes=[40], queries=[50, 100, 200], run=[1]),
        run=run_filters,
        answers={
            "003-fig5.9": answer(check_filters, BY_QUERIES),
            "beyond-placement-together": answer(check_together),
        },
        ours={"method": (LOCAL_TOGETHER,)},
    ),
    setup.placement_experiment(
        name="placement-bandwidth-limits",
        title="Total bandwidth under limits on the sites' load, period by period",
        grid=grid(nodes=[100], queries=[500], limits=["5 10 100"], run=[1, 2]),
        quick=grid(nodes=[40], queries=[120], limits=["5 10 100"], run=[1]),
        run=run_limits,
        measured=("bandwidth", "end", "broken"),
        labels=("limit", "period"),
        answers={"003-fig5.13": answer(check_limits, BY_LIMIT)},
        deviation=setup.DEVIATION + " Chains of filters, as in Figure 5.9; a site has 100 cycles a second.",
    ),
    setup.placement_experiment(
        name="placement-replication",
        title="Total bandwidth by migration, by replication and by both",
        grid=grid(nodes=[100], queries=[500], run=[1, 2]),
        quick=grid(nodes=[40], queries=[80], run=[1]),
        run=run_replication,
        measured=("cost", "broken", "rewrites", "improvement"),
        answers={"003-fig5.22": answer(check_replication, BY_RULES)},
        deviation=setup.DEVIATION + " Every query reads two feeds: that is where replication applies.",
    ),
)

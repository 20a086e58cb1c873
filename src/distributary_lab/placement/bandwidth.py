"""Queries placed for the least total bandwidth: Figures 5.9, 5.13 and 5.22 of 003.

Total bandwidth is what all sites send: on the trees' links, each stream once a link, and from operators to
others that read them elsewhere. Chains of filters belong to the roots, and single moves up the trees get them
there. Operators that read two feeds of different trees do not know where to go, until they are replicated.
"""

from __future__ import annotations

import numpy as np

from distributary.plan.queries.baselines import at_sources, client_star, globally
from distributary.plan.queries.goals import BANDWIDTH
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.rules import LOCAL, MIGRATION, MIGRATIONS, REPLICATION, QueryRule
from distributary_lab.experiment import Answer, Experiment, Plot, Point, Row, Rows, Verdict, grid
from distributary_lab.placement.networks import (
    CLIENT_STAR,
    CLIENT_TREE,
    DEVIATION,
    GLOBAL,
    LOCAL_RULES,
    SOURCE,
    costs,
    costs_by_period,
    goal_of,
    listed,
    row_of,
    start_at,
)
from distributary_lab.rows import mean, means, select
from distributary_lab.tree.networks import OPTIONS

CAPACITY = 100.0
"""Cycles a second that a site has where loads are limited: so 5 % are the five cycles of Figure 5.12."""
FREE = 100
"""The limit in per cent of the capacity that stands for none."""

PERIODS = 12
"""Periods shown in Figure 5.13."""

MIGRATED, REPLICATED, TOGETHER = "migration", "replication", "both"
RULES: dict[str, tuple[QueryRule, ...]] = {
    MIGRATED: (MIGRATION,),
    REPLICATED: (REPLICATION,),
    TOGETHER: (MIGRATION, REPLICATION),
}


# What is measured


def run_filters(point: Point, random: np.random.Generator) -> list[Row]:
    """Figure 5.9: chains of five filters, by local rules."""
    start = start_at(point, random, filters_only=True, two_feeds=0.0)
    goal, workload, network = goal_of(BANDWIDTH), start.workload, start.network
    return [
        row_of(goal, CLIENT_TREE, start),
        row_of(goal, CLIENT_STAR, client_star(workload, network)),
        row_of(goal, SOURCE, at_sources(workload, network)),
        row_of(goal, GLOBAL, globally(goal, workload, network)),
        row_of(goal, LOCAL_RULES, climb(goal, start, MIGRATIONS, LOCAL)),
    ]


def run_limits(point: Point, random: np.random.Generator) -> list[Row]:
    """Figure 5.13: period by period, with every site's load limited to a share of its capacity."""
    limits = [int(each) for each in str(point["limits"]).split()]
    tightest = min(limits) / 100 * CAPACITY
    start = start_at(point, random, speed=CAPACITY / 1000, filters_only=True, two_feeds=0.0, limit=tightest)
    rows: list[Row] = []
    for limit in limits:
        constraints = [] if limit == FREE else [f"node load <= {limit / 100} * capacity"]
        goal = goal_of(BANDWIDTH, *constraints)
        found = climb(goal, start, MIGRATIONS, LOCAL)
        end = row_of(goal, LOCAL_RULES, found)
        rows.extend(
            {"limit": limit, "period": period, "bandwidth": cost, "end": end["cost"], "broken": end["broken"]}
            for period, cost in enumerate(costs_by_period(found, PERIODS))
        )
    return rows


def run_replication(point: Point, random: np.random.Generator) -> list[Row]:
    """Figure 5.22: every query reads two feeds."""
    start = start_at(point, random, two_feeds=1.0)
    goal = goal_of(BANDWIDTH)
    ends = {name: climb(goal, start, rules, LOCAL) for name, rules in RULES.items()}
    rows = [row_of(goal, CLIENT_TREE, start), *(row_of(goal, name, found) for name, found in ends.items())]
    before = ends[MIGRATED].before
    return [{**row, "improvement": 100 * (1 - float(row["cost"]) / before)} for row in rows]


# Checks


def check_filters(rows: Rows) -> Verdict:
    """Figure 5.9: local rules come to the same as GLOBAL."""
    ours, best = costs(rows, "queries", LOCAL_RULES), costs(rows, "queries", GLOBAL)
    ratios = {queries: ours[queries] / best[queries] for queries in ours}
    worst = max(ratios.values())
    others = {name: costs(rows, "queries", name) for name in (CLIENT_STAR, CLIENT_TREE, SOURCE)}
    last = max(ours)
    return Verdict.of(
        worst <= 1.02 and ours[last] < others[CLIENT_STAR][last] < others[CLIENT_TREE][last],
        ours=f"{listed(ratios, 3)} times GLOBAL, {min(ours)} to {last} queries",
        ratio=worst,
        reason="Judged: within 2 % of GLOBAL at every number of queries, and below CLIENT-STAR, which is "
        f"below CLIENT-TREE. At {last} queries: local {ours[last] / 1000:,.0f} kB/s, GLOBAL "
        f"{best[last] / 1000:,.0f}, SOURCE {others[SOURCE][last] / 1000:,.0f}, CLIENT-STAR "
        f"{others[CLIENT_STAR][last] / 1000:,.0f}, CLIENT-TREE {others[CLIENT_TREE][last] / 1000:,.0f}.",
    )


def check_limits(rows: Rows) -> Verdict:
    """Figure 5.13: the looser the limit, the less bandwidth."""
    last = select(rows, period=PERIODS)
    ends = {int(limit): cost / 1000 for limit, cost in means(last, "end", by="limit").items()}
    start = mean(select(rows, period=0), "bandwidth") / 1000
    falling = all(ends[one] > ends[other] for one, other in zip(ends, list(ends)[1:], strict=False))
    kept = all(row["broken"] == 0 for row in last)
    names = [f"{limit} %" if limit < FREE else "none" for limit in ends]
    return Verdict.of(
        falling and kept and max(ends.values()) < start,
        ours=f"{listed(ends, 0)} kB/s with limits {', '.join(names)}; {start:,.0f} at the start",
        reason="Judged: every looser limit ends lower, all below the start, and every limit is kept.",
    )


def check_replication(rows: Rows) -> Verdict:
    """Figure 5.22: replication with migration is best."""
    gains = {name: mean(rows, "improvement", method=name) for name in RULES}
    return Verdict.of(
        gains[TOGETHER] >= max(gains.values()) and gains[TOGETHER] > gains[MIGRATED],
        ours=", ".join(f"{name} {gain:.0f} %" for name, gain in gains.items()) + " less bandwidth",
        reason="Judged: both rules together save most."
        + (
            ""
            if gains[REPLICATED] > gains[MIGRATED]
            else " Unlike in the thesis, migration alone saves more than replication alone: its rules reach "
            "two levels and the operators' own trees, so that an operator with two feeds finds a site that "
            "is better for both."
        ),
    )


# The experiments

TOTAL = "total bandwidth, B/s"

EXPERIMENTS = (
    Experiment(
        name="placement-bandwidth",
        title="Total bandwidth of chains of filters, by the number of queries",
        grid=grid(nodes=[100], queries=[100, 300, 500, 700, 900], run=[1]),
        quick=grid(nodes=[40], queries=[50, 100, 200], run=[1]),
        run=run_filters,
        options=OPTIONS,
        answers={
            "003-fig5.9": Answer(
                check_filters,
                (
                    Plot(
                        "Total bandwidth",
                        x="queries",
                        y="cost",
                        series="method",
                        log_y=True,
                        y_label=TOTAL,
                        about="SOURCE, GLOBAL and the climb by local rules lie on one another.",
                    ),
                ),
            ),
        },
        deviation=DEVIATION,
    ),
    Experiment(
        name="placement-bandwidth-limits",
        title="Total bandwidth under limits on the sites' load, period by period",
        grid=grid(nodes=[100], queries=[500], limits=["5 10 100"], run=[1, 2]),
        quick=grid(nodes=[40], queries=[120], limits=["5 10 100"], run=[1]),
        run=run_limits,
        options=OPTIONS,
        answers={
            "003-fig5.13": Answer(
                check_limits,
                (
                    Plot(
                        "Total bandwidth by limit, per cent of a site's capacity",
                        x="period",
                        y="bandwidth",
                        series="limit",
                        log_y=True,
                        x_label="optimisation period",
                        y_label=TOTAL,
                    ),
                ),
            ),
        },
        deviation=DEVIATION + " Chains of filters, as in Figure 5.9; a site has 100 cycles a second.",
    ),
    Experiment(
        name="placement-replication",
        title="Total bandwidth by migration, by replication and by both",
        grid=grid(nodes=[100], queries=[500], run=[1, 2]),
        quick=grid(nodes=[40], queries=[80], run=[1]),
        run=run_replication,
        options=OPTIONS,
        answers={
            "003-fig5.22": Answer(
                check_replication,
                (
                    Plot(
                        "Bandwidth saved, by rules",
                        x="method",
                        y="improvement",
                        kind="bars",
                        where={"method": tuple(RULES)},
                        y_label="below CLIENT-TREE, %",
                    ),
                ),
            ),
        },
        deviation=DEVIATION + " Every query reads two feeds: that is where replication applies.",
    ),
)

"""What placing queries costs in messages, by a model of them: Figures 5.20 and 5.21 of 003.

Counted are the bytes that sites send each other in a period, a site on average: to keep their own values
known (maintenance), to ask their neighbours when they weigh rules (optimisation), and to tell the others how
they are doing (statistics). The climb is the one with local and directed rules.

The bytes are those of a model: what the climb would have to ask and tell, at so many bytes a value. Figures
5.18 and 5.19, which are about how traffic grows, are measured on running nodes (`placement.live`).

For a maximum, Table 5.2 lets only the sites hear statistics whose value is within some delta of it, and the
thesis does not say which. What it reports of Figure 5.20 (statistics that go to more nodes the more
there are, and a lottery that saves 85 % of them) is what is seen when everybody hears, so it is judged like
that. When only the worst sites hear, most of it is saved already, and the lottery has little
left to save: measured beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from distributary.plan.queries.goals import BANDWIDTH, LATENCY, LOAD
from distributary.plan.queries.optimiser import QueryClimb
from distributary.plan.queries.rules import DIRECTED, HYBRID
from distributary.plan.queries.statistics import Dissemination
from distributary_lab import words
from distributary_lab.experiment import (
    OpenParameter,
    Plot,
    Point,
    Row,
    Rows,
    Verdict,
    answer,
    grid,
    seed_from,
)
from distributary_lab.placement import setup
from distributary_lab.rows import labelled, mean, means, named

ALL = 0
"""The `top` that stands for all statistics."""

EVERYBODY, WORST = "everybody", "worst"
SLACK = {EVERYBODY: float("inf"), WORST: 0.0}
"""Who hears statistics, and the delta of Table 5.2 that this is, as a share of the cost."""

PAPER_SAVED, PAPER_BYTES, PAPER_ASKED = 85, 240, 90
"""Figure 5.20: per cent of the statistics saved; Figure 5.21: bytes in all, and for optimisation, below."""

METRICS = {"latency": LATENCY, "load": LOAD, "bandwidth": BANDWIDTH}
KINDS = ("maintenance", "optimisation", "statistics")


# What is measured


def traffic_of(found: QueryClimb) -> Row:
    """Bytes a site and period, by purpose."""
    share = found.start.network.sites.count * max(len(found.steps), 1)
    sent = found.traffic
    purposes = dict(zip(KINDS, (sent.maintenance, sent.optimisation, sent.statistics), strict=True))
    row: Row = {kind: count / share for kind, count in purposes.items()}
    return {**row, "bytes": sent.total / share, "cost": found.cost, "periods_taken": len(found.steps)}


def run_traffic(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Figures 5.18 to 5.20: the maximum load, with all statistics and with some of them."""
    start = setup.start_at(point, random)
    for hears in str(point["hears"]).split():
        for top in map(int, str(point["tops"]).split()):
            limit = None if top == ALL else top
            told = Dissemination(limit, seed=seed_from(random), slack=SLACK[hears])
            found = setup.moved(setup.goal_of(LOAD), start, DIRECTED, statistics=told)
            yield {"hears": hears, "top": top, **traffic_of(found)}


def run_metrics(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Figure 5.21: by metric."""
    start, periods = setup.start_at(point, random), int(point["periods"])
    for name, text in METRICS.items():
        told = Dissemination(int(point["top"]), seed=seed_from(random))
        found = setup.moved(setup.goal_of(text), start, HYBRID, statistics=told, periods=periods)
        yield {"metric": name, **traffic_of(found)}


# Checks


def check_saved(rows: Rows) -> Verdict:
    """Figure 5.20: a lottery saves most statistics, and more the larger the network."""
    fewest, *_, most = labelled(rows, "nodes")
    tops = [top for top in labelled(rows, "top") if top]

    def told(top: int, nodes: int = most, hears: str = EVERYBODY) -> float:
        return mean(rows, "statistics", top=top, nodes=nodes, hears=hears)

    def saved(top: int, hears: str = EVERYBODY) -> float:
        return 100 * (1 - told(top, most, hears) / told(top=ALL, hears=hears))

    least = tops[0]
    grown = told(least) / told(least, fewest)
    some, every = (mean(rows, "cost", top=top, nodes=most, hears=EVERYBODY) for top in (least, ALL))
    return Verdict.of(
        words.saves_as_given(saved(least) / 100, PAPER_SAVED / 100) and words.flat([1, grown]),
        ours=", ".join(f"top {top}: {saved(top):.0f} % saved" for top in tops) + f" at {most} nodes",
        ratio=saved(least) / PAPER_SAVED,
        reason=f"The fewest statistics must save as much as the thesis', at a traffic that is flat from "
        f"{fewest} to {most} nodes (it grows {grown:.2f} times). The maximum load ends at "
        f"{some / every:.3f} times that with all statistics. Everybody hears. When only the worst sites do, "
        f"all statistics are {told(ALL, most, WORST):.0f} B a site instead of {told(ALL):.0f}, and of those "
        f"top {least} saves {saved(least, WORST):.0f} %.",
    )


def check_metrics(rows: Rows) -> Verdict:
    """Figure 5.21: a few hundred bytes a site, whatever the metric."""
    totals, asked = (means(rows, column, by="metric") for column in ("bytes", "optimisation"))
    return Verdict.of(
        max(totals.values()) < PAPER_BYTES and max(asked.values()) < PAPER_ASKED,
        ours=named(totals, "{:.0f} B") + " a site and period",
        ratio=max(totals.values()) / PAPER_BYTES,
        reason="Optimisation alone: "
        f"{named(asked, '{:.0f} B')}. Where the cost is a maximum only the worst sites ask, and it is low. "
        "For sums every site with operators asks all its candidates in a period: a value for each tree "
        "(latency), or a profile of 700 feeds and its rates (bandwidth). The thesis does not say over which "
        "time it counts, nor how profiles are written.",
    )


# The experiments

BYTES = "bytes a site and period"
MEASURED = (*KINDS, "bytes", "cost", "periods_taken")
WHO_HEARS = (
    " The thesis does not say how near to the maximum a site must be to hear statistics (the delta of its "
    "Table 5.2). Everybody hears here: of the two ends, the one whose figures are like the thesis's."
)
ALL_STATISTICS = Plot(
    "Traffic by nodes, all statistics", "nodes", KINDS, where={"top": ALL, "hears": EVERYBODY}, y_label=BYTES
)
BY_TOP = Plot(
    "Statistics by how many are passed on over a link (0: all)",
    x="nodes",
    y="statistics",
    series="top",
    where={"hears": EVERYBODY},
    y_label=BYTES,
)
BY_METRIC = Plot("Traffic by metric", "metric", KINDS, kind="bars", log_y=True, y_label=BYTES)
BOTH_HEAR = [f"{EVERYBODY} {WORST}"]

EXPERIMENTS = (
    setup.placement_experiment(
        name="placement-traffic-nodes",
        title="Traffic for the maximum load by network size, and what a lottery saves",
        grid=grid(nodes=[50, 100, 150, 200], queries=[500], tops=["0 40 20"], hears=BOTH_HEAR, run=[1]),
        quick=grid(nodes=[20, 120], queries=[100], tops=["0 24 12"], hears=BOTH_HEAR, run=[1]),
        run=run_traffic,
        answers={"003-fig5.20": answer(check_saved, ALL_STATISTICS, BY_TOP)},
        measured=MEASURED,
        labels=("hears", "top"),
        open_parameters=(
            setup.NETWORK,
            setup.OPERATORS,
            OpenParameter(
                "how near to the maximum a site must be to hear statistics (delta of Table 5.2)",
                "everybody hears",
                "of the two ends the one whose figures are like the thesis'",
                after=True,
                effect="if only the worst hear, most is saved without a lottery, and it has little to add",
            ),
        ),
        deviation=setup.DEVIATION + WHO_HEARS,
    ),
    setup.placement_experiment(
        name="placement-traffic-metrics",
        title="Traffic by metric",
        grid=grid(nodes=[100], queries=[500], top=[20], periods=[8], run=[1]),
        quick=grid(nodes=[30], queries=[60], top=[6], periods=[8], run=[1]),
        run=run_metrics,
        measured=MEASURED,
        labels=("metric",),
        answers={"003-fig5.21": answer(check_metrics, BY_METRIC)},
        deviation=setup.DEVIATION + " Local and directed rules, top-20 statistics, eight periods at most.",
    ),
)

"""What placing queries costs in messages: Figures 5.18 to 5.21 of 003.

Counted are the bytes that sites send each other in a period, a site on average: to keep their own values
known (maintenance), to ask their neighbours when they weigh rules (optimisation), and to tell the others how
they are doing (statistics). The climb is the one with local and directed rules.

For a maximum, Table 5.2 lets only the sites hear statistics whose value is within some delta of it, and the
thesis does not say which. What it reports of Figures 5.19 and 5.20 (statistics that go to more nodes the more
there are, and a lottery that saves 85 % of them) is what is seen when everybody hears, so these are measured
and judged like that. When only the worst sites hear, most of it is saved already, and the lottery has little
left to save: measured beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from distributary.plan.queries.goals import BANDWIDTH, LATENCY, LOAD
from distributary.plan.queries.optimiser import QueryClimb, climb
from distributary.plan.queries.rules import DIRECTED, HYBRID, MIGRATIONS
from distributary.plan.queries.statistics import Dissemination
from distributary_lab.experiment import Plot, Point, Row, Rows, Verdict, answer, grid, seed_from
from distributary_lab.placement import setup
from distributary_lab.rows import largest, listed, mean, means, named, numbers

ALL = 0
"""The `top` that stands for all statistics."""

EVERYBODY, WORST = "everybody", "worst"
SLACK = {EVERYBODY: float("inf"), WORST: 0.0}
"""Who hears statistics, and the delta of Table 5.2 that this is, as a share of the cost."""

METRICS = {"latency": LATENCY, "load": LOAD, "bandwidth": BANDWIDTH}
KINDS = ("maintenance", "optimisation", "statistics")


# What is measured


def traffic_of(found: QueryClimb) -> Row:
    """Bytes a site and period, by purpose."""
    share = found.start.network.sites.count * max(len(found.steps), 1)
    sent = found.traffic
    purposes = dict(zip(KINDS, (sent.maintenance, sent.optimisation, sent.statistics), strict=True))
    row: Row = {kind: count / share for kind, count in purposes.items()}
    return {**row, "bytes": sent.total / share, "cost": found.cost, "periods": len(found.steps)}


def run_traffic(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Figures 5.18 to 5.20: the maximum load, with all statistics and with some of them."""
    start = setup.start_at(point, random)
    for hears in str(point["hears"]).split():
        for top in map(int, str(point["tops"]).split()):
            limit = None if top == ALL else top
            told = Dissemination(limit, seed=seed_from(random), slack=SLACK[hears])
            found = climb(setup.goal_of(LOAD), start, MIGRATIONS, DIRECTED, statistics=told)
            yield {"hears": hears, "top": top, **traffic_of(found)}


def run_metrics(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Figure 5.21: by metric."""
    start, periods = setup.start_at(point, random), int(point["periods"])
    for name, text in METRICS.items():
        told = Dissemination(int(point["top"]), seed=seed_from(random))
        found = climb(setup.goal_of(text), start, MIGRATIONS, HYBRID, statistics=told, periods=periods)
        yield {"metric": name, **traffic_of(found)}


# Checks


def check_queries(rows: Rows) -> Verdict:
    """Figure 5.18: as much traffic with few queries as with many."""
    sent = means(rows, "bytes", by="queries")
    spread = max(sent.values()) / min(sent.values())
    return Verdict.of(
        spread <= 1.25,
        ours=f"{listed(sent, '{:,.0f}')} B a site and period at {listed(list(sent))} queries",
        ratio=spread,
        reason=f"Judged: {max(sent) / min(sent):.0f} times as many queries change the traffic by at most a "
        "quarter.",
    )


def check_nodes(rows: Rows) -> Verdict:
    """Figure 5.19: only statistics grow with the network."""
    sent = {kind: means(rows, kind, by="nodes", top=ALL, hears=EVERYBODY) for kind in KINDS}
    sizes = list(sent["statistics"])
    growth = {kind: each[sizes[-1]] / each[sizes[0]] for kind, each in sent.items()}
    return Verdict.of(
        growth["statistics"] > 1.5 and all(growth[kind] <= 1.25 for kind in KINDS[:2]),
        ours=named(sent, lambda each: listed(each, "{:,.1f}") + " B", separator="; ")
        + f" at {listed(sizes)} nodes",
        reason=f"Judged: from {sizes[0]} to {sizes[-1]} nodes, statistics grow by more than half (they grow "
        f"{growth['statistics']:.1f} times), the others by at most a quarter.",
    )


def check_saved(rows: Rows) -> Verdict:
    """Figure 5.20: a lottery saves most statistics, and more the larger the network."""
    most, fewest = largest(rows, "nodes"), int(min(numbers(rows, "nodes")))
    tops = sorted(set(map(int, numbers(rows, "top"))) - {ALL})

    def told(top: int, nodes: int = most, hears: str = EVERYBODY) -> float:
        return mean(rows, "statistics", top=top, nodes=nodes, hears=hears)

    def saved(top: int, hears: str = EVERYBODY) -> float:
        return 100 * (1 - told(top, most, hears) / told(ALL, most, hears))

    least = tops[0]
    grown = told(least) / told(least, fewest)
    some, every = (mean(rows, "cost", top=top, nodes=most, hears=EVERYBODY) for top in (least, ALL))
    return Verdict.of(
        saved(least) >= 70 and grown <= 1.5,
        ours=", ".join(f"top {top}: {saved(top):.0f} % saved" for top in tops) + f" at {most} nodes",
        ratio=saved(least) / 85,
        reason=f"Judged: at least 70 % saved with the fewest, whose traffic grows by at most half from "
        f"{fewest} to {most} nodes (it grows {grown:.2f} times). The maximum load ends at "
        f"{some / every:.3f} times that with all statistics. Everybody hears. When only the worst sites do, "
        f"all statistics are {told(ALL, most, WORST):.0f} B a site instead of {told(ALL):.0f}, and of those "
        f"top {least} saves {saved(least, WORST):.0f} %.",
    )


def check_metrics(rows: Rows) -> Verdict:
    """Figure 5.21: a few hundred bytes a site, whatever the metric."""
    totals, asked = (means(rows, column, by="metric") for column in ("bytes", "optimisation"))
    return Verdict.of(
        max(totals.values()) <= 240 and max(asked.values()) <= 90,
        ours=named(totals, "{:.0f} B") + " a site and period",
        ratio=max(totals.values()) / 240,
        reason="Judged: at most 240 B in all and 90 B for optimisation. Optimisation alone: "
        f"{named(asked, '{:.0f} B')}. Where the cost is a maximum only the worst sites ask, and it is low. "
        "For sums every site with operators asks all its candidates in a period: a value for each tree "
        "(latency), or a profile of 700 feeds and its rates (bandwidth). The thesis does not say over which "
        "time it counts, nor how profiles are written.",
    )


# The experiments

BYTES = "bytes a site and period"
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
        name="placement-traffic-queries",
        title="Traffic for the maximum load by the number of queries",
        grid=grid(nodes=[100], queries=[100, 300, 500, 700, 900], tops=["0"], hears=[EVERYBODY], run=[1, 2]),
        quick=grid(nodes=[40], queries=[60, 120, 240], tops=["0"], hears=[EVERYBODY], run=[1]),
        run=run_traffic,
        answers={
            "003-fig5.18": answer(check_queries, Plot("Traffic by queries", "queries", KINDS, y_label=BYTES))
        },
        deviation=setup.DEVIATION + WHO_HEARS,
    ),
    setup.placement_experiment(
        name="placement-traffic-nodes",
        title="Traffic for the maximum load by network size, and what a lottery saves",
        grid=grid(nodes=[50, 100, 150, 200], queries=[500], tops=["0 40 20"], hears=BOTH_HEAR, run=[1]),
        quick=grid(nodes=[20, 120], queries=[100], tops=["0 24 12"], hears=BOTH_HEAR, run=[1]),
        run=run_traffic,
        answers={
            "003-fig5.19": answer(check_nodes, ALL_STATISTICS),
            "003-fig5.20": answer(check_saved, BY_TOP),
        },
        deviation=setup.DEVIATION + WHO_HEARS,
    ),
    setup.placement_experiment(
        name="placement-traffic-metrics",
        title="Traffic by metric",
        grid=grid(nodes=[100], queries=[500], top=[20], periods=[8], run=[1]),
        quick=grid(nodes=[30], queries=[60], top=[6], periods=[8], run=[1]),
        run=run_metrics,
        answers={"003-fig5.21": answer(check_metrics, BY_METRIC)},
        deviation=setup.DEVIATION + " Local and directed rules, top-20 statistics, eight periods at most.",
    ),
)

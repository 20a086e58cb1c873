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

import numpy as np

from distributary.plan.queries.goals import BANDWIDTH, LATENCY, LOAD
from distributary.plan.queries.optimiser import QueryClimb, climb
from distributary.plan.queries.rules import DIRECTED, HYBRID, MIGRATIONS
from distributary.plan.queries.statistics import Dissemination
from distributary_lab.experiment import Answer, Experiment, Plot, Point, Row, Rows, Verdict, grid
from distributary_lab.placement.networks import DEVIATION, goal_of, listed, start_at
from distributary_lab.rows import mean, means, number, select
from distributary_lab.tree.networks import OPTIONS

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
    return {
        "maintenance": sent.maintenance / share,
        "optimisation": sent.optimisation / share,
        "statistics": sent.statistics / share,
        "bytes": sent.total / share,
        "cost": found.cost,
        "periods": len(found.steps),
    }


def run_traffic(point: Point, random: np.random.Generator) -> list[Row]:
    """Figures 5.18 to 5.20: the maximum load, with all statistics and with some of them."""
    start = start_at(point, random)
    rows: list[Row] = []
    for hears in str(point["hears"]).split():
        for top in map(int, str(point["tops"]).split()):
            seed = int(random.integers(2**31))
            told = Dissemination(None if top == ALL else top, seed=seed, slack=SLACK[hears])
            found = climb(goal_of(LOAD), start, MIGRATIONS, DIRECTED, statistics=told)
            rows.append({"hears": hears, "top": top, **traffic_of(found)})
    return rows


def run_metrics(point: Point, random: np.random.Generator) -> list[Row]:
    """Figure 5.21: by metric."""
    start = start_at(point, random)
    top = int(point["top"])
    rows: list[Row] = []
    for name, text in METRICS.items():
        told = Dissemination(top, seed=int(random.integers(2**31)))
        found = climb(
            goal_of(text), start, MIGRATIONS, HYBRID, statistics=told, periods=int(point["periods"])
        )
        rows.append({"metric": name, **traffic_of(found)})
    return rows


# Checks


def check_queries(rows: Rows) -> Verdict:
    """Figure 5.18: as much traffic with few queries as with many."""
    sent = {int(queries): bytes for queries, bytes in means(rows, "bytes", by="queries").items()}
    spread = max(sent.values()) / min(sent.values())
    more = max(sent) / min(sent)
    return Verdict.of(
        spread <= 1.25,
        ours=f"{listed(sent, 0)} B a site and period at {', '.join(map(str, sent))} queries",
        ratio=spread,
        reason=f"Judged: {more:.0f} times as many queries change the traffic by at most a quarter.",
    )


def check_nodes(rows: Rows) -> Verdict:
    """Figure 5.19: only statistics grow with the network."""
    kinds = {
        kind: {
            int(nodes): sent
            for nodes, sent in means(select(rows, top=ALL, hears=EVERYBODY), kind, by="nodes").items()
        }
        for kind in KINDS
    }
    growth = {kind: sent[max(sent)] / sent[min(sent)] for kind, sent in kinds.items()}
    sizes = list(kinds["statistics"])
    return Verdict.of(
        growth["statistics"] > 1.5 and all(growth[kind] <= 1.25 for kind in KINDS[:2]),
        ours="; ".join(f"{kind} {listed(sent, 1)} B" for kind, sent in kinds.items())
        + f" at {', '.join(map(str, sizes))} nodes",
        reason=f"Judged: from {sizes[0]} to {sizes[-1]} nodes, statistics grow by more than half (they grow "
        f"{growth['statistics']:.1f} times), the others by at most a quarter.",
    )


def check_saved(rows: Rows) -> Verdict:
    """Figure 5.20: a lottery saves most statistics, and more the larger the network."""
    largest = max(int(number(row, "nodes")) for row in rows)
    smallest = min(int(number(row, "nodes")) for row in rows)
    tops = sorted({int(number(row, "top")) for row in rows} - {ALL})

    def told(top: int, nodes: int, hears: str = EVERYBODY) -> float:
        return mean(rows, "statistics", top=top, nodes=nodes, hears=hears)

    def saved(top: int, hears: str = EVERYBODY) -> float:
        return 100 * (1 - told(top, largest, hears) / told(ALL, largest, hears))

    least = tops[0]
    grown = told(least, largest) / told(least, smallest)
    costs = [mean(rows, "cost", top=top, nodes=largest, hears=EVERYBODY) for top in (least, ALL)]
    return Verdict.of(
        saved(least) >= 70 and grown <= 1.5,
        ours=", ".join(f"top {top}: {saved(top):.0f} % saved" for top in tops) + f" at {largest} nodes",
        ratio=saved(least) / 85,
        reason=f"Judged: at least 70 % saved with the fewest, whose traffic grows by at most half from "
        f"{smallest} to {largest} nodes (it grows {grown:.2f} times). The maximum load ends at "
        f"{costs[0] / costs[1]:.3f} times that with all statistics. Everybody hears. When only the worst "
        f"sites do, all statistics are {told(ALL, largest, WORST):.0f} B a site instead of "
        f"{told(ALL, largest):.0f}, and of those top {least} saves {saved(least, WORST):.0f} %.",
    )


def check_metrics(rows: Rows) -> Verdict:
    """Figure 5.21: a few hundred bytes a site, whatever the metric."""
    totals = {name: mean(rows, "bytes", metric=name) for name in METRICS}
    asked = {name: mean(rows, "optimisation", metric=name) for name in METRICS}
    return Verdict.of(
        max(totals.values()) <= 240 and max(asked.values()) <= 90,
        ours=", ".join(f"{name} {total:.0f} B" for name, total in totals.items()) + " a site and period",
        ratio=max(totals.values()) / 240,
        reason="Judged: at most 240 B in all and 90 B for optimisation. Optimisation alone: "
        + ", ".join(f"{name} {sent:.0f} B" for name, sent in asked.items())
        + ". Where the cost is a maximum only the worst sites ask, and it is low. For sums every site with "
        "operators asks all its candidates in a period: a value for each tree (latency), or a profile of 700 "
        "feeds and its rates (bandwidth). The thesis does not say over which time it counts, nor how "
        "profiles are written.",
    )


# The experiments

BYTES = "bytes a site and period"
WHO_HEARS = (
    " The thesis does not say how near to the maximum a site must be to hear statistics (the delta of its "
    "Table 5.2). Everybody hears here: of the two ends, the one whose figures are like the thesis's."
)

EXPERIMENTS = (
    Experiment(
        name="placement-traffic-queries",
        title="Traffic for the maximum load by the number of queries",
        grid=grid(nodes=[100], queries=[100, 300, 500, 700, 900], tops=["0"], hears=[EVERYBODY], run=[1, 2]),
        quick=grid(nodes=[40], queries=[60, 120, 240], tops=["0"], hears=[EVERYBODY], run=[1]),
        run=run_traffic,
        options=OPTIONS,
        answers={
            "003-fig5.18": Answer(
                check_queries,
                (
                    Plot(
                        "Traffic by queries",
                        x="queries",
                        y=KINDS,
                        y_label=BYTES,
                    ),
                ),
            ),
        },
        deviation=DEVIATION + WHO_HEARS,
    ),
    Experiment(
        name="placement-traffic-nodes",
        title="Traffic for the maximum load by network size, and what a lottery saves",
        grid=grid(
            nodes=[50, 100, 150, 200],
            queries=[500],
            tops=["0 40 20"],
            hears=[f"{EVERYBODY} {WORST}"],
            run=[1],
        ),
        quick=grid(nodes=[20, 120], queries=[100], tops=["0 24 12"], hears=[f"{EVERYBODY} {WORST}"], run=[1]),
        run=run_traffic,
        options=OPTIONS,
        answers={
            "003-fig5.19": Answer(
                check_nodes,
                (
                    Plot(
                        "Traffic by nodes, all statistics",
                        x="nodes",
                        y=KINDS,
                        where={"top": ALL, "hears": EVERYBODY},
                        y_label=BYTES,
                    ),
                ),
            ),
            "003-fig5.20": Answer(
                check_saved,
                (
                    Plot(
                        "Statistics by how many are passed on over a link (0: all)",
                        x="nodes",
                        y="statistics",
                        series="top",
                        where={"hears": EVERYBODY},
                        y_label=BYTES,
                    ),
                ),
            ),
        },
        deviation=DEVIATION + WHO_HEARS,
    ),
    Experiment(
        name="placement-traffic-metrics",
        title="Traffic by metric",
        grid=grid(nodes=[100], queries=[500], top=[20], periods=[8], run=[1]),
        quick=grid(nodes=[30], queries=[60], top=[6], periods=[8], run=[1]),
        run=run_metrics,
        options=OPTIONS,
        answers={
            "003-fig5.21": Answer(
                check_metrics,
                (
                    Plot(
                        "Traffic by metric",
                        x="metric",
                        y=KINDS,
                        kind="bars",
                        log_y=True,
                        y_label=BYTES,
                    ),
                ),
            ),
        },
        deviation=DEVIATION + " Local and directed rules, top-20 statistics, eight periods at most.",
    ),
)

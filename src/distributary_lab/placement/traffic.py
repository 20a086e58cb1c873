"""What placing queries costs in messages: Figures 5.20 and 5.21 of 003, on running nodes and by the planner.

Counted are the bytes that sites send each other in a period, a site on average. The thesis ran a prototype,
so running nodes (`placement.live`) decide: of their messages, those that tell statistics and those that weigh
and decide (optimisation). Beside them stand bytes of the planner's model: what the climb with local and
directed rules would have to ask and tell, at so many bytes a value, in networks as large as the thesis's. It
counts what sites send to keep their own values known (maintenance) apart; nodes tell that with their
statistics, and what they send to measure their links is told apart (links).

For a maximum, Table 5.2 lets only the sites hear statistics whose value is within some delta of it, and the
thesis does not say which. What it reports of Figure 5.20 (statistics that go to more nodes the more
there are, and a lottery that saves 85 % of them) is what is seen when everybody hears, so it is judged like
that. When only the worst sites hear, most of it is saved already, and the lottery has little
left to save: measured beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from distributary.plan.queries.goals import BANDWIDTH, LATENCY, LOAD
from distributary.plan.queries.optimiser import QueryClimb
from distributary.plan.queries.rules import DIRECTED, HYBRID
from distributary.plan.queries.statistics import Dissemination
from distributary.sim.trials.query_trial import QueryOutcome, QueryTrial, run_query_trial
from distributary.systems.queries import QueryOptimiserSettings
from distributary_lab import words
from distributary_lab.experiment import (
    OpenParameter,
    Plot,
    Point,
    Row,
    Rows,
    Runs,
    Verdict,
    answer,
    grid,
    seed_from,
)
from distributary_lab.placement import setup
from distributary_lab.placement.live import STATISTICS, WEIGHING
from distributary_lab.rows import labelled, mean, means, named, numbers, select

NODES, PLANNER = "nodes", "planner"
"""What a row was measured `on`."""

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


@dataclass(frozen=True)
class StatisticsTrial(QueryTrial):
    """Running queries, with bounds on who is told how many statistics."""

    top: int | None = None
    slack: float = 0.0

    @property
    def optimising(self) -> QueryOptimiserSettings | None:
        """The settings by which the network pursues the goal."""
        settings = super().optimising
        return None if settings is None else replace(settings, top=self.top, slack=self.slack)


def trial_at(point: Point, random: np.random.Generator, goal: str) -> StatisticsTrial:
    """The queries of a point, on nodes."""
    nodes, queries, feeds, events = (int(point[name]) for name in ("nodes", "queries", "feeds", "events"))
    seconds, seed = float(point["seconds"]), seed_from(random)
    return StatisticsTrial(
        nodes=nodes, queries=queries, feeds=feeds, events=events, seconds=seconds, seed=seed, goal=goal
    )


def sent_by_nodes(outcome: QueryOutcome) -> Row:
    """Bytes a node and period, by purpose, and how many answers were wrong."""
    trial = outcome.trial
    periods = trial.nodes * outcome.virtual_seconds / trial.period
    told, asked, links = (
        outcome.traffic[purpose].bytes / periods for purpose in (STATISTICS, WEIGHING, "measuring links")
    )
    counted: Row = {"statistics": told, "optimisation": asked, "bytes": told + asked, "links": links}
    return {**counted, "wrong": len(outcome.problems)}


def run_traffic(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Figure 5.20: the maximum load, with all statistics and with some of them."""
    kinds = [(hears, int(top)) for hears in str(point["hears"]).split() for top in str(point["tops"]).split()]
    if point["on"] == NODES:
        trial = trial_at(point, random, LOAD)
        for hears, top in kinds:
            told = replace(trial, top=None if top == ALL else top, slack=SLACK[hears])
            yield {"hears": hears, "top": top, **sent_by_nodes(run_query_trial(told))}
        return
    start = setup.start_at(point, random)
    for hears, top in kinds:
        limit = None if top == ALL else top
        statistics = Dissemination(limit, seed=seed_from(random), slack=SLACK[hears])
        found = setup.moved(setup.goal_of(LOAD), start, DIRECTED, statistics=statistics)
        yield {"hears": hears, "top": top, **traffic_of(found)}


def run_metrics(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Figure 5.21: by metric."""
    if point["on"] == NODES:
        for name, text in METRICS.items():
            trial = replace(trial_at(point, random, text), top=int(point["top"]))
            yield {"metric": name, **sent_by_nodes(run_query_trial(trial))}
        return
    start, periods = setup.start_at(point, random), int(point["periods"])
    for name, text in METRICS.items():
        told = Dissemination(int(point["top"]), seed=seed_from(random))
        found = setup.moved(setup.goal_of(text), start, HYBRID, statistics=told, periods=periods)
        yield {"metric": name, **traffic_of(found)}


# Checks


def saved(rows: Rows, on: str, hears: str = EVERYBODY) -> tuple[int, dict[int, float]]:
    """In the largest network: its nodes, and the per cent of statistics that each bound saves."""
    *_, most = labelled(select(rows, on=on), "nodes")
    told = means(rows, "statistics", by="top", on=on, nodes=most, hears=hears)
    return most, {top: 100 * (1 - each / told[ALL]) for top, each in told.items() if top}


def check_saved(rows: Rows) -> Verdict:
    """Figure 5.20: a lottery saves most statistics, and its traffic does not grow with the network."""
    fewest, *_ = labelled(select(rows, on=NODES), "nodes")
    most, found = saved(rows, NODES)
    least = min(found)
    few, many = (
        mean(rows, "statistics", on=NODES, top=least, nodes=nodes, hears=EVERYBODY)
        for nodes in (fewest, most)
    )
    every, worst = (mean(rows, "statistics", on=NODES, top=ALL, nodes=most, hears=each) for each in SLACK)
    wrong = sum(numbers(select(rows, on=NODES), "wrong"))
    sites, planned = saved(rows, PLANNER)
    return Verdict.of(
        words.saves_as_given(found[least] / 100, PAPER_SAVED / 100) and words.flat([few, many]) and not wrong,
        ours=", ".join(f"top {top}: {per_cent:.0f} % saved" for top, per_cent in found.items())
        + f" on {most} nodes",
        ratio=found[least] / PAPER_SAVED,
        reason=f"Of running nodes that follow the least maximum load; {wrong:.0f} answers are wrong. The "
        "fewest statistics must save as much as the thesis', at a traffic that is flat from "
        f"{fewest} to {most} nodes (it grows {many / few:.2f} times). Everybody hears; if only the worst "
        f"do, all statistics are {worst:.0f} B a node instead of {every:.0f}. With values go the rates of "
        "sources, the worst few and the nodes near, which the lottery does not thin out. By the planner's "
        "model, of values alone, "
        + ", ".join(f"top {top} saves {per_cent:.0f} %" for top, per_cent in planned.items())
        + f" on {sites} sites.",
    )


def check_metrics(rows: Rows) -> Verdict:
    """Figure 5.21: a few hundred bytes a site, whatever the metric."""
    totals, asked, links = (
        means(rows, column, by="metric", on=NODES) for column in ("bytes", "optimisation", "links")
    )
    wrong = sum(numbers(select(rows, on=NODES), "wrong"))
    planned, planned_asked = (
        means(rows, column, by="metric", on=PLANNER) for column in ("bytes", "optimisation")
    )
    return Verdict.of(
        max(totals.values()) < PAPER_BYTES and max(asked.values()) < PAPER_ASKED and not wrong,
        ours=named(totals, "{:.0f} B") + " a node and period",
        ratio=max(totals.values()) / PAPER_BYTES,
        reason=f"Of running nodes; {wrong:.0f} answers are wrong. Optimisation alone: "
        f"{named(asked, '{:.0f} B')}; besides, {max(links.values()):,.0f} B measure links, which the thesis "
        f"had measured before. By the planner's model: {named(planned, '{:.0f} B')}, of which optimisation "
        f"{named(planned_asked, '{:.0f} B')}. Where the cost is a maximum only the worst sites ask, and it "
        "is low. For sums every site with operators asks all its candidates in a period. The thesis does "
        "not say over which time it counts, nor how profiles are written.",
    )


# The experiments

BYTES = "bytes a site and period"
ON_NODES = ("optimisation", "statistics")
"""What is counted of nodes, of what the planner's model counts."""
MEASURED = (*KINDS, "bytes", "links", "wrong", "cost", "periods_taken")
WHO_HEARS = (
    " The thesis does not say how near to the maximum a site must be to hear statistics (the delta of its "
    "Table 5.2). Everybody hears here: of the two ends, the one whose figures are like the thesis's."
)
RUNNING = (
    " Nodes run in the simulator, fewer of them and with fewer queries than the thesis's, and of them as "
    "large a share is told."
)


def by_nodes(title: str, on: str, hears: str = EVERYBODY) -> Plot:
    """Statistics by how many are passed on."""
    where = {"on": on, "hears": hears}
    return Plot(title, x="nodes", y="statistics", series="top", where=where, y_label=BYTES)


ON_RUNNING = by_nodes("Statistics of running nodes, by how many are passed on over a link (0: all)", NODES)
BY_MODEL = by_nodes("The same by the planner's model", PLANNER)
ALL_STATISTICS = Plot(
    "Traffic by nodes, all statistics, by the planner's model",
    "nodes",
    KINDS,
    where={"top": ALL, "hears": EVERYBODY, "on": PLANNER},
    y_label=BYTES,
)
METRICS_OF_NODES = Plot(
    "Traffic of running nodes by metric",
    "metric",
    ON_NODES,
    where={"on": NODES},
    kind="bars",
    log_y=True,
    y_label=BYTES,
    reference={"the thesis, in all": PAPER_BYTES, "the thesis, optimisation": PAPER_ASKED},
)
METRICS_BY_MODEL = replace(
    METRICS_OF_NODES, title="Traffic by metric, by the planner's model", y=KINDS, where={"on": PLANNER}
)
BOTH_HEAR = [f"{EVERYBODY} {WORST}"]

EXPERIMENTS = (
    setup.placement_experiment(
        name="placement-traffic-nodes",
        title="Traffic for the maximum load by network size, and what a lottery saves",
        grid=(
            *grid(
                on=[PLANNER],
                nodes=[50, 100, 150, 200],
                queries=[500],
                tops=["0 40 20"],
                hears=BOTH_HEAR,
                run=[1],
            ),
            *grid(
                on=[NODES],
                nodes=[16, 32, 64],
                queries=[40],
                feeds=[40],
                events=[300],
                seconds=[120],
                tops=["0 12 6"],
                hears=BOTH_HEAR,
                run=[1],
            ),
        ),
        quick=(
            *grid(on=[PLANNER], nodes=[20, 120], queries=[100], tops=["0 24 12"], hears=BOTH_HEAR, run=[1]),
            *grid(
                on=[NODES],
                nodes=[8, 16],
                queries=[8],
                feeds=[8],
                events=[60],
                seconds=[40],
                tops=["0 4 2"],
                hears=BOTH_HEAR,
                run=[1],
            ),
        ),
        run=run_traffic,
        answers={"003-fig5.20": answer(check_saved, ON_RUNNING, BY_MODEL, ALL_STATISTICS)},
        measured=MEASURED,
        labels=("hears", "top"),
        runs=Runs.NODES,
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
        deviation=setup.DEVIATION + WHO_HEARS + RUNNING,
    ),
    setup.placement_experiment(
        name="placement-traffic-metrics",
        title="Traffic by metric",
        grid=(
            *grid(on=[PLANNER], nodes=[100], queries=[500], top=[20], periods=[8], run=[1]),
            *grid(
                on=[NODES],
                nodes=[24],
                queries=[40],
                feeds=[40],
                events=[300],
                seconds=[120],
                top=[20],
                run=[1],
            ),
        ),
        quick=(
            *grid(on=[PLANNER], nodes=[30], queries=[60], top=[6], periods=[8], run=[1]),
            *grid(on=[NODES], nodes=[8], queries=[8], feeds=[8], events=[60], seconds=[40], top=[6], run=[1]),
        ),
        run=run_metrics,
        measured=MEASURED,
        labels=("metric",),
        runs=Runs.NODES,
        answers={"003-fig5.21": answer(check_metrics, METRICS_OF_NODES, METRICS_BY_MODEL)},
        deviation=setup.DEVIATION
        + " Local and directed rules, top-20 statistics; the planner's model takes eight "
        "periods at most." + RUNNING,
    ),
)

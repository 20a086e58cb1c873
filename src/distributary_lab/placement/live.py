"""Running networks of queries: Figures 5.18 and 5.19 of 003, what following a goal costs by the number of
queries and of nodes; and, beyond the document, what it brings.

The nodes are those that run the queries, in the simulator; counted are the messages they send. Every answer
is compared with the interpreter's, and a wrong one is a claim that does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Literal

import numpy as np

from distributary.sim.trials.query_trial import QueryTrial, run_query_trial
from distributary_lab import words
from distributary_lab.experiment import (
    Experiment,
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
from distributary_lab.rows import listed, mean, means, named, numbers

NEIGHBOURHOOD: Literal["neighbourhood"] = "neighbourhood"
WHOLE: Literal["whole"] = "whole"
STATISTICS, WEIGHING = "statistics", "weighing and deciding"
LAST = 3
"""Over so many tenths of the time, at the end, streams are measured."""


def trial_of(point: Point, random: np.random.Generator) -> QueryTrial:
    """Queries on nodes, without a goal."""
    nodes, queries, feeds, events = (int(point[name]) for name in ("nodes", "queries", "feeds", "events"))
    seconds, seed = float(point["seconds"]), seed_from(random)
    return QueryTrial(nodes=nodes, queries=queries, feeds=feeds, events=events, seconds=seconds, seed=seed)


# What is measured


def run_upkeep(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """What nodes send each other to follow a goal: told what concerns them, and told everything."""
    trial = replace(trial_of(point, random), goal=str(point["goal"]))
    for told in (NEIGHBOURHOOD, WHOLE):
        outcome = run_query_trial(replace(trial, told=told))
        periods = trial.nodes * outcome.virtual_seconds / trial.period
        sent = {name: outcome.traffic[name].bytes / periods for name in (STATISTICS, WEIGHING)}
        yield {"told": told, **sent, "bytes": sum(sent.values()), "wrong": len(outcome.problems)}


def run_gain(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Bytes of streams a second in the end, with operators at their clients and with a goal."""
    trial = trial_of(point, random)
    for goal in ("", "bandwidth"):
        outcome = run_query_trial(replace(trial, goal=goal))
        streams = float(np.mean(outcome.data[-LAST:]))
        moves = outcome.changed["moves in all"]
        yield {"goal": goal or "none", "streams": streams, "moves": moves, "wrong": len(outcome.problems)}


# Checks


def check_queries(rows: Rows) -> Verdict:
    """Figure 5.18: as much traffic with few queries as with many."""
    sent = means(rows, "bytes", by="queries")
    wrong = sum(numbers(rows, "wrong"))
    return Verdict.of(
        words.flat(sent) and not wrong,
        ours=f"{listed(sent, '{:,.0f}')} B a node and period at {listed(list(sent))} queries",
        ratio=max(sent.values()) / min(sent.values()),
        reason=f"Of running nodes that follow the least maximum load; {wrong:.0f} answers are wrong.",
    )


def check_nodes(rows: Rows) -> Verdict:
    """Figure 5.19: statistics grow with the network, and nothing else does."""
    sent = {kind: means(rows, kind, by="nodes") for kind in (STATISTICS, WEIGHING)}
    wrong = sum(numbers(rows, "wrong"))
    told = named(sent, lambda each: listed(each, "{:,.0f}") + " B", separator="; ")
    return Verdict.of(
        words.rises(sent[STATISTICS]) and words.flat(sent[WEIGHING]) and not wrong,
        ours=f"{told} a node and period at {listed(list(sent[STATISTICS]))} nodes",
        reason=f"Of running nodes that follow the least maximum load; {wrong:.0f} answers are wrong.",
    )


def check_upkeep(rows: Rows) -> Verdict:
    """With many more queries nodes send hardly more, where being told everything costs as many times more."""
    near, whole = (means(rows, "bytes", by="queries", told=told) for told in (NEIGHBOURHOOD, WHOLE))
    fewest, most = min(whole), max(whole)
    times = near[most] / near[fewest]
    wrong = sum(numbers(rows, "wrong"))
    statistics, weighing = (
        " and ".join(f"{mean(rows, name, told=NEIGHBOURHOOD, queries=count):.0f}" for count in (fewest, most))
        for name in (STATISTICS, WEIGHING)
    )
    return Verdict.of(
        words.flat([1, times]) and not wrong,
        ours=f"{times:.1f} times from {fewest} to {most} queries; told everything, "
        f"{whole[most] / whole[fewest]:.1f} times",
        reason=f"Flat for {most / fewest:.0f} times the queries, and every answer right? {wrong:.0f} are "
        f"not. Bytes a node and period: statistics {statistics}, weighing {weighing}; "
        f"told everything {whole[fewest]:.0f} and {whole[most]:.0f}.",
    )


def check_gain(rows: Rows) -> Verdict:
    """A network that follows the goal sends less."""
    without, following = (numbers(rows, "streams", goal=goal) for goal in ("none", "bandwidth"))
    wrong = sum(numbers(rows, "wrong"))
    return Verdict.of(
        all(one > other for one, other in zip(without, following, strict=True)) and not wrong,
        ours=f"{100 * (1 - fmean(following) / fmean(without)):.0f} % less",
        reason=f"Judged: less in every run, and every answer right ({wrong:.0f} are not). Filters apply on "
        f"the way already, wherever they run; {mean(rows, 'moves', goal='bandwidth'):.0f} moves a run.",
    )


# The experiments

live_experiment = partial(
    Experiment,
    runs=Runs.NODES,
    open_parameters=(
        OpenParameter(
            "periods, and who is told of whom",
            "the defaults of our query network's trials",
            "taken as they were",
            after=False,
            effect="rows that are told everything stand beside it; of periods not known",
        ),
    ),
    deviation="The simulator's network, with delays of 10 to 100 ms and four trees at most; chains of five "
    "operators of Table 5.6 over made-up feeds.",
)
UPKEEP = Plot("Upkeep by queries", "queries", "bytes", "told", y_label="bytes a node and period")
SIZES = Plot("Upkeep by nodes", "nodes", (STATISTICS, WEIGHING), "told", y_label="bytes a node and period")
STREAMS = Plot("Streams in the end", "run", "streams", "goal", kind="bars", y_label="bytes a second")

EXPERIMENTS = (
    live_experiment(
        name="queries-live-upkeep",
        title="What following a goal costs a running network, by the number of queries",
        grid=grid(
            nodes=[24], queries=[10, 40, 160], feeds=[40], events=[600], seconds=[120], goal=["load"], run=[1]
        ),
        quick=grid(
            nodes=[8], queries=[5, 20], feeds=[10], events=[200], seconds=[60], goal=["load"], run=[1]
        ),
        run=run_upkeep,
        measured=(STATISTICS, WEIGHING, "bytes", "wrong"),
        labels=("told",),
        ours={"told": (WHOLE,)},
        answers={
            "003-fig5.18": answer(check_queries, UPKEEP),
            "beyond-queries-live-upkeep": answer(check_upkeep, UPKEEP),
        },
    ),
    live_experiment(
        name="queries-live-sizes",
        title="What following a goal costs a running network, by its size",
        grid=grid(
            nodes=[8, 16, 32, 64],
            queries=[40],
            feeds=[40],
            events=[300],
            seconds=[120],
            goal=["load"],
            run=[1],
        ),
        quick=grid(
            nodes=[6, 12, 18], queries=[6], feeds=[6], events=[60], seconds=[40], goal=["load"], run=[1]
        ),
        run=run_upkeep,
        measured=(STATISTICS, WEIGHING, "bytes", "wrong"),
        labels=("told",),
        ours={"told": (WHOLE,)},
        answers={"003-fig5.19": answer(check_nodes, SIZES)},
    ),
    live_experiment(
        name="queries-live-gain",
        title="What a running network saves by itself",
        grid=grid(nodes=[16], queries=[20], feeds=[12], events=[1200], seconds=[300], run=[1, 2, 3]),
        quick=grid(nodes=[8], queries=[6], feeds=[4], events=[300], seconds=[180], run=[1]),
        run=run_gain,
        measured=("streams", "moves", "wrong"),
        labels=("goal",),
        answers={"beyond-queries-live-gain": answer(check_gain, STREAMS)},
    ),
)

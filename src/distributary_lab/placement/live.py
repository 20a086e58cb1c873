"""Live networks of queries: what following a goal costs them by the number of queries, and what it brings.

Figures 5.18 to 5.21 are measured on the planner's climb (`placement_traffic`). Here the nodes are those that
run the queries, in the simulator; counted are the messages they send. Every answer is compared with the
interpreter's, and a wrong one is a claim that does not hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from distributary.sim.trials.query_trial import QueryTrial, run_query_trial
from distributary_lab.claims import Claim
from distributary_lab.experiment import Answer, Experiment, Plot, Point, Row, Rows, Verdict, grid
from distributary_lab.rows import mean, means, number, select

NEIGHBOURHOOD: Literal["neighbourhood"] = "neighbourhood"
WHOLE: Literal["whole"] = "whole"
STATISTICS, WEIGHING = "statistics", "weighing and deciding"
LAST = 3
"""Over so many tenths of the time, at the end, streams are measured."""


def trial_of(point: Point, random: np.random.Generator) -> QueryTrial:
    """Queries on nodes, without a goal."""
    return QueryTrial(
        nodes=int(point["nodes"]),
        queries=int(point["queries"]),
        feeds=int(point["feeds"]),
        events=int(point["events"]),
        seconds=float(point["seconds"]),
        seed=int(random.integers(2**31)),
    )


# What is measured


def run_upkeep(point: Point, random: np.random.Generator) -> list[Row]:
    """What nodes send each other to follow a goal: told what concerns them, and told everything."""
    trial = replace(trial_of(point, random), goal=str(point["goal"]))
    rows: list[Row] = []
    for told in (NEIGHBOURHOOD, WHOLE):
        outcome = run_query_trial(replace(trial, told=told))
        periods = trial.nodes * outcome.virtual_seconds / trial.period
        sent = {name: outcome.traffic[name].bytes / periods for name in (STATISTICS, WEIGHING)}
        rows.append({"told": told, **sent, "bytes": sum(sent.values()), "wrong": len(outcome.problems)})
    return rows


def run_gain(point: Point, random: np.random.Generator) -> list[Row]:
    """Bytes of streams a second in the end, with operators at their clients and with a goal."""
    trial = trial_of(point, random)
    rows: list[Row] = []
    for goal in ("", "bandwidth"):
        outcome = run_query_trial(replace(trial, goal=goal))
        streams = float(np.mean(outcome.data[-LAST:]))
        moves = outcome.changed["moves in all"]
        rows.append(
            {"goal": goal or "none", "streams": streams, "moves": moves, "wrong": len(outcome.problems)}
        )
    return rows


# Checks


def check_upkeep(rows: Rows) -> Verdict:
    """With many more queries nodes send hardly more, where being told everything costs as many times more."""
    sent = {told: means(select(rows, told=told), "bytes", by="queries") for told in (NEIGHBOURHOOD, WHOLE)}
    fewest, most = min(sent[WHOLE]), max(sent[WHOLE])
    times = {told: each[most] / each[fewest] for told, each in sent.items()}
    grown = float(most) / float(fewest)
    wrong = sum(number(row, "wrong") for row in rows)
    few, many = (
        {name: mean(rows, name, told=NEIGHBOURHOOD, queries=count) for name in (STATISTICS, WEIGHING)}
        for count in (fewest, most)
    )
    return Verdict.of(
        times[NEIGHBOURHOOD] <= 2 and not wrong,
        ours=f"{times[NEIGHBOURHOOD]:.1f} times from {fewest} to {most} queries; told everything, "
        f"{times[WHOLE]:.1f} times",
        reason=f"Judged: at most twice for {grown:.0f} times the queries, and every answer right "
        f"({wrong:.0f} are not). Bytes a node and period: statistics {few[STATISTICS]:.0f} and "
        f"{many[STATISTICS]:.0f}, weighing {few[WEIGHING]:.0f} and {many[WEIGHING]:.0f}; told everything "
        f"{sent[WHOLE][fewest]:.0f} and {sent[WHOLE][most]:.0f}.",
    )


def check_gain(rows: Rows) -> Verdict:
    """A network that follows the goal sends less."""
    before, after = (mean(rows, "streams", goal=goal) for goal in ("none", "bandwidth"))
    wrong = sum(number(row, "wrong") for row in rows)
    pairs = zip(select(rows, goal="none"), select(rows, goal="bandwidth"), strict=True)
    everywhere = all(number(one, "streams") > number(other, "streams") for one, other in pairs)
    return Verdict.of(
        everywhere and not wrong,
        ours=f"{100 * (1 - after / before):.0f} % less",
        reason=f"Judged: less in every run, and every answer right ({wrong:.0f} are not). Filters apply on "
        f"the way already, wherever they run; {mean(rows, 'moves', goal='bandwidth'):.0f} moves a run.",
    )


# The experiments

UPKEEP = Claim(
    "beyond-queries-live-upkeep",
    "what a node of a running network sends to follow a goal does not grow with the number of queries",
    "constant (003 Figure 5.18)",
)
GAIN = Claim(
    "beyond-queries-live-gain",
    "a running network that follows the bandwidth's goal sends less than one with operators at their clients",
    "no such comparison",
)
DEVIATION = (
    "The simulator's network, with delays of 10 to 100 ms and four trees at most; chains of five operators "
    "of Table 5.6 over made-up feeds."
)
BYTES = "bytes a node and period"

EXPERIMENTS = (
    Experiment(
        name="queries-live-upkeep",
        title="What following a goal costs a running network, by the number of queries",
        grid=grid(
            nodes=[24], queries=[10, 40, 160], feeds=[40], events=[600], seconds=[120], goal=["load"], run=[1]
        ),
        quick=grid(
            nodes=[8], queries=[5, 20], feeds=[10], events=[200], seconds=[60], goal=["load"], run=[1]
        ),
        run=run_upkeep,
        answers={
            UPKEEP.id: Answer(
                check_upkeep,
                (Plot("Upkeep by queries", x="queries", y="bytes", series="told", y_label=BYTES),),
                claim=UPKEEP,
            ),
        },
        deviation=DEVIATION,
    ),
    Experiment(
        name="queries-live-gain",
        title="What a running network saves by itself",
        grid=grid(nodes=[16], queries=[20], feeds=[12], events=[1200], seconds=[300], run=[1, 2, 3]),
        quick=grid(nodes=[8], queries=[6], feeds=[4], events=[300], seconds=[180], run=[1]),
        run=run_gain,
        answers={
            GAIN.id: Answer(
                check_gain,
                (
                    Plot(
                        "Streams in the end",
                        x="run",
                        y="streams",
                        series="goal",
                        kind="bars",
                        y_label="bytes a second",
                    ),
                ),
                claim=GAIN,
            ),
        },
        deviation=DEVIATION,
    ),
)

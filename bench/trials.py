"""Trials under every fault: what one of each system costs, beside one of the tree.

Processor time of `run_trial`: 12 nodes, 40 subscriptions, 40 events, everything that may go wrong goes wrong.
A calm trial of each system comes first and is not counted, as it may compile and load kernels; then all
systems take turns, seed by seed. The trial itself compares every delivery with its oracle.
"""

from __future__ import annotations

import time

from bench.report import Result
from distributary.sim.trials.trial import Trial, run_trial
from distributary.systems.table import SYSTEMS

SEEDS = (1, 2, 3)
BASE = "tree"
QUICK = (BASE, "central", "attributes")
TARGET = "<= 10 times"


def run(quick: bool) -> list[Result]:
    seeds, systems = (SEEDS[:1], QUICK) if quick else (SEEDS, tuple(SYSTEMS))
    for name in systems:
        seconds_of(name, "calm", 0)
    times = dict.fromkeys(systems, 0.0)
    for seed in seeds:
        for name in systems:
            times[name] += seconds_of(name, "everything", seed)
    results = []
    workload, checked = f"a trial of everything, seeds {seeds[0]} to {seeds[-1]}", "the trial's oracle"
    for name, spent in times.items():
        results += [
            Result(workload, name, "a trial", spent / len(seeds), "s", checked),
            Result(workload, name, "a trial / the tree's", spent / times[BASE], "times", checked, TARGET),
        ]
    return results


def seconds_of(name: str, scenario: str, seed: int) -> float:
    """The processor time of a trial, which must find nothing wrong."""
    trial = Trial(name, scenario, nodes=12, subscriptions=40, events=40, seed=seed)
    began = time.process_time()
    outcome = run_trial(trial)
    spent = time.process_time() - began
    assert not outcome.problems, f"{trial.command} found {outcome.problems[0]}"
    return spent

"""Every system amid every kind of fault at once, clocks that disagree and ids that collide included.

A trial checks every delivery against brute force; `make chaos` runs some seeds for each system, others with
SEED=n. Every other seed draws sizes as well: several nodes at once, halves that are cut off, nodes that are
gone for good, and how likely messages are lost. A failure prints the command that repeats it.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from distributary.sim.scenario import SCENARIOS, random_scenario
from distributary.sim.trials.trial import Trial, run_trial
from distributary.systems.table import SYSTEMS
from replay import chaos_seeds, replayed_by

SEEDS = 10
"""How many for each system."""
FIRST = 10_000 * int(os.environ.get("DISTRIBUTARY_SEED", "1"))
CUT = ("partition", "one-way")


def drawn(name: str, seed: int) -> Trial:
    """The trial of a seed, with sizes of faults if the seed is odd."""
    if seed % 2 == 0:
        return Trial(name, "everything", nodes=12, seed=seed, subscriptions=40, events=40)
    random = Random(f"{seed}/sizes")
    if random.random() < 0.5:  # nearly half of the nodes are cut off, twice perhaps, and others are gone
        scenario, gone = random.choice(CUT), random.randint(0, 2)
        return Trial(name, scenario, nodes=20, seed=seed, subscriptions=40, events=40, side=9, gone=gone)
    at_once, gone, strength = random.randint(2, 3), random.randint(1, 3), random.choice([0.5, 1.5, 2.0])
    return Trial(
        name,
        "everything",
        nodes=24,
        seed=seed,
        subscriptions=40,
        events=40,
        at_once=at_once,
        side=3,
        gone=gone,
        strength=strength,
    )


@pytest.mark.parametrize("seed", chaos_seeds(FIRST, SEEDS))
@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_keeps_its_promises_amid_all_faults_at_once(name: str, seed: int) -> None:
    trial = drawn(name, seed)
    with replayed_by(trial.command):
        outcome = run_trial(trial)
        assert outcome.problems == ()
        assert set(SCENARIOS[trial.scenario]) <= set(outcome.promised)
        assert outcome.fired.get("crash", 0) >= trial.gone


def test_there_are_nodes_for_faults_of_all_sizes_that_are_drawn() -> None:
    sizes = set()
    for seed in range(1, 400, 2):
        trial = drawn("ring", seed)
        sizes.add((trial.scenario, trial.at_once, trial.side, trial.gone, trial.strength))
        random_scenario(  # which refuses what the nodes do not suffice for
            seed,
            range(trial.nodes),
            kinds=SCENARIOS[trial.scenario],
            spares=range(100, 103),
            start=20.0,
            duration=15.0 * max(4, len(SCENARIOS[trial.scenario])),
            at_once=trial.at_once,
            largest_side=trial.side,
            gone=trial.gone,
        )
    assert len(sizes) == 2 * 3 + 2 * 3 * 3

"""Every system amid every kind of fault at once, clocks that disagree and ids that collide included.

A trial checks every delivery against brute force; `make chaos` runs some seeds for each system, others with
SEED=n. A failure prints the command that repeats it.
"""

from __future__ import annotations

import os

import pytest

from distributary.sim.trials.trial import Trial, run_trial
from distributary.systems.table import SYSTEMS
from replay import chaos_seeds, replayed_by

SEEDS = 10
"""How many for each system."""
FIRST = 10_000 * int(os.environ.get("DISTRIBUTARY_SEED", "1"))


@pytest.mark.parametrize("seed", chaos_seeds(FIRST, SEEDS))
@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_keeps_its_promises_amid_all_faults_at_once(name: str, seed: int) -> None:
    trial = Trial(name, "everything", nodes=12, seed=seed, subscriptions=40, events=40)
    with replayed_by(trial.command):
        outcome = run_trial(trial)
        assert outcome.problems == ()
        assert {"clock skew", "clock drift"} <= set(outcome.promised)

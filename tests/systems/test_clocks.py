"""Every system where clocks disagree: half of them are ahead, and some run faster or slower for a while."""

from __future__ import annotations

import pytest

from distributary.sim.trials.trial import Trial, run_trial
from distributary.systems.table import SYSTEMS


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_keeps_its_promises_with_clocks_that_disagree(name: str, seed: int) -> None:
    outcome = run_trial(Trial(name, "clocks", nodes=10, seed=seed, subscriptions=40, events=30))
    assert outcome.problems == ()
    assert outcome.promised == ("clock skew", "clock drift")

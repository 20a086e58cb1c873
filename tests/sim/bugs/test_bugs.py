"""Every bug of the suite is found by a trial within the number of seeds that it states."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from distributary.sim.trials.trial import Trial, run_trial
from distributary.systems.table import SYSTEMS
from replay import replayed_by
from sim.bugs import brokers, bugs, hope
from sim.bugs.suite import BUGS, Bug

QUICK = [bug for bug in BUGS if bug.quick]


@cache
def problems_without_bugs(trial: Trial) -> tuple[str, ...]:
    return run_trial(trial).problems


def found(bug: Bug, patch: pytest.MonkeyPatch) -> None:
    """Run the bug's trial seed by seed until it fails; without the bug it must succeed."""
    for seed in range(1, bug.seeds + 1):
        trial = replace(bug.trial, seed=seed)
        with patch.context() as broken:
            bug.patch(broken)
            problems = run_trial(trial).problems
        if problems:
            with replayed_by(trial.command):
                assert problems_without_bugs(trial) == (), "there are problems without the bug"
            return
    raise AssertionError(f"not found in {bug.seeds} seeds of {bug.trial.command}")


@pytest.mark.parametrize("bug", QUICK, ids=lambda bug: bug.name)
def test_quick_bugs_are_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    found(bug, monkeypatch)


@pytest.mark.chaos
@pytest.mark.parametrize("bug", [bug for bug in BUGS if not bug.quick], ids=lambda bug: bug.name)
def test_bugs_are_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    found(bug, monkeypatch)


def test_there_are_bugs_of_every_kind() -> None:
    assert len({bug.patch.__name__ for bug in BUGS}) >= 20
    assert len(QUICK) >= 8
    assert {bug.patch.__module__ for bug in BUGS} == {module.__name__ for module in (brokers, bugs, hope)}


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_is_tried_with_a_broker_that_is_mute_deaf_late_repeats_or_leaks(system: str) -> None:
    both = {brokers.mute, brokers.late, brokers.repeated_later}
    served = {brokers.deaf_to_some_subscribers, brokers.leaking}
    assert {bug.patch for bug in BUGS if bug.trial.system == system} >= (
        both if system == "ring" else both | served
    )

"""Every bug of the suite is found by a trial within the number of seeds that it states."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distributary.sim.trials.trial import run_trial
from replay import replayed_by
from sim.bugs.bugs import BUGS, Bug

QUICK = [bug for bug in BUGS if bug.quick]


def found(bug: Bug, patch: pytest.MonkeyPatch) -> None:
    """Run the bug's trial seed by seed until it fails, then once more without the bug, which must succeed."""
    for seed in range(1, bug.seeds + 1):
        trial = replace(bug.trial, seed=seed)
        with patch.context() as broken:
            bug.patch(broken)
            problems = run_trial(trial).problems
        if problems:
            with replayed_by(trial.command):
                assert run_trial(trial).problems == (), "there are problems without the bug"
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

"""What a tree promises, tried: nothing acknowledged is lost, comes twice or out of order.

The bugs show that the trial would find what it looks for: each breaks the promise in one place, and is found
within the seeds tried.
"""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from distributary.cli.main import main
from distributary.overlay.broker import SessionState
from distributary.overlay.tree import event_log
from distributary.overlay.tree.event_log import NumberedRun
from distributary.overlay.tree.intake import Intake
from distributary.overlay.tree.standby import ReplicatedLog
from distributary.overlay.tree.succession import RootSuccession
from distributary.sim.simulator import Simulator
from distributary.sim.trials.promise import (
    CLOCK_SKEW,
    KINDS,
    LEAVE,
    LOSE_ON_RETURN,
    PromiseOutcome,
    PromiseTrial,
    try_promise,
)
from distributary.systems.tree.resuming import ResumingClients
from replay import chaos_seeds, replayed_by

QUICK = 8
CHAOS = 300
FIRST = 10_000 * int(os.environ.get("DISTRIBUTARY_SEED", "1"))
"""The first seed of those in `make chaos`."""
COPYING = range(6)
"""Seeds of a root that is lost while its standby is sent the log."""
SEARCHED = 20
"""Seeds within which a bug must be found."""
OUTAGES = tuple(kind for kind in KINDS if kind != CLOCK_SKEW)


def keep_promise(trial: PromiseTrial) -> PromiseOutcome:
    outcome = try_promise(trial)
    with replayed_by(trial.command):
        assert outcome.problems == ()
        assert outcome.owed > 500
    return outcome


def test_nothing_acknowledged_is_lost_or_comes_twice_and_every_fault_fires() -> None:
    fired: Counter[str] = Counter()
    for seed in range(QUICK):
        fired.update(keep_promise(PromiseTrial(seed)).fired)
    assert set(fired) == {*KINDS, "messages cut off"}


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_small_networks_keep_it_too(nodes: int) -> None:
    # The only node, or one of two, cannot be lost for good.
    kinds = ("kill", "pause") if nodes < 3 else KINDS
    for seed in range(3):
        keep_promise(PromiseTrial(seed, nodes=nodes, faults=2, kinds=kinds))


def test_nothing_is_lost_when_nodes_leave_and_come_back() -> None:
    fired: Counter[str] = Counter()
    for seed in range(4):
        fired.update(keep_promise(PromiseTrial(seed, kinds=(LEAVE, "kill"))).fired)
    assert fired["left in good order"] == fired[LEAVE] > 3


def test_nothing_is_lost_with_a_root_whose_standby_is_just_sent_the_log_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_log, "MOST_TOGETHER", 300)  # so that the log is sent in many parts
    for seed in COPYING:
        fired = keep_promise(PromiseTrial(seed, faults=3, kinds=(LOSE_ON_RETURN,))).fired
        assert fired[LOSE_ON_RETURN] == 3


@pytest.mark.parametrize(("late", "seeds"), [("LogReply", (0, 1)), ("CopyReceipt", (0, 5))])
def test_nothing_is_lost_when_answers_are_late(late: str, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        keep_promise(PromiseTrial(seed, faults=2, rate=4.0, late=late, kinds=OUTAGES))


def test_a_clock_that_is_put_forward_shows_another_time_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[float] = []
    whole = Simulator.set_clock

    def set_clock(self: Simulator, address: int, *, forward: float = 0.0, rate: float | None = None) -> None:
        before = self.local_time(address)
        whole(self, address, forward=forward, rate=rate)
        put.append(self.local_time(address) - before)

    monkeypatch.setattr(Simulator, "set_clock", set_clock)
    outcome = keep_promise(PromiseTrial(1, faults=3, kinds=(CLOCK_SKEW,)))
    assert outcome.fired[CLOCK_SKEW] == len(put) == 3
    assert all(5 <= forward <= 500 for forward in put)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", chaos_seeds(FIRST, CHAOS))
def test_the_promise_holds_for_many_seeds(seed: int, record_property: Callable[[str, object], None]) -> None:
    outcome = keep_promise(PromiseTrial(seed))
    faults = {f"{kind} of a node": count for kind, count in outcome.fired.items() if kind in KINDS}
    record_property("faults", {**faults, "partition": outcome.fired["messages cut off"]})
    record_property("compared", {"events": outcome.acknowledged, "deliveries": outcome.received})


def test_the_command_tells_what_was_owed_and_how_to_run_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["sim", "promise", "--faults", "1", "--kinds", "kill,pause", "--seed", "3"]
    assert main(asked) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert ": 0 problems" in told
    assert main([*asked, "--seeds", "2", "--json"]) == 0
    summed = json.loads(capsys.readouterr().out)
    assert summed["well"] == summed["seeds"] == 2
    assert summed["owed"] > 500
    nothing_is_published_again(monkeypatch)
    lossy = PromiseTrial(0, nodes=1, kinds=("kill",)).command
    assert main(shlex.split(lossy)[1:]) == 1
    assert f"run it again with: {lossy}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--kinds", "kill,flood"], "not flood"),
        (["--nodes", "2"], "2 nodes cannot bear kill and wipe, kill and cut off, lose, cut off"),
        (["--nodes", "4", "--faults", "4"], "may lose all 4 nodes"),
        (["--late", "Telegram"], "no class of messages 'Telegram'"),
    ],
)
def test_the_command_refuses_what_no_network_bears(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", "promise", *options]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_a_trial_in_which_nothing_is_owed_fails() -> None:
    outcome = try_promise(PromiseTrial(1, faults=1, publishers=1, rate=0.001))
    assert [problem for problem in outcome.problems if "shows nothing" in problem]


def sessions_begin_anew(patch: pytest.MonkeyPatch) -> None:
    """A client that comes back is given what comes next, and nothing of what it missed."""
    resume = ResumingClients.resume

    def again(self: Any, session: SessionState) -> None:
        resume(self, session._replace(offset=None))

    patch.setattr(ResumingClients, "resume", again)


def entries_are_not_in_order(patch: pytest.MonkeyPatch) -> None:
    """The root takes whatever an entry sends, also when something before it was lost."""
    taken = Intake.take

    def take(self: Any, message: Any, sender: int) -> None:
        taken(self, message._replace(lowest=message.first), sender)

    patch.setattr(Intake, "take", take)


def the_same_epoch_with_another_standby(patch: pytest.MonkeyPatch) -> None:
    """A root that replaces its standby does not begin a new epoch, and the old standby may take over."""
    patch.setattr(ReplicatedLog, "may_differ", lambda self, standby: False)


def nothing_is_published_again(patch: pytest.MonkeyPatch) -> None:
    """A root that comes back from its disk has forgotten its log."""
    restored = RootSuccession.restore
    patch.setattr(RootSuccession, "restore", lambda self, role, stored: restored(self, role, {}))


def acknowledged_before_the_standby_has_it(patch: pytest.MonkeyPatch) -> None:
    """A root forwards and acknowledges what it has numbered, as soon as it is on its own disk."""
    taken = ReplicatedLog._take_up_to

    def take(self: Any, through: int) -> list[NumberedRun]:
        has_standby = self.standby is not None and self.proposed is None
        return taken(self, self.last if has_standby else through)

    patch.setattr(ReplicatedLog, "_take_up_to", take)


BUGS: dict[Callable[[pytest.MonkeyPatch], None], PromiseTrial] = {
    sessions_begin_anew: PromiseTrial(0),
    entries_are_not_in_order: PromiseTrial(0),
    the_same_epoch_with_another_standby: PromiseTrial(0, kinds=("cut off", "pause")),
    nothing_is_published_again: PromiseTrial(0, nodes=1, kinds=("kill",)),
    acknowledged_before_the_standby_has_it: PromiseTrial(5, kinds=("cut off",)),
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_broken_promise_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for further in range(SEARCHED):
        trial = replace(BUGS[bug], seed=BUGS[bug].seed + further)
        with monkeypatch.context() as broken:
            bug(broken)
            try:
                problems = try_promise(trial).problems
            except Exception as error:  # a node that cannot bear it has found it too
                problems = (repr(error),)
        if problems:
            return
    raise AssertionError(f"{bug.__name__} was not found in {SEARCHED} seeds")

"""Networks of broker processes keep their promises whatever happens to one node at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.history import violations_of
from chaos.live_trial import FAULTS, LiveTrial
from chaos.namespaces import NamespaceTrial, why_not
from distributary.client.session import ClientSession
from replay import chaos_seeds, replayed_by

FIRST = int(os.environ.get("DISTRIBUTARY_SEED", "1")) * 1000
RUNS = 50
IN_NAMESPACES = 5
PARTED = 5
SHOWN = 20
AGAIN = f"DISTRIBUTARY_SEED={FIRST // 1000} pytest -m chaos tests/chaos/test_live_network.py"


def judge(
    trial: LiveTrial, record: Callable[[str, object], None], *, ordered_once_healed: bool = False
) -> None:
    """Fail with everything that went wrong, and with what was done when.

    Where both sides of a network may have gone on, order is promised of what is sent once that has healed.
    """
    trial.run()
    history = trial.history
    record("faults", {f"{kind} of a process": count for kind, count in trial.fired.items()})
    record("compared", {"events": len(history.publishes), "deliveries": len(history.given)})
    violations = violations_of(history, trial.since)
    if ordered_once_healed:
        later = violations_of(history, max(trial.since, trial.healed))
        violations = [each for each in violations if each.kind != "disorder" or each in later]
    problems = [*trial.problems, *map(str, violations)]
    problems += [f"{kind} was meant to happen and did not" for kind in trial.faults if not trial.fired[kind]]
    if problems:
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        pytest.fail("\n".join([*problems[:SHOWN], *more, *trial.told]), pytrace=False)
    assert len([each for each in history.publishes if each.sent >= trial.healed]) > 0


def test_a_small_network_keeps_its_promises_through_a_kill_and_a_pause(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with replayed_by("pytest tests/chaos/test_live_network.py -k small"):
        trial = LiveTrial(tmp_path, 1, nodes=3, faults=("kill", "pause"), lasting=(0.2,))
        judge(trial, record_property)


def test_a_trial_waits_until_a_ring_that_was_cut_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = LiveTrial(tmp_path, 1, nodes=4, system="central")
    nodes = [{"name": name, "joined": True} for name in trial._names]
    for broken, rests in ((["node-1", "node-3"], False), ([], True)):
        view = {"nodes": nodes, "ring": {"order": trial._names, "broken": broken}}
        monkeypatch.setattr(trial._network, "view", lambda view=view: view)
        assert trial._at_rest() is rests


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("bug", "kind"),
    [("lost", "lost"), ("changed", "unasked"), ("doubled", "twice"), ("swapped", "disorder")],
)
def test_bugs_of_brokers_are_found(
    bug: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [str(Path(__file__).parent / "bugs"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, places)))
    monkeypatch.setenv("DISTRIBUTARY_BUG", bug)
    if bug in ("doubled", "swapped"):  # clients that look at offsets would drop these
        monkeypatch.setattr(ClientSession, "_new", lambda session, event, ids, offset: ids)
    trial = LiveTrial(tmp_path, 1, nodes=4, faults=(), patience=10.0)
    trial.run()
    assert kind in {violation.kind for violation in violations_of(trial.history, trial.since)}


@pytest.mark.parametrize("seed", chaos_seeds(FIRST, IN_NAMESPACES))
def test_a_network_in_namespaces_keeps_its_promises_when_cables_are_cut(
    seed: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with replayed_by(f"{AGAIN} -k 'namespaces and {seed}'"):
        faults = ("cut", "kill", "pause", "lose", "cut")
        judge(NamespaceTrial(tmp_path, seed, nodes=8, faults=faults), record_property)


@pytest.mark.parametrize("seed", chaos_seeds(FIRST, RUNS))
def test_a_network_keeps_its_promises_whatever_happens_to_one_node(
    seed: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with replayed_by(f"{AGAIN} -k 'whatever and {seed}'"):
        faults = (*FAULTS, "gone" if seed % 2 else "fill")
        judge(LiveTrial(tmp_path, seed, nodes=8 + seed % 5, faults=faults), record_property)


@pytest.mark.parametrize("system", ["central", "hope-tags"])
@pytest.mark.parametrize("seed", chaos_seeds(FIRST, PARTED))
def test_a_network_without_a_log_delivers_all_once_it_has_healed(
    system: str, seed: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with replayed_by(f"{AGAIN} -k 'without_a_log and {seed} and {system}'"):
        faults = ("kill", "pause", "cut")
        trial = LiveTrial(
            tmp_path, seed, nodes=5 + seed % 4, faults=faults, system=system, lasting=(0.5, 3.0)
        )
        judge(trial, record_property)
        assert trial.since > 0.0, "it keeps a log, so all would be due from the beginning"


@pytest.mark.parametrize("system", ["tree", "central", "flooding"])
@pytest.mark.parametrize("seed", chaos_seeds(FIRST, PARTED))
def test_a_network_that_was_cut_in_two_is_one_again(
    system: str, seed: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with replayed_by(f"{AGAIN} -k 'cut_in_two and {seed} and {system}'"):
        trial = LiveTrial(
            tmp_path,
            seed,
            nodes=6 + seed % 5,
            faults=("part", "part"),
            system=system,
            lasting=(4.0, 40.0),
        )
        judge(trial, record_property, ordered_once_healed=True)


@pytest.mark.parametrize("seed", chaos_seeds(FIRST, IN_NAMESPACES))
def test_a_network_in_namespaces_that_was_cut_in_two_is_one_again(
    seed: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with replayed_by(f"{AGAIN} -k 'namespaces_that_was_cut and {seed}'"):
        trial = NamespaceTrial(tmp_path, seed, nodes=6, faults=("part", "part"), lasting=(4.0, 40.0))
        judge(trial, record_property, ordered_once_healed=True)

"""Sessions and the MQTT server in the simulator (`simulated`): promises are kept, and bugs are found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from distributary.edge.mailbox_entries import KeptEntry
from distributary.edge.session import Session
from distributary.edge.session_disk import SessionDisk
from distributary.model import Delivery, DeliveryBatch
from edge.simulated import CLIENT_FAULTS, KINDS, LONGEST, EdgeTrial
from replay import many_seeds, replayed_by

AGAIN = "DISTRIBUTARY_EDGE_SEED={} .venv/bin/pytest -q -n 0 tests/edge/test_simulated.py -k one_seed"
EVERY = 25
"""So often a bug strikes."""


def tried(seed: int) -> EdgeTrial:
    """A trial that keeps all promises, in which every fault has fired."""
    with replayed_by(AGAIN.format(seed)):
        trial = EdgeTrial(seed).run()
        missing = [kind for kind in (*KINDS, *CLIENT_FAULTS) if not trial.fired[kind]]
        assert missing == [], "faults that were meant to be there did not fire"
        assert trial.world.now < LONGEST, "it does not come to rest"
        assert trial.violations() == []
        assert len(trial.acknowledged) == len(trial.sent), "a publisher was not answered"
        assert [client.name for client in trial.clients if getattr(client, "gaps", 0)] == []
        return trial


def test_sessions_and_mqtt_keep_their_promises_in_the_simulator() -> None:
    first = tried(1)
    assert len(first.history.given) > 1_000
    assert tried(1).history == first.history  # the same seed, the same run


@pytest.mark.chaos
def test_many_simulated_trials(record_property: Callable[[str, Any], None]) -> None:
    given, faults = 0, Counter[str]()
    for seed in many_seeds(1_000, 200):
        trial = tried(seed)
        given += len(trial.history.given)
        faults.update({kind: trial.fired[kind] for kind in CLIENT_FAULTS})
    record_property("compared", {"deliveries": given})
    record_property("faults", dict(faults))


if (repeated := os.environ.get("DISTRIBUTARY_EDGE_SEED")) is not None:  # a run that failed

    def test_one_seed() -> None:
        tried(int(repeated))


# Bugs that are put in on purpose.


def mute(patch: pytest.MonkeyPatch) -> None:
    """Some deliveries are dropped."""
    give, count = Session.give, iter(range(1_000_000))

    def dropping(self: Session, delivery: Delivery | DeliveryBatch) -> None:
        if next(count) % EVERY:
            give(self, delivery)

    patch.setattr(Session, "give", dropping)


def repeating(patch: pytest.MonkeyPatch) -> None:
    """Some deliveries are put into the mailbox twice."""
    give, count = Session.give, iter(range(1_000_000))

    def doubling(self: Session, delivery: Delivery | DeliveryBatch) -> None:
        before = self.mailbox.last
        give(self, delivery)
        if self.mailbox.last > before and isinstance(delivery, Delivery) and not next(count) % EVERY:
            self.mailbox.put(delivery, 0.0)

    patch.setattr(Session, "give", doubling)


def late_acknowledgement(patch: pytest.MonkeyPatch) -> None:
    """What was acknowledged stays on the disk, so that it is there again after a crash."""
    write = SessionDisk._write

    def keeping(self: SessionDisk, stores: list[Any], then: Callable[[], None]) -> None:
        write(self, [each for each in stores if each.value is not None], then)

    patch.setattr(SessionDisk, "_write", keeping)


def lost_session(patch: pytest.MonkeyPatch) -> None:
    """A node that starts again has forgotten its sessions."""
    patch.setattr(SessionDisk, "read", lambda self, stored: {})


def backwards(patch: pytest.MonkeyPatch) -> None:
    """What is sent together is sent in the wrong order."""
    take = Session.take_runs

    def reversed_runs(self: Session, most: int) -> list[KeptEntry]:
        return take(self, most)[::-1]

    patch.setattr(Session, "take_runs", reversed_runs)


@pytest.mark.parametrize(
    ("bug", "kind"),
    [
        (mute, "lost"),
        (lost_session, "lost"),
        pytest.param(repeating, "twice", marks=pytest.mark.chaos),
        pytest.param(late_acknowledgement, "twice", marks=pytest.mark.chaos),
        pytest.param(backwards, "disorder", marks=pytest.mark.chaos),
    ],
)
def test_the_history_finds_bugs(
    bug: Callable[[pytest.MonkeyPatch], None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    found: set[str] = set()
    for seed in range(5):
        found |= {violation.kind for violation in EdgeTrial(seed).run().violations()}
        if kind in found:
            return
    raise AssertionError(f"only {found} found")

"""Every system, with each message written and read again on its way: all happens as without."""

from __future__ import annotations

from typing import Any

import pytest

from distributary.live.codec import decode, encode
from distributary.overlay.kinds import number_of
from distributary.overlay.node import Node
from distributary.overlay.wire import size_of
from distributary.sim.simulator import Observer
from distributary.sim.trials.query_trial import QueryTrial, run_query_trial
from distributary.sim.trials.trial import Trial, run_trial
from distributary.systems.table import SYSTEMS


class Notes(Observer):
    """All that was received and delivered, in order."""

    def __init__(self) -> None:
        self.happened_so_far: list[Any] = []

    def received(self, now: float, sender: int, to: int, message: Any) -> None:
        self.happened_so_far.append((now, sender, to, type(message).__name__, size_of(message)))

    def delivered(self, delivered: Any) -> None:
        self.happened_so_far.append((delivered.time, delivered.address, repr(delivered.item)))


def put_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every message of every node written and read again before it is handled."""
    plainly = Node.receive

    def receive(self: Node, message: Any, sender: int, now: float) -> Any:
        written = encode(message)
        assert len(written) == size_of(message)
        return plainly(self, decode(written), sender, now)

    monkeypatch.setattr(Node, "receive", receive)


KINSHIP = ("attributes", "hope", "state-aware")
"""Systems whose names begin alike send the same messages: one of each is enough here, all in `make chaos`."""
LIKE_OTHERS = {name for kin in KINSHIP for name in [each for each in SYSTEMS if each.startswith(kin)][1:]} - {
    "hope-kbsp",
    "state-aware-mfd",
    "state-aware-thresholds",
}
CASES = [
    pytest.param(name, 8, 12, 3, marks=[pytest.mark.chaos] * (name in LIKE_OTHERS), id=name)
    for name in SYSTEMS
] + [pytest.param(name, 12, 40, 8, marks=pytest.mark.chaos, id=f"{name} at length") for name in SYSTEMS]


@pytest.mark.parametrize(("system", "nodes", "subscriptions", "events"), CASES)
def test_a_system_does_the_same_when_its_messages_are_bytes(
    system: str, nodes: int, subscriptions: int, events: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(system, "everything", nodes, seed=4, subscriptions=subscriptions, events=events, least=0)
    by_reference, in_bytes = Notes(), Notes()
    run_trial(trial, observers=[by_reference])
    put_in_bytes(monkeypatch)
    run_trial(trial, observers=[in_bytes])
    assert len(in_bytes.happened_so_far) > 100
    assert in_bytes.happened_so_far == by_reference.happened_so_far


def test_a_query_network_does_the_same_when_its_messages_are_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = QueryTrial(
        scenario="loss",
        nodes=6,
        queries=8,
        feeds=4,
        events=120,
        seconds=40.0,
        seed=4,
        goal="latency",
        changes=4,
    )
    by_reference, in_bytes = Notes(), Notes()
    run_query_trial(trial, observers=[by_reference])
    put_in_bytes(monkeypatch)
    run_query_trial(trial, observers=[in_bytes])
    assert len(in_bytes.happened_so_far) > 1_000
    assert in_bytes.happened_so_far == by_reference.happened_so_far


def test_every_kind_that_a_node_handles_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    handled: set[type] = set()
    plainly = Node.handle

    def handle(self: Node, kind: type, handler: Any) -> None:
        handled.add(kind)
        plainly(self, kind, handler)

    monkeypatch.setattr(Node, "handle", handle)
    for name in SYSTEMS:
        run_trial(Trial(name, nodes=8, subscriptions=4, events=1, least=0, robust=True))
    run_query_trial(QueryTrial(nodes=4, queries=2, feeds=2, events=4, seconds=4.0, goal="latency"))
    assert len(handled) > 100
    assert [kind.__qualname__ for kind in handled if number_of(kind) is None] == []

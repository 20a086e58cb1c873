"""Bugs that are put into nodes of query networks, one at a time: the trial finds each within some seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from distributary.flow import Item
from distributary.flow.incremental.running import RunningOperator
from distributary.overlay.courier import Ack, Packet
from distributary.overlay.node import Address
from distributary.sim.trials.query_trial import QueryTrial, run_query_trial
from distributary.systems.queries import FlowBroker
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.engine import Engine
from distributary.systems.queries.messages import OperatorHandover, WithdrawalNotice
from distributary.systems.queries.stream_order import StreamOrder
from replay import replayed_by

SMALL = QueryTrial(nodes=6, queries=6, feeds=4, events=80, seconds=60, changes=15, withdrawals=2)
LARGER = replace(SMALL, nodes=8, queries=20, feeds=12, events=600, changes=25)
Patch = Callable[[pytest.MonkeyPatch], None]


def out_of_order(patch: pytest.MonkeyPatch) -> None:
    """Each client is given its first item after its second."""
    whole, held = FlowBroker._deliver, dict[tuple[FlowBroker, str], list[Item]]()

    def deliver(self: FlowBroker, query: str, stream: str, output: str, number: int, item: Item) -> None:
        first = held.setdefault((self, output), [item])
        if first == [item]:
            return
        whole(self, query, stream, output, number, item)
        if first:
            whole(self, query, stream, output, number, first.pop())

    patch.setattr(FlowBroker, "_deliver", deliver)


def not_held(patch: pytest.MonkeyPatch) -> None:
    """Who asked for the order of a stream is given its items as they come."""
    patch.setattr(StreamOrder, "take", lambda self, element: [element])


def certain_too_early(patch: pytest.MonkeyPatch) -> None:
    """Of two inputs, the one that is further says what is certain."""
    patch.setattr(RunningOperator, "watermark", property(lambda self: max(self.watermarks)))


def overtaken_on_a_connection(patch: pytest.MonkeyPatch) -> None:
    """Packets are handled as they come, whichever was sent first."""

    def packet(self: Connections, packet: Packet, sender: Address) -> None:
        self.node.send(sender, Ack(packet.incarnation, packet.number, packet.tried))
        handled = self._early.setdefault(sender, {})
        if packet.number not in handled:
            handled[packet.number] = packet.message
            self.node.dispatch(packet.message, sender)

    patch.setattr(Connections, "_packet", packet)


def doubled(patch: pytest.MonkeyPatch) -> None:
    """Every seventh element is given to clients twice."""
    whole = FlowBroker._deliver

    def deliver(self: FlowBroker, query: str, stream: str, output: str, number: int, item: Item) -> None:
        for _ in range(1 + (number % 7 == 0)):
            whole(self, query, stream, output, number, item)

    patch.setattr(FlowBroker, "_deliver", deliver)


def lost_on_a_move(patch: pytest.MonkeyPatch) -> None:
    """An operator that has come from another node leaves the next element of each input out."""
    whole = Engine.take_over

    def take_over(self: Engine, message: OperatorHandover) -> None:
        later = [
            cursor if cursor.position is None else cursor._replace(position=cursor.position + 1)
            for cursor in message.cursors
        ]
        whole(self, replace(message, cursors=tuple(later)))

    patch.setattr(Engine, "take_over", take_over)


def withdrawal_forgotten_at_the_nodes(patch: pytest.MonkeyPatch) -> None:
    """The client is told that its query has ended, and is given items as before."""

    def withdrawal(self: FlowBroker, message: WithdrawalNotice, sender: int) -> None:
        """Free nothing."""

    patch.setattr(FlowBroker, "_withdrawal", withdrawal)


def withdrawal_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FlowBroker, "unregister_query", lambda self, name: None)


def found(
    patch: pytest.MonkeyPatch, bug: Patch, seeds: int, scenario: str, told: str, size: QueryTrial = SMALL
) -> None:
    """Run the trial seed by seed until it tells that; without the bug nothing is wrong there."""
    for seed in range(1, seeds + 1):
        trial = replace(size, seed=seed, scenario=scenario)
        with patch.context() as broken:
            bug(broken)
            problems = run_query_trial(trial).problems
        if any(told in problem for problem in problems):
            with replayed_by(trial.command):
                assert run_query_trial(trial).problems == (), "there are problems without the bug"
            return
    raise AssertionError(f"{bug.__name__} is not found in {seeds} seeds")


def test_items_out_of_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, out_of_order, 1, "calm", "out of order")


@pytest.mark.chaos
def test_items_that_are_not_held_for_those_before_them_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, not_held, 3, "messages", "out of order", LARGER)


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("bug", "seeds", "scenario", "told"),
    [
        (out_of_order, 1, "messages", "out of order"),
        (certain_too_early, 1, "calm", " lacks "),
        (overtaken_on_a_connection, 1, "messages", " lacks "),
        (doubled, 1, "messages", "unasked or twice"),
        (lost_on_a_move, 2, "messages", " lacks "),
        (withdrawal_forgotten_at_the_nodes, 2, "messages", "after it was withdrawn"),
        (withdrawal_ignored, 1, "calm", "did not end"),
    ],
)
def test_bugs_are_found(
    monkeypatch: pytest.MonkeyPatch, bug: Patch, seeds: int, scenario: str, told: str
) -> None:
    found(monkeypatch, bug, seeds, scenario, told)

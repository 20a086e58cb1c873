"""Experiments on live networks: what their checks hold against, and one small run."""

from __future__ import annotations

import numpy as np
import pytest

from distributary.model import Event
from distributary.overlay.node import Message
from distributary.overlay.ring.questions import NeighboursRequest
from distributary.overlay.trace_text import text_of
from distributary.overlay.tree.messages import ForwardedEvents
from distributary.overlay.wire import event_size
from distributary.systems.membership import address_of
from distributary_lab.experiment import Outcome, Row
from distributary_lab.network import delay, hope_upkeep, redundant_data, wide_area
from distributary_lab.network.improving import wait_until_improved


def delays(**by_size: float) -> list[Row]:
    rows: list[Row] = []
    for system, times in ((delay.MEMORY, 1.0), (delay.DISK, 3.0)):
        for round in (1, 2):
            rows += [
                {"system": system, "bytes": int(size[1:]), "round": round, "mean_ms": times * round * ms}
                for size, ms in by_size.items()
            ]
    return rows


@pytest.mark.parametrize(
    ("by_size", "outcome"),
    [
        ({"b100": 0.5, "b10000": 0.7, "b1000000": 12.0}, Outcome.HOLDS),
        ({"b100": 0.5, "b10000": 1.7, "b1000000": 12.0}, Outcome.DOES_NOT_HOLD),  # grows early
        ({"b100": 1.6, "b10000": 1.7, "b1000000": 12.0}, Outcome.DOES_NOT_HOLD),  # slow
        ({"b100": 0.5, "b10000": 0.7, "b1000000": 31.0}, Outcome.DOES_NOT_HOLD),
    ],
)
def test_the_check_of_delays_can_fail(by_size: dict[str, float], outcome: Outcome) -> None:
    assert delay.check(delays(**by_size)).outcome == outcome


def test_events_through_a_broker_are_timed() -> None:
    [row] = delay.run({"system": delay.MEMORY, "bytes": 100, "events": 3}, np.random.default_rng(1))
    assert 0 < float(row["median_ms"]) < 1000 * delay.PATIENCE


def latencies(measured: float, first: float = 900.0, best: float = 500.0) -> list[Row]:
    trees = {"first": (first, first), "improved": (520.0, measured)}
    return [
        {
            "nodes": 10,
            "tree": tree,
            "predicted_ms": predicted,
            "measured_ms": ours,
            "best_ms": best,
            "worst_error_ms": 3.0,
        }
        for tree, (predicted, ours) in trees.items()
    ]


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        (latencies(530.0), Outcome.HOLDS),
        (latencies(620.0), Outcome.DOES_NOT_HOLD),  # not what the model says
        (latencies(530.0, best=400.0), Outcome.DOES_NOT_HOLD),  # far from the shortest ways
        (latencies(530.0, first=525.0), Outcome.DOES_NOT_HOLD),  # worse than before
    ],
)
def test_the_check_of_latencies_can_fail(rows: list[Row], outcome: Outcome) -> None:
    assert wide_area.check(rows).outcome == outcome


def test_what_is_redundant_is_read_from_a_trace() -> None:
    one, two = (address_of(redundant_data.NETWORK, name) for name in ("n1", "n2"))
    wanted, other = Event("a", "wanted", {"x": 1}), Event("b", "other", {"x": 1})
    message = ForwardedEvents(1, 0.0, 0, (1, 2), (wanted, other))
    lines = [
        f"1.0 received {one} > {two} {text_of(message)}",
        f"1.0 sent {one} > {two} {text_of(message)} | x",
    ]
    interest = {"n1": frozenset({"wanted", "other"}), "n2": frozenset({"wanted"})}
    assert redundant_data.redundant_bytes(lines, interest) == (event_size(other), 0)


def test_the_frames_of_the_ring_are_counted_at_both_ends() -> None:
    message: Message = NeighboursRequest(1)
    lines = [f"1.0 {what} 3 > 4 {text_of(message)}" for what in ("sent", "received", "received")]
    told = hope_upkeep.told(lines)
    assert told["ring"] == told["all"] > 0
    assert told["ring in"] == 2 * told["ring"]


def test_a_network_counts_as_improved_when_it_rests() -> None:
    seen = iter([1, 2, 2, 3, 3, 3, 3])
    assert wait_until_improved(lambda: next(seen), period=0.0) == 2

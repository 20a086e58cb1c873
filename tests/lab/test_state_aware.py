"""The experiments on state-aware dissemination: what a point measures, and what the checks make of rows."""

from __future__ import annotations

import pytest

from distributary.errors import DistributaryError
from distributary.overlay.ring.ring import settle
from distributary.workloads import stock_days
from distributary_lab.experiment import point_random
from distributary_lab.state_aware import dissemination as state_aware
from distributary_lab.state_aware.stock_application import deploy, run_application

POINT = {
    "distributions": "Par-Uni",
    "maximum": 64,
    "nodes": 50,
    "span": 16,
    "minutes": 8,
    "sources": 8,
    "subscribers": 8,
    "every": 1.0,
}


def test_a_point_runs_all_systems_on_the_same_trace() -> None:
    rows = state_aware.run_sizes(POINT, point_random(1, "test", 0))
    assert [row["system"] for row in rows] == ["sf", "mfd", "thresholds"]
    by_system = {row["system"]: row for row in rows}
    assert by_system["thresholds"]["as_sf"] is True
    assert by_system["thresholds"]["publication"] < by_system["sf"]["publication"]
    assert state_aware.run_sizes(POINT, point_random(1, "test", 0)) == rows


def test_nodes_made_when_needed_are_those_of_a_settled_ring() -> None:
    trace = stock_days.trace(seed=3, sources=5, subscribers=5, minutes=5, every_minutes=1)
    lazy = run_application(trace, "sf", nodes=40, seed=3)
    assert 0 < lazy.built <= 40
    rings = {address: broker.ring for address, broker in lazy.deployment.members.items()}
    deployment = deploy("sf", 40, 3)
    for address in deployment.addresses:
        deployment.add(address)
    settle([broker.ring for broker in deployment.members.values()])
    for address, ring in rings.items():
        whole = deployment.members[address].ring
        assert (ring.predecessor, ring.successors, ring.fingers) == (
            whole.predecessor,
            whole.successors,
            whole.fingers,
        )


def test_an_unknown_system_and_a_ring_of_none_are_refused() -> None:
    with pytest.raises(DistributaryError, match="no system"):
        deploy("none", 4, 1)
    with pytest.raises(DistributaryError, match="at least one node"):
        deploy("sf", 0, 1)

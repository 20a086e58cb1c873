"""The experiments on state-aware dissemination: what a point measures, and what the checks make of rows."""

from __future__ import annotations

import pytest

from distributary.errors import DistributaryError
from distributary.overlay.ring.ring import settle
from distributary.workloads import stock_days
from distributary_lab.experiment import Outcome, Row, point_random
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


def sizes(saving: float, million: float) -> list[Row]:
    rows: list[Row] = []
    for nodes, cost in ((100, 20.0), (400, 24.0), (1600, 28.0), (state_aware.MILLION, million)):
        common: Row = {"distributions": "Par-Uni", "maximum": 64, "nodes": nodes, "span": 16, "waits": 0.5}
        for system, share in (("sf", 1.0), ("mfd", 1 - saving), ("thresholds", 0.5)):
            rows.append(
                {
                    **common,
                    "system": system,
                    "publication": cost * share,
                    "subscription": cost / 5 * (1.1 if system == "mfd" else 1),
                    "delay": cost / 3,
                    "as_sf": system != "mfd",
                }
            )
    return rows


@pytest.mark.parametrize(
    ("saving", "million", "outcome"),
    [(0.3, 50.0, Outcome.HOLDS), (0.1, 50.0, Outcome.DOES_NOT_HOLD), (0.3, 70.0, Outcome.DOES_NOT_HOLD)],
)
def test_figure_10c_is_judged_by_savings_and_by_the_ring_of_a_million(
    saving: float, million: float, outcome: Outcome
) -> None:
    assert state_aware.check_10c(sizes(saving, million)).outcome is outcome


def test_without_the_ring_of_a_million_figure_10c_is_not_reproduced() -> None:
    rows = [row for row in sizes(0.3, 50.0) if row["nodes"] != state_aware.MILLION]
    assert state_aware.check_10c(rows).outcome is Outcome.NOT_REPRODUCED


def test_the_other_checks_on_sizes() -> None:
    rows = sizes(0.3, 50.0)
    assert state_aware.check_10a(rows).outcome is Outcome.HOLDS
    assert state_aware.check_10b(rows).outcome is Outcome.HOLDS
    assert state_aware.check_thresholds(rows).outcome is Outcome.HOLDS
    rows[2]["as_sf"] = False
    assert state_aware.check_thresholds(rows).outcome is Outcome.DOES_NOT_HOLD


def distributions(**publication: float) -> list[Row]:
    return [
        {
            "system": system,
            "distributions": name.replace("_", "-"),
            "maximum": 64,
            "publication": cost * (1 if system == "sf" else 0.7),
            "subscription": 4.0,
            "delay": 7.0 if name != "Uni_Par" else 10.0,
        }
        for system in ("sf", "mfd")
        for name, cost in publication.items()
    ]


def test_figure_9_is_judged_by_order_and_by_likeness() -> None:
    rows = distributions(Par_Uni=20, Uni_Uni=15, Par_Par=14, Uni_Par=11)
    assert state_aware.check_9a(rows).outcome is Outcome.HOLDS
    assert state_aware.check_9b(rows).outcome is Outcome.HOLDS
    assert state_aware.check_9c(rows).outcome is Outcome.DOES_NOT_HOLD
    wrong = distributions(Par_Uni=20, Uni_Uni=25, Par_Par=14, Uni_Par=11)
    assert state_aware.check_9b(wrong).outcome is Outcome.DOES_NOT_HOLD

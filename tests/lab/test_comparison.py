"""The systems side by side: nothing wrong is counted as cheap, and the checks see what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from distributary.sim.simulator import DeliveredItem
from distributary_lab.experiment import Outcome, Row
from distributary_lab.systems import comparison
from distributary_lab.systems.comparison import COMPARED, EXPERIMENTS, ReachedInVain

COSTS, RECOVERY = EXPERIMENTS


@pytest.mark.parametrize("name", [name for name in COMPARED if not name.startswith("attributes-")])
def test_every_system_delivers_the_common_workload_exactly(name: str) -> None:
    point = {"system": name, "nodes": 16, "subscriptions": 40, "events": 30}
    (row,) = COSTS.run(point, np.random.default_rng(5))
    assert row["wrong"] == row["refused"] == 0
    assert row["deliveries"] > 0
    assert row["messages"] > 0


def test_a_crash_makes_events_late_and_the_system_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "CRASHED", 0.3)
    (row,) = RECOVERY.run({"system": "state-aware-sf", "nodes": 12}, np.random.default_rng(5))
    assert row["late before"] == 0
    assert 0 < float(row["recovery"]) < comparison.AFTER - 5


def test_nodes_reached_in_vain_are_those_that_neither_send_nor_deliver() -> None:
    reached, cause = ReachedInVain(), ("publish", "e1")
    reached.sent(0, 1, 2, "event", cause, 1)
    reached.sent(0, 2, 3, "event", cause, 2)
    reached.sent(0, 2, 4, "event", cause, 2)
    reached.delivered(DeliveredItem(0, 3, None, cause, 2))
    reached.sent(0, 5, 6, "upkeep", None, 1)
    assert reached.share_in_vain() == pytest.approx(1 / 3)


def _cost(system: str, messages: float, wrong: int = 0) -> Row:
    return {"system": system, "nodes": 8, "messages": messages, "wrong": wrong, "refused": 0}


def test_the_comparison_does_not_hold_when_a_system_is_wrong_or_dearer_than_flooding() -> None:
    check = COSTS.answers["beyond-side-by-side"].check
    assert check([_cost("flooding", 7), _cost("central", 2)]).outcome is Outcome.HOLDS
    assert check([_cost("flooding", 7), _cost("central", 9)]).outcome is Outcome.DOES_NOT_HOLD
    assert check([_cost("flooding", 7), _cost("central", 2, wrong=1)]).outcome is Outcome.DOES_NOT_HOLD


def test_recovery_does_not_hold_when_events_stay_late() -> None:
    check = RECOVERY.answers["beyond-recovery"].check
    healed: Row = {"system": "central", "recovery": 4.0, "late before": 0}
    assert check([healed]).outcome is Outcome.HOLDS
    assert check([healed, {**healed, "recovery": comparison.AFTER}]).outcome is Outcome.DOES_NOT_HOLD
    assert check([{**healed, "late before": 1}]).outcome is Outcome.DOES_NOT_HOLD

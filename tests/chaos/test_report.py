"""The report of `make chaos` adds up what tests did, and the cases are drawn by the seed."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from chaos import sizes
from chaos.report import Findings, part_of, watched
from distributary.sim.trials.trial import Trial, run_trial

CASES: list[Any] = [
    SimpleNamespace(nodeid=f"{test}[{number}]")
    for test in ("tests/spark/test_a.py::test_long", "tests/overlay/test_b.py::test_quick")
    for number in range(30)
]


def test_what_is_injected_published_and_delivered_is_counted() -> None:
    with watched() as (faults, compared):
        outcome = run_trial(Trial("central", "messages", nodes=10, subscriptions=40, events=20))
    assert faults == Counter(outcome.fired)
    assert compared == {"events": outcome.events, "deliveries": outcome.deliveries}
    run_trial(Trial("flooding", nodes=4, subscriptions=40, events=20))
    assert compared["events"] == outcome.events, "it counts on"


def test_it_is_counted_also_where_a_test_fails() -> None:
    counted: list[Counter[str]] = []
    with pytest.raises(AssertionError), watched() as found:  # noqa: PT012
        counted += found
        run_trial(Trial("flooding", "loss", nodes=10, subscriptions=40, events=20))
        raise AssertionError
    assert counted[0]["loss"] > 0


def test_reports_are_added_up() -> None:
    findings = Findings()
    for failed in (False, True):
        told = [("faults", {"loss": 3}), ("compared", {"events": 2}), ("faults", {"crash": 1}), ("other", 7)]
        findings.add(SimpleNamespace(failed=failed, duration=1.5, user_properties=told))  # type: ignore[arg-type]
    assert findings.record() == {
        "runs": 2,
        "violations": 1,
        "seconds": 3.0,
        "faults": {"crash": 2, "loss": 6},
        "events": 4,
        "deliveries": 0,
    }


def test_a_part_is_a_folder_or_a_file() -> None:
    assert part_of("tests/systems/tree/test_goals.py::test_many[3]") == "systems/tree"
    assert part_of("tests/test_files.py::test_all") == "test_files"


def test_of_long_tests_some_cases_are_drawn_and_of_others_all_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISTRIBUTARY_CHAOS_FULL", raising=False)
    monkeypatch.setattr(sizes, "MOST", {"tests/spark/": 4})
    drawn = [sizes.chosen(CASES, seed) for seed in ("1", "2")]
    assert sizes.chosen(CASES, "1") == drawn[0] != drawn[1]
    for items in drawn:
        assert Counter(item.nodeid.split("/")[1] for item in items) == {"spark": 4, "overlay": 30}
        assert items == [item for item in CASES if item in items]
    monkeypatch.setenv("DISTRIBUTARY_CHAOS_FULL", "1")
    assert sizes.chosen(CASES, "1") == CASES

"""The report of `make chaos` adds up what tests did, and the cases are drawn by the seed."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from chaos import sizes
from chaos.report import Findings, continued, part_of, summed, watched
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


def noted(runs: int, violations: int = 0, commit: str = "a") -> dict[str, Any]:
    counts = {"runs": runs, "violations": violations, "seconds": 1.0}
    return {**counts, "faults": {"loss": runs}, "events": 2, "deliveries": 3, "commit": commit}


def recorded(tests: dict[str, dict[str, Any]], failed: tuple[str, ...] = (), seed: int = 7) -> dict[str, Any]:
    told = [{"test": name, "told": "wrong"} for name in failed]
    return {"seed": seed, "times": 1, "full": False, "elapsed": 60.0, **summed(tests), "failed": told}


def test_what_runs_in_parts_adds_up_and_what_runs_again_counts_once() -> None:
    ring, tree = "tests/overlay/ring/test_a.py::test_a", "tests/systems/tree/test_b.py::test_b"
    before = recorded({ring: noted(4, 1), tree: noted(2, 1)}, (f"{ring}[3]", f"{tree}[5]"))
    added = continued(before, recorded({ring: noted(5, commit="b")}))
    assert added["all"] == {**summed({"x": noted(7, 1)})["all"], "seconds": 2.0, "events": 4, "deliveries": 6}
    assert {name: part["violations"] for name, part in added["parts"].items()} == {
        "overlay/ring": 0,
        "systems/tree": 1,
    }
    assert [one["test"] for one in added["failed"]] == [f"{tree}[5]"]
    assert added["commits"] == ["a", "b"]
    assert added["elapsed"] == 120.0


def test_what_ran_with_another_seed_does_not_count() -> None:
    other = recorded({"tests/sim/test_a.py::test_a": noted(1)}, seed=8)
    assert continued(recorded({"tests/sim/test_b.py::test_b": noted(4, 1)}, seed=7), other) == other


def test_a_part_is_a_folder_or_a_file() -> None:
    assert part_of("tests/systems/tree/test_goals.py::test_many[3]") == "systems/tree"
    assert part_of("tests/test_files.py::test_all") == "test_files"


def test_of_long_tests_some_cases_are_drawn_and_of_others_all_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISTRIBUTARY_CHAOS_FULL", raising=False)
    monkeypatch.setattr(sizes, "MOST", {"tests/spark/": 2})
    monkeypatch.setattr(sizes, "TIMES", 2)
    drawn = [sizes.chosen(CASES, seed) for seed in ("1", "2")]
    assert sizes.chosen(CASES, "1") == drawn[0] != drawn[1]
    for items in drawn:
        assert Counter(item.nodeid.split("/")[1] for item in items) == {"spark": 4, "overlay": 30}
        assert items == [item for item in CASES if item in items]
    monkeypatch.setenv("DISTRIBUTARY_CHAOS_FULL", "1")
    assert sizes.chosen(CASES, "1") == CASES


def test_of_each_kind_of_case_as_many_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISTRIBUTARY_CHAOS_FULL", raising=False)
    monkeypatch.setattr(sizes, "MOST", {"tests/systems/": 7})
    monkeypatch.setattr(sizes, "TIMES", 1)
    counts = {"tree": 20, "hope-kbsp": 20, "ring": 1}
    names = [f"{number}-{system}" for system, count in counts.items() for number in range(count)]
    items: list[Any] = [SimpleNamespace(nodeid=f"tests/systems/test_a.py::test_a[{name}]") for name in names]
    for seed in range(10):
        drawn = [item.nodeid.partition("-")[2] for item in sizes.chosen(items, str(seed))]
        assert Counter(drawn) == {"tree]": 3, "hope-kbsp]": 3, "ring]": 1}

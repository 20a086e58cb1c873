"""The benchmarks run, check their answers, and say what they measured; how fast is not tested."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest
from rich.console import Console

from bench import __main__ as runner
from bench.report import Result, best_of, ratio

LONG = ("matcher", "simulator", "systems", "spark", "spark_sql", "queries", "pipeline", "hostile", "planner")
JUDGED = ("topics", "conditions", "rules", "paths")
"""Which judge a matcher by its index, and batches of 64 by large ones."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.chaos if name in LONG else ()) for name in runner.MODULES],
)
def test_every_benchmark_runs_in_its_small_version(name: str) -> None:
    results = import_module(f"bench.{name}").run(True)
    assert results
    assert all(isinstance(result, Result) and result.value >= 0 for result in results)
    assert any(result.checked for result in results)
    if name in JUDGED:
        require_relative_targets(results, batches=name != "paths")


def require_relative_targets(results: list[Result], *, batches: bool) -> None:
    """Each target that is relative to something measured stands beside the ratio."""
    of_matcher = [result for result in results if result.engine.startswith("Matcher / ")]
    of_batches = [result for result in results if result.measure.startswith("64 / ")]
    assert of_matcher
    assert of_batches or not batches
    assert {result.target for result in of_matcher} == {"<= 1.3 times"}
    assert {result.target for result in of_batches} <= {"<= 1.5 times"}


@pytest.mark.parametrize("module", [*runner.NAMED, "pipeline"])
def test_a_part_that_does_not_exist_is_refused_with_those_that_do(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", module, "--only", "nosuch"])
    with pytest.raises(SystemExit) as refused:
        runner.main()
    assert refused.value.code == 2
    said = capsys.readouterr().err
    assert f"{module} has no nosuch; there are" in said
    assert all(name in said for name in import_module(f"bench.{module}").known(False))


@pytest.mark.parametrize("part", ["flights", "flights-100", "nats", "duckdb", "one-range"])
def test_a_peer_and_a_part_of_a_workload_can_be_asked_for(part: str) -> None:
    assert import_module("bench.peers").unknown(False, [part]) == []


@pytest.mark.parametrize(
    ("value", "target", "missed"),
    [
        (399_999, ">= 400,000 a second", True),
        (400_000, ">= 400,000 a second", False),
        (0.6, "<= 0.5", True),
        (3, "< 3 x", True),
        (11, "> 10", False),
        (798_187, "= 798,188 (Figure 6)", True),
        (1.31, "<= 1.3 times", True),
        (7, "about 1 (section IV.B.2)", False),
        (7, "", False),
    ],
)
def test_a_missed_target_is_marked(
    value: float, target: str, missed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result("work", "engine", "measure", value, "x", "", target)
    assert result.is_missed == missed
    runner.show(Console(width=110), "some", [result], 1.0)
    assert ("missed" in capsys.readouterr().out) == missed


@pytest.mark.parametrize(("value", "missed"), [(13, False), (13.1, True)])
def test_what_is_to_be_so_many_times_another_is_judged(value: float, missed: bool) -> None:
    index = Result("work", "index", "one event", 10, "µs/event", "", "<= 5")
    matcher = Result("work", "Matcher", "one event", value, "µs/event", "the index")
    compared = ratio(matcher, index, "<= 1.3 times")
    assert compared == Result(
        "work", "Matcher / index", "one event", value / 10, "times", "the index", "<= 1.3 times"
    )
    assert compared.is_missed == missed


def test_the_runner_writes_the_numbers_with_machine_and_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bench.json"
    monkeypatch.setattr("sys.argv", ["bench", "conditions", "--quick", "--out", str(out)])
    assert runner.main() == 0
    written = json.loads(out.read_text())
    assert written["machine"]["cores"]
    assert set(written["versions"]) == set(runner.LIBRARIES)
    assert {result["workload"] for result in written["results"]}
    assert "answers checked against" in capsys.readouterr().out


def test_an_unknown_benchmark_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "nothing"])
    with pytest.raises(SystemExit) as caught:
        runner.main()
    assert caught.value.code == 2


def test_the_best_of_several_runs_is_told_with_the_answer() -> None:
    answers = iter([3, 4])
    seconds, answer = best_of(2, lambda: next(answers))
    assert seconds >= 0
    assert answer == 4

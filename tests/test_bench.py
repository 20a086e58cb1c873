"""The benchmarks run, check their answers, and say what they measured; how fast is not tested."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from bench import __main__ as runner
from bench.report import Result, best_of

LONG = ("matcher", "simulator", "spark", "queries", "hostile")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.chaos if name in LONG else ()) for name in runner.MODULES],
)
def test_every_benchmark_runs_in_its_small_version(name: str) -> None:
    results = import_module(f"bench.{name}").run(True)
    assert results
    assert all(isinstance(result, Result) and result.value >= 0 for result in results)
    assert any(result.checked for result in results)


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

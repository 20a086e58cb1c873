"""The command `distributary lab`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distributary.cli.main import main
from distributary.cli.terminal import FAILED, WELL
from distributary_lab import registry
from distributary_lab.claims import claims
from lab.tiny import TINY

TREE = "topic-tree-size"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree's size on points that take no time, one of them impossible."""
    (tree,) = registry.find(TREE)
    points = [
        {"levels": 3, "subscriptions": 20, "values": 5},
        {"levels": 3, "subscriptions": 20, "values": 0},
    ]
    monkeypatch.setattr("distributary_lab.experiment.Experiment.points", lambda each, quick: points)
    assert tree.points(True) == points


def test_list_names_every_claim_and_its_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list", "--json"]) == WELL
    listed = {each["id"]: each for each in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(claims())
    assert listed["000-fig6"]["experiment"] == TREE
    assert {each["state"] for each in listed.values() if each["experiment"]} == {"experiment"}
    assert listed["000-fig5"]["runs"] == "the algorithm itself"
    assert listed["001-fig4.18"]["runs"] == "nodes in the simulator"
    (segment,) = listed["002-fig10c"]["open_parameters"]
    assert segment["name"] == "the length of a ring segment"
    assert segment["after"] is True
    assert main(["lab", "list"]) == WELL
    shown = capsys.readouterr().out
    assert not [id for id in listed if id not in shown]


@pytest.mark.usefixtures("tiny_registry")
def test_list_tells_outcomes_by_what_is_published_where_nothing_was_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny = ["lab", "run", "tiny", "--engine", "here"]
    assert main([*tiny, "--quick", "--out", "docs/results/data"]) == WELL
    outcomes = []
    for run in ([], ["--out", "docs/results/data"], ["--seed", "2"]):
        if run:
            assert main([*tiny, *run]) == WELL
        capsys.readouterr()
        assert main(["lab", "list", "--json"]) == WELL
        (told,) = (each for each in json.loads(capsys.readouterr().out) if each["experiment"])
        outcomes.append((told["outcome"], told["seed"]))
    assert outcomes == [(None, None), ("holds", 1), ("holds", 2)]


@pytest.mark.usefixtures("small")
def test_run_prints_verdicts_keeps_rows_and_tells_of_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["lab", "run", "000-fig6", "--quick", "--engine", "here", "--out", str(tmp_path)]
    assert main(arguments) == FAILED
    told = capsys.readouterr()
    assert "000-fig6" in told.out
    assert "not reproduced" in told.out
    assert "'values': 0" in told.err
    assert f"distributary lab run {TREE} --quick --seed 1 --point 1" in told.err
    assert (tmp_path / TREE / "rows.parquet").exists()

    page = tmp_path / "page.html"
    assert main(["lab", "report", "--results", str(tmp_path), "--out", str(page)]) == WELL
    assert "1 of 2 points failed" in page.read_text()
    assert main(["lab", "report", "--results", str(tmp_path), "--json"]) == WELL
    lines = {line["id"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["000-fig6"]["state"] == "not reproduced"
    assert lines["000-fig6"]["seed"] == 1


@pytest.mark.usefixtures("small")
def test_a_point_is_replayed_without_touching_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["lab", "run", TREE, "--quick", "--point", "0"]) == WELL
    row = json.loads(capsys.readouterr().out)
    assert row["edges"] == row["nodes"] + row["entries"] - 1
    assert main(["lab", "run", TREE, "--quick", "--point", "1"]) == FAILED
    assert "Traceback" in capsys.readouterr().err
    assert main(["lab", "run", "000", "--point", "0"]) == FAILED
    assert "one of one experiment" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_unknown_is_told_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", "fig5"]) == FAILED
    assert TREE in capsys.readouterr().err


def test_the_tiny_experiment_is_no_part_of_the_lab() -> None:
    assert TINY.name not in {each.name for each in registry.experiments()}


def test_only_what_an_experiment_leaves_open_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", TREE, "--quick", "--set", "latency_file=x.csv"]) == FAILED
    assert "--set latency_file: what can be set here is nothing" in capsys.readouterr().err

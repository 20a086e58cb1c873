"""The demonstration: it delivers what brute force delivers, tells of every kind, and clears only its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from distributary.cli import engine
from distributary.cli.demo.demo import MARK, clear
from distributary.cli.demo.script import BROKEN_EVENTS, BROKEN_SUBSCRIPTIONS, make_script
from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.model import BUILT_IN_FILTERS, Event
from distributary.store import open_store
from distributary.workloads import WORKLOADS, workload
from properties.oracle import MatcherOracle

SUBSCRIPTIONS, EVENTS, SEED = 100, 160, 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which an earlier demo has left something, and somebody else too."""
    place = tmp_path_factory.mktemp("demo")
    (place / "pipeline.toml").write_text(MARK)
    (place / "deliveries" / "batch=99").mkdir(parents=True)
    (place / "checkpoint").mkdir()
    (place / "notes.txt").write_text("mine")
    return place


@pytest.fixture(scope="module")
def told(place: Path) -> str:
    """What a small demo says."""
    command = [sys.executable, "-m", "distributary", "demo", "--out", str(place), "--seed", str(SEED)]
    sizes = ["--subscriptions", str(SUBSCRIPTIONS), "--events", str(EVENTS)]
    done = subprocess.run(
        [*command, *sizes],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={**os.environ, "COLUMNS": "150", "PYSPARK_PYTHON": sys.executable},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        ds.dataset(path, format="parquet", partitioning="hive").to_table().to_pylist()
    )
    return found


def brute_force(place: Path) -> dict[tuple[str, str], list[str]]:
    """Subscriptions by event and subscriber, from the archive and the version each batch used."""
    store = open_store(place / "subscriptions")
    batches: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows(place / "archive"):
        batches[row.pop("batch")].append(row)
    oracle = MatcherOracle()
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    version = 0
    for batch, events in sorted(batches.items()):
        record = json.loads((place / "metrics" / "batches" / f"{batch}.json").read_text())
        for change in store.changes(version, record["version"]):
            if change.subscription is None:
                oracle.remove(change.id)
            else:
                oracle.add(change.subscription)
        version = record["version"]
        for row in sorted(events, key=lambda one: (one["at"], one["id"])):
            known = {name: value for name, value in row.items() if value is not None and name != "at"}
            for subscription_id in oracle.match(Event.from_record(known)):
                found[row["id"], oracle.held[subscription_id].subscriber].append(subscription_id)
    assert version == store.version() > 3
    return found


def test_deliveries_are_those_of_brute_force_at_the_versions_that_the_batches_used(
    place: Path, told: str
) -> None:
    delivered = {
        (row["event_id"], row["subscriber"]): row["subscriptions"] for row in rows(place / "deliveries")
    }
    assert delivered == brute_force(place)
    assert len(delivered) == len(rows(place / "deliveries"))
    script = make_script(SUBSCRIPTIONS, EVENTS, SEED)
    assert {row["id"] for row in rows(place / "archive")} == set(script.events())


def test_every_malformed_event_and_subscription_is_set_aside_with_a_reason(place: Path, told: str) -> None:
    aside = rows(place / "quarantine")
    assert len(aside) == len(BROKEN_EVENTS) + 1
    assert all(row["reason"] for row in aside)
    refused = [json.loads(line) for line in (place / "refused.jsonl").read_text().splitlines()]
    assert [one["place"] for one in refused] == [f"subscription {one['id']}" for one in BROKEN_SUBSCRIPTIONS]


def test_it_tells_what_every_kind_matched_who_got_what_and_where_it_is(place: Path, told: str) -> None:
    matched = sum(len(row["subscriptions"]) for row in rows(place / "deliveries"))
    lines = told.splitlines()
    script = make_script(SUBSCRIPTIONS, EVENTS, SEED)
    for kind in BUILT_IN_FILTERS:
        having = {one.id for one in script.everybody().values() if kind in one.filters()}
        found = sum(len(having & set(row["subscriptions"])) for row in rows(place / "deliveries"))
        cells = [f"│ {kind} ", f" {len(having):,} ", f" {found:,} "]
        assert found
        assert any(all(cell in line for cell in cells) for line in lines), cells
    assert any(line.startswith("│       all") and f" {matched:,} " in line for line in lines)
    assert all(name in told for name in ("ann", "hana", "jo joins", "dan leaves", "FAILS", "version 4: "))
    for name in ("deliveries", "archive", "quarantine", "metrics", "subscriptions", "pipeline.toml"):
        assert str(place / name) in told
    assert all("WARN" not in line for line in lines)


def test_an_earlier_demo_is_cleared_away_and_nothing_else(place: Path, told: str) -> None:
    assert not (place / "deliveries" / "batch=99").exists()
    assert (place / "notes.txt").read_text() == "mine"


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "pipeline.toml").write_text("checkpoint = 'c'")
    with pytest.raises(DistributaryError, match="archive is in the way"):
        clear(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "pipeline.toml"]


@pytest.mark.parametrize("version", [None, 11])
def test_without_a_java_that_spark_can_use_it_says_what_to_do(
    version: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "java_version", lambda: version)
    assert main(["demo", "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "Java 17 or newer" in said
    assert "apt-get install" in said
    assert not (tmp_path / "out").exists()


def test_without_pyspark_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "MODULES", ("no_such_module_of_spark",))
    assert main(["demo", "--out", str(tmp_path / "out")]) == 1
    assert "pip install 'distributary[spark]'" in capsys.readouterr().err


def test_a_java_that_is_not_there_has_no_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert engine.java_version() is None


def test_the_script_is_the_same_for_a_seed_and_takes_any_size() -> None:
    assert make_script(60, 30, seed=2) == make_script(60, 30, seed=2) != make_script(60, 30, seed=3)
    small = make_script(3, 0, seed=2)
    assert len(small.subscriptions) == 3
    assert not small.events()
    assert {"mixed", "sensors"} < set(WORKLOADS)
    assert len(list(workload("sensors").subscriptions(7, seed=1))) == 7

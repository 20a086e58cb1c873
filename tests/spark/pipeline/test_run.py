"""`distributary run` as a process: it stops when told, goes on where it was, and says why it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from distributary.model import Subscription
from distributary.store import open_store

DEADLINE = 240
PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "{format}"
path = "in"
schema = "id STRING, topic STRING"
[subscriptions]
store = "subscriptions"
[sink]
path = "deliveries"
[metrics]
path = "metrics"
[trigger]
every = "100 milliseconds"
[spark.conf]
spark.driver.extraJavaOptions = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.toml").write_text(PIPELINE.format(format="json"))
    open_store(tmp_path / "subscriptions").commit([Subscription("s1", "ann", topic="A")])
    return tmp_path


@contextmanager
def running(place: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "distributary", "run", str(place / "pipeline.toml")]
    process = subprocess.Popen(
        [*command, "--master", "local[2]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not holds():
        if process.poll() is not None:
            pytest.fail(f"it ended early: {process.communicate()}")
        if time.monotonic() > deadline:
            pytest.fail("it took too long")
        time.sleep(0.05)


def feed(place: Path, name: str, ids: list[str]) -> None:
    hidden = place / "in" / f".{name}"
    hidden.write_text("".join(json.dumps({"id": one, "topic": "A"}) + "\n" for one in ids))
    hidden.rename(place / "in" / name)


def recorded(place: Path) -> list[dict[str, int]]:
    files = sorted((place / "metrics" / "batches").glob("[0-9]*.json"), key=lambda path: int(path.stem))
    return [json.loads(path.read_text()) for path in files]


def delivered(place: Path) -> list[str]:
    batches = sorted((place / "deliveries").glob("batch=*/_SUCCESS"))
    return sorted(
        one
        for batch in batches
        for path in batch.parent.glob("part-*.parquet")
        for one in pq.ParquetFile(path).read(columns=["event_id"])["event_id"].to_pylist()
    )


def events_recorded(place: Path) -> int:
    return sum(one["events"] for one in recorded(place))


def test_it_stops_when_told_and_goes_on_where_it_was(place: Path) -> None:
    feed(place, "one", ["e1", "e2"])
    with running(place) as process:
        until(process, lambda: events_recorded(place) == 2)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err) == (0, "")
    assert "2 events" in out
    assert "version 1" in out
    assert all(len(line) < 300 and "WARN" not in line for line in out.splitlines())

    feed(place, "two", ["e3"])
    open_store(place / "subscriptions").commit([Subscription("s2", "bob", topic="A")])
    with running(place) as process:
        until(process, lambda: events_recorded(place) == 3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err) == (0, "")
    assert ": 1 events" in out
    assert delivered(place) == ["e1", "e2", "e3", "e3"]
    assert [one["batch"] for one in recorded(place)] == list(range(len(recorded(place))))


def test_a_failure_is_told_in_a_line_and_in_full_in_the_log(place: Path) -> None:
    (place / "pipeline.toml").write_text(PIPELINE.format(format="parquet"))
    (place / "in" / "broken.parquet").write_text("this is no Parquet")
    with running(place) as process:
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    (line,) = err.splitlines()
    assert line.startswith("distributary: the pipeline failed: ")
    log = place / "pipeline.log"
    assert str(log) in line
    assert "broken.parquet" in log.read_text()
    assert "Traceback" not in out

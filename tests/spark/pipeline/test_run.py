"""`distributary run` as a process: killed or told to stop it goes on where it was, and says why it fails."""

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

from chaos.phases import Traces
from chaos.victim import Victim
from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.model import Subscription
from distributary.spark.pipeline import run
from distributary.spark.pipeline.owner import owning
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
def running(place: Path, *, start_new_session: bool = False) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "distributary", "run", str(place / "pipeline.toml")]
    process = subprocess.Popen(
        [*command, "--master", "local[2]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
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


@pytest.mark.spark
@pytest.mark.xdist_group("processes")
def test_killed_amid_a_batch_it_goes_on_where_it_was_and_stops_when_told(place: Path) -> None:
    feed(place, "one", ["e1", "e2"])
    victim = Victim(place, "local[2]", ("after deliveries", 0))
    try:
        victim.until((place / "deliveries" / "batch=0" / "_SUCCESS").exists, "the deliveries of batch 0")
    finally:
        assert victim.kill()
    assert delivered(place) == ["e1", "e2"]
    assert Traces(place, 0).committed() == -1

    # The batch that is done again keeps its version, and the next one has the new one.
    feed(place, "two", ["e3"])
    open_store(place / "subscriptions").commit([Subscription("s2", "bob", topic="A")])
    with running(place) as process:
        until(process, lambda: events_recorded(place) == 3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err) == (0, "")
    assert ": 3 events" in out
    assert [one["version"] for one in recorded(place) if one["events"]] == [1, 2]
    assert all(len(line) < 300 and "WARN" not in line for line in out.splitlines())
    assert delivered(place) == ["e1", "e2", "e3", "e3"]
    assert [one["batch"] for one in recorded(place)] == list(range(len(recorded(place))))


@pytest.mark.chaos
@pytest.mark.spark
@pytest.mark.xdist_group("processes")
def test_told_to_end_with_its_whole_process_group_it_ends_well_and_goes_on(place: Path) -> None:
    feed(place, "one", ["e1", "e2"])
    with running(place, start_new_session=True) as process:
        until(process, lambda: events_recorded(place) == 2)
        os.killpg(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err) == (0, "")
    assert "stopping: the batch under way may finish" in out
    assert ": 2 events" in out
    feed(place, "two", ["e3"])
    with running(place) as process:
        until(process, lambda: events_recorded(place) == 3)
        with pytest.raises(DistributaryError, match=f"in use by process {process.pid} on "):  # noqa: SIM117
            with owning(str(place / "checkpoint")):
                pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
    assert delivered(place) == ["e1", "e2", "e3"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_a_stop_and_a_second_one_insists(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with run._StopSignals().listening() as stop:
        stop.started()
        signal.raise_signal(number)
        assert (stop.asked.is_set(), stop.insisted.is_set()) == (True, False)
        signal.raise_signal(number)
        assert stop.insisted.is_set()
    assert signal.getsignal(number) == before


def test_a_failure_is_told_in_a_line_and_in_full_in_the_log(
    place: Path, session_of_commands: None, capfd: pytest.CaptureFixture[str]
) -> None:
    (place / "pipeline.toml").write_text(PIPELINE.format(format="parquet"))
    (place / "in" / "broken.parquet").write_text("this is no Parquet")
    assert main(["run", str(place / "pipeline.toml")]) == 1
    out, err = capfd.readouterr()
    (line,) = err.splitlines()
    assert line.startswith("distributary: the pipeline failed: ")
    log = place / "pipeline.log"
    assert str(log) in line
    assert "broken.parquet" in log.read_text()
    assert "Traceback" not in out

"""What a pipeline tells over HTTP, and that a checkpoint has one run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from distributary.errors import DistributaryError
from distributary.spark.pipeline import owner
from distributary.spark.pipeline.commits import BatchRecord
from distributary.spark.pipeline.config import Pipeline, parse_pipeline
from distributary.spark.pipeline.owner import CheckpointOwner, owning
from distributary.spark.pipeline.progress import LATEST, Progress
from distributary.spark.pipeline.status import FileLag, PipelineStatus, keep_error, serving

PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "id STRING"
[subscriptions]
store = "subscriptions"
[sink]
path = "deliveries"
[status]
port = 0
"""
HOLD = "import sys; from distributary.spark.pipeline.owner import owning\n"
HOLD += "with owning(sys.argv[1]): print('mine', flush=True); sys.stdin.read()"


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return parse_pipeline(PIPELINE, str(tmp_path / "quotes.toml"))


def taken(log: Path, name: str, *files: Path) -> None:
    """Write a file of a source's log as Spark does."""
    lines = [json.dumps({"path": f.as_uri(), "timestamp": 0, "batchId": 0}) for f in files]
    log.mkdir(parents=True, exist_ok=True)
    (log / name).write_text("\n".join(["v1", *lines]))


def test_files_that_no_batch_has_taken_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.spark.pipeline.status.COUNT_EVERY", 0.0)
    source, log = tmp_path / "in", tmp_path / "log"
    lag = FileLag(str(source), str(log))
    assert lag.count() == 0
    (source / "day=1").mkdir(parents=True)
    names = ["a file", "b", "c", "d", "e"]
    files = [source / "day=1" / name for name in names]
    for file in [*files, source / "_hidden", source / ".hidden"]:
        file.write_text("{}")
    assert lag.count() == 5
    taken(log, "0", files[0], files[1])
    assert lag.count() == 3
    taken(log, "1.compact", files[0], files[1], files[2])
    taken(log, "2", files[3])
    assert lag.count() == 1
    files[0].unlink()  # what was taken may be gone
    assert lag.count() == 1


def test_status_and_metrics_tell_what_the_records_say(tmp_path: Path, pipeline: Pipeline) -> None:
    start = datetime.now(UTC)
    progress = Progress(start, version=3)
    for batch, seconds in enumerate((1.0, 3.0)):
        end = start + timedelta(seconds=seconds)
        progress.record(
            BatchRecord(batch, 4, 100, 30, 20, 1, start, end, latest=start - timedelta(seconds=60))
        )
    progress.report({"sources": [{"metrics": {"maxOffsetsBehindLatest": "17"}}]})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "new").write_text("{}")
    keep_error(pipeline.checkpoint, "the disk was full")
    status = PipelineStatus(pipeline, lambda: progress.snapshot(start + timedelta(seconds=4)))
    status.state = "running"
    with serving(status, "127.0.0.1", 0) as address:
        told = json.load(urllib.request.urlopen(f"{address}/status"))
        metrics = urllib.request.urlopen(f"{address}/metrics").read().decode()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/other")
        refused.value.close()
    assert (told["pipeline"], told["state"], told["pid"]) == ("quotes", "running", os.getpid())
    assert (told["batch"], told["batches"], told["events"], told["deliveries"]) == (1, 2, 200, 40)
    assert told["lag"] == {"files": 1, "offsets": 17, "seconds": 64.0}
    assert told["batch_seconds"] == {"last": 3.0, "mean": 2.0, "most": 3.0}
    assert [(each["batch"], each["seconds"], each["events"]) for each in told["latest_batches"]] == [
        (0, 1.0, 100),
        (1, 3.0, 100),
    ]
    assert told["latest_batches"][1]["finished"] == end.isoformat(timespec="milliseconds")
    assert told["subscriptions_version"] == 4
    assert told["last_error"]["reason"] == "the disk was full"
    assert (
        '# TYPE distributary_events_total counter\ndistributary_events_total{pipeline="quotes"} 200'
        in metrics
    )
    assert 'distributary_lag_files{pipeline="quotes"} 1' in metrics
    assert 'distributary_running{pipeline="quotes"} 1' in metrics


def test_as_many_of_the_latest_batches_are_told_as_fit() -> None:
    start = datetime.now(UTC)
    progress = Progress(start)
    for batch in range(LATEST + 2):
        progress.record(BatchRecord(batch, None, 0, 0, 0, 0, start, start))
    assert [each.batch for each in progress.snapshot(start).latest] == list(range(2, LATEST + 2))


def test_before_the_first_batch_what_is_not_known_is_left_out(pipeline: Pipeline) -> None:
    status = PipelineStatus(pipeline, lambda: Progress(datetime.now(UTC)).snapshot(datetime.now(UTC)))
    assert status.to_record()["lag"] == {"files": 0, "offsets": None, "seconds": None}
    assert "lag_offsets" not in status.to_metrics()
    assert "None" not in status.to_metrics()


def test_a_port_that_is_taken_is_told(pipeline: Pipeline) -> None:
    status = PipelineStatus(pipeline, lambda: Progress(datetime.now(UTC)).snapshot(datetime.now(UTC)))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(DistributaryError, match=f"port: cannot listen at 127.0.0.1:{port}"):  # noqa: SIM117
            with serving(status, "127.0.0.1", port):
                pass


def test_a_second_run_on_a_checkpoint_is_refused_with_host_and_process_of_the_first(tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, checkpoint], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "mine\n"
        with pytest.raises(DistributaryError) as refused:  # noqa: SIM117
            with owning(checkpoint):
                pass
        assert f"in use by process {first.pid} on {socket.gethostname()}" in str(refused.value)
    finally:
        first.kill()  # even then nothing is left behind
        first.communicate()
    with owning(checkpoint):
        pass
    with owning(checkpoint):
        pass


def test_where_nothing_can_be_locked_an_owner_gives_signs_and_is_forgotten_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "fcntl", None)
    checkpoint = str(tmp_path / "checkpoint")
    with owning(checkpoint):  # noqa: SIM117
        with pytest.raises(DistributaryError, match=f"process {os.getpid()} on "):
            with owning(checkpoint):
                pass
    with owning(checkpoint):
        long_ago = (datetime.now(UTC) - owner.FORGOTTEN).isoformat()
        gone = CheckpointOwner("elsewhere", 1, long_ago, long_ago)
        (tmp_path / "checkpoint" / "owner.json").write_text(gone.to_json())
        with owning(checkpoint):
            pass

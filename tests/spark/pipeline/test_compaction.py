"""Batches that were put together are read as they were, by all readers, and removed and purged as well."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from distributary.cli.main import main
from distributary.model import Subscription
from distributary.plan.trees.rates import _rows
from distributary.spark import read_archive, read_deliveries, read_metrics
from distributary.spark.pipeline.commits import BatchRecord, write_record
from distributary.spark.pipeline.compacted import compacted_batches
from distributary.spark.pipeline.compaction import compact
from distributary.spark.pipeline.config import Pipeline, load_pipeline
from distributary.spark.pipeline.directories import own_directory, shared_directory
from distributary.spark.pipeline.outputs import (
    batches_begun,
    complete_batches,
    mark_complete,
    read_some,
    write_table,
)
from distributary.spark.pipeline.retention import purge, remove_old
from distributary.spark.replay.explain import explain_archived
from distributary.store import open_store

PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "id STRING, topic STRING, at TIMESTAMP"
[subscriptions]
store = "store"
[sink]
path = "deliveries"
columns = ["at"]
[archive]
path = "archive"
[metrics]
path = "metrics"
"""
NOW = datetime(2026, 6, 1, tzinfo=UTC)
BATCHES = 7
HOUR = timedelta(hours=1)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """A pipeline that has written seven batches, one an hour; from batch 2 on events have a column more."""
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    made = load_pipeline(tmp_path / "pipeline.toml")
    open_store(tmp_path / "store", create=True).commit(
        [Subscription("s ann", "ann", topic="A"), Subscription("s bob", "bob", topic="B")]
    )
    for batch in range(BATCHES):
        at = NOW - (BATCHES - batch) * HOUR
        times = pa.array([at, at], pa.timestamp("us", "UTC"))
        event = {"id": [f"e{batch}", f"f{batch}"], "topic": ["A", "B"], "at": times}
        more = {"extra": pa.array([batch, batch], pa.int64())} if batch > 1 else {}
        write_table(pa.table({**event, **more}), str(made.archive), batch)
        delivery = {"event_id": [f"e{batch}", f"f{batch}"], "subscriber": ["ann", "bob"], "at": times}
        asked = pa.array([["s ann"], ["s bob"]], pa.list_(pa.string()))
        write_table(pa.table({**delivery, "subscriptions": asked}), str(made.sink.path), batch)
        counts = {"subscription_id": ["s ann", "s bob"], "subscriber": ["ann", "bob"], "matches": [batch, 1]}
        write_table(pa.table(counts), f"{made.metrics}/subscriptions", batch)
        write_record(made.commits, BatchRecord(batch, 1, 2, 2, 2, 0, at, at, instant=at))
    return made


def contents(spark: SparkSession, pipeline: Pipeline) -> dict[str, list[str]]:
    """All that readers of ours see of the outputs."""
    frames = {
        "deliveries": read_deliveries(spark, str(pipeline.sink.path)),
        "archive": read_archive(spark, str(pipeline.archive)),
        "metrics": read_metrics(spark, str(pipeline.metrics), "subscriptions"),
        "some": read_some(spark, str(pipeline.archive), [1, 4, 6]),
    }
    shown = {
        name: sorted(json.dumps(row.asDict(), default=str, sort_keys=True) for row in frame.collect())
        for name, frame in frames.items()
    }
    planned = _rows(Path(f"{pipeline.metrics}/subscriptions"), range(BATCHES), ["subscriber", "matches"])
    shown["planned"] = sorted(map(str, planned))
    explained = explain_archived(pipeline, "e2", subscriber="ann")
    return {**shown, "explained": [str(one) for one in explained]}


def test_batches_that_are_put_together_are_read_as_before_also_after_a_kill(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    before = contents(spark, pipeline)
    complete = complete_batches(str(pipeline.archive))
    assert compact(spark, pipeline, 2.5 * HOUR, NOW, most=3) == {"deliveries": 5, "archive": 5, "metrics": 5}
    places = [str(pipeline.archive), str(pipeline.sink.path), f"{pipeline.metrics}/subscriptions"]
    for place in places:
        assert sorted(compacted_batches(place)) == [0, 1, 2, 3, 4]
        assert len({*compacted_batches(place).values()}) == 2
        assert not Path(place, "batch=0").exists()
        assert Path(place, "batch=5").exists()
    assert contents(spark, pipeline) == before
    assert complete_batches(str(pipeline.archive)) == complete
    assert batches_begun(str(pipeline.archive)) == set(complete)
    # A compaction that was killed before it had removed what it put together leaves both.
    write_table(pa.table({"id": ["twice"]}), str(pipeline.archive), 3)
    assert contents(spark, pipeline) == before
    assert compact(spark, pipeline, 2.5 * HOUR, NOW, most=3) == {"deliveries": 0, "archive": 0, "metrics": 0}
    assert not Path(str(pipeline.archive), "batch=3").exists()
    assert contents(spark, pipeline) == before
    remove_old(pipeline, {"archive": 4.5 * HOUR}, NOW)
    assert complete_batches(str(pipeline.archive)) == [3, 4, 5, 6], "those that were put together go together"
    purge(pipeline, "ann")
    rows = read_deliveries(spark, str(pipeline.sink.path)).collect()
    assert sorted((row.event_id, row.at.timestamp()) for row in rows) == [
        (f"f{batch}", (NOW - (BATCHES - batch) * HOUR).timestamp()) for batch in range(BATCHES)
    ]
    audit = Path(pipeline.checkpoint, "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["what"] for line in audit] == ["compaction", "compaction", "retention", "purge"]


def test_directories_of_subscribers_are_put_together_each_for_itself(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE.replace("[archive]", 'each = ["1", "bob"]\n[archive]'))
    pipeline = load_pipeline(tmp_path / "pipeline.toml")
    open_store(tmp_path / "store", create=True)
    place = str(pipeline.sink.path)

    def found() -> list[tuple[int, str, str]]:
        rows = read_deliveries(spark, place).select("batch", "event_id", "subscriber").collect()
        return sorted((row.batch, row.event_id, row.subscriber) for row in rows)

    for batch in range(4):
        at = NOW - (4 - batch) * HOUR
        for subscriber in ("1", "ann")[: 1 + batch % 2]:
            directory = own_directory(subscriber) if subscriber == "1" else shared_directory()
            times = pa.array([at], pa.timestamp("us", "UTC"))
            row = {
                "event_id": [f"e{batch}"],
                "subscriber": [subscriber],
                "subscriptions": [["s"]],
                "at": times,
            }
            write_table(pa.table(row), f"{place}/{directory}", batch)
            Path(place, directory, f"batch={batch}", "_SUCCESS").unlink()
        mark_complete(place, batch)
        write_record(pipeline.commits, BatchRecord(batch, 1, 1, 1, 1, 0, at, at, instant=at))
    before = found()
    assert compact(spark, pipeline, 1.5 * HOUR, NOW)["deliveries"] == 3
    assert found() == before
    assert sorted(compacted_batches(place)) == [0, 1, 2]
    together = Path(place, "_compacted", "0-2")
    assert len([*together.glob("each=1/*.parquet")]) == 1
    own = [path.relative_to(place).as_posix() for path in Path(place).glob("each=*/batch=*")]
    assert sorted(own) == ["each=1/batch=3", f"{shared_directory()}/batch=3"]
    assert remove_old(pipeline, {"deliveries": 2.5 * HOUR}, NOW) == {"deliveries": 0}
    assert found() == before, "what was put together goes together"
    assert purge(pipeline, "1")["deliveries"] == 4
    assert found() == [row for row in before if row[2] != "1"]
    assert not [*Path(place).rglob("each=1")]
    assert remove_old(pipeline, {"deliveries": 1.5 * HOUR}, NOW) == {"deliveries": 3}
    assert found() == [(3, "e3", "ann")]


def test_the_command_puts_batches_together(
    session_of_commands: None, pipeline: Pipeline, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["outputs", str(tmp_path / "pipeline.toml"), "compact", "--older-than", "1d"]) == 0
    assert "archive: put 7 batches together" in capfd.readouterr().out

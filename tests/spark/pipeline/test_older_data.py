"""Data older than the pipeline is matched beside it, and its archive is replayed by the time of events."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.model import Subscription
from distributary.spark import (
    EventTimes,
    catch_up,
    load_pipeline,
    read_archive,
    read_deliveries,
    replay,
    start,
)
from distributary.store import open_store

PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "id STRING, topic STRING, at TIMESTAMP, price DOUBLE"
[events]
order = "{order}"
[subscriptions]
store = "store"
[sink]
path = "deliveries"
[archive]
path = "archive"
[trigger]
available_now = true
"""
START = datetime(2026, 1, 1, tzinfo=UTC)
WISH = Subscription("s1", "ann", topic="A", change={"price": 1.5})


def write(directory: Path, name: str, hours: list[int]) -> None:
    """A file of events, one at each of these hours, whose price is the hour."""
    directory.mkdir(exist_ok=True)
    events = [
        {
            "id": f"e{hour}",
            "topic": "A",
            "at": (START + timedelta(hours=hour)).isoformat(),
            "price": float(hour),
        }
        for hour in hours
    ]
    (directory / name).write_text("".join(json.dumps(event) + "\n" for event in events))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.toml").write_text(PIPELINE.format(order="at"))
    open_store(tmp_path / "store", create=True).commit([WISH])
    return tmp_path


def test_an_archive_is_replayed_by_the_time_of_events_in_whichever_batch_they_came(
    spark: SparkSession, place: Path
) -> None:
    pipeline = load_pipeline(place / "pipeline.toml")
    for name, hours in (("0", [0, 1, 2, 3, 9]), ("1", [4, 5, 6, 7, 8])):  # 9 came before its time
        write(place / "in", name, hours)
        start(spark, pipeline).awaitTermination()
    whole = {row.event_id: row.batch for row in replay(spark, pipeline, [WISH]).collect()}
    assert whole == {"e0": 0, "e2": 0, "e9": 0, "e4": 1, "e6": 1, "e8": 1}
    times = EventTimes(START + timedelta(hours=2), START + timedelta(hours=9))
    assert {row.event_id for row in replay(spark, pipeline, [WISH], times=times).collect()} == {
        "e2",
        "e4",
        "e6",
        "e8",
    }
    later = catch_up(spark, pipeline, "ann", times=EventTimes(since=START + timedelta(hours=8))).deliveries
    assert later.columns == ["event_id", "subscriber", "subscriptions", "batch"]
    assert {row.event_id for row in later.collect()} == {"e8", "e9"}
    (place / "pipeline.toml").write_text(PIPELINE.format(order="price"))
    with pytest.raises(DistributaryError, match="'price' holds none"):
        replay(spark, load_pipeline(place / "pipeline.toml"), [WISH], times=times)


def test_a_backfill_matches_older_files_in_order_and_leaves_the_pipeline_alone(
    spark: SparkSession, place: Path, session_of_commands: None, capfd: pytest.CaptureFixture[str]
) -> None:
    write(place / "in", "new", [20])
    write(place / "old", "b", [0, 3])
    write(place / "old", "a", [1, 2])
    before = sorted(place.iterdir())
    given = ["run", str(place / "pipeline.toml"), "--backfill", str(place / "old")]
    into = place / "filled"
    assert main([*given, "--into", str(into)]) == 0
    assert sorted(place.iterdir()) == sorted([*before, into])
    rows = read_deliveries(spark, f"{into}/deliveries").collect()
    assert [row.event_id for row in sorted(rows, key=lambda row: row.event_id)] == ["e0", "e2"]
    assert read_archive(spark, f"{into}/archive").count() == 4
    assert main([*given, "--into", str(into)]) == 0, "again it finds nothing to do"
    assert read_deliveries(spark, f"{into}/deliveries").count() == 2
    assert main(given) == 2
    assert "--backfill and --into go together" in capfd.readouterr().err

"""What a pipeline and a replay give in a session of Spark's on another engine than the tests' own.

`test_elsewhere` has `engines.sessions` call these in a process of its own; an exception means a difference.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from distributary.spark.pipeline.config import load_pipeline
from distributary.spark.pipeline.deliveries import read_deliveries
from distributary.spark.pipeline.outputs import read_archive
from distributary.spark.pipeline.start import start
from distributary.spark.replay.replay import replay
from distributary.store import open_store
from spark.micro_batches import Feed
from spark.world import EVENT_DDL, is_malformed, make_world

PIPELINE = """
checkpoint = "pipeline/checkpoint"
[source]
format = "parquet"
path = "in"
schema = "{schema}"
[events]
order = "at"
[subscriptions]
store = "store"
[sink]
path = "pipeline/deliveries"
[archive]
path = "pipeline/archive"
[trigger]
available_now = true
"""


def check_pipeline(spark: SparkSession, place: Path) -> None:
    """Run a pipeline over two files, and compare what it delivers and archives with brute force."""
    world = make_world(31, events=80, subscriptions=30)
    open_store(place / "store", create=True).commit(world.subscriptions)
    feed = Feed(spark, place / "in")
    feed.write(world, 0, 40)
    feed.write(world, 40, 80)
    (place / "pipeline.toml").write_text(PIPELINE.format(schema=EVENT_DDL))
    start(spark, load_pipeline(place / "pipeline.toml")).awaitTermination()
    rows = read_deliveries(spark, str(place / "pipeline" / "deliveries")).collect()
    assert {(row.event_id, one) for row in rows for one in row.subscriptions} == world.matches()
    assert len(rows) == len({(row.event_id, row.subscriber) for row in rows})
    good = [record for record in world.events if not is_malformed(record)]
    assert read_archive(spark, str(place / "pipeline" / "archive")).count() == len(good)


def check_replay(spark: SparkSession, place: Path) -> None:
    """Replay what the pipeline has archived to the same subscriptions."""
    world = make_world(31, events=80, subscriptions=30)
    rows = replay(spark, load_pipeline(place / "pipeline.toml"), world.subscriptions).collect()
    assert {(row.event_id, one) for row in rows for one in row.subscriptions} == world.matches()
    assert len(rows) == len({(row.event_id, row.subscriber) for row in rows})

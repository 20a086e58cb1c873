"""Match a world on another engine than the tests' own session, and compare with brute force.

    python elsewhere.py local-cluster[2,1,1024] DIRECTORY
    python elsewhere.py connect DIRECTORY        # a Spark Connect server of its own

Run by `test_elsewhere`. Prints one line for each thing that was shown; an exception means a difference.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from distributary.spark import deliver, match
from distributary.spark.archive import read_archive
from distributary.spark.pipeline import start
from distributary.spark.pipeline_config import load_pipeline
from distributary.spark.sink_deliveries import read_deliveries
from distributary.store import open_store
from spark.test_streaming import Feed, run
from spark.world import EVENT_DDL, QUIET, World, is_malformed, make_world, pairs, subscription_frame


def session(engine: str) -> SparkSession:
    builder = SparkSession.builder
    for key, value in QUIET.items():
        builder = builder.config(key, value)
    if engine == "connect":
        return builder.remote("local[2]").getOrCreate()
    return builder.master(engine).config("spark.executor.memory", "1g").getOrCreate()


def batches(spark: SparkSession, world: World, place: Path) -> None:
    subscriptions = subscription_frame(spark, world.subscriptions)
    expected = sorted(world.matches())
    assert pairs(match(world.frame(spark), subscriptions, order="at")) == expected
    print("batch, index shipped by Spark")
    how = {"strategy": "rendezvous", "capacity": 15, "workspace": str(place / "parts")}
    assert pairs(match(world.frame(spark), subscriptions, order="at", **how)) == expected
    print("batch, rendezvous")


def streams(spark: SparkSession, world: World, place: Path) -> None:
    feed = Feed(spark, place / "in")
    half = len(world.events) // 4 * 2
    store = open_store(place / "store", create=True)
    store.commit(world.subscriptions)
    feed.write(world, 0, half)
    run(deliver(match(feed.stream(), store, order="at")), place)
    store.commit(remove=[world.subscriptions[0].id])
    feed.write(world, half, len(world.events))
    run(deliver(match(feed.stream(), store, order="at")), place)
    late = {record["id"] for record in world.events[half:]}
    expected = {
        (event, one)
        for event, one in world.matches()
        if not (one == world.subscriptions[0].id and event in late)
    }
    rows = spark.read.parquet(str(place / "out")).collect()
    assert len(rows) == len({(row.event_id, row.subscriber) for row in rows})
    assert {(row.event_id, one) for row in rows for one in row.subscriptions} == expected
    print("stream, following a store")


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


def pipelines(spark: SparkSession, world: World, place: Path) -> None:
    """All events at once, against the subscriptions that are left in the store."""
    (place / "pipeline.toml").write_text(PIPELINE.format(schema=EVENT_DDL))
    start(spark, load_pipeline(place / "pipeline.toml")).awaitTermination()
    rows = read_deliveries(spark, str(place / "pipeline" / "deliveries")).collect()
    expected = World(world.events, world.subscriptions[1:]).matches()
    assert {(row.event_id, one) for row in rows for one in row.subscriptions} == expected
    assert len(rows) == len({(row.event_id, row.subscriber) for row in rows})
    good = [record for record in world.events if not is_malformed(record)]
    assert read_archive(spark, str(place / "pipeline" / "archive")).count() == len(good)
    print("pipeline")


if __name__ == "__main__":
    spark = session(sys.argv[1])
    world = make_world(31, events=80, subscriptions=30)
    batches(spark, world, Path(sys.argv[2]))
    streams(spark, world, Path(sys.argv[2]))
    pipelines(spark, world, Path(sys.argv[2]))
    spark.stop()

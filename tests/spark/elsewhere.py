"""Match a world on another engine than the tests' own session, and compare with brute force.

    python elsewhere.py local-cluster[2,1,1024] DIRECTORY
    python elsewhere.py connect DIRECTORY           # a Spark Connect server of its own
    python elsewhere.py connect DIRECTORY queries   # queries instead, beside the interpreter

Run by `test_elsewhere`. Prints one line for each thing that was shown; an exception means a difference.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from distributary.spark import deliver, match
from distributary.spark.pipeline.config import load_pipeline
from distributary.spark.pipeline.deliveries import read_deliveries
from distributary.spark.pipeline.outputs import read_archive
from distributary.spark.pipeline.start import start
from distributary.spark.replay.replay import replay
from distributary.store import open_store
from flow.random_queries import KINDS
from spark.queries.test_pipeline import check_pipeline
from spark.queries.test_queries import check_batch, check_stream
from spark.test_streaming import Feed, run
from spark.world import EVENT_DDL, QUIET, World, is_malformed, make_world, pairs, subscription_frame


def session(engine: str) -> SparkSession:
    builder = SparkSession.builder
    for key, value in QUIET.items():
        builder = builder.config(key, value)
    if engine == "connect":
        return builder.remote("local[2]").getOrCreate()
    return builder.master(engine).config("spark.executor.memory", "1g").getOrCreate()


def batch(spark: SparkSession, world: World, place: Path) -> None:
    subscriptions = subscription_frame(spark, world.subscriptions)
    assert pairs(match(world.frame(spark), subscriptions, order="at")) == sorted(world.matches())
    print("batch, index shipped by Spark")


def rendezvous(spark: SparkSession, world: World, place: Path) -> None:
    subscriptions = subscription_frame(spark, world.subscriptions)
    how = {"strategy": "rendezvous", "capacity": 15, "workspace": str(place / "parts")}
    found = match(world.frame(spark), subscriptions, order="at", **how)
    assert pairs(found) == sorted(world.matches())
    print("batch, rendezvous")


def stream(spark: SparkSession, world: World, place: Path) -> None:
    run(deliver(match(Feed(spark, place / "in").stream(), open_store(place / "store"), order="at")), place)
    rows = spark.read.parquet(str(place / "out")).collect()
    assert len(rows) == len({(row.event_id, row.subscriber) for row in rows})
    assert {(row.event_id, one) for row in rows for one in row.subscriptions} == world.matches()
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


def pipeline(spark: SparkSession, world: World, place: Path) -> None:
    (place / "pipeline.toml").write_text(PIPELINE.format(schema=EVENT_DDL))
    start(spark, load_pipeline(place / "pipeline.toml")).awaitTermination()
    rows = read_deliveries(spark, str(place / "pipeline" / "deliveries")).collect()
    assert {(row.event_id, one) for row in rows for one in row.subscriptions} == world.matches()
    assert len(rows) == len({(row.event_id, row.subscriber) for row in rows})
    good = [record for record in world.events if not is_malformed(record)]
    assert read_archive(spark, str(place / "pipeline" / "archive")).count() == len(good)
    print("pipeline")


def replayed(spark: SparkSession, world: World, place: Path) -> None:
    rows = replay(spark, load_pipeline(place / "pipeline.toml"), world.subscriptions).collect()
    assert {(row.event_id, one) for row in rows for one in row.subscriptions} == world.matches()
    assert len(rows) == len({(row.event_id, row.subscriber) for row in rows})
    print("replay")


def queries(engine: str, place: Path) -> None:
    """Random queries of all kinds in a batch and as a stream, and a pipeline that has some."""
    spark = session(engine)
    check_batch(spark, 31, KINDS, 6)
    print("batch")
    check_stream(spark, place / "stream", 31, KINDS, 4, files=2)
    print("stream")
    (place / "pipeline").mkdir()
    check_pipeline(spark, place / "pipeline")
    print("pipeline")
    spark.stop()


def main(engine: str, place: Path) -> None:
    spark = session(engine)
    world = make_world(31, events=80, subscriptions=30)
    open_store(place / "store").commit(world.subscriptions)
    feed = Feed(spark, place / "in")
    feed.write(world, 0, 40)
    feed.write(world, 40, 80)
    # What differs between engines: how the index travels, who builds parts, what a task knows of its batch.
    steps = [batch, rendezvous, pipeline]
    if engine == "connect":
        steps += [stream, replayed]
    for step in steps:
        step(spark, world, place)
    spark.stop()


if __name__ == "__main__":
    run_all = queries if "queries" in sys.argv[3:] else main
    run_all(sys.argv[1], Path(sys.argv[2]))

"""match and deliver on streams: any chunking gives what the batch gives, and changes take effect at once."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from distributary.spark import deliver, match
from distributary.store import open_store
from properties.oracle import MatcherOracle
from spark.world import EVENT_DDL, World, make_world, matched, subscription_frame


class Feed:
    """A directory of Parquet files that a stream reads one by one, each a micro-batch."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.directory = directory
        self.count = 0
        directory.mkdir(exist_ok=True)

    def write(self, world: World, start: int, end: int) -> None:
        name = f"{self.count:05d}.parquet"
        hidden = self.directory / ("." + name)
        pq.write_table(world.table().slice(start, end - start), hidden)
        # A stream takes files in the order of their times, which clocks too coarse may make the same.
        os.utime(hidden, (1_700_000_000 + self.count, 1_700_000_000 + self.count))
        hidden.rename(self.directory / name)
        self.count += 1

    def stream(self) -> DataFrame:
        return (
            self.spark.readStream.schema(EVENT_DDL)
            .option("maxFilesPerTrigger", 1)
            .option("latestFirst", "false")
            .parquet(str(self.directory))
        )


def run(frame: DataFrame, place: Path) -> None:
    """Let a stream take all that is there."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def chunks(random: Random, total: int, inner: int = 4) -> list[tuple[int, int]]:
    """Cut points between records of different `at`, since order within the same one goes by id."""
    cuts = sorted({0, total, *(2 * random.randrange(total // 2) for _ in range(inner))})
    return list(pairwise(cuts))


@pytest.mark.parametrize("strategy", ["index", pytest.param("rendezvous", marks=pytest.mark.chaos)])
def test_any_chunking_of_a_stream_matches_as_brute_force_does(
    spark: SparkSession, strategy: str, tmp_path: Path
) -> None:
    world = make_world(21)
    feed = Feed(spark, tmp_path / "in")
    for start, end in chunks(Random(strategy), len(world.events)):
        feed.write(world, start, end)
    subscriptions = subscription_frame(spark, world.subscriptions)
    run(match(feed.stream(), subscriptions, order="at", strategy=strategy, capacity=8), tmp_path)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    found = [(row.event_id, row.subscription_id) for row in rows]
    assert len(found) == len(set(found))
    assert set(found) == world.matches()


@pytest.mark.parametrize("strategy", ["index", pytest.param("rendezvous", marks=pytest.mark.chaos)])
def test_changes_of_a_store_take_effect_with_the_next_micro_batch(
    spark: SparkSession, strategy: str, tmp_path: Path
) -> None:
    world = make_world(22, subscriptions=30)
    random = Random(strategy)
    store = open_store(tmp_path / "store", create=True)
    store.commit(world.subscriptions[:15])
    oracle = MatcherOracle()
    for one in world.subscriptions[:15]:
        oracle.add(one)
    feed = Feed(spark, tmp_path / "in")
    expected: set[tuple[str, str]] = set()
    matches = match(feed.stream(), store, order="at", strategy=strategy, capacity=8, carry=["topic"])
    for start, end in chunks(random, len(world.events), 2):
        feed.write(world, start, end)
        run(deliver(matches), tmp_path)  # stops and starts again from its checkpoint each time
        expected.update(matched(world.events[start:end], [], oracle))
        gone = random.choice(sorted(oracle.held))
        new = random.choice(world.subscriptions)
        store.commit([new], remove={gone, new.id} & set(oracle.held))
        for one in {gone, new.id} & set(oracle.held):
            oracle.remove(one)
        oracle.add(new)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    delivered = [(row.event_id, row.subscriber) for row in rows]
    assert len(delivered) == len(set(delivered))
    assert {(row.event_id, one) for row in rows for one in row.subscriptions} == expected


def test_a_retried_batch_uses_the_version_it_was_bound_to(spark: SparkSession, tmp_path: Path) -> None:
    world = make_world(23, events=40, subscriptions=20)
    store = open_store(tmp_path / "store", create=True)
    store.commit(world.subscriptions)
    feed = Feed(spark, tmp_path / "in")
    feed.write(world, 0, 40)
    matches = match(feed.stream(), store, order="at")
    run(matches, tmp_path)
    first = spark.read.parquet(str(tmp_path / "out")).collect()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    (tmp_path / "out").rename(tmp_path / "before")
    store.commit(remove=[one.id for one in world.subscriptions])
    run(matches, tmp_path)
    again = spark.read.parquet(str(tmp_path / "out")).collect()
    assert len(first) > 0
    assert sorted(first) == sorted(again)

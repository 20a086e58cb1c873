"""match and deliver on streams: changes of a store take effect at once, and a batch is retried as it was."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from distributary.spark import deliver, match
from distributary.store import open_store
from properties.oracle import MatcherOracle
from spark.micro_batches import Feed, chunks, run
from spark.world import make_world, matched


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

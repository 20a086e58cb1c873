"""One semantics for all types on Spark: batches, streams and rendezvous against the oracle of values.

Columns of every type that Spark has, 10,000 pairs of an event and a condition for each way of matching, and
1,000,000 with `make chaos FULL=1`. The session's time zone is never UTC: no answer may depend on it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from distributary import Subscription
from distributary.spark import match
from properties.oracle_values import Row, table_of
from properties.test_types import cases, check, subscriptions
from spark.world import pairs, subscription_frame

TYPES = {
    "i8": "tinyint",
    "i32": "int",
    "i64": "bigint",
    "f32": "float",
    "f64": "double",
    "cents": "decimal(10,2)",
    "fine": "decimal(38,18)",
    "huge": "decimal(38,0)",
    "flag": "boolean",
    "s": "string",
    "d32": "date",
    "ts_us": "timestamp_ntz",
    "ts_zone": "timestamp",
    "t_ns": "time(6)",
    "span": "interval day to second",
    "raw": "binary",
    "list": "array<bigint>",
    "object": "struct<x: bigint>",
    "map": "map<string, bigint>",
}
"""The columns of the oracle that Spark can have, with their types there."""
ZONES = ["America/New_York", "Asia/Kathmandu"]


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """A time zone of the session; the one that it had is restored."""
    setting = "spark.sql.session.timeZone"
    before = spark.conf.get(setting)
    spark.conf.set(setting, request.param)
    yield request.param
    spark.conf.set(setting, before)


def frame_of(spark: SparkSession, rows: list[Row], names: list[str]) -> DataFrame:
    schema = ", ".join(["id string", *(f"{name} {TYPES[name]}" for name in names)])
    return spark.createDataFrame(table_of(rows, names), schema).repartition(2)


def streamed(events: DataFrame, place: Path) -> DataFrame:
    """The same events as a stream of files, one in a micro-batch."""
    events.write.parquet(str(place / "in"))
    reader = events.sparkSession.readStream.schema(events.schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(place / "in"))


def drained(found: DataFrame, place: Path) -> set[tuple[str, str]]:
    """The pairs that a stream of matches gives until its source is exhausted."""
    writer = found.writeStream.format("parquet").option("path", str(place / "out"))
    query = writer.option("checkpointLocation", str(place / "state")).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(600)
    finally:
        query.stop()
    return set(pairs(found.sparkSession.read.schema(found.schema).parquet(str(place / "out"))))


def verify(spark: SparkSession, seed: int, size: int, how: str, place: Path) -> None:
    """Match `size` events with `size` conditions in one of three ways, and ask the oracle."""
    names = [name for name in TYPES if how != "stream" or name != "t_ns"]  # no file of Spark's holds TIME
    rows, conditions, expected = cases(seed, size, size, names)
    events, wishes = frame_of(spark, rows, names), subscription_frame(spark, subscriptions(conditions))
    if how == "stream":
        found = drained(match(streamed(events, place), wishes), place)
    else:
        found = set(pairs(match(events, wishes, strategy=how, capacity=size // 5)))
    assert expected
    check(seed, found, expected, rows, conditions)


@pytest.mark.parametrize(("how", "seed"), [("index", 60), ("rendezvous", 61), ("stream", 62)])
@pytest.mark.parametrize("zone", ZONES[:1], indirect=True)
def test_frames_match_as_the_oracle_says(
    spark: SparkSession, zone: str, how: str, seed: int, tmp_path: Path
) -> None:
    verify(spark, seed, 100, how, tmp_path)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(2000, 2004))
@pytest.mark.parametrize("how", ["index", "rendezvous", "stream"])
def test_a_million_pairs_on_frames(
    spark: SparkSession, zone: str, how: str, seed: int, tmp_path: Path
) -> None:
    verify(spark, seed, 210, how, tmp_path)


KEYS = [
    ("s1", "at = timestamp '2026-06-01 10:30:00Z'"),
    ("s2", "at = '2026-06-01T12:30:00+02:00'"),
    ("s3", "cents = 0.35"),
    ("s4", "cents * 2 = 0.70"),
    ("s5", "lower(name) = 'ann'"),
    ("s6", "date(at) = date '2026-06-01'"),
    ("s7", "hour(at) = 10"),
    ("s8", "cents in (0.57, 35)"),
    ("s9", "day = date '2026-06-02'"),
]


@pytest.mark.parametrize("zone", ZONES[1:], indirect=True)
def test_times_decimals_and_operations_are_keys_of_a_rendezvous(spark: SparkSession, zone: str) -> None:
    wishes = [Subscription(name, "ann", where=text) for name, text in KEYS]
    moment = dt.datetime(2026, 6, 1, 10, 30, tzinfo=dt.UTC)
    events = spark.createDataFrame(
        [("e1", moment, "0.35", "ANN"), ("e2", moment + dt.timedelta(hours=24), "0.57", "bob")],
        "id string, at timestamp, price string, name string",
    ).selectExpr("id", "at", "cast(price as decimal(10,2)) cents", "name", "cast(at as date) day")
    found = match(events, subscription_frame(spark, wishes), strategy="rendezvous", capacity=1)
    first = [("e1", name) for name in ("s1", "s2", "s3", "s4", "s5", "s6", "s7")]
    assert pairs(found) == [*first, ("e2", "s7"), ("e2", "s8"), ("e2", "s9")]

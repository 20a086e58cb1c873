"""Writing micro-batches: what lands where, and that a batch done twice or half done leaves the same."""

from __future__ import annotations

import json
import pickle
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType, _parse_datatype_string

from distributary.errors import DistributaryError
from distributary.spark.pipeline.commits import last_record, read_record, read_records
from distributary.spark.pipeline.config import Sink, parse_pipeline
from distributary.spark.pipeline.deliveries import DIRECTORY_NAME, kafka_rows, place_name, read_deliveries
from distributary.spark.pipeline.directories import own_directory
from distributary.spark.pipeline.metrics import read_metrics
from distributary.spark.pipeline.outputs import complete_batches, read_archive
from distributary.spark.pipeline.receipts import RECEIPT_DDL
from distributary.spark.pipeline.start import batch_writer

TAGGED = (
    "kind string, event_id string, subscription_id string, subscriber string, field string, reason string, "
    "record string, place string, event struct<id: string, topic: string, at: timestamp, price: double>, "
    "version bigint"
)
TOPICS = ["A", "A/B", None]


def event_row(number: int) -> dict[str, Any]:
    moment = f"2024-05-01T00:00:{number % 60:02d}Z"
    return {"id": f"e{number}", "topic": TOPICS[number % 3], "at": moment, "price": number / 4}


def tagged(
    spark: SparkSession,
    matches: list[tuple[int, str, str]],
    events: int,
    rejected: list[str],
    version: int = 3,
) -> DataFrame:
    """Tagged rows as routing makes them: numbers of events, ids of subscriptions, subscribers."""
    rows: list[dict[str, Any]] = [
        {"kind": "event", "event_id": f"e{number}", "event": event_row(number)} for number in range(events)
    ]
    rows += [
        {
            "kind": "match",
            "event_id": f"e{number}",
            "subscription_id": subscription_id,
            "subscriber": subscriber,
            "event": {**event_row(number), "id": None, "at": None},
        }
        for number, subscription_id, subscriber in matches
    ]
    rows += [
        {"kind": "rejected", "field": "id", "reason": "missing", "record": record} for record in rejected
    ]
    lines = [(json.dumps({**row, "version": version}),) for row in rows]
    frame = spark.createDataFrame(lines, "line string").repartition(3)
    return frame.select(F.from_json("line", TAGGED).alias("row")).select("row.*")


def random_matches(random: Random, events: int) -> list[tuple[int, str, str]]:
    subscriptions = [(f"s{number}", f"person {number % 4}") for number in range(12)]
    return [(number, *one) for number in range(events) for one in subscriptions if random.random() < 0.2]


def expected_deliveries(matches: list[tuple[int, str, str]]) -> list[tuple[Any, ...]]:
    found: dict[tuple[int, str], list[str]] = defaultdict(list)
    for number, subscription_id, subscriber in matches:
        found[number, subscriber].append(subscription_id)
    return sorted(
        (f"e{number}", subscriber, tuple(sorted(ids)), number / 4)
        for (number, subscriber), ids in found.items()
    )


def delivered(frame: DataFrame) -> list[tuple[Any, ...]]:
    rows = frame.select("event_id", "subscriber", "subscriptions", "price").collect()
    return sorted((row[0], row[1], tuple(row[2]), row[3]) for row in rows)


def writer_to(place: Path, sink: Sink | None = None) -> Callable[[DataFrame, int], None]:
    """What stages the tagged rows of a batch and commits them, as a pipeline does."""
    text = """
        checkpoint = "checkpoint"
        source = { format = "rate" }
        events = { order = "at" }
        subscriptions = { store = "subscriptions" }
        sink = { path = "out", columns = ["price"] }
        quarantine = { path = "bad" }
        archive = { path = "archive" }
        metrics = { path = "metrics" }
    """
    pipeline = parse_pipeline(text, str(place / "pipeline.toml"))
    plan(place)
    event = _parse_datatype_string(TAGGED)["event"].dataType
    assert isinstance(event, StructType)
    writer = batch_writer(pipeline if sink is None else replace(pipeline, sink=sink), event)

    def write(rows: DataFrame, batch: int) -> None:
        receipts = rows.mapInArrow(writer.staging.run_task, RECEIPT_DDL)
        pickle.loads(pickle.dumps(writer))(receipts, batch)

    return write


def plan(place: Path, batches: int = 8) -> None:
    """Note micro-batches in the checkpoint as Spark does before it starts them."""
    offsets = place / "checkpoint" / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    for batch in range(batches):
        noted = {"batchWatermarkMs": 0, "batchTimestampMs": 1_714_521_600_000 + batch}
        (offsets / str(batch)).write_text(f"v1\n{json.dumps(noted)}\n")


def files_below(place: Path) -> Counter[str]:
    """How many files of each kind every directory holds: their names are random, all else is not."""
    return Counter(
        f"{path.parent.relative_to(place)}/{path.suffix or path.name}"
        for path in place.rglob("*")
        if path.is_file() and not path.name.startswith(".") and "checkpoint" not in path.parts
    )


@pytest.mark.parametrize("seed", range(2))
def test_a_batch_leaves_deliveries_archive_quarantine_metrics_and_a_record(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    matches = random_matches(Random(seed), 30)
    writer_to(tmp_path)(tagged(spark, matches, 30, ["{}", "not json"]), 7)

    deliveries = read_deliveries(spark, str(tmp_path / "out"))
    assert delivered(deliveries) == expected_deliveries(matches)
    assert deliveries.columns == ["event_id", "subscriber", "subscriptions", "price", "batch"]
    archive = read_archive(spark, str(tmp_path / "archive"))
    assert archive.columns == ["id", "topic", "at", "price", "batch"]
    assert sorted((row.id, row.topic, row.price) for row in archive.collect()) == sorted(
        (f"e{number}", TOPICS[number % 3], number / 4) for number in range(30)
    )
    bad = spark.read.parquet(str(tmp_path / "bad")).collect()
    assert sorted((row.field, row.reason, row.record, row.batch) for row in bad) == [
        ("id", "missing", "not json", 7),
        ("id", "missing", "{}", 7),
    ]
    record = read_record(str(tmp_path / "metrics" / "batches"), 7)
    assert (record.batch, record.version, record.events, record.matches) == (7, 3, 30, len(matches))
    assert (record.deliveries, record.rejected) == (len(expected_deliveries(matches)), 2)
    assert record.latest is not None
    assert record.latest.second == 29
    assert record.started < record.finished
    assert record.instant == datetime(2024, 5, 1, 0, 0, 0, 7000, UTC)


def test_metrics_count_events_and_matches_by_topic_and_subscription(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [random_matches(Random(seed), 12) for seed in range(2)]
    for batch, matches in enumerate(batches):
        writer_to(tmp_path)(tagged(spark, matches, 12, []), batch)
    by_topic = Counter(
        (batch, TOPICS[one[0] % 3]) for batch, matches in enumerate(batches) for one in matches
    )
    topics = read_metrics(spark, str(tmp_path / "metrics")).collect()
    assert sorted(
        (row.batch, str(row.topic), row.events, row.matches, row.selectivity) for row in topics
    ) == sorted(
        (batch, str(topic), 4, by_topic[batch, topic], by_topic[batch, topic] / 4)
        for batch in range(2)
        for topic in TOPICS
    )
    by_subscription = Counter((batch, *one[1:]) for batch, matches in enumerate(batches) for one in matches)
    subscriptions = read_metrics(spark, str(tmp_path / "metrics"), "subscriptions").collect()
    assert sorted(
        (row.batch, row.subscription_id, row.subscriber, row.events, row.matches, row.selectivity)
        for row in subscriptions
    ) == sorted((*key, 12, count, count / 12) for key, count in by_subscription.items())
    assert all(row.seconds > 0 for row in [*topics, *subscriptions])


@pytest.mark.parametrize(
    ("format", "each"),
    [
        ("parquet", False),
        pytest.param("parquet", ("person 1",), marks=pytest.mark.chaos),
        ("json", True),
    ],
    ids=["together", "some", "each"],
)
def test_a_batch_done_twice_leaves_the_same(
    spark: SparkSession, tmp_path: Path, each: bool | tuple[str, ...], format: str
) -> None:
    matches = random_matches(Random(5), 20)
    sink = Sink(format, str(tmp_path / "out"), columns=("price",), each=each)
    write = writer_to(tmp_path, sink=sink)
    write(tagged(spark, matches, 20, ["{}"]), 0)
    write(tagged(spark, matches, 20, ["{}"]), 1)
    files = files_below(tmp_path)
    write(tagged(spark, matches, 20, ["{}"]), 1)
    assert files_below(tmp_path) == files
    found = read_deliveries(spark, str(tmp_path / "out"), format)
    for batch in (0, 1):
        assert delivered(found.where(f"batch = {batch}")) == expected_deliveries(matches)
        assert read_archive(spark, str(tmp_path / "archive")).where(f"batch = {batch}").count() == 20
    assert [one.batch for one in read_records(str(tmp_path / "metrics" / "batches"))] == [0, 1]


def leave_half_written(spark: SparkSession, directory: Path) -> None:
    """A directory as a job leaves it that was killed while it moved its files into place."""
    spark.createDataFrame([("junk", 1.0)], "event_id string, price double").write.parquet(str(directory))
    (directory / "_SUCCESS").unlink()
    (directory / "_temporary" / "0").mkdir(parents=True)


def test_what_a_killed_attempt_left_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    matches = random_matches(Random(6), 20)
    for name in ("out", "archive", "bad", "metrics/topics", "metrics/subscriptions"):
        leave_half_written(spark, tmp_path / name / "batch=4")
    (tmp_path / "metrics" / "batches").mkdir()
    (tmp_path / "metrics" / "batches" / ".4.json.partial").write_text('{"bat')
    assert last_record(str(tmp_path / "metrics" / "batches")) is None
    writer_to(tmp_path)(tagged(spark, matches, 20, ["{}"]), 4)
    writer_to(tmp_path / "alone")(tagged(spark, matches, 20, ["{}"]), 4)
    clean = files_below(tmp_path / "alone")
    assert {name: count for name, count in files_below(tmp_path).items() if "alone" not in name} == clean
    assert delivered(read_deliveries(spark, str(tmp_path / "out"))) == expected_deliveries(matches)


def test_directories_of_each_that_a_killed_attempt_left_are_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    matches = random_matches(Random(7), 20)
    sink = Sink("parquet", str(tmp_path / "out"), columns=("price",), each=True)
    leave_half_written(spark, tmp_path / "out" / "each=person 1" / "batch=4")
    writer_to(tmp_path, sink=sink)(tagged(spark, matches, 20, []), 4)
    assert delivered(read_deliveries(spark, str(tmp_path / "out"))) == expected_deliveries(matches)


def test_only_complete_batches_are_read(spark: SparkSession, tmp_path: Path) -> None:
    matches = random_matches(Random(8), 10)
    writer_to(tmp_path)(tagged(spark, matches, 10, []), 0)
    writer_to(tmp_path)(tagged(spark, matches, 10, []), 2)
    for batch in (1, 3):
        leave_half_written(spark, tmp_path / "out" / f"batch={batch}")
    assert complete_batches(str(tmp_path / "out")) == [0, 2]
    found = read_deliveries(spark, str(tmp_path / "out"))
    assert delivered(found) == sorted(2 * expected_deliveries(matches))


def test_nothing_complete_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DistributaryError, match="holds no complete batch"):
        read_archive(spark, str(tmp_path))


def test_an_empty_batch_writes_its_record_alone(spark: SparkSession, tmp_path: Path) -> None:
    writer_to(tmp_path)(tagged(spark, [], 0, []), 5)
    assert files_below(tmp_path) == {"metrics/batches/.json": 1}
    record = read_record(str(tmp_path / "metrics" / "batches"), 5)
    assert (record.version, record.events, record.matches, record.deliveries) == (None, 0, 0, 0)


def test_events_that_match_nothing_are_archived_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    writer_to(tmp_path)(tagged(spark, [], 6, []), 0)
    assert read_archive(spark, str(tmp_path / "archive")).count() == 6
    assert not (tmp_path / "out").exists()
    assert {row.matches for row in read_metrics(spark, str(tmp_path / "metrics")).collect()} == {0}


AWKWARD = [
    "ann",
    "Ann",
    "a/b",
    "a%2Fb",
    "../up",
    "x=1",
    "müller@example.org",
    "007",
    "7",
    " blank ",
    "__HIVE_DEFAULT_PARTITION__",
    "n" * 300,
    "n" * 301,
    "line\nbreak",
    "ann\n",
    "xn-0123456789abcdef0123456789abcdef\n",
    ".",
    "xn-0123456789abcdef0123456789abcdef",
]


def test_each_subscriber_has_a_directory_whatever_their_name(spark: SparkSession, tmp_path: Path) -> None:
    matches = [(number, f"s{number}", name) for number, name in enumerate(AWKWARD)]
    sink = Sink("parquet", str(tmp_path / "out"), columns=("price",), each=True)
    writer_to(tmp_path, sink=sink)(tagged(spark, matches, len(AWKWARD), []), 0)
    directories = [path for path in (tmp_path / "out").iterdir() if path.name.startswith("each=")]
    assert len(directories) == len(AWKWARD)
    assert (tmp_path / "out" / "each=ann" / "batch=0").is_dir()
    for directory in directories:
        assert spark.read.parquet(str(directory / "batch=0")).select("subscriber").distinct().count() == 1
    assert delivered(read_deliveries(spark, str(tmp_path / "out"))) == expected_deliveries(matches)


def test_directories_are_called_as_spark_would_call_them(spark: SparkSession) -> None:
    names = [*AWKWARD, *map(chr, range(1, 256)), "\U0001f600" * 60, "\U0001f600" * 61]
    frame = spark.createDataFrame([(name,) for name in names], "subscriber string")
    placed = frame.select("subscriber", place_name("subscriber", DIRECTORY_NAME)).collect()
    escaped = spark._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.escapePathName
    assert {row[0]: own_directory(row[0]) for row in placed} == {
        row[0]: f"each={escaped(row[1])}" for row in placed
    }


def test_some_have_a_directory_and_the_others_share_one(spark: SparkSession, tmp_path: Path) -> None:
    matches = [(0, "s1", "ann"), (0, "s2", "bob"), (1, "s3", "cleo"), (1, "s1", "ann")]
    sink = Sink("parquet", str(tmp_path / "out"), columns=("price",), each=("ann", "dora"))
    writer_to(tmp_path, sink=sink)(tagged(spark, matches, 2, []), 0)
    names = {path.name: path for path in (tmp_path / "out").iterdir() if path.is_dir()}
    assert set(names) == {"each=ann", "each=__HIVE_DEFAULT_PARTITION__", "_complete"}
    shared = spark.read.parquet(str(names["each=__HIVE_DEFAULT_PARTITION__"]))
    assert {row.subscriber for row in shared.collect()} == {"bob", "cleo"}


def test_csv_holds_the_subscriptions_as_json(spark: SparkSession, tmp_path: Path) -> None:
    matches = [(0, "s2", "ann"), (0, "s1", "ann")]
    sink = Sink("csv", str(tmp_path / "out"), {"header": "true"})
    writer_to(tmp_path, sink=sink)(tagged(spark, matches, 1, []), 0)
    (row,) = spark.read.option("header", True).csv(str(tmp_path / "out/batch=0")).collect()
    assert (row.event_id, row.subscriber) == ("e0", "ann")
    assert json.loads(row.subscriptions) == ["s1", "s2"]


def test_any_other_sink_gets_rows_appended_with_their_batch(spark: SparkSession, tmp_path: Path) -> None:
    matches = random_matches(Random(9), 10)
    # A format by another of its names is none of those written by directory.
    sink = Sink("org.apache.spark.sql.parquet", str(tmp_path / "out"), columns=("price",))
    for batch in (0, 1):
        writer_to(tmp_path, sink=sink)(tagged(spark, matches, 10, []), batch)
    found = spark.read.parquet(str(tmp_path / "out"))
    for batch in (0, 1):
        assert delivered(found.where(f"batch = {batch}")) == expected_deliveries(matches)


def test_kafka_messages_have_the_subscriber_as_key_and_the_delivery_as_json(spark: SparkSession) -> None:
    deliveries = spark.createDataFrame(
        [("e1", "ann", ["s1", "s2"], 1.5), ("e1", "bob", ["s3"], None)],
        "event_id string, subscriber string, subscriptions array<string>, price double",
    )
    rows = sorted(kafka_rows(deliveries, "all", 4).collect())
    assert [(row.topic, row.key) for row in rows] == [("all", "ann"), ("all", "bob")]
    assert json.loads(rows[0].value) == {
        "event_id": "e1",
        "subscriber": "ann",
        "subscriptions": ["s1", "s2"],
        "price": 1.5,
        "batch": 4,
    }


def test_kafka_topics_of_each_are_legal_and_differ(spark: SparkSession) -> None:
    deliveries = spark.createDataFrame(
        [("e1", name) for name in AWKWARD], "event_id string, subscriber string"
    )
    rows = kafka_rows(deliveries, "to-{subscriber}.v1", 0).collect()
    topics = {row.key: row.topic for row in rows}
    assert topics["ann"] == "to-ann.v1"
    assert len(set(topics.values())) == len(AWKWARD)
    legal = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert all(set(topic) <= legal and len(topic) <= 249 for topic in topics.values())

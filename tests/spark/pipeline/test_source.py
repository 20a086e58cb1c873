"""Hostile input to a pipeline: each line is set aside by itself, with place and reason, and stops nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.flow.language.file import read_query_file
from distributary.model import Subscription
from distributary.spark import match, rejected, run_queries
from distributary.spark.pipeline.config import PipelineSource
from distributary.spark.pipeline.outputs import read_batches
from distributary.spark.pipeline.source import parsed, placed, source_place
from distributary.spark.places import SOURCE_PLACE, UNREADABLE
from distributary.store import open_store
from spark.pipeline.test_pipeline import delivered, pipeline_in, run

SCHEMA = "id STRING, topic STRING, price DOUBLE, wind STRUCT<speed: FLOAT>"
NOT_UTF8 = "not UTF-8: 0xff at byte 15; write the text in UTF-8"
NO_FORMAT = "cannot be read in the format of the source"
BEYOND = "is beyond what the column's type holds; declare it as DECIMAL, or leave it out"
LINES: list[tuple[bytes, str | None]] = [
    (b'\xef\xbb\xbf{"id": "e1", "topic": "A"}', None),
    (b'{"id": "caf\xc3\xa9\xff", "topic": "A"}', NOT_UTF8.replace("15", "13")),
    (b'{"id": "e3", "topic": "A", "price": 2.5}', None),
    (b'{"topic": "A\xff"}', NOT_UTF8.replace("15", "12")),
    (b'{"id": "e5", "topic": "A", "price": NaN}', NO_FORMAT),
    (b'{"id": "e6", "topic": "A", "price": 1e400}', BEYOND),
    (b'{"id": "e7", "topic": "A", "wind": {"speed": 1e39}}', BEYOND),
    (b'{"id": "e8", "topic": "A", "x": ' + b"[" * 120 + b"]" * 120 + b"}", NO_FORMAT),
    (b'{"id": "e9", "topic": "A", "price": ' + b"1" * 1200 + b"}", NO_FORMAT),
    (b'{"id": "e10", "topic": "A"}', None),
]
"""Lines of a file, and why they are set aside."""
GOOD = ["e1", "e10", "e3"]


def quarantined(spark: SparkSession, place: Path) -> list[Any]:
    return read_batches(spark, str(place / "quarantine")).orderBy("place", "reason").collect()


@pytest.mark.parametrize("how", ["json", "text"])
def test_a_hostile_line_is_set_aside_by_itself(spark: SparkSession, tmp_path: Path, how: str) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "events"
    file.write_bytes(b"".join(line + b"\n" for line, _ in LINES))
    open_store(tmp_path / "subscriptions").commit([Subscription("s1", "ann", topic="A")])
    parse = '\nparse = "json"' if how == "text" else ""
    pipeline = pipeline_in(
        tmp_path,
        f'format = "{how}"\npath = "in"\nschema = "{SCHEMA}"{parse}',
        '[quarantine]\npath = "quarantine"\n[archive]\npath = "archive"',
    )
    run(spark, pipeline)
    assert [event for event, *_ in delivered(spark, tmp_path)] == GOOD
    found = quarantined(spark, tmp_path)
    assert sorted(row.reason for row in found) == sorted(reason for _, reason in LINES if reason)
    assert {row.field for row in found if row.reason == BEYOND} == {"price", "wind.speed"}
    raw = {row.place: row.record for row in found if row.reason != BEYOND}
    assert raw == {
        f"file:{file}:{number}": line.decode(errors="backslashreplace")[:997]
        + ("..." if len(line) > 1000 else "")
        for number, (line, reason) in enumerate(LINES, 1)
        if reason not in (None, BEYOND)
    }


def bad_rows(place: Path) -> str:
    """A Parquet file in which a row is good, one has a bad topic, and one a bad attribute."""
    table = pa.table(
        {
            "id": ["e1", "e2", "e3"],
            "topic": pa.array([b"A", b"A/\xff", b"A"]).view(pa.string()),
            "name": pa.array([b"ann", b"bob", b"caf\xe9"]).view(pa.string()),
        }
    )
    place.mkdir()
    parquet.write_table(table, place / "events.parquet")
    return str(place)


def test_a_row_of_a_table_that_is_not_utf8_is_set_aside_by_itself(
    spark: SparkSession, tmp_path: Path
) -> None:
    bad_rows(tmp_path / "in")
    open_store(tmp_path / "subscriptions").commit([Subscription("s1", "ann", topic="A")])
    schema = "id STRING, topic STRING, name STRING"
    pipeline = pipeline_in(
        tmp_path, f'format = "parquet"\npath = "in"\nschema = "{schema}"', '[quarantine]\npath = "quarantine"'
    )
    run(spark, pipeline)
    assert [event for event, *_ in delivered(spark, tmp_path)] == ["e1"]
    found = {row.event_id: (row.field, row.reason[:26], row.record) for row in quarantined(spark, tmp_path)}
    assert found == {
        "e2": ("topic", "not UTF-8: 0xff at byte 2;", '{"id": "e2", "topic": "A/\\\\xff", "name": "bob"}'),
        "e3": ("name", "not UTF-8: 0xe9 at byte 3;", '{"id": "e3", "topic": "A", "name": "caf\\\\xe9"}'),
    }


def test_match_and_rejected_see_such_rows_too(spark: SparkSession, tmp_path: Path) -> None:
    events: DataFrame = spark.read.parquet(bad_rows(tmp_path / "in"))
    wishes = spark.createDataFrame([("s1", "ann", "A")], "id string, subscriber string, topic string")
    assert [row.event_id for row in match(events, wishes).collect()] == ["e1"]
    assert sorted(row.event_id for row in rejected(events).collect()) == ["e2", "e3"]


def test_a_message_that_is_not_utf8_is_told_by_topic_partition_and_offset(spark: SparkSession) -> None:
    messages = spark.createDataFrame(
        [("quotes", 3, 17, b'{"id": "caf\xe9"}'), ("quotes", 3, 18, b'{"id": "e2"}'), ("quotes", 0, 9, None)],
        "topic string, partition int, offset bigint, value binary",
    )
    source = PipelineSource("kafka", schema="id STRING", parse="json")
    schema = spark.createDataFrame([], "id string").schema
    rows = placed(parsed(messages, schema, source_place(source)), F.col(SOURCE_PLACE), "id").collect()
    assert [(row.id, row[SOURCE_PLACE], row[UNREADABLE] is not None) for row in rows] == [
        (None, "quotes[3]@17", True),
        ("e2", None, False),
        (None, "quotes[0]@9", True),
    ]


def test_json_with_the_schema_id_of_a_registry_is_read(spark: SparkSession) -> None:
    values = [b'\0\0\0\xff\x07{"id": "e1"}', b'\0\0\0\0\x07{"id": broken', b"\0\0\0\0\x07[1]", b""]
    messages = spark.createDataFrame([(each,) for each in values], "value binary")
    rows = parsed(messages, spark.createDataFrame([], "id string").schema).collect()
    assert [(row.id, row[UNREADABLE] is not None) for row in rows] == [
        ("e1", False),
        (None, True),
        (None, True),
        (None, False),
    ]


QUERY = """
[sources.named]
topic = "A"
time = "at"
schema = { name = "text", at = "integer" }

[[queries.all.operators]]
name = "every"
filter = { from = "named", where = "at > 0" }
"""


def test_rows_that_are_not_utf8_belong_to_no_source_of_queries(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "queries.toml").write_text(QUERY)
    catalogue = read_query_file(tmp_path / "queries.toml")
    events = spark.read.parquet(bad_rows(tmp_path / "in")).withColumn("at", F.lit(1).cast("long"))
    assert [row.id for row in run_queries(catalogue, events)["all.every"].collect()] == ["e1"]

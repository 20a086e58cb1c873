"""Kafka's messages as JSON for a pipeline: Avro, CloudEvents, tombstones, and why some are none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.errors import DistributaryError
from distributary.kafka_values.decoder import ValueFormat
from distributary.kafka_values.schemas import RegistryError
from distributary.spark.pipeline.config import parse_pipeline
from distributary.spark.pipeline.messages import NO_CLOUD_EVENT, NO_FIT, TOMBSTONE, MessageTasks
from distributary.spark.pipeline.source import placed, read_messages
from distributary.spark.places import REASON, SOURCE_PLACE, UNREADABLE

SCHEMA = '{"type": "record", "name": "Q", "fields": [{"name": "price", "type": "double"}%s]}'
HEAD = b"\0\0\0\0\x07"
PRICE = b"\0\0\0\0\0\0\x20\x40"  # 8.0
CLOUD = {"ce_specversion": "1.0", "ce_id": "c1", "ce_source": "/bourse", "ce_type": "quote"}
MESSAGE = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def message(
    value: bytes | None, headers: dict[str, Any] | None = None, key: bytes | None = None
) -> dict[str, Any]:
    """A message at quotes[2]@7."""
    pairs = [
        {"key": name, "value": text.encode() if isinstance(text, str) else text}
        for name, text in (headers or {}).items()
    ]
    time = datetime(1970, 1, 1, 0, 0, 1, 500_999, UTC)
    return {
        "topic": "quotes",
        "partition": 2,
        "offset": 7,
        "timestamp": time,
        "key": key,
        "value": value,
        "headers": pairs if headers is not None else None,
    }


def rows(tasks: MessageTasks, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist(list(messages), MESSAGE)
    return [row for made in tasks.run(iter([batch])) for row in made.to_pylist()]


def event(tasks: MessageTasks, *given: Any) -> dict[str, Any]:
    """The JSON of a message that can be read."""
    [row] = rows(tasks, message(*given))
    assert (row["unreadable"], row["reason"], row["place"]) == (None, None, "quotes[2]@7")
    made: dict[str, Any] = json.loads(row["value"])
    return made


def reason(tasks: MessageTasks, *given: Any) -> str:
    """Why a message cannot be read."""
    [row] = rows(tasks, message(*given))
    assert (row["value"], row["place"]) == (None, "quotes[2]@7")
    assert row["unreadable"] == (given[0] or b"").decode(errors="backslashreplace")
    return str(row["reason"])


@pytest.fixture
def avro(tmp_path: Path) -> MessageTasks:
    (tmp_path / "7.avsc").write_text(SCHEMA % "")
    (tmp_path / "8.avsc").write_text(SCHEMA % ', {"name": "id", "type": ["null", "string"]}')
    return MessageTasks(ValueFormat("avro", schemas=str(tmp_path)), "id", "topic")


CLOUD_EVENTS = MessageTasks(None, "id", "topic")


def test_a_message_is_known_by_its_place_unless_it_says_otherwise(avro: MessageTasks) -> None:
    place = {"topic": "quotes", "partition": 2, "offset": 7, "time": 1500}
    assert event(avro, HEAD + PRICE) == {"id": "quotes-2-7", "topic": "quotes", "price": 8.0, "kafka": place}
    named = b"\0\0\0\0\x08" + PRICE
    assert event(avro, named + b"\x02\x04e1")["id"] == "e1"
    assert event(avro, named + b"\0")["id"] == "quotes-2-7"
    told = event(avro, HEAD + PRICE, {"trace": "17", "odd": b"\xff", "ce_x": "1"}, b"OTE")["kafka"]
    assert told == {**place, "key": "OTE", "header": {"trace": "17"}}


def test_cloud_events_in_headers_have_their_own_identity_whatever_the_value_is(avro: MessageTasks) -> None:
    for tasks, value in ((avro, HEAD + PRICE), (CLOUD_EVENTS, b'{"price": 8.0}')):
        made = event(tasks, value, {**CLOUD, "ce_subject": "OTE", "ce_severity": "3"})
        assert (made["id"], made["source"], made["type"], made["subject"]) == (
            "c1",
            "/bourse",
            "quote",
            "OTE",
        )
        assert (made["severity"], made["price"], made["topic"]) == ("3", 8.0, "quotes")
        assert event(tasks, value, {**CLOUD, "ce_topic": "a/b"})["topic"] == "a/b"
    assert event(CLOUD_EVENTS, None, CLOUD)["id"] == "c1"
    xml = event(CLOUD_EVENTS, b"<a/>", {**CLOUD, "content-type": "application/xml"})
    assert xml["document"] == "<a/>"


def test_the_data_of_cloud_events_may_have_the_schema_id_of_a_registry() -> None:
    tasks = MessageTasks(None, "id", "topic")
    told = event(tasks, HEAD + b'{"price": 8.0}', {**CLOUD, "content-type": "application/json"})
    assert (told["id"], told["price"]) == ("c1", 8.0)


def test_structured_cloud_events_are_read_beside_avro_too(avro: MessageTasks) -> None:
    whole = {
        "specversion": "1.0",
        "id": "c2",
        "source": "/s",
        "type": "t",
        "data": {"price": 1, "wind": {"x": 2}},
    }
    for tasks in (avro, CLOUD_EVENTS):
        kind = {"content-type": "application/cloudevents+json; charset=utf-8"}
        made = event(tasks, json.dumps(whole).encode(), kind)
        assert (made["id"], made["source"], made["price"], made["wind"]) == ("c2", "/s", 1, {"x": 2})
        assert "structured" in reason(tasks, b"\0", {"content-type": "application/cloudevents+avro"})
        assert reason(tasks, b"[]", kind) == "a record is a JSON object, not an array"


def test_id_and_topic_have_the_names_that_the_pipeline_gives_them() -> None:
    tasks = MessageTasks(None, "key", "channel")
    made = event(tasks, b'{"price": 1}', {**CLOUD, "ce_topic": "a/b"})
    assert (made["key"], made["channel"]) == ("c1", "a/b")
    assert "id" not in made


def test_what_is_malformed_keeps_its_bytes_and_says_why(avro: MessageTasks) -> None:
    assert reason(avro, None) == TOMBSTONE
    assert reason(avro, b"\0\0\0\0\x63\xff").startswith("was written with the schema 99")
    assert reason(avro, HEAD + PRICE + b"\xff").endswith("1 bytes are left over")
    assert (
        reason(avro, HEAD + b"\0\0\0\0\0\0\xf0\x7f") == "price: is infinite, which no condition can compare"
    )
    assert reason(CLOUD_EVENTS, b'{"price": 1}') == NO_CLOUD_EVENT
    assert reason(CLOUD_EVENTS, b"{}", {**CLOUD, "ce_specversion": "0.3"}).startswith(
        "specversion: must be '1.0'"
    )
    assert reason(CLOUD_EVENTS, b'{"price":', CLOUD).startswith("not JSON")


def test_tombstones_are_events_where_that_is_asked_for(avro: MessageTasks) -> None:
    tasks = MessageTasks(avro.format, "id", "topic", tombstones=True)
    made = event(tasks, None, None, b"OTE")
    assert (made["id"], made["kafka"]["key"], made["kafka"]["tombstone"]) == ("quotes-2-7", "OTE", True)
    assert "price" not in made


def test_a_registry_that_does_not_answer_stops_the_task_and_rejects_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("distributary.kafka_values.schemas.FIRST_PAUSE", 0.0)
    tasks = MessageTasks(ValueFormat("avro", "http://127.0.0.1:9"), "id", "topic")
    with pytest.raises(RegistryError, match="cannot be asked"):
        rows(tasks, message(HEAD + PRICE))


def test_spark_reads_them_by_the_schema_of_the_source(spark: SparkSession, avro: MessageTasks) -> None:
    given = [
        message(HEAD + PRICE, {"trace": "17"}, b"OTE"),
        message(b"\xff" * 6),
        message(b"{}", {**CLOUD, "content-type": "application/json"}),
        message(b'{"specversion": "1.0", "id": "c3", "source": "/", "type": "t", "price": "dear"}',
                {"content-type": "application/cloudevents+json"}),
        message(None),
    ]  # fmt: skip
    frame = spark.createDataFrame(pa.Table.from_pylist(given, MESSAGE))
    place = "STRUCT<key: STRING, time: BIGINT, header: MAP<STRING, STRING>>"
    ddl = f"id STRING, topic STRING, price DOUBLE, kafka {place}"
    schema = spark.createDataFrame([], ddl).schema
    read = placed(read_messages(frame, avro, schema), F.col(SOURCE_PLACE), "id").collect()
    assert (read[0].id, read[0].price, read[0].kafka.asDict()) == (
        "quotes-2-7",
        8.0,
        {"key": "OTE", "time": 1500, "header": {"trace": "17"}},
    )
    assert read[0][UNREADABLE] is None
    assert read[0][SOURCE_PLACE] is None
    assert [row[SOURCE_PLACE] for row in read[1:]] == ["quotes[2]@7"] * 4
    assert read[1][UNREADABLE] == "\\xff" * 6
    assert [row[REASON][:25] for row in read[1:]] == [
        "begins with the byte 0xff",
        "has 2 bytes; the magic by",
        NO_FIT[:25],
        TOMBSTONE[:25],
    ]


FILE = """
checkpoint = "c"
[source]
format = "{format}"
schema = "id STRING"
{rest}
[subscriptions]
store = "s"
[sink]
path = "d"
"""


@pytest.mark.parametrize(
    ("format", "rest", "fault"),
    [
        ("kafka", 'parse = "avro"', "registry: is missing; avro needs one"),
        ("kafka", 'parse = "avro"\nregistry = "localhost:8081"', "registry: must be an address"),
        ("kafka", 'parse = "avro"\nregistry = "http://r"\nschemas = "x"', "schemas: is given together"),
        ("kafka", 'parse = "cloudevents"\nregistry = "http://r"', "registry: is for values in avro"),
        ("kafka", 'parse = "json"\ntombstones = true', "tombstones: can be events where"),
        (
            "text",
            'path = "in"\nparse = "cloudevents"',
            'parse: is "cloudevents", which is for the format "kafka"',
        ),
    ],
)
def test_settings_that_cannot_be_are_told(format: str, rest: str, fault: str) -> None:
    with pytest.raises(DistributaryError, match=r"(?s)\[source\] " + fault):
        parse_pipeline(FILE.format(format=format, rest=rest))
    rest = 'parse = "protobuf"\nschemas = "x"\ntombstones = true'
    source = parse_pipeline(FILE.format(format="kafka", rest=rest), "/etc/p.toml").source
    assert source.value_format == ValueFormat("protobuf", None, "/etc/x")

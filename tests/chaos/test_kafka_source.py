"""A pipeline from Kafka to Kafka with Spark's own connector: headers, malformed messages, lag in offsets."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from chaos.victim import Victim
from distributary.model import Subscription
from distributary.spark.pipeline.config import load_pipeline
from distributary.spark.pipeline.outputs import read_batches
from distributary.store import open_store
from kafka_server import KafkaMissingError, KafkaServer, jars_of
from registry_server import registry_server

PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "kafka"
parse = "json"
schema = "id STRING, topic STRING, price DOUBLE, at TIMESTAMP"
options = {{ "kafka.bootstrap.servers" = "{address}", subscribe = "{source}", startingOffsets = "earliest" }}
[events]
order = "at"
[subscriptions]
store = "subscriptions"
[sink]
format = "kafka"
topic = "{sink}"
exactly_once = true
options = {{ "kafka.bootstrap.servers" = "{address}" }}
[quarantine]
path = "quarantine"
[trigger]
available_now = true
[spark.conf]
"spark.jars" = "{jars}"
"""


@pytest.fixture
def jars() -> str:
    """Spark's connector, as a setting of Spark says it."""
    try:
        return ",".join(map(str, jars_of("spark")))
    except KafkaMissingError as error:
        pytest.skip(str(error))


@pytest.mark.chaos
def test_messages_of_kafka_are_matched_and_malformed_ones_are_in_the_quarantine_with_their_offset(
    kafka: KafkaServer, jars: str, spark: SparkSession, tmp_path: Path
) -> None:
    source, sink = kafka.topic(), kafka.topic()
    open_store(tmp_path / "subscriptions", create=True).commit([Subscription("s1", "ann", where="price > 8")])
    producer = Producer({"bootstrap.servers": kafka.address})
    for number, price in enumerate((7, 9, 10)):
        event = {"id": f"e{number}", "topic": "quotes", "price": price, "at": f"2026-01-01T00:00:0{number}Z"}
        producer.produce(source, json.dumps(event), headers=[("trace", b"1")])
    producer.produce(source, b'{"id": "e3", ')
    producer.produce(source, b"\xff\xfe")
    producer.produce(source, None, b"gone")
    assert producer.flush(60) == 0
    given = {"address": kafka.address, "source": source, "sink": sink, "jars": jars}
    (tmp_path / "pipeline.toml").write_text(PIPELINE.format(**given))
    victim = Victim(tmp_path, "local[2]")
    assert victim.finish() == 0, victim.told()
    came = [json.loads(each.value() or b"") for each in kafka.committed(sink, 2)]
    assert sorted(each["event_id"] for each in came) == ["e1", "e2"]
    quarantine = load_pipeline(tmp_path / "pipeline.toml").quarantine
    rows = read_batches(spark, quarantine).select("place").collect()
    assert sorted(row["place"] for row in rows) == [f"{source}[0]@{offset}" for offset in (3, 4, 5)]
    assert "days" not in (tmp_path / "output.txt").read_text()


QUOTE = """{"type": "record", "name": "Quote", "fields": [
    {"name": "price", "type": "double"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}"""
KAFKA = "kafka STRUCT<key: STRING, header: MAP<STRING, STRING>>"


@pytest.mark.chaos
def test_avro_of_a_registry_and_cloud_events_in_headers_are_matched_and_the_rest_set_aside_with_reasons(
    kafka: KafkaServer, jars: str, spark: SparkSession, tmp_path: Path
) -> None:
    source, sink = kafka.topic(), kafka.topic()
    open_store(tmp_path / "subscriptions", create=True).commit(
        [
            Subscription("s1", "ann", where="price > 8 and kafka.key = 'OTE'"),
            Subscription("s2", "bob", where="source = '/bourse' and at > timestamp '2026-01-01 00:00:00'"),
        ]
    )
    with registry_server() as registry:
        serialise = AvroSerializer(SchemaRegistryClient({"url": registry.address}), QUOTE)
        context = SerializationContext(source, MessageField.VALUE)
        at = datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
        values = [serialise({"price": price, "at": at}, context) for price in (7.0, 9.0, 10.0)]
        cloud = {"ce_specversion": "1.0", "ce_id": "c1", "ce_source": "/bourse", "ce_type": "quote"}
        kafka.send(source, *values, key=b"OTE")
        kafka.send(source, values[0], headers=list(cloud.items()))
        kafka.send(source, b"\0\0\0\0\x63", values[0][:-1], None)
        given = {"address": kafka.address, "source": source, "sink": sink, "jars": jars}
        text = PIPELINE.format(**given).replace(
            'parse = "json"', f'parse = "avro"\nregistry = "{registry.address}"'
        )
        text = text.replace("at TIMESTAMP", f"at TIMESTAMP, source STRING, {KAFKA}")
        (tmp_path / "pipeline.toml").write_text(text)
        victim = Victim(tmp_path, "local[2]")
        assert victim.finish() == 0, victim.told()
    came = [json.loads(each.value() or b"") for each in kafka.committed(sink, 3)]
    found = sorted((each["event_id"], each["subscriber"]) for each in came)
    assert found == [("c1", "bob"), (f"{source}-0-1", "ann"), (f"{source}-0-2", "ann")]
    rows = read_batches(spark, load_pipeline(tmp_path / "pipeline.toml").quarantine).collect()
    reasons = {row["place"]: row["reason"] for row in rows}
    assert reasons.keys() == {f"{source}[0]@{offset}" for offset in (4, 5, 6)}
    assert reasons[f"{source}[0]@4"].startswith("was written with the schema 99")
    assert reasons[f"{source}[0]@5"].startswith("is not what its Avro schema says")
    assert reasons[f"{source}[0]@6"] == "is a tombstone: it has no value"

"""A pipeline from Kafka to Kafka with Spark's own connector: headers, malformed messages, lag in offsets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from chaos.victim import Victim
from distributary.model import Subscription
from distributary.spark.pipeline.config import load_pipeline
from distributary.spark.pipeline.outputs import read_batches
from distributary.store import open_store
from kafka_server import KafkaMissingError, KafkaServer, jars_of

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


@pytest.mark.chaos
def test_messages_of_kafka_are_matched_and_malformed_ones_are_in_the_quarantine_with_their_offset(
    kafka: KafkaServer, spark: SparkSession, tmp_path: Path
) -> None:
    try:
        jars = jars_of("spark")
    except KafkaMissingError as error:
        pytest.skip(str(error))
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
    given = {"address": kafka.address, "source": source, "sink": sink, "jars": ",".join(map(str, jars))}
    (tmp_path / "pipeline.toml").write_text(PIPELINE.format(**given))
    victim = Victim(tmp_path, "local[2]")
    assert victim.finish() == 0, victim.told()
    came = [json.loads(each.value() or b"") for each in kafka.committed(sink, 2)]
    assert sorted(each["event_id"] for each in came) == ["e1", "e2"]
    quarantine = load_pipeline(tmp_path / "pipeline.toml").quarantine
    rows = read_batches(spark, quarantine).select("place").collect()
    assert sorted(row["place"] for row in rows) == [f"{source}[0]@{offset}" for offset in (3, 4, 5)]
    assert "days" not in (tmp_path / "output.txt").read_text()

"""The format `mqtt` on Spark: each message is in one micro-batch, whatever ends between two of its steps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from distributary import Subscription
from distributary.errors import DistributaryError, SettingError
from distributary.spark import match, rejected
from distributary.spark.connectors import mqtt_events, register
from distributary.spark.connectors.mqtt.client import paho_client
from distributary.spark.connectors.mqtt.source import reading_options
from edge.mqtt.serving import serving
from spark.connectors.brokers import PATIENCE, broker, publish


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with broker("ours", tmp_path_factory.mktemp("broker")) as port:
        yield port


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("[", "/").rstrip("]")


class Stream:
    """A query from MQTT to files, which can be started again and again."""

    def __init__(self, spark: SparkSession, place: Path, port: int, topic: str, **options: str) -> None:
        self.spark, self.place = spark, place
        self.options = {"port": str(port), "topic": f"{topic}/#", "log": str(place / "log"), "quiet": "1"}
        self.options |= options
        register(spark)

    def frame(self) -> DataFrame:
        return self.spark.readStream.format("mqtt").options(**self.options).load()

    def started(self, **trigger: Any) -> StreamingQuery:
        writer = self.frame().writeStream.format("parquet").option("path", str(self.place / "out"))
        return writer.option("checkpointLocation", str(self.place / "checkpoint")).trigger(**trigger).start()

    def run(self) -> StreamingQuery:
        """Read what is available now."""
        query = self.started(availableNow=True)
        assert query.awaitTermination(PATIENCE)
        return query

    def payloads(self) -> list[bytes]:
        rows = self.spark.read.parquet(str(self.place / "out")).orderBy("offset").collect()
        assert [row["offset"] for row in rows] == list(range(len(rows)))
        return [bytes(row["payload"]) for row in rows]


@pytest.mark.chaos
@pytest.mark.parametrize("kind", ["ours", "mosquitto"])
def test_each_run_gets_what_has_come_since_the_last_in_batches_as_large_as_allowed(
    spark: SparkSession, kind: str, topic: str, tmp_path: Path
) -> None:
    with broker(kind, tmp_path) as port:
        stream = Stream(spark, tmp_path, port, topic, maxRowsPerTrigger="10")
        sent = [f"{number // 2}".encode() for number in range(60)]
        stream.run()
        publish(port, f"{topic}/a", sent[:25])
        query = stream.run()
        assert [each.numInputRows for each in query.recentProgress if each.numInputRows] == [10, 10, 5]
        publish(port, f"{topic}/b", sent[25:])
        stream.run()
        stream.run()
    assert stream.payloads() == sent


@pytest.mark.parametrize("version", [pytest.param("3.1.1", marks=pytest.mark.chaos), "5"])
def test_rows_have_all_that_came_with_a_message(
    spark: SparkSession, port: int, topic: str, tmp_path: Path, version: str
) -> None:
    stream = Stream(spark, tmp_path, port, topic, version=version)
    stream.run()
    properties: Any = paho.Properties(paho.PacketTypes.PUBLISH)
    properties.ContentType = "text/plain"
    properties.UserProperty = [("unit", "C"), ("unit", "K")]
    publish(port, f"{topic}/x", [b"warm"], properties=properties)
    stream.run()
    (row,) = spark.read.parquet(str(tmp_path / "out")).collect()
    assert (row["topic"], bytes(row["payload"]), row["qos"], row["retained"]) == (
        f"{topic}/x",
        b"warm",
        1,
        False,
    )
    if version == "5":
        assert row["properties"]["content_type"] == "text/plain"
        assert [tuple(each) for each in row["properties"]["user"]] == [("unit", "C"), ("unit", "K")]
    else:
        assert row["properties"] is None


def test_a_batch_that_failed_is_done_again_with_the_same_rows(
    spark: SparkSession, port: int, topic: str, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, port, topic)
    seen: list[tuple[int, list[bytes]]] = []

    def fail_once(batch: DataFrame, number: int) -> None:
        rows = [bytes(row["payload"]) for row in batch.orderBy("offset").collect()]
        if rows:
            seen.append((number, rows))
        if len(seen) == 1:
            raise ValueError("the first attempt")

    def start() -> StreamingQuery:
        writer = stream.frame().writeStream.foreachBatch(fail_once)
        place = str(tmp_path / "checkpoint")
        return writer.option("checkpointLocation", place).trigger(availableNow=True).start()

    assert start().awaitTermination(PATIENCE)
    publish(port, f"{topic}/a", [b"1", b"2"])
    with pytest.raises(PySparkException, match="the first attempt"):
        start().awaitTermination(PATIENCE)
    publish(port, f"{topic}/a", [b"3"])
    assert start().awaitTermination(PATIENCE)
    assert seen == [(1, [b"1", b"2"]), (1, [b"1", b"2"]), (2, [b"3"])]


@pytest.mark.chaos
def test_a_query_goes_on_when_the_broker_has_been_away(
    spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with serving(data=data) as server:
        port = server.port
        stream = Stream(spark, tmp_path, port, topic)
        query = stream.started(processingTime="0 seconds")
        progress = query.lastProgress
        while progress is None:  # once it is subscribed
            assert query.isActive, query.exception()
            progress = query.lastProgress
        publish(port, f"{topic}/a", [b"1", b"2"])
    with serving(data=data, port=port):
        publish(port, f"{topic}/a", [b"3"])
        done = threading.Event()
        while not done.wait(0.1):
            assert query.isActive, query.exception()
            if sum(each.numInputRows for each in query.recentProgress) >= 3:
                done.set()
        query.stop()
    assert stream.payloads() == [b"1", b"2", b"3"]


def received(port: int, topic: str, count: int, publishing: Any) -> list[tuple[str, bytes, bool]]:
    """What a client of the broker is given while something is done."""
    came: list[tuple[str, bytes, bool]] = []
    enough, subscribed = threading.Event(), threading.Event()

    def take(_: Any, __: Any, message: paho.MQTTMessage) -> None:
        came.append((message.topic, bytes(message.payload), bool(message.retain)))
        if len(came) >= count:
            enough.set()

    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.on_message = take
    client.on_subscribe = lambda *_: subscribed.set()
    client.connect("127.0.0.1", port)
    client.subscribe(f"{topic}/#", 1)
    client.loop_start()
    assert subscribed.wait(PATIENCE)
    publishing()
    assert enough.wait(PATIENCE)
    client.disconnect()
    client.loop_stop()
    return came


def test_rows_of_a_batch_are_published(spark: SparkSession, port: int, topic: str) -> None:
    register(spark)
    rows = spark.range(50).selectExpr(f"concat('{topic}/', id % 5) AS topic", "string(id) AS payload")
    came = received(
        port,
        topic,
        50,
        lambda: rows.coalesce(2).write.format("mqtt").mode("append").option("port", str(port)).save(),
    )
    assert sorted(came) == sorted((f"{topic}/{n % 5}", str(n).encode(), False) for n in range(50))


@pytest.mark.chaos
def test_messages_go_through_a_stream_to_other_topics(
    spark: SparkSession, port: int, topic: str, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, port, f"{topic}/in")
    stream.run()
    publish(port, f"{topic}/in/a", [b"1", b"2"])

    def run() -> None:
        frame = stream.frame().selectExpr("replace(topic, '/in/', '/out/') AS topic", "payload")
        writer = frame.writeStream.format("mqtt").option("port", str(port))
        place = str(tmp_path / "checkpoint")
        assert (
            writer.option("checkpointLocation", place)
            .trigger(availableNow=True)
            .start()
            .awaitTermination(PATIENCE)
        )

    came = received(port, f"{topic}/out", 2, run)
    assert came == [(f"{topic}/out/a", b"1", False), (f"{topic}/out/a", b"2", False)]


def test_messages_are_events_that_are_matched_and_others_are_rejected_with_their_place(
    spark: SparkSession, port: int, topic: str, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, port, topic)
    stream.run()
    publish(
        port, f"{topic}/a", [b'{"price": 9}', b'{"price": 7}', b"no JSON", b"\xff", b"", b'{"price": "x"}']
    )
    stream.run()
    events = mqtt_events(spark.read.parquet(str(tmp_path / "out")), "price DOUBLE")
    matches = match(events, [Subscription("s1", "ann", topic=f"mqtt:{topic}/a", where="price > 8")])
    assert [(row["event_id"], row["subscriber"]) for row in matches.collect()] == [("0", "ann")]
    found = [row["record"] for row in rejected(events).collect()]
    assert len(found) == 4
    assert {"no JSON", '{"price": "x"}'} <= set(found)
    places = events.where("id IS NULL").select("_place").collect()
    assert {row["_place"] for row in places} == {f"{topic}/a@{offset}" for offset in (2, 3, 4, 5)}
    with pytest.raises(SettingError, match='"Topic" cannot be an attribute'):
        mqtt_events(spark.read.parquet(str(tmp_path / "out")), "Topic STRING")


def test_what_is_wrong_is_told_before_a_query_starts(
    spark: SparkSession, port: int, topic: str, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, port, topic)
    for wrong, told in [
        ({"topics": "a"}, '"topics" is no option of the format "mqtt"; did you mean "topic"?'),
        ({"port": "x"}, 'the option "port" of the format "mqtt" is "x"; it must be a whole number above 0'),
        ({"log": "s3://bucket/log"}, "it must be a directory of this machine"),
        ({"key": "a.key"}, 'the option "key" is for TLS'),
    ]:
        with pytest.raises(PySparkException) as raised:
            spark.readStream.format("mqtt").options(**(stream.options | wrong)).load()
        assert told in str(raised.value)
    rows = spark.range(1).selectExpr("'a' AS topic", "id AS payload")
    with pytest.raises(PySparkException, match='needs a column "payload" of strings or bytes'):
        rows.write.format("mqtt").mode("append").option("port", str(port)).save()


@pytest.mark.chaos
def test_what_is_wrong_is_told_when_a_query_starts(
    spark: SparkSession, port: int, topic: str, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, port, topic)
    stream.options["port"] = "1"
    with pytest.raises(PySparkException, match=r"no MQTT broker answers at localhost:1"):
        stream.run()
    stream.options["port"] = str(port)
    publish(port, f"{topic}/a", [b"1"], retain=True)
    stream.run()
    stream.options["log"] = str(tmp_path / "another")
    with pytest.raises(PySparkException, match="the checkpoint belongs to another log"):
        stream.run()
    rows = spark.range(1).selectExpr("'a/#' AS topic", "'1' AS payload")
    with pytest.raises(PySparkException, match="cannot publish to the topic 'a/#'"):
        rows.write.format("mqtt").mode("append").option("port", str(port)).save()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "paho.mqtt.client", None)
    with pytest.raises(DistributaryError, match=r"pip install 'distributary\[mqtt\]'"):
        paho_client()
    assert reading_options({"topic": "a", "log": "b"})["port"] is None

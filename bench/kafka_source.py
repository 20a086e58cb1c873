"""Kafka's messages into Spark: by the connector of Spark, a JAR, and by Python with confluent-kafka.

A Kafka broker is started from jars, as in the tests; without a Java or a network there is nothing to measure.
Processor time is that of Spark and its Python workers, without Kafka. Both read all messages of two
partitions, which are counted before.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bench.report import Result

TOP = Path(__file__).parents[1]
sys.path.insert(0, str(TOP / "tests"))

from kafka_server import KafkaServer, jars_of  # noqa: E402

TOPIC, PARTITIONS, ROUNDS = "messages", 2, 3
COLUMNS = ("partition", "offset", "key", "value", "timestamp")


ENGINES = {"jar": "the connector of Spark (JAR)", "python": "confluent-kafka in Python"}


def known(quick: bool) -> list[str]:
    """What can be asked for alone."""
    return list(ENGINES)


def run(quick: bool, only: Sequence[str] = ()) -> list[Result]:
    count = 20_000 if quick else 400_000
    server = KafkaServer(Path(tempfile.mkdtemp()))
    server.start()
    try:
        _fill(server, count)
        return _measured(server, count, only or known(quick))
    finally:
        server.stop()


def _fill(server: KafkaServer, count: int) -> None:
    server.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
    producer = Producer({"bootstrap.servers": server.address, "queue.buffering.max.messages": 1_000_000})
    for number in range(count):
        producer.produce(TOPIC, b"%0100d" % number, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def _measured(server: KafkaServer, count: int, only: Sequence[str]) -> list[Result]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(TOP)  # so that workers find this module
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.jars", ",".join(map(str, jars_of("spark")))).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(KafkaInPython)
    address = server.address

    def jar() -> DataFrame:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", address)
        return reader.option("subscribe", TOPIC).load().select(*COLUMNS)

    def python() -> DataFrame:
        reader = spark.read.format("kafka-in-python").option("address", address)
        return reader.option("count", str(count // PARTITIONS)).load()

    ways = {ENGINES[name]: make for name, make in (("jar", jar), ("python", python)) if name in only}
    for make in ways.values():
        if make().select("value").distinct().count() != count:
            raise AssertionError("not all messages were read")
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, make in ways.items():
            taken[name].append(_timed(make, server))
    spark.stop()
    return [
        Result("messages of 100 bytes", name, measure, value, unit, "all messages counted")
        for name, rounds in taken.items()
        for measure, value, unit in (
            ("read", count / median(wall for wall, _ in rounds), "messages/s"),
            ("processor time", 1e6 * median(used for _, used in rounds) / count, "µs a message"),
        )
    ]


def _timed(make: Callable[[], DataFrame], server: KafkaServer) -> tuple[float, float]:
    used, begun = _processor_time(server), time.perf_counter()
    make().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun, _processor_time(server) - used


def _processor_time(server: KafkaServer) -> float:
    """Seconds of all processes of this session, without Kafka's."""
    assert server.process is not None
    ticks = 0
    for entry in Path("/proc").iterdir():
        try:
            after = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if entry.name.isdigit() and int(after[3]) == os.getsid(0) and int(entry.name) != server.process.pid:
            ticks += sum(map(int, after[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


class KafkaInPython(DataSource):
    """What a source without a JAR would do in its tasks."""

    @classmethod
    def name(cls) -> str:
        return "kafka-in-python"

    def schema(self) -> str:
        return "partition INT, offset BIGINT, key BINARY, value BINARY, timestamp TIMESTAMP"

    def reader(self, schema: StructType) -> DataSourceReader:
        return KafkaInPythonReader(dict(self.options))


class KafkaInPythonReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        consumer = Consumer(
            {"bootstrap.servers": self._options["address"], "group.id": "bench", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(TOPIC, partition.value, 0)])
        left = int(self._options["count"])
        while left:
            got = consumer.consume(min(left, 10_000), 5.0)
            left -= len(got)
            columns = (
                pa.array([each.partition() for each in got], pa.int32()),
                pa.array([each.offset() for each in got], pa.int64()),
                pa.array([each.key() for each in got], pa.binary()),
                pa.array([each.value() for each in got], pa.binary()),
                pa.array([1000 * each.timestamp()[1] for each in got], pa.timestamp("us", "UTC")),
            )
            yield pa.RecordBatch.from_arrays(list(columns), names=list(COLUMNS))
        consumer.close()

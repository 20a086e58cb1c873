"""How long a message takes from Kafka to Kafka: from being sent until another client reads the delivery.

A Kafka broker is started from jars, as in the tests; without a Java or a network there is nothing to measure.
Messages are sent at a steady rate, and each matches one of the subscriptions; a consumer of committed records
notes when each delivery comes. All of it shares one machine and one clock. What is told is of the messages
after a warm-up, of which each must have come once.

pipeline    `distributary run` on two cores, a micro-batch after the other, exactly_once
broker      `distributary serve --kafka`, a source and a sink, without Spark
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import quantiles

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench.report import Result
from distributary.model import Subscription
from distributary.store import open_store

TOP = Path(__file__).parents[1]
sys.path.insert(0, str(TOP / "tests"))

from kafka_server import KafkaServer, jars_of  # noqa: E402

TOPICS = 1_000
"""Topics of events, each with a subscription."""
PATIENCE = 180.0
PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "kafka"
parse = "json"
schema = "id STRING, topic STRING, number BIGINT"
options = {{ "kafka.bootstrap.servers" = "{address}", subscribe = "{source}", startingOffsets = "earliest" }}
[subscriptions]
store = "subscriptions"
[sink]
format = "kafka"
topic = "{sink}"
exactly_once = true
columns = ["number"]
options = {{ "kafka.bootstrap.servers" = "{address}" }}
[trigger]
every = "0 seconds"
[spark.conf]
"spark.jars" = "{jars}"
"""
BROKER = """
[connection]
"bootstrap.servers" = "{address}"
[[source]]
topics = ["{source}"]
topic = "readings/{{key}}"
[[sink]]
name = "all"
to = "{sink}"
topic = "readings"
where = "number >= -1"
"""


@contextmanager
def _pipeline(place: Path, server: KafkaServer, source: str, sink: str) -> Iterator[None]:
    store = open_store(place / "subscriptions", create=True)
    store.commit([Subscription(f"s{each}", "ann", topic=f"readings/{each}") for each in range(TOPICS)])
    jars = ",".join(map(str, jars_of("spark")))
    given = {"address": server.address, "source": source, "sink": sink, "jars": jars}
    (place / "pipeline.toml").write_text(PIPELINE.format(**given))
    with _running(place, "run", "pipeline.toml", "--master", "local[2]"):
        yield


@contextmanager
def _broker(place: Path, server: KafkaServer, source: str, sink: str) -> Iterator[None]:
    given = {"address": server.address, "source": source, "sink": sink}
    (place / "kafka.toml").write_text(BROKER.format(**given))
    ports = ("--mqtt", "0", "--web", "0", "--no-console")
    with _running(place, "serve", "--kafka", "kafka.toml", "--data", "data", *ports):
        yield


Way = Callable[[Path, KafkaServer, str, str], AbstractContextManager[None]]
WAYS: dict[str, Way] = {"pipeline": _pipeline, "broker": _broker}


def known(quick: bool) -> list[str]:
    """What can be asked for alone."""
    return list(WAYS)


def run(quick: bool, only: Sequence[str] = ()) -> list[Result]:
    rates, warm, seconds = ((50,), 1, 1) if quick else ((100, 1_000), 20, 60)
    server = KafkaServer(Path(tempfile.mkdtemp()))
    server.start()
    try:
        found: list[Result] = []
        for rate in rates:
            for name in only or known(quick):
                delays = _delays(server, WAYS[name], rate, warm * rate, seconds * rate)
                found += _told(f"{rate:,} messages a second", name, delays)
        return found
    finally:
        server.stop()


def _told(workload: str, name: str, delays: list[float]) -> Iterator[Result]:
    percentiles = quantiles(delays, n=100, method="inclusive")
    for measure, value in (("p50", percentiles[49]), ("p99", percentiles[98]), ("longest", max(delays))):
        checked = "each message came once"
        yield Result(workload, name, f"Kafka in to Kafka out, {measure}", value, "s", checked)


def _delays(server: KafkaServer, way: Way, rate: int, warm: int, count: int) -> list[float]:
    """The delay of each message after a warm-up."""
    source, sink = server.topic(2), server.topic()
    sent: dict[int, float] = {}
    came: dict[int, float] = {}
    reader = _Reader(server.address, sink, came)
    with tempfile.TemporaryDirectory() as directory, way(Path(directory), server, source, sink):
        producer = Producer({"bootstrap.servers": server.address, "linger.ms": 0, "log_level": 0})
        _send(producer, source, -1, sent)
        reader.until(1)  # it has started
        begin = time.monotonic()
        for number in range(warm + count):
            while (left := begin + number / rate - time.monotonic()) > 0:
                reader.look(min(left, 0.005))
            _send(producer, source, number, sent)
            reader.look(0)
        producer.flush()
        reader.until(1 + warm + count)
    reader.close()
    if sorted(came) != list(range(-1, warm + count)) or reader.count != len(came):
        raise AssertionError(f"{reader.count:,} deliveries came of {len(sent):,} messages")
    return [came[number] - sent[number] for number in range(warm, warm + count)]


def _send(producer: Producer, topic: str, number: int, sent: dict[int, float]) -> None:
    key = str(number % TOPICS)
    value = json.dumps({"id": f"e{number}", "topic": f"readings/{key}", "number": number})
    sent[number] = time.monotonic()
    producer.produce(topic, value, key)
    producer.poll(0)


class _Reader:
    """A consumer of committed records that notes when each came."""

    def __init__(self, address: str, topic: str, came: dict[int, float]) -> None:
        settings = {"bootstrap.servers": address, "group.id": "bench", "isolation.level": "read_committed"}
        settings |= {"enable.auto.commit": False, "fetch.wait.max.ms": 10, "log_level": 0}
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self._came = came
        self.count = 0

    def look(self, seconds: float) -> None:
        for message in self._consumer.consume(1_000, seconds):
            if message.error() is None:
                record = json.loads(message.value() or b"")
                self._came.setdefault(record["number"], time.monotonic())
                self.count += 1

    def until(self, count: int) -> None:
        end = time.monotonic() + PATIENCE
        while self.count < count:
            if time.monotonic() > end:
                raise AssertionError(f"{self.count:,} of {count:,} deliveries came in {PATIENCE:.0f} s")
            self.look(0.05)

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def _running(place: Path, *arguments: str) -> Iterator[None]:
    """A command of ours as long as the context lasts."""
    with (place / "said.txt").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "distributary", *arguments],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
    try:
        yield
    except BaseException as error:
        error.add_note((place / "said.txt").read_text()[-2000:])
        raise
    finally:
        process.terminate()
        process.wait(PATIENCE)

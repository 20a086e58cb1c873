"""A Kafka broker from the jars of Maven Central: one node in KRaft mode on loopback, without Docker.

The jars (`kafka_jars.txt`) are fetched once, checked against their sums, and kept in the user's cache. Where
they cannot be had, or there is no Java, `KafkaMissingError` says why, and tests are skipped.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from held_ports import HeldPorts

CENTRAL = "https://repo1.maven.org/maven2/"
LISTED = Path(__file__).with_name("kafka_jars.txt")
PATIENCE = 60.0
JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.cleaner.enable=false
num.network.threads=2
num.io.threads=2
"""


class KafkaMissingError(Exception):
    """Why there can be no Kafka here."""


def jars_of(part: str) -> list[Path]:
    """The jars of a part of the list, fetched if need be; KafkaMissingError when they cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "distributary" / "jars"
    listed, here = [], ""
    for line in LISTED.read_text().splitlines():
        if line.startswith("# "):
            here = line[2:]
        elif here == part:
            listed.append(line.split())
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(8) as threads:
            return list(threads.map(lambda each: _fetched(cache, *each), listed))
    except OSError as error:
        raise KafkaMissingError(f"the jars of Kafka cannot be fetched from {CENTRAL}: {error}") from error


def _fetched(cache: Path, digest: str, path: str) -> Path:
    jar = cache / path.rpartition("/")[2]
    if jar.exists():
        return jar
    with urllib.request.urlopen(CENTRAL + path, timeout=PATIENCE) as answer:
        content: bytes = answer.read()
    if hashlib.sha256(content).hexdigest() != digest:
        raise urllib.error.URLError(f"{path} is not what was listed")
    with tempfile.NamedTemporaryFile(dir=cache, delete=False) as unfinished:  # others may fetch it too
        unfinished.write(content)
    Path(unfinished.name).replace(jar)
    return jar


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        raise KafkaMissingError("Kafka needs a Java: see scripts/jdk")
    return found


class KafkaServer:
    """A broker in a process of its own, with its data in a directory; it comes back with both as it was."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._java = _java()
        self._class_path = os.pathsep.join(map(str, jars_of("server")))
        self._properties = directory / "server.properties"
        self._held = HeldPorts(2)
        self.port, controller = self._held.numbers
        self.address = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        self._made = 0
        given = PROPERTIES.format(port=self.port, controller=controller, data=directory / "data")
        self._properties.write_text(given)
        self._run("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._properties)).wait()

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        with (self._directory / "kafka.log").open("ab") as log:
            return subprocess.Popen(
                [self._java, *JAVA_OPTIONS, "-cp", self._class_path, *command], stdout=log, stderr=log
            )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process = self._run("kafka.Kafka", str(self._properties))
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            assert self.process.poll() is None, (self._directory / "kafka.log").read_text()
            try:
                self.admin.list_topics(timeout=1)
                return
            except KafkaException:  # it is not there yet
                continue
        raise AssertionError((self._directory / "kafka.log").read_text())

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it, by default as a power cut would."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE)

    def topic(self, partitions: int = 1) -> str:
        """A new topic."""
        self._made += 1
        name = f"topic-{self._made}"
        [made] = self.admin.create_topics([NewTopic(name, partitions, 1)]).values()
        made.result(PATIENCE)
        return name

    def send(self, topic: str, *values: bytes | None, **more: Any) -> None:
        """Put records into a topic, and wait until it has them."""
        producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True, "log_level": 0})
        for value in values:
            producer.produce(topic, value, **more)
        assert producer.flush(PATIENCE) == 0

    def committed(self, topic: str, count: int = 0) -> list[Message]:
        """What a consumer of committed records sees, at least so many, by partition and offset.

        All that is there when that many have been seen: one too many is seen too.
        """
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "reads",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        partitions = consumer.list_topics(topic, PATIENCE).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        came: list[Message] = []
        ended: set[int] = set()
        end = time.monotonic() + PATIENCE
        while (len(came) < count or len(ended) < len(partitions)) and time.monotonic() < end:
            message = consumer.poll(1)
            if message is None:
                continue
            partition, error = message.partition() or 0, message.error()
            if error is None:
                came.append(message)
                ended.discard(partition)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(partition)
        consumer.close()
        assert len(came) >= count, f"{len(came):,} of {count:,} committed records came"
        return sorted(came, key=lambda each: (each.partition() or 0, each.offset() or 0))

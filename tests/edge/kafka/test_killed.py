"""Kafka to brokers to Kafka, while brokers and Kafka are killed: each record that matches arrives once.

A topic is read by two brokers of one network; a sink at the first of them writes what matches into another
topic. Both brokers, and Kafka itself, are killed at random moments and started again.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from held_ports import HeldPorts
from kafka_server import KafkaMissingError, KafkaServer
from replay import replayed_by

PATIENCE = 120.0
TOLD = 2_000
"""Characters of what a broker said that are shown when records do not go on."""
RECORDS, KILLS = 3_000, 10
FILE = """\
[connection]
"bootstrap.servers" = "{address}"

[[source]]
topics = ["{source}"]
topic = "readings/{{key}}"
options = {{"session.timeout.ms" = 6000}}

[[sink]]
name = "high"
broker = "first"
to = "{sink}"
where = "number >= 0"
"""


class KilledBroker:
    """`distributary serve --kafka` as a process that comes back with its data."""

    def __init__(self, directory: Path, name: str, port: int, contact: int | None, file: Path) -> None:
        self._directory = directory / name
        self._directory.mkdir()
        self._ready = self._directory / "ready.json"
        command = [
            sys.executable,
            "-m",
            "distributary.cli",
            "serve",
            "--no-console",
            "--mqtt",
            "0",
            "--web",
            "0",
        ]
        command += ["--name", name, "--listen", f"127.0.0.1:{port}", "--data", str(self._directory / "data")]
        command += ["--kafka", str(file), "--ready", str(self._ready), "--status", "0"]
        self._command = command + (["--join", f"127.0.0.1:{contact}"] if contact else [])
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def said(self) -> str:
        """All that it has said so far."""
        return (self._directory / "said.txt").read_text()

    @property
    def health(self) -> str:
        """What it counts, or why it does not say; and the end of what it has said."""
        name = self._directory.name
        ended = None if self.process is None else self.process.poll()
        if ended is not None:
            return f"{name} has ended by itself, with {ended}: {self.said[-TOLD:]}"
        return f"{name}: {self._answer} after {self.said[-TOLD:]}"

    @property
    def _answer(self) -> str:
        try:
            where = json.loads(self._ready.read_text())["status"]
            with urlopen(f"http://{where}/health", timeout=10) as answer:
                return str(answer.read().decode())
        except (OSError, ValueError) as error:
            return repr(error)

    def start(self, *, wait: bool = False) -> None:
        self._ready.unlink(missing_ok=True)
        with (self._directory / "said.txt").open("ab") as said:
            self.process = subprocess.Popen(self._command, stdout=said, stderr=said)
        end = time.monotonic() + PATIENCE
        while wait and not self._ready.exists():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < end, self.said
            time.sleep(0.05)

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE)


@contextmanager
def world(directory: Path) -> Iterator[tuple[KafkaServer, list[KilledBroker], str, str]]:
    """A Kafka of its own, two brokers, and the names of the topics."""
    try:
        kafka = KafkaServer(directory)
    except KafkaMissingError as error:
        pytest.skip(str(error))
    brokers: list[KilledBroker] = []
    try:
        kafka.start()
        source, sink = kafka.topic(4), kafka.topic()
        file = directory / "kafka.toml"
        file.write_text(FILE.format(address=kafka.address, source=source, sink=sink))
        held = HeldPorts(2)
        port, other = held.numbers
        first = KilledBroker(directory, "first", port, None, file)
        brokers += [first, KilledBroker(directory, "second", other, port, file)]
        for broker in brokers:
            broker.start(wait=True)
        yield kafka, brokers, source, sink
    finally:
        for broker in brokers:
            broker.stop()
        kafka.stop()


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(3))
def test_each_record_arrives_once_through_kills_of_brokers_and_of_kafka(
    tmp_path: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    random, fired = Random(seed), Counter[str]()
    command = f"pytest -m chaos tests/edge/kafka/test_killed.py -k '{seed}'"
    with replayed_by(command), world(tmp_path) as (kafka, brokers, source, sink):
        wait_until_in_force(kafka, brokers, source, sink)
        producer = Producer({"bootstrap.servers": kafka.address, "enable.idempotence": True, "log_level": 0})
        kills = sorted(random.sample(range(RECORDS // 10, RECORDS), KILLS))
        for number in range(RECORDS):
            value = json.dumps({"number": number if number % 3 else -number - 1})
            producer.produce(source, value, f"s{number % 7}")
            producer.poll(0.001)
            if kills and number == kills[0]:
                kills.pop(0)
                victim = random.choice([*brokers, *brokers, kafka])
                victim.stop()
                victim.start()
                fired["kill of Kafka" if victim is kafka else "kill of a broker"] += 1
        assert producer.flush(PATIENCE) == 0
        due = [number for number in range(RECORDS) if number % 3]
        try:
            records = kafka.committed(sink, len(due) + 1)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *(each.health for each in brokers)])) from None
        got = [json.loads(each.value() or b"")["number"] for each in records]
        record_property("faults", dict(fired))
        record_property("compared", {"events": RECORDS, "deliveries": len(got)})
        twice = [number for number, times in Counter(got).items() if times > 1]
        assert twice == []
        assert sorted(got) == [*due, RECORDS]
        for key in range(7):
            of_key = [number for number in got if number % 7 == key and number < RECORDS]
            assert of_key == sorted(of_key), "records of one key are out of order"


def wait_until_in_force(kafka: KafkaServer, brokers: list[KilledBroker], source: str, sink: str) -> None:
    """Send a record that the sink wants, and wait until it has come."""
    kafka.send(source, json.dumps({"number": RECORDS}).encode(), key=b"first")
    kafka.committed(sink, 1)

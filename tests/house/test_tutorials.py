"""The tutorials can be followed: their files are written, their commands run, and print what they say."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from house.tutorials import TUTORIALS, Reader, sections
from kafka_server import KafkaMissingError, KafkaServer, jars_of

KAFKA, MQTT = sections(TUTORIALS / "kafka.md"), sections(TUTORIALS / "mqtt.md")
BEGIN, BROKER, PIPELINE = (
    "A Kafka, and something in it",
    "A few rules, without Spark",
    "Many rules that change, on Spark",
)
TOPICS = ["quotes", "dear", "moves", "told"]
CONNECTOR = '"spark.jars.packages" = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"'
PATIENCE = 60.0


@pytest.fixture
def reader(kafka: KafkaServer, tmp_path: Path) -> Iterator[Reader]:
    """A reader of the tutorial who has a Kafka with a few quotes."""
    begun = Reader(tmp_path, {"localhost:9092": kafka.address})
    begun.write(KAFKA[BEGIN])
    for command in KAFKA[BEGIN].commands:
        begun.run(command)
    yield begun
    for deleted in kafka.admin.delete_topics(TOPICS).values():
        deleted.result(PATIENCE)


@contextmanager
def served(reader: Reader, command: str) -> Iterator[dict[str, str]]:
    """The broker that a tutorial starts, at any free ports; gives where clients connect."""
    ready = reader.directory / "ready.json"
    with reader.started(f"{command} --mqtt 0 --web 0 --no-console --ready {ready.name}") as broker:
        end = time.monotonic() + PATIENCE
        while not ready.exists():
            assert broker.poll() is None, (reader.directory / "errors.txt").read_text()
            assert time.monotonic() < end
            time.sleep(0.02)
        yield json.loads(ready.read_text())
    assert broker.returncode == 0


def test_a_few_rules_over_a_topic_are_applied_by_a_broker(reader: Reader, kafka: KafkaServer) -> None:
    serve, *shows, ask = KAFKA[BROKER].commands
    reader.write(KAFKA[BROKER])
    with served(reader, serve) as places:
        for topic, count in (("dear", 1), ("moves", 2)):
            kafka.committed(topic, count)
        assert "".join(map(reader.run, shows)) == KAFKA[BROKER].printed
        if shutil.which("curl"):
            reader.elsewhere["localhost:8080"] = places["web"]
            with reader.started(ask) as asked:
                assert asked.stdout is not None
                told = next(line for line in asked.stdout if "price" in line)
            assert '"price":121.0' in told.replace(" ", "")


@pytest.mark.chaos
def test_many_rules_over_a_topic_are_applied_by_a_pipeline(reader: Reader, kafka: KafkaServer) -> None:
    try:
        jars = ",".join(map(str, jars_of("spark")))
    except KafkaMissingError as error:
        pytest.skip(str(error))
    reader.elsewhere[CONNECTOR] = f'"spark.jars" = "{jars}"'
    reader.write(KAFKA[PIPELINE])
    assert jars in (reader.directory / "pipeline.toml").read_text()
    printed = [reader.run(command) for command in KAFKA[PIPELINE].commands]
    [told] = [
        text for command, text in zip(KAFKA[PIPELINE].commands, printed, strict=True) if "told" in command
    ]
    example = next(
        line.strip() for line in (TUTORIALS / "kafka.md").read_text().splitlines() if "    ann {" in line
    )
    assert example in told.splitlines()
    deliveries = [json.loads(line.partition(" ")[2]) for line in told.splitlines()]
    assert sorted((each["subscriber"], each["event_id"]) for each in deliveries) == [
        ("ann", "q2"),
        ("bob", "q0"),
        ("bob", "q3"),
        ("cleo", "q3"),
    ]


@pytest.mark.chaos
@pytest.mark.spark
def test_readings_go_from_mqtt_through_spark_to_those_who_want_them(tmp_path: Path) -> None:
    begin, stream, readings, _ = MQTT.values()
    [serve] = begin.commands
    follower = Reader(tmp_path, {})
    with served(follower, serve) as places:
        port = places["mqtt"].rpartition(":")[2]
        follower.elsewhere.update({'"port": "1883"': f'"port": "{port}"', "port=1883": f"port={port}"})
        follower.write(stream)
        follower.write(readings)
        printed = [follower.run(command) for command in (*stream.commands, *readings.commands)]
    assert printed[-1] == readings.printed


def test_commands_and_files_of_every_section_are_found() -> None:
    assert [len(KAFKA[title].commands) for title in (BEGIN, BROKER, PIPELINE)] == [1, 4, 6]
    assert [[*KAFKA[title].files] for title in (BEGIN, BROKER, PIPELINE)] == [
        ["quotes.py", "show.py"],
        ["kafka.toml"],
        ["rules.csv", "pipeline.toml"],
    ]

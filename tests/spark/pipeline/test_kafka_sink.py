"""Batches written to Kafka in transactions: each once, however often it is done, whatever fails between."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame

from distributary import kafka_transactions
from distributary.errors import DistributaryError
from distributary.kafka_transactions import (
    KafkaMessage,
    KafkaTroubleError,
    TransactionalWriter,
    WrittenPlace,
)
from distributary.spark.pipeline import kafka_sink
from distributary.spark.pipeline.kafka_sink import write_once
from kafka_server import KafkaServer


class Messages:
    """What the sink asks of a DataFrame of messages."""

    def __init__(self, topic: str, *values: str) -> None:
        rows = {"topic": [topic] * len(values), "key": ["ann"] * len(values), "value": list(values)}
        self.table = pa.table({name: pa.array(column, pa.string()) for name, column in rows.items()})

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self.table


def write(messages: Messages, address: str, checkpoint: Path, batch: int, topic: str) -> None:
    """Write a batch as the pipeline of a checkpoint does."""
    options = {"kafka.bootstrap.servers": address, "topic": topic}
    write_once(cast("DataFrame", messages), options, topic, str(checkpoint), batch)


def made_checkpoint(path: Path, id: str) -> Path:
    path.mkdir()
    (path / "metadata").write_text(json.dumps({"id": id}))
    return path


@pytest.fixture(autouse=True)
def _another_process() -> Iterator[None]:
    """Each test begins and ends as a process does."""
    kafka_sink._open.clear()
    yield
    for each in kafka_sink._open.values():
        each.writer.close()
    kafka_sink._open.clear()


class Topic:
    """A topic in memory, with writers that fail by chance before or after a transaction."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.values: list[str] = []
        self.written: WrittenPlace | None = None
        self.epoch = 0

    def writer(self, connection: dict[str, Any], identity: str, anchor: str) -> Any:
        assert connection == {"bootstrap.servers": "h"}
        return Writer(self)


class Writer:
    """What a `TransactionalWriter` is to the sink."""

    def __init__(self, topic: Topic) -> None:
        self.topic, self.epoch = topic, 0

    def begin(self) -> WrittenPlace | None:
        self.topic.epoch += 1
        self.epoch = self.topic.epoch
        return self.topic.written

    def write(self, messages: Iterable[KafkaMessage], written: WrittenPlace, *, whole: bool) -> list[int]:
        self._may_fail()
        if self.epoch != self.topic.epoch:
            raise KafkaTroubleError("fenced")
        self.topic.values += [each.value.decode() for each in messages]
        self.topic.written = written
        self._may_fail()
        return []

    def close(self) -> None:
        """Nothing is open."""

    def _may_fail(self) -> None:
        if self.topic.random.random() < 0.3:
            raise KafkaTroubleError("away")


@given(st.integers(0, 2**32))
def test_each_batch_is_written_once_however_often_it_is_done(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    random = Random(seed)
    topic = Topic(random)
    checkpoint = made_checkpoint(tmp_path_factory.mktemp("run") / "checkpoint", "q1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_transactions, "TransactionalWriter", topic.writer)
        kafka_sink._open.clear()
        batch = 0
        while batch < 6:
            if random.random() < 0.3:
                kafka_sink._open.clear()  # another process
            try:
                write(Messages("t", f"{batch}a", f"{batch}b"), "h", checkpoint, batch, "t")
            except DistributaryError:  # Kafka was away each time
                continue
            batch += random.choice([0, 1, 1])  # it may be done again though it was written
        kafka_sink._open.clear()
    assert topic.values == [f"{number}{part}" for number in range(6) for part in "ab"]


def test_a_batch_that_kafka_has_is_not_written_again_by_another_process(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    topic = kafka.topic()
    checkpoint = made_checkpoint(tmp_path / "checkpoint", topic)
    write(Messages(topic, "0a", "0b"), kafka.address, checkpoint, 0, topic)
    write(Messages(topic, "1a"), kafka.address, checkpoint, 1, topic)
    [before] = kafka_sink._open.values()
    kafka_sink._open.clear()
    write(Messages(topic, "1a"), kafka.address, checkpoint, 1, topic)
    write(Messages(topic, "2a"), kafka.address, checkpoint, 2, topic)
    with pytest.raises(KafkaTroubleError):  # the process before was only thought dead
        before.writer.write([KafkaMessage(topic, b"2a", b"ann")], WrittenPlace(topic, 3))
    before.writer.close()
    kafka_sink._open.clear()
    other = made_checkpoint(tmp_path / "other", f"{topic}-other")
    write(Messages(topic, "0c"), kafka.address, other, 0, topic)
    came = kafka.committed(topic, 5)
    assert [each.value() for each in came] == [b"0a", b"0b", b"1a", b"2a", b"0c"]
    assert {each.key() for each in came} == {b"ann"}


def test_what_was_begun_and_not_committed_is_seen_by_nobody_and_written_again(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    topic = kafka.topic()
    killed = TransactionalWriter({"bootstrap.servers": kafka.address}, f"distributary-{topic}", topic)
    assert killed.begin() is None
    assert killed._try([KafkaMessage(topic, b"0a", b"ann")])
    write(Messages(topic, "0a"), kafka.address, made_checkpoint(tmp_path / "c", topic), 0, topic)
    assert [each.value() for each in kafka.committed(topic, 1)] == [b"0a"]
    killed.close()


def test_a_message_that_is_too_long_fails_the_batch_and_nothing_of_it_is_written(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    topic = kafka.topic()
    checkpoint = made_checkpoint(tmp_path / "checkpoint", topic)
    with pytest.raises(
        DistributaryError, match=r"no message of 1,500,000 characters, and batch 0 has one for 'ann'"
    ):
        write(Messages(topic, "short", "x" * 1_500_000), kafka.address, checkpoint, 0, topic)
    write(Messages(topic, "short"), kafka.address, checkpoint, 0, topic)
    assert [each.value() for each in kafka.committed(topic, 1)] == [b"short"]

"""Kafka by the client library of Confluent (`pip install 'distributary[kafka]'`): a reader of topics.

Everything here blocks, and is called in threads, one call at a time. What the library says in its callbacks
is kept until the next call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from distributary.edge.kafka.intake import KafkaTurn, Offsets, Partition
from distributary.edge.kafka.records import Headers, KafkaRecord
from distributary.edge.kafka.settings import KafkaSource
from distributary.kafka_transactions import FAILURES, QUIET, KafkaTroubleError, made, reason_of

WAIT = 0.2
"""Seconds that a reader waits for a record."""
SESSION = 10_000
"""Milliseconds after which the group takes the partitions of a broker that is silent."""


class ConfluentReader:
    """Reads the topics of a source as a member of its group.

    `member` is a name that the process has again after a restart, so that it goes on at once with the
    partitions that it had; None where it has none.
    """

    def __init__(self, connection: Mapping[str, Any], source: KafkaSource, member: str | None) -> None:
        self._lost: set[Partition] = set()
        self._owed: Offsets = {}
        """What is to be committed."""
        self._trouble: str | None = None
        self._fatal: str | None = None
        given: dict[str, Any] = {
            **QUIET,
            "session.timeout.ms": SESSION,
            "partition.assignment.strategy": "cooperative-sticky",
            **connection,
            **source.options,
            "group.id": source.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": source.begin,
            "error_cb": self._heard,
        }
        if member is not None:
            given["group.instance.id"] = member
        self._consumer = made(Consumer, given)
        self._consumer.subscribe(list(source.topics), on_revoke=self._revoked, on_lost=self._lost_all)

    def read(self, safe: Mapping[Partition, int], most: int) -> KafkaTurn:
        """Commit offsets, and give what has come; see `KafkaReader`."""
        self._owed |= safe
        try:
            self._commit()
            came = self._consumer.poll(WAIT)
            messages = [] if came is None else [came, *self._consumer.consume(most - 1, 0)]
        except FAILURES as error:
            raise KafkaTroubleError(reason_of(error)) from None
        records = [record for message in messages if (record := self._record(message)) is not None]
        if self._fatal is not None:
            raise KafkaTroubleError(self._fatal)
        if records or (self._trouble is not None and self._answers()):
            self._trouble = None
        lost, self._lost = frozenset(self._lost), set()
        return KafkaTurn(records, lost, self._trouble)

    def close(self, safe: Mapping[Partition, int]) -> None:
        """Commit offsets, and leave the group."""
        self._owed |= safe
        with suppress(*FAILURES):
            if self._fatal is None:
                self._commit()
            self._consumer.close()

    def _commit(self) -> None:
        """Commit what is owed, if Kafka answers; else it stays owed."""
        if not self._owed:
            return
        offsets = [TopicPartition(topic, number, end) for (topic, number), end in self._owed.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self._heard(error.args[0])
        else:
            self._owed.clear()

    def _record(self, message: Message) -> KafkaRecord | None:
        """The record of a message; None for one that tells of an error."""
        error = message.error()
        if error is not None:
            self._heard(error)
            return None
        kind, time = message.timestamp()
        return KafkaRecord(
            str(message.topic()),
            int(message.partition() or 0),
            int(message.offset() or 0),
            message.value(),
            message.key(),
            _pairs(message.headers()),
            time if kind else None,
        )

    def _answers(self) -> bool:
        try:
            self._consumer.list_topics(timeout=WAIT)
        except KafkaException:
            return False
        return True

    def _heard(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error.str()
        self._trouble = f"{error.str()} ({error.name()})"

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """A rebalance takes partitions away: what is owed for them is committed now or never."""
        self._commit()
        self._lost_all(consumer, partitions)

    def _lost_all(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Partitions are another's already."""
        for partition in _of(partitions):
            self._owed.pop(partition, None)
            self._lost.add(partition)


def check_connection(connection: Mapping[str, Any], options: Sequence[Mapping[str, Any]]) -> None:
    """See whether the library takes these settings; DistributaryError says what is wrong."""
    for each in options:
        made(Consumer, {**QUIET, **connection, **each, "group.id": "check"}).close()


def _of(partitions: Sequence[TopicPartition]) -> set[Partition]:
    return {(each.topic, each.partition) for each in partitions}


def _pairs(headers: Any) -> Headers:
    """Headers as the library gives them: a list of pairs, or nothing."""
    return headers or ()

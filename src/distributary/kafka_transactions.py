"""Records written to Kafka in transactions, each with a place: committed once, through crashes of both sides.

Rules:

- A writer has an identity. When another with the same one begins, the one before can write nothing any more.
- With the records of a transaction a place is committed: a number that goes up, and a mark that says whose
  numbers they are. It is the offset of partition 0 of a topic, in a consumer group that has the name of the
  identity. So what was written is known from Kafka alone, also when nobody knows what became of the last
  transaction: begin again, and the place tells.
- After an error the writer is of no more use: close it and make another.

Needs confluent-kafka (`pip install 'distributary[kafka]'`). All of it blocks; one call at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from distributary.errors import DistributaryError

WAIT = 0.2
"""Seconds that it waits for room in the library's queue."""
PATIENCE = 10.0
"""Seconds that Kafka may take to answer."""
TOO_LONG = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
FAILURES = (KafkaException, SystemError)
"""What the library raises: the second when an error that is fatal comes while it calls back."""
QUIET = {"log_level": 0}
"""What goes wrong is told by errors, so the library need not print it too."""


class KafkaTroubleError(DistributaryError):
    """Kafka cannot be used for now, and whoever read or wrote must be made anew."""


class KafkaMessage(NamedTuple):
    """A record that is to be written."""

    topic: str
    value: bytes
    key: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


class WrittenPlace(NamedTuple):
    """Up to where Kafka has something, and whose places these are."""

    mark: str
    place: int


class TransactionalWriter:
    """Writes records in transactions of one identity; `anchor` is the topic under which places are kept.

    `connection` is given to the client library.
    """

    def __init__(self, connection: Mapping[str, Any], identity: str, anchor: str) -> None:
        self._anchor, self._trouble = anchor, ""
        self._refused: set[int] = set()
        """Which records of a write are too long."""
        self._failed: list[tuple[int, KafkaError]] = []
        """Which records of a transaction were not delivered, and why."""
        common = {**QUIET, **connection}
        self._producer = made(
            Producer, {**common, "transactional.id": identity, "error_cb": self._heard, "linger.ms": 1}
        )
        self._group = made(Consumer, {**common, "group.id": identity, "enable.auto.commit": False})

    def begin(self) -> WrittenPlace | None:
        """Keep whoever wrote before from writing more, and tell up to where it wrote; None if it never did.

        KafkaTroubleError when Kafka does not answer.
        """
        try:
            self._producer.init_transactions(PATIENCE)
            [found] = self._group.committed([TopicPartition(self._anchor, 0)], PATIENCE)
        except FAILURES as error:
            raise self._error(error) from None
        if found.error is not None:
            raise KafkaTroubleError(found.error.str())
        return WrittenPlace(found.metadata or "", found.offset) if found.offset >= 0 else None

    def write(
        self, messages: Iterable[KafkaMessage], written: WrittenPlace, *, whole: bool = False
    ) -> list[int]:
        """Write records and the place together, or nothing; gives which of them are too long, and left out.

        With `whole` nothing is written when one is too long. KafkaTroubleError when it is not certain that
        they are written, or that they are not. The records are iterated again when Kafka finds one too long.
        """
        self._refused = set()
        place = TopicPartition(self._anchor, 0, written.place, metadata=written.mark)
        try:
            while not self._try(messages):
                self._producer.abort_transaction(PATIENCE)
            if whole and self._refused:
                self._producer.abort_transaction(PATIENCE)
                return sorted(self._refused)
            group = self._group.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([place], group, PATIENCE)
            self._producer.commit_transaction(PATIENCE)
        except FAILURES as error:
            raise self._error(error) from None
        return sorted(self._refused)

    def _try(self, messages: Iterable[KafkaMessage]) -> bool:
        """Begin a transaction with what is not refused; False when Kafka has refused more of it."""
        self._failed = []
        self._producer.begin_transaction()
        for index, message in enumerate(messages):
            if index not in self._refused:
                self._produce(index, message)
        if self._producer.flush(PATIENCE):
            raise KafkaTroubleError(f"Kafka does not take the records: {self._trouble or 'no answer'}")
        too_long = {index for index, error in self._failed if error.code() in TOO_LONG}
        if self._failed and not too_long:
            raise KafkaTroubleError(self._failed[0][1].str())
        self._refused |= too_long
        return not too_long

    def _produce(self, index: int, message: KafkaMessage) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                self._failed.append((index, error))

        topic, value, key, headers = message
        while True:
            try:
                self._producer.produce(topic, value, key, headers=list(headers), on_delivery=delivered)
                return
            except BufferError:  # the library holds as many as it may
                self._producer.poll(WAIT)
            except KafkaException as error:
                if error.args[0].code() not in TOO_LONG:
                    raise
                self._refused.add(index)
                return

    def close(self) -> None:
        """Leave nothing open."""
        self._producer.purge()
        self._group.close()

    def _heard(self, error: KafkaError) -> None:
        self._trouble = f"{error.str()} ({error.name()})"

    def _error(self, error: Exception) -> KafkaTroubleError:
        cause = f"; {self._trouble}" if self._trouble else ""
        return KafkaTroubleError(reason_of(error) + cause)


def reason_of(error: BaseException) -> str:
    """What the library says is wrong."""
    cause = error if isinstance(error, KafkaException) else error.__cause__
    told = cause.args[0] if isinstance(cause, KafkaException) else None
    return f"{told.str()} ({told.name()})" if isinstance(told, KafkaError) else str(error)


def made(kind: type[Any], given: dict[str, Any]) -> Any:
    """A client of the library; DistributaryError says which of its settings is wrong."""
    try:
        return kind(given)
    except (KafkaException, TypeError, ValueError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise DistributaryError(f"Kafka's client library refuses its settings: {reason}") from None

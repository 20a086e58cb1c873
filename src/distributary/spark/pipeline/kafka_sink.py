"""Deliveries of a micro-batch written to Kafka in one transaction: once for whoever reads committed records.

Rules:

- The driver writes, after all tasks have staged their part (`staging`): a batch that is done again has the
  same deliveries. Its transaction also commits the number of the batch, so a batch that Kafka has is not
  written again, whatever was killed between the transaction and the batch's record.
- The identity of the transactions is that of the checkpoint: of two drivers that run one, the later keeps the
  earlier from writing. Another checkpoint has another identity, and begins with its own numbers.
- When nobody knows what became of a transaction, it is begun anew a few times: the number tells. Then the
  batch fails, and Spark ends the query; started again, it goes on with that batch.

Memory: the deliveries of a batch, at the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from distributary.errors import DistributaryError
from distributary.spark.micro_batch import query_id

if TYPE_CHECKING:
    from distributary.kafka_transactions import KafkaMessage, TransactionalWriter

PREFIX = "kafka."
"""What stands before the client library's settings among the options of a sink."""
TRIES = 3
"""Times that a transaction is begun before the batch fails."""
MISSING = "[sink] exactly_once: needs confluent-kafka at the driver: pip install 'distributary[kafka]'"


@dataclass
class _OpenWriter:
    """A writer, and the batches that Kafka has: those below a number."""

    writer: TransactionalWriter
    place: int = 0


_open: dict[str, _OpenWriter] = {}
"""Those of this process, by the id of the query: opening one takes longer than a small batch."""


def write_once(
    messages: DataFrame, options: Mapping[str, str], anchor: str, checkpoint: str, batch: int
) -> None:
    """Write the messages of a batch (`topic`, `key`, `value`), unless Kafka has them; `anchor` is a topic.

    DistributaryError when Kafka does not take them.
    """
    try:
        from distributary.kafka_transactions import KafkaTroubleError
    except ModuleNotFoundError:
        raise DistributaryError(MISSING) from None
    mark, table = query_id(checkpoint), messages.toArrow()
    for attempt in range(1, TRIES + 1):
        try:
            _write(table, options, anchor, mark, batch)
            return
        except KafkaTroubleError as error:
            _open.pop(mark).writer.close()
            if attempt == TRIES:
                raise DistributaryError(f"[sink]: Kafka does not take batch {batch}: {error}") from None


def _write(table: pa.Table, options: Mapping[str, str], anchor: str, mark: str, batch: int) -> None:
    from distributary.kafka_transactions import TransactionalWriter, WrittenPlace

    if mark not in _open:
        connection = {
            name[len(PREFIX) :]: value for name, value in options.items() if name.startswith(PREFIX)
        }
        found = _open[mark] = _OpenWriter(TransactionalWriter(connection, f"distributary-{mark}", anchor))
        written = found.writer.begin()
        found.place = written.place if written is not None and written.mark == mark else 0
    opened = _open[mark]
    if opened.place > batch:
        return
    too_long = opened.writer.write(_Messages(table), WrittenPlace(mark, batch + 1), whole=True)
    if too_long:
        row = table.take(too_long[:1]).to_pylist()[0]
        raise DistributaryError(
            f"[sink]: Kafka takes no message of {len(row['value']):,} characters, and batch {batch} has one"
            f" for {row['key']!r}; let it take longer ones (max.message.bytes, kafka.message.max.bytes)"
        )
    opened.place = batch + 1


class _Messages:
    """The messages of a table, which may be iterated more than once."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __iter__(self) -> Iterator[KafkaMessage]:
        from distributary.kafka_transactions import KafkaMessage

        for rows in self._table.to_batches():
            columns = (rows.column(name).to_pylist() for name in ("topic", "value", "key"))
            for topic, value, key in zip(*columns, strict=True):
                yield KafkaMessage(topic, value.encode(), key.encode())

"""Committing a micro-batch: what its tasks have staged becomes its outputs, and last comes its record.

The job of a micro-batch leaves receipts (see `staging` for the whole way). Rules: every output of files is
idempotent by batch id, so a batch that is done again, or was half committed before, leaves the same; the
record comes last, so a batch that has one is complete everywhere, and is not written again. Tables get each
batch in one transaction, which knows its number, and Kafka may. All other sinks that are not files get
appended rows, which a repeated batch repeats: their deliveries carry the batch id to tell.

`BatchWriter` holds configuration only: on Spark Connect it is pickled and runs at the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from distributary.spark.micro_batch import instant_of, query_id, tagging
from distributary.spark.pipeline.commits import BatchRecord, read_record, write_record
from distributary.spark.pipeline.config import Pipeline, derived_in
from distributary.spark.pipeline.deliveries import write_deliveries
from distributary.spark.pipeline.derived import published_topics
from distributary.spark.pipeline.metrics import write_matching, write_operators
from distributary.spark.pipeline.outputs import put_in_place
from distributary.spark.pipeline.receipts import FlowCount, Receipt, whole_batch
from distributary.spark.pipeline.staging import ARCHIVE, DERIVED_ITEMS, QUARANTINE, Staging
from distributary.spark.pipeline.tolerance_memory import (
    MEMORY,
    memory_in,
    put_memory_in_place,
    remove_old_memory,
)
from distributary.spark.rows import EVENT, MATCH, REJECTED


@dataclass(frozen=True)
class BatchWriter:
    """What `foreachBatch` calls with the receipts of a micro-batch and its id."""

    pipeline: Pipeline
    staging: Staging
    deliveries: StructType
    """The columns of deliveries."""

    @cached_property
    def operators(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """The streams of queries, each with its kind and the streams it is made of."""
        streams: dict[str, tuple[str, tuple[str, ...]]] = {}
        if self.pipeline.queries is not None:
            streams |= dict.fromkeys(self.pipeline.queries.sources, ("source", ()))
            for each in self.pipeline.queries.operators:
                streams |= dict.fromkeys(each.streams, (each.operation.kind, each.inputs))
        return streams

    def __call__(self, receipts: DataFrame, batch: int) -> None:
        """Have the tasks of a batch do their part, and commit it; what it wrote before is replaced."""
        if is_remote():
            # At a Connect server these jobs do not belong to the stream unless they are told so.
            with tagging(receipts.sparkSession, query_id(self.pipeline.checkpoint), batch):
                self._write_all(receipts, batch)
        else:
            self._write_all(receipts, batch)

    def _write_all(self, receipts: DataFrame, batch: int) -> None:
        started, instant = datetime.now(UTC), instant_of(self.pipeline.checkpoint, batch)
        # This computes every partition, which stateful operators rely on.
        receipt = whole_batch(Receipt.from_json(row[0]) for row in receipts.collect())
        try:
            if not self._is_recorded(batch, instant):
                self._commit(receipts.sparkSession, receipt, batch, started, instant)
        finally:
            self.staging.clear()

    def _is_recorded(self, batch: int, instant: datetime) -> bool:
        """Whether this very batch has its record already: it was done but for Spark's own note of that."""
        try:
            return read_record(self.pipeline.commits, batch).instant == instant
        except FileNotFoundError:
            return False

    def _commit(
        self, spark: SparkSession, receipt: Receipt, batch: int, started: datetime, instant: datetime
    ) -> None:
        given, flows = self.pipeline, receipt.flows
        # Topics with no items are there too if any stream had items.
        topics = published_topics(given.queries) if given.queries and flows else {}
        published = {topic: flows.get(stream, FlowCount()).items for stream, topic in topics.items()}
        events, matches = receipt.rows.get(EVENT, 0), receipt.rows.get(MATCH, 0)
        delivered, memory = 0, receipt.of(MEMORY)
        put_memory_in_place(memory, memory_in(given.checkpoint), batch)
        if matches:
            delivered = write_deliveries(spark, receipt, given.sink, batch, self.deliveries, given.checkpoint)
        self._put_files(receipt, batch)
        if given.metrics and (events or matches or published):
            named = self.staging.topic is not None
            write_matching(receipt, given.metrics, batch, events, published, named)
        if given.metrics and flows:
            write_operators(flows, self.operators, given.metrics, batch)
        record = BatchRecord(
            batch,
            receipt.version,
            events,
            matches,
            delivered,
            receipt.rows.get(REJECTED, 0),
            started,
            datetime.now(UTC),
            receipt.latest_time,
            derived=sum(flow.items for name, flow in flows.items() if self.operators[name][1]),
            published=sum(published.values()),
            late=sum(flow.late for flow in flows.values()),
            instant=instant,
        )
        write_record(given.commits, record)
        remove_old_memory(memory, memory_in(given.checkpoint), batch)

    def _put_files(self, receipt: Receipt, batch: int) -> None:
        """Put all files in place whose rows are as they were staged."""
        archive = self.pipeline.archive
        places = {ARCHIVE: archive, DERIVED_ITEMS: derived_in(archive)} if archive else {}
        places[QUARANTINE] = self.pipeline.quarantine
        for output, place in places.items():
            files = receipt.of(output)
            if files:
                put_in_place(files, place, batch)

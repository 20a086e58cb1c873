"""Writing a micro-batch of tagged rows: deliveries, archive, quarantine, metrics, last the batch's record.

Rules: every output of files is idempotent by batch id (`batch=<id>` is overwritten), so a batch that is done
again, or was half done before, leaves the same; the rows are computed once and kept until all is written; the
record of the batch comes last, so a batch that has one is complete everywhere. Sinks that are not files get
appended rows, which a repeated batch repeats: their deliveries carry the batch id to tell.

`BatchWriter` holds configuration only: on Spark Connect it is pickled and runs at the server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.utils import is_remote

from distributary.spark.columns import quoted
from distributary.spark.micro_batch import instant_of, query_id, tagging
from distributary.spark.pipeline.commits import BatchRecord, write_record
from distributary.spark.pipeline.config import Pipeline, derived_in
from distributary.spark.pipeline.deliveries import deliveries, write_deliveries
from distributary.spark.pipeline.derived import published_topics
from distributary.spark.pipeline.metrics import FlowCount, flow_counts, write_matching, write_operators
from distributary.spark.pipeline.outputs import write_batch
from distributary.spark.rows import DERIVED, EVENT, MATCH, REJECTED


@dataclass(frozen=True)
class BatchWriter:
    """What `foreachBatch` calls with the tagged rows of a micro-batch and its id."""

    pipeline: Pipeline
    topic: str | None = None
    """The column of `event` that holds the topic, if there is one."""
    clock: str | None = None
    """The order column, if it holds times."""

    @cached_property
    def operators(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """The streams of queries, each with its kind and the streams it is made of."""
        streams: dict[str, tuple[str, tuple[str, ...]]] = {}
        if self.pipeline.queries is not None:
            streams |= dict.fromkeys(self.pipeline.queries.sources, ("source", ()))
            for each in self.pipeline.queries.operators:
                streams |= dict.fromkeys(each.streams, (each.operation.kind, each.inputs))
        return streams

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Write the rows of a batch and then its record; what the batch wrote before is replaced."""
        if is_remote():
            # At a Connect server these jobs do not belong to the stream unless they are told so.
            with tagging(rows.sparkSession, query_id(self.pipeline.checkpoint), batch):
                self._write_all(rows, batch)
        else:
            self._write_all(rows, batch)

    def _write_all(self, rows: DataFrame, batch: int) -> None:
        started, instant = datetime.now(UTC), instant_of(self.pipeline.checkpoint, batch)
        tagged = rows.persist()
        try:
            counted = self._counted(tagged, batch, started)
            flows = flow_counts(tagged) if self.operators else {}
            # Topics with no items are there too if any stream had items.
            topics = published_topics(self.pipeline.queries) if self.pipeline.queries and flows else {}
            published = {topic: flows.get(stream, FlowCount()).items for stream, topic in topics.items()}
            delivered = self._write(tagged, counted, published)
            if self.pipeline.metrics and flows:
                write_operators(tagged.sparkSession, flows, self.operators, self.pipeline.metrics, batch)
        finally:
            tagged.unpersist()
        record = replace(
            counted,
            deliveries=delivered,
            finished=datetime.now(UTC),
            derived=sum(flow.items for name, flow in flows.items() if self.operators[name][1]),
            published=sum(published.values()),
            late=sum(flow.late for flow in flows.values()),
            instant=instant,
        )
        write_record(self.pipeline.commits, record)

    def _counted(self, tagged: DataFrame, batch: int, started: datetime) -> BatchRecord:
        """The record of a batch with its events, matches and rejections counted, and nothing written yet.

        This computes every partition, which stateful operators rely on.
        """
        clock = F.lit(None)
        if self.clock:
            clock = F.unix_micros(F.col(f"event.{quoted(self.clock)}").cast("timestamp"))
        counted = tagged.groupBy("kind").agg(
            F.count(F.lit(1)).alias("rows"), F.max("version").alias("version"), F.max(clock).alias("latest")
        )
        kinds = {row["kind"]: row for row in counted.collect()}
        rows = Counter({kind: row["rows"] for kind, row in kinds.items()})
        versions = [row["version"] for row in kinds.values() if row["version"] is not None]
        latest = kinds[EVENT]["latest"] if EVENT in kinds else None
        moment = None if latest is None else datetime.fromtimestamp(latest / 1e6, UTC)
        counts = rows[EVENT], rows[MATCH], 0, rows[REJECTED]
        return BatchRecord(batch, max(versions, default=None), *counts, started, started, moment)

    def _write(self, tagged: DataFrame, counted: BatchRecord, published: Mapping[str, int]) -> int:
        """Write all there is; returns the number of deliveries."""
        given, batch, delivered, items = self.pipeline, counted.batch, 0, sum(published.values())
        if counted.matches:
            found = deliveries(tagged.where(_is(MATCH)), given.sink.columns)
            delivered = write_deliveries(found, given.sink, batch, counted.matches)
        if given.archive and counted.events:
            events = tagged.where(_is(EVENT)).select("event.*")
            write_batch(events, given.archive, batch, rows=counted.events)
        if given.archive and items:
            derived = tagged.where(_is(DERIVED)).select("derived.*")
            write_batch(derived, derived_in(given.archive), batch, rows=items)
        if counted.rejected:
            write_batch(_rejected(tagged), given.quarantine, batch, rows=counted.rejected)
        if given.metrics and (counted.events or counted.matches or published):
            write_matching(tagged, given.metrics, batch, self.topic, counted.events, published)
        return delivered


def _rejected(tagged: DataFrame) -> DataFrame:
    """What goes to the quarantine; its record is the raw text where that could not be read."""
    return tagged.where(_is(REJECTED)).select("event_id", "field", "reason", "record", "place")


def _is(kind: str) -> Column:
    return F.col("kind") == kind

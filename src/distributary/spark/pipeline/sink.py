"""Writing a micro-batch of tagged rows: deliveries, archive, quarantine, metrics, last the batch's record.

Rules: every output of files is idempotent by batch id (`batch=<id>` is overwritten), so a batch that is done
again, or was half done before, leaves the same; the rows are computed once and kept until all is written; the
record of the batch comes last, so a batch that has one is complete everywhere. Sinks that are not files get
appended rows, which a repeated batch repeats: their deliveries carry the batch id to tell.

`BatchWriter` holds configuration only: on Spark Connect it is pickled and runs at the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.utils import is_remote

from distributary.spark.pipeline.archive import write_archive, write_derived
from distributary.spark.pipeline.commits import BatchRecord, query_id, write_record
from distributary.spark.pipeline.config import UNREADABLE, Sink
from distributary.spark.pipeline.deliveries import deliveries, write_deliveries
from distributary.spark.pipeline.delivery_files import write_batch
from distributary.spark.pipeline.metrics import Flow, flow_counts, write_metrics, write_operator_metrics
from distributary.spark.pipeline.micro_batch import tagging
from distributary.spark.rows import DERIVED


@dataclass(frozen=True)
class BatchWriter:
    """What `foreachBatch` calls with the tagged rows of a micro-batch and its id."""

    sink: Sink
    quarantine: str
    commits: str
    checkpoint: str
    archive: str | None = None
    metrics: str | None = None
    topic: str | None = None
    """The column of `event` that holds the topic, if there is one."""
    clock: str | None = None
    """The order column, if it holds times."""
    operators: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """The streams of queries: of what kind each is, and of which streams it is made."""
    published: Mapping[str, str] = field(default_factory=dict)
    """Those of them that are published, with their topics."""

    def __call__(self, rows: DataFrame, batch: int) -> None:
        if is_remote():
            # At a Connect server these jobs do not belong to the stream unless they are told so.
            with tagging(rows.sparkSession, query_id(self.checkpoint), batch):
                self._write_all(rows, batch)
        else:
            self._write_all(rows, batch)

    def _write_all(self, rows: DataFrame, batch: int) -> None:
        started = datetime.now(UTC)
        tagged = rows.persist()
        try:
            totals = self._totals(tagged)
            flows = flow_counts(tagged) if self.operators else {}
            published = self._published(flows)
            delivered = self._write(tagged, batch, totals, published)
            if self.metrics and flows:
                write_operator_metrics(tagged.sparkSession, flows, self.operators, self.metrics, batch)
        finally:
            tagged.unpersist()
        record = BatchRecord(
            batch=batch,
            version=totals.version,
            events=totals.events,
            matches=totals.matches,
            deliveries=delivered,
            rejected=totals.rejected,
            started=started,
            finished=datetime.now(UTC),
            latest=totals.latest,
            derived=sum(flow.items for name, flow in flows.items() if self.operators[name][1]),
            published=sum(published.values()),
            late=sum(flow.late for flow in flows.values()),
        )
        write_record(self.commits, record)

    def _totals(self, tagged: DataFrame) -> Totals:
        """Count the rows of each kind. This computes every partition, which stateful operators rely on."""
        clock = F.unix_micros(F.col(f"event.`{self.clock}`").cast("timestamp")) if self.clock else F.lit(None)
        counted = tagged.groupBy("kind").agg(
            F.count(F.lit(1)).alias("rows"), F.max("version").alias("version"), F.max(clock).alias("latest")
        )
        return Totals.of({row["kind"]: row.asDict() for row in counted.collect()})

    def _published(self, flows: Mapping[str, Flow]) -> dict[str, int]:
        """How many items each topic of queries had; none of them is left out where any stream had some."""
        if not flows:
            return {}
        return {topic: flows.get(stream, Flow()).items for stream, topic in self.published.items()}

    def _write(self, tagged: DataFrame, batch: int, totals: Totals, derived: Mapping[str, int]) -> int:
        """Write all there is; returns the number of deliveries."""
        delivered = 0
        if totals.matches:
            found = deliveries(tagged.where(_is("match")), self.sink.columns)
            delivered = write_deliveries(found, self.sink, batch, totals.matches)
        if self.archive and totals.events:
            write_archive(tagged.where(_is("event")), self.archive, batch, totals.events)
        if self.archive and any(derived.values()):
            rows = sum(derived.values())
            write_derived(tagged.where(_is(DERIVED)), self.archive, batch, rows)
        if totals.rejected:
            write_batch(rejected(tagged), self.quarantine, batch, rows=totals.rejected)
        if self.metrics and (totals.events or totals.matches or derived):
            write_metrics(tagged, self.metrics, batch, self.topic, totals.events, derived)
        return delivered


@dataclass(frozen=True, slots=True)
class Totals:
    """What there is in a micro-batch."""

    events: int
    matches: int
    rejected: int
    version: int | None
    latest: datetime | None

    @classmethod
    def of(cls, kinds: dict[str, dict[str, Any]]) -> Totals:
        def rows(kind: str) -> int:
            return int(kinds.get(kind, {}).get("rows", 0))

        def greatest(name: str) -> int | None:
            return max((one[name] for one in kinds.values() if one[name] is not None), default=None)

        latest = kinds.get("event", {}).get("latest")
        return cls(
            events=rows("event"),
            matches=rows("match"),
            rejected=rows("rejected"),
            version=greatest("version"),
            latest=None if latest is None else datetime.fromtimestamp(latest / 1e6, UTC),
        )


def rejected(tagged: DataFrame) -> DataFrame:
    """What goes to the quarantine; its record is the raw text where that could not be read."""
    raw = F.get_json_object("record", f"$.{UNREADABLE}")
    return tagged.where(_is("rejected")).select(
        "event_id", "field", "reason", F.coalesce(raw, "record").alias("record")
    )


def _is(kind: str) -> Column:
    return F.col("kind") == kind

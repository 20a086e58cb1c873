"""The metrics of a pipeline: how many events each topic had and how many matched, by batch, as Parquet.

Tables below one path, joined by `batch`:

- `topics/batch=<id>`: topic, events, matches, selectivity (matches an event); the items of a stream that
  queries publish are the events of its topic;
- `subscriptions/batch=<id>`: subscription_id, subscriber, events (all of the batch), matches, selectivity
  (the share of events that matched); a subscription that matched nothing in a batch has no row there;
- `operators/batch=<id>`, with queries: stream (a source, or `query.operator`), kind, items, bytes, inputs
  (the items of the streams it is made of), selectivity (items an input; windows answer to inputs of earlier
  batches, so take sums over many), late;
- `batches/<id>.json`: the record of the batch with its times (see `commits`).

`read_metrics` puts the times to the counts, from which rates follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.spark.columns import quoted
from distributary.spark.pipeline.outputs import read_batches, write_batch
from distributary.spark.rows import EVENT, FLOW, MATCH

OPERATORS = "stream STRING, kind STRING, items LONG, bytes LONG, inputs LONG, selectivity DOUBLE, late LONG"
TIMES = "batch LONG, started TIMESTAMP, finished TIMESTAMP"
"""The columns that are read of the records of batches."""


def write_matching(
    tagged: DataFrame, path: str, batch: int, topic: str | None, events: int, derived: Mapping[str, int]
) -> None:
    """Write what the tagged rows of a batch, with so many events, say about topics and subscriptions.

    `derived` tells of how many items the topics of queries had.
    """
    write_batch(_topic_metrics(tagged, topic, derived), f"{path}/topics", batch, rows=1)
    write_batch(_subscription_metrics(tagged, events), f"{path}/subscriptions", batch, rows=1)


def _topic_metrics(tagged: DataFrame, topic: str | None, derived: Mapping[str, int]) -> DataFrame:
    """The events and matches of each topic; null stands for events without one.

    Where events have no topics at all, derived items are not told apart from them.
    """
    name = F.lit(None).cast("string") if topic is None else F.col(f"event.{quoted(topic)}")
    counted = (
        tagged.where(F.col("kind").isin(EVENT, MATCH))
        .groupBy(name.alias("topic"))
        .agg(_count(EVENT).alias("events"), _count(MATCH).alias("matches"))
    )
    if topic is not None and derived:
        rows = [(name, items, 0) for name, items in derived.items()]
        items = tagged.sparkSession.createDataFrame(rows, "topic STRING, events LONG, matches LONG")
        sums = (F.sum(name).alias(name) for name in ("events", "matches"))
        counted = counted.unionByName(items).groupBy("topic").agg(*sums)
    return counted.withColumn("selectivity", F.try_divide("matches", "events"))


def _subscription_metrics(tagged: DataFrame, events: int) -> DataFrame:
    """The matches of each subscription that had any, among so many events."""
    matches = tagged.where(F.col("kind") == MATCH).groupBy("subscription_id", "subscriber")
    counted = matches.agg(F.lit(events).cast("long").alias("events"), F.count(F.lit(1)).alias("matches"))
    return counted.withColumn("selectivity", F.try_divide("matches", "events"))


@dataclass(frozen=True, slots=True)
class FlowCount:
    """What a stream of queries had in a batch."""

    items: int = 0
    bytes: int = 0
    late: int = 0


def flow_counts(tagged: DataFrame) -> dict[str, FlowCount]:
    """What each stream of queries that had anything had in a batch."""
    counted = tagged.where(F.col("kind") == FLOW).groupBy("stream")
    totals = counted.agg(*(F.sum(name).alias(name) for name in ("items", "bytes", "late")))
    return {row["stream"]: FlowCount(row["items"], row["bytes"], row["late"]) for row in totals.collect()}


def write_operators(
    spark: SparkSession,
    flows: Mapping[str, FlowCount],
    operators: Mapping[str, tuple[str, tuple[str, ...]]],
    path: str,
    batch: int,
) -> None:
    """Write what each stream of queries had in a batch; `operators` tells of which streams each is made."""
    rows = []
    for stream, (kind, inputs) in operators.items():
        flow = flows.get(stream, FlowCount())
        given = sum(flows.get(name, FlowCount()).items for name in inputs)
        selectivity = flow.items / given if given else None
        rows.append((stream, kind, flow.items, flow.bytes, given, selectivity, flow.late))
    write_batch(spark.createDataFrame(rows, OPERATORS), f"{path}/operators", batch, rows=len(rows))


def read_metrics(
    spark: SparkSession, path: str, of: Literal["topics", "subscriptions", "operators"] = "topics"
) -> DataFrame:
    """The counts of finished batches with their times: `started`, `finished` and the `seconds` between."""
    times = spark.read.schema(TIMES).json(f"{path}/batches")
    seconds = (F.unix_micros("finished") - F.unix_micros("started")) / 1e6
    return read_batches(spark, f"{path}/{of}").join(times.withColumn("seconds", seconds), "batch")


def _count(kind: str) -> Column:
    return F.count(F.when(F.col("kind") == kind, 1))

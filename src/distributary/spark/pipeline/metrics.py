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

from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.spark import storage
from distributary.spark.pipeline.outputs import read_batches, write_table
from distributary.spark.pipeline.receipts import FlowCount, Receipt, StagedFile
from distributary.spark.pipeline.staging import SUBSCRIPTIONS, TOPICS, added_up

TOPIC_COUNTS = pa.schema([("topic", pa.string()), ("events", pa.int64()), ("matches", pa.int64())])
SUBSCRIPTION_COUNTS = pa.schema(
    [("subscription_id", pa.string()), ("subscriber", pa.string()), ("matches", pa.int64())]
)
OPERATORS = pa.schema(
    [
        ("stream", pa.string()),
        ("kind", pa.string()),
        ("items", pa.int64()),
        ("bytes", pa.int64()),
        ("inputs", pa.int64()),
        ("selectivity", pa.float64()),
        ("late", pa.int64()),
    ]
)
TIMES = "batch LONG, started TIMESTAMP, finished TIMESTAMP"
"""The columns that are read of the records of batches."""


def write_matching(
    receipt: Receipt, path: str, batch: int, events: int, derived: Mapping[str, int], topics: bool
) -> None:
    """Write what the tasks of a batch, with so many events, have counted by topic and by subscription.

    `derived` tells of how many items the topics of queries had. Where events have no `topics` at all,
    derived items are not told apart from them.
    """
    rows = [{"topic": name, "events": items, "matches": 0} for name, items in derived.items() if topics]
    found = [*_staged(receipt.of(TOPICS), TOPIC_COUNTS), pa.Table.from_pylist(rows, TOPIC_COUNTS)]
    counted = added_up(pa.concat_tables(found), ["topic"])
    write_table(_with_selectivity(counted), f"{path}/topics", batch)
    found = [*_staged(receipt.of(SUBSCRIPTIONS), SUBSCRIPTION_COUNTS), SUBSCRIPTION_COUNTS.empty_table()]
    counted = added_up(pa.concat_tables(found), ["subscription_id", "subscriber"])
    of_all = pa.repeat(pa.scalar(events, pa.int64()), counted.num_rows)
    write_table(_with_selectivity(counted.add_column(2, "events", of_all)), f"{path}/subscriptions", batch)


def _staged(files: Sequence[StagedFile], schema: pa.Schema) -> list[pa.Table]:
    return [storage.read_table(one.location).select(schema.names).cast(schema) for one in files]


def _with_selectivity(counted: pa.Table) -> pa.Table:
    """Counts with how many matches there are to an event; null where there is no event."""
    events = counted["events"].cast(pa.float64())
    some = pc.if_else(pc.equal(events, 0), pa.scalar(None, pa.float64()), events)
    return counted.append_column("selectivity", pc.divide(counted["matches"].cast(pa.float64()), some))


def write_operators(
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
    told = [dict(zip(OPERATORS.names, row, strict=True)) for row in rows]
    write_table(pa.Table.from_pylist(told, OPERATORS), f"{path}/operators", batch)


def read_metrics(
    spark: SparkSession, path: str, of: Literal["topics", "subscriptions", "operators"] = "topics"
) -> DataFrame:
    """The counts of finished batches with their times: `started`, `finished` and the `seconds` between."""
    times = spark.read.schema(TIMES).json(f"{path}/batches")
    seconds = (F.unix_micros("finished") - F.unix_micros("started")) / 1e6
    return read_batches(spark, f"{path}/{of}").join(times.withColumn("seconds", seconds), "batch")

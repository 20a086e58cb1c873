"""Deliveries: an event handed once to each subscriber, however many of their subscriptions match it.

All matches of an event come from one micro-batch, so a stream needs no state for this: matches are brought
together by event and made one within the micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from distributary.errors import DistributaryError
from distributary.spark.columns import quoted
from distributary.spark.grouped import grouped_table
from distributary.spark.rows import Batches
from distributary.spark.workers import map_in_arrow

MATCH_COLUMNS = ("event_id", "subscription_id", "subscriber")


def deliver(matches: DataFrame) -> DataFrame:
    """One row for each event and subscriber: event_id, subscriber, subscriptions, and what matches carry.

        deliver(match(events, subscriptions)).show()     # e1, ann, [s1, s4]

    `matches` is what `match` gave, batch or stream; `subscriptions` lists the ids that asked, sorted. The
    matches are shuffled once by event. Other columns than those of `match` raise `DistributaryError`.
    """
    for name in MATCH_COLUMNS:
        if name not in matches.columns:
            raise DistributaryError(f"matches need a column {name!r}; give what match(...) returned")
    carried = [field for field in matches.schema if field.name not in MATCH_COLUMNS]
    if matches.isStreaming:
        keys = [matches.schema["event_id"], matches.schema["subscriber"]]
        asked = StructField("subscriptions", ArrayType(StringType()))
        schema = StructType([*keys, asked, *carried])
        task = _DeliverTask(tuple(field.name for field in carried))
        return map_in_arrow(matches.repartition("event_id"), task.run, schema)
    names = [field.name for field in carried]
    return grouped_matches(matches, ("event_id", "subscriber"), F.col("subscription_id"), names)


def grouped_matches(
    matches: DataFrame, keys: Sequence[str], subscription_id: Column, carried: Sequence[str]
) -> DataFrame:
    """One row for each group of matches: the keys, subscriptions (ids, sorted), and the columns carried."""
    return matches.groupBy(*keys).agg(
        F.sort_array(F.collect_set(subscription_id)).alias("subscriptions"),
        *(F.first(quoted(name)).alias(name) for name in carried),
    )


@dataclass(frozen=True)
class _DeliverTask:
    """Makes one row of the matches of an event and a subscriber, for a task that has them all."""

    carried: tuple[str, ...]

    def run(self, batches: Batches) -> Batches:
        found = list(batches)
        if found:
            yield from grouped_table(pa.Table.from_batches(found), self.carried).to_batches()

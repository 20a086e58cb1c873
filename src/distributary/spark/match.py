"""Match a DataFrame of events, batch or stream, against standing subscriptions: one row a match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from distributary.quarantine import Rejection
from distributary.spark.columns import EventColumns
from distributary.spark.index.bases import CAPACITY, Strategy
from distributary.spark.index.dataflow import dataflow
from distributary.spark.index.subscribed import Subscribed, parts_for
from distributary.spark.rows import MatchRows, rejection_of
from distributary.store import SubscriptionStore


def match(
    events: DataFrame,
    subscriptions: DataFrame | SubscriptionStore | str,
    *,
    id: str = "id",
    topic: str = "topic",
    document: str = "document",
    order: str | None = None,
    carry: Sequence[str] = (),
    tolerances: bool = True,
    strategy: Strategy = "auto",
    capacity: int = CAPACITY,
    version: int | None = None,
    workspace: str | None = None,
    rejected: list[Rejection] | None = None,
    strict: bool = False,
) -> DataFrame:
    """Every match of events and subscriptions: event_id, subscription_id, subscriber, and `carry`.

    `events` is a batch or a stream. Every column but those named by `id`, `topic` and `document` is an
    attribute; the fields of a struct have dotted names. `carry` lists columns of the events to have in the
    result. Malformed events match nothing; the function `rejected` shows them.

    `subscriptions` is a DataFrame (id, subscriber, topic, where, path, change), which is read once, or a
    subscription store or its location, which a stream follows: a change takes effect with the next
    micro-batch. Outside a stream `version` says which version to use (default: the newest). A malformed
    subscription is left out, told to the log and added to `rejected`; `strict` raises instead.

    Subscriptions with a tolerance (`change`) see the events of each topic in the order of the column `order`,
    which must be named if there are any; `tolerances=False` leaves these subscriptions out.

    `strategy` "index" has every worker open all subscriptions, "rendezvous" brings each event to the parts
    that hold about `capacity` of them, "auto" chooses by their number. `workspace` is a directory that all
    machines see, for what is built from the subscriptions; without one Spark ships it to the executors.
    """
    columns = EventColumns(id, topic, document, order)
    columns.check(events.schema)
    columns.check_carried(events.schema, carry)
    parts, tolerant = parts_for(
        events,
        subscriptions,
        columns,
        Subscribed(tolerances, strategy, capacity, version, workspace, strict),
        [] if rejected is None else rejected,
    )
    return dataflow(events, parts, columns, MatchRows(tuple(carry)), tolerant)


def rejected(
    events: DataFrame,
    *,
    id: str = "id",
    topic: str = "topic",
    document: str = "document",
    order: str | None = None,
) -> DataFrame:
    """The malformed events, which match nothing: event_id, field, reason, record."""
    columns = EventColumns(id, topic, document, order)
    columns.check(events.schema)
    return events.mapInArrow(
        RejectTask(columns).run, "event_id string, field string, reason string, record string"
    )


@dataclass(frozen=True)
class RejectTask:
    """Finds the malformed events."""

    columns: EventColumns

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            events = self.columns.batch(batch)
            rows = sorted(events.rejected)
            found = [rejection_of(pa.table(batch), events, row) for row in rows]
            yield pa.RecordBatch.from_arrays(
                [
                    events.ids.take(pa.array(np.array(rows, np.int64))).cast(pa.string()),
                    pa.array([one.field for one in found], pa.string()),
                    pa.array([one.reason for one in found], pa.string()),
                    pa.array([one.record for one in found], pa.string()),
                ],
                ["event_id", "field", "reason", "record"],
            )

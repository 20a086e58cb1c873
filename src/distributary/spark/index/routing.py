"""Everything about the events of a batch or stream in one DataFrame of tagged rows.

`kind` says what a row is: a match, a malformed event that was set aside, or an event itself, for those who
keep them. A pipeline writes each kind to its place without computing anything twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from distributary.spark.columns import EventColumns
from distributary.spark.index.bases import CAPACITY, Strategy
from distributary.spark.index.dataflow import dataflow
from distributary.spark.index.subscribed import Subscribed, parts_for
from distributary.spark.rows import TaggedRows
from distributary.store import SubscriptionStore


def routed(
    events: DataFrame,
    subscriptions: DataFrame | SubscriptionStore | str,
    *,
    columns: EventColumns,
    keep_events: bool | Sequence[str] = False,
    carry: Sequence[str] = (),
    tolerances: bool = True,
    strategy: Strategy = "auto",
    capacity: int = CAPACITY,
    version: int | None = None,
    workspace: str | None = None,
) -> DataFrame:
    """Tagged rows: kind, event_id, subscription_id, subscriber, field, reason, record, event, version.

    `event` is a struct of the event's columns: matches have those that `carry` names, and with `keep_events`
    there is a row of kind "event" for every well-formed event, with all columns or those named.
    """
    columns.check(events.schema)
    columns.check_carried(events.schema, carry)
    bare = [name for name in events.schema.names if name != columns.corrupt]
    kept = bare if keep_events is True else list(keep_events or ())
    columns.check_carried(events.schema, kept)
    inner = [name for name in bare if name in kept or name in carry] or [columns.id]
    parts, tolerant = parts_for(
        events, subscriptions, columns, Subscribed(tolerances, strategy, capacity, version, workspace), []
    )
    shape = TaggedRows(tuple(inner), tuple(carry), tuple(kept), keep_events is not False)
    return dataflow(events, parts, columns, shape, tolerant)

"""Registrations over archived events, each confined to the batches it is to see, in one pass.

A live stream gives tolerances the events of a topic by micro-batch, within it by the order column, then by
id; so does the pass. Each registration has a range of batches of its own: its condition is made to hold in
those alone, so its tolerances begin with the first of them and are disturbed by nothing before or after.
Derived items are matched beside the events, as they are live: with tolerances of their own, in the order of
their streams.

Cost: the batches that any registration needs are read and matched once, whatever the number of registrations.
One without a tolerance needs only the batches of which deliveries are wanted; one with a tolerance needs all
from the beginning of its range, for what it was last sent decides what comes next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.errors import InputError
from distributary.model import Subscription
from distributary.quarantine import Rejection, rejection
from distributary.spark.columns import BATCH, EventColumns
from distributary.spark.index.bases import single_part
from distributary.spark.index.dataflow import dataflow
from distributary.spark.pipeline.config import Pipeline
from distributary.spark.queries.matching import ORDER, as_carried, carried_columns
from distributary.spark.replay.history import History, archived_derived, archived_events
from distributary.spark.rows import MatchRows


@dataclass(frozen=True, slots=True)
class Wanted:
    """A subscription and the batches it is to see, from the first of which on its tolerances remember."""

    subscription: Subscription
    batches: range


@dataclass(frozen=True, slots=True)
class Pass:
    """Deliveries, computed when somebody asks for them, and the batches whose events that looks at."""

    deliveries: DataFrame
    looked_at: tuple[int, ...]
    rejected: tuple[Rejection, ...]


def passed(
    spark: SparkSession, pipeline: Pipeline, history: History, wanted: Iterable[Wanted], batches: range
) -> Pass:
    """The deliveries of `batches`: event_id, subscriber, subscriptions, batch, and what the sink carries."""
    needed = [found for one in wanted if (found := _needed(one, batches)).batches]
    rejected: list[Rejection] = []
    if pipeline.events.order is None:
        needed = _without_tolerances(needed, rejected)
    with_events = history.with_events(one.batches for one in needed)
    with_derived = history.with_derived(one.batches for one in needed)
    looked_at = sorted({*with_events, *with_derived})
    events = archived_events(spark, pipeline, with_events)
    named = pipeline.events
    columns = EventColumns(named.id, named.topic, named.document, named.order, micro_batch=BATCH)
    columns.check(events.schema)
    columns.check_carried(events.schema, pipeline.sink.columns)
    refused: list[Rejection] = []
    entries = [(None, _confined(one, number, looked_at)) for number, one in enumerate(needed)]
    built = single_part(spark, entries, None, True, refused)
    rejected += [replace(one, place=f"subscription {one.place.split(' ', 2)[2]}") for one in refused]
    shape = MatchRows((BATCH, *pipeline.sink.columns))
    matches = dataflow(events, built.parts, columns, shape, built.tolerances)
    if with_derived:
        items = archived_derived(spark, pipeline, with_derived)
        shape = MatchRows((BATCH, *carried_columns(pipeline.sink.columns, columns, items.columns)))
        derived = dataflow(items, built.parts, _of_derived(columns), shape, built.tolerances)
        carried = (as_carried(events.schema[name], columns, derived.schema) for name in pipeline.sink.columns)
        matches = matches.union(derived.select(*matches.columns[:3], BATCH, *carried))
    within = matches.where(F.col(BATCH).between(batches.start, batches.stop - 1))
    return Pass(_deliveries(within, pipeline.sink.columns), tuple(looked_at), tuple(rejected))


def _of_derived(columns: EventColumns) -> EventColumns:
    """What the columns of derived items mean, beside those of events: the same as when they came."""
    return EventColumns(order=None if columns.order is None else ORDER, micro_batch=BATCH)


def _without_tolerances(wanted: Iterable[Wanted], rejected: list[Rejection]) -> list[Wanted]:
    """What a pipeline without an order matches: it cannot keep tolerances, and leaves out who has one."""
    kept = []
    for one in wanted:
        if one.subscription.change is None:
            kept.append(one)
        else:
            error = InputError("no tolerance can be kept: the pipeline names no order column", field="change")
            record = repr(one.subscription.to_record())
            rejected.append(rejection(f"subscription {one.subscription.id}", error, record))
    return kept


def _needed(one: Wanted, batches: range) -> Wanted:
    """The batches that a subscription must see for its deliveries of `batches`."""
    first = one.batches.start
    if one.subscription.change is None:
        first = max(first, batches.start)
    end = min(one.batches.stop, batches.stop)
    # Nothing of it is wanted when it ended before they begin.
    return replace(one, batches=range(first, end) if end > batches.start else range(0))


def _confined(one: Wanted, number: int, looked_at: Sequence[int]) -> Subscription:
    """The subscription with an id that no other has, holding in its batches alone."""
    subscription = replace(one.subscription, id=f"{number} {one.subscription.id}")
    if all(batch in one.batches for batch in looked_at):
        return subscription
    confined = f"{BATCH} between {one.batches.start} and {one.batches.stop - 1}"
    where = subscription.where
    return replace(subscription, where=confined if where is None else f"({where}) and {confined}")


def _deliveries(matches: DataFrame, carried: Sequence[str]) -> DataFrame:
    """One row for each batch, event and subscriber, with the subscriptions under their own ids again.

    A source may bring an event again in a later batch; a live stream delivers it again.
    """
    own = F.expr("substring(subscription_id, instr(subscription_id, ' ') + 1)")
    quoted = ["`" + name.replace("`", "``") + "`" for name in carried]
    return (
        matches.withColumnRenamed(BATCH, "batch")
        .groupBy("batch", "event_id", "subscriber")
        .agg(
            F.sort_array(F.collect_set(own)).alias("subscriptions"),
            *(F.first(column).alias(name) for column, name in zip(quoted, carried, strict=True)),
        )
        .select("event_id", "subscriber", "subscriptions", "batch", *quoted)
    )

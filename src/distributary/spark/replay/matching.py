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
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import TimestampNTZType, TimestampType

from distributary.errors import DistributaryError, FilterError, InputError
from distributary.filters.where.filter import WhereFilter
from distributary.model import Subscription
from distributary.quarantine import Rejection, rejection
from distributary.spark.columns import BATCH, EventColumns, quoted
from distributary.spark.deliver import grouped_matches
from distributary.spark.index.build import single_part
from distributary.spark.match import match_with
from distributary.spark.pipeline.config import Pipeline
from distributary.spark.pipeline.derived import ORDER, as_carried, carried_columns
from distributary.spark.replay.history import History, archived_derived, archived_events, with_instants
from distributary.spark.rows import MatchRows
from distributary.spark.tasks import MatchTasks


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A subscription and the batches it is to see, from the first of which on its tolerances remember."""

    subscription: Subscription
    batches: range


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Times of events, by the order column: from `since` on, and before `until`, if these are given."""

    since: datetime | None = None
    until: datetime | None = None

    def column(self, pipeline: Pipeline, events: DataFrame) -> str:
        """The order column; an error if it holds no times."""
        order = pipeline.events.order
        if order is None or not isinstance(events.schema[order].dataType, TimestampType | TimestampNTZType):
            given = "names none" if order is None else f"{order!r} holds none"
            raise DistributaryError(
                f"times of events are those of the order column under [events], which {given}"
            )
        return order

    def those_within(self, rows: DataFrame, column: str) -> DataFrame:
        """The rows with such times."""
        time = F.col(quoted(column)).cast("timestamp")
        if self.since is not None:
            rows = rows.where(time >= F.lit(self.since))
        return rows if self.until is None else rows.where(time < F.lit(self.until))


@dataclass(frozen=True, slots=True)
class ArchivePass:
    """Deliveries, computed when somebody asks for them, and the batches whose events that looks at."""

    deliveries: DataFrame
    looked_at: tuple[int, ...]
    rejected: tuple[Rejection, ...]


def match_archive(
    spark: SparkSession,
    pipeline: Pipeline,
    history: History,
    requests: Iterable[ReplayRequest],
    batches: range,
    times: EventTimes | None = None,
) -> ArchivePass:
    """The deliveries of `batches`: event_id, subscriber, subscriptions, batch, and what the sink carries.

    With `times` only those of events of these times, and none of derived items.
    """
    needed = [found for one in requests if (found := _needed(one, batches)).batches]
    rejected: list[Rejection] = []
    if pipeline.events.order is None:
        needed = _without_tolerances(needed, rejected)
    needed = _with_a_present(needed, history, rejected)
    looks_at_clock = any(map(_looks_at_clock, needed))
    with_events, with_derived = history.filled(one.batches for one in needed)
    looked_at = sorted({*with_events, *with_derived})
    events = archived_events(spark, pipeline, with_events)
    given = pipeline.sink.columns
    carry = given if times is None else (*given, *{times.column(pipeline, events)}.difference(given))
    columns = replace(pipeline.columns, micro_batch=BATCH)
    columns.check(events.schema, carry)
    if looks_at_clock:
        events = with_instants(events, history)
    refused: list[Rejection] = []
    entries = [(None, _confined(one, number, looked_at)) for number, one in enumerate(needed)]
    index = single_part(spark, entries, refused)
    rejected += [replace(one, place=f"subscription {one.place.split(' ', 2)[2]}") for one in refused]
    matches = match_with(MatchTasks(index, columns, MatchRows((BATCH, *carry))), events)
    if with_derived:
        items = archived_derived(spark, pipeline, with_derived)
        if looks_at_clock:
            items = with_instants(items, history)
        rows = MatchRows((BATCH, *carried_columns(carry, columns, items.columns)))
        # What the columns of derived items mean is the same as when they came.
        named = EventColumns(order=None if columns.order is None else ORDER, micro_batch=BATCH)
        derived = match_with(MatchTasks(index, named, rows), items)
        carried = (as_carried(events.schema[name], columns, derived.schema) for name in carry)
        matches = matches.union(derived.select(*matches.columns[:3], BATCH, *carried))
    within = matches.where(F.col(BATCH).between(batches.start, batches.stop - 1))
    if times is not None:
        within = times.those_within(within, times.column(pipeline, events))
    return ArchivePass(_deliveries(within, given), tuple(looked_at), tuple(rejected))


def _without_tolerances(requests: Iterable[ReplayRequest], rejected: list[Rejection]) -> list[ReplayRequest]:
    """What a pipeline without an order matches: it cannot keep tolerances, and leaves out who has one."""
    kept = []
    for one in requests:
        if one.subscription.change is None:
            kept.append(one)
        else:
            error = InputError("no tolerance can be kept: the pipeline names no order column", field="change")
            rejected.append(_rejected(one, error))
    return kept


def _with_a_present(
    requests: Iterable[ReplayRequest], history: History, rejected: list[Rejection]
) -> list[ReplayRequest]:
    """The requests without those for which nobody knows any more what `now()` was."""
    kept = []
    for one in requests:
        unknown = history.without_instant(one.batches) if _looks_at_clock(one) else []
        if not unknown:
            kept.append(one)
            continue
        error = InputError(
            f"what now() was in batch {unknown[-1]} is not known: a release wrote it that did not note it; "
            f"begin after that batch, or compare with a time of the event",
            field="where",
        )
        rejected.append(_rejected(one, error))
    return kept


def _looks_at_clock(one: ReplayRequest) -> bool:
    where = one.subscription.where
    try:
        return where is not None and WhereFilter.parse(where).looks_at_clock
    except FilterError:
        return False  # which the index says too, with the reason


def _rejected(one: ReplayRequest, error: InputError) -> Rejection:
    return rejection(f"subscription {one.subscription.id}", error, repr(one.subscription.to_record()))


def _needed(one: ReplayRequest, batches: range) -> ReplayRequest:
    """The batches that a subscription must see for its deliveries of `batches`."""
    first = one.batches.start
    if one.subscription.change is None:
        first = max(first, batches.start)
    end = min(one.batches.stop, batches.stop)
    # Nothing of it is wanted when it ended before they begin.
    return replace(one, batches=range(first, end) if end > batches.start else range(0))


def _confined(one: ReplayRequest, number: int, looked_at: Sequence[int]) -> Subscription:
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
    keys = ("event_id", "subscriber", "batch")
    found = grouped_matches(matches.withColumnRenamed(BATCH, "batch"), keys, own, carried)
    return found.select("event_id", "subscriber", "subscriptions", "batch", *map(quoted, carried))

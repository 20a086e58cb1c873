"""Why events match subscriptions, or do not: the explanations of `Matcher.explain`, made by tasks.

    explain(events, subscriptions, event_ids=["e7"], subscription_ids=["s1"]).show(truncate=False)

The chosen subscriptions make an index of one part. Where none of them has a tolerance, only the chosen events
are read; otherwise all are, by topic and in order, because a tolerance depends on what came before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.errors import DistributaryError, InputError, UnknownSubscriptionError
from distributary.files import subscriptions_to_table
from distributary.filters.kinds import parse_filters
from distributary.matching.batch import EventBatch
from distributary.matching.explain import Explanation, explain_rejected
from distributary.matching.matcher import Matcher
from distributary.model import Subscription
from distributary.quarantine import Rejection
from distributary.spark.columns import EventColumns, quoted
from distributary.spark.index.build import (
    INDEX_LIMIT,
    Subscriptions,
    listed,
    report_rejected,
    single_part,
    with_known_columns,
)
from distributary.spark.index.find import FixedIndex
from distributary.spark.index.parts import accepted
from distributary.spark.index.repeated import table_in_order
from distributary.spark.places import ARRIVAL
from distributary.spark.rows import Batches
from distributary.spark.workers import map_in_arrow
from distributary.store import SubscriptionStore, open_store

REASONS = pa.list_(
    pa.struct({"kind": pa.string(), "filter": pa.string(), "passes": pa.bool_(), "detail": pa.string()})
)
EXPLAINED = pa.schema(
    [
        ("event_id", pa.string()),
        ("subscription_id", pa.string()),
        ("subscriber", pa.string()),
        ("matches", pa.bool_()),
        ("why", REASONS),
    ]
)
EXPLAINED_DDL = (
    "event_id string, subscription_id string, subscriber string, matches boolean, "
    "why array<struct<kind: string, filter: string, passes: boolean, detail: string>>"
)
ROWS_AT_A_TIME = 1_000
"""Explanations that a task makes at a time."""


def explain(
    events: DataFrame,
    subscriptions: Subscriptions,
    *,
    event_ids: Sequence[str | int] | str | None = None,
    subscription_ids: Sequence[str] | str | None = None,
    id: str = "id",
    topic: str = "topic",
    document: str = "document",
    order: str | None = None,
    version: int | None = None,
    workspace: str | None = None,
) -> DataFrame:
    """Why events match subscriptions, or which filters do not let them pass, one row a pair.

        explain(events, subscriptions, event_ids=["e7"], subscription_ids=["s1"])
        explain(events, "store", subscription_ids=["s1"], order="at").where("matches")

    The columns are event_id, subscription_id, subscriber, matches, and why: for each filter its `kind`, the
    `filter` as text, whether it `passes` the event, and a `detail` with what it saw. An event that is
    malformed has one row a subscription, with the reason.

    All pairs of the chosen events and subscriptions are explained; where none are chosen, all are, so choose
    some of one kind at least. The other arguments are those of `match`; `events` is a batch. Subscriptions
    with a tolerance see all events before the chosen ones, in the order of the column `order`.

    A chosen subscription that is not there raises `UnknownSubscriptionError`, a malformed one `InputError`.
    """
    if events.isStreaming:
        raise DistributaryError("a stream cannot be explained; give a batch of events, such as an archive")
    event_ids = [event_ids] if isinstance(event_ids, str) else event_ids
    subscription_ids = [subscription_ids] if isinstance(subscription_ids, str) else subscription_ids
    columns = EventColumns(id, topic, document, order)
    columns.check(events.schema)
    rejected: list[Rejection] = []
    chosen = _chosen(events.sparkSession, subscriptions, subscription_ids, version, workspace, rejected)
    entries = [(None, one) for one in chosen]
    index = single_part(events.sparkSession, entries, rejected, workspace=workspace)
    report_rejected(rejected, strict=False)
    if index.tolerances and order is None:
        raise DistributaryError(
            "some subscriptions have tolerances: name the column that orders the events with order=..., "
            "or choose others with subscription_ids=..."
        )
    wanted = None if event_ids is None else frozenset(map(str, event_ids))
    rows = events.withColumn(ARRIVAL, F.unix_micros(F.current_timestamp()))
    if index.tolerances:
        by = [F.col(quoted(topic))] if topic in events.columns else [F.lit("")]
        rows = rows.repartition(*by).sortWithinPartitions(*map(quoted, columns.ordering))
    elif wanted is not None:
        rows = rows.where(F.col(quoted(id)).cast("string").isin(sorted(wanted)))
    return map_in_arrow(rows, ExplainTask(index, columns, wanted).run, EXPLAINED_DDL)


def _chosen(
    session: SparkSession,
    subscriptions: Subscriptions,
    ids: Sequence[str] | None,
    version: int | None,
    workspace: str | None,
    rejected: list[Rejection],
) -> list[Subscription]:
    """The subscriptions to explain; an error when one of those chosen cannot be."""
    if isinstance(subscriptions, str):
        subscriptions = open_store(subscriptions, workspace=workspace)
    if isinstance(subscriptions, SubscriptionStore):
        table = subscriptions.table(version)
        if ids is not None:
            table = table.filter(pc.is_in(table["id"], pa.array(ids, pa.string())))
    else:
        if not isinstance(subscriptions, DataFrame):
            subscriptions = session.createDataFrame(subscriptions_to_table(listed(subscriptions)))
        given = with_known_columns(subscriptions)
        given = given.limit(INDEX_LIMIT + 1) if ids is None else given.where(F.col("id").isin(list(ids)))
        table = table_in_order(given)
    if len(table) > INDEX_LIMIT:
        raise DistributaryError(
            f"more than {INDEX_LIMIT:,} subscriptions cannot be explained at once: "
            "choose some with subscription_ids=..."
        )
    found = list(accepted(table, rejected))
    for one in ids or ():
        _require_well_formed(one, [each for each in found if each.id == one], rejected)
    return found


def _require_well_formed(
    subscription_id: str, found: Sequence[Subscription], rejected: Sequence[Rejection]
) -> None:
    """Raise an error unless one of the subscriptions that have an id can be read."""
    problem: DistributaryError = UnknownSubscriptionError(subscription_id)
    if not found and rejected:  # all that were read have one of the chosen ids
        problem = DistributaryError(f"cannot explain subscription {subscription_id!r}: {rejected[0]}")
    for each in found:
        try:
            parse_filters(each)
        except InputError as error:
            problem = error
        else:
            return
    raise problem


@dataclass(frozen=True)
class ExplainTask:
    """Explains the chosen events of a task; those before them count for tolerances."""

    index: FixedIndex
    columns: EventColumns
    wanted: frozenset[str] | None
    """The ids of the chosen events; None for all."""

    def run(self, batches: Batches) -> Batches:
        """One row for each chosen event and subscription, in the order of the events, then by id."""
        matcher = self.index.matcher(0, self.index.version())
        subscribers = {one: matcher.subscriber(one) for one in matcher.ids()}
        rows: list[dict[str, Any]] = []
        for found in self._explanations(matcher, list(subscribers), batches):
            rows.append(_row(found, subscribers[found.subscription]))
            if len(rows) == ROWS_AT_A_TIME:
                yield pa.RecordBatch.from_pylist(rows, EXPLAINED)
                rows = []
        if rows:
            yield pa.RecordBatch.from_pylist(rows, EXPLAINED)

    def _explanations(
        self, matcher: Matcher, subscriptions: Sequence[str], batches: Batches
    ) -> Iterator[Explanation]:
        for batch in batches:
            events, seen = self.columns.batch(batch), 0
            for row in self._chosen_rows(events):
                if matcher.has_tolerances and row > seen:
                    matcher.matches(self.columns.batch(batch.slice(seen, row - seen)))
                    seen = row
                yield from explain_row(matcher, events, row, subscriptions)
            if matcher.has_tolerances and events.rows > seen:
                matcher.matches(self.columns.batch(batch.slice(seen)))

    def _chosen_rows(self, events: EventBatch) -> list[int]:
        if self.wanted is None:
            return list(range(events.rows))
        ids = events.ids.cast(pa.string())
        rows: list[int] = pc.indices_nonzero(pc.is_in(ids, pa.array(sorted(self.wanted)))).to_pylist()
        return rows


def explain_row(
    matcher: Matcher, events: EventBatch, row: int, subscriptions: Iterable[str]
) -> Iterator[Explanation]:
    """Why the event in a row of a batch matches subscriptions or does not; malformed, it matches none."""
    problem = events.rejected.get(row)
    if problem is not None:
        for one in subscriptions:
            yield explain_rejected(str(events.ids[row].as_py()), one, problem)
        return
    event = events.event(row)
    for one in subscriptions:
        yield matcher.explain(event, one)


def _row(found: Explanation, subscriber: str) -> dict[str, Any]:
    return {
        "event_id": found.event,
        "subscription_id": found.subscription,
        "subscriber": subscriber,
        "matches": found.matches,
        "why": [asdict(reason) for reason in found.reasons],
    }

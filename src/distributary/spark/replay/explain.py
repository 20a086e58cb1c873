"""Why a pipeline gave an archived event to a subscription, or did not. Reads the archive without a session.

Rules:

- The subscriptions are those of the version that the event's batch used, with tolerances that remember what
  they saw live: the archived events of the topic, by batch, order column and id, from the first batch that
  used the registration on. `now()` is what it was in that batch, or for records of a release that did not
  note it, when the batch started.
- An event that came in several batches is explained in the last of them, unless a batch is named.
- Of a subscriber the registrations that were not live in that batch are told as well.
- An event that is not in the archive and was set aside is an error that says why; so is a batch that
  tolerances need and the archive lacks.

Cost: the batches are read one by one, newest first, until the event is found; Parquet passes over files
and groups of rows that cannot have its id. Where there are tolerances, the batches of their lives are read
again, only the rows of the event's topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from distributary.errors import DistributaryError, UnknownSubscriptionError
from distributary.matching.batch import EventBatch
from distributary.matching.explain import Explanation, Reason, explain_rejected
from distributary.matching.matcher import Matcher, RejectedInput
from distributary.model import Subscription
from distributary.spark import storage
from distributary.spark.columns import EventColumns
from distributary.spark.micro_batch import EPOCH
from distributary.spark.pipeline.commits import BatchRecord
from distributary.spark.pipeline.compacted import compacted_batches
from distributary.spark.pipeline.config import Pipeline, derived_in
from distributary.spark.pipeline.derived import ORDER
from distributary.spark.pipeline.outputs import complete_batches
from distributary.spark.places import ARRIVAL
from distributary.spark.replay.history import (
    MICROSECOND,
    History,
    archived_batches,
    require_archived,
)
from distributary.spark.replay.replay import lives_of
from distributary.store import Life
from distributary.store.columns import ROW_BITS


@dataclass(frozen=True, slots=True)
class ArchivedExplanation:
    """Why an archived event matched a subscription in its batch, or did not."""

    batch: int
    version: int
    subscriber: str
    explanation: Explanation

    def __str__(self) -> str:
        return f"batch {self.batch}, version {self.version} of the subscriptions: {self.explanation}"


@dataclass(frozen=True)
class _Archived:
    """One kind of archived rows, and the event that was found among them."""

    path: str
    columns: EventColumns
    batches: tuple[int, ...]
    """Those that have such rows and are finished, in order."""
    filled: frozenset[int]
    """Those that had such rows when they were finished."""

    def rows(self, batch: int, chosen: dataset.Expression | None) -> pa.Table:
        """Rows of a batch."""
        together = compacted_batches(self.path).get(batch)
        if together is None:
            return storage.read_parquet(f"{self.path}/batch={batch}", chosen)
        own = dataset.field("batch") == batch
        found = storage.read_parquet(together, own if chosen is None else own & chosen)
        return found.drop_columns(["batch"])

    def with_id(self, batch: int, event: str) -> pa.Table:
        """The rows of an event, of which there may be several."""
        return self.rows(batch, dataset.field(self.columns.id).cast(pa.string()) == event)

    def of_topic(self, batch: int, topic: str | None, found: pa.Table) -> pa.Table:
        """The rows of a batch in the order in which tolerances see them."""
        name = self.columns.topic
        if name in found.schema.names:
            field = dataset.field(name)
            try:
                rows = self.rows(batch, field.is_null() if topic is None else field == topic)
            except pa.ArrowInvalid:  # the batch is older than the column
                rows = self.rows(batch, None) if topic is None else found.slice(0, 0)
        else:
            rows = self.rows(batch, None)
        return rows.sort_by([(each, "ascending") for each in self.columns.ordering])


def explain_archived(
    pipeline: Pipeline,
    event: str,
    *,
    subscriber: str | None = None,
    subscription: str | None = None,
    batch: int | None = None,
) -> Iterator[ArchivedExplanation]:
    """Why a pipeline gave an event to subscriptions, or did not: those of a subscriber, one, or all.

        for each in explain_archived(load_pipeline("pipeline.toml"), "e-17", subscriber="alice"):
            print(each)

    `DistributaryError` when the archive has no such event, and why if it was set aside.
    """
    history = History.of(pipeline)
    source, found, number = _find(pipeline, history, event, batch)
    record = history.records[number]
    assert record.version is not None, "a batch with events has used a version"
    live = [
        (serial, one)
        for serial, one in pipeline.store.subscriptions(record.version)
        if subscriber in (None, one.subscriber) and subscription in (None, one.id)
    ]
    lives = [] if subscriber is None else lives_of(pipeline.store, subscriber)
    away = [
        life
        for life in lives
        if subscription in (None, life.subscription.id) and number not in history.during(life)
    ]
    if subscription is not None and not live and not away:
        if pipeline.store.version() == record.version or subscriber is not None:
            raise UnknownSubscriptionError(subscription)
        raise DistributaryError(
            f"subscription {subscription!r} was not registered at version {record.version}, which batch "
            f"{number} used"
        )
    told = [*_explained(history, source, found, number, live)]
    told += [(life.subscription, _not_registered(event, life, record)) for life in away]
    for one, explanation in sorted(told, key=lambda each: each[0].id):
        yield ArchivedExplanation(number, record.version, one.subscriber, explanation)


def _find(
    pipeline: Pipeline, history: History, event: str, batch: int | None
) -> tuple[_Archived, pa.Table, int]:
    """Where an event is: among which rows, its own, and its batch."""
    archived_batches(pipeline)
    assert pipeline.archive is not None, "an archive with batches"
    derived, named = derived_in(pipeline.archive), pipeline.columns
    order = None if named.order is None else ORDER
    with_events = frozenset(one.batch for one in history.records if one.events)
    with_derived = frozenset(one.batch for one in history.records if one.published)
    sources = [_archived(pipeline.archive, named, with_events)]
    if with_derived:
        sources.append(_archived(derived, EventColumns(order=order), with_derived))
    for source in sources:
        for number in reversed([each for each in source.batches if batch in (None, each)]):
            rows = source.with_id(number, event)
            if len(rows):
                return source, rows, number
    rejecting = [one.batch for one in history.records if one.rejected and batch in (None, one.batch)]
    raise DistributaryError(_why_missing(pipeline, event, rejecting, batch))


def _archived(path: str, columns: EventColumns, filled: frozenset[int]) -> _Archived:
    complete = tuple(batch for batch in complete_batches(path) if batch in filled)
    return _Archived(path, columns, complete, filled)


def _why_missing(pipeline: Pipeline, event: str, rejecting: Iterable[int], batch: int | None) -> str:
    whole = set(complete_batches(pipeline.quarantine))
    for number in sorted(whole.intersection(rejecting), reverse=True):
        place = f"{pipeline.quarantine}/batch={number}"
        for row in storage.read_parquet(place, dataset.field("event_id") == event).to_pylist():
            why = f"{row['field']}: {row['reason']}" if row["field"] else row["reason"]
            return f"event {event!r} matched nothing: it was set aside in batch {number}: {why}"
    where = "of a finished batch" if batch is None else f"of batch {batch}"
    return f"the archive {pipeline.archive} has no event {event!r} {where}, and none was set aside"


def _explained(
    history: History,
    source: _Archived,
    found: pa.Table,
    number: int,
    live: list[tuple[int, Subscription]],
) -> Iterator[tuple[Subscription, Explanation]]:
    """Each live subscription with what its filters said to the event."""
    tolerant = {serial: one for serial, one in live if one.change is not None and source.columns.order}
    others = [replace(one, change=None) for serial, one in live if _has_more(one, serial, tolerant)]
    refused: list[RejectedInput] = []
    matcher, remembering = Matcher(others, rejected=refused), Matcher()
    problems = {one.id: one.error for one in refused}
    events = _batch(history, source, found.slice(0, 1), number)
    for error in events.rejected.values():
        yield from ((one, explain_rejected(str(events.ids[0]), one.id, error)) for _, one in live)
        return
    event = events.event(0)
    if tolerant:
        _remember(remembering, history, source, found, number, tolerant)
    for serial, one in live:
        if serial in tolerant:
            yield one, remembering.explain(event, one.id)
            continue
        reasons = matcher.explain(event, one.id).reasons if one.id in matcher else ()
        if one.id in problems:  # what another release has taken
            reasons = (Reason("subscription", "", False, f"cannot be read: {problems[one.id]}"),)
        if one.change is not None:
            text = json.dumps(dict(one.change))
            why = "the pipeline names no order column, so that subscriptions with a tolerance are left out"
            reasons = (*reasons, Reason("change", text, False, why))
        yield one, Explanation(event.id, one.id, tuple(reasons))


def _has_more(one: Subscription, serial: int, tolerant: dict[int, Subscription]) -> bool:
    return serial not in tolerant and len(one.filters()) > (one.change is not None)


def _remember(
    matcher: Matcher,
    history: History,
    source: _Archived,
    found: pa.Table,
    number: int,
    tolerant: dict[int, Subscription],
) -> None:
    """Show tolerances what came before the event in its topic, each from its first batch on."""
    topic_name = source.columns.topic
    topic = found[topic_name][0].as_py() if topic_name in found.schema.names else None
    starts: dict[int, list[tuple[int, Subscription]]] = {}
    for serial, one in tolerant.items():
        start = history.first_using(serial >> ROW_BITS)
        starts.setdefault(number if start is None else start, []).append((serial, one))
    needed = [batch for batch in range(min(starts), number + 1) if batch in source.filled]
    require_archived(source.path, source.batches, needed, "rows")
    for batch in range(min(starts), number + 1):
        for serial, one in starts.get(batch, ()):
            matcher.add(one, serial=serial)
        if batch not in source.filled:
            continue
        rows = source.of_topic(batch, topic, found)
        if batch == number:
            rows = rows.slice(0, _place(rows, found, source.columns))
        if len(rows):
            matcher.matches(_batch(history, source, rows, batch))


def _place(rows: pa.Table, found: pa.Table, columns: EventColumns) -> int:
    """In which row of its batch, in order, the event is."""
    wanted = found[columns.id][0]
    place = pc.index(rows[columns.id], wanted).as_py()
    return int(place)


def _batch(history: History, source: _Archived, rows: pa.Table, number: int) -> EventBatch:
    """Archived rows as the matcher reads them."""
    record = history.records[number]
    moment = ((record.instant or record.started) - EPOCH) // MICROSECOND
    arrival = pa.repeat(pa.scalar(moment, pa.int64()), len(rows))
    return source.columns.batch(rows.append_column(ARRIVAL, arrival))


def _not_registered(event: str, life: Life, record: BatchRecord) -> Explanation:
    until = "on" if life.until_version is None else f"up to before {life.until_version}"
    text = f"versions from {life.from_version} {until}"
    detail = f"it was not registered: batch {record.batch} used version {record.version}"
    return Explanation(event, life.subscription.id, (Reason("registration", text, False, detail),))

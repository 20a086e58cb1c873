"""Replay: subscriptions over the archive of a pipeline, with what the live stream gave or would have given.

    replay(spark, pipeline, subscriptions, since=0)          new subscriptions, had they been there
    catch_up(spark, pipeline, "ann", after_batch=17)         what the stream had for a subscriber who was away
    as_if_subscribed(spark, pipeline, "ann", since=0)        what it would have had before she subscribed

Rules:

- A point in time stands for the first batch that started then or later. Ranges of batches are half-open.
- Tolerances see what they would see live: the events of a topic by batch, order column and id, and what
  queries published with a topic by batch and the order of its stream. They begin
  afresh with the first batch from which on a subscription counts as registered.
- A cursor is the last batch that somebody has; -1 before the first. Calls that each start after the cursor of
  the one before share the deliveries out among them: nothing is missed, nothing comes twice.
- The records of batches are read before the store, which therefore knows every version that they used.

docs/replay.md has the semantics in full.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import islice

from pyspark.sql import DataFrame, SparkSession

from distributary.errors import DistributaryError, InputError
from distributary.filters.kinds import parse_filters
from distributary.model import Subscription
from distributary.quarantine import Rejection, rejection
from distributary.spark.index.build import report_rejected
from distributary.spark.pipeline.config import Pipeline
from distributary.spark.replay.history import History, Point, archived_batches
from distributary.spark.replay.matching import ArchivePass, EventTimes, ReplayRequest, match_archive
from distributary.store import Life, SubscriptionStore

NAMES_COMPARED = 20_000
"""Subscribers among whom a name like the one given is looked for."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Deliveries, computed when somebody asks for them, and what they cover."""

    deliveries: DataFrame
    """event_id, subscriber, subscriptions, batch, and the columns that the pipeline's sink carries."""
    batches: range
    """The batches of which these are the deliveries."""
    looked_at: tuple[int, ...]
    """The batches whose events are read: with tolerances also earlier ones."""
    events: int
    """How many events these have."""
    derived: int
    """How many items of published streams they have."""
    rejected: tuple[Rejection, ...] = ()
    """Subscriptions that are left out: malformed, with a tolerance where the pipeline has no order, or with
    `now()` where what that was is not known."""
    live: bool = True
    """Whether what comes after these batches is all the live stream's to deliver."""

    @property
    def cursor(self) -> int:
        """The last batch covered: the next call starts after it. -1 when there is none."""
        return self.batches.stop - 1


def replay(
    spark: SparkSession,
    pipeline: Pipeline,
    subscriptions: Iterable[Subscription],
    *,
    since: Point | None = None,
    until: Point | None = None,
    after_batch: int | None = None,
    times: EventTimes | None = None,
) -> DataFrame:
    """What these subscriptions would have been given, had they been registered from `since` on.

    The batches are those from `since` (default: the first) up to before `until` (default: all that are
    finished). With `after_batch` only deliveries of later batches are given; tolerances still begin at
    `since`. With `times` only deliveries of events of these times, by the order column, are given: the
    tolerances see the others too. The columns are event_id, subscriber, subscriptions, batch, and those that
    the sink carries.

        replay(spark, load_pipeline("pipeline.toml"), [Subscription("s1", "ann", topic="quotes")]).show()

    Malformed subscriptions are left out and logged. An archive that lacks a batch raises `DistributaryError`.
    """
    found = replay_result(
        spark, pipeline, subscriptions, since=since, until=until, after_batch=after_batch, times=times
    )
    report_rejected(found.rejected, strict=False)
    return found.deliveries


def replay_result(
    spark: SparkSession,
    pipeline: Pipeline,
    subscriptions: Iterable[Subscription],
    *,
    since: Point | None = None,
    until: Point | None = None,
    after_batch: int | None = None,
    times: EventTimes | None = None,
) -> ReplayResult:
    """What `replay` gives, with what it covers and what it leaves out."""
    history, seen, given = _past(pipeline, since, until, after_batch)
    rejected: list[Rejection] = []
    requests = [ReplayRequest(one, seen) for one in _well_formed(subscriptions, rejected).values()]
    found = match_archive(spark, pipeline, history, requests, given, times)
    return _result(history, replace(found, rejected=(*rejected, *found.rejected)), given)


def catch_up(
    spark: SparkSession,
    pipeline: Pipeline,
    subscriber: str,
    *,
    after_batch: int | None = None,
    since: Point | None = None,
    until: Point | None = None,
    times: EventTimes | None = None,
) -> ReplayResult:
    """Exactly what the live stream computed for a subscriber in the batches after a cursor.

    Each registration that they ever had counts for the batches which used a version at which it was live,
    with tolerances that remember from the beginning of its life. Give the cursor as `after_batch`, or `since`
    in place of it; without either all is given. `until` stops before a batch.

        missed = catch_up(spark, pipeline, "ann", after_batch=17)
        missed.deliveries.show()
        cursor = missed.cursor                     # the next call goes on after it
    """
    if after_batch is not None and since is not None:
        raise DistributaryError("give after_batch or since, not both: each says where to begin")
    history, _, given = _past(pipeline, since, until, after_batch)
    lives = lives_of(pipeline.store, subscriber)
    requests = [ReplayRequest(life.subscription, history.during(life)) for life in lives]
    return _result(history, match_archive(spark, pipeline, history, requests, given, times), given)


def as_if_subscribed(
    spark: SparkSession,
    pipeline: Pipeline,
    subscriber: str,
    *,
    since: Point,
    until: Point | None = None,
    after_batch: int | None = None,
    times: EventTimes | None = None,
) -> ReplayResult:
    """What a subscriber's present subscriptions would have given from `since` on until the stream took over.

    The stream takes a registration over with the first batch that used a version which has it; before that
    batch the registration counts as made at `since`. What the stream computed for this subscriber by any
    earlier or other registration is left out, so with its deliveries nothing comes twice. When no batch
    has used a registration yet, `live` is false: call again later with the cursor as `after_batch`.

        before = as_if_subscribed(spark, pipeline, "ann", since=0)
    """
    history, seen, given = _past(pipeline, since, until, after_batch)
    lives = lives_of(pipeline.store, subscriber)
    present = [life for life in lives if life.until_version is None]
    if not present:
        raise DistributaryError(
            f"{subscriber!r} has no subscription at present (the last was removed in version "
            f"{max(life.until_version or 0 for life in lives)}): subscribe again first, or catch up"
        )
    taken_over = [history.first_using(life.from_version) for life in present]
    requests = [
        ReplayRequest(
            life.subscription, range(seen.start, seen.stop if batch is None else min(batch, seen.stop))
        )
        for life, batch in zip(present, taken_over, strict=True)
    ]
    found = match_archive(spark, pipeline, history, requests, given, times)
    end = max(given.start, *(one.batches.stop for one in requests))
    had = [ReplayRequest(life.subscription, history.during(life)) for life in lives]
    delivered = match_archive(spark, pipeline, history, had, range(given.start, end))
    # A registration whose deliveries cannot be told may have had some of what is given here: that is told.
    found = replace(found, rejected=tuple(dict.fromkeys((*found.rejected, *delivered.rejected))))
    if delivered.looked_at:
        looked_at = tuple(sorted({*found.looked_at, *delivered.looked_at}))
        rest = _without(found.deliveries, delivered.deliveries)
        found = replace(found, deliveries=rest, looked_at=looked_at)
    live = all(batch is not None and batch <= given.stop for batch in taken_over)
    return _result(history, found, given, live=live)


def require_past(pipeline: Pipeline, subscriber: str | None = None) -> None:
    """Refuse, before a session is started, what could not be replayed: no archive, an unknown subscriber."""
    archived_batches(pipeline)
    if subscriber is not None:
        lives_of(pipeline.store, subscriber)


def _result(history: History, found: ArchivePass, given: range, live: bool = True) -> ReplayResult:
    counts = history.counts(found.looked_at)
    return ReplayResult(found.deliveries, given, found.looked_at, *counts, found.rejected, live)


def _past(
    pipeline: Pipeline, since: Point | None, until: Point | None, cursor: int | None
) -> tuple[History, range, range]:
    """The finished batches from one point up to before another, and those of them after a cursor."""
    history = History.of(pipeline)
    begin = 0 if since is None else history.at(since)
    if (isinstance(since, datetime) and since > datetime.now(UTC)) or (
        isinstance(since, int) and since > history.end
    ):
        raise DistributaryError(f"since {since}: that has not come yet; {history.end} batches are finished")
    end = max(begin, history.end if until is None else history.at(until))
    first = begin if cursor is None else max(begin, history.after(cursor))
    return history, range(begin, end), range(first, max(first, end))


def _without(deliveries: DataFrame, delivered: DataFrame) -> DataFrame:
    """Deliveries of one subscriber less those of events that they have."""
    key = ["batch", "event_id"]
    return deliveries.join(delivered.select(key), key, "left_anti").select(*deliveries.columns)


def _well_formed(subscriptions: Iterable[Subscription], rejected: list[Rejection]) -> dict[str, Subscription]:
    """The subscriptions that a store would take, by id."""
    taken: dict[str, Subscription] = {}
    for one in subscriptions:
        try:
            parse_filters(one)
            if one.id in taken:
                raise InputError("is registered already; ids must differ", field="id")
        except InputError as error:
            rejected.append(rejection(f"subscription {one.id}", error, repr(one.to_record())))
            continue
        taken[one.id] = one
    return taken


def lives_of(store: SubscriptionStore, subscriber: str) -> list[Life]:
    """Every registration a subscriber ever had; a name that never had one is an error."""
    lives = store.lives(subscriber)
    if lives:
        return lives
    log = store.log(0, store.version(), ["subscriber"])
    named = dict.fromkeys(
        name for _, table in log for name in table["subscriber"].unique().to_pylist() if name
    )
    similar = get_close_matches(subscriber, islice(named, NAMES_COMPARED), n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""
    raise DistributaryError(f"{subscriber!r} never had a subscription in {store!r}{hint}")

"""What a pipeline has done: its finished micro-batches, and what the archive has of those.

Rules: only finished batches count, those that have a record; their ids run from 0 without a gap and the
versions they used never fall, or it is an error; an archive that lacks a batch which is needed is an error,
for what is missing could not be told from what did not match. Batches are spoken of by half-open ranges.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.errors import DistributaryError
from distributary.spark.columns import BATCH, quoted
from distributary.spark.micro_batch import EPOCH
from distributary.spark.pipeline.commits import BatchRecord, read_records
from distributary.spark.pipeline.config import Pipeline, derived_in
from distributary.spark.pipeline.outputs import complete_batches, read_some
from distributary.spark.pipeline.retention import removed_upto
from distributary.spark.places import ARRIVAL
from distributary.store import Life

MICROSECOND = timedelta(microseconds=1)

Point = int | datetime
"""A point in a stream: a batch, or a time, which means the first batch that started then or later."""


@dataclass(frozen=True)
class History:
    """The records of a pipeline's finished batches; that of batch i is at position i."""

    records: tuple[BatchRecord, ...]

    @classmethod
    def of(cls, pipeline: Pipeline) -> History:
        """What a pipeline has done; an error when records are missing or the store was set back."""
        records = tuple(read_records(pipeline.commits))
        version = 0
        for expected, record in enumerate(records):
            if record.batch != expected:
                raise DistributaryError(
                    f"{pipeline.commits} lacks the record of batch {expected}: without it nobody can say "
                    "what it used; bring it back (records move when [metrics] path is set or changed)"
                )
            if record.version is not None:
                if record.version < version:
                    raise DistributaryError(
                        f"batch {expected} used version {record.version} of the subscriptions, one before it "
                        f"version {version}: the store has been set back, so its lives do not fit the batches"
                    )
                version = record.version
        return cls(records)

    @property
    def end(self) -> int:
        """The batch after the last finished one."""
        return len(self.records)

    def at(self, point: Point) -> int:
        """The batch that a point means; `end` when it has not come yet."""
        if isinstance(point, datetime):
            if point.tzinfo is None:
                raise DistributaryError(f"the time {point} has no time zone; add one, such as +00:00 for UTC")
            return next((one.batch for one in self.records if one.started >= point), self.end)
        if point < 0:
            raise DistributaryError(f"there is no batch {point}; they count from 0")
        return min(point, self.end)

    def after(self, cursor: int) -> int:
        """The first batch after a cursor, which is the last batch that somebody has; -1 for none."""
        if not -1 <= cursor < self.end:
            known = f"the last finished one is {self.end - 1}" if self.records else "none is finished yet"
            raise DistributaryError(f"after batch {cursor}: {known}; -1 is before the first")
        return cursor + 1

    def first_using(self, version: int | None) -> int | None:
        """The first batch that used this version of the subscriptions or a later one."""
        if version is None:
            return None
        found = (one.batch for one in self.records if one.version is not None and one.version >= version)
        return next(found, None)

    def during(self, life: Life) -> range:
        """The batches that were matched against a registration."""
        first, last = self.first_using(life.from_version), self.first_using(life.until_version)
        end = self.end if last is None else last
        return range(end if first is None else first, end)

    def filled(self, ranges: Iterable[range]) -> tuple[list[int], list[int]]:
        """Those batches of some ranges that have events, and those that have derived items, in order."""
        records = [self.records[batch] for batch in sorted({batch for one in ranges for batch in one})]
        events = [record.batch for record in records if record.events]
        return events, [record.batch for record in records if record.published]

    def without_instant(self, batches: Iterable[int]) -> list[int]:
        """Those of some batches that have something in them, and of which what `now()` was is not known."""
        records = [self.records[batch] for batch in batches]
        return [one.batch for one in records if one.instant is None and (one.events or one.published)]

    def counts(self, batches: Iterable[int]) -> tuple[int, int]:
        """How many events and how many derived items some batches have."""
        records = [self.records[batch] for batch in batches]
        return sum(record.events for record in records), sum(record.published for record in records)


def archived_batches(pipeline: Pipeline) -> list[int]:
    """The batches that are complete in the archive; an error when there is none."""
    if pipeline.archive is None:
        raise DistributaryError(
            f"the pipeline {pipeline.name} keeps no events: give it an archive with path under [archive]; "
            "what it takes in from then on can be replayed"
        )
    complete = complete_batches(pipeline.archive)
    if not complete:
        raise DistributaryError(f"the archive {pipeline.archive} holds no complete batch: nothing to replay")
    return complete


def archived_events(spark: SparkSession, pipeline: Pipeline, batches: list[int]) -> DataFrame:
    """The archived events of some batches, each with its batch in the column `BATCH`."""
    complete = archived_batches(pipeline)
    assert pipeline.archive is not None, "an archive with batches"
    require_archived(pipeline.archive, complete, batches, "events")
    # With nothing to read, one batch still tells the columns.
    events = read_some(spark, pipeline.archive, batches or complete[-1:])
    if not batches:
        events = events.where(F.lit(False))
    return events.withColumnRenamed("batch", BATCH)


def with_instants(events: DataFrame, history: History) -> DataFrame:
    """Archived events with the instant that their micro-batch had for its present, as their arrival.

    Batches of which it is not known have 0 there: no condition that looks at it may be asked of them.
    """
    noted = [(one.batch, (one.instant - EPOCH) // MICROSECOND) for one in history.records if one.instant]
    known = events.sparkSession.createDataFrame(noted, f"{BATCH} bigint, {ARRIVAL} bigint")
    joined = events.join(F.broadcast(known), BATCH, "left")
    return joined.select(*map(quoted, events.columns), F.coalesce(ARRIVAL, F.lit(0)).alias(ARRIVAL))


def archived_derived(spark: SparkSession, pipeline: Pipeline, batches: list[int]) -> DataFrame:
    """What queries published in some batches, of which there is one, with their batch in `BATCH`."""
    assert pipeline.archive is not None, "an archive with batches"
    derived = derived_in(pipeline.archive)
    require_archived(derived, complete_batches(derived), batches, "derived items")
    return read_some(spark, derived, batches).withColumnRenamed("batch", BATCH)


def require_archived(archive: str, complete: Iterable[int], batches: Iterable[int], what: str) -> None:
    """Raise an error if a batch that is needed is not among the complete ones of an archive."""
    known = set(complete)
    missing = [batch for batch in batches if batch not in known]
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        removed = removed_upto(archive)
        if removed is not None and missing[0] <= removed[0]:
            raise DistributaryError(
                f"batch {missing[0]}{more}, of which {what} are needed, was removed from {archive} by "
                f"retention on {removed[1]}: begin with batch {removed[0] + 1}"
            )
        raise DistributaryError(
            f"the archive {archive} lacks batch {missing[0]}{more}, of which {what} are needed; "
            "bring it back, or begin later"
        )

"""`now()` in a pipeline: one instant a micro-batch, the same when it is done again and when it is replayed.

Every event says when it is due, a quarter of a second after the one before it. Which events were due by
`now()` tells the instant that was used: any other gives other deliveries.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from distributary.model import Subscription
from distributary.spark.pipeline import sink
from distributary.spark.pipeline.commits import BatchRecord, read_records, write_record
from distributary.spark.pipeline.config import Pipeline, load_pipeline
from distributary.spark.pipeline.deliveries import read_deliveries
from distributary.spark.replay.history import History
from distributary.spark.replay.replay import as_if_subscribed, catch_up, replay, replay_result
from distributary.store import open_store
from spark.pipeline.test_pipeline import feed, run
from spark.queries.test_pipeline import failing_at

QUERIES = """
[sources.jobs]
topic = "jobs"
time = "at"
schema = { due = "text", at = "integer" }

[[queries.soon.operators]]
name = "even"
filter = { from = "jobs", where = "at % 2 = 0" }
"""
PIPELINE = """
checkpoint = "checkpoint"
queries = "queries.toml"
[source]
format = "json"
path = "in"
schema = "id STRING, topic STRING, due STRING, at BIGINT"
options = { maxFilesPerTrigger = 1 }
[events]
order = "at"
[subscriptions]
store = "subscriptions"
[sink]
path = "deliveries"
[archive]
path = "archive"
[trigger]
available_now = true
[spark.conf]
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""
EACH = 800
STEP = timedelta(milliseconds=250)
SUBSCRIPTIONS = [
    Subscription("s1", "ann", topic="jobs", where="due < now()"),
    Subscription("s2", "ann", topic="jobs", where="due > now() and at % 7 = 0"),
    Subscription("s3", "bob", topic="jobs", where="due < now()", change={"at": 5}),
    Subscription("s4", "bob", topic="soon/even", where="due < now()"),
    Subscription("s5", "bob", topic="soon/even", where="due > now() - interval '1 second'", change={"at": 9}),
]

Given = set[tuple[int, str, str, tuple[str, ...]]]
"""Deliveries: batch, event, subscriber, subscriptions."""


@dataclass(frozen=True)
class Job:
    """An event: when it is due, and its place in the order."""

    at: int
    due: datetime

    def line(self) -> str:
        due = self.due.isoformat()
        return json.dumps({"id": f"e{self.at}", "topic": "jobs", "due": due, "at": self.at})


def jobs(batch: int) -> list[Job]:
    """Events that are due from a few seconds ago until after any pipeline has had time to take them."""
    begin = datetime.now(UTC) - EACH // 6 * STEP
    return [Job(batch * EACH + number, begin + number * STEP) for number in range(EACH)]


def prepare(place: Path) -> Pipeline:
    """A pipeline whose subscriptions look at the clock."""
    (place / "queries.toml").write_text(QUERIES)
    (place / "pipeline.toml").write_text(PIPELINE)
    open_store(place / "subscriptions", create=True).commit(SUBSCRIPTIONS)
    return load_pipeline(place / "pipeline.toml")


def instants(place: Path) -> dict[int, datetime]:
    """What Spark has noted for the present of each micro-batch."""
    noted = {
        int(file.name): json.loads(file.read_text().splitlines()[1])["batchTimestampMs"]
        for file in (place / "checkpoint" / "offsets").iterdir()
        if file.name.isdigit()
    }
    return {batch: datetime.fromtimestamp(number / 1000, UTC) for batch, number in noted.items()}


def wanted(
    fed: dict[int, list[Job]],
    nows: dict[int, datetime],
    subscriptions: Iterable[Subscription] = SUBSCRIPTIONS,
) -> Given:
    """What each micro-batch has to deliver, from what it was fed and its instant."""
    found: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for one in subscriptions:
        last: int | None = None
        for batch, given in fed.items():
            for job in given:
                derived = one.topic == "soon/even"
                if (derived and job.at % 2) or not passes(one.id[:2], job, nows[batch]):
                    continue
                if one.change is not None:
                    if last is not None and job.at - last <= one.change["at"]:
                        continue
                    last = job.at
                name = f"soon/even#e{job.at}" if derived else f"e{job.at}"
                found[batch, name, one.subscriber].append(one.id)
    return {(*key, tuple(sorted(ids))) for key, ids in found.items()}


def passes(id: str, job: Job, now: datetime) -> bool:
    if id == "s2":
        return job.due > now and job.at % 7 == 0
    return job.due > now - timedelta(seconds=1) if id == "s5" else job.due < now


def given(deliveries: DataFrame) -> Given:
    rows = [
        (row.batch, row.event_id, row.subscriber, tuple(row.subscriptions)) for row in deliveries.collect()
    ]
    assert len(rows) == len(set(rows)), "something came twice"
    return set(rows)


@dataclass(frozen=True)
class Past:
    """A pipeline that has run, what each batch was fed, and the instant that it used."""

    place: Path
    pipeline: Pipeline
    fed: dict[int, list[Job]]
    nows: dict[int, datetime]
    live: Given


@pytest.fixture(scope="module")
def past(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Past:
    """Two batches, of which the second is done twice: it fails when all is written but its record."""
    place = tmp_path_factory.mktemp("instants")
    pipeline, fed = prepare(place), {batch: jobs(batch) for batch in range(2)}
    for batch, given_jobs in fed.items():
        feed(place, batch, [job.line() for job in given_jobs])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sink, "write_record", failing_at(1, sink.write_record))
        with pytest.raises(StreamingQueryException, match="the machine is gone"):
            run(spark, pipeline)
    before = instants(place)
    first = given(read_deliveries(spark, str(place / "deliveries")))
    run(spark, pipeline)
    live = given(read_deliveries(spark, str(place / "deliveries")))
    assert live == first, "a batch that was done again has other deliveries"
    nows = instants(place)
    assert {batch: nows[batch] for batch in before} == before
    return Past(place, pipeline, fed, nows, live)


def test_all_events_of_a_micro_batch_see_its_instant(past: Past) -> None:
    assert past.live == wanted(past.fed, past.nows)
    assert {one[3] for one in past.live} >= {("s1",), ("s2",), ("s3",), ("s4",), ("s5",)}


def test_the_record_of_a_batch_has_its_instant(past: Past) -> None:
    records = {one.batch: one.instant for one in read_records(past.pipeline.commits)}
    assert records == past.nows


@pytest.mark.parametrize("subscriber", ["ann", "bob"])
def test_catching_up_gives_what_the_stream_delivered(
    spark: SparkSession, past: Past, subscriber: str
) -> None:
    found = catch_up(spark, past.pipeline, subscriber)
    assert given(found.deliveries) == {one for one in past.live if one[2] == subscriber}
    assert found.rejected == ()


def test_a_new_subscription_gets_what_the_stream_would_have_given(spark: SparkSession, past: Past) -> None:
    new = [replace(one, id=f"{one.id}-new", subscriber="new") for one in SUBSCRIPTIONS]
    expected = wanted(past.fed, past.nows, new)
    assert given(replay(spark, past.pipeline, new)) == expected
    open_store(past.place / "subscriptions").commit(new)
    before = as_if_subscribed(spark, past.pipeline, "new", since=0)
    assert given(before.deliveries) == expected
    assert not before.live


def test_batches_whose_instant_was_not_noted_are_replayed_for_conditions_without_it(
    spark: SparkSession, past: Past, caplog: pytest.LogCaptureFixture
) -> None:
    late = max(past.fed)
    records = list(read_records(past.pipeline.commits))
    plain = Subscription("plain", "new", topic="jobs", where="at % 100 = 0")
    clock = Subscription("clock", "new", topic="jobs", where="due < now()")
    try:
        # As a release wrote it that knew no instants.
        older = json.loads(records[0].to_json())
        del older["instant"]
        write_record(past.pipeline.commits, BatchRecord.from_json(json.dumps(older)))
        assert History.of(past.pipeline).without_instant([0, late]) == [0]
        found = replay_result(spark, past.pipeline, [plain, clock])
        (rejected,) = found.rejected
        assert (rejected.place, rejected.field) == ("subscription clock", "where")
        assert "what now() was in batch 0 is not known" in rejected.reason
        assert {one[3] for one in given(found.deliveries)} == {("plain",)}
        some = replay_result(spark, past.pipeline, [plain, clock], since=1)
        assert some.rejected == ()
        assert {one[0] for one in given(some.deliveries) if "clock" in one[3]} == {late}
        with caplog.at_level("WARNING"):
            replay(spark, past.pipeline, [clock])
        assert "now()" in caplog.text
        missed = catch_up(spark, past.pipeline, "ann")
        assert {one.place for one in missed.rejected} == {"subscription s1", "subscription s2"}
    finally:
        write_record(past.pipeline.commits, records[0])

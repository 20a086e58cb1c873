"""Whole pipelines: what the oracle says is delivered, nothing unreadable is lost, no run spoils another's."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from distributary.errors import DistributaryError
from distributary.model import Subscription
from distributary.spark.micro_batch import query_id
from distributary.spark.pipeline.commits import read_records
from distributary.spark.pipeline.config import Pipeline, PipelineSource, parse_pipeline
from distributary.spark.pipeline.deliveries import read_deliveries
from distributary.spark.pipeline.outputs import read_archive
from distributary.spark.pipeline.source import read_source
from distributary.spark.pipeline.start import require_own_outputs, start
from distributary.store import open_store
from properties.oracle import MatcherOracle
from spark.world import EVENT_DDL, is_malformed, make_world, matched
from store.kinds import Kind, postgresql, server_programs


def pipeline_in(
    place: Path, source: str, rest: str = "", subscriptions: str = 'store = "subscriptions"'
) -> Pipeline:
    text = f"""
        checkpoint = "checkpoint"
        [source]
        {source}
        [subscriptions]
        {subscriptions}
        [sink]
        path = "deliveries"
        columns = ["topic"]
        [trigger]
        available_now = true
        {rest}
    """
    return parse_pipeline(text, str(place / "pipeline.toml"))


def feed(place: Path, number: int, lines: list[str]) -> None:
    """Drop a file into the source's directory; the stream takes files in the order of their times."""
    (place / "in").mkdir(exist_ok=True)
    path = place / "in" / f"{number:03d}"
    path.write_text("".join(line + "\n" for line in lines))
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def run(spark: SparkSession, pipeline: Pipeline) -> None:
    """Let a pipeline take all that is there."""
    query = start(spark, pipeline)
    try:
        assert query.awaitTermination(240)
    finally:
        query.stop()


def delivered(spark: SparkSession, place: Path) -> list[tuple[Any, ...]]:
    rows = read_deliveries(spark, str(place / "deliveries")).collect()
    return sorted((row.event_id, row.subscriber, tuple(row.subscriptions)) for row in rows)


def test_deliveries_are_those_of_the_oracle_while_subscriptions_change_and_across_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = make_world(3, events=90, subscriptions=30)
    early, late = world.subscriptions[:20], world.subscriptions[20:]
    pipeline = pipeline_in(
        tmp_path,
        f'format = "json"\npath = "in"\nschema = "{EVENT_DDL}"\noptions = {{ maxFilesPerTrigger = 1 }}',
        '[events]\norder = "at"\n[archive]\npath = "archive"\n[metrics]\npath = "metrics"',
    )
    store = open_store(tmp_path / "subscriptions")
    oracle = MatcherOracle()
    subscribers = {one.id: one.subscriber for one in world.subscriptions}
    expected: dict[tuple[str, str], list[str]] = defaultdict(list)
    steps: list[tuple[list[Subscription], list[str], list[tuple[int, int]]]] = [
        (early, [], [(0, 20), (20, 50)]),
        (late, [one.id for one in early[:5]], [(50, 90)]),
    ]
    fed = 0
    for added, removed, chunks in steps:
        store.commit(added, remove=removed)
        for one in removed:
            oracle.remove(one)
        for subscription in added:
            oracle.add(subscription)
        for first, end in chunks:
            feed(tmp_path, fed, [json.dumps(record) for record in world.events[first:end]])
            fed += 1
            for event_id, found in matched(world.events[first:end], (), oracle):
                expected[event_id, subscribers[found]].append(found)
        run(spark, pipeline)

    assert delivered(spark, tmp_path) == sorted((*key, tuple(sorted(ids))) for key, ids in expected.items())
    good = {record["id"] for record in world.events if not is_malformed(record)}
    archived = read_archive(spark, str(tmp_path / "archive")).collect()
    assert sorted(row.id for row in archived) == sorted(good)
    records = list(read_records(pipeline.commits))
    assert [one.version for one in records if one.events] == [1, 1, 2]
    assert sum(one.events for one in records) == len(good)
    assert sum(one.rejected for one in records) == len(world.events) - len(good)
    assert sum(one.matches for one in records) == sum(map(len, expected.values()))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_pipeline_follows_a_store_in_a_database(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    with ExitStack() as stack:
        programs = server_programs()
        if kind == "postgresql" and programs is None:
            pytest.skip("PostgreSQL's server programs (pg_ctl, initdb) are not installed")
        server = stack.enter_context(postgresql(programs)) if kind == "postgresql" and programs else None
        location, _ = stack.enter_context(Kind(kind, server).location())
        source = 'format = "json"\npath = "in"\nschema = "id STRING, topic STRING"'
        pipeline = pipeline_in(
            tmp_path, source, subscriptions=f'store = "{location}"\nworkspace = "workspace"'
        )
        store = stack.enter_context(closing(pipeline.store))
        for batch, (subscriber, gone) in enumerate([("ann", []), ("bob", ["s0"])]):
            store.commit([Subscription(f"s{batch}", subscriber, topic="A")], gone)
            feed(tmp_path, batch, [f'{{"id": "e{batch}", "topic": "A/B"}}'])
            run(spark, pipeline)
        assert delivered(spark, tmp_path) == [("e0", "ann", ("s0",)), ("e1", "bob", ("s1",))]
        assert [one.version for one in read_records(pipeline.commits) if one.events] == [1, 2]
        assert sorted(set(store.bound(query_id(pipeline.checkpoint)).values())) == [1, 2]


@pytest.mark.parametrize(("tolerances", "jobs"), [(False, 1), (True, 2)])
def test_a_micro_batch_reads_its_source_once_and_has_one_job_or_two_with_a_shuffle(
    spark: SparkSession, tmp_path: Path, tolerances: bool, jobs: int
) -> None:
    # Adaptive execution runs the map side of a shuffle, to which tolerances lead, as a job of its own.
    source = 'format = "json"\npath = "in"\nschema = "id STRING, topic STRING, at BIGINT, price DOUBLE"'
    outputs = '[archive]\npath = "archive"\n[quarantine]\npath = "quarantine"\n[metrics]\npath = "metrics"'
    pipeline = pipeline_in(
        tmp_path,
        f"{source}\noptions = {{ maxFilesPerTrigger = 1 }}",
        f"{outputs}\n" + ('[events]\norder = "at"' if tolerances else ""),
    )
    change = {"price": 0.5} if tolerances else None
    open_store(tmp_path / "subscriptions", create=True).commit(
        [Subscription("s0", "ann", topic="A"), Subscription("s1", "bob", topic="A", change=change)]
    )
    sizes = [7, 5]
    for number, size in enumerate(sizes):
        events = [{"id": f"e{number}-{at}", "topic": "A/B", "at": at, "price": 1.0} for at in range(size - 1)]
        feed(tmp_path, number, [*map(json.dumps, events), "not json"])
    query = start(spark, pipeline)
    try:
        assert query.awaitTermination(240)
        assert [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]] == sizes
        tracker = spark.sparkContext.statusTracker()
        assert len(tracker.getJobIdsForGroup(str(query.runId))) == jobs * len(sizes)
    finally:
        query.stop()
    assert [one.rejected for one in read_records(pipeline.commits) if one.events] == [1, 1]
    assert len(delivered(spark, tmp_path)) == (sum(sizes) - 2) + (1 if tolerances else sum(sizes) - 2)


GOOD = ['{"id": "e1", "topic": "A", "price": 1.5}', '{"id": 2, "topic": "A/B"}']
BROKEN = ["not json", '{"id": "e3", "topic": "A", "price": "dear"}', '"text"', '{"id": "e4"']


@pytest.mark.parametrize(
    "source",
    [
        'format = "json"\npath = "in"\nschema = "id STRING, topic STRING, price DOUBLE"',
        'format = "text"\npath = "in"\nparse = "json"\nschema = "id STRING, topic STRING, price DOUBLE"',
    ],
    ids=["read", "parsed"],
)
def test_what_cannot_be_read_is_in_the_quarantine_as_it_came(
    spark: SparkSession, tmp_path: Path, source: str
) -> None:
    feed(tmp_path, 0, [*GOOD[:1], "", *BROKEN, *GOOD[1:], '{"topic": "A"}'])
    open_store(tmp_path / "subscriptions").commit([Subscription("s1", "ann", topic="A")])
    pipeline = pipeline_in(tmp_path, source, '[quarantine]\npath = "bad"')
    run(spark, pipeline)
    assert delivered(spark, tmp_path) == [("2", "ann", ("s1",)), ("e1", "ann", ("s1",))]
    rows = spark.read.parquet(str(tmp_path / "bad")).collect()
    found = {row.record: row for row in rows}
    assert set(BROKEN) < set(found)
    assert all("cannot be read" in found[record].reason for record in BROKEN)
    (other,) = set(found) - set(BROKEN)
    assert json.loads(other) == {"topic": "A"}
    assert found[other].field == "id"


def test_csv_rows_that_do_not_fit_are_in_the_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path, 0, ["e1,A,1.5", "e2,A,dear", "e3,A,1,2", "e4,A,2"])
    open_store(tmp_path / "subscriptions").commit([Subscription("s1", "ann", topic="A")])
    pipeline = pipeline_in(
        tmp_path, 'format = "csv"\npath = "in"\nschema = "id STRING, topic STRING, price DOUBLE"'
    )
    run(spark, pipeline)
    assert [one[0] for one in delivered(spark, tmp_path)] == ["e1", "e4"]
    rows = spark.read.parquet(str(tmp_path / "checkpoint" / "quarantine")).collect()
    assert sorted(row.record for row in rows) == ["e2,A,dear", "e3,A,1,2"]


def test_a_new_checkpoint_does_not_overwrite_what_an_earlier_run_delivered(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, 'format = "json"\npath = "in"\nschema = "id STRING, topic STRING"')
    (tmp_path / "deliveries" / "batch=0").mkdir(parents=True)
    with pytest.raises(DistributaryError, match="holds batches of an earlier run"):
        require_own_outputs(pipeline)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text("{}")
    require_own_outputs(pipeline)


@pytest.mark.parametrize(("each", "held"), [("true", "batch=0"), ("false", "each=ann")])
def test_a_directory_keeps_its_layout(tmp_path: Path, each: str, held: str) -> None:
    text = f"""
        checkpoint = "checkpoint"
        source = {{ format = "json", path = "in", schema = "id STRING, topic STRING" }}
        subscriptions = {{ store = "subscriptions" }}
        sink = {{ path = "deliveries", each = {each} }}
    """
    (tmp_path / "deliveries" / held).mkdir(parents=True)
    with pytest.raises(DistributaryError, match=r"\[sink\] each: .* choose another path"):
        require_own_outputs(parse_pipeline(text, str(tmp_path / "p.toml")))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (PipelineSource("json", "/nowhere", schema="id TEXT"), r"\[source\] schema: Spark cannot read it"),
        (PipelineSource("no-such-format"), r"\[source\]: Spark cannot read it"),
    ],
)
def test_a_source_that_spark_refuses_is_told(spark: SparkSession, source: PipelineSource, told: str) -> None:
    with pytest.raises(DistributaryError, match=told) as caught:
        read_source(spark, source)
    assert "\n" not in str(caught.value)

"""Pipelines with queries: derived items are matched with the events, counted, and given out exactly once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.flow import Catalogue, Item, answer, read_query_file
from distributary.model import Event, Subscription
from distributary.plan.queries.plan_file import read_query_plan
from distributary.plan.trees.rates import read_rates
from distributary.spark import catch_up, read_derived, read_metrics
from distributary.spark.pipeline import sink
from distributary.spark.pipeline.commits import BatchRecord, read_records
from distributary.spark.pipeline.config import Pipeline, parse_pipeline
from distributary.spark.pipeline.deliveries import read_deliveries
from distributary.spark.pipeline.outputs import read_batches
from distributary.store import open_store
from properties.oracle import MatcherOracle
from spark.pipeline.test_pipeline import feed, run

QUERIES = """
[sources.trades]
topic = "trades"
time = "at"
lateness = "10 ms"
schema = { symbol = "text", size = "integer", at = "integer" }

[[queries.busy.operators]]
name = "large"
filter = { from = "trades", where = "size > 10" }

[[queries.busy.operators]]
name = "volume"
aggregate = { from = "large", window = "20 ms", group_by = ["symbol"], values = { total = "sum(size)" } }

[queries.top]
super = { best = ["twice", "most"] }

[[queries.top.operators]]
name = "twice"
map = { from = "busy.volume", set = { total = "total * 2" } }

[[queries.top.operators]]
name = "most"
filter = { from = "twice", where = "total > 100" }
"""
PUBLISHED = ("busy.large", "busy.volume", "top.most")
SUBSCRIPTIONS = [
    Subscription("s1", "ann", topic="trades", where="size > 50"),
    Subscription("s2", "ann", topic="busy/volume", where="total >= 40"),
    Subscription("s3", "bob", topic="busy", where="symbol = 'A'"),
    Subscription("s4", "bob", topic="top"),
    Subscription("s5", "eve", where="total > 100"),
    Subscription("s6", "eve", topic="busy/volume", change={"total": 25}),
    Subscription("s7", "bob", topic="trades", change={"size": 30}),
]


def pipeline_in(place: Path, queries: str = QUERIES) -> Pipeline:
    (place / "queries.toml").write_text(queries)
    text = """
        checkpoint = "checkpoint"
        queries = "queries.toml"
        [source]
        format = "json"
        path = "in"
        schema = "id STRING, topic STRING, symbol STRING, size BIGINT, at BIGINT"
        options = { maxFilesPerTrigger = 1 }
        [events]
        order = "at"
        [subscriptions]
        store = "subscriptions"
        [sink]
        path = "deliveries"
        columns = ["topic", "at"]
        [archive]
        path = "archive"
        [metrics]
        path = "metrics"
        [trigger]
        available_now = true
    """
    return parse_pipeline(text, str(place / "pipeline.toml"))


def trade(number: int, at: int | None, size: int, symbol: str = "A") -> dict[str, Any]:
    return {"id": f"e{number}", "topic": "trades", "symbol": symbol, "size": size, "at": at}


ON_TIME = [
    [trade(1, 5, 60), trade(2, 12, 30, "B"), trade(3, 3, 5), trade(4, None, 99)],
    [trade(5, 18, 20), trade(6, 41, 70), trade(7, 38, 15, "B")],
    [trade(8, 500, 1)],
    [trade(9, 501, 1)],
]
LATE = [trade(10, 30, 80)]


def answered(place: Path) -> tuple[Catalogue, dict[str, list[Item]]]:
    """What the interpreter gives: the late one still passes the filter, and comes too late for its window."""
    catalogue = read_query_file(place / "queries.toml")
    streams = answer(catalogue, [_event(record) for chunk in ON_TIME for record in chunk]).streams
    late = catalogue.sources["trades"].item(_event(LATE[0]))
    streams["trades"].append(late)
    streams["busy.large"].append(late)
    return catalogue, streams


def wanted_deliveries(catalogue: Catalogue, streams: dict[str, list[Item]]) -> set[tuple[object, ...]]:
    """Event, topic, time, subscriber and subscription of each match.

    Tolerances see the events of a micro-batch by their times. The one without a time is malformed.
    """
    batches = [[record for record in chunk if record["at"] is not None] for chunk in (*ON_TIME, LATE)]
    events = [_event(record) for chunk in batches for record in sorted(chunk, key=lambda one: one["at"])]
    published = [
        catalogue.streams[name].event(item)
        for name in PUBLISHED
        for item in sorted(streams[name], key=lambda item: item.order)
    ]
    oracle = MatcherOracle()
    for subscription in SUBSCRIPTIONS:
        oracle.add(subscription)
    subscribers = {one.id: one.subscriber for one in SUBSCRIPTIONS}
    return {
        (event_id, event.topic, event.attributes.get("at"), subscribers[found], found)
        for event_id, event in [
            *((event.id, event) for event in events),
            *((f"{event.topic}#{event.id}", event) for event in published),
        ]
        for found in oracle.match(event)
    }


def test_derived_items_are_delivered_like_events_and_counted_across_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    check_pipeline(spark, tmp_path)
    check_plan(tmp_path)
    with pytest.raises(DistributaryError, match="the queries are others than those of the checkpoint"):
        run(spark, pipeline_in(tmp_path, QUERIES.replace("20 ms", "30 ms")))


def check_pipeline(spark: SparkSession, place: Path) -> None:
    """Run a pipeline twice, the second time with an event that is late, and look at all it writes."""
    pipeline = pipeline_in(place)
    open_store(place / "subscriptions", create=True).commit(SUBSCRIPTIONS)
    for number, chunk in enumerate([*ON_TIME, LATE]):
        feed(place, number, [json.dumps(record) for record in chunk])
        if number in (1, 4):
            run(spark, pipeline)

    catalogue, streams = answered(place)
    rows = read_deliveries(spark, str(place / "deliveries")).collect()
    found = [
        (row.event_id, row.topic, row["at"], row.subscriber, one) for row in rows for one in row.subscriptions
    ]
    assert sorted(found, key=repr) == sorted(wanted_deliveries(catalogue, streams), key=repr)

    again = catch_up(spark, pipeline, "bob").deliveries.collect()
    assert sorted(
        (row.batch, row.event_id, row.subscriptions, row.topic, row["at"]) for row in again
    ) == sorted(
        (row.batch, row.event_id, row.subscriptions, row.topic, row["at"])
        for row in rows
        if row.subscriber == "bob"
    )
    archived = read_derived(spark, str(place / "archive")).collect()
    assert sorted(row.id for row in archived) == sorted(
        f"{catalogue.streams[name].topic}#{item.id}" for name in PUBLISHED for item in streams[name]
    )
    rejected = read_batches(spark, pipeline.quarantine).collect()
    assert sorted((row.event_id, row.field) for row in rejected) == [
        ("e10", "at"),
        ("e4", "at"),
        ("e4", "at"),
    ]
    assert sum(record.late for record in read_records(pipeline.commits)) == 1
    metrics = read_metrics(spark, str(place / "metrics"), "operators")
    totals = {
        row.stream: (row.kind, row["sum(items)"], row["sum(inputs)"])
        for row in metrics.groupBy("stream", "kind").sum("items", "inputs").collect()
    }
    assert totals == {
        "trades": ("source", 9, 0),
        "busy.large": ("filter", len(streams["busy.large"]), 9),
        "busy.volume": ("aggregate", len(streams["busy.volume"]), len(streams["busy.large"])),
        "top.twice": ("map", len(streams["top.twice"]), len(streams["busy.volume"])),
        "top.most": ("filter", len(streams["top.most"]), len(streams["top.twice"])),
    }


def test_items_are_matched_by_the_topics_that_their_operators_make(
    spark: SparkSession, tmp_path: Path
) -> None:
    stage = 'name = "large"\npublish = "{topic}/large/{symbol}"\n'
    queries = QUERIES.replace('name = "large"\n', stage).replace("schema = {", "schema = { topic = 'text',")
    queries = queries.replace('topic = "trades"', 'topic = "trades/#"')
    pipeline = pipeline_in(tmp_path, queries)
    subscriptions = [
        Subscription("s1", "ann", topic="trades/large/A"),
        Subscription("s2", "ann", topic="busy/large"),
        Subscription("s3", "eve", where="size = 30 and topic <> 'trades'"),
        Subscription("s4", "eve", where="size = 33 and topic is null"),
    ]
    open_store(tmp_path / "subscriptions", create=True).commit(subscriptions)
    events = [trade(1, 5, 60), trade(2, 12, 30, "B"), trade(3, 13, 33, "B/C")]
    feed(tmp_path, 0, [json.dumps(record) for record in events])
    run(spark, pipeline)
    rows = read_deliveries(spark, str(tmp_path / "deliveries")).collect()
    assert sorted((row.event_id, row.topic, row.subscriptions) for row in rows) == [
        ("busy/large#e1", "trades/large/A", ["s1"]),
        ("busy/large#e2", "trades/large/B", ["s3"]),
        ("busy/large#e3", None, ["s4"]),
    ]
    archived = read_derived(spark, str(tmp_path / "archive")).collect()
    assert {row.id: row.topic for row in archived if row.id.startswith("busy/large")} == {
        "busy/large#e1": "trades/large/A",
        "busy/large#e2": "trades/large/B",
        "busy/large#e3": None,
    }


PLAN = """
queries = "queries.toml"
goal = "minimise aggregate(SUM, incoming rate, BROKERS)"
latency = [[0, 5], [5, 0]]
site = [{ name = "here" }, { name = "there" }]
[source.trades]
site = "here"
[client]
busy = "there"
top = "there"
[rates]
metrics = "metrics"
seconds = 4
"""


def check_plan(place: Path) -> None:
    """Plan the queries with what the pipeline has measured."""
    catalogue, streams = answered(place)
    (place / "plan.toml").write_text(PLAN)
    workload = read_query_plan(place / "plan.toml").start.workload
    (source,) = workload.sources
    # Ten events came; one had no time, and is none of the source's.
    assert (source.items, source.rate) == (9 / 4, size_of(streams["trades"]) / 4)
    items = [source.items]
    for operator in workload.operators:
        items.append(operator.selectivity * sum(items[stream] for stream in operator.inputs))
    large, volume = workload.operators[:2]
    assert (large.name, large.selectivity) == ("busy.large", len(streams["busy.large"]) / 9)
    assert (volume.name, volume.selectivity) == (
        "busy.volume",
        pytest.approx(len(streams["busy.volume"]) / len(streams["busy.large"])),
    )
    # The last operators are the clients', who give nothing out; before them comes what `top` has at its end.
    assert len({len(streams[name]) for name in PUBLISHED}) == 3
    assert [4 * items[at] for at in (1, 2, -3)] == pytest.approx([len(streams[name]) for name in PUBLISHED])
    topics = read_rates(place / "metrics").topics
    assert {topic: one.events for topic, one in topics.items()} == {
        "trades": 9,
        **{name.replace(".", "/"): len(streams[name]) for name in PUBLISHED},
    }
    volumes = [one for one in wanted_deliveries(catalogue, streams) if one[1] == "busy/volume"]
    assert topics["busy/volume"].matches == len(volumes)
    assert main(["plan", str(place / "plan.toml"), "--json", str(place / "placed.json")]) == 0
    placed = json.loads((place / "placed.json").read_text())
    assert placed["before"] == source.rate
    # Only what the windows give goes from here to there.
    assert placed["after"] == pytest.approx(size_of(streams["busy.volume"]) / 4)


def size_of(items: list[Item]) -> int:
    """What items are counted as: ids and texts in UTF-8, 8 bytes for a number or the time."""
    texts = [value for item in items for value in (item.id, *item.attributes.values())]
    return sum(len(value.encode()) if isinstance(value, str) else 8 for value in texts)


@pytest.mark.chaos
@pytest.mark.parametrize("failing", range(5))
def test_a_batch_that_fails_at_its_end_is_done_again_with_the_same_results(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Everything is written, the state is committed, and then the record of the batch is not."""
    chunks = [
        [trade(1, 5, 60), trade(2, 12, 30, "B")],
        [trade(5, 18, 20), trade(6, 41, 70)],
        [trade(7, 38, 15, "B"), trade(8, 90, 11)],
        [trade(9, 500, 1)],
    ]
    outcomes = []
    for place in (tmp_path / "whole", tmp_path / "broken"):
        place.mkdir()
        pipeline = pipeline_in(place)
        open_store(place / "subscriptions", create=True).commit(SUBSCRIPTIONS)
        for number, chunk in enumerate(chunks):
            feed(place, number, [json.dumps(record) for record in chunk])
        if place.name == "broken":
            with monkeypatch.context() as patched:
                patched.setattr(sink, "write_record", failing_at(failing, sink.write_record))
                with pytest.raises(StreamingQueryException):
                    run(spark, pipeline)
        run(spark, pipeline)
        rows = read_deliveries(spark, str(place / "deliveries")).collect()
        derived = read_derived(spark, str(place / "archive")).collect()
        outcomes.append(
            (
                sorted((row.batch, row.event_id, row.subscriber, row.subscriptions) for row in rows),
                sorted(map(repr, derived)),
            )
        )
    assert outcomes[0] == outcomes[1]


def failing_at(batch: int, write: Callable[[str, BatchRecord], None]) -> Callable[[str, BatchRecord], None]:
    def failing(commits: str, record: BatchRecord) -> None:
        if record.batch == batch:
            raise RuntimeError("the machine is gone")
        write(commits, record)

    return failing


def _event(record: dict[str, object]) -> Event:
    return Event.from_record({name: value for name, value in record.items() if value is not None})


def test_faults_of_queries_are_told_with_those_of_the_pipeline(tmp_path: Path) -> None:
    with pytest.raises(
        DistributaryError, match=r"queries: query 'busy', operator 'large'.*no attribute 'sise'"
    ):
        pipeline_in(tmp_path, QUERIES.replace("size > 10", "sise > 10"))

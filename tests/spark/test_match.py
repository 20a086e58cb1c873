"""match and deliver in batches: stores and their versions, columns, rejected input, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary import Event, Subscription
from distributary.errors import DistributaryError
from distributary.matching.path.signature import signed
from distributary.quarantine import Rejection, StrictError
from distributary.spark import deliver, match, rejected
from distributary.spark.index import build
from distributary.store import open_store
from spark.world import World, is_malformed, make_world, pairs, subscription_frame


@pytest.mark.parametrize("strategy", ["index", pytest.param("rendezvous", marks=pytest.mark.chaos)])
def test_a_store_matches_at_the_version_asked_for(spark: SparkSession, strategy: str, tmp_path: Path) -> None:
    world = make_world(11, subscriptions=30)
    store = open_store(tmp_path / "store", create=True)
    early, late = world.subscriptions[:20], world.subscriptions[20:]
    first = store.commit(early)
    events = world.frame(spark)
    how = {"order": "at", "strategy": strategy, "capacity": 5}
    assert pairs(match(events, store, **how)) == sorted(World(world.events, early).matches())
    store.commit(late, remove=[one.id for one in early[:7]])
    now = [*early[7:], *late]
    assert pairs(match(events, str(tmp_path / "store"), **how)) == sorted(World(world.events, now).matches())
    assert pairs(match(events, store, version=first, **how)) == sorted(World(world.events, early).matches())


def test_a_new_base_is_built_when_changes_are_many_and_changes_no_answer(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "FEW_CHANGES", 5)
    world = make_world(12, events=60, subscriptions=30)
    store = open_store(tmp_path / "store", create=True)
    store.commit(world.subscriptions[:20])
    events = world.frame(spark)
    match(events, store, order="at")
    built = sorted(store.workspace.glob("index-*/0*"))
    store.commit(world.subscriptions[20:25])
    few = pairs(match(events, store, order="at"))
    assert sorted(store.workspace.glob("index-*/0*")) == built
    assert few == sorted(World(world.events, world.subscriptions[:25]).matches())
    store.commit(world.subscriptions[25:])
    many = pairs(match(events, store, order="at"))
    assert [path.name for path in sorted(store.workspace.glob("index-*/0*"))] == [f"{1:020d}", f"{3:020d}"]
    assert many == sorted(world.matches())


def test_deliver_hands_an_event_once_to_each_subscriber(spark: SparkSession) -> None:
    world = make_world(3)
    subscriptions = subscription_frame(spark, world.subscriptions)
    found = deliver(match(world.frame(spark), subscriptions, order="at", carry=["topic", "n"]))
    expected: dict[tuple[str, str], list[str]] = {}
    for event, subscription in sorted(world.matches()):
        expected.setdefault((event, world.subscribers()[subscription]), []).append(subscription)
    rows = found.collect()
    assert len(rows) == len(expected)
    assert {(row.event_id, row.subscriber): row.subscriptions for row in rows} == expected
    topics = {record["id"]: record["topic"] for record in world.events}
    assert all(row.topic == topics[row.event_id] for row in rows)


def test_other_column_names_and_whole_numbers_as_ids(spark: SparkSession) -> None:
    events = spark.createDataFrame([(1, "A/B", 2.0)], "number int, subject string, a double")
    wish = subscription_frame(spark, [Subscription("s1", "ann", topic="A", where="a > 1")])
    found = match(events, wish, id="number", topic="subject", carry=["a"]).collect()
    assert [tuple(row) for row in found] == [("1", "s1", "ann", 2.0)]


@pytest.mark.parametrize("strategy", ["index", "rendezvous"])
def test_signatures_that_events_carry_pre_select_where_they_are_trusted(
    spark: SparkSession, strategy: str
) -> None:
    events = [signed(Event(f"e{n}", document=f"<r><a{n % 3}/></r>"), 64) for n in range(6)]
    rows = [(event.id, event.document, event.attributes["signature"]) for event in events]
    rows[0] = ("e0", events[0].document, "64/1:0")  # false: it denies what the document has
    frame = spark.createDataFrame(rows, "id string, document string, signature string")
    wishes = subscription_frame(spark, [Subscription(f"s{n}", "ann", path=f"/r/a{n}") for n in range(3)])
    true = [(f"e{n}", f"s{n % 3}") for n in range(6)]
    for engine, expected in (("bloom:length=64", true), ("bloom:length=64,signatures=trusted", true[1:])):
        how = {"engines": {"path": engine}, "strategy": strategy, "capacity": 2}
        assert pairs(match(frame, wishes, **how)) == expected


def test_engines_are_not_chosen_for_the_shared_index_of_a_store(spark: SparkSession, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", create=True)
    with pytest.raises(DistributaryError, match="shared"):
        match(make_world(4).frame(spark), store, order="at", engines={"path": "bloom"})


def test_malformed_events_are_shown_with_the_reason(spark: SparkSession) -> None:
    world = make_world(4)
    rows = rejected(world.frame(spark), order="at").collect()
    assert {row.event_id for row in rows} == {one["id"] for one in world.events if is_malformed(one)}
    assert {row.field for row in rows} == {"topic", "document", "at"}
    assert all(row.reason and row.event_id in row.record for row in rows)


@pytest.mark.parametrize("strategy", ["index", "rendezvous"])
def test_a_malformed_subscription_is_left_out_and_told(spark: SparkSession, strategy: str) -> None:
    subscriptions = spark.createDataFrame(
        [
            ("s1", "ann", "A", None),
            ("s2", "bob", "A//B", None),
            ("s3", "bob", None, "a >"),
            ("s4", None, "A", None),
            ("s5", "cleo", None, None),
            ("s1", "dan", "A", None),
        ],
        "id string, subscriber string, topic string, where string",
    )
    events = spark.createDataFrame([("e1", "A", 1.0)], "id string, topic string, a double")
    told: list[Rejection] = []
    found = match(events, subscriptions, strategy=strategy, rejected=told)
    assert pairs(found) == [("e1", "s1")]
    assert sorted(one.field for one in told if one.field) == [
        "id",
        "subscriber",
        "subscription",
        "topic",
        "where",
    ]
    with pytest.raises(StrictError):
        match(events, subscriptions, strategy=strategy, strict=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"id": "key"}, "no column 'key'"),
        ({"topic": "a"}, "must be a string"),
        ({"order": "when"}, "no column 'when'"),
        ({"carry": ["price"]}, "cannot carry 'price'"),
    ],
)
def test_wrong_columns_are_refused_at_once(
    spark: SparkSession, arguments: dict[str, object], words: str
) -> None:
    events = spark.createDataFrame([("e1", "A", 1.0)], "id string, topic string, a double")
    wish = subscription_frame(spark, [Subscription("s1", "ann", topic="A")])
    with pytest.raises(DistributaryError, match=words):
        match(events, wish, **arguments)  # type: ignore[arg-type]


def test_tolerances_need_a_column_that_orders_the_events(spark: SparkSession) -> None:
    events = spark.createDataFrame([("e1", "A", 1.0)], "id string, topic string, a double")
    wish = subscription_frame(
        spark, [Subscription("s1", "ann", change={"a": 1}), Subscription("s2", "bob", topic="A")]
    )
    with pytest.raises(DistributaryError, match="order="):
        match(events, wish)
    assert pairs(match(events, wish, tolerances=False)) == [("e1", "s2")]


def test_a_misspelt_column_of_the_subscriptions_is_refused(spark: SparkSession) -> None:
    events = spark.createDataFrame([("e1", "A")], "id string, topic string")
    wish = subscription_frame(spark, [Subscription("s1", "ann", topic="A")]).withColumn(
        "wehre", F.lit("a > 1")
    )
    with pytest.raises(DistributaryError, match="wehre"):
        match(events, wish)


@pytest.mark.parametrize("strategy", ["index", "rendezvous"])
@pytest.mark.parametrize("streaming", [False, True])
def test_now_is_the_arrival_of_the_batch(
    spark: SparkSession, strategy: str, streaming: bool, tmp_path: Path
) -> None:
    now = F.current_timestamp()
    ages = spark.createDataFrame([("e1", 10), ("e2", 70), ("e3", 3)], "id string, minutes int")
    events = ages.withColumn("at", now - F.make_dt_interval(mins=F.col("minutes"))).withColumn(
        "x", F.col("minutes")
    )
    wishes = [
        Subscription("s1", "ann", where="at > now() - interval '1 hour'"),
        Subscription("s2", "ann", where="now() - at between interval '5 minutes' and interval '30 minutes'"),
        Subscription("s3", "ann", where="at > now() - interval '1 hour'", change={"x": 2}),
    ]
    frame = subscription_frame(spark, wishes)
    if not streaming:
        found = {tuple(row)[:2] for row in match(events, frame, strategy=strategy, order="at").collect()}
    else:
        events.write.parquet(str(tmp_path / "events"))
        stream = spark.readStream.schema(events.schema).parquet(str(tmp_path / "events"))
        rows = match(stream, frame, strategy=strategy, order="at")
        query = rows.writeStream.format("memory").queryName(f"now_{strategy}").trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
        found = {tuple(row)[:2] for row in spark.table(f"now_{strategy}").collect()}
    assert found == {("e1", "s1"), ("e3", "s1"), ("e1", "s2"), ("e1", "s3"), ("e3", "s3")}

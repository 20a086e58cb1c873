"""Queries on Spark: expressions as SQL, the columns of streams, and what is rejected."""

from __future__ import annotations

import math
from random import Random

import pytest
from pyspark.sql import SparkSession

from distributary.errors import DistributaryError
from distributary.filters.topic import TopicFilter
from distributary.filters.where.evaluate import evaluate as condition_holds
from distributary.filters.where.filter import WhereFilter
from distributary.flow import Catalogue, QueryBuilder, Schema, Source
from distributary.flow.language.expression import evaluate
from distributary.flow.language.parse import resolve_text
from distributary.flow.language.topics import TopicTemplate
from distributary.model import MAX_TOPIC_BYTES, MAX_TOPIC_LEVELS, Subscription, topic_fault
from distributary.spark import match
from distributary.spark.queries.conditions import condition_sql
from distributary.spark.queries.run import run_queries
from distributary.spark.queries.sql import (
    expression_sql,
    published_topic_sql,
    topic_sql,
    well_formed_topic,
)
from flow.random_queries import VALUES, Type, random_condition, random_expression
from properties import oracle_topic
from spark.world import subscription_frame


def check_expressions(spark: SparkSession, seed: int, count: int) -> None:
    """Compare expressions and conditions on random rows, values at the edges among them."""
    rng = Random(f"expressions {seed}")
    schema = Schema({"s": "text", "i": "integer", "x": "number", "b": "boolean", "at": "integer"}, time="at")
    rows = [
        {name: rng.choice([None, *VALUES[type]]) for name, type in schema.attributes.items()} | {"at": number}
        for number in range(40)
    ]
    types = [Type.TEXT, Type.INTEGER, Type.NUMBER, Type.BOOLEAN]
    columns = {name: (name, type) for name, type in schema.attributes.items()}
    expressions = [
        resolve_text(random_expression(rng, schema, rng.choice(types), depth=3), schema) for _ in range(count)
    ]
    conditions = [WhereFilter.parse(random_condition(rng, schema)).expression for _ in range(count)]
    texts = [expression_sql(each.expression, columns)[0] for each in expressions]
    texts += [condition_sql(each, columns) for each in conditions]
    frame = spark.createDataFrame(
        [tuple(row.values()) for row in rows], "s string, i bigint, x double, b boolean, at bigint"
    )
    found = frame.selectExpr("at", *(f"{text} as c{number}" for number, text in enumerate(texts))).collect()
    for row in found:
        given = rows[row["at"]]
        wanted = [evaluate(each.expression, given) for each in expressions]
        wanted += [condition_holds(each, given) for each in conditions]
        for number, value in enumerate(wanted):
            have = row[f"c{number}"]
            assert (repr(have), type(have)) == (repr(value), type(value)), (texts[number], given)
            assert not isinstance(have, float) or have != 0 or math.copysign(1, have) == 1


def test_expressions_mean_on_spark_what_they_mean_in_python(spark: SparkSession) -> None:
    check_expressions(spark, 1, 30)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_expressions_mean_on_spark_what_they_mean_in_python(spark: SparkSession, seed: int) -> None:
    check_expressions(spark, seed, 100)


TRADES = Source(
    "trades",
    {"symbol": "text", "price": "number", "size": "integer", "at": "integer"},
    time="at",
    topic="trades/*",
    where="size > 0",
)


def busy() -> Catalogue:
    build = QueryBuilder("busy")
    large = build.filter("large", "trades", where="size >= 10")
    build.count("per_second", large, window="1 second", group_by=["symbol"])
    catalogue = Catalogue([TRADES], [build.query()])
    catalogue.check()
    return catalogue


def test_streams_have_typed_columns_and_match_takes_them(spark: SparkSession) -> None:
    rows = [
        ("e1", "/trades/A", "A", 1.0, 10, 5),
        ("e2", "trades/A", "A", None, 20, 7),
        ("e3", "trades/B", "B", 2.0, 30, 8),
        ("e4", "trades/B", "B", 2.0, 0, 8),
        ("e5", "quotes/B", "B", 2.0, 30, 8),
        ("e6", "", "B", 2.0, 30, 8),
        ("e7", "trades//B", "C", 2.0, 30, 8),
    ]
    events = spark.createDataFrame(
        rows, "id string, topic string, symbol string, price double, size int, at bigint"
    )
    streams = run_queries(busy(), events)
    assert list(streams) == ["busy.large", "busy.per_second"]
    counted = streams["busy.per_second"]
    assert counted.columns == ["id", "topic", "symbol", "count", "at"]
    assert sorted(map(tuple, counted.collect())) == [
        ("0|1:A", "busy/per_second", "A", 2, 999),
        ("0|1:B", "busy/per_second", "B", 1, 999),
        ("0|1:C", "busy/per_second", "C", 1, 999),
    ]
    subscriptions = [Subscription("s1", "ann", topic="busy/per_second", where="count > 1")]
    matches = match(counted, subscription_frame(spark, subscriptions)).collect()
    assert [(row.event_id, row.subscriber) for row in matches] == [("0|1:A", "ann")]
    with pytest.raises(DistributaryError, match=r"no stream 'busy\.small'; there are busy\.large"):
        streams["busy.small"]


def test_topics_pass_patterns_and_are_well_formed_on_spark_as_elsewhere(spark: SparkSession) -> None:
    random = Random(4)
    levels = ["A", "B", "", "$S", "a\nb", "\\E", "+", "*"]
    topics = ["/".join(random.choices(levels, k=random.randint(1, 5))) for _ in range(150)]
    topics += ["", "/", "x" * MAX_TOPIC_BYTES, "é" * MAX_TOPIC_BYTES, "/" * MAX_TOPIC_LEVELS]
    own, mqtt = ["A", "B", "*", "a\nb", "\\E"], ["A", "B", "+", "", "$S", "a\nb", "*"]
    patterns = ["/".join(["A", *random.choices(own, k=random.randint(0, 3))]) for _ in range(20)]
    patterns += ["mqtt:" + "/".join(random.choices(mqtt, k=random.randint(2, 4))) for _ in range(30)]
    patterns = [pattern + random.choice(["", "/#"]) for pattern in patterns]
    filters = [TopicFilter.parse(pattern) for pattern in [*patterns, "mqtt:#"]]
    columns = [topic_sql(filter, "topic") for filter in filters]
    frame = spark.createDataFrame([(topic,) for topic in topics], "topic string")
    rows = frame.selectExpr("topic", well_formed_topic("topic"), *columns).collect()
    for topic, well, *passed in rows:
        assert well == (topic_fault(topic) is None)
        if well:
            wanted = [oracle_topic.matches(filter.text, topic) for filter in filters]
            assert passed == wanted, topic
    assert len({tuple(row[2:]) for row in rows}) > 10, "the patterns tell topics apart"


def test_events_that_do_not_fit_their_source_are_set_aside_with_the_reason(spark: SparkSession) -> None:
    rows = [
        ("e1", "trades/A", "A", 1.0, 10, 5),
        ("e2", "trades/A", "A", math.nan, 20, 7),
        ("e3", "trades/A", "A", 1.0, 20, None),
        ("e4", "trades/A", "A", 1.0, 20, 2**60),
        ("e5", "quotes", "A", math.inf, 20, None),
    ]
    events = spark.createDataFrame(
        rows, "id string, topic string, symbol string, price double, size bigint, at bigint"
    )
    needs = "where source 'trades' needs the time in milliseconds since 1970"
    found = run_queries(busy(), events).set_aside().collect()
    assert sorted(map(tuple, found)) == [
        ("trades", "e2", "price", "NaN is no finite number, as source 'trades' declares it"),
        ("trades", "e3", "at", f"is null, {needs}"),
        ("trades", "e4", "at", f"is {2**60}, {needs}"),
    ]
    other = events.selectExpr("id", "topic", "cast(size as int) as size", "7 as symbol", "at").limit(1)
    assert [tuple(row)[1:] for row in run_queries(busy(), other).set_aside().collect()] == [
        ("e1", "symbol", "7 is not of type text, as source 'trades' declares it")
    ]


def test_a_timestamp_may_hold_the_time_of_a_source(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [("e1", "trades/A", "A", 10, 5)], "id string, topic string, symbol string, size bigint, at bigint"
    )
    timed = events.withColumn("at", events["at"].cast("timestamp"))
    assert [row["at"] for row in run_queries(busy(), timed)["busy.large"].collect()] == [5000]


def test_the_condition_of_a_source_may_look_at_columns_of_any_type(spark: SparkSession) -> None:
    schema = Schema({"n": "integer", "at": "integer"}, time="at")
    conditions = {
        "cents": "cents = 0.35 and cents * 2 = 0.70",
        "huge": "huge = 9007199254740993",
        "when": "moment >= timestamp '2026-06-01 10:00:00Z' and day < date '2026-06-02'",
        "tags": "array_contains(tags, 'red') or wind.speed / 2 > 4",
        "there": "wind is not null and months is not null",
        "own": "upper(id) = 'B' and topic = '/x'",
        "nan": "x is not null and not x > 1",
    }
    sources = [Source(name, schema, where=where) for name, where in conditions.items()]
    builders = [QueryBuilder(f"q-{name}") for name in conditions]
    for build, name in zip(builders, conditions, strict=True):
        build.filter("all", name, where="n > 0")
    catalogue = Catalogue(sources, [build.query() for build in builders])
    events = spark.sql(
        "select 'a' id, 'x' topic, 1L n, 1L at, 0.35BD cents, 9007199254740992BD huge, double('NaN') x, "
        "timestamp '2026-06-01 10:00:00Z' moment, date '2026-06-01' day, array('red') tags, "
        "named_struct('speed', 8.0BD) wind, interval '1' month months union all "
        "select 'b', '/x', 2L, 2L, 0.36BD, 9007199254740993BD, 0.5D, timestamp '2026-06-01 09:59:59Z', "
        "date '2026-06-02', array('blue'), null, interval '2' month"
    )
    streams = run_queries(catalogue, events)
    found = {name: [row.id for row in streams[f"q-{name}.all"].collect()] for name in conditions}
    both = {"cents": ["a"], "huge": ["b"], "when": ["a"], "tags": ["a"], "there": ["a"], "own": ["b"]}
    assert found == both | {"nan": ["b"]}


def test_topics_are_made_on_spark_as_they_are_made_in_python(spark: SparkSession) -> None:
    long = "x" * (MAX_TOPIC_BYTES - 4)
    texts = [None, "", "/", "a", "/a", "a/b", "/a/b", "a//b", "//", "a/b/c/", "it's", "é", long, long + "y"]
    texts.append("/".join("a" * MAX_TOPIC_LEVELS))
    rows = [(text, number - 3, number % 2 == 0 or None) for number, text in enumerate(texts)]
    columns = {"topic": ("topic", Type.TEXT), "n": ("n", Type.INTEGER), "b": ("b", Type.BOOLEAN)}
    columns["name"] = "topic", Type.TEXT
    templates = [
        *("x/y", "{topic}", "{topic}/x", "x/{topic}", "a/{name}", "{n}/{b}", "it's/{n}"),
        *("{topic[1]}", "{topic[2]}/{n}", "{name[3]}"),
    ]
    made = [TopicTemplate.parse(template) for template in templates]
    frame = spark.createDataFrame(rows, "topic string, n bigint, b boolean")
    found = frame.selectExpr(
        "n", *(f"{published_topic_sql(each, columns)} as t{at}" for at, each in enumerate(made))
    )
    have = {row.n: row[1:] for row in found.collect()}
    assert have == {
        n: tuple(each.topic({"topic": text, "name": text, "n": n, "b": b}) for each in made)
        for text, n, b in rows
    }
    assert {topic is None for topics in have.values() for topic in topics} == {True, False}


def test_a_stage_publishes_on_spark_what_subscriptions_and_sources_ask_for(spark: SparkSession) -> None:
    schema = {"n": "integer", "topic": "text", "at": "integer"}
    events = Source("events", schema, time="at", topic="events/*/#")
    some = Source(
        "some",
        {"n": "number", "at": "integer"},
        time="at",
        where="topic like 'events/%/odd' and id > 'q.odd:b'",
    )
    build = QueryBuilder("q")
    build.publish(build.filter("odd", events, where="n % 2 = 1"), "{topic}/odd")
    reading = QueryBuilder("reading")
    reading.map("half", some, {"half": "n / 2"})
    catalogue = Catalogue([events, some], [build.query(), reading.query()])
    catalogue.check()
    rows = [("a", "events/x", 1, 1), ("b", "events/y", 2, 2), ("c", "events/x", 3, 3), ("d", "events", 5, 4)]
    streams = run_queries(
        catalogue, spark.createDataFrame(rows, "id string, topic string, n bigint, at bigint")
    )
    found = streams["q.odd"]
    assert found.columns == ["id", "topic", "n", "at"]
    assert sorted((row.id, row.topic) for row in found.collect()) == [
        ("a", "events/x/odd"),
        ("c", "events/x/odd"),
    ]
    subscriptions = [
        Subscription("s1", "ann", topic="events/*/odd"),
        Subscription("s2", "bob", topic="q/odd"),
    ]
    matched = match(found, subscription_frame(spark, subscriptions)).collect()
    assert sorted((row.event_id, row.subscription_id) for row in matched) == [("a", "s1"), ("c", "s1")]
    halves = streams["reading.half"].collect()
    assert [(row.id, row.n, row.half) for row in halves] == [("q.odd:c", 3.0, 1.5)]

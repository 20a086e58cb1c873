"""Subscriptions held against the events' schema before they are matched: what is told, and its bounds."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    DayTimeIntervalType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    VariantType,
    YearMonthIntervalType,
)

from distributary import Subscription
from distributary.errors import SubscriptionWarning
from distributary.files import subscriptions_to_table
from distributary.filters.lint.lint import lint
from distributary.filters.lint.schema import EventSchema
from distributary.spark import lint as spark_lint
from distributary.spark import load_pipeline, match, start
from distributary.spark.columns import EventColumns
from distributary.spark.index.build import MAX_LOOKED_AT
from distributary.spark.lint import MAX_LINTED, MAX_TOLD, SubscriptionLint, lint_of
from distributary.store import open_store
from spark.world import pairs, subscription_frame

DDL = "id string, topic string, price double, at timestamp, tags array<string>, wind struct<speed: int>"
ARROW = pa.schema(
    {
        "topic": pa.string(),
        "price": pa.float64(),
        "at": pa.timestamp("us"),
        "tags": pa.list_(pa.string()),
        "wind": pa.struct({"speed": pa.int32()}),
    }
)
SCHEMA = EventSchema.of_arrow(ARROW)
WISHES = [
    Subscription("s1", "ann", where="prise > 5"),
    Subscription("s2", "ann", where="price > 5"),
    Subscription("s3", "bob", where="tags = 'red'"),
    Subscription("s4", "bob", path="//a"),
    Subscription("s5", "bob", where="wind.speed > 2"),
]
EXPECTED = [
    "error: subscription 's1' of 'ann', where: the events have no attribute 'prise'; write price",
    "error: subscription 's3' of 'bob', where: tags = 'red' is never true: tags is an array, not a text; "
    "write array_contains(tags, 'red')",
    "error: subscription 's4' of 'bob', path: the events have no document; name the column of the document",
]


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("e1", "A", 9.0, None, ["red"], (3,))], DDL)


def told_of(subscriptions: list[Subscription]) -> list[str]:
    linted = SubscriptionLint(SCHEMA)
    linted.look(lambda: subscriptions_to_table(subscriptions))
    return linted.lines


@pytest.mark.parametrize("how", ["frame", "store", "rendezvous"])
def test_what_cannot_match_is_warned_of_where_match_is_called_and_the_rest_matches(
    spark: SparkSession, events: DataFrame, tmp_path: Path, how: str
) -> None:
    wishes: DataFrame | str = subscription_frame(spark, WISHES)
    if how == "store":
        wishes = str(tmp_path / "store")
        open_store(wishes).commit(WISHES)
    options = {"strategy": "rendezvous", "capacity": 2} if how == "rendezvous" else {}
    with pytest.warns(SubscriptionWarning) as caught:
        found = match(events, wishes, tolerances=False, **options)
    assert [str(each.message) for each in caught] == EXPECTED
    assert {each.filename for each in caught} == {__file__}
    assert pairs(found) == [("e1", "s2"), ("e1", "s5")]


def test_lint_can_be_turned_off_and_never_stops_a_match(
    spark: SparkSession, events: DataFrame, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wishes = subscription_frame(spark, WISHES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = pairs(match(events, wishes, lint=False))
        for name in ("lint_subscription", "schema_of"):
            with monkeypatch.context() as patch:
                patch.setattr(spark_lint, name, lambda *_: 1 / 0)
                assert pairs(match(events, wishes)) == expected
    assert caplog.text.count("division by zero") == 2


def test_other_column_names_are_those_of_the_match(spark: SparkSession) -> None:
    schema = spark.createDataFrame([], "key string, subject string, body string, `odd.name` int").schema
    linted = lint_of(schema, EventColumns("key", "subject", "body"))
    assert linted is not None
    given = [
        Subscription("s1", "ann", topic="A", path="//a", where='"odd.name" = 1 and id = "odd.name"::text'),
        Subscription("s2", "ann", where="subject = 'A'"),
    ]
    linted.look(lambda: subscriptions_to_table(given))
    (line,) = linted.lines
    assert "the events have no attribute 'subject'" in line


@given(st.lists(st.sampled_from(["prise > {}", "price = '{}'", "price > {}", "tags[0] = '{}'"]), max_size=12))
def test_of_few_subscriptions_all_that_lint_finds_is_told_with_how_many_share_it(
    forms: list[str],
) -> None:
    given = [Subscription(f"s{n}", "ann", where=form.format(n % 3)) for n, form in enumerate(forms)]
    told = told_of(given)
    expected = {(each.message, each.advice) for each in lint(given, SCHEMA, covered=False)}
    assert len(told) == len(expected)
    assert all(any(f"where: {message}; {advice}" in line for line in told) for message, advice in expected)
    misspelt = [line for line in told if "prise" in line]
    count = forms.count("prise > {}")
    assert bool(misspelt) == bool(count)
    assert all((f"and {count - 1} like it" in line) == (count > 1) for line in misspelt)


def test_of_very_many_subscriptions_one_of_each_shape_is_linted_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = []
    lint_one = spark_lint.lint_subscription
    monkeypatch.setattr(
        spark_lint, "lint_subscription", lambda one, schema: looked.append(one.id) or lint_one(one, schema)
    )
    many = 3 * MAX_LOOKED_AT
    forms = ["price > {}", "price = {} and at > '2026-01-01'", "prise > {} or price < {}.5e1"]
    texts = [forms[n * 3 // many].format(n, n) for n in range(many)]
    table = pa.table({"id": list(map(str, range(many))), "subscriber": ["ann"] * many, "where": texts})
    linted = SubscriptionLint(SCHEMA)
    linted.look(lambda: table)
    assert len(looked) == len(forms)
    finding, cut = linted.lines
    assert "and 6,666 like it, where: the events have no attribute 'prise'; write price" in finding
    assert cut.startswith(f"{MAX_LOOKED_AT:,} subscriptions were looked at, and 3 of different shapes held")


def test_no_more_is_linted_or_told_than_the_bounds_say(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    lint_one = spark_lint.lint_subscription
    monkeypatch.setattr(
        spark_lint, "lint_subscription", lambda one, schema: looked.append(one.id) or lint_one(one, schema)
    )
    told = told_of([Subscription(f"s{n}", "ann", where=f"no_{n} > 5") for n in range(2 * MAX_LINTED)])
    assert len(looked) == MAX_LINTED
    assert len(told) == MAX_TOLD + 2
    assert told[-2].startswith(f"{MAX_LINTED - MAX_TOLD:,} more findings")


def test_malformed_subscriptions_are_left_to_those_who_reject_them(spark: SparkSession) -> None:
    table = pa.table({"id": ["a", "b"], "subscriber": ["ann", "ann"], "where": ["price >", "price = '5'"]})
    linted = SubscriptionLint(SCHEMA)
    linted.look(lambda: table)
    assert [line.partition(",")[0] for line in linted.lines] == ["error: subscription 'b' of 'ann'"]


PIPELINE = """
checkpoint = "checkpoint"
queries = "queries.toml"
[source]
format = "json"
path = "in"
schema = "id STRING, topic STRING, price DOUBLE, at BIGINT"
[subscriptions]
store = "subscriptions"
{lint}
[sink]
path = "deliveries"
[trigger]
available_now = true
"""
QUERIES = """
[sources.quotes]
topic = "A"
time = "at"
schema = { price = "number", at = "integer" }
[queries.busy]
[[queries.busy.operators]]
name = "per_minute"
aggregate = { from = "quotes", window = "1 minute", values = { volume = "sum(price)" } }
"""


@pytest.mark.parametrize("lint", ["", "lint = false"])
def test_a_pipeline_tells_at_its_start_and_knows_what_its_queries_publish(
    spark: SparkSession, tmp_path: Path, lint: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.toml").write_text(PIPELINE.format(lint=lint))
    (tmp_path / "queries.toml").write_text(QUERIES)
    derived = Subscription("s9", "bob", topic="busy/per_minute", where="volume > 5 and volum > 5")
    open_store(tmp_path / "subscriptions").commit([*WISHES[:2], derived])
    told: list[str] = []
    pipeline = load_pipeline(tmp_path / "pipeline.toml")
    start(spark, pipeline, tell=told.append).stop()
    misspelt = "error: subscription 's9' of 'bob', where: the events have no attribute 'volum'; write volume"
    assert told == ([] if lint else [EXPECTED[0], misspelt])


def test_columns_of_every_type_are_read_and_of_one_that_is_not_known_nothing_is_said() -> None:
    types = {
        "an `odd`. name": DecimalType(10, 2),
        "length": DayTimeIntervalType(),
        "at": TimestampNTZType(),
        "anything": VariantType(),
        "nested": MapType(StringType(), ArrayType(StructType([StructField("x y", YearMonthIntervalType())]))),
    }
    schema = StructType([StructField(name, each) for name, each in types.items()])
    linted = lint_of(schema, EventColumns())
    assert linted is not None
    given = [Subscription(name, "ann", where=f'"{name}" = 5') for name in types]
    linted.look(lambda: subscriptions_to_table(given))
    said = {name for name in types if any(f"subscription {name!r}" in line for line in linted.lines)}
    assert said == {"length", "at", "nested"}

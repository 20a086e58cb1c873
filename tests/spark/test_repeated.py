"""Of two subscriptions with one id one rule decides everywhere: the first that is well-formed is kept."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.matching.matcher import Matcher, RejectedInput
from distributary.model import Subscription
from distributary.quarantine import Rejection
from distributary.spark import match
from distributary.spark.index.repeated import has_order
from distributary.store import open_store

Row = tuple[str, str, str]
SCHEMA = "id string, subscriber string, topic string"
REPEATED: list[Row] = [("s1", "zoe", "A"), ("s1", "ann", "A"), ("s2", "bob", "A"), ("s1", "eve", "A//B")]


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA)


def on_spark(subscriptions: DataFrame, strategy: str) -> tuple[set[tuple[str, str]], list[Rejection]]:
    """Who gets an event that all well-formed ones want, by subscription, and what is rejected."""
    events = subscriptions.sparkSession.createDataFrame([("e1", "A")], "id string, topic string")
    rejected: list[Rejection] = []
    rows = match(events, subscriptions, strategy=strategy, rejected=rejected).collect()
    return {(row.subscription_id, row.subscriber) for row in rows}, rejected


def in_process(rows: list[Row]) -> set[tuple[str, str]]:
    matcher = Matcher(rejected=(ignored := list[RejectedInput]()))
    for place, (id, subscriber, topic) in enumerate(rows):
        try:
            matcher.add(Subscription(id, subscriber, topic=topic))
        except Exception as error:
            ignored.append(RejectedInput(place, id, error))
    return {(id, matcher.subscriber(id)) for id in matcher.ids()}


@pytest.mark.parametrize("strategy", ["index", "rendezvous"])
def test_the_first_well_formed_one_is_kept_as_in_one_process_and_in_a_store(
    spark: SparkSession, tmp_path: Path, strategy: str
) -> None:
    orders = [list(rows) for rows in permutations(REPEATED)][::6]
    for number, rows in enumerate(orders):
        kept, rejected = on_spark(frame(spark, rows), strategy)
        assert kept == in_process(rows)
        store = open_store(tmp_path / f"{number}")
        well_formed = [Subscription(*row[:2], topic=row[2]) for row in rows if row[2] == "A"]
        store.commit(well_formed, refused=lambda *_: None)
        assert kept == {(one.id, one.subscriber) for _, one in store.subscriptions()}
        assert sorted(one.field or "" for one in rejected) == ["id", "topic"]
        (twice,) = [one for one in rejected if one.field == "id"]
        assert "is registered already" in twice.reason
        assert ("ann" in twice.record) == (("s1", "zoe") in kept)


@pytest.mark.parametrize("strategy", ["index", "rendezvous"])
def test_without_an_order_the_one_whose_text_sorts_first_is_kept(spark: SparkSession, strategy: str) -> None:
    for rows in (REPEATED, REPEATED[::-1]):
        kept, rejected = on_spark(frame(spark, rows).repartition(3), strategy)
        assert kept == {("s1", "ann"), ("s2", "bob")}
        assert len(rejected) == 2


FRAMES: dict[str, tuple[Callable[[DataFrame], DataFrame], bool]] = {
    "a list": (lambda rows: rows, True),
    "filtered": (lambda rows: rows.where("topic = 'A'").select("id"), True),
    "sorted": (lambda rows: rows.repartition(3).orderBy("subscriber"), True),
    "sorted and limited": (lambda rows: rows.repartition(3).orderBy("subscriber").limit(2), True),
    "joined with a small one": (lambda rows: rows.join(F.broadcast(rows.select("id")), "id"), True),
    "grouped": (lambda rows: rows.groupBy("id", "subscriber").count(), False),
    "distinct": (lambda rows: rows.distinct(), False),
    "joined": (lambda rows: rows.hint("merge").join(rows.select("id"), "id"), False),
    "sorted and moved": (lambda rows: rows.orderBy("subscriber").repartition(3), False),
    "sorted within partitions": (lambda rows: rows.repartition(3).sortWithinPartitions("id"), False),
    "kept in memory": (lambda rows: rows.distinct().persist(), False),
}


@pytest.mark.parametrize("name", FRAMES)
def test_rows_that_were_shuffled_have_no_order_until_they_are_sorted(spark: SparkSession, name: str) -> None:
    make, ordered = FRAMES[name]
    made = make(frame(spark, REPEATED))
    assert has_order(made) is ordered
    made.unpersist()

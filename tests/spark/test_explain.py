"""explain on Spark: the answers of `Matcher.explain`, whichever events and subscriptions are chosen."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from distributary import Event, Matcher
from distributary.errors import DistributaryError, UnknownSubscriptionError
from distributary.matching.explain import Explanation
from distributary.spark import explain
from distributary.store import open_store
from spark.world import World, is_malformed, make_world, subscription_frame

Explained = dict[tuple[str, str], tuple[bool, list[tuple[str, str, bool, str]]]]


def explained(frame: DataFrame) -> Explained:
    return {
        (row.event_id, row.subscription_id): (row.matches, [tuple(reason) for reason in row.why])
        for row in frame.collect()
    }


def expected(world: World, events: set[str], subscriptions: set[str]) -> Explained:
    """What a matcher in this process says, event by event in their order."""
    matcher = Matcher(world.subscriptions)
    told: Explained = {}
    for record in world.events:
        if is_malformed(record):
            continue
        event = Event.from_record(record)
        if event.id in events:
            for one in subscriptions:
                told[event.id, one] = _told(matcher.explain(event, one))
        matcher.match(event)
    return told


def _told(found: Explanation) -> tuple[bool, list[tuple[str, str, bool, str]]]:
    return found.matches, [(one.kind, one.filter, one.passes, one.detail) for one in found.reasons]


def test_all_pairs_are_explained_as_a_matcher_does_and_malformed_events_with_the_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = make_world(21, events=40, subscriptions=25)
    store = open_store(tmp_path / "store")
    store.commit(world.subscriptions)
    everyone = {one.id for one in world.subscriptions}
    assert any(one.change for one in world.subscriptions)
    wanted = {record["id"] for record in world.events[10:]}
    found = explained(explain(world.frame(spark), store, event_ids=sorted(wanted), order="at"))
    malformed = {record["id"] for record in world.events if is_malformed(record)} & wanted
    well = {pair: told for pair, told in found.items() if pair[0] not in malformed}
    assert well == expected(world, wanted, everyone)
    assert malformed
    for (event, _), (matches, why) in found.items():
        if event in malformed:
            assert (matches, len(why), why[0][0]) == (False, 1, "event")
            assert why[0][3].startswith("is malformed: ")


def test_without_tolerances_chosen_pairs_need_no_order(spark: SparkSession) -> None:
    world = make_world(22, events=30, subscriptions=20)
    chosen = {one.id for one in world.subscriptions if one.change is None}
    chosen = set(sorted(chosen)[:4])
    events = {record["id"] for record in world.events[:9]}
    wishes = subscription_frame(spark, world.subscriptions)
    found = explain(world.frame(spark), wishes, event_ids=sorted(events), subscription_ids=sorted(chosen))
    told = explained(found)
    well = {pair: each for pair, each in told.items() if each[1][0][0] != "event"}
    assert well == expected(world, events, chosen)
    assert {row.subscriber for row in found.collect()} <= {one.subscriber for one in world.subscriptions}


def test_what_cannot_be_explained_is_refused_with_the_reason(spark: SparkSession) -> None:
    events = spark.createDataFrame([("e1", 9.0)], "id string, price double")
    rows = [("s1", "ann", "price >", None), ("s2", "ann", None, {"price": 1.0})]
    schema = "id string, subscriber string, where string, change map<string, double>"
    wishes = spark.createDataFrame(rows, schema)
    with pytest.raises(UnknownSubscriptionError, match="s9"):
        explain(events, wishes, subscription_ids="s9")  # one id, not letters
    with pytest.raises(DistributaryError, match="'price >'"):
        explain(events, wishes, subscription_ids=["s1"])
    with pytest.raises(DistributaryError, match="order="):
        explain(events, wishes, subscription_ids=["s2"])
    with pytest.raises(DistributaryError, match="a stream cannot be explained"):
        explain(spark.readStream.format("rate").load(), wishes)

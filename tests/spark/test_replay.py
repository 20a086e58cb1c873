"""Replay: what the live stream gave, or would have given, is found again: nothing missed, nothing twice."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from distributary.model import Record, Subscription
from distributary.spark.pipeline import start
from distributary.spark.pipeline_commits import read_records
from distributary.spark.pipeline_config import Pipeline, load_pipeline
from distributary.spark.replay import as_if_subscribed, catch_up, replay, replayed
from distributary.spark.sink_deliveries import read_deliveries
from distributary.store import Life, open_store
from properties.oracle import MatcherOracle
from spark.world import EVENT_DDL, make_subscription, make_world, matched

PIPELINE = f"""
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "{EVENT_DDL}"
options = {{ maxFilesPerTrigger = 1 }}
[events]
order = "at"
[subscriptions]
store = "subscriptions"
[sink]
path = "deliveries"
columns = ["topic", "b"]
[archive]
path = "archive"
[trigger]
available_now = true
"""
BATCHES = 8
EACH = 14
RUNS = 4
"""The store changes before each run of the pipeline, of which each takes two batches."""

Given = set[tuple[int, str, str, tuple[str, ...]]]
"""Deliveries: batch, event, subscriber, subscriptions."""


@dataclass(frozen=True)
class Past:
    """A pipeline that has run, the events of each batch, and what it delivered."""

    pipeline: Pipeline
    batches: list[list[Record]]
    live: Given

    def live_of(self, subscriber: str, batches: Iterable[int] = range(BATCHES)) -> Given:
        return {one for one in self.live if one[2] == subscriber and one[0] in batches}

    def brute_force(self, seen: Iterable[tuple[Subscription, range]]) -> Given:
        """Every subscription by itself, over the batches it sees."""
        found: dict[tuple[int, str, str], set[str]] = defaultdict(set)
        for subscription, batches in seen:
            oracle = MatcherOracle()
            oracle.add(subscription)
            for batch in batches:
                for event, _ in matched(self.batches[batch], (), oracle):
                    found[batch, event, subscription.subscriber].add(subscription.id)
        return {(*key, tuple(sorted(ids))) for key, ids in found.items()}

    def lives(self, subscriber: str) -> list[Life]:
        return open_store(self.pipeline.subscriptions.store).lives(subscriber)


def of(subscriber: str, ids: Iterable[str], seed: int) -> list[Subscription]:
    """Subscriptions of one subscriber, of all kinds, half of them with a tolerance."""
    random = Random(f"{subscriber} {seed}")
    made = []
    for number, one in enumerate(ids):
        subscription = replace(make_subscription(random, one), subscriber=subscriber)
        if number % 2:
            subscription = replace(subscription, change={"a": 0.5}, topic=None, path=None)
        made.append(subscription)
    return made


def changes(random: Random) -> list[tuple[list[Subscription], list[str]]]:
    """What is added and removed before each run: ids come back, some as they were, some as others."""
    early = of("ann", [f"a{n}" for n in range(6)], 0) + of("bob", [f"b{n}" for n in range(4)], 0)
    back = of("cid", ["c0", "c1", "c2"], 0)
    gone = random.sample(["a0", "a1", "a2", "a3", "b0", "b1"], 3)
    again = [one for one in early if one.id in gone[:2]]
    other = of("bob", gone[2:], 1)
    return [
        (early + back, []),
        (of("new", ["n0", "n1"], 0), [*gone, "c0", "c1", "c2"]),
        (again + other, ["a4"]),
        (back + of("new", ["n2", "n3"], 1), []),
    ]


@pytest.fixture(scope="module")
def past(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Past:
    place = tmp_path_factory.mktemp("past")
    (place / "pipeline.toml").write_text(PIPELINE)
    (place / "in").mkdir()
    pipeline = load_pipeline(place / "pipeline.toml")
    random = Random("replay")
    events = make_world(31, events=BATCHES * EACH).events
    # Later batches hold events that are earlier in the order, and some that came before.
    random.shuffle(events)
    batches = [events[n * EACH : (n + 1) * EACH] for n in range(BATCHES)]
    for earlier, later in ((0, 3), (2, 5), (5, 7)):
        batches[later] += batches[earlier][:4]
    store = open_store(place / "subscriptions")
    for run, (added, removed) in enumerate(changes(random)):
        store.commit(added, removed)
        for number in (2 * run, 2 * run + 1):
            path = place / "in" / f"{number:03d}.json"
            path.write_text("".join(json.dumps(record) + "\n" for record in batches[number]))
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        query = start(spark, pipeline)
        assert query.awaitTermination(240)
    store.commit(of("late", ["l0", "l1"], 0))
    records = [one for one in read_records(pipeline.commits) if one.events]
    assert [one.batch for one in records] == list(range(BATCHES))
    assert [one.version for one in records] == [1, 1, 2, 2, 3, 3, 4, 4]
    live = given(read_deliveries(spark, str(place / "deliveries")))
    return Past(pipeline, batches, live)


def given(deliveries: DataFrame) -> Given:
    rows = [
        (row.batch, row.event_id, row.subscriber, tuple(row.subscriptions)) for row in deliveries.collect()
    ]
    assert len(rows) == len({one[:3] for one in rows}), "an event came twice"
    return set(rows)


def lived(past: Past, life: Life) -> range:
    """The batches of a registration: run r used version r + 1 for batches 2r and 2r + 1."""
    until = RUNS + 1 if life.until_version is None else life.until_version
    return range(min(BATCHES, 2 * (life.from_version - 1)), min(BATCHES, 2 * (until - 1)))


@pytest.mark.parametrize("subscriber", ["ann", "bob", "cid", "new"])
def test_catching_up_from_nothing_gives_all_that_the_stream_delivered(
    spark: SparkSession, past: Past, subscriber: str
) -> None:
    found = catch_up(spark, past.pipeline, subscriber)
    everything = given(found.deliveries)
    assert everything == past.live_of(subscriber)
    assert everything == past.brute_force(
        (life.subscription, lived(past, life)) for life in past.lives(subscriber)
    )
    assert len({one[0] for one in everything}) > 2
    assert found.cursor == found.batches[-1] >= BATCHES - 1


def test_catching_up_carries_what_the_sink_carries(spark: SparkSession, past: Past) -> None:
    sink = read_deliveries(spark, past.pipeline.sink.path or "").where("subscriber = 'ann'")
    found = catch_up(spark, past.pipeline, "ann").deliveries
    columns = ["event_id", "subscriber", "subscriptions", "batch", "topic", "b"]
    assert found.columns == columns
    assert sorted(map(repr, found.collect())) == sorted(map(repr, sink.select(columns).collect()))


@pytest.mark.parametrize("subscriber", ["ann", "bob"])
def test_consecutive_calls_share_the_deliveries_out(spark: SparkSession, past: Past, subscriber: str) -> None:
    random = Random(subscriber)
    cursor = -1
    pieces: list[Given] = []
    for until in [*sorted(random.sample(range(1, BATCHES), 2)), None]:
        found = catch_up(spark, past.pipeline, subscriber, after_batch=cursor, until=until)
        pieces.append(given(found.deliveries))
        assert found.batches.start == cursor + 1
        cursor = found.cursor
    assert set().union(*pieces) == past.live_of(subscriber)
    assert sum(map(len, pieces)) == len(past.live_of(subscriber))
    again = catch_up(spark, past.pipeline, subscriber, after_batch=cursor)
    assert again.cursor == cursor
    assert given(again.deliveries) == set()


@pytest.mark.parametrize("first", [0, 3])
def test_a_replay_gives_what_the_stream_would_have_given_from_there_on(
    spark: SparkSession, past: Past, first: int
) -> None:
    subscriptions = of("zoe", [f"z{n}" for n in range(8)], first)
    found = given(replay(spark, past.pipeline, subscriptions, since=first))
    assert found == past.brute_force((one, range(first, BATCHES)) for one in subscriptions)
    started = next(one.started for one in read_records(past.pipeline.commits) if one.batch == first)
    some = replayed(spark, past.pipeline, subscriptions, since=started, after_batch=first + 1, until=7)
    assert some.batches == range(first + 2, 7)
    # Tolerances began at the first batch all the same.
    assert given(some.deliveries) == {one for one in found if one[0] in some.batches}


def test_with_what_came_before_a_new_subscriber_has_everything_once(spark: SparkSession, past: Past) -> None:
    found = as_if_subscribed(spark, past.pipeline, "new", since=0)
    before, live = given(found.deliveries), past.live_of("new")
    events = {one[:2] for one in live}
    assert not events & {one[:2] for one in before}
    lives = past.lives("new")
    # n0 and n1 have been live since batch 2, n2 and n3 since batch 6.
    as_if = past.brute_force((life.subscription, range(lived(past, life).start)) for life in lives)
    assert before == {one for one in as_if if one[:2] not in events}
    plain = [life.subscription for life in lives if life.subscription.change is None]
    wanted = past.brute_force((one, range(BATCHES)) for one in plain)
    assert {one[:2] for one in wanted} <= events | {one[:2] for one in before}
    assert any(one[0] in (0, 1) for one in before)
    assert any(one[0] in (2, 3, 4, 5) for one in before)
    assert found.live


def test_the_part_before_the_stream_takes_over_can_be_had_in_pieces(spark: SparkSession, past: Past) -> None:
    whole = given(as_if_subscribed(spark, past.pipeline, "new", since=0).deliveries)
    first = as_if_subscribed(spark, past.pipeline, "new", since=0, until=4)
    assert (first.live, first.cursor) == (False, 3)
    rest = as_if_subscribed(spark, past.pipeline, "new", since=0, after_batch=first.cursor)
    assert rest.live
    pieces = [given(first.deliveries), given(rest.deliveries)]
    assert set().union(*pieces) == whole
    assert sum(map(len, pieces)) == len(whole)


def test_a_subscriber_of_whom_no_batch_knows_yet_gets_all_finished_ones_and_a_cursor(
    spark: SparkSession, past: Past
) -> None:
    found = as_if_subscribed(spark, past.pipeline, "late", since=3)
    assert not found.live
    assert given(found.deliveries) == past.brute_force(
        (one, range(3, BATCHES)) for one in of("late", ["l0", "l1"], 0)
    )
    assert given(catch_up(spark, past.pipeline, "late").deliveries) == set()
    again = as_if_subscribed(spark, past.pipeline, "late", since=3, after_batch=found.cursor)
    assert given(again.deliveries) == set()


def test_who_left_and_came_back_gets_what_happened_in_between(spark: SparkSession, past: Past) -> None:
    back = of("cid", ["c0", "c1", "c2"], 0)
    live = past.live_of("cid")
    assert {one[0] for one in live} <= {0, 1, 6, 7}
    found = given(as_if_subscribed(spark, past.pipeline, "cid", since=0).deliveries)
    never_left = past.brute_force((one, range(6)) for one in back)
    # Up to the removal the stream has given the same; it is not given again.
    assert {one for one in never_left if one[0] < 2} == {one for one in live if one[0] < 2}
    assert found == {one for one in never_left if one[0] in (2, 3, 4, 5)}
    later = given(as_if_subscribed(spark, past.pipeline, "cid", since=4).deliveries)
    assert later == past.brute_force((one, range(4, 6)) for one in back)

"""Replay: what the live stream gave, or would have given, is found again: nothing missed, nothing twice."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.model import Record, Subscription
from distributary.spark.pipeline.commits import BatchRecord, read_records, write_record
from distributary.spark.pipeline.config import Pipeline, load_pipeline
from distributary.spark.pipeline.deliveries import read_deliveries
from distributary.spark.pipeline.start import start
from distributary.spark.replay.explain import explain_archived
from distributary.spark.replay.history import History
from distributary.spark.replay.replay import as_if_subscribed, catch_up, replay, replay_result
from distributary.store import Life, open_store
from properties.oracle import MatcherOracle
from spark.world import EVENT_DDL, is_malformed, make_subscription, make_world, matched

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
every = "100 milliseconds"
"""
BATCHES = 8
EACH = 14
STEPS = 4
"""The store changes before each step, of which each has two batches."""

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
            subscription = replace(subscription, change={"a": 3.0}, topic=None, path=None)
        made.append(subscription)
    return made


def changes(random: Random) -> list[tuple[list[Subscription], list[str]]]:
    """What is added and removed before each step: ids come back, some as they were, some as others."""
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
    query = start(spark, pipeline)
    try:
        for step, (added, removed) in enumerate(changes(random)):
            store.commit(added, removed)
            for number in (2 * step, 2 * step + 1):
                feed(place / "in", number, batches[number])
            query.processAllAvailable()
    finally:
        query.stop()
    store.commit(of("late", ["l0", "l1"], 0))
    records = [one for one in read_records(pipeline.commits) if one.events]
    assert [one.batch for one in records] == list(range(BATCHES))
    assert [one.version for one in records] == [1, 1, 2, 2, 3, 3, 4, 4]
    live = given(read_deliveries(spark, str(place / "deliveries")))
    return Past(pipeline, batches, live)


def feed(directory: Path, number: int, records: list[Record]) -> None:
    """Have the stream find a file, later than all before it."""
    hidden = directory / f".{number}.json"
    hidden.write_text("".join(json.dumps(record) + "\n" for record in records))
    os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
    hidden.rename(directory / f"{number}.json")


def given(deliveries: DataFrame) -> Given:
    rows = [
        (row.batch, row.event_id, row.subscriber, tuple(row.subscriptions)) for row in deliveries.collect()
    ]
    assert len(rows) == len({one[:3] for one in rows}), "an event came twice"
    return set(rows)


def lived(life: Life) -> range:
    """The batches of a registration: step s used version s + 1 for batches 2s and 2s + 1."""
    until = STEPS + 1 if life.until_version is None else life.until_version
    return range(min(BATCHES, 2 * (life.from_version - 1)), min(BATCHES, 2 * (until - 1)))


@pytest.mark.parametrize("subscriber", ["ann", "bob", "cid"])
def test_catching_up_from_nothing_gives_all_that_the_stream_delivered(
    spark: SparkSession, past: Past, subscriber: str
) -> None:
    found = catch_up(spark, past.pipeline, subscriber)
    rows = found.deliveries.collect()
    columns = ["event_id", "subscriber", "subscriptions", "batch", "topic", "b"]
    live = read_deliveries(spark, past.pipeline.sink.path or "").where(F.col("subscriber") == subscriber)
    assert found.deliveries.columns == columns
    assert sorted(map(repr, rows)) == sorted(map(repr, live.select(columns).collect()))
    assert past.live_of(subscriber) == past.brute_force(
        (life.subscription, lived(life)) for life in past.lives(subscriber)
    )
    assert len({row.batch for row in rows}) > 2
    assert found.cursor == found.batches[-1] >= BATCHES - 1


def test_consecutive_calls_share_the_deliveries_out(spark: SparkSession, past: Past) -> None:
    cursor = -1
    pieces: list[Given] = []
    for until in [Random("cursors").randrange(2, 6), None, None]:
        found = catch_up(spark, past.pipeline, "ann", after_batch=cursor, until=until)
        pieces.append(given(found.deliveries))
        assert found.batches.start == cursor + 1
        cursor = found.cursor
    assert all(pieces[:2])
    assert pieces[2] == set()
    assert pieces[0] | pieces[1] == past.live_of("ann")
    assert not pieces[0] & pieces[1]
    # Whoever forgot at the cursor what was sent before it would get something else.
    first = min(one[0] for one in pieces[1])
    forgetful = (range(max(first, lived(life).start), lived(life).stop) for life in past.lives("ann"))
    seen = zip((life.subscription for life in past.lives("ann")), forgetful, strict=True)
    assert pieces[1] != past.brute_force(seen)


@pytest.mark.parametrize("first", [0, 3])
def test_a_replay_gives_what_the_stream_would_have_given_from_there_on(
    spark: SparkSession, past: Past, first: int
) -> None:
    subscriptions = of("zoe", [f"z{n}" for n in range(8)], first)
    found = given(replay(spark, past.pipeline, subscriptions, since=first))
    assert found == past.brute_force((one, range(first, BATCHES)) for one in subscriptions)
    started = next(one.started for one in read_records(past.pipeline.commits) if one.batch == first)
    some = replay_result(spark, past.pipeline, subscriptions, since=started, after_batch=first + 1, until=7)
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
    as_if = past.brute_force((life.subscription, range(lived(life).start)) for life in lives)
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


def test_what_is_malformed_or_repeated_is_left_out_and_told(spark: SparkSession, past: Past) -> None:
    good = Subscription("s1", "zoe", topic="A")
    strange = Subscription("s2", "zoe", topic="A", more={"unheard": "of"})
    found = replay_result(spark, past.pipeline, [good, strange, good])
    assert [(one.place, one.field) for one in found.rejected] == [
        ("subscription s2", "unheard"),
        ("subscription s1", "id"),
    ]
    plain = replace(past.pipeline, events=replace(past.pipeline.events, order=None))
    tolerant = Subscription("s3", "zoe", topic="A", change={"a": 1.0})
    found = replay_result(spark, plain, [good, tolerant], until=2)
    (left_out,) = found.rejected
    assert (left_out.place, left_out.field) == ("subscription s3", "change")
    assert given(found.deliveries) == past.brute_force([(good, range(2))])


def test_nothing_is_replayed_of_which_a_part_is_missing(
    spark: SparkSession, past: Past, tmp_path: Path
) -> None:
    shutil.copytree(past.pipeline.archive or "", tmp_path / "archive")
    (tmp_path / "archive" / "batch=2" / "_SUCCESS").unlink()
    pipeline = replace(past.pipeline, archive=str(tmp_path / "archive"))
    with pytest.raises(DistributaryError, match="lacks batch 2, of which events are needed"):
        catch_up(spark, pipeline, "ann")
    plain = [Subscription("s1", "zoe", topic="A")]
    assert given(replay(spark, pipeline, plain, after_batch=5)) == past.brute_force([(plain[0], range(6, 8))])


@pytest.fixture
def recorded(tmp_path: Path) -> Pipeline:
    """A pipeline with the records of four batches, an hour apart, and two versions of its store."""
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    pipeline = load_pipeline(tmp_path / "pipeline.toml")
    for batch, version in enumerate([1, None, 1, 2]):
        record(pipeline, batch, version)
    store = open_store(tmp_path / "subscriptions")
    store.commit([Subscription("s1", "ann", topic="A")])
    store.commit([Subscription("s2", "annette", topic="A")], ["s1"])
    return pipeline


def record(pipeline: Pipeline, batch: int, version: int | None) -> None:
    moment = datetime(2026, 5, 1, batch, tzinfo=UTC)
    events = 0 if version is None else 1
    write_record(pipeline.commits, BatchRecord(batch, version, events, 0, 0, 0, moment, moment))


def test_points_and_lives_are_ranges_of_batches(recorded: Pipeline) -> None:
    history = History.of(recorded)
    assert [history.at(point) for point in (0, 3, 9)] == [0, 3, 4]
    times = [
        datetime(2026, 5, 1, tzinfo=UTC) + timedelta(minutes=minutes) for minutes in (-1, 0, 1, 120, 999)
    ]
    assert [history.at(point) for point in times] == [0, 0, 1, 2, 4]
    store = open_store(recorded.subscriptions.store)
    assert [history.during(life) for name in ("ann", "annette") for life in store.lives(name)] == [
        range(3),
        range(3, 4),
    ]
    assert history.filled([range(2), range(1, 4)]) == ([0, 2, 3], [])
    assert [history.after(cursor) for cursor in (-1, 3)] == [0, 4]


def test_points_that_cannot_be_are_refused(recorded: Pipeline) -> None:
    history = History.of(recorded)
    with pytest.raises(DistributaryError, match="the last finished one is 3"):
        history.after(4)
    with pytest.raises(DistributaryError, match="has no time zone"):
        history.at(datetime(2026, 5, 1))
    with pytest.raises(DistributaryError, match="they count from 0"):
        history.at(-1)


def test_records_that_do_not_fit_together_are_refused(recorded: Pipeline) -> None:
    record(recorded, 5, 2)
    with pytest.raises(DistributaryError, match="lacks the record of batch 4"):
        History.of(recorded)
    record(recorded, 4, 1)
    with pytest.raises(DistributaryError, match="the store has been set back"):
        History.of(recorded)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--subscriber", "anette"], "'anette' never had a subscription in .*; did you mean 'annette'"),
        (["--subscriber", "annette", "--out", "{place}/taken"], "taken is there already"),
        (["--subscriptions", "{place}/none.jsonl"], "cannot read .*none.jsonl"),
    ],
)
def test_the_command_says_what_is_wrong_before_it_starts_anything(
    recorded: Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    (tmp_path / "archive" / "batch=0").mkdir(parents=True)
    (tmp_path / "archive" / "batch=0" / "_SUCCESS").touch()
    (tmp_path / "taken").mkdir()
    file = tmp_path / "pipeline.toml"
    assert main(["replay", str(file), *(one.format(place=tmp_path) for one in arguments)]) == 1
    assert re.search(told, capsys.readouterr().err)


def test_the_command_needs_an_archive_with_something_in_it(
    recorded: Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pipeline.toml"
    assert main(["replay", str(file), "--subscriber", "ann"]) == 1
    assert "holds no complete batch" in capsys.readouterr().err
    file.write_text(PIPELINE.replace('[archive]\npath = "archive"\n', ""))
    assert main(["replay", str(file), "--subscriber", "ann"]) == 1
    assert "keeps no events: give it an archive" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--subscriber", "ann", "--since", "2026-05-01"],
        ["--subscriber", "ann", "--since", "yesterday"],
        ["--subscriber", "ann", "--since", "1", "--after-batch", "2"],
        ["--subscriber", "ann", "--since", "1", "--as-if-subscribed-since", "2"],
        ["--subscriptions", "s.jsonl", "--as-if-subscribed-since", "2"],
    ],
)
def test_the_command_refuses_arguments_that_do_not_go_together(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["replay", "pipeline.toml", *arguments])
    assert stopped.value.code == 2


def test_the_command_writes_what_was_missed_and_tells_the_cursor(
    past: Past, tmp_path: Path, session_of_commands: None, capfd: pytest.CaptureFixture[str]
) -> None:
    file = Path(past.pipeline.checkpoint).parent / "pipeline.toml"
    where = ["--after-batch", "2", "--log", str(tmp_path / "log")]
    assert main(["replay", str(file), "--subscriber", "ann", *where]) == 0
    out, err = capfd.readouterr()
    records = [json.loads(line) for line in out.splitlines()]
    found = {
        (one["batch"], one["event_id"], one["subscriber"], tuple(one["subscriptions"])) for one in records
    }
    assert found == past.live_of("ann", range(3, BATCHES))
    assert [one["batch"] for one in records] == sorted(one["batch"] for one in records)
    first, *counts, last = err.splitlines()
    assert f"{len(found)} deliveries" in first
    assert sum(int(line.split()[0]) for line in counts) == sum(len(one[3]) for one in found)
    assert re.fullmatch(r"cursor: (\d+) \(to go on from here: --after-batch \1\)", last)


def test_every_archived_event_is_explained_as_the_stream_delivered_it(past: Past) -> None:
    """Tolerances, ids that come back as others, and events that come again in a later batch included."""
    delivered: dict[tuple[int, str], set[str]] = defaultdict(set)
    for batch, event, _, ids in past.live:
        delivered[batch, event].update(ids)
    pairs = [
        (batch, record["id"])
        for batch, records in enumerate(past.batches)
        for record in records
        if not is_malformed(record)
    ]
    for batch, event in Random(7).sample(pairs, 40):
        told = list(explain_archived(past.pipeline, event, batch=batch))
        matching = {one.explanation.subscription for one in told if one.explanation.matches}
        assert matching == delivered[batch, event]
        assert {one.batch for one in told} == {batch}
        assert len(told) > len(matching)


def test_the_command_tells_why_a_subscriber_did_not_get_an_archived_event(
    past: Past, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Path(past.pipeline.subscriptions.store).parent / "pipeline.toml"
    event = next(one["id"] for one in past.batches[4] if not is_malformed(one))
    command = ["explain", "--pipeline", str(place), "--event", event, "--batch", "4", "--json"]
    assert main([*command, "--subscriber", "cid"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(one["batch"], one["version"], one["matches"]) for one in told} == {(4, 3, False)}
    assert {one["reasons"][0]["kind"] for one in told} == {"registration"}
    assert main([*command, "--subscriber", "ann"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    matching = {one["subscription"] for one in told if one["matches"]}
    live = [ids for batch, one, who, ids in past.live if (batch, one, who) == (4, event, "ann")]
    assert matching == {id for ids in live for id in ids}


def test_an_event_that_is_not_in_the_archive_is_told_with_the_reason_if_there_is_one(past: Past) -> None:
    event = next(one["id"] for each in past.batches for one in each if is_malformed(one))
    with pytest.raises(DistributaryError, match=f"{event}.*set aside in batch"):
        list(explain_archived(past.pipeline, event))
    with pytest.raises(DistributaryError, match="has no event 'nobody' of a finished batch"):
        list(explain_archived(past.pipeline, "nobody"))
    known = next(one["id"] for one in past.batches[0] if not is_malformed(one))
    with pytest.raises(DistributaryError, match="'l0' was not registered at version"):
        list(explain_archived(past.pipeline, known, batch=0, subscription="l0"))
    with pytest.raises(DistributaryError, match=r"'anne' never had a subscription.*'ann'"):
        list(explain_archived(past.pipeline, known, subscriber="anne"))

"""What queries published is archived and replayed: what a subscriber gets later is what the stream gave."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from distributary.cli.replay import _tell
from distributary.errors import DistributaryError
from distributary.flow import Catalogue, answer, read_query_file
from distributary.flow.catalogue import Stream
from distributary.flow.language.schema import Item
from distributary.model import Event, Subscription
from distributary.spark import read_archive, read_derived
from distributary.spark.pipeline import sink
from distributary.spark.pipeline.commits import BatchRecord, read_records, write_record
from distributary.spark.pipeline.config import Pipeline, parse_pipeline
from distributary.spark.pipeline.deliveries import read_deliveries
from distributary.spark.pipeline.derived import attribute_columns, published_topics, require_columns_to_keep
from distributary.spark.pipeline.start import require_own_outputs
from distributary.spark.replay.replay import as_if_subscribed, catch_up, replay, replay_result
from distributary.spark.replay.run import WrittenReplay
from distributary.store import Life, open_store
from properties.oracle import MatcherOracle
from spark.pipeline.test_pipeline import feed, run
from spark.queries.test_pipeline import PUBLISHED, QUERIES, failing_at, trade

QUERY_FILE = QUERIES.replace('{ total = "sum(size)" }', '{ total = "sum(size)", mean = "average(size)" }')
PIPELINE = """
checkpoint = "checkpoint"
queries = "queries.toml"
[source]
format = "json"
path = "in"
schema = "key STRING, subject STRING, symbol STRING, size BIGINT, at BIGINT"
options = { maxFilesPerTrigger = 1 }
[events]
id = "key"
topic = "subject"
order = "at"
[subscriptions]
store = "subscriptions"
[sink]
path = "deliveries"
columns = ["subject", "at", "symbol"]
[archive]
path = "archive"
[metrics]
path = "metrics"
[trigger]
available_now = true
"""
TOPICS = [None, "trades", "busy", "busy/large", "busy/volume", "top", "top/most"]
CONDITIONS = [None, None, "total > 40", "mean < 35.5", "size > 20 or total > 60", "symbol = 'A'", "at > 60"]
TOLERANCES = [{"total": 70.0}, {"size": 40.0}, {"total": 100.0, "size": 12.0}, {"mean": 14.5, "size": 0.0}]
COLUMNS = ["event_id", "subscriber", "subscriptions", "batch", "subject", "at", "symbol"]

Given = set[tuple[int, str, str, tuple[str, ...]]]
"""Deliveries: batch, event, subscriber, subscriptions."""


def of(subscriber: str, ids: Iterable[str], seed: int) -> list[Subscription]:
    """Random subscriptions of one subscriber, half of them with a tolerance."""
    random = Random(f"{subscriber} {seed}")
    made = []
    for number, one in enumerate(ids):
        topic, where = random.choice(TOPICS), random.choice(CONDITIONS)
        change = random.choice(TOLERANCES) if number % 2 else None
        made.append(
            Subscription(one, subscriber, topic, where or (None if topic else "at >= 0"), change=change)
        )
    return made


def trades() -> list[list[dict[str, object]]]:
    """The trades of each file, in a loose order that none is late in; the last one closes all windows."""
    random = Random("trades")
    made = [
        trade(n, 4 * n + random.randrange(4), random.choice([5, 11, 20, 30, 60, 70]), random.choice("AB"))
        for n in range(48)
    ]
    return [made[:16], made[16:28], made[28:40], [*made[40:], trade(48, 900, 1)]]


@dataclass(frozen=True)
class Past:
    """A pipeline that has run, what it had in each batch, and what it delivered."""

    pipeline: Pipeline
    catalogue: Catalogue
    batches: dict[int, list[tuple[str, Event]]]
    """By batch, the events and then the derived items, each kind in its order, with their ids."""
    records: list[BatchRecord]
    live: Given

    def live_of(self, subscriber: str) -> Given:
        return {one for one in self.live if one[2] == subscriber}

    def brute_force(self, seen: Iterable[tuple[Subscription, Iterable[int]]]) -> Given:
        """Every subscription by itself, over the batches it sees."""
        found: dict[tuple[int, str, str], set[str]] = defaultdict(set)
        for subscription, batches in seen:
            oracle = MatcherOracle()
            oracle.add(subscription)
            for batch in batches:
                for event_id, event in self.batches.get(batch, ()):
                    for one in oracle.match(event):
                        found[batch, event_id, subscription.subscriber].add(one)
        return {(*key, tuple(sorted(ids))) for key, ids in found.items()}

    def lives(self, subscriber: str) -> list[Life]:
        return open_store(self.pipeline.subscriptions.store).lives(subscriber)

    def lived(self, life: Life) -> list[int]:
        """The batches that used a version with the registration."""
        until = life.until_version or 99
        return [one.batch for one in self.records if life.from_version <= (one.version or 0) < until]


@pytest.fixture(scope="module")
def past(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Past:
    """Two runs while subscriptions change: a batch of the first fails when all is written but its record."""
    place = tmp_path_factory.mktemp("past")
    (place / "queries.toml").write_text(QUERY_FILE)
    pipeline = parse_pipeline(PIPELINE, str(place / "pipeline.toml"))
    store = open_store(place / "subscriptions", create=True)
    early = of("ann", [f"a{n}" for n in range(8)], 0) + of("bob", [f"b{n}" for n in range(8)], 0)
    again = [one for one in early if one.id in ("a1", "b3")]
    files = trades()
    feed_trades(place, files)
    store.commit(early)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sink, "write_record", failing_at(1, sink.write_record))
        with pytest.raises(StreamingQueryException):
            run(spark, pipeline)
    store.commit(of("new", [f"n{n}" for n in range(6)], 0), ["a0", "a1", "b2", "b3"])

    def changing(commits: str, record: BatchRecord) -> None:
        write_record(commits, record)
        if record.batch == 2:
            store.commit([*again, *of("bob", ["b2"], 1)], ["a3"])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sink, "write_record", changing)
        run(spark, pipeline)

    catalogue = read_query_file(place / "queries.toml")
    records = list(read_records(pipeline.commits))
    assert [one.version for one in records] == [1, 1, 2, 3, 3]
    live = given(read_deliveries(spark, str(place / "deliveries")))
    return Past(pipeline, catalogue, by_batch(spark, pipeline, catalogue, files), records, live)


def feed_trades(place: Path, files: list[list[dict[str, object]]]) -> None:
    for number, records in enumerate(files):
        lines = [
            json.dumps(
                {"key": one["id"], "subject": one["topic"], **{k: one[k] for k in ("symbol", "size", "at")}}
            )
            for one in records
        ]
        feed(place, number, lines)


def by_batch(
    spark: SparkSession, pipeline: Pipeline, catalogue: Catalogue, files: list[list[dict[str, object]]]
) -> dict[int, list[tuple[str, Event]]]:
    """The events and items as we and the interpreter have them, in the batches that the archive says."""
    assert pipeline.archive is not None
    came = {row.key: row.batch for row in read_archive(spark, pipeline.archive).collect()}
    gave = {row.id: row.batch for row in read_derived(spark, pipeline.archive).collect()}
    events = [Event.from_record(record) for records in files for record in records]
    found: dict[int, list[tuple[str, Event]]] = defaultdict(list)
    for event in sorted(events, key=lambda event: (event.attributes["at"], event.id)):
        found[came[event.id]].append((event.id, event))
    for stream, item in derived_items(catalogue, events):
        event_id = f"{stream.topic}#{item.id}"
        found[gave[event_id]].append((event_id, stream.event(item)))
    return found


def derived_items(catalogue: Catalogue, events: Iterable[Event]) -> list[tuple[Stream, Item]]:
    """What the interpreter publishes, each stream in its order."""
    streams = answer(catalogue, events).streams
    return [
        (catalogue.streams[name], item)
        for name in PUBLISHED
        for item in sorted(streams[name], key=lambda item: item.order)
    ]


def given(deliveries: DataFrame) -> Given:
    rows = [
        (row.batch, row.event_id, row.subscriber, tuple(row.subscriptions)) for row in deliveries.collect()
    ]
    assert len(rows) == len({one[:3] for one in rows}), "an event came twice"
    return set(rows)


@pytest.mark.chaos
def test_all_that_queries_published_is_archived_once_and_counted(spark: SparkSession, past: Past) -> None:
    assert past.pipeline.archive is not None
    archived = read_derived(spark, past.pipeline.archive)
    assert dict(archived.dtypes) == {
        "id": "string",
        "topic": "string",
        "__distributary_order": "string",
        "symbol": "string",
        "size": "bigint",
        "at": "bigint",
        "total": "bigint",
        "mean": "double",
        "batch": "bigint",
    }
    rows = archived.orderBy("__distributary_order", "id").collect()
    attributes = ("symbol", "size", "at", "total", "mean")
    found = [
        (row.topic, row.id, {name: row[name] for name in attributes if row[name] is not None}) for row in rows
    ]
    events = [Event.from_record(record) for records in trades() for record in records]
    wanted = [
        (stream.topic, f"{stream.topic}#{item.id}", dict(stream.event(item).attributes))
        for stream, item in derived_items(past.catalogue, events)
    ]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    for topic in {one[0] for one in wanted}:
        assert [one for one in found if one[0] == topic] == [one for one in wanted if one[0] == topic]
    counts: dict[int, int] = defaultdict(int)
    for row in rows:
        counts[row.batch] += 1
    assert {one.batch: one.published for one in past.records if one.published} == counts
    assert any(one.published and not one.events and one.version for one in past.records)
    assert read_archive(spark, past.pipeline.archive).count() == len(events)


@pytest.mark.chaos
@pytest.mark.parametrize("subscriber", ["ann", "bob"])
def test_catching_up_gives_what_the_stream_delivered_of_events_and_of_queries(
    spark: SparkSession, past: Past, subscriber: str
) -> None:
    found = catch_up(spark, past.pipeline, subscriber)
    live = read_deliveries(spark, past.pipeline.sink.path or "").where(f"subscriber = '{subscriber}'")
    assert found.deliveries.columns == COLUMNS
    rows = found.deliveries.collect()
    assert sorted(map(repr, rows)) == sorted(map(repr, live.select(COLUMNS).collect()))
    assert past.live_of(subscriber) == past.brute_force(
        (life.subscription, past.lived(life)) for life in past.lives(subscriber)
    )
    assert {row.subject for row in rows} >= {"busy/large", "busy/volume", "top/most"}
    assert found.derived == sum(one.published for one in past.records if one.batch in found.looked_at)


@pytest.mark.chaos
def test_consecutive_calls_share_the_deliveries_out(spark: SparkSession, past: Past) -> None:
    first = catch_up(spark, past.pipeline, "ann", until=3)
    rest = given(catch_up(spark, past.pipeline, "ann", after_batch=first.cursor).deliveries)
    assert given(first.deliveries) | rest == past.live_of("ann")
    assert not given(first.deliveries) & rest
    # Whoever forgot at the cursor what queries had sent before it would get something else.
    derived = {one for one in rest if "#" in one[1]}
    lived = [(life.subscription, past.lived(life)) for life in past.lives("ann")]
    forgetful = past.brute_force((one, [batch for batch in seen if batch >= 3]) for one, seen in lived)
    assert derived != {one for one in forgetful if "#" in one[1]}


@pytest.mark.chaos
@pytest.mark.parametrize("first", [0, 2])
def test_new_subscriptions_get_what_the_stream_would_have_given(
    spark: SparkSession, past: Past, first: int
) -> None:
    subscriptions = of("zoe", [f"z{n}" for n in range(16)], first)
    found = given(replay(spark, past.pipeline, subscriptions, since=first))
    every = range(first, len(past.records))
    assert found == past.brute_force((one, every) for one in subscriptions)
    assert len({one[1].split("#")[0] for one in found if "#" in one[1]}) == 3


@pytest.mark.chaos
def test_with_what_came_before_a_new_subscriber_has_everything_once(spark: SparkSession, past: Past) -> None:
    found = given(as_if_subscribed(spark, past.pipeline, "new", since=0).deliveries)
    events = {one[:2] for one in past.live_of("new")}
    as_if = past.brute_force((life.subscription, range(min(past.lived(life)))) for life in past.lives("new"))
    assert found == {one for one in as_if if one[:2] not in events}
    assert any("#" in one[1] for one in found)


@pytest.mark.chaos
def test_without_an_order_derived_items_are_replayed_for_who_has_no_tolerance(
    spark: SparkSession, past: Past
) -> None:
    plain = replace(past.pipeline, events=replace(past.pipeline.events, order=None))
    subscriptions = of("zoe", [f"z{n}" for n in range(6)], 5)
    found = replay_result(spark, plain, subscriptions)
    assert [one.field for one in found.rejected] == ["change"] * 3
    every = range(len(past.records))
    assert given(found.deliveries) == past.brute_force((one, every) for one in subscriptions[::2])


@pytest.mark.chaos
def test_nothing_is_replayed_of_which_derived_items_are_missing(
    spark: SparkSession, past: Past, tmp_path: Path
) -> None:
    shutil.copytree(past.pipeline.archive or "", tmp_path / "archive")
    shutil.copytree(past.pipeline.metrics or "", tmp_path / "metrics")
    pipeline = replace(past.pipeline, archive=str(tmp_path / "archive"), metrics=str(tmp_path / "metrics"))
    (first, *_) = [one.batch for one in past.records if one.published]
    (tmp_path / "archive" / "_derived" / f"batch={first}" / "_SUCCESS").unlink()
    with pytest.raises(DistributaryError, match=rf"_derived lacks batch {first}, of which derived items are"):
        catch_up(spark, pipeline, "ann")

    # An archive of a release that kept no derived items, by its records.
    shutil.rmtree(tmp_path / "archive" / "_derived")
    for path in (tmp_path / "metrics" / "batches").glob("*.json"):
        record = json.loads(path.read_text())
        del record["published"]
        path.write_text(json.dumps(record))
    found = catch_up(spark, pipeline, "ann")
    assert found.derived == 0
    assert given(found.deliveries) == {one for one in past.live_of("ann") if "#" not in one[1]}


@pytest.mark.chaos
def test_the_command_tells_how_many_derived_items_it_looked_at(
    spark: SparkSession, past: Past, capsys: pytest.CaptureFixture[str]
) -> None:
    found = catch_up(spark, past.pipeline, "ann", until=1)
    _tell(WrittenReplay(found, 3, {}), Namespace(out="-", as_if_subscribed_since=None))
    assert f"16 events and {past.records[0].published} derived items looked at" in capsys.readouterr().err


def test_derived_items_of_an_earlier_run_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "queries.toml").write_text(QUERY_FILE)
    pipeline = parse_pipeline(PIPELINE, str(tmp_path / "pipeline.toml"))
    require_own_outputs(pipeline)
    (tmp_path / "archive" / "_derived" / "batch=0").mkdir(parents=True)
    with pytest.raises(DistributaryError, match=r"archive/_derived holds batches of an earlier run"):
        require_own_outputs(pipeline)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("batch", "total"), "'batch', which an archive cannot tell from its own batch; rename it"),
        (("total", "Total"), "'Total', which an archive cannot tell from 'total'; rename it"),
    ],
)
def test_attributes_that_cannot_be_columns_of_an_archive_are_refused(
    tmp_path: Path, names: tuple[str, str], reason: str
) -> None:
    with pytest.raises(DistributaryError, match=f"the stream busy.volume publishes {reason}"):
        require_columns_to_keep(_with_values(tmp_path, names))


def test_attributes_that_events_have_already_are_refused(tmp_path: Path) -> None:
    catalogue = _with_values(tmp_path, ("total", "topic"))
    with pytest.raises(DistributaryError, match=r"busy.volume publishes 'topic', a name that is taken"):
        attribute_columns(catalogue, list(published_topics(catalogue)))


def _with_values(place: Path, names: tuple[str, str]) -> Catalogue:
    values = ", ".join(f'{name} = "sum(size)"' for name in names)
    text = QUERIES.replace('total = "sum(size)"', values).partition("[queries.top]")[0]
    (place / "queries.toml").write_text(text)
    catalogue = read_query_file(place / "queries.toml")
    catalogue.check()
    return catalogue

"""The pipeline on Spark: how much of the speed of a map that does nothing is left when it matches.

All ratios are taken within one run, on the same files. The yardstick is an identity mapInArrow over the same
rows; the other one is what Spark's users do without an index, a join on `rlike`. Where neighbours disturb,
the ratio of processor times says more than that of the clock: Spark keeps all cores busy, so alone on a
machine the two are about the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bench.processes import processor_seconds
from bench.report import Result, best_of
from distributary.files import subscriptions_to_table
from distributary.matching.matcher import Matcher
from distributary.model import Subscription
from distributary.spark import match
from distributary.store import open_store
from distributary.workloads import topics

SEED = 1
SCHEMA = "id string, topic string"
FILES = 8


def run(quick: bool) -> list[Result]:
    with tempfile.TemporaryDirectory() as directory, session() as spark:
        place = Path(directory)
        return [
            *_throughput(spark, place, 2_000 if quick else 100_000, 20_000 if quick else 4_000_000, quick),
            *_against_a_join(spark, place, 100 if quick else 500, 20 if quick else 2_000),
            *_growth(spark, place, (500, 2_000) if quick else (10_000, 1_000_000), quick),
            *_live(spark, place, 2_000 if quick else 1_000_000),
            *_rendezvous(spark, place, 4_000 if quick else 5_000_000, quick),
        ]


@contextmanager
def session() -> Iterator[SparkSession]:
    """A session of two cores; one that is there already is used and left."""
    present = SparkSession.getActiveSession()
    if present is not None:
        yield present
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def _throughput(
    spark: SparkSession, place: Path, subscriptions: int, events: int, quick: bool
) -> list[Result]:
    """Batch and stream with topic subscriptions, about one match an event, beside a map that does nothing."""
    wishes = list(topics.subscriptions(subscriptions, seed=SEED))
    source = write_events(place / "throughput", wishes, events)
    frame = spark.read.schema(SCHEMA).parquet(source)
    matched = match(frame, subscription_frame(spark, place, wishes))
    checked = _check(frame, matched, wishes)
    workload = f"{subscriptions:,} topic subscriptions, {events:,} events"
    identity = frame.mapInArrow(_unchanged, SCHEMA)
    plain, batch, share = _side_by_side(lambda: _drain(identity), lambda: _drain(matched), quick)
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES // 2).parquet(source)
    followed = match(stream, subscription_frame(spark, place, wishes))
    plain_stream, streamed, stream_share = _side_by_side(
        lambda: _drain_stream(stream.mapInArrow(_unchanged, SCHEMA), place),
        lambda: _drain_stream(followed, place),
        quick,
    )
    return [
        Result(workload, "identity mapInArrow", "batch", events / plain, "events/s", checked),
        Result(workload, "index", "batch", events / batch, "events/s", checked),
        Result(workload, "index / identity", "batch", plain / batch * 100, "%", checked, ">= 60 %"),
        Result(workload, "index / identity", "batch, processor time", share, "%", checked, ">= 60 %"),
        Result(workload, "identity mapInArrow", "stream", events / plain_stream, "events/s", checked),
        Result(workload, "index", "stream", events / streamed, "events/s", checked),
        Result(
            workload, "index / identity", "stream", plain_stream / streamed * 100, "%", checked, ">= 40 %"
        ),
        Result(workload, "index / identity", "stream, processor time", stream_share, "%", checked, ">= 40 %"),
    ]


def _against_a_join(spark: SparkSession, place: Path, subscriptions: int, events: int) -> list[Result]:
    """The join on regular expressions that Spark's users have without an index."""
    wishes = list(topics.subscriptions(subscriptions, seed=SEED))
    patterns = [(one.id, _regex(one)) for one in wishes]
    right = spark.createDataFrame(patterns, "subscription_id string, pattern string")
    few = spark.read.schema(SCHEMA).parquet(write_events(place / "few", wishes, events))
    many_events = 2_000 * events
    many = spark.read.schema(SCHEMA).parquet(write_events(place / "many", wishes, many_events))
    joined = few.join(F.broadcast(right), F.expr("topic rlike pattern")).select("id", "subscription_id")
    frame = subscription_frame(spark, place, wishes)
    expected = sorted(map(tuple, joined.collect()))
    found = match(few, frame).select("event_id", "subscription_id").collect()
    if sorted(map(tuple, found)) != expected:
        raise AssertionError("the join and the index disagree")
    slow, _ = best_of(2, lambda: _drain(joined))
    plain, _ = best_of(2, lambda: _drain(many.mapInArrow(_unchanged, SCHEMA)))
    start = time.perf_counter()
    matched = match(many, frame)
    built = time.perf_counter() - start
    fast, _ = best_of(2, lambda: _drain(matched))
    workload = f"{subscriptions} topic subscriptions"
    checked = f"each other, on {events:,} events"
    join_rate, index_rate = events / slow, many_events / fast
    return [
        Result(workload, "join on rlike", "events a second", join_rate, "events/s", checked),
        Result(workload, "index", "events a second", index_rate, "events/s", checked),
        Result(
            workload, "index / join", "how much faster", index_rate / join_rate, "x", checked, ">= 1000 x"
        ),
        Result(
            workload,
            "identity mapInArrow / join",
            "the most that Spark would give",
            many_events / plain / join_rate,
            "x",
            checked,
        ),
        Result(workload, "index", "building", built, "s", checked),
    ]


def _growth(spark: SparkSession, place: Path, sizes: tuple[int, ...], quick: bool) -> list[Result]:
    """What an event costs as subscriptions grow; the matches of an event stay at about one."""
    events = 10_000 if quick else 2_000_000
    results: list[Result] = []
    costs: list[float] = []
    for size in sizes:
        wishes = list(topics.subscriptions(size, seed=SEED))
        frame = spark.read.schema(SCHEMA).parquet(write_events(place / f"growth{size}", wishes, events))
        matched = match(frame, subscription_frame(spark, place, wishes), strategy="index")
        checked = _check(frame, matched, wishes)
        seconds, _ = best_of(3, lambda matched=matched: _drain(matched))
        costs.append(seconds / events)
        results.append(
            Result("cost as subscriptions grow", f"{size:,}", "an event", costs[-1] * 1e6, "us", checked)
        )
    ratio = costs[-1] / costs[0]
    engine = f"{sizes[-1]:,} / {sizes[0]:,}"
    return [*results, Result("cost as subscriptions grow", engine, "growth", ratio, "x", checked, "< 3 x")]


def _live(spark: SparkSession, place: Path, subscriptions: int) -> list[Result]:
    """A change of 100 subscriptions in a store, until matching uses it, beside building the base."""
    store = open_store(place / "store", create=True)
    store.commit(topics.subscriptions(subscriptions, seed=SEED))
    events = write_events(place / "live", list(islice(topics.subscriptions(1000, seed=SEED), 1000)), 1_000)
    frame = spark.read.schema(SCHEMA).parquet(events)

    def matches() -> int:
        return match(frame, store, tolerances=False).count()

    start = time.perf_counter()
    before = matches()
    built = time.perf_counter() - start
    steady, _ = best_of(3, matches)
    gone = [one.id for one in islice(topics.subscriptions(50, seed=SEED), 50)]
    new = [
        Subscription(f"new{number}", one.subscriber, topic=one.topic)
        for number, one in enumerate(topics.subscriptions(50, seed=SEED))
    ]
    store.commit(new, remove=gone)
    start = time.perf_counter()
    after = matches()
    changed = time.perf_counter() - start
    if after != before:
        raise AssertionError("the same patterns under other ids must match as often")
    workload = f"a store of {subscriptions:,}, 1,000 events"
    checked = "the count of matches before and after"
    return [
        Result(workload, "index", "first use: builds the base", built, "s", checked),
        Result(workload, "index", "steady", steady, "s", checked),
        Result(workload, "index", "the first after 100 changes", changed, "s", checked),
        Result(
            workload,
            "the first after 100 changes / building anew",
            "share",
            changed / built * 100,
            "%",
            checked,
        ),
    ]


def _rendezvous(spark: SparkSession, place: Path, subscriptions: int, quick: bool) -> list[Result]:
    """More subscriptions than a worker should hold: the memory of the largest Python worker, and the rate."""
    target = place / "very-many"
    write_subscriptions(target, subscriptions)
    wishes = list(islice(topics.subscriptions(20_000, seed=SEED), min(20_000, subscriptions)))
    events = 2_000 if quick else 500_000
    frame = spark.read.schema(SCHEMA).parquet(write_events(place / "visits", wishes, events))
    with watched_workers() as peak:
        start = time.perf_counter()
        matched = match(
            frame,
            spark.read.parquet(str(target)),
            strategy="rendezvous",
            capacity=1_000 if quick else 250_000,
            workspace=str(place / "workspace"),
        )
        built = time.perf_counter() - start
        sample = frame.limit(2_000)
        checked = _check(sample, matched, wishes, at_least=True)
        seconds, _ = best_of(2, lambda: _drain(matched))
    shutil.rmtree(place / "workspace")
    workload = f"{subscriptions:,} topic subscriptions, {events:,} events"
    largest = peak.bytes / 1e9
    return [
        Result(workload, "rendezvous", "building the parts", built, "s", checked),
        Result(workload, "rendezvous", "batch", events / seconds, "events/s", checked),
        Result(workload, "rendezvous", "largest Python worker", largest, "GB", checked, "< 2 GB"),
    ]


def _check(frame: DataFrame, matched: DataFrame, wishes: list[Subscription], at_least: bool = False) -> str:
    """Compare with a matcher of this process on some events; `at_least` when there are more subscriptions."""
    rows = frame.limit(2_000).toArrow()
    expected = Matcher(wishes).match_batch(rows)
    wanted = set(zip(expected["event_id"].to_pylist(), expected["subscription_id"].to_pylist(), strict=True))
    found = matched.where(F.col("event_id").isin(rows["id"].to_pylist())).collect()
    pairs = {(row.event_id, row.subscription_id) for row in found}
    if len(pairs) != len(found) or not (wanted <= pairs if at_least else wanted == pairs):
        raise AssertionError("Spark and one process disagree")
    return f"Matcher in one process, {rows.num_rows:,} events"


def _side_by_side(
    first: Callable[[], None], second: Callable[[], None], quick: bool
) -> tuple[float, float, float]:
    """The shortest of three runs each, in turns, so that both meet the same neighbours.

    Last, the processor time of all the first as a share of that of the second, in percent.
    """
    if not quick:
        first(), second()
    runs = [(_cost(first), _cost(second)) for _ in range(1 if quick else 3)]
    (one, one_used), (other, other_used) = (
        (min(seconds for seconds, _ in costs), sum(used for _, used in costs))
        for costs in zip(*runs, strict=True)
    )
    return one, other, one_used / (other_used or 1.0) * 100


def _cost(action: Callable[[], None]) -> tuple[float, float]:
    """Seconds by the clock, and processor time of all processes."""
    before = processor_seconds()
    seconds, _ = best_of(1, action)
    after = processor_seconds()
    return seconds, seconds if before is None or after is None else after - before


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _drain_stream(frame: DataFrame, place: Path) -> None:
    checkpoint = Path(tempfile.mkdtemp(dir=place))
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _regex(subscription: Subscription) -> str:
    assert subscription.topic is not None
    return "^" + subscription.topic.replace("*", "[^/]+") + "(/.*)?$"


def write_events(place: Path, wishes: list[Subscription], count: int) -> str:
    """Parquet files of events whose topics are patterns of subscriptions with their wildcards filled."""
    random = Random(SEED)
    distinct = [
        str(random.choice(wishes).topic).replace("*", f"x{random.randrange(50)}")
        for _ in range(min(count, 100_000))
    ]
    place.mkdir()
    each = -(-count // FILES)
    for number in range(FILES):
        rows = range(number * each, min(count, (number + 1) * each))
        texts = pa.array([distinct[random.randrange(len(distinct))] for _ in rows], pa.string())
        ids = pa.array([f"e{row}" for row in rows], pa.string())
        pq.write_table(pa.table({"id": ids, "topic": texts}), place / f"{number}.parquet")
    return str(place)


def write_subscriptions(place: Path, count: int) -> None:
    """Parquet files of topic subscriptions, a few at a time."""
    place.mkdir()
    made = topics.subscriptions(count, seed=SEED)
    number = 0
    while some := list(islice(made, 250_000)):
        pq.write_table(subscriptions_to_table(some), place / f"{number}.parquet")
        number += 1


def subscription_frame(spark: SparkSession, place: Path, wishes: list[Subscription]) -> DataFrame:
    target = Path(tempfile.mkdtemp(dir=place)) / "subscriptions.parquet"
    pq.write_table(subscriptions_to_table(wishes), target)
    return spark.read.parquet(str(target))


class Peak:
    """The most memory that any Python worker has held."""

    bytes = 0


@contextmanager
def watched_workers() -> Iterator[Peak]:
    """Look at the peak memory of all Python workers of Spark, again and again."""
    peak = Peak()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.5):
            peak.bytes = max(peak.bytes, _largest_worker())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def _largest_worker() -> int:
    """The greatest resident size any worker of Spark has had, from the table of processes."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    largest = 0
    for line in listed.splitlines():
        pid, _, arguments = line.strip().partition(" ")
        if "pyspark.daemon" in arguments:
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except FileNotFoundError:
                continue
            peaks = [row.split()[1] for row in status.splitlines() if row.startswith("VmHWM")]
            largest = max(largest, *(1024 * int(one) for one in peaks), 0)
    return largest

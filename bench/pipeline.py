"""Micro-batches of a pipeline beside a bare one: the same JSON files, an identity mapInArrow, a Parquet sink.

    python -m bench pipeline
    python -m bench pipeline --only 2500      # one size of micro-batches

Every kind of run takes the same files, one a micro-batch, in turns, within one session; what is told is the
median time that Spark gives for a micro-batch, after the first two, and the processor time of a whole run by
the micro-batch. The deliveries of every run are compared with those of a matcher in this process, and the
archive and the quarantine are counted, before anything is told. Where neighbours disturb, the ratio of
processor times says more than that of the clock.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.processes import processor_seconds
from bench.report import Result
from bench.spark import session
from distributary.matching.matcher import Matcher
from distributary.model import Record, Subscription
from distributary.spark import read_archive, read_deliveries, start
from distributary.spark.pipeline.commits import read_records
from distributary.spark.pipeline.config import parse_pipeline
from distributary.store import open_store

SEED = 1
SUBSCRIBERS = 235
SYMBOLS = 500
SUBSCRIPTIONS = 5_000
TOLERANT = 10
"""Of how many subscriptions one has a tolerance."""
BROKEN = 100
"""Of how many lines one cannot be read."""
WARM = 2
"""Micro-batches of a run that are not counted: they start the workers, and Spark compiles."""
SCHEMA = "id STRING, topic STRING, at BIGINT, price DOUBLE, size BIGINT"
QUERIES = """
[sources.quotes]
topic = "quotes"
time = "at"
schema = { price = "number", size = "integer", at = "integer" }

[[queries.busy.operators]]
name = "large"
filter = { from = "quotes", where = "size > 950" }

[[queries.busy.operators]]
name = "volume"
aggregate = { from = "quotes", window = "1 s", values = { total = "sum(size)" } }
"""
PIPELINE = """
checkpoint = "checkpoint"
{queries}
[source]
format = "json"
path = "{events}"
schema = "{schema}"
options = {{ maxFilesPerTrigger = 1 }}
[events]
{order}
[subscriptions]
store = "{store}"
lint = false
[sink]
path = "deliveries"
columns = ["topic", "price"]
each = {each}
[archive]
path = "archive"
[quarantine]
path = "quarantine"
[metrics]
path = "metrics"
[trigger]
available_now = true
"""


@dataclass(frozen=True)
class Kind:
    """One way to run the micro-batches."""

    name: str
    tolerances: bool = False
    each: bool = False
    queries: bool = False
    target: str = ""
    """What the ratio to the bare micro-batch should be."""


PLAIN = Kind("all outputs", target="<= 2 times")
KINDS = (
    PLAIN,
    Kind("with tolerances", tolerances=True, target="<= 3 times"),
    Kind(f"each of {SUBSCRIBERS} subscribers", each=True),
    Kind("with queries", queries=True),
)
BARE = "bare micro-batch"


@dataclass
class Costs:
    """What the runs of one kind took."""

    seconds: list[float] = field(default_factory=list)
    """By the clock, of each micro-batch that counts."""
    processor: list[float] = field(default_factory=list)
    """By micro-batch, of each run."""

    @property
    def typical(self) -> float:
        return median(self.seconds)


def _sizes(quick: bool) -> dict[int, int]:
    """How many micro-batches are counted of each size."""
    return {50: 4} if quick else {100: 8, 2_500: 8, 100_000: 4}


def known(quick: bool) -> list[str]:
    """What can be asked for alone: events of a micro-batch."""
    return [str(size) for size in _sizes(quick)]


def run(quick: bool, only: Sequence[str] = ()) -> list[Result]:
    sizes = {size: count for size, count in _sizes(quick).items() if not only or str(size) in only}
    rounds = 1 if quick else 3
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as directory, session() as spark:
        # As `distributary run` does it on two cores.
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        for events, batches in sizes.items():
            place = Path(directory) / str(events)
            place.mkdir()
            results += _beside_a_bare_one(spark, place, events, batches + WARM, rounds)
            shutil.rmtree(place)
    return results


def _beside_a_bare_one(
    spark: SparkSession, place: Path, events: int, batches: int, rounds: int
) -> list[Result]:
    files = [[*_events(number, events)] for number in range(batches)]
    _write(place / "events", files)
    stores = {tolerances: _stored(place, tolerances) for tolerances in (False, True)}
    wanted = {tolerances: _expected(files, stores[tolerances]) for tolerances in stores}
    costs: dict[str, Costs] = defaultdict(Costs)
    if rounds > 1:  # the first run of all has Spark start its workers and compile
        _measure(Costs(), batches, lambda target: _bare(spark, place, target), place / "first")
    for turn in range(rounds):
        _measure(costs[BARE], batches, lambda target: _bare(spark, place, target), place / f"bare{turn}")
        for kind in KINDS:
            target = place / f"{turn} {kind.name}"
            _measure(costs[kind.name], batches, lambda at, kind=kind: _ours(spark, place, at, kind), target)
            _check(spark, target, files, wanted[kind.tolerances], kind)
            shutil.rmtree(target)
    workload = f"{events:,} events a micro-batch, {SUBSCRIPTIONS:,} subscriptions"
    return [*_told(workload, events, costs)]


def _told(workload: str, events: int, costs: dict[str, Costs]) -> Iterator[Result]:
    bare = costs[BARE]
    checked = "Matcher in one process, all deliveries of all batches"
    yield Result(workload, BARE, "a micro-batch", bare.typical, "s", "")
    for kind in KINDS:
        cost = costs[kind.name]
        below = "< 2 s" if kind.each and events == 2_500 else ""
        target = kind.target if events == 2_500 else ""
        yield Result(workload, kind.name, "a micro-batch", cost.typical, "s", checked, below)
        yield Result(workload, kind.name, "events", events / cost.typical, "a second", checked)
        ratio = cost.typical / bare.typical
        yield Result(workload, f"{kind.name} / bare", "a micro-batch", ratio, "times", checked, target)
        if bare.processor:
            used = min(cost.processor) / min(bare.processor)
            yield Result(workload, f"{kind.name} / bare", "processor time", used, "times", checked)


def _measure(costs: Costs, batches: int, begin: Callable[[Path], StreamingQuery], target: Path) -> None:
    """Run a query to its end, and note what its micro-batches took."""
    before = processor_seconds()
    query = begin(target)
    query.awaitTermination()
    after = processor_seconds()
    told = [one for one in query.recentProgress if one["numInputRows"]]
    costs.seconds += [one["durationMs"]["triggerExecution"] / 1000 for one in told[WARM:]]
    if before is not None and after is not None:
        costs.processor.append((after - before) / batches)


def _bare(spark: SparkSession, place: Path, target: Path) -> StreamingQuery:
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(place / "events"))
    writer = stream.mapInArrow(_unchanged, SCHEMA).writeStream.format("parquet")
    places = {"path": str(target / "out"), "checkpointLocation": str(target / "checkpoint")}
    return writer.options(**places).trigger(availableNow=True).start()


def _ours(spark: SparkSession, place: Path, target: Path, kind: Kind) -> StreamingQuery:
    target.mkdir()
    (target / "queries.toml").write_text(QUERIES)
    text = PIPELINE.format(
        queries='queries = "queries.toml"' if kind.queries else "",
        events=place / "events",
        schema=SCHEMA,
        order='order = "at"' if kind.tolerances else "",
        store=_store_at(place, kind.tolerances),
        each=str(kind.each).lower(),
    )
    return start(spark, parse_pipeline(text, str(target / "pipeline.toml")))


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _events(number: int, count: int) -> Iterator[Record]:
    """The events of a file: quotes of symbols, whose prices move a little."""
    random = Random(f"{SEED} file {number}")
    for row in range(count):
        symbol = min(random.randrange(SYMBOLS), random.randrange(SYMBOLS))
        price = 100 + symbol % 7 + random.gauss(0, 2)
        at = (number * count + row) * 10
        yield {
            "id": f"e{number}-{row}",
            "topic": f"quotes/{symbol % 10}/{symbol}",
            "at": at,
            "price": round(price, 2),
            "size": random.randrange(1000),
        }


def _write(place: Path, files: list[list[Record]]) -> None:
    place.mkdir()
    for number, records in enumerate(files):
        lines = [json.dumps(record) for record in records]
        lines += ['{"id": "broken", ' for _ in range(len(records) // BROKEN)]
        path = place / f"{number:05d}.json"
        path.write_text("".join(line + "\n" for line in lines))
        # A stream takes files in the order of their times.
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _store_at(place: Path, tolerances: bool) -> Path:
    return place / ("tolerant" if tolerances else "plain")


def _stored(place: Path, tolerances: bool) -> list[Subscription]:
    """The subscriptions of a store that is made: topics, half of them with a condition."""
    random = Random(SEED)
    made = []
    for number in range(SUBSCRIPTIONS):
        symbol = random.randrange(SYMBOLS)
        where = f"price > {random.randrange(95, 108)}" if number % 2 else None
        change = {"price": 1.5} if tolerances and number % TOLERANT == 0 else None
        topic = f"quotes/{symbol % 10}/{symbol}"
        name = f"person {number % SUBSCRIBERS}"
        made.append(Subscription(f"s{number}", name, topic=topic, where=where, change=change))
    store = open_store(_store_at(place, tolerances), create=True)
    store.commit(made)
    return made


Deliveries = dict[tuple[str, str], list[str]]


def _expected(files: list[list[Record]], subscriptions: list[Subscription]) -> Deliveries:
    """The deliveries that a matcher of this process gives, file by file."""
    matcher = Matcher(subscriptions)
    subscribers = {one.id: one.subscriber for one in subscriptions}
    found: Deliveries = defaultdict(list)
    for records in files:
        matches = matcher.match_batch(pa.Table.from_pylist(records))
        pairs = zip(matches["event_id"].to_pylist(), matches["subscription_id"].to_pylist(), strict=True)
        for event, subscription in pairs:
            found[event, subscribers[subscription]].append(subscription)
    return found


def _check(
    spark: SparkSession, target: Path, files: list[list[Record]], wanted: Deliveries, kind: Kind
) -> None:
    """Compare what a run has written with what it should have."""
    rows = read_deliveries(spark, str(target / "deliveries")).toArrow()
    keys = zip(rows["event_id"].to_pylist(), rows["subscriber"].to_pylist(), strict=True)
    if len(rows) != len(wanted) or dict(zip(keys, rows["subscriptions"].to_pylist(), strict=True)) != {
        key: sorted(ids) for key, ids in wanted.items()
    }:
        raise AssertionError(f"{kind.name}: the deliveries are others than those of one process")
    good = sum(map(len, files))
    if read_archive(spark, str(target / "archive")).count() != good:
        raise AssertionError(f"{kind.name}: the archive does not hold every event once")
    records = list(read_records(str(target / "metrics" / "batches")))
    broken = sum(len(records) // BROKEN for records in files)
    if (sum(one.events for one in records), sum(one.rejected for one in records)) != (good, broken):
        raise AssertionError(f"{kind.name}: the records count other events than there were")

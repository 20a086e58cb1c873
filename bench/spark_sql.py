"""Rules over flights on Spark: `distributary.spark.match` beside `spark.sql` asked rule by rule.

Both start from nothing but a session that has run a query: building the index, starting Python workers and
loading kernels count, as do parsing and planning each rule's query. Both bring the pairs of event and rule to
the driver, where they must be the same.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.peers import flights
from bench.peers.exchange import FOLDER
from bench.processes import processor_seconds
from bench.report import Result
from bench.spark import FILES, session, subscription_frame
from distributary.model import Subscription
from distributary.spark import match

SEED = 1

Pairs = tuple[np.ndarray, np.ndarray]
"""Numbers of events and of rules."""


def run(quick: bool) -> list[Result]:
    """200 rules on 30,000 flights, or a few of both."""
    count, rows = (30, 2_000) if quick else (200, 30_000)
    rules = flights.rules(count, SEED)
    with tempfile.TemporaryDirectory() as directory, session() as spark:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        place = Path(directory)
        events = spark.read.parquet(_written(place, rows))
        events.createOrReplaceTempView("flights")
        events.count()
        asked, sql_seconds, sql_used = _timed(lambda: _by_rule(spark, rules))
        wishes = [Subscription(f"r{at}", "ann", where=rule.ours) for at, rule in enumerate(rules)]
        frame = subscription_frame(spark, place, wishes)
        found, seconds, used = _timed(lambda: _matched(events, frame))
        again, warm_seconds, warm_used = _timed(lambda: _matched(events, frame))
    _check(asked, found)
    _check(asked, again)
    workload = f"{count} rules of every construct over {rows:,} flights, {len(asked[0]):,} matches"
    checked = "each other, all matches"
    return [
        Result(workload, "spark.sql, rule by rule", "time", sql_seconds, "s", checked),
        Result(workload, "spark.sql, rule by rule", "processor time", sql_used, "s", checked),
        Result(workload, "match, start included", "time", seconds, "s", checked),
        Result(workload, "match, start included", "processor time", used, "s", checked),
        Result(workload, "match again", "time", warm_seconds, "s", checked),
        Result(workload, "match again", "processor time", warm_used, "s", checked),
        Result(workload, "spark.sql / match", "time", sql_seconds / seconds, "x", checked, ">= 1 x"),
        Result(workload, "spark.sql / match", "processor time", sql_used / used, "x", checked, ">= 1 x"),
    ]


def _written(place: Path, rows: int) -> str:
    """The flights as Parquet files."""
    table = flights.flights(rows, FOLDER / "downloads")
    target = place / "flights"
    target.mkdir()
    each = -(-rows // FILES)
    for number in range(FILES):
        pq.write_table(table.slice(number * each, each), target / f"{number}.parquet")
    return str(target)


def _by_rule(spark: SparkSession, rules: list[flights.Rule]) -> Pairs:
    """A query for each rule."""
    found = [
        _numbers(spark.sql(f"select id from flights where {rule.spark}").toArrow()["id"]) for rule in rules
    ]
    return np.concatenate(found), np.repeat(np.arange(len(rules)), [len(ids) for ids in found])


def _matched(events: DataFrame, subscriptions: DataFrame) -> Pairs:
    table = match(events, subscriptions).select("event_id", "subscription_id").toArrow()
    return _numbers(table["event_id"]), _numbers(table["subscription_id"])


def _numbers(ids: pa.ChunkedArray) -> np.ndarray:
    """The numbers in ids as `f17`."""
    numbers: np.ndarray = pc.cast(pc.utf8_slice_codeunits(ids, 1), pa.int64()).to_numpy()
    return numbers


def _timed(action: Callable[[], Pairs]) -> tuple[Pairs, float, float]:
    """What it found, seconds by the clock, and processor time of all processes."""
    before, start = processor_seconds(), time.perf_counter()
    found = action()
    seconds, after = time.perf_counter() - start, processor_seconds()
    return found, seconds, seconds if before is None or after is None else after - before


def _check(one: Pairs, other: Pairs) -> None:
    first, second = (np.sort(events * 1_000_000 + rules) for events, rules in (one, other))
    if not np.array_equal(first, second):
        few = np.setxor1d(first, second)[:5]
        raise AssertionError(f"Spark SQL and match disagree, among others about {few.tolist()}")

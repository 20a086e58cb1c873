"""Stream queries on Spark: 500 that have prefixes in common as one job, beside 500 jobs.

The separate ones are written by hand as Spark's users write them, a filter, a projection and a grouping by
window, on the same files in the same session; every answer of one is compared with that of the other. The
values are integers, of which Spark's own sums are exact.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bench.processes import processor_seconds
from bench.report import Result
from bench.spark import session
from distributary.flow import Catalogue, QueryBuilder, Source
from distributary.spark import run_queries

TRADES = Source(
    "trades",
    {"symbol": "text", "price": "integer", "size": "integer", "at": "integer"},
    time="at",
    topic="trades",
    lateness="1 second",
)
WINDOWS = {"1 minute": 60_000, "5 minutes": 300_000, "1 hour": 3_600_000}
MARKETS = 10

Answers = dict[int, set[tuple[int, str, int, int]]]
"""For every query its results: end of the window, symbol, number and sum."""


def run(quick: bool) -> list[Result]:
    queries, events = (12, 2_000) if quick else (500, 500_000)
    with tempfile.TemporaryDirectory() as directory, session() as spark:
        frame = write_trades(spark, Path(directory), events)
        catalogue = make_catalogue(queries)
        shared = len(catalogue.shared().operators)
        # Each once before, or one of them would pay for what a session does the first time only.
        together(frame.limit(100), make_catalogue(5))
        separate(frame.limit(100), 5)
        one = measured(lambda: together(frame, catalogue))
        many = measured(lambda: separate(frame, queries))
        if one[2] != many[2]:
            raise AssertionError("one job and separate ones disagree")
        rows = sum(map(len, many[2].values()))
    workload = f"{queries} queries of 4 operators, {events:,} events"
    checked = f"each other: {rows:,} results"
    return [
        Result(workload, "one job", "operators computed", shared, f"of {4 * queries:,}", checked),
        Result(workload, "one job", "all queries, planning included", one[0], "s", checked),
        Result(workload, "separate jobs", "all queries", many[0], "s", checked),
        Result(workload, "separate / one", "how much faster", many[0] / one[0], "x", checked),
        Result(workload, "separate / one", "processor time", many[1] / one[1], "x", checked),
    ]


def measured(action: Callable[[], Answers]) -> tuple[float, float, Answers]:
    """Seconds by the clock and by the processors, and the answers."""
    start, before = time.perf_counter(), processor_seconds()
    answers = action()
    seconds, after = time.perf_counter() - start, processor_seconds()
    return seconds, seconds if before is None or after is None else after - before, answers


def write_trades(spark: SparkSession, place: Path, events: int) -> DataFrame:
    """Trades of 100 symbols, one every 10 milliseconds."""
    rows = spark.range(events).selectExpr(
        "cast(id as string) as id",
        "'trades' as topic",
        "format_string('S%02d', id * 7919 % 100) as symbol",
        "id * 31 % 1000 as price",
        "id * 17 % 200 as size",
        "id * 10 as at",
    )
    rows.repartition(4).write.parquet(str(place / "trades"))
    return spark.read.parquet(str(place / "trades"))


def parts_of(query: int) -> tuple[str, str, int, str]:
    """The symbols from and up to which a query looks, the least worth of a trade, and its window."""
    market = query % MARKETS
    bounds = f"S{10 * market:02d}", f"S{10 * market + 9:02d}"
    return *bounds, 1000 * (query // MARKETS % 50), list(WINDOWS)[query % len(WINDOWS)]


def make_catalogue(queries: int) -> Catalogue:
    made = []
    for number in range(queries):
        first, last, least, window = parts_of(number)
        build = QueryBuilder(f"q{number}")
        market = build.filter("market", TRADES, where=f"symbol >= '{first}' and symbol <= '{last}'")
        worth = build.map("worth", market, set={"worth": "price * size"})
        large = build.filter("large", worth, where=f"worth >= {least}")
        values = {"n": "count()", "volume": "sum(worth)"}
        build.aggregate("volume", large, window=window, values=values, group_by=["symbol"])
        made.append(build.query())
    catalogue = Catalogue([TRADES], made)
    catalogue.check()
    return catalogue


def together(events: DataFrame, catalogue: Catalogue) -> Answers:
    """All queries as one job."""
    streams = run_queries(catalogue, events)
    names = [name for query in catalogue.queries for name in catalogue.outputs(query)]
    rows = streams.tagged(names).select("streams", "time", "texts", "integers").collect()
    answers: Answers = {number: set() for number in range(len(names))}
    for row in rows:
        for name in row["streams"]:
            number = int(name.partition(".")[0][1:])
            answers[number].add((row["time"], row["texts"][0], row["integers"][0], row["integers"][1]))
    return answers


def separate(events: DataFrame, queries: int) -> Answers:
    """Every query as a job of its own."""
    answers: Answers = {}
    for number in range(queries):
        first, last, least, window = parts_of(number)
        size = WINDOWS[window]
        worth = events.where(F.col("symbol").between(first, last)).withColumn(
            "worth", F.col("price") * F.col("size")
        )
        end = F.expr(f"at - at % {size} + {size - 1}").alias("end")
        groups = worth.where(F.col("worth") >= least).groupBy(end, "symbol")
        found = groups.agg(F.count(F.lit(1)).alias("n"), F.sum("worth").alias("volume")).collect()
        answers[number] = {(row["end"], row["symbol"], row["n"], row["volume"]) for row in found}
    return answers

"""A real table beside DuckDB: rules over flights, and conditions of ranges."""

from __future__ import annotations

from bench.peers import flights
from bench.peers.exchange import FOLDER
from bench.peers.workload import Workload
from distributary.model import Subscription
from distributary.workloads import ranges

SEED = 1


def over_flights(count: int, rows: int, rounds: int, sample: int = 1) -> Workload:
    """Rules of every construct over flights of 2013; no flight comes in two tables."""
    table = flights.flights(rows * (rounds + 1), FOLDER / "downloads")
    rules = flights.rules(count, SEED)
    subscriptions = [
        Subscription(f"r{number}", f"u{number}", where=rule.ours) for number, rule in enumerate(rules)
    ]
    return Workload(
        f"flights-{count}",
        f"{count:,} rules of every construct over {rows:,} flights",
        "where",
        subscriptions,
        [table.take(list(range(first, len(table), rounds + 1))) for first in range(rounds + 1)],
        sql=[rule.duckdb for rule in rules],
        sample=sample,
        singles=100,
    )


def of_ranges(count: int, rows: int, rounds: int, sample: int) -> Workload:
    """Four ranges a condition, over uniform numbers."""
    subscriptions = [
        Subscription(f"r{number}", one.subscriber, where=one.where)
        for number, one in enumerate(ranges.subscriptions(count, seed=SEED))
    ]
    return Workload(
        "ranges",
        f"{count:,} conditions of 4 ranges",
        "where",
        subscriptions,
        [ranges.table(rows, seed=SEED + number) for number in range(rounds + 1)],
        sql=[str(one.where) for one in subscriptions],
        sample=sample,
    )

"""DuckDB asked rule by rule, on one thread: a query for each rule over a table of all events, or of a few."""

from __future__ import annotations

import time
from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa

from bench.peers.exchange import Answer, Pairs


def answered(rules: Sequence[str], table: pa.Table, rounds: int, sample: int = 1) -> Answer:
    """Which rules hold for which events, and the time an event; that of a sample is multiplied.

    The digest is that of the rules asked, by their number among all.
    """
    connection = _connected()
    start = time.process_time()
    _load(connection, table, 0)
    build = time.process_time() - start
    queries = _queries(rules, sample)
    held = _held(connection, queries, sample)
    times = []
    for _ in range(rounds):
        start = time.process_time()
        for query in queries:
            connection.execute(query).fetchnumpy()
        times.append((time.process_time() - start) * 1e6 * sample / len(table))
    return _answer(build, len(table), held, times)


def answered_by_parts(
    rules: Sequence[str], table: pa.Table, size: int, parts: int, sample: int = 1
) -> Answer:
    """The same for the first rows, so many at a time: each part is a table of its own, and a round.

    Loading a part is not timed, as it is not for a whole table.
    """
    connection, queries = _connected(), _queries(rules, sample)
    found, times = [], []
    for first in range(0, size * parts, size):
        _load(connection, table.slice(first, size), first)
        held = _held(connection, queries, sample)
        found.append((held.events, held.rules))
        start = time.process_time()
        for query in queries:
            connection.execute(query).fetchnumpy()
        times.append((time.process_time() - start) * 1e6 * sample / size)
    events, numbers = (np.concatenate(each) for each in zip(*found, strict=True))
    return _answer(0.0, size * parts, Pairs(events, numbers), times)


def _connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    connection.execute("set timezone = 'UTC'")
    return connection


def _load(connection: duckdb.DuckDBPyConnection, table: pa.Table, first: int) -> None:
    """Make the rows, numbered from there on, the table that is asked about."""
    numbers = pa.array(np.arange(first, first + len(table), dtype=np.int64))
    connection.register("given", table.append_column("row", numbers))
    connection.execute("create or replace table events as select * from given")


def _queries(rules: Sequence[str], sample: int) -> list[str]:
    return [f"select row from events where {rules[at]}" for at in range(0, len(rules), sample)]


def _held(connection: duckdb.DuckDBPyConnection, queries: Sequence[str], sample: int) -> Pairs:
    found = [connection.execute(query).fetchnumpy()["row"] for query in queries]
    counts = [len(rows) for rows in found]
    return Pairs(np.concatenate(found), np.repeat(np.arange(len(found)) * sample, counts))


def _answer(build: float, events: int, held: Pairs, times: Sequence[float]) -> Answer:
    counts = np.bincount(held.events, minlength=events).tolist()
    return Answer(build, events, counts, held.digest(events)[1], times)

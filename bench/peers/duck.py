"""DuckDB asked rule by rule, on one thread: a query for each rule over a table of all events."""

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
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    connection.execute("set timezone = 'UTC'")
    numbered = table.append_column("row", pa.array(np.arange(len(table), dtype=np.int64)))
    start = time.process_time()
    connection.register("given", numbered)
    connection.execute("create table events as select * from given")
    build = time.process_time() - start
    queries = [f"select row from events where {rules[at]}" for at in range(0, len(rules), sample)]
    found = [connection.execute(query).fetchnumpy()["row"] for query in queries]
    held = Pairs(
        np.concatenate(found), np.repeat(np.arange(len(found)) * sample, [len(rows) for rows in found])
    )
    times = []
    for _ in range(rounds):
        start = time.process_time()
        for query in queries:
            connection.execute(query).fetchnumpy()
        times.append((time.process_time() - start) * 1e6 * sample / len(table))
    counts = np.bincount(held.events, minlength=len(table)).tolist()
    return Answer(build, len(table), counts, held.digest(len(table))[1], times)

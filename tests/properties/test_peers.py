"""Conditions mean what SQLite and DuckDB say, but for the constructs in `peers.DIFFERENCES`.

20,000 triples of an event, a condition and a peer here, a million with `make chaos`.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest

from distributary import Event, Matcher, Subscription
from distributary.filters.where.filter import WhereFilter
from properties.peers import (
    DIFFERENCES,
    DUCKDB,
    PEERS,
    REFUSED,
    SQLITE,
    UNTYPED,
    Difference,
    Peer,
    Row,
    Truth,
    random_row,
)

EVENTS, CONDITIONS = 100, 100
ARROW = {"bigint": pa.int64(), "double": pa.float64(), "text": pa.string(), "boolean": pa.bool_()}
ARROW |= {"decimal(10, 2)": pa.decimal128(10, 2), "date": pa.date32(), "timestamp": pa.timestamp("us")}
DOCS = Path(__file__).parents[2] / "docs" / "subscriptions.md"


def our_truths(peer: Peer, rows: list[Row], conditions: list[str]) -> list[list[Truth]]:
    """What a matcher says of each condition and of its negation, for every row of a table."""
    schema = {name: ARROW[type] for name, type in DUCKDB.columns().items() if name in peer.columns()}
    columns = {name: pa.array([row[name] for row in rows], type) for name, type in schema.items()}
    table = pa.table({"id": [str(number) for number in range(len(rows))], **columns})
    subscriptions = [
        Subscription(f"{number} {truth}", "ann", where=where)
        for number, text in enumerate(conditions)
        for truth, where in ((True, text), (False, f"not ({text})"))
    ]
    found = Matcher(subscriptions).match_batch(table)
    pairs = set(zip(found["event_id"].to_pylist(), found["subscription_id"].to_pylist(), strict=True))

    def truth(row: int, number: int) -> Truth:
        return next((one for one in (True, False) if (str(row), f"{number} {one}") in pairs), None)

    return [[truth(row, number) for row in range(len(rows))] for number in range(len(conditions))]


def verify(peer: Peer, seed: int) -> Counter[Truth]:
    """Hold random conditions against a peer; returns how often they were true, false and unknown."""
    rng = Random(f"{peer.name} {seed}")
    rows = [random_row(rng) for _ in range(EVENTS)]
    conditions = [peer.condition(rng) for _ in range(CONDITIONS)]
    ours, theirs = our_truths(peer, rows, conditions), peer.truths(rows, conditions)
    wrong = [
        (text, {name: value for name, value in row.items() if name in text}, mine, said)
        for text, mines, saids in zip(conditions, ours, theirs, strict=True)
        for row, mine, said in zip(rows, mines, saids, strict=True)
        if mine is not said
    ]
    assert not wrong, f"seed {seed}: {len(wrong)} differ; condition, row, ours, {peer.name}: {wrong[0]}"
    return Counter(truth for truths in theirs for truth in truths)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_random_conditions_mean_what_the_peer_says(peer: Peer) -> None:
    counts = verify(peer, 1)
    assert min(counts[truth] for truth in (True, False, None)) > EVENTS * CONDITIONS // 20


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(100, 150))
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_million_times_conditions_mean_what_the_peers_say(peer: Peer, seed: int) -> None:
    verify(peer, seed)


@pytest.mark.parametrize("one", DIFFERENCES, ids=lambda one: one.what)
def test_where_a_peer_differs_it_really_does(one: Difference) -> None:
    event = Event("e1", attributes=dict(one.row))
    alone, negated = WhereFilter.parse(one.condition), WhereFilter.parse(f"not ({one.condition})")
    ours = True if alone.matches(event) else False if negated.matches(event) else None
    assert ours is one.ours
    assert theirs(DUCKDB, one) == one.duckdb
    assert theirs(SQLITE, one) == one.sqlite
    assert {one.duckdb, one.sqlite} != {ours}


def theirs(peer: Peer, one: Difference) -> Truth | str:
    """What a peer says as it comes, without our settings."""
    if not one.row.keys() <= peer.columns().keys():
        return UNTYPED
    settings = {"like": "off"} if peer is SQLITE else {}
    try:
        return peer.truths([one.row], [one.condition], **settings)[0][0]
    except (duckdb.Error, sqlite3.Error):
        return REFUSED


def test_the_page_has_the_table_of_differences() -> None:
    head = "| | condition | event | here | DuckDB | SQLite |\n|---|---|---|---|---|---|\n"
    assert head + "".join(one.line() + "\n" for one in DIFFERENCES) + "\n" in DOCS.read_text()

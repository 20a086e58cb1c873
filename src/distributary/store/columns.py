"""Subscriptions and changes as Arrow columns, the form in which every store keeps and hands them out.

Two tables. `LIVE` has a row for each subscription registered at some version. `CHANGES` has a row for each
change of one commit, in order, removals first: a removal has no subscriber and says in `ended` which
registration (serial) it ends; an addition has no `ended`, and its row number makes its serial.

A tolerance is a map from attribute to number; `more`, the filters of an application's own kinds, is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import InputError
from distributary.filters.change import ChangeFilter
from distributary.filters.kinds import parse_filters
from distributary.model import Subscription

TEXTS = ("id", "subscriber", "topic", "where", "path")
SUBSCRIPTION = [
    *(pa.field(name, pa.string()) for name in TEXTS),
    pa.field("change", pa.map_(pa.string(), pa.float64())),
    pa.field("more", pa.string()),
]
SUBSCRIPTIONS = pa.schema(SUBSCRIPTION)
LIVE = pa.schema([pa.field("serial", pa.int64()), *SUBSCRIPTION])
CHANGES = pa.schema([pa.field("ended", pa.int64()), *SUBSCRIPTION])

CHUNK = 1 << 16
"""Rows that are turned into columns at a time, and rows of a record batch in a file."""

NAMES = ("id", "subscriber")
LONGEST_ID = 1024
"""Bytes of UTF-8 that an id, a subscriber's name or a stream's name may have in a store.

An index of PostgreSQL takes no more than some 2,700 bytes, and all stores take the same.
"""

ROW_BITS = 32


def serial_of(version: int, row: int) -> int:
    """The number that identifies a registration for good.

    >>> serial_of(2, 5) == (2 << 32) | 5
    True
    """
    return (version << ROW_BITS) | row


def checked_row(subscription: Subscription) -> tuple[Any, ...]:
    """A subscription as a row of `SUBSCRIPTIONS`; `InputError` says what is malformed in it."""
    parsed = parse_filters(subscription)
    texts = tuple(getattr(subscription, name) for name in TEXTS)
    for name, text in zip(TEXTS, texts, strict=True):
        if text is not None:
            _check_text(name, text)
    change = parsed.get("change")
    tolerances = list(change.tolerances) if isinstance(change, ChangeFilter) else None
    return (*texts, tolerances, _more(subscription))


def _check_text(name: str, text: str) -> None:
    """Raise an error if a store cannot keep this text."""
    if "\0" in text:
        raise InputError(
            "holds a zero character, which a store cannot keep", field=name, position=text.index("\0")
        )
    if name in NAMES and (length := len(text.encode())) > LONGEST_ID:
        raise InputError(
            f"has {length:,} bytes of UTF-8, and a store takes {LONGEST_ID:,} at most", field=name, text=text
        )


def _more(subscription: Subscription) -> str | None:
    if not subscription.more:
        return None
    try:
        return json.dumps(dict(subscription.more))
    except (TypeError, ValueError) as error:
        kinds = ", ".join(subscription.more)
        raise InputError(f"cannot be kept as JSON: {error}", field=kinds) from None


def from_rows(rows: Iterable[tuple[Any, ...]], schema: pa.Schema = SUBSCRIPTIONS) -> pa.Table:
    """Rows as a table, a chunk at a time."""
    return pa.Table.from_batches([_batch(chunk, schema) for chunk in chunks(rows, CHUNK)], schema)


def chunks(things: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Things in lists of so many, the last of which may be shorter."""
    iterator = iter(things)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def to_subscriptions(table: pa.Table) -> Iterator[Subscription | None]:
    """The subscriptions of a table that has the columns of one; None where there is no subscriber."""
    for batch in table.select(SUBSCRIPTIONS.names).to_batches(max_chunksize=CHUNK):
        columns = (column.to_pylist() for column in batch.columns)
        for subscription_id, subscriber, topic, where, path, change, more in zip(*columns, strict=True):
            if subscriber is None:
                yield None
                continue
            yield Subscription(
                subscription_id,
                subscriber,
                topic,
                where,
                path,
                None if change is None else dict(change),
                {} if more is None else json.loads(more),
            )


def commit_of(removals: Iterable[tuple[str, int]], additions: pa.Table) -> pa.Table:
    """The changes of one commit: (id, serial it ends) for each removal, and what is added."""
    ended = list(removals)
    ids = pa.array([subscription_id for subscription_id, _ in ended], pa.string())
    missing = {field.name: pa.nulls(len(ended), field.type) for field in SUBSCRIPTION}
    removed = pa.table(
        {**missing, "id": ids, "ended": pa.array([serial for _, serial in ended], pa.int64())}
    ).select(CHANGES.names)
    added = additions.add_column(0, "ended", pa.nulls(len(additions), pa.int64()))
    return pa.concat_tables([removed.cast(CHANGES), added.cast(CHANGES)])


def live_after(base: pa.Table, commits: Iterable[tuple[int, pa.Table]]) -> pa.Table:
    """What is live when commits (each with its version) have been applied to a live table."""
    parts, ended = [base], []
    for version, changes in commits:
        removals = len(changes) - changes["ended"].null_count
        ended.append(changes["ended"].slice(0, removals).to_numpy())
        added = changes.slice(removals)
        serials = np.arange(removals, len(changes), dtype=np.int64) + (version << ROW_BITS)
        parts.append(added.drop_columns("ended").add_column(0, LIVE.field("serial"), pa.array(serials)))
    live = pa.concat_tables(parts)
    gone = np.concatenate(ended) if ended else np.empty(0, np.int64)
    if not len(gone):
        return live
    return live.filter(pc.invert(pc.is_in(live["serial"], value_set=pa.array(gone))))


def write_table(table: pa.Table, stream: Any) -> None:
    """Write an Arrow file, uncompressed, so that it can be used in place by memory mapping."""
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=CHUNK)


def read_table(content: pa.Buffer, columns: list[str] | None = None) -> pa.Table:
    """The table of an Arrow file, which is used in place."""
    table = pa.ipc.open_file(content).read_all()
    return table if columns is None else table.select(columns)

"""Events and subscriptions in files and tables: JSON lines and Arrow, in and out.

Nothing malformed stops the rest and nothing is dropped in silence: a reader yields what it read with its
place in the file, or a `Rejection` that says where the input stands, which field is wrong and why.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import pyarrow as pa

from distributary.errors import DistributaryError, InputError
from distributary.model import Event, Record, Subscription
from distributary.quarantine import Rejection, rejection

T = TypeVar("T")

STANDARD = "-"
"""The name that means standard input or output."""

TABLE_ENDINGS = {".parquet": "parquet", ".arrow": "ipc", ".feather": "feather"}
"""Files that hold a table, and the format by which Arrow knows them."""

MAXIMUM_LINE = 64 << 20
"""Longer lines (in bytes) are set aside unread, so that one broken file cannot exhaust the memory."""


def read_events(name: str) -> Iterator[tuple[str, Event] | Rejection]:
    """The events of a file, each with its place; `-` is standard input."""
    if is_table(name):
        return events_from_table(pa.Table.from_batches(read_batches(name, 1 << 16)), name=name)
    return _read(name, Event.from_record)


def read_subscriptions(
    name: str, more_kinds: Iterable[str] = ()
) -> Iterator[tuple[str, Subscription] | Rejection]:
    """The subscriptions of a file, each with its place; `-` is standard input."""
    added = tuple(more_kinds)
    if is_table(name):
        table = pa.Table.from_batches(read_batches(name, 1 << 16))
        return subscriptions_from_table(table, name=name, more_kinds=added)
    return _read(name, lambda record: Subscription.from_record(record, added))


def is_table(name: str) -> bool:
    """Whether a file holds an Arrow table rather than JSON lines, by its ending."""
    return Path(name).suffix in TABLE_ENDINGS


def read_batches(name: str, size: int) -> Iterator[pa.RecordBatch]:
    """The record batches of a Parquet or Arrow file, of `size` rows or fewer."""
    from pyarrow import dataset  # here, because it loads pandas where that is installed

    try:
        yield from dataset.dataset(name, format=TABLE_ENDINGS[Path(name).suffix]).to_batches(batch_size=size)
    except (FileNotFoundError, pa.ArrowInvalid, OSError) as error:
        raise DistributaryError(f"cannot read {name}: {error}") from None


def write_records(stream: IO[str], records: Iterable[Record]) -> int:
    """Write JSON lines; returns how many."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    count = 0
    for record in records:
        stream.write(encode(record) + "\n")
        count += 1
    return count


@contextmanager
def opened_for_writing(name: str) -> Iterator[IO[str]]:
    """A text file, or standard output for `-`. A file appears under its name only when it is complete."""
    if name == STANDARD:
        yield sys.stdout
        sys.stdout.flush()
        return
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as stream:
        yield stream
    partial.rename(path)


def events_to_table(events: Iterable[Event]) -> pa.Table:
    """Events as an Arrow table: `id`, `topic`, `document` and a column for each attribute.

    An attribute must hold one type in all events, because a column does; whole numbers and others mix.
    """
    rows = list(events)
    columns: dict[str, pa.Array] = {"id": pa.array([event.id for event in rows], pa.string())}
    if any(event.topic is not None for event in rows):
        columns["topic"] = pa.array([event.topic for event in rows], pa.string())
    if any(event.document is not None for event in rows):
        columns["document"] = pa.array([event.document for event in rows], pa.string())
    for name in dict.fromkeys(name for event in rows for name in event.attributes):
        columns[name] = _column(name, [event.attributes.get(name) for event in rows])
    return pa.table(columns)


def events_from_table(table: pa.Table, *, name: str = "events") -> Iterator[tuple[str, Event] | Rejection]:
    """The events of an Arrow table, each with its place (the table's name and the row)."""
    return _from_table(table, name, Event.from_record)


def subscriptions_to_table(subscriptions: Iterable[Subscription]) -> pa.Table:
    """Subscriptions as an Arrow table; `change` is a map column, absent filters are null.

    InputError for a subscription with a filter kind of an application's own, for which there is no column.
    """
    rows = list(subscriptions)
    for row in rows:
        if row.more:
            raise InputError(f"subscription {row.id!r}: a table has no column for it", field=min(row.more))
    texts = {
        name: pa.array([getattr(row, name) for row in rows], pa.string())
        for name in ("id", "subscriber", "topic", "where", "path")
    }
    change = [None if row.change is None else list(row.change.items()) for row in rows]
    return pa.table({**texts, "change": pa.array(change, pa.map_(pa.string(), pa.float64()))})


def subscriptions_from_table(
    table: pa.Table, *, name: str = "subscriptions", more_kinds: Iterable[str] = ()
) -> Iterator[tuple[str, Subscription] | Rejection]:
    """The subscriptions of an Arrow table, each with its place; `change` may be a map or a struct."""
    added = tuple(more_kinds)

    def read(record: Record) -> Subscription:
        plain = {key: value for key, value in record.items() if value is not None}
        change = plain.get("change")
        if isinstance(change, list):
            plain["change"] = dict(change)
        elif isinstance(change, Mapping):
            plain["change"] = {key: value for key, value in change.items() if value is not None}
        return Subscription.from_record(plain, added)

    return _from_table(table, name, read)


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array([list(value) if isinstance(value, tuple) else value for value in values])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        if set(kinds) <= {"int", "float"}:
            return pa.array([None if value is None else float(value) for value in values], pa.float64())
        raise InputError(f"holds {' and '.join(kinds)}; a table column holds one type", field=name) from None


def _from_table(
    table: pa.Table, name: str, build: Callable[[Record], T]
) -> Iterator[tuple[str, T] | Rejection]:
    row = 0
    for chunk in table.to_batches(max_chunksize=4096):
        for record in chunk.to_pylist():
            place = f"{name} row {row}"
            row += 1
            try:
                yield place, build(record)
            except InputError as error:
                yield rejection(place, error, repr(record))


def _read(name: str, build: Callable[[Record], T]) -> Iterator[tuple[str, T] | Rejection]:
    shown = "standard input" if name == STANDARD else name
    with _opened_for_reading(name) as lines:
        number = 0
        while line := lines.readline(MAXIMUM_LINE + 1):
            number += 1
            place = f"{shown}:{number}"
            if len(line) > MAXIMUM_LINE and not line.endswith(b"\n"):
                _skip_line(lines)
                reason = f"the line is longer than {MAXIMUM_LINE >> 20} MiB"
                yield Rejection(place, None, reason, line[:200].decode(errors="replace"))
            elif line.strip():
                yield _one(place, line, build)


def _one(place: str, line: bytes, build: Callable[[Record], T]) -> tuple[str, T] | Rejection:
    try:
        return place, build(_parse(line))
    except InputError as error:
        return rejection(place, error, line.decode(errors="replace").rstrip("\n"))


def _parse(line: bytes) -> Record:
    try:
        record = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", position=error.start) from None
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", position=error.pos) from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"not JSON that can be read: {error}") from None
    if not isinstance(record, dict):
        raise InputError(f"a record is a JSON object, not {type(record).__name__}")
    return record


@contextmanager
def _opened_for_reading(name: str) -> Iterator[IO[bytes]]:
    if name == STANDARD:
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as stream:
            yield stream
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise DistributaryError(f"cannot read {name}: {error.strerror}") from None


def _skip_line(lines: IO[bytes]) -> None:
    while (part := lines.readline(MAXIMUM_LINE)) and not part.endswith(b"\n"):
        pass

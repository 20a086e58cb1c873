"""Events and subscriptions in files and tables: JSON lines and Arrow, in and out; subscriptions from CSV too.

Nothing malformed stops the rest and nothing is dropped in silence: a reader yields what it read with its
place in the file, or a `Rejection` that says where the input stands, which field is wrong and why.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import pyarrow as pa

from distributary.arrow_rows import UNREADABLE, check_names, check_structure, readable_row, row_record
from distributary.errors import DistributaryError, InputError
from distributary.json_text import read_object
from distributary.model import BUILT_IN_FILTERS, Event, Record, Subscription
from distributary.output import STANDARD, opened_for_bytes, opened_for_writing
from distributary.quarantine import LONGEST_RECORD, Rejection, rejection
from distributary.table_lines import table_lines

T = TypeVar("T")

TABLE_ENDINGS = {".parquet": "parquet", ".arrow": "ipc", ".feather": "feather"}
"""Files that hold a table, and the format by which Arrow knows them."""

MAXIMUM_LINE = 64 << 20
"""Longer lines (in bytes) are set aside unread, so that one broken file cannot exhaust the memory."""

BLOCK = 1 << 22
"""Bytes of lines that are read at a time, where so many are there."""

UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""How files in UTF-16 begin."""

ROWS = 4096
"""Rows of a table that are read at a time."""

ROWS_WRITTEN = 1 << 16
"""Rows of a table that are written at a time."""


class LineBlock(NamedTuple):
    """Some lines of a file, all of them whole."""

    file: str
    """The name of the file, as places show it."""
    first: int
    """The number of the first line, from 1."""
    data: bytes

    def place(self, number: int) -> str:
        """Where a line of the block stands, from 0."""
        return f"{self.file}:{self.first + number}"


def read_events(name: str) -> Iterator[tuple[str, Event] | Rejection]:
    """The events of a file, each with its place; `-` is standard input."""
    if is_table(name):
        return _from_batches(read_batches(name, ROWS), name, Event.from_record)
    return _read(name, Event.from_record)


def read_subscriptions(
    name: str, more_kinds: Iterable[str] = ()
) -> Iterator[tuple[str, Subscription] | Rejection]:
    """The subscriptions of a file, each with its place; `-` is standard input. CSV ends in `.csv`."""
    added = tuple(more_kinds)
    if Path(name).suffix.lower() == ".csv":
        return _from_csv(name, added)
    if is_table(name):
        return _from_batches(read_batches(name, ROWS), name, _subscription_builder(added))
    return _read(name, lambda record: Subscription.from_record(record, added))


def is_table(name: str) -> bool:
    """Whether a file holds an Arrow table rather than JSON lines, by its ending."""
    return Path(name).suffix in TABLE_ENDINGS


def read_schema(name: str) -> pa.Schema:
    """The schema of a Parquet or Arrow file, or of a directory of Parquet files."""
    from pyarrow import dataset  # here, because it loads pandas where that is installed

    form = TABLE_ENDINGS.get(Path(name).suffix, "parquet")
    with _told_of(name):
        schema: pa.Schema = dataset.dataset(name, format=form, partitioning="hive").schema
        return schema


def read_batches(name: str, size: int) -> Iterator[pa.RecordBatch]:
    """The record batches of a Parquet or Arrow file, of `size` rows or fewer."""
    from pyarrow import dataset  # here, because it loads pandas where that is installed

    kind = TABLE_ENDINGS[Path(name).suffix]
    with _told_of(name):
        for batch in dataset.dataset(name, format=kind).to_batches(batch_size=size):
            if kind != "parquet":
                check_structure(batch)
            yield batch


@contextmanager
def _told_of(name: str) -> Iterator[None]:
    """Tell in our own words why a table cannot be read."""
    try:
        yield
    except UnicodeDecodeError:
        raise DistributaryError(f"cannot read {name}: the name of a column is not UTF-8") from None
    except FileNotFoundError:
        raise DistributaryError(f"cannot read {name}: there is no such file") from None
    except (OSError, pa.ArrowException) as error:
        raise DistributaryError(f"cannot read {name}: {str(error).splitlines()[0]}") from None


def write_records(stream: IO[str], records: Iterable[Record]) -> int:
    """Write JSON lines; returns how many."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    count = 0
    for record in records:
        stream.write(encode(record) + "\n")
        count += 1
    return count


@contextmanager
def opened_for_tables(name: str, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """A function that writes the rows of tables; the file is a table if its ending says so.

    JSON lines are there as soon as they are written. A table has the columns of the schema.
    """
    if not is_table(name):
        with opened_for_writing(name) as stream:

            def write_lines(table: pa.Table) -> None:
                stream.write(table_lines(table))
                stream.flush()

            yield write_lines
        return
    pending: list[pa.Table] = []
    with opened_for_bytes(name) as file, _table_writer(name, file, schema) as writer:

        def write_rows(table: pa.Table) -> None:
            pending.append(table.cast(schema))
            if sum(map(len, pending)) >= ROWS_WRITTEN:
                writer.write_table(pa.concat_tables(pending))
                pending.clear()

        yield write_rows
        writer.write_table(pa.concat_tables([schema.empty_table(), *pending]))


def _table_writer(name: str, file: IO[bytes], schema: pa.Schema) -> Any:
    if TABLE_ENDINGS[Path(name).suffix] == "parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(file, schema)
    return pa.ipc.new_file(file, schema)


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
    return _from_batches(table.to_batches(ROWS), name, Event.from_record)


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
    """The subscriptions of an Arrow table, each with its place.

    `change` may be a map, a struct, or a JSON object as text.
    """
    return _from_batches(table.to_batches(ROWS), name, _subscription_builder(tuple(more_kinds)))


def _subscription_builder(more_kinds: tuple[str, ...]) -> Callable[[Record], Subscription]:
    def build(record: Record) -> Subscription:
        plain = {key: value for key, value in record.items() if value is not None}
        change = plain.get("change")
        if isinstance(change, list):
            plain["change"] = dict(change)
            if len(plain["change"]) < len(change):
                raise InputError("names an attribute twice; keep one of them", field="change")
        elif isinstance(change, str):
            plain["change"] = _tolerances(change)
        elif isinstance(change, Mapping):
            plain["change"] = {key: value for key, value in change.items() if value is not None}
        return Subscription.from_record(plain, more_kinds)

    return build


def _from_csv(name: str, more_kinds: tuple[str, ...]) -> Iterator[tuple[str, Subscription] | Rejection]:
    with _opened_for_reading(name) as stream:
        yield from subscriptions_from_csv(stream, name, more_kinds)


def subscriptions_from_csv(
    stream: IO[bytes], name: str, more_kinds: tuple[str, ...], fields: Callable[[list[str]], list[str]] = list
) -> Iterator[tuple[str, Subscription] | Rejection]:
    """The subscriptions of a CSV file, which is closed. Its first line names the fields; what separates names
    (commas, semicolons or tabs) separates cells, and an empty cell is an absent filter. `fields` makes fields
    of those names, or "" of one whose cells are passed over."""
    with io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="") as lines:
        head = lines.readline()
        separator = max(",;\t", key=head.count)
        names = fields([each.strip() for each in next(csv.reader([head], delimiter=separator), [])])
        read = [each for each in names if each or fields is list]
        _check_header(name, read, ("id", "subscriber", *BUILT_IN_FILTERS, *more_kinds))
        yield from _csv_rows(lines, name, names, separator, _subscription_builder(more_kinds))


def _csv_rows(
    lines: IO[str], name: str, names: list[str], separator: str, build: Callable[[Record], Subscription]
) -> Iterator[tuple[str, Subscription] | Rejection]:
    rows = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        place = f"{name}:{rows.line_num + 2}"
        cells: list[str] = []
        try:
            cells = next(rows)
            if any(cells):
                yield place, build(_csv_record(names, cells))
        except StopIteration:
            return
        except csv.Error as error:
            yield rejection(place, InputError(f"is no CSV: {error}"), "")
        except InputError as error:
            yield rejection(place, error, separator.join(cells).encode(errors="replace").decode())


def _check_header(name: str, given: list[str], known: tuple[str, ...]) -> None:
    """Raise an error if the first line of a CSV file does not name fields of subscriptions."""
    for each in given:
        near = get_close_matches(each.lower(), known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        if each not in known:
            raise DistributaryError(f"{name}:1: {each!r} is no field of a subscription; {advice}")
        if given.count(each) > 1:
            raise DistributaryError(f"{name}:1: names {each!r} twice")
    missing = [each for each in ("id", "subscriber") if each not in given]
    if missing:
        raise DistributaryError(
            f"{name}:1: the first line must name the fields, such as id,subscriber,topic,where,change; "
            f"{' and '.join(missing)} is missing"
        )


def _csv_record(names: list[str], cells: list[str]) -> Record:
    if len(cells) > len(names):
        raise InputError(f"has {len(cells)} cells where the first line has {len(names)}")
    record: dict[str, Any] = {}
    for field, cell in zip(names, cells, strict=False):
        try:
            cell.encode()
        except UnicodeEncodeError:
            raise InputError("is not UTF-8", field=field) from None
        if cell.strip() and field:
            record[field] = cell
    change = record.get("change", "{").strip()
    if not change.startswith("{"):
        record["change"] = _listed_tolerances(change)
    return record


def _listed_tolerances(text: str) -> dict[str, float]:
    """Tolerances as a cell of a table may have them.

    >>> _listed_tolerances("price=0.05; volume=100")
    {'price': 0.05, 'volume': 100.0}
    """
    found: dict[str, float] = {}
    for part in filter(str.strip, text.split(";")):
        attribute, _, number = (each.strip() for each in part.rpartition("="))
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not attribute or math.isnan(value):
            reason = f'{part.strip()!r} is no tolerance; write price=0.05, or {{"price": 0.05}}'
            raise InputError(reason, field="change")
        if attribute in found:
            raise InputError(f"names {attribute!r} twice; keep one of them", field="change")
        found[attribute] = value
    return found


def _tolerances(text: str) -> dict[str, Any]:
    try:
        return read_object(text.encode())
    except InputError as error:
        reason = f'{error}; write a JSON object, such as {{"price": 0.05}}'
        raise InputError(reason, field="change") from None


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array([list(value) if isinstance(value, tuple) else value for value in values])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        if set(kinds) <= {"int", "float"}:
            return pa.array([None if value is None else float(value) for value in values], pa.float64())
        raise InputError(f"holds {' and '.join(kinds)}; a table column holds one type", field=name) from None


def _from_batches(
    batches: Iterable[pa.RecordBatch], name: str, build: Callable[[Record], T]
) -> Iterator[tuple[str, T] | Rejection]:
    before = 0
    for batch in batches:
        check_names(batch.schema.names)
        for row, record in enumerate(_records(batch)):
            place = f"{name} row {before + row}"
            try:
                if isinstance(record, InputError):
                    raise record
                yield place, build(record)
            except InputError as error:
                yield rejection(place, error, repr(row_record(batch, row)))
        before += batch.num_rows


def _records(batch: pa.RecordBatch) -> Iterable[Record | InputError]:
    """The rows of a batch, or why a row cannot be read."""
    try:
        records: list[Record] = batch.to_pylist()
    except UNREADABLE:
        return [_record(batch, row) for row in range(batch.num_rows)]
    return records


def _record(batch: pa.RecordBatch, row: int) -> Record | InputError:
    try:
        return readable_row(batch, row)
    except InputError as error:
        return error


def read_blocks(name: str) -> Iterator[LineBlock | Rejection]:
    """The lines of a file in blocks; `-` is standard input, of which a block is what has come.

    A line that is too long is a rejection, and so is a file in UTF-16, of which nothing else is read.
    """
    with _opened_for_reading(name) as stream:
        lines = _LineBlocks(name)
        while part := stream.read1(min(BLOCK, MAXIMUM_LINE)):  # type: ignore[attr-defined]
            yield from lines.take(part)
            if lines.refused:
                return
        yield from lines.rest()


class _LineBlocks:
    """Cuts the parts of a file into blocks of whole lines."""

    def __init__(self, name: str) -> None:
        self.refused = False
        """Whether the file is not read on."""
        self._shown = "standard input" if name == STANDARD else name
        self._number = 1
        self._start = 0
        """Number and first byte of the line that is next."""
        self._parts: list[bytes] = []
        """The beginning of that line, of which the end has not come."""
        self._length = 0
        self._skipping = False
        """Whether that line is too long, and its rest is passed over."""

    def take(self, part: bytes) -> Iterator[LineBlock | Rejection]:
        """What ends with this part of the file."""
        if self._skipping:
            end = part.find(b"\n") + 1
            self._start += end or len(part)
            if not end:
                return
            part, self._skipping = part[end:], False
        end = part.rfind(b"\n") + 1
        if end:
            whole = b"".join((*self._parts, part[:end]))
            self._parts, self._length = [], 0
            yield from self._block(whole)
        if end < len(part) and not self.refused:
            self._parts.append(part[end:])
            self._length += len(part) - end
            if self._length > MAXIMUM_LINE:
                yield self._too_long(b"".join(self._parts))
                self._start += self._length
                self._parts, self._length, self._skipping = [], 0, True

    def rest(self) -> Iterator[LineBlock | Rejection]:
        """The last line, if no newline ends it."""
        if self._parts:
            yield from self._block(b"".join(self._parts))

    def _block(self, data: bytes) -> Iterator[LineBlock | Rejection]:
        if self._number == 1 and data.startswith(UTF16_MARKS):
            self.refused = True
            yield self._in_utf16(data)
            return
        first = data.find(b"\n") + 1
        if first > MAXIMUM_LINE + 1:  # of all lines the first alone may have come in several parts
            yield self._too_long(data[:first])
            self._start += first
            data = data[first:]
        if data:
            yield LineBlock(self._shown, self._number, data)
            self._number += data.count(b"\n")
            self._start += len(data)

    def _too_long(self, line: bytes) -> Rejection:
        if self._number == 1 and line.startswith(UTF16_MARKS):
            self.refused = True
            return self._in_utf16(line)
        reason = f"the line, from byte {self._start} of the file on, is longer than {MAXIMUM_LINE >> 20} MiB"
        place = f"{self._shown}:{self._number}"
        self._number += 1
        return Rejection(place, None, reason, _shown(line))

    def _in_utf16(self, data: bytes) -> Rejection:
        reason = "the file is in UTF-16, and nothing of it is read; write it in UTF-8"
        return Rejection(f"{self._shown}:1", None, reason, _shown(data[: data.find(b"\n") + 1 or None]))


def _read(name: str, build: Callable[[Record], T]) -> Iterator[tuple[str, T] | Rejection]:
    for block in read_blocks(name):
        if isinstance(block, Rejection):
            yield block
            continue
        for number, line in enumerate(io.BytesIO(block.data)):
            if line.strip():
                yield read_line(block.place(number), line, build)


def read_line(place: str, line: bytes, build: Callable[[Record], T]) -> tuple[str, T] | Rejection:
    """What `build` makes of the object on a line, with its place; a rejection when it cannot."""
    try:
        return place, build(read_object(line))
    except InputError as error:
        return rejection(place, error, _shown(line))
    except MemoryError:
        return rejection(place, InputError("takes more memory than there is"), _shown(line))


def _shown(line: bytes) -> str:
    """The beginning of a line, with escapes for bytes that are not UTF-8."""
    return line[: 4 * LONGEST_RECORD + 4].decode(errors="backslashreplace").rstrip("\r\n")


@contextmanager
def _opened_for_reading(name: str) -> Iterator[IO[bytes]]:
    if name == STANDARD:
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as stream:
            yield stream
    except OSError as error:
        raise DistributaryError(f"cannot read {name}: {error.strerror or error}") from None

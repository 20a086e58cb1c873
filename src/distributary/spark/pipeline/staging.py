"""What a task does with its rows: it writes them to files that are staged, counts, and gives a receipt.

**How the outputs of a micro-batch are written and committed.** A micro-batch is one Spark job:

1. *Tasks stage.* Each task matches its events and writes what comes of that, output by output, as Parquet to
   `<output>/_staged/<run>/`, under names that no other attempt of any task has; `run` is new with every start
   of the pipeline. Its last row is a receipt (see `receipts`): the files, and what it counted. A task that
   fails or is done twice leaves files of which no receipt comes to the driver.
2. *The driver commits* (see `sink`). It collects the receipts, and output after output it removes what an
   earlier attempt of the batch put into `batch=<id>`, moves the files of the receipts there, and writes the
   manifest `_SUCCESS`, which makes the directory count. Counts that tasks staged are added up and written as
   metrics. The batch's record comes last: a batch that has one is complete everywhere, and is not written
   again.
3. *What was staged is removed*, files without a receipt included.

So an output changes only by the driver, after all tasks have done their part; and a batch that was half
committed is committed again from the beginning, with the same rows.

A sink that is not Parquet takes the staged deliveries as a DataFrame, in a job of its own (`deliveries`).

Staged outputs are `OUTPUTS`. Deliveries are made within a task, of the matches that it has gathered, so all
matches of an event must come to one task, which `start` sees to. Two events with one id may still be in two
tasks, or a task have more matches than it gathers: `EVENT_IDS` has the ids of each gathering, so that the
driver can tell, and have those deliveries made one (`deliveries.regrouped`).

Memory: a task holds up to `GATHERED` matches, and `GROUP` rows of each other output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from distributary.spark import storage
from distributary.spark.grouped import grouped_table
from distributary.spark.pipeline.directories import own_directory, shared_directory
from distributary.spark.pipeline.receipts import FlowCount, Receipt, StagedFile
from distributary.spark.rows import DERIVED, EVENT, FLOW, MATCH, REJECTED, Batches

DELIVERIES, ARCHIVE, QUARANTINE = "deliveries", "archive", "quarantine"
DERIVED_ITEMS, TOPICS, SUBSCRIPTIONS, EVENT_IDS = "derived", "topics", "subscriptions", "event ids"
OUTPUTS = (DELIVERIES, ARCHIVE, DERIVED_ITEMS, QUARANTINE, TOPICS, SUBSCRIPTIONS, EVENT_IDS)

GATHERED = 1 << 20
"""Matches of which a task makes deliveries at a time."""
GROUP = 1 << 17
"""Rows of a row group of Parquet, at most."""
SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
"""Where in a Parquet file Spark looks for its own name of each column's type."""
REJECTED_COLUMNS = ("event_id", "field", "reason", "record", "place")


@dataclass(frozen=True)
class Staging:
    """Where the tasks of a run stage what, and what they count. It travels to the workers."""

    run: str
    places: Mapping[str, str]
    """The location of each output that there is."""
    schemas: Mapping[str, str]
    """The schema of those outputs whose columns are the user's, as Spark's JSON."""
    columns: tuple[str, ...] = ()
    """The columns of the event that deliveries carry."""
    each: bool | tuple[str, ...] = False
    """Whether subscribers have directories of their own, or which of them."""
    topic: str | None = None
    """The column of `event` that holds the topic, if there is one."""
    clock: str | None = None
    """The order column, if it holds times."""
    divisions: int | None = None
    """Into how many divisions topics are divided for tolerances, if these are kept in files."""

    def run_task(self, rows: Batches) -> Batches:
        """Stage what tagged rows say; gives the receipt."""
        task = StagedRows(self)
        for batch in rows:
            task.take(batch)
        yield from task.receipts()

    def directory(self, output: str) -> str:
        """Where this run stages an output."""
        return f"{staged_in(self.places[output])}/{self.run}"

    def clear(self) -> None:
        """Remove all that is staged, also by earlier runs: nobody will put it in place any more."""
        for place in set(self.places.values()):
            storage.remove_directory(staged_in(place))


def staged_in(place: str) -> str:
    """Where below an output its files are staged."""
    return f"{place}/_staged"


class StagedRows:
    """The tagged rows that one task has taken in: files, and counts."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._rows: Counter[str] = Counter()
        self._version: int | None = None
        self._latest: int | None = None
        self._flows: dict[str, FlowCount] = {}
        self._files: list[StagedFile] = []
        self._open: dict[str, _OpenFile] = {}
        self._matches: list[pa.Table] = []
        self._topics: list[pa.Table] = []
        self._subscriptions: list[pa.Table] = []
        self._gathered = 0

    def take(self, rows: pa.RecordBatch) -> None:
        """Take in some rows of any kinds."""
        table = pa.Table.from_batches([rows])
        for kind in table["kind"].unique().to_pylist():
            of_kind = table.filter(pc.equal(table["kind"], kind))
            self._rows[kind] += of_kind.num_rows
            self._take_kind(kind, of_kind)
        version = pc.max(table["version"]).as_py()
        if version is not None:
            self._version = version if self._version is None else max(version, self._version)

    def add_file(self, output: str, directory: str, rows: pa.Table) -> None:
        """Stage a file of some other output."""
        self._files.append(_OpenFile(self._staging, output, directory).closed_with(rows))

    def receipts(self) -> Batches:
        """Finish all files; the receipt, unless there was nothing."""
        self._deliver()
        self._write_counts()
        self._files += [one.closed() for one in self._open.values()]
        if self._rows:
            receipt = Receipt(tuple(self._files), dict(self._rows), self._version, self._latest, self._flows)
            yield receipt.to_batch()

    def _take_kind(self, kind: str, rows: pa.Table) -> None:
        if kind == MATCH:
            self._gather(rows)
        elif kind == EVENT:
            self._count_events(rows)
            self._append(ARCHIVE, rows, "event")
        elif kind == REJECTED:
            if QUARANTINE in self._staging.places:
                self._file(QUARANTINE).append(rows.select(REJECTED_COLUMNS))
        elif kind == DERIVED:
            self._append(DERIVED_ITEMS, rows, "derived")
        elif kind == FLOW:
            for row in rows.select(["stream", "items", "bytes", "late"]).to_pylist():
                had = self._flows.get(row["stream"], FlowCount())
                self._flows[row["stream"]] = had + FlowCount(row["items"], row["bytes"], row["late"])

    def _count_events(self, rows: pa.Table) -> None:
        if self._staging.clock is not None:
            latest = pc.max(_field(rows, self._staging.clock)).cast(pa.int64()).as_py()
            self._latest = max((one for one in (latest, self._latest) if one is not None), default=None)
        self._count_topics(rows, "events")

    def _count_topics(self, rows: pa.Table, counted: str) -> None:
        """Count rows by their topics, as events or as matches."""
        if TOPICS not in self._staging.places:
            return
        topic = self._staging.topic
        texts = pa.nulls(rows.num_rows, pa.string()) if topic is None else _field(rows, topic)
        found = pa.table({"topic": texts}).group_by("topic").aggregate([([], "count_all")])
        counts = {name: found["count_all"] if name == counted else _zeros(found) for name in COUNTS}
        self._topics = _few(self._topics, pa.table({"topic": found["topic"], **counts}), ["topic"])

    def _append(self, output: str, rows: pa.Table, struct: str) -> None:
        """Stage what is in a struct of the rows."""
        if output in self._staging.places:
            column = rows[struct].combine_chunks()
            self._file(output).append(pa.table(column.flatten(), [field.name for field in column.type]))

    def _gather(self, rows: pa.Table) -> None:
        self._count_topics(rows, "matches")
        if SUBSCRIPTIONS in self._staging.places:
            keys = ["subscription_id", "subscriber"]
            counted = rows.select(keys).group_by(keys).aggregate([([], "count_all")])
            counted = counted.rename_columns([*keys, "matches"])
            self._subscriptions = _few(self._subscriptions, counted, keys)
        carried = {name: _field(rows, name) for name in self._staging.columns}
        plain = {name: rows[name] for name in ("event_id", "subscription_id", "subscriber")}
        self._matches.append(pa.table({**plain, **carried}))
        self._gathered += rows.num_rows
        if self._gathered >= GATHERED:
            self._deliver()

    def _deliver(self) -> None:
        """Make deliveries of the matches that were gathered."""
        if not self._matches:
            return
        made = grouped_table(pa.concat_tables(self._matches), self._staging.columns)
        self._matches, self._gathered = [], 0
        ids = pa.table({"event_id": made["event_id"].unique()})
        self.add_file(EVENT_IDS, "", ids)
        if not self._staging.each:
            self._file(DELIVERIES).append(made)
            return
        for directory, rows in self._by_directory(made):
            self.add_file(DELIVERIES, directory, rows)

    def _by_directory(self, made: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        each = self._staging.each
        encoded = made["subscriber"].combine_chunks().dictionary_encode()
        names = encoded.dictionary.to_pylist()
        directories = [
            shared_directory() if isinstance(each, tuple) and name not in each else own_directory(name)
            for name in names
        ]
        distinct = {name: number for number, name in enumerate(dict.fromkeys(directories))}
        numbers = pa.array([distinct[name] for name in directories]).take(encoded.indices)
        order = pc.array_sort_indices(numbers)
        ordered, counts = made.take(order), pc.value_counts(numbers.take(order)).field("counts").to_pylist()
        at = 0
        for directory, count in zip(distinct, counts, strict=True):
            yield directory, ordered.slice(at, count)
            at += count

    def _write_counts(self) -> None:
        for output, parts in ((TOPICS, self._topics), (SUBSCRIPTIONS, self._subscriptions)):
            if parts:
                self._file(output).append(pa.concat_tables(parts))

    def _file(self, output: str) -> _OpenFile:
        if output not in self._open:
            self._open[output] = _OpenFile(self._staging, output)
        return self._open[output]


class _OpenFile:
    """A staged Parquet file that is being written."""

    def __init__(self, staging: Staging, output: str, directory: str = "") -> None:
        self._name = output, f"{staging.directory(output)}/part-{uuid4().hex}.parquet", directory
        self._schema = staging.schemas.get(output)
        self._waiting: list[pa.Table] = []
        self._rows = self._total = 0
        self._writer: parquet.ParquetWriter | None = None

    def append(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._total += rows.num_rows
        if self._rows >= GROUP:
            self._write()

    def closed_with(self, rows: pa.Table) -> StagedFile:
        self.append(rows)
        return self.closed()

    def closed(self) -> StagedFile:
        self._write()
        assert self._writer is not None, "a file has rows"
        if self._schema is not None:
            self._writer.add_key_value_metadata({SPARK_SCHEMA: self._schema})
        self._writer.close()
        self._stream.close()
        output, location, directory = self._name
        return StagedFile(output, location, self._total, directory)

    def _write(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting)
        if self._writer is None:
            self._stream = storage.new_file(self._name[1])
            # Without Arrow's own schema all readers take the types from Parquet and from Spark's.
            self._writer = parquet.ParquetWriter(self._stream, rows.schema, store_schema=False)
        self._writer.write_table(rows, row_group_size=GROUP)
        self._waiting, self._rows = [], 0


COUNTS = ("events", "matches")


def _few(parts: list[pa.Table], part: pa.Table, keys: list[str]) -> list[pa.Table]:
    """Counts with some more of them, added up now and then."""
    parts = [*parts, part]
    if len(parts) < 64:
        return parts
    return [added_up(pa.concat_tables(parts), keys)]


def added_up(counts: pa.Table, keys: list[str]) -> pa.Table:
    """Counts with one row for each key."""
    others = [name for name in counts.column_names if name not in keys]
    found = counts.group_by(keys).aggregate([(name, "sum") for name in others])
    sums = {name: found[f"{name}_sum"] for name in others}
    return pa.table({name: found[name] for name in keys} | sums)


def _field(rows: pa.Table, name: str) -> pa.Array:
    """A column of the struct `event`."""
    return pc.struct_field(rows["event"].combine_chunks(), name)


def _zeros(rows: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)

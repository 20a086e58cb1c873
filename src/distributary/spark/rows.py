"""The rows that matching gives: plain matches, or everything about a micro-batch in tagged rows.

`ResultRows` says which columns there are and makes them, as Arrow batches, from the events of one batch and
what matched them. It travels with the tasks to the Python workers.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from distributary.arrow_rows import row_record
from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matches
from distributary.quarantine import rejection
from distributary.spark.places import ARRIVAL, REASON, SOURCE_PLACE, UNREADABLE, with_line

Batches = Iterator[pa.RecordBatch]

MATCH, REJECTED, EVENT, DERIVED, FLOW = "match", "rejected", "event", "derived", "flow"
"""The kinds of tagged rows. Only queries make rows of the last two kinds, see `pipeline.derived`."""

TEXT: tuple[DataType, pa.DataType] = StringType(), pa.string()
INTEGER: tuple[DataType, pa.DataType] = LongType(), pa.int64()
"""A column's type, on Spark and in Arrow."""
TAGGED_COLUMNS = {
    "kind": TEXT,
    "event_id": TEXT,
    "version": INTEGER,
    # of a match
    "subscription_id": TEXT,
    "subscriber": TEXT,
    # of a rejected event
    "field": TEXT,
    "reason": TEXT,
    "record": TEXT,
    "place": TEXT,
}
FLOW_COLUMNS = {"stream": TEXT, "items": INTEGER, "bytes": INTEGER, "late": INTEGER}
"""What rows of the kind "flow" tell of a stream of queries; there only if the rows are of queries."""
REJECTION_COLUMNS = ("event_id", "field", "reason", "record")


class ResultRows(ABC):
    """Which rows matching gives."""

    all_events: ClassVar[bool] = False
    """Whether there are rows for events that match nothing."""

    @abstractmethod
    def schema(self, events: StructType) -> StructType:
        """The columns of the result, for events of this schema."""

    @abstractmethod
    def rows(self, table: pa.Table, batch: EventBatch, matches: Matches, version: int) -> Batches:
        """The rows for what matched."""

    def others(self, table: pa.Table, batch: EventBatch, home: NDArray[np.bool_], version: int) -> Batches:
        """The rows that do not depend on matches, for the events that are at home in this task."""
        return iter(())


@dataclass(frozen=True)
class MatchRows(ResultRows):
    """One row a match: event_id, subscription_id, subscriber, and the columns carried along."""

    carry: tuple[str, ...] = ()

    def schema(self, events: StructType) -> StructType:
        """Three texts, and the columns carried with their types."""
        named = [StructField(name, StringType()) for name in ("event_id", "subscription_id", "subscriber")]
        return StructType([*named, *(events[name] for name in self.carry)])

    def rows(self, table: pa.Table, batch: EventBatch, matches: Matches, version: int) -> Batches:
        """One row a match."""
        if len(matches.rows):
            taken = pa.array(matches.rows)
            columns = _match_columns(batch, matches, taken)
            carried = [whole(table.column(name)).take(taken) for name in self.carry]
            yield pa.RecordBatch.from_arrays([*columns.values(), *carried], [*columns, *self.carry])


@dataclass(frozen=True)
class TaggedRows(ResultRows):
    """Matches, rejected events and, where they are kept, the events themselves: `kind` says which.

    The columns are those of `TAGGED_COLUMNS`, with queries those of `FLOW_COLUMNS`, and the struct `event`;
    what has no meaning for a kind of row is null there.
    """

    all_events: ClassVar[bool] = True
    events: tuple[str, ...]
    """The columns of `event`."""
    carry: tuple[str, ...]
    """Those of them that matches carry."""
    kept: tuple[str, ...] | None
    """Those of them that rows of kind "event" have; None when there are to be no such rows."""
    flows: bool = False
    """Whether there are rows of kind "flow"."""

    @classmethod
    def of(
        cls, columns: Sequence[str], id: str, carry: Sequence[str], kept: Sequence[str] | None, flows: bool
    ) -> TaggedRows:
        """Rows of events with these columns; a struct cannot be empty, so it has at least the id."""
        inner = [name for name in columns if name in carry or name in (kept or ())] or [id]
        return cls(tuple(inner), tuple(carry), None if kept is None else tuple(kept), flows)

    def schema(self, events: StructType) -> StructType:
        """The plain columns and the struct `event`."""
        plain = [StructField(name, type) for name, (type, _) in self._plain.items()]
        return StructType([*plain, StructField("event", self.event_schema(events))])

    def event_schema(self, events: StructType) -> StructType:
        """The columns of `event`, for events of this schema."""
        return StructType([StructField(name, events[name].dataType) for name in self.events])

    def rows(self, table: pa.Table, batch: EventBatch, matches: Matches, version: int) -> Batches:
        """Rows of kind "match"."""
        if len(matches.rows):
            taken = pa.array(matches.rows)
            columns = _match_columns(batch, matches, taken)
            yield self._tagged(MATCH, columns, self._events(table, taken, self.carry), version)

    def others(self, table: pa.Table, batch: EventBatch, home: NDArray[np.bool_], version: int) -> Batches:
        """Rows of kind "rejected" and, where events are kept, of kind "event"."""
        rejected = [row for row in sorted(batch.rejected) if home[row]]
        if rejected:
            columns = rejection_columns(table, batch, rejected)
            if SOURCE_PLACE in table.schema.names:
                columns["place"] = pa.array([_place(table, row) for row in rejected], pa.string())
            yield self._tagged(REJECTED, columns, self._events(table, pa.array(rejected), ()), version)
        if self.kept is not None:
            kept = home.copy()
            kept[list(batch.rejected)] = False
            taken = pa.array(np.flatnonzero(kept))
            if len(taken):
                columns = {"event_id": _texts(batch.ids.take(taken))}
                yield self._tagged(EVENT, columns, self._events(table, taken, self.kept), version)

    def without_events(self, kind: str, table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """A row of some kind for each row of a table, with nothing of the event and no version."""
        every_row = pa.array(np.arange(table.num_rows))
        return self._tagged(kind, columns, self._events(table, every_row, ()), None)

    @property
    def _plain(self) -> dict[str, tuple[DataType, pa.DataType]]:
        return TAGGED_COLUMNS | FLOW_COLUMNS if self.flows else TAGGED_COLUMNS

    def _events(self, table: pa.Table, taken: pa.Array, filled: Sequence[str]) -> pa.StructArray:
        """The struct of the events taken, with null in the columns that are not to be filled."""
        fields = [pa.field(name, table.schema.field(name).type) for name in self.events]
        columns = [
            whole(table.column(field.name)).take(taken)
            if field.name in filled
            else pa.nulls(len(taken), field.type)
            for field in fields
        ]
        return pa.StructArray.from_arrays(columns, fields=fields)

    def _tagged(
        self, kind: str, columns: Mapping[str, pa.Array], event: pa.StructArray, version: int | None
    ) -> pa.RecordBatch:
        count = len(event)
        shared = {"kind": pa.repeat(kind, count), "version": pa.repeat(pa.scalar(version, pa.int64()), count)}
        given = {**columns, **shared}
        plain = {name: given.get(name, pa.nulls(count, type)) for name, (_, type) in self._plain.items()}
        return pa.RecordBatch.from_pydict({**plain, "event": event})


def rejection_columns(table: pa.Table, batch: EventBatch, rows: Sequence[int]) -> dict[str, pa.Array]:
    """The `REJECTION_COLUMNS` of the rejected events in these rows: why, and the event as it was read."""
    found = []
    for row in rows:
        given = row_record(table, row).items()
        added = (SOURCE_PLACE, REASON, ARRIVAL)
        record = {name: value for name, value in given if value is not None and name not in added}
        raw = record.get(UNREADABLE)
        text = json.dumps(record, default=str, ensure_ascii=False) if raw is None else raw
        found.append(rejection("", batch.rejected[row], text))
    return {
        "event_id": _texts(batch.ids.take(pa.array(rows, pa.int64()))),
        "field": pa.array([one.field for one in found], pa.string()),
        "reason": pa.array([one.reason for one in found], pa.string()),
        "record": pa.array([one.record for one in found], pa.string()),
    }


def _place(table: pa.Table, row: int) -> str | None:
    """Where in its source a row stands, with the line if it is one that could not be read."""
    location = table.column(SOURCE_PLACE)[row].as_py()
    if location is None or UNREADABLE not in table.schema.names:
        return location  # type: ignore[no-any-return]
    raw = whole(table.column(UNREADABLE)).slice(row, 1).cast(pa.binary())[0].as_py()
    return with_line(location, raw)


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _match_columns(batch: EventBatch, matches: Matches, taken: pa.Array) -> dict[str, pa.Array]:
    return {
        "event_id": _texts(batch.ids.take(taken)),
        "subscription_id": _texts(matches.subscriptions),
        "subscriber": _texts(matches.subscribers),
    }


def _texts(array: pa.Array) -> pa.Array:
    return array if pa.types.is_string(array.type) else array.cast(pa.string())

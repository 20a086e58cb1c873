"""The rows that a dataflow gives: plain matches, or everything about a micro-batch in tagged rows.

A shape says which columns there are and makes them, as Arrow batches, from the events of one batch and what
matched them. It travels with the tasks.
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
from pyspark.sql.types import LongType, StringType, StructField, StructType

from distributary.errors import InputError
from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matches
from distributary.quarantine import Rejection, rejection

MATCH, REJECTED, EVENT, DERIVED = "match", "rejected", "event", "derived"
"""The kinds of tagged rows. Those of derived items, which only queries make, have a column `derived`."""


class Shape(ABC):
    """Which rows a dataflow gives."""

    all_events: ClassVar[bool] = False
    """Whether there are rows for events that match nothing."""

    @abstractmethod
    def schema(self, events: StructType) -> StructType:
        """The columns of the result, for events of this schema."""

    @abstractmethod
    def rows(
        self, table: pa.Table, batch: EventBatch, matches: Matches, version: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows for what matched."""

    def others(
        self, table: pa.Table, batch: EventBatch, home: NDArray[np.bool_], version: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows that do not depend on matches, for the events that are at home in this task."""
        return iter(())


@dataclass(frozen=True)
class MatchRows(Shape):
    """One row a match: event_id, subscription_id, subscriber, and the columns carried along."""

    carry: tuple[str, ...] = ()

    def schema(self, events: StructType) -> StructType:
        named = [StructField(name, StringType()) for name in ("event_id", "subscription_id", "subscriber")]
        return StructType([*named, *(events[name] for name in self.carry)])

    def rows(
        self, table: pa.Table, batch: EventBatch, matches: Matches, version: int
    ) -> Iterator[pa.RecordBatch]:
        if len(matches.rows):
            taken = pa.array(matches.rows)
            ids = _texts(batch.ids.take(taken))
            carried = [_whole(table.column(name)).take(taken) for name in self.carry]
            yield pa.RecordBatch.from_arrays(
                [ids, _texts(matches.subscriptions), _texts(matches.subscribers), *carried],
                ["event_id", "subscription_id", "subscriber", *self.carry],
            )


@dataclass(frozen=True)
class TaggedRows(Shape):
    """Matches, malformed events and, where they are kept, the events themselves: `kind` says which."""

    all_events: ClassVar[bool] = True
    events: tuple[str, ...]
    """The columns of `event`."""
    carry: tuple[str, ...]
    """Those of them that matches carry."""
    kept: tuple[str, ...]
    """Those of them that rows of kind "event" have."""
    keep_events: bool

    def schema(self, events: StructType) -> StructType:
        texts = ("kind", "event_id", "subscription_id", "subscriber", "field", "reason", "record")
        inner = StructType([StructField(name, events[name].dataType) for name in self.events])
        return StructType(
            [
                *(StructField(name, StringType()) for name in texts),
                StructField("event", inner),
                StructField("version", LongType()),
            ]
        )

    def rows(
        self, table: pa.Table, batch: EventBatch, matches: Matches, version: int
    ) -> Iterator[pa.RecordBatch]:
        if len(matches.rows):
            taken = pa.array(matches.rows)
            columns = {
                "event_id": _texts(batch.ids.take(taken)),
                "subscription_id": _texts(matches.subscriptions),
                "subscriber": _texts(matches.subscribers),
            }
            yield self._tagged(MATCH, columns, self._events(table, taken, self.carry), version)

    def others(
        self, table: pa.Table, batch: EventBatch, home: NDArray[np.bool_], version: int
    ) -> Iterator[pa.RecordBatch]:
        wrong = [row for row in sorted(batch.rejected) if home[row]]
        if wrong:
            found = [rejection_of(table, batch, row) for row in wrong]
            columns = {
                "event_id": _texts(batch.ids.take(pa.array(wrong))),
                "field": pa.array([one.field for one in found], pa.string()),
                "reason": pa.array([one.reason for one in found], pa.string()),
                "record": pa.array([one.record for one in found], pa.string()),
            }
            yield self._tagged(REJECTED, columns, self._events(table, pa.array(wrong), ()), version)
        if self.keep_events:
            kept = home.copy()
            kept[list(batch.rejected)] = False
            taken = pa.array(np.flatnonzero(kept))
            if len(taken):
                columns = {"event_id": _texts(batch.ids.take(taken))}
                yield self._tagged(EVENT, columns, self._events(table, taken, self.kept), version)

    def told(self, kind: str, table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """A row of some kind for each row of a table, without anything of the event."""
        everyone = pa.array(np.arange(table.num_rows))
        return self._tagged(kind, columns, self._events(table, everyone, ()), None)

    def _events(self, table: pa.Table, taken: pa.Array, filled: Sequence[str]) -> pa.StructArray:
        """The struct of the events taken, with null in the columns that are not to be filled."""
        fields = [pa.field(name, table.schema.field(name).type) for name in self.events]
        columns = [
            _whole(table.column(field.name)).take(taken)
            if field.name in filled
            else pa.nulls(len(taken), field.type)
            for field in fields
        ]
        return pa.StructArray.from_arrays(columns, fields=fields)

    def _tagged(
        self, kind: str, columns: Mapping[str, pa.Array], event: pa.StructArray, version: int | None
    ) -> pa.RecordBatch:
        count = len(event)
        texts = [
            pa.repeat(kind, count),
            *(
                columns.get(name, pa.nulls(count, pa.string()))
                for name in ("event_id", "subscription_id", "subscriber", "field", "reason", "record")
            ),
        ]
        return pa.RecordBatch.from_arrays(
            [*texts, event, pa.repeat(pa.scalar(version, pa.int64()), count)],
            [
                "kind",
                "event_id",
                "subscription_id",
                "subscriber",
                "field",
                "reason",
                "record",
                "event",
                "version",
            ],
        )


def rejection_of(table: pa.Table, batch: EventBatch, row: int) -> Rejection:
    """Why a malformed event was set aside, with the event as it was read."""
    error: InputError = batch.rejected[row]
    record = {name: value for name, value in table.slice(row, 1).to_pylist()[0].items() if value is not None}
    return rejection("", error, json.dumps(record, default=str, ensure_ascii=False))


def _texts(array: pa.Array) -> pa.Array:
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

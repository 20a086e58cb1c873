"""What a table of deliveries promises, and how the rows of a batch are fitted to its columns.

A table is known here by what it does with a batch (`DeliveryTable.write_once`): the rows and the number of
the batch are committed in one transaction of the table's own, under a name that is that of the pipeline's
checkpoint. So whoever does the batch again finds the number, and leaves the table as it is:

    killed before the commit        nothing of the batch is in the table; files that no version names may be
    killed after it                 the table has the batch, and its number; it is not written again
    two drivers with one batch      one commits; the other's commit is refused, and it finds the number

The columns: a table that is not there is made with those of a delivery, `batch` included. One that is there
must have all of them, with types that hold their values; columns of its own beside them are left null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from distributary.errors import DistributaryError

TRIES = 5
"""Commits that are begun for a batch while others change the table, before the batch fails."""
MOST_ROWS = 1 << 16
"""Rows that are fitted at a time."""

UNKNOWN = pa.null()
"""The type of a column whose type is not known yet: any column of the table will do."""


@dataclass(frozen=True)
class BatchRows:
    """The deliveries of a batch, which can be read more than once."""

    schema: pa.Schema
    """The columns of a delivery, `batch` included."""
    batch: int
    read: Callable[[], Iterator[pa.RecordBatch]]
    """Gives the rows, without the column `batch`."""

    def fitted(self, table: pa.Schema) -> pa.RecordBatchReader:
        """The rows with the columns of a table, which must be able to hold them (see `unfit_columns`)."""

        def batches() -> Iterator[pa.RecordBatch]:
            for rows in self.read():
                for at in range(0, rows.num_rows, MOST_ROWS):
                    yield self._fit(rows.slice(at, MOST_ROWS), table)

        return pa.RecordBatchReader.from_batches(table, batches())

    def _fit(self, rows: pa.RecordBatch, table: pa.Schema) -> pa.RecordBatch:
        count, columns = rows.num_rows, []
        for field in table:
            if field.name == "batch":
                columns.append(pa.repeat(pa.scalar(self.batch, field.type), count))
            elif field.name in self.schema.names:
                ours = rows.column(field.name).cast(self.schema.field(field.name).type)
                columns.append(ours.cast(field.type))
            else:
                columns.append(pa.nulls(count, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=table)


class DeliveryTable(ABC):
    """A table that takes batches of deliveries, each once."""

    name: str
    """What it is called in messages, such as `the Delta table /data/deliveries`."""

    @abstractmethod
    def columns(self) -> pa.Schema | None:
        """The columns of the table; None when it is not there."""

    @abstractmethod
    def write_once(self, rows: BatchRows, mark: str) -> bool:
        """Commit the rows of a batch, unless the table has them; returns whether it had not.

        `mark` names the pipeline. A table that is not there is made. Raises `DistributaryError` when the
        table cannot hold the rows, or does not take them.
        """

    @abstractmethod
    def remove_subscriber(self, subscriber: str) -> int:
        """Remove the rows of a subscriber in one commit; gives how many there were.

        Older versions of the table keep them until the table's own means remove those.
        """

    def require_fit(self, schema: pa.Schema) -> pa.Schema | None:
        """The columns of the table, which must be able to hold deliveries; None when it is not there."""
        there = self.columns()
        if there is not None:
            require_fit(self.name, there, schema)
        return there


def require_fit(name: str, there: pa.Schema, schema: pa.Schema) -> None:
    """Raise an error that says in one line why the table of that name cannot hold deliveries."""
    wrong = list(unfit_columns(there, schema))
    if wrong:
        raise DistributaryError(
            f"{name} cannot hold the deliveries: {'; '.join(wrong)}; change the table, or name another one"
        )


def unfit_columns(there: pa.Schema, schema: pa.Schema) -> Iterator[str]:
    """Why the columns of a table cannot hold those of deliveries.

    >>> there = pa.schema([("event_id", pa.int64()), pa.field("seen", pa.string(), nullable=False)])
    >>> list(unfit_columns(there, pa.schema([("event_id", pa.string()), ("batch", pa.int64())])))
    ['its column event_id is int64 and not string', 'it has no column batch (int64)', \
'its column seen may not be null, and no delivery has it']
    """
    for field in schema:
        if field.name not in there.names:
            known = "" if field.type == UNKNOWN else f" ({field.type})"
            yield f"it has no column {field.name}{known}"
        elif not is_held_by(field.type, there.field(field.name).type):
            yield f"its column {field.name} is {there.field(field.name).type} and not {field.type}"
    for field in there:
        if field.name not in schema.names and not field.nullable:
            yield f"its column {field.name} may not be null, and no delivery has it"


def is_held_by(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """Whether a column of the other type can hold every value of ours as it is.

    >>> is_held_by(pa.int8(), pa.int32()), is_held_by(pa.float64(), pa.float32())
    (True, False)
    >>> is_held_by(pa.list_(pa.string()), pa.large_list(pa.large_string()))
    True
    """
    if ours in (UNKNOWN, theirs):
        return True
    if _is_list(ours) and _is_list(theirs):
        return is_held_by(ours.value_type, theirs.value_type)
    if types.is_map(ours) and types.is_map(theirs):
        return is_held_by(ours.key_type, theirs.key_type) and is_held_by(ours.item_type, theirs.item_type)
    if types.is_struct(ours) and types.is_struct(theirs):
        names = [each.name for each in ours]
        return names == [each.name for each in theirs] and all(
            is_held_by(mine.type, their.type) for mine, their in zip(ours, theirs, strict=True)
        )
    if types.is_signed_integer(ours) and types.is_signed_integer(theirs):
        return bool(ours.bit_width <= theirs.bit_width)
    if types.is_floating(ours) and types.is_floating(theirs):
        return bool(ours.bit_width <= theirs.bit_width)
    if types.is_decimal(ours) and types.is_decimal(theirs):
        return bool(ours.scale == theirs.scale and ours.precision <= theirs.precision)
    return any(alike(ours) and alike(theirs) for alike in (_is_text, _is_binary))


def _is_list(type: pa.DataType) -> bool:
    return bool(types.is_list(type) or types.is_large_list(type) or types.is_list_view(type))


def _is_text(type: pa.DataType) -> bool:
    return bool(types.is_string(type) or types.is_large_string(type) or types.is_string_view(type))


def _is_binary(type: pa.DataType) -> bool:
    return bool(types.is_binary(type) or types.is_large_binary(type) or types.is_binary_view(type))

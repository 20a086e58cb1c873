"""Which columns of an event DataFrame mean what. Every column that is not named here is an attribute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructType,
)

from distributary.errors import DistributaryError, InputError
from distributary.matching.batch import EventBatch


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The names of the columns that are more than attributes.

    `topic` and `document` may name columns that the events do not have. `order` names the column by which
    tolerances see the events of a topic; an event that has none there is malformed. `corrupt` names the
    column in which Spark's readers leave what they could not read: such rows are malformed too. `micro_batch`
    names the column that says in which micro-batch of a stream an archived event came: it goes before
    `order`, and it is an attribute, so that a subscription can be confined to some of them.
    """

    id: str = "id"
    topic: str = "topic"
    document: str = "document"
    order: str | None = None
    corrupt: str | None = None
    micro_batch: str | None = None

    @property
    def ordering(self) -> tuple[str, ...]:
        """The columns by which tolerances see the events of a topic, the first of them first."""
        return tuple(name for name in (self.micro_batch, self.order, self.id) if name is not None)

    def check(self, schema: StructType) -> None:
        """Refuse a schema in which these columns are missing or cannot be what they are named for."""
        self._require(schema, "id", self.id, (StringType, IntegralType), "a string or a whole number")
        for role, name in (("topic", self.topic), ("document", self.document)):
            if name in schema.names:
                self._require(schema, role, name, (StringType,), "a string")
        if self.order is not None:
            self._require(schema, "order", self.order, (DataType,), "something that can be ordered")
            if isinstance(schema[self.order].dataType, (StructType, ArrayType, MapType)):
                raise DistributaryError(f"the order column {self.order!r} must be a plain value, not nested")
        taken = [name for name in schema.names if name.startswith(RESERVED) and name != self.micro_batch]
        if taken:
            raise DistributaryError(
                f"column names that start with {RESERVED!r} are taken: rename {taken[0]!r}"
            )

    def check_carried(self, schema: StructType, carry: Sequence[str]) -> None:
        """Refuse names that are not columns of the events."""
        for name in carry:
            if name not in schema.names:
                raise DistributaryError(
                    f"cannot carry {name!r}: the events have the columns {', '.join(schema.names)}"
                )

    def batch(self, table: pa.Table | pa.RecordBatch) -> EventBatch:
        """The events as the matcher reads them, with what these columns make malformed set aside."""
        bare = [
            name
            for name in table.schema.names
            if name == self.micro_batch or not (name.startswith(RESERVED) or name == self.corrupt)
        ]
        batch = EventBatch.from_table(
            table.select(bare), id=self.id, topic=self.topic, document=self.document
        )
        if self.corrupt is not None and self.corrupt in table.schema.names:
            for row in _rows_where(pc.is_valid(table.column(self.corrupt))):
                batch.rejected[row] = InputError("cannot be read in the format of the source")
        if self.order is not None:
            for row in _rows_where(pc.is_null(table.column(self.order), nan_is_null=True)):
                batch.rejected.setdefault(
                    row, InputError("is null, so the event has no place in the order", field=self.order)
                )
        return batch

    def _require(
        self, schema: StructType, role: str, name: str, kinds: tuple[type[DataType], ...], what: str
    ) -> None:
        if name not in schema.names:
            raise DistributaryError(
                f"the events have no column {name!r} for {role}; name it with {role}=..., "
                f"one of {', '.join(schema.names)}"
            )
        if not isinstance(schema[name].dataType, kinds):
            given = schema[name].dataType.simpleString()
            raise DistributaryError(f"the {role} column {name!r} must be {what}, not {given}")


RESERVED = "__distributary_"
"""How the columns start that the dataflow adds on its way."""
PART = RESERVED + "part"
HOME = RESERVED + "home"
BATCH = RESERVED + "batch"


def _rows_where(mask: pa.Array | pa.ChunkedArray) -> Iterator[int]:
    whole = mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
    rows: list[int] = np.flatnonzero(whole.to_numpy(zero_copy_only=False)).tolist()
    return iter(rows)

"""Which columns of an event DataFrame mean what. Every column that is not named here is an attribute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, IntegralType, MapType, StringType, StructType

from distributary.arrow_rows import unreadable_text
from distributary.errors import DistributaryError, InputError
from distributary.matching.batch import EventBatch
from distributary.spark.places import ARRIVAL, REASON, RESERVED, SOURCE_PLACE
from distributary.spark.rows import Batches, rejection_columns

PART = RESERVED + "part"
"""The part of the index that a row visits."""
HOME = RESERVED + "home"
"""Whether this visit is the one at which the event itself is told of."""
BATCH = RESERVED + "batch"
"""The micro-batch in which an archived event came."""
BEYOND = "is beyond what the column's type holds; declare it as DECIMAL, or leave it out"


def quoted(name: str) -> str:
    """A column's name as SQL and `functions.col` take it, whatever characters it has.

    >>> quoted("unit price"), quoted("a`b")
    ('`unit price`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The names of the columns that are more than attributes.

    `topic` and `document` may name columns that the events do not have. `order` names the column by which
    tolerances see the events of a topic; an event whose value there is null is rejected. `corrupt` names the
    column in which Spark's readers leave what they could not read, if the events have it: such rows are
    rejected too. `micro_batch` names the column that says in which micro-batch of a stream an archived event
    came: it goes before `order`, and it is an attribute, so that a subscription can be confined to some. With
    `finite`, events with an infinite number are rejected: readers of JSON make one of what is too great.

    >>> EventColumns(id="key", order="at").ordering
    ('at', 'key')
    """

    id: str = "id"
    topic: str = "topic"
    document: str = "document"
    order: str | None = None
    corrupt: str | None = None
    micro_batch: str | None = None
    finite: bool = False

    @property
    def ordering(self) -> tuple[str, ...]:
        """The columns by which tolerances see the events of a topic, the first of them first."""
        return tuple(name for name in (self.micro_batch, self.order, self.id) if name is not None)

    def check(self, schema: StructType, carry: Sequence[str] = ()) -> None:
        """Raise an error if a column or one to carry is missing, or of a type that it cannot have."""
        self._require(schema, "id", self.id, (StringType, IntegralType), "a string or a whole number")
        for role, name in (("topic", self.topic), ("document", self.document)):
            if name in schema.names or name != role:  # the default names what events may have
                self._require(schema, role, name, (StringType,), "a string")
        if self.order is not None:
            self._require(schema, "order", self.order, (DataType,), "something that can be ordered")
            if isinstance(schema[self.order].dataType, (StructType, ArrayType, MapType)):
                raise DistributaryError(f"the order column {self.order!r} must be a plain value, not nested")
        ours = (self.micro_batch, SOURCE_PLACE, REASON)
        taken = [name for name in schema.names if name.startswith(RESERVED) and name not in ours]
        if taken:
            raise DistributaryError(
                f"column names that start with {RESERVED!r} are taken: rename {taken[0]!r}"
            )
        for name in carry:
            if name not in schema.names:
                known = ", ".join(schema.names)
                raise DistributaryError(
                    f"cannot carry {name!r}: the events have the columns {known}{nearest(name, schema.names)}"
                )

    def batch(self, table: pa.Table | pa.RecordBatch) -> EventBatch:
        """The events as the matcher reads them; it rejects those that these columns make malformed."""
        bare = [
            name
            for name in table.schema.names
            if name == self.micro_batch or not (name.startswith(RESERVED) or name == self.corrupt)
        ]
        batch = EventBatch.from_table(
            table.select(bare),
            id=self.id,
            topic=self.topic,
            document=self.document,
            arrival=table.column(ARRIVAL).to_numpy() * 1000 if ARRIVAL in table.schema.names else None,
        )
        if self.corrupt is not None and self.corrupt in table.schema.names:
            raw = table.column(self.corrupt)
            bad = unreadable_text(raw.combine_chunks() if isinstance(raw, pa.ChunkedArray) else raw)
            told = table.column(REASON) if REASON in table.schema.names else None
            for row in _rows_where(pc.is_valid(raw)):
                reason = None if told is None else told[row].as_py()
                reason = reason or bad.get(row, "cannot be read in the format of the source")
                batch.rejected[row] = InputError(reason)
        for name in bare if self.finite else ():
            for field, numbers in _floats(name, table.column(name)):
                for row in _rows_where(pc.fill_null(pc.is_inf(numbers), False)):
                    batch.rejected.setdefault(row, InputError(BEYOND, field=field))
        if self.order is not None:
            for row in _rows_where(pc.is_null(table.column(self.order), nan_is_null=True)):
                batch.rejected.setdefault(
                    row, InputError("is null, so the event has no place in the order", field=self.order)
                )
        return batch

    def rejections(self, batches: Batches) -> Batches:
        """The `REJECTION_COLUMNS` of the malformed events in batches of rows."""
        for batch in batches:
            events = self.batch(batch)
            found = rejection_columns(pa.table(batch), events, sorted(events.rejected))
            yield pa.RecordBatch.from_pydict(found)

    def _require(
        self, schema: StructType, role: str, name: str, kinds: tuple[type[DataType], ...], what: str
    ) -> None:
        if name not in schema.names:
            raise DistributaryError(
                f"the events have no column {name!r} for {role}; name it with {role}=..., "
                f"one of {', '.join(schema.names)}{nearest(name, schema.names)}"
            )
        if not isinstance(schema[name].dataType, kinds):
            given = schema[name].dataType.simpleString()
            raise DistributaryError(f"the {role} column {name!r} must be {what}, not {given}")


def nearest(name: str, known: Sequence[str]) -> str:
    """A question for the known name that was probably meant; nothing if none is near.

    >>> nearest("pirce", ["id", "price"])
    '; did you mean price?'
    """
    by_small_letters = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_small_letters, n=1)
    return f"; did you mean {by_small_letters[near[0]]}?" if near else ""


def _floats(name: str, column: pa.Array | pa.ChunkedArray) -> Iterator[tuple[str, pa.Array]]:
    """The columns of floating-point numbers in a column: itself, or fields of a struct, by dotted names."""
    if pa.types.is_floating(column.type):
        yield name, column
    elif pa.types.is_struct(column.type):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        for field, child in zip(column.type, whole.flatten(), strict=True):
            yield from _floats(f"{name}.{field.name}", child)


def _rows_where(mask: pa.Array | pa.ChunkedArray) -> Iterator[int]:
    rows: list[int] = np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist()
    return iter(rows)

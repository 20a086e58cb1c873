"""A batch of events as columns: what every index reads when it matches many events at once.

Arrow's string buffers are read in place. Each attribute becomes an `AttributeColumn` on first use, so a wide
table costs only what the subscriptions look at. A value is a number, a string, a boolean or something else
that compares with nothing; the tag of a row says which, so one attribute may hold different types in
different events, as JSON allows. Whole numbers beyond 2^53 are rounded in `numbers` (which keeps every
comparison with a smaller literal right) and exact in `value`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distributary.arrow_rows import check_names, unreadable_text
from distributary.errors import InputError
from distributary.filters.change import as_float
from distributary.filters.path.document import Document, parse_document
from distributary.kernel import Bytes, Flags, Floats, Longs, kernel
from distributary.model import Event, Value

NULL, NUMBER, STRING, BOOLEAN, OTHER = range(5)
SLASH = ord("/")


class Strings(NamedTuple):
    """Text of every row as bytes: row i is `data[starts[i]:ends[i]]`; a null row is empty and not valid.

    `starts` shares no memory with `ends`: a batch of events moves the starts of its topics past a slash.
    """

    data: Bytes
    starts: Longs
    ends: Longs
    valid: Flags

    @classmethod
    def from_arrow(cls, array: pa.Array) -> Strings:
        """The texts of an Arrow array, read in place; other types are cast to strings."""
        wide = pa.types.is_large_string(array.type)
        if not wide and not pa.types.is_string(array.type):
            array, wide = array.cast(pa.large_string()), True
        _, offset_buffer, data_buffer = array.buffers()
        width = np.int64 if wide else np.int32
        offsets = np.frombuffer(offset_buffer, width)[array.offset : array.offset + len(array) + 1].astype(
            np.int64
        )
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.empty(0, np.uint8)
        return cls(data, offsets[:-1].copy(), offsets[1:], _validity(array))

    @classmethod
    def from_texts(cls, texts: Sequence[str | None]) -> Strings | None:
        """The texts in bytes; None when there is no text in any row."""
        valid = np.fromiter((text is not None for text in texts), np.bool_, len(texts))
        if not valid.any():
            return None
        encoded = [text.encode() if text else b"" for text in texts]
        ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), starts, ends, valid)

    def text(self, row: int) -> str | None:
        """The text of a row; None when it is null."""
        if not self.valid[row]:
            return None
        return self.data[self.starts[row] : self.ends[row]].tobytes().decode()


class AttributeColumn(NamedTuple):
    """One attribute of every row."""

    tags: Bytes
    """What each row holds: NULL, NUMBER, STRING, BOOLEAN or OTHER."""
    numbers: Floats
    """The value of a row when that is a number, 0 or 1 when it is a boolean."""
    strings: Strings | None
    """The texts where there are any; None when no row holds one."""
    value: Callable[[int], Value]
    """From a row to its value itself, exact whatever its size."""

    @classmethod
    def from_arrow(cls, array: pa.Array) -> AttributeColumn:
        """The column of an Arrow array; decimals are read as floats."""
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_decimal(array.type):
            array = array.cast(pa.float64())
        valid = _validity(array)
        numbers = np.zeros(len(array), np.float64)
        strings = None
        tag = OTHER
        if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
            tag = NUMBER
            numbers = _filled(array, 0).astype(np.float64)
        elif pa.types.is_boolean(array.type):
            tag = BOOLEAN
            numbers = _filled(array, False).astype(np.float64)
        elif pa.types.is_string(array.type) or pa.types.is_large_string(array.type) or _is_view(array.type):
            tag = STRING
            strings = Strings.from_arrow(array)
        tags = np.where(valid, np.uint8(tag), np.uint8(NULL))
        tags[np.isnan(numbers)] = OTHER
        return cls(tags, numbers, strings, lambda row: _plain(array[row].as_py()))

    @classmethod
    def from_values(cls, values: Sequence[Value]) -> AttributeColumn:
        """The column of Python values, one a row; None where an event does not have the attribute."""
        tags = np.fromiter(map(tag_of, values), np.uint8, len(values))
        numbers = np.fromiter(
            (
                as_float(value) if tag in (NUMBER, BOOLEAN) else 0.0
                for value, tag in zip(values, tags, strict=True)
            ),
            np.float64,
            len(values),
        )
        texts = [value if isinstance(value, str) else None for value in values]
        return cls(tags, numbers, Strings.from_texts(texts), values.__getitem__)


class EventBatch:
    """Events as columns. Build it from an Arrow table or from `Event` objects."""

    def __init__(
        self,
        rows: int,
        ids: pa.Array,
        topics: Strings | None,
        documents: Strings | None,
        columns: dict[str, Callable[[], AttributeColumn]],
        rejected: Mapping[int, InputError] | None = None,
    ) -> None:
        self.rows = rows
        self.ids = ids
        self.topics = topics
        self.documents = documents
        self._columns = columns
        self._built: dict[str, AttributeColumn] = {}
        self._parsed: dict[int, Document] = {}
        self.rejected = dict(rejected or {})
        """Rows that are rejected, and why. `Matcher` leaves them out of its answers."""
        if ids.null_count:
            for row in np.flatnonzero(~_validity(ids)).tolist():
                self.rejected.setdefault(
                    row, InputError("every event needs one; this one is null", field="id")
                )
        if topics is not None:
            self._check_topics(topics)
        if documents is not None:
            self._check_documents(documents)

    @classmethod
    def from_table(
        cls,
        table: pa.Table | pa.RecordBatch,
        *,
        id: str = "id",
        topic: str = "topic",
        document: str = "document",
    ) -> EventBatch:
        """Every column but the three named is an attribute; a struct's fields get dotted names."""
        check_names(table.schema.names)
        if id not in table.schema.names:
            raise InputError(f"the events have no column {id!r}; name the id column", field="id")
        rejected: dict[int, InputError] = {}
        given = {name: _readable(table, name, rejected) for name in table.schema.names}
        arrays: dict[str, Callable[[], AttributeColumn]] = {}
        for name, array in given.items():
            if name not in (id, topic, document):
                _add_columns(arrays, name, array)
        return cls(
            table.num_rows,
            given[id],
            _texts(given, topic),
            _texts(given, document),
            arrays,
            rejected,
        )

    @classmethod
    def from_events(cls, events: Sequence[Event]) -> EventBatch:
        """The batch of these events, in their order."""
        names = {name for event in events for name in event.attributes}
        return cls(
            len(events),
            pa.array([event.id for event in events], pa.large_string()),
            Strings.from_texts([event.topic for event in events]),
            Strings.from_texts([event.document for event in events]),
            {name: _collector(events, name) for name in names},
        )

    def column(self, name: str) -> AttributeColumn | None:
        """The attribute of that name, or None when no event of the batch has it."""
        column = self._built.get(name)
        if column is None and name in self._columns:
            column = self._built[name] = self._columns[name]()
        return column

    @property
    def attributes(self) -> list[str]:
        """The names of the attributes that some event of the batch may have."""
        return list(self._columns)

    def document(self, row: int) -> Document | None:
        """The parsed document of a row; None when it has none or is rejected."""
        return self._parsed.get(row)

    def event(self, row: int) -> Event:
        """The row as an event, for code that looks at one event at a time."""
        present = {name: column for name in self._columns if (column := self.column(name)) is not None}
        return Event(
            str(self.ids[row].as_py()),
            self.topics.text(row) if self.topics is not None and row not in self.rejected else None,
            {name: column.value(row) for name, column in present.items() if column.tags[row] != NULL},
            self.documents.text(row) if self.documents is not None else None,
        )

    def _check_topics(self, topics: Strings) -> None:
        """Drop each leading slash, in place, and reject the rows that have an empty level."""
        bad = _trim_topics(topics.data, topics.starts, topics.ends, topics.valid)
        for row in np.flatnonzero(bad).tolist():
            text = topics.text(row)
            topics.valid[row] = False
            self.rejected[row] = InputError("an empty level", field="topic", text=text)

    def _check_documents(self, documents: Strings) -> None:
        """Parse every document once: whether an event is malformed must not depend on who is subscribed."""
        for row in np.flatnonzero(documents.valid).tolist():
            text = documents.text(row)
            if text is None or row in self.rejected:
                continue
            try:
                self._parsed[row] = parse_document(text)
            except InputError as error:
                self.rejected[row] = error
                if self.topics is not None:
                    self.topics.valid[row] = False


def tag_of(value: Value) -> int:
    """How a Python value is tagged. NaN compares with nothing, so it counts as something else."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, (int, float)):
        return NUMBER if value == value else OTHER
    return STRING if isinstance(value, str) else OTHER


def _collector(events: Sequence[Event], name: str) -> Callable[[], AttributeColumn]:
    return lambda: AttributeColumn.from_values([event.attributes.get(name) for event in events])


def _add_columns(columns: dict[str, Callable[[], AttributeColumn]], name: str, array: pa.Array) -> None:
    if not pa.types.is_struct(array.type):
        columns[name] = lambda: AttributeColumn.from_arrow(array)
        return
    for field, child in zip(array.type, array.flatten(), strict=True):
        _add_columns(columns, f"{name}.{field.name}", child)


def _readable(table: pa.Table | pa.RecordBatch, name: str, rejected: dict[int, InputError]) -> pa.Array:
    """A column with null where its text is not UTF-8; such rows are rejected."""
    array = _whole(table.column(name))
    bad = unreadable_text(array)
    if not bad:
        return array
    for row, reason in bad.items():
        rejected.setdefault(row, InputError(reason, field=name))
    return array.take(pa.array([None if row in bad else row for row in range(len(array))], pa.int64()))


def _texts(columns: Mapping[str, pa.Array], name: str) -> Strings | None:
    """The column of that name as texts, if there is one."""
    if name not in columns:
        return None
    try:
        return Strings.from_arrow(columns[name])
    except pa.ArrowException:
        raise InputError(f"must be a column of texts, not of {columns[name].type}", field=name) from None


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_view(kind: pa.DataType) -> bool:
    return bool(kind == pa.string_view())


def _validity(array: pa.Array) -> Flags:
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    valid: Flags = array.is_valid().to_numpy(zero_copy_only=False).copy()
    return valid


def _filled(array: pa.Array, value: object) -> NDArray[Any]:
    filled: NDArray[Any] = (array.fill_null(value) if array.null_count else array).to_numpy(
        zero_copy_only=False
    )
    return filled


def _plain(value: Any) -> Value:
    """An Arrow value as an event carries it: lists and the like become opaque tuples."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return tuple(value) if isinstance(value, list) else (value,)


@kernel
def _trim_topics(data: Bytes, starts: Longs, ends: Longs, valid: Flags) -> Flags:
    """Leave each leading slash out; which rows have an empty level?"""
    bad = np.zeros(len(starts), np.bool_)
    suspicious = len(starts) > 0 and _has_slashes_in_a_row(data[starts[0] : ends[-1]])
    for row in range(len(starts)):
        if not valid[row]:
            continue
        start, end = starts[row], ends[row]
        if start < end and data[start] == SLASH:
            start += 1
            starts[row] = start
        if start == end or data[start] == SLASH or data[end - 1] == SLASH:
            bad[row] = True
        elif suspicious:
            bad[row] = _has_slashes_in_a_row(data[start:end])
    return bad


@kernel
def _has_slashes_in_a_row(data: Bytes) -> bool:
    """Counted without a look at the count, so that many bytes are compared at once."""
    count = 0
    for at in range(1, len(data)):
        count += (data[at] == SLASH) & (data[at - 1] == SLASH)
    return count > 0

"""A batch of events as columns: what every index reads when it matches many events at once.

Arrow's string buffers are read in place. Each attribute becomes an `AttributeColumn` on first use (see
`columns`), so a wide table costs only what the subscriptions look at; an operation of a condition is a column
too, computed when it is first asked for. One attribute may hold different types in different events, as JSON
allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from distributary.arrow_rows import check_names, unreadable_text
from distributary.errors import InputError
from distributary.filters.path.document import Document, parse_document
from distributary.filters.where.lookup import OBJECT, attribute_of
from distributary.filters.where.parse import operand_of
from distributary.filters.where.write import OPERATION_KEY
from distributary.kernel import Flags, Ints, Longs, kernel
from distributary.matching.column_making import chosen_rows
from distributary.matching.columns import NULL, OTHER, AttributeColumn, Strings, validity
from distributary.matching.computed import computed_column
from distributary.matching.path.xml.scan import ScannedDocuments, scan
from distributary.matching.text_codes import TextCodes
from distributary.model import MAX_TOPIC_LEVELS, Event, require_instance, topic_fault


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
        arrival: int | Sequence[int] | Longs | None = None,
        arrays: Mapping[str, pa.Array] | None = None,
    ) -> None:
        self.rows = rows
        self.ids = ids
        self.topics = topics
        self.documents = documents
        self._arrival = time.time_ns() if arrival is None else arrival
        self._columns = columns
        self.arrays = arrays or {}
        """The attributes that came as Arrow's arrays, and of which there is no more to find than these."""
        self._own = {"id", "topic"} - columns.keys()
        """Names under which conditions find the event's own id and topic."""
        self._columns.setdefault("id", lambda: column_of_texts(Strings.from_arrow(ids), rows))
        self._columns.setdefault("topic", lambda: column_of_texts(topics, rows))
        self._built: dict[str, AttributeColumn] = {}
        self._codes: dict[str, TextCodes] = {}
        self.leaves: dict[Any, Any] = {}
        """What is known of leaves of conditions for all rows (see `matching.truths`)."""
        self._parsed: dict[int, Document] = {}
        self.scanned: ScannedDocuments | None = None
        """The documents that were read from their bytes; `exact_documents` has the others."""
        self._scanned_rows: frozenset[int] = frozenset()
        self.exact_documents: dict[int, Document] = {}
        """By row: the documents that took the exact reader."""
        self.rejected = dict(rejected or {})
        """Rows that are rejected, and why. `Matcher` leaves them out of its answers."""
        if ids.null_count:
            for row in np.flatnonzero(~validity(ids)).tolist():
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
        arrival: int | Longs | None = None,
    ) -> EventBatch:
        """Every column but the three named is an attribute; a struct's fields get dotted names.

        `arrival` is when it arrived, or when each of its events did, in nanoseconds since 1970; the default
        is now.
        """
        check_names(table.schema.names)
        if id not in table.schema.names:
            raise InputError(f"the events have no column {id!r}; name the id column", field="id")
        rejected: dict[int, InputError] = {}
        given = {name: _readable(table, name, rejected) for name in table.schema.names}
        columns: dict[str, Callable[[], AttributeColumn]] = {}
        for name, array in given.items():
            if name not in (id, topic, document):
                _add_columns(columns, name, array)
        _add_objects(columns, table.num_rows)
        objects = objects_of(columns)
        return cls(
            table.num_rows,
            given[id],
            _texts(given, topic),
            _texts(given, document),
            columns,
            rejected,
            arrival,
            {name: given[name] for name in given if name in columns and name not in objects},
        )

    @classmethod
    def from_events(cls, events: Sequence[Event], now: int | None = None) -> EventBatch:
        """The batch of these events, in their order. Those that do not say when they arrived do so `now`."""
        if now is None:
            now = time.time_ns()
        try:
            names = {name for event in events for name in event.attributes}
        except AttributeError:
            for event in events:
                require_instance(event, Event)
            raise
        objects = objects_of(names)
        return cls(
            len(events),
            pa.array([event.id for event in events], pa.large_string()),
            Strings.from_texts([event.topic for event in events]),
            Strings.from_texts([event.document for event in events]),
            {name: _collector(events, name, objects) for name in names | objects},
            arrival=[now if event.arrival is None else event.arrival for event in events],
        )

    def column(self, name: str) -> AttributeColumn | None:
        """The attribute of that name, or None when no event of the batch has it.

        The name may be the key of an operation (see `filters.where.write.operand_key`).
        """
        column = self._built.get(name)
        if column is None and name in self._columns:
            column = self._built[name] = self._columns[name]()
        elif column is None and name.startswith(OPERATION_KEY):
            operand = operand_of(name)
            assert not isinstance(operand, str), "what begins with OPERATION_KEY is an operation"
            column = self._built[name] = computed_column(self, operand)
        return column

    def taken(self, rows: Ints) -> EventBatch:
        """The batch of these rows, without topics and documents but as conditions see them.

        >>> EventBatch.from_events([Event("e1"), Event("e2")]).taken(np.array([1])).event(0).id
        'e2'
        """
        names = self._columns.keys() | self._built.keys()
        return EventBatch(
            len(rows),
            self.ids.take(pa.array(rows)),
            None,
            None,
            {name: partial(self._taken_column, name, rows) for name in names},
            arrival=self._arrival if isinstance(self._arrival, int) else np.asarray(self._arrival)[rows],
        )

    def _taken_column(self, name: str, rows: Ints) -> AttributeColumn:
        column = self.column(name)
        assert column is not None, "what is taken is there"
        return chosen_rows(column, rows)

    def codes(self, name: str, column: AttributeColumn) -> TextCodes:
        """The distinct texts of the column of that name, which has some."""
        codes = self._codes.get(name)
        if codes is None:
            codes = self._codes[name] = TextCodes(column)
        return codes

    def arrival(self, row: int) -> int:
        """When the event of a row arrived, in nanoseconds since 1970: what `now()` is to it.

        >>> EventBatch.from_events([Event("e1", arrival=7), Event("e2", arrival=8)]).arrival(1)
        8
        """
        return self._arrival if isinstance(self._arrival, int) else int(self._arrival[row])

    @cached_property
    def shared_arrival(self) -> int | None:
        """When all events arrived; None when they arrived at different times."""
        if isinstance(self._arrival, int) or not len(self._arrival):
            return self._arrival if isinstance(self._arrival, int) else 0
        first = int(self._arrival[0])
        return first if all(other == first for other in self._arrival) else None

    @property
    def attributes(self) -> list[str]:
        """The names of the attributes that some event of the batch may have, its id and topic among them."""
        return list(self._columns)

    def document(self, row: int) -> Document | None:
        """The parsed document of a row; None when it has none or is rejected.

        One that was scanned is read again when it is first asked for, which fails when memory is short.
        """
        found = self.exact_documents.get(row, self._parsed.get(row))
        if found is None and self.documents is not None and row in self._scanned_rows:
            found = self._parsed[row] = parse_document(self.documents.text(row) or "")
        return found

    def document_rows(self) -> list[int]:
        """The rows that have a document and are not rejected, ascending."""
        if self.documents is None:
            return []
        return [row for row in np.flatnonzero(self.documents.valid).tolist() if row not in self.rejected]

    def event(self, row: int) -> Event:
        """The row as an event, for code that looks at one event at a time."""
        present = {name: column for name in self._columns if (column := self.column(name)) is not None}
        attributes = {name: column.value(row) for name, column in present.items() if column.tags[row] != NULL}
        for name in objects_of(attributes) | self._own:
            if name in self._own or isinstance(attributes.get(name), Mapping):
                attributes.pop(name, None)
        return Event(
            str(self.ids[row].as_py()),
            self.topics.text(row) if self.topics is not None and row not in self.rejected else None,
            attributes,
            self.documents.text(row) if self.documents is not None else None,
            self.arrival(row),
        )

    def _check_topics(self, topics: Strings) -> None:
        """Reject the rows whose topics no event can have."""
        for row in np.flatnonzero(_suspicious_topics(topics.starts, topics.ends, topics.valid)).tolist():
            text = topics.text(row) or ""
            fault = topic_fault(text)
            if fault is not None:
                topics.valid[row] = False
                self.rejected[row] = InputError(fault, field="topic", text=text or None)

    def _check_documents(self, documents: Strings) -> None:
        """Read every document once: whether an event is malformed must not depend on who is subscribed.

        What the scan takes is well-formed; the exact reader decides on all others.
        """
        left = documents.valid.copy()
        left[list(self.rejected)] = False
        self.scanned = scan(documents, left)
        if self.scanned is not None:
            left[self.scanned.rows] = False
            self._scanned_rows = frozenset(self.scanned.rows.tolist())
        for row in np.flatnonzero(left).tolist():
            try:
                self.exact_documents[row] = parse_document(documents.text(row) or "")
            except InputError as error:
                self.rejected[row] = error
                if self.topics is not None:
                    self.topics.valid[row] = False


def column_of_texts(texts: Strings | None, rows: int) -> AttributeColumn:
    """The column of an event's own texts, its id or topic; None for texts that no event has."""
    if texts is None:
        return AttributeColumn.from_values([None] * rows)
    return AttributeColumn.from_strings(texts)


def objects_of(names: Iterable[str]) -> set[str]:
    """The names of objects, of whose attributes these are: `wind` for `wind.speed`."""
    dotted = [name for name in names if "." in name]
    return {name[:end] for name in dotted for end, character in enumerate(name) if character == "." and end}


def _collector(events: Sequence[Event], name: str, objects: Collection[str]) -> Callable[[], AttributeColumn]:
    """The column of an attribute; only of objects and of `id` and `topic` there is more to find than it."""
    if name in objects or name in ("id", "topic", ""):  # "" may have ".a" within it
        return lambda: AttributeColumn.from_values([attribute_of(event, name) for event in events])
    return lambda: AttributeColumn.from_values([event.attributes.get(name) for event in events])


def _add_columns(columns: dict[str, Callable[[], AttributeColumn]], name: str, array: pa.Array) -> None:
    columns[name] = lambda: AttributeColumn.from_arrow(array)
    if not pa.types.is_struct(array.type):
        return
    for field, child in zip(array.type, array.flatten(), strict=True):
        _add_columns(columns, f"{name}.{field.name}", child)


def _add_objects(columns: dict[str, Callable[[], AttributeColumn]], rows: int) -> None:
    """Add the objects that columns with dotted names make, as such attributes of an event do."""
    dotted = [name for name in columns if "." in name]
    for name in objects_of(dotted) - {"id", "topic"}:
        inside = [columns[other] for other in dotted if other.startswith(name + ".")]
        columns[name] = partial(_object_column, columns.get(name), inside, rows)


def _object_column(
    own: Callable[[], AttributeColumn] | None, inside: Sequence[Callable[[], AttributeColumn]], rows: int
) -> AttributeColumn:
    """What is called like an object: its own value, or where there is none, whether it has attributes."""
    column = AttributeColumn.from_values([None] * rows) if own is None else own()
    held = np.logical_or.reduce([make().tags != NULL for make in inside])
    objects = held & (column.tags == NULL)
    return AttributeColumn(
        np.where(objects, np.uint8(OTHER), column.tags),
        column.numbers,
        column.strings,
        lambda row: OBJECT if objects[row] else column.value(row),
        column.hard,
        column.forms,
    )


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


@kernel
def _suspicious_topics(starts: Longs, ends: Longs, valid: Flags) -> Flags:
    """Which rows have a topic that is empty, or so long that it may exceed a limit?"""
    suspicious = np.zeros(len(starts), np.bool_)
    for row in range(len(starts)):
        length = ends[row] - starts[row]
        suspicious[row] = valid[row] and (length == 0 or length >= MAX_TOPIC_LEVELS)
    return suspicious

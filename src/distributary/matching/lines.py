"""Batches of events from blocks of JSON lines, without a Python object an event.

A kernel (`line_scan`) reads the lines that are plain; each of the others is read by the exact reader that
the caller gives, and takes its place in the same batch. So a batch is exactly what `EventBatch.from_events`
makes of the same lines: the same rows, columns, values and types.

Names need not be known beforehand: a new one widens the table of keys, which is kept from block to block.

Cost: about a microsecond for a plain line of 170 bytes, and the exact reader's for each other line. Memory:
the block twice, and some 30 bytes for every colon in it at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from distributary.filters.where.lookup import OBJECT, attribute_of
from distributary.filters.where.values import plain
from distributary.kernel import Bytes, Flags, Floats, Ints, Longs, kernel, sealed
from distributary.matching.batch import EventBatch, column_of_texts, objects_of
from distributary.matching.columns import (
    BOOLEAN,
    NULL,
    NUMBER,
    OTHER,
    STRING,
    AttributeColumn,
    Strings,
    is_hard,
    number_of_value,
    tag_of,
)
from distributary.matching.line_keys import LONGEST_NAME, Keys, fill_table, find_name
from distributary.matching.line_scan import (
    DOCUMENT,
    DOUBLE,
    EMPTY,
    FALSE,
    LONG,
    NOTHING,
    TEXT,
    TRUE,
    WHOLE,
    Lines,
    Tokens,
    scan,
)
from distributary.matching.line_texts import PADDING
from distributary.matching.order import buckets
from distributary.model import Event

ExactReader = Callable[[int, bytes], Event | None]
"""From the number of a line in its block, from 0, and the line to its event; None when it was set aside."""

FIELDS = ("id", "topic", "document")
MOST_KEYS = 1 << 16
"""When a batch has met more names than this, the next one starts with an empty table."""

TAGS = np.zeros(8, np.uint8)
TAGS[[NOTHING, WHOLE, DOUBLE, LONG, TEXT, TRUE, FALSE, EMPTY]] = (
    NULL,
    NUMBER,
    NUMBER,
    NUMBER,
    STRING,
    BOOLEAN,
    BOOLEAN,
    OTHER,
)


class LineBatch(NamedTuple):
    """Events of a block and where they stand in it."""

    batch: EventBatch
    block: bytes
    lines: Ints
    """For each row the number of its line in the block, from 0."""
    starts: Longs
    ends: Longs

    def line(self, row: int) -> bytes:
        """The line of a row, without its newline."""
        return self.block[self.starts[row] : self.ends[row]]


class EventLines:
    """A reader of blocks that remembers the names it has met.

    >>> lines = b'{"id": "e1", "x": 1}\\n{"id": "e2", "x": [2]}\\n'
    >>> def exact(number, line):
    ...     return Event.from_record(json.loads(line))
    >>> import json
    >>> (read,) = EventLines().batches(lines, 100, exact)
    >>> [read.batch.column("x").value(row) for row in (0, 1)]
    [1, (2,)]
    """

    def __init__(self) -> None:
        self._keys = _new_keys()
        self._names: list[str] = list(FIELDS)

    def batches(self, block: bytes, size: int, exact: ExactReader) -> Iterator[LineBatch]:
        """The events of a block of whole lines, of which the last may lack its newline, `size` at a time.

        `exact` is called for the lines that are not plain, in their order, before their batch is given.
        """
        scanned = _Scanned(block)
        while scanned.at < len(block):
            if self._keys.counts[0] > MOST_KEYS:
                self._keys, self._names = _new_keys(), list(FIELDS)
            lines, tokens = self._scan(scanned, size)
            events: dict[int, Event] = {}
            kept = np.ones(len(lines.starts), np.bool_)
            for row in np.flatnonzero(~lines.plain).tolist():
                line = block[lines.starts[row] : lines.ends[row] + 1]
                event = exact(int(lines.numbers[row]), line)
                if event is None:
                    kept[row] = False
                else:
                    events[row] = event
            if not kept.any():
                continue
            if not kept.all():
                row_of = np.cumsum(kept, dtype=np.int32) - np.int32(1)
                lines, tokens = (
                    Lines._make(each[kept] for each in lines),
                    tokens._replace(rows=row_of[tokens.rows]),
                )
                events = {int(row_of[row]): event for row, event in events.items()}
            read = _BatchColumns(scanned.data, len(lines.starts), tokens, self._names, events)
            yield LineBatch(read.batch(), block, lines.numbers, lines.starts, lines.ends)

    def _scan(self, block: _Scanned, size: int) -> tuple[Lines, Tokens]:
        """The next lines of a block, `size` at most that are not blank, and their tokens, by rows from 0."""
        _, row, count = block.done.tolist()
        lines = Lines._make(each[: row + size] for each in block.lines)
        while True:
            at = scan(block.data, block.raw, block.at, block.tokens, lines, self._keys, block.done)
            if at >= 0:
                break
            self._keys = _widened(self._keys)
            block.again(-1 - at)
        block.at = at
        for code in range(len(self._names), int(self._keys.counts[0])):
            start, end = self._keys.ends[code - 1], self._keys.ends[code]
            self._names.append(self._keys.data[start:end].tobytes().decode())
        _, rows, tokens = block.done.tolist()
        found = Tokens._make(each[count:tokens] for each in block.tokens)
        return Lines._make(each[row:rows] for each in lines), found._replace(rows=found.rows - np.int32(row))


class _Scanned:
    """A block that is being scanned: its bytes, and what was found in them so far."""

    def __init__(self, block: bytes) -> None:
        self.raw = np.frombuffer(block, np.uint8)
        self.data = np.full(len(block) + PADDING, ord("\n"), np.uint8)
        self.data[: len(block)] = self.raw
        rows = int(np.count_nonzero(self.raw == ord("\n"))) + 1
        room = int(np.count_nonzero(self.raw == ord(":"))) + 1
        self.lines = Lines._make(np.empty(rows, kind) for kind in (np.int64, np.int64, np.int32, np.bool_))
        kinds = (np.int32, np.int32, np.uint8, np.int64, np.int64, np.float64)
        self.tokens = Tokens._make(np.empty(room, kind) for kind in kinds)
        self.done = np.zeros(3, np.int64)
        """How many lines, lines that are not blank, and tokens were found."""
        self.at = 0
        """Where the next line starts."""
        self._block = block

    def again(self, at: int) -> None:
        """Go on with the line at `at`, of which a part was read: put back its escapes."""
        end = self._block.find(b"\n", at)
        end = len(self._block) if end < 0 else end
        self.data[at:end] = self.raw[at:end]
        self.at = at


class _BatchColumns:
    """The tokens of a batch by name, beside the events that the exact reader has read, by row."""

    def __init__(
        self, data: Bytes, rows: int, tokens: Tokens, names: list[str], events: dict[int, Event]
    ) -> None:
        self.rows = rows
        self.data = sealed(data)
        self.tokens = tokens
        self.events = events
        self.order, self.starts = buckets(tokens.codes, len(names))
        present = np.flatnonzero(np.diff(self.starts)).tolist()
        self.codes = {names[code]: code for code in present if code > DOCUMENT}
        self.names = self.codes.keys() | {name for event in events.values() for name in event.attributes}
        self.built: dict[str, AttributeColumn] = {}
        self._read_long_numbers()

    def batch(self) -> EventBatch:
        """The events."""
        ids, topics, documents = (self._field(code, field) for code, field in enumerate(FIELDS))
        assert ids is not None, "every line that is plain has an id"
        offsets, data = gathered(ids.data, ids.starts, ids.ends)
        own = pa.Array.from_buffers(
            pa.large_string(), self.rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
        columns: dict[str, Callable[[], AttributeColumn]] = {}
        for name in self.names | objects_of(self.names):
            columns[name] = partial(self.column, name)
        for name, texts in (("id", ids), ("topic", topics)):
            if name in columns:  # an attribute is called id.x, and its object like the event's own field
                columns[name] = partial(column_of_texts, texts, self.rows)
        return EventBatch(self.rows, own, topics, documents, columns)

    def column(self, name: str) -> AttributeColumn:
        """The values of an attribute, or of an object whose attributes have dotted names."""
        if name not in self.built:
            self.built[name] = self._column(name)
        return self.built[name]

    def _column(self, name: str) -> AttributeColumn:
        places, tags, numbers, starts, ends = self._spread(self.codes.get(name, -1))
        inside = name + "."
        for other in self.names:
            if other.startswith(inside):
                tags[(tags == NULL) & (self.column(other).tags != NULL)] = OTHER
        values = {row: plain(attribute_of(event, name)) for row, event in self.events.items()}
        hard = np.zeros(self.rows, np.bool_)
        for row, value in values.items():
            tags[row], numbers[row], hard[row] = tag_of(value), number_of_value(value), is_hard(value)
        valid = tags == STRING
        texts = {row: value for row, value in values.items() if isinstance(value, str)}
        strings = self._strings(starts, ends, valid, texts) if valid.any() else None
        value_of = partial(self._value, places, values, tags, strings)
        return AttributeColumn(tags, numbers, strings, value_of, hard if hard.any() else None)

    def _value(
        self, places: Ints, values: dict[int, Any], tags: Bytes, strings: Strings | None, row: int
    ) -> Any:
        """The value of a row, of the type that the exact reader gives it."""
        if row in values:
            return values[row]
        kind = self.tokens.kinds[places[row]] if places[row] >= 0 else NOTHING
        if kind == NOTHING:
            return OBJECT if tags[row] == OTHER else None
        if kind == EMPTY:
            return OBJECT
        if kind == TEXT:
            return strings.text(row) if strings is not None else None
        if kind == WHOLE:
            return int(self.tokens.firsts[places[row]])
        number = self.tokens.numbers[places[row]]
        return bool(number) if kind in (TRUE, FALSE) else float(number)

    def _field(self, code: int, name: str) -> Strings | None:
        """The texts of an event's own field; None when no event has one."""
        _, tags, _, starts, ends = self._spread(code)
        texts = {
            row: text for row, event in self.events.items() if (text := getattr(event, name)) is not None
        }
        valid = tags == STRING
        valid[list(texts)] = True
        return self._strings(starts, ends, valid, texts) if valid.any() else None

    def _strings(self, starts: Longs, ends: Longs, valid: Flags, texts: dict[int, str]) -> Strings:
        """The texts in the block, and those of the exact reader behind copies of them."""
        if not texts:
            return Strings(self.data, starts, ends, valid)
        offsets, data = gathered(self.data, starts, ends)
        encoded = [text.encode() for text in texts.values()]
        added = offsets[-1] + np.cumsum([0, *map(len, encoded)])
        starts, ends = offsets[:-1].copy(), offsets[1:].copy()
        starts[list(texts)], ends[list(texts)] = added[:-1], added[1:]
        joined = np.concatenate([data[: offsets[-1]], np.frombuffer(b"".join(encoded), np.uint8)])
        return Strings(sealed(joined), starts, ends, valid)

    def _spread(self, code: int) -> tuple[Ints, Bytes, Floats, Longs, Longs]:
        """`spread` for the tokens of a code; -1 is one that has none."""
        chosen = self.order[self.starts[code] : self.starts[code + 1]] if code >= 0 else self.order[:0]
        return spread(chosen, self.tokens, self.rows)

    def _read_long_numbers(self) -> None:
        """Read the numbers of many digits, exactly rounded as Python rounds them."""
        long = np.flatnonzero(self.tokens.kinds == LONG)
        if len(long):
            offsets, data = gathered(self.data, self.tokens.firsts[long], self.tokens.lasts[long])
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
            texts = pa.Array.from_buffers(pa.large_string(), len(long), buffers)
            self.tokens.numbers[long] = texts.cast(pa.float64()).to_numpy()


def _new_keys() -> Keys:
    """A table that knows an event's own fields."""
    keys = Keys(
        np.zeros(256, np.int32),
        np.zeros(128, np.uint64),
        np.zeros(128, np.int64),
        np.zeros(64 * LONGEST_NAME, np.uint8),
        np.zeros(128, np.int64),
        np.zeros(3, np.int64),
    )
    for field in FIELDS:
        name = np.frombuffer(f'{field}"'.encode(), np.uint8).copy()
        find_name(name, 0, -1, keys)
    return keys


def _widened(keys: Keys) -> Keys:
    """The same names with twice the room."""
    doubled = (np.concatenate([each, np.zeros_like(each)]) for each in keys)
    wider = Keys._make(doubled)._replace(table=np.zeros(2 * len(keys.table), np.int32), counts=keys.counts)
    fill_table(wider)
    return wider


@kernel
def spread(chosen: Longs, tokens: Tokens, rows: int) -> tuple[Ints, Bytes, Floats, Longs, Longs]:
    """A column of the chosen tokens: for each row its token or -1, tag, number, and where its text is."""
    places = np.full(rows, -1, np.int32)
    tags = np.zeros(rows, np.uint8)
    numbers = np.zeros(rows, np.float64)
    starts = np.zeros(rows, np.int64)
    ends = np.zeros(rows, np.int64)
    for place in chosen:
        row, kind = tokens.rows[place], tokens.kinds[place]
        places[row] = place
        tags[row] = TAGS[kind]
        if kind == TEXT:
            starts[row] = tokens.firsts[place]
            ends[row] = tokens.lasts[place]
        else:
            numbers[row] = tokens.numbers[place]
    return places, tags, numbers, starts, ends


@kernel
def gathered(data: Bytes, starts: Longs, ends: Longs) -> tuple[Longs, Bytes]:
    """The texts one behind the other: where each starts, the end of the last, and their bytes."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    for row in range(len(starts)):
        offsets[row + 1] = offsets[row] + ends[row] - starts[row]
    joined = np.empty(offsets[-1], np.uint8)
    for row in range(len(starts)):
        for step in range(ends[row] - starts[row]):
            joined[offsets[row] + step] = data[starts[row] + step]
    return offsets, joined

"""An event of a network in the log, and as a row; and a row as an event."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Row

from distributary.errors import InputError
from distributary.model import Event

COLUMNS = (
    "offset BIGINT, id STRING, source STRING, topic STRING, attributes STRING, document STRING, "
    "arrival TIMESTAMP"
)
"""The columns of a stream; the attributes are a JSON object, without the source."""
_ARROW = pa.schema(
    [
        ("offset", pa.int64()),
        ("id", pa.string()),
        ("source", pa.string()),
        ("topic", pa.string()),
        ("attributes", pa.string()),
        ("document", pa.string()),
        ("arrival", pa.timestamp("us", "UTC")),
    ]
)
_encoder = msgspec.json.Encoder(decimal_format="number")


class LoggedEvent(msgspec.Struct, array_like=True, frozen=True):
    """One event as it came from a broker."""

    id: str
    source: str
    topic: str | None
    attributes: str
    document: str | None
    arrival: int
    """Microseconds since 1970."""
    place: dict[str, Any] | None = None
    """Where a client goes on behind this event; that of the last one that was written with it."""


def logged_event(event: Event, arrival: int, place: dict[str, Any] | None) -> LoggedEvent:
    """An event for the log.

    >>> logged_event(Event("e1", "A", {"source": "ann", "price": 8.5}), 0, None).attributes
    '{"price":8.5}'
    """
    attributes = {name: value for name, value in event.attributes.items() if name != "source"}
    text = _encoder.encode(attributes).decode()
    return LoggedEvent(event.id, event.source, event.topic, text, event.document, arrival, place)


def event_rows(events: Sequence[tuple[int, LoggedEvent]]) -> pa.RecordBatch:
    """Events with their offsets as rows of `COLUMNS`."""
    columns = [
        [offset for offset, _ in events],
        *([getattr(each, name) for _, each in events] for name in _ARROW.names[1:]),
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def event_of_row(row: Row, source: str | None) -> Event:
    """The event that a row stands for; `InputError` if it is none.

    Each column is an attribute, but for `id`, `topic` and `document`; the fields of a struct have dotted
    names. Without a column `source`, the source is that which is given. What JSON has not becomes a text:
    times in ISO 8601, bytes in Base64. A decimal is a number; one that a double cannot hold is refused.

    >>> event_of_row(Row(id="e1", topic="A", price=8.5, at=date(2026, 1, 2)), "spark").attributes
    {'price': 8.5, 'at': '2026-01-02', 'source': 'spark'}
    """
    record = {name: _plain(value) for name, value in row.asDict().items() if value is not None}
    if record.get("id") is None:
        raise InputError("is missing in a row; an event is known by it", field="id")
    if source is not None:
        record.setdefault("source", source)
    return Event.from_record(record)


def _plain(value: Any) -> Any:
    """A value of Spark's as JSON has it."""
    match value:
        case Row():
            return {name: _plain(each) for name, each in value.asDict().items()}
        case Mapping():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return _number(value)
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
    return value


def _number(value: Decimal) -> int | float:
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    if Decimal(repr(number)) != value:
        raise InputError(f"{value} has more digits than a double; cast it to double or string")
    return number

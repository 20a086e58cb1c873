"""A message of MQTT in the log, and as a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

COLUMNS = (
    "offset BIGINT, topic STRING, payload BINARY, qos INT, retained BOOLEAN, arrival TIMESTAMP, "
    "properties STRUCT<content_type: STRING, response_topic: STRING, correlation_data: BINARY, "
    "payload_format: INT, expiry: BIGINT, user: ARRAY<STRUCT<name: STRING, value: STRING>>>"
)
"""The columns of a stream; the properties are null in MQTT 3.1.1."""
_PROPERTIES = pa.struct(
    [
        ("content_type", pa.string()),
        ("response_topic", pa.string()),
        ("correlation_data", pa.binary()),
        ("payload_format", pa.int32()),
        ("expiry", pa.int64()),
        ("user", pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))),
    ]
)
_ARROW = pa.schema(
    [
        ("offset", pa.int64()),
        ("topic", pa.string()),
        ("payload", pa.binary()),
        ("qos", pa.int32()),
        ("retained", pa.bool_()),
        ("arrival", pa.timestamp("us", "UTC")),
        ("properties", _PROPERTIES),
    ]
)
_NAMES = {
    "ContentType": "content_type",
    "ResponseTopic": "response_topic",
    "CorrelationData": "correlation_data",
    "PayloadFormatIndicator": "payload_format",
    "MessageExpiryInterval": "expiry",
}
"""The properties of MQTT 5 that say something about a message, as paho-mqtt calls them, and their columns."""


class LoggedMessage(msgspec.Struct, array_like=True, frozen=True):
    """One message as it came from a broker."""

    topic: str
    payload: bytes
    qos: int
    retained: bool
    arrival: int
    """Microseconds since 1970."""
    packet: int = 0
    """The packet identifier by which the broker knows it; 0 at QoS 0."""
    properties: dict[str, Any] | None = None
    """Those of MQTT 5; None in 3.1.1."""


def read_properties(given: Any) -> dict[str, Any]:
    """The properties of a message, as paho-mqtt gives them, by the names of their columns."""
    found = {ours: getattr(given, name) for name, ours in _NAMES.items() if hasattr(given, name)}
    user = getattr(given, "UserProperty", None)
    return found | ({"user": [list(pair) for pair in user]} if user else {})


def message_rows(messages: Sequence[tuple[int, LoggedMessage]]) -> pa.RecordBatch:
    """Messages with their offsets as rows of `COLUMNS`."""
    columns = [
        [offset for offset, _ in messages],
        [each.topic for _, each in messages],
        [each.payload for _, each in messages],
        [each.qos for _, each in messages],
        [each.retained for _, each in messages],
        [each.arrival for _, each in messages],
        [_struct(each.properties) for _, each in messages],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _struct(properties: dict[str, Any] | None) -> dict[str, Any] | None:
    if properties is None or "user" not in properties:
        return properties
    return {**properties, "user": [{"name": name, "value": value} for name, value in properties["user"]]}

"""A value of Avro's as a record, by the schema it was written with (`pip install 'distributary[registry]'`).

Logical types are read as what they mean: times, dates, exact decimals, UUIDs.

Refused when the schema is first met, because bytes of an attacker's choice would end the process: schemas
that refer to themselves (fastavro recurses without a bound) and arrays whose items take no bytes (a few bytes
would stand for billions of items).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import fastavro

from distributary.errors import InputError
from distributary.kafka_values.schemas import ValueSchema
from distributary.kafka_values.wire import HEADER

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


class AvroReader:
    """Reads the values that were written with one schema.

    >>> text = b'{"type": "record", "name": "Quote", "fields": [{"name": "price", "type": "double"}]}'
    >>> AvroReader(ValueSchema((text,))).record(b"\\x00\\x00\\x00\\x00\\x07" + bytes(7) + b"\\x40")
    {'price': 2.0}
    """

    def __init__(self, schema: ValueSchema) -> None:
        named: dict[str, Any] = {}
        try:
            for part in schema.parts:
                parsed = fastavro.parse_schema(json.loads(part), named)
        except Exception as error:  # a schema may be wrong in any way, and fastavro tells of it in as many
            raise InputError(f"was written with a schema that is none of Avro's: {error}") from None
        if not (isinstance(parsed, dict) and parsed["type"] == "record"):
            raise InputError("was written with a schema that is no record's, so it has no attributes")
        _check(parsed, named, ())
        self._read = partial(fastavro.schemaless_reader, writer_schema=parsed, reader_schema=None)

    def record(self, value: bytes) -> Mapping[str, Any]:
        """The record of a value; InputError if it is not what its schema says."""
        stream = io.BytesIO(value)
        stream.seek(HEADER)
        try:
            record = self._read(stream)
        except Exception as error:  # fastavro raises whatever it runs into: EOFError, IndexError, ...
            reason = str(error) or type(error).__name__
            raise InputError(f"is not what its Avro schema says: {reason}") from None
        if stream.tell() != len(value):
            left = len(value) - stream.tell()
            raise InputError(f"is not what its Avro schema says: {left} bytes are left over")
        return record  # type: ignore[return-value]


def _check(schema: Any, named: Mapping[str, Any], within: tuple[str, ...]) -> int:
    """The least bytes that a value of a schema takes; InputError for a schema that cannot be read safely."""
    if isinstance(schema, list):
        return 1 + min((_check(each, named, within) for each in schema), default=0)
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return 0 if schema == "null" else 1
        if schema in within:
            raise InputError(f"was written with a schema that refers to itself: {schema}")
        return _check(named[schema], named, within)
    kind = schema["type"]
    if kind in ("array", "map"):
        least = _check(schema["items" if kind == "array" else "values"], named, within)
        if kind == "array" and not least:
            raise InputError("was written with a schema that has an array whose items take no bytes")
        return 1
    if kind == "record":
        inner = (*within, schema["name"])
        return sum(_check(field["type"], named, inner) for field in schema["fields"])
    if kind == "fixed":
        return int(schema["size"])
    return 1 if kind == "enum" else _check(kind, named, within)

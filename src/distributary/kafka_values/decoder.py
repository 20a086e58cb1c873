"""Values of a source of Kafka's as records, and as the JSON that stands for them.

In JSON a time is text in ISO 8601, a decimal a number with all its digits, bytes are text in Base64, and what
is not a number (NaN) is null. An infinite number has no JSON: such a value is malformed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any
from urllib.parse import urlsplit

import msgspec

from distributary.errors import DistributaryError, InputError
from distributary.kafka_values.schemas import KeptSchemas, Kind, SchemaFiles, SchemaRegistry
from distributary.kafka_values.wire import schema_id

NESTED = (dict, list)


@dataclass(frozen=True)
class ValueFormat:
    """What the values of a source are, and where their schemas are: a registry or a directory."""

    kind: Kind
    registry: str | None = None
    schemas: str | None = None


def value_faults(kind: str, registry: str | None, schemas: str | None) -> Iterator[tuple[str, str]]:
    """What is wrong with a source that has such values: key and text.

    >>> list(value_faults("avro", None, None))
    [('registry', 'is missing; avro needs one such as "http://localhost:8081", or a directory as schemas')]
    """
    if kind not in ("avro", "protobuf"):
        for key, given in (("registry", registry), ("schemas", schemas)):
            if given is not None:
                yield key, "is for values in avro or protobuf"
    elif registry is None and schemas is None:
        yield (
            "registry",
            f'is missing; {kind} needs one such as "http://localhost:8081", or a directory as schemas',
        )
    elif registry is not None and schemas is not None:
        yield "schemas", "is given together with registry; leave one of them out"
    if registry is not None and (urlsplit(registry).scheme not in ("http", "https")):
        yield "registry", 'must be an address such as "http://localhost:8081"'


class ValueDecoder:
    """Reads the values of one source; not for several threads at a time.

    >>> from tempfile import mkdtemp
    >>> from pathlib import Path
    >>> fields = '[{"name": "stock", "type": "string"}]'
    >>> home = Path(mkdtemp())
    >>> _ = (home / "7.avsc").write_text(f'{{"type": "record", "name": "Quote", "fields": {fields}}}')
    >>> ValueDecoder(ValueFormat("avro", schemas=str(home))).json(b"\\x00\\x00\\x00\\x00\\x07\\x06OTE")
    b'{"stock":"OTE"}'
    """

    def __init__(self, format: ValueFormat) -> None:
        kind = format.kind
        store: SchemaFiles | SchemaRegistry
        if format.registry is not None:
            store = SchemaRegistry(format.registry, kind)
        else:
            store = SchemaFiles(str(format.schemas), kind)
        make = _reader_of(kind)
        self._kept = KeptSchemas(store, make)

    def record(self, value: bytes) -> Mapping[str, Any]:
        """The record of a value; InputError says why it has none, RegistryError that its schema is away."""
        record: Mapping[str, Any] = self._kept.made(schema_id(value)).record(value)
        return record

    def json(self, value: bytes) -> bytes:
        """The record of a value as a JSON object."""
        return json_of(self.record(value))


def json_of(record: Mapping[str, Any]) -> bytes:
    """A record as a JSON object; InputError for what JSON does not have.

    >>> from decimal import Decimal
    >>> json_of({"price": Decimal("8.40"), "raw": b"ab", "gone": float("nan")})
    b'{"price":8.40,"raw":"YWI=","gone":null}'
    """
    _check_finite(record)
    try:
        return _encoder.encode(record)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InputError(f"has what no JSON can say: {error}") from None


def _check_finite(record: Mapping[str, Any]) -> None:
    waiting: list[Any] = [record.items()]
    while waiting:
        for name, value in waiting.pop():
            if value.__class__ is float and (value == inf or value == -inf):
                raise InputError("is infinite, which no condition can compare", field=str(name))
            if value.__class__ in NESTED:
                waiting.append(value.items() if isinstance(value, dict) else [(name, each) for each in value])


def _reader_of(kind: Kind) -> Any:
    """The class that reads such values; DistributaryError if its library is not there."""
    try:
        if kind == "avro":
            from distributary.kafka_values.avro import AvroReader

            return AvroReader
        from distributary.kafka_values.protobuf import ProtobufReader

        return ProtobufReader
    except ModuleNotFoundError as error:
        raise DistributaryError(
            f"values in {kind} need {error.name}: pip install 'distributary[registry]'"
        ) from None


_encoder = msgspec.json.Encoder(decimal_format="number")

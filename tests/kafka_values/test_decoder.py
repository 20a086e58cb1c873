"""Avro and Protobuf as a registry's serialisers write them: what Confluent's own write, this reads."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema as ConfluentSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import InputError
from distributary.json_text import read_object
from distributary.kafka_values import schemas as schemas_module
from distributary.kafka_values.avro import AvroReader
from distributary.kafka_values.decoder import ValueDecoder, ValueFormat, json_of
from distributary.kafka_values.schemas import KeptSchemas, RegistryError, SchemaRegistry, ValueSchema
from distributary.kafka_values.wire import without_schema_id
from registry_server import RegistryServer, registry_server

AT = SerializationContext("quotes", MessageField.VALUE)
QUOTE: dict[str, Any] = {
    "type": "record",
    "name": "Quote",
    "namespace": "bourse",
    "fields": [
        {"name": "stock", "type": "string"},
        {"name": "price", "type": ["null", "double"]},
        {"name": "volume", "type": "long"},
        {"name": "exact", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "side", "type": {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": {"type": "map", "values": "int"}},
        {
            "name": "wind",
            "type": {"type": "record", "name": "Wind", "fields": [{"name": "speed", "type": "float"}]},
        },
    ],
}
TIME = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
QUOTES = st.fixed_dictionaries(
    {
        "stock": st.text(),
        "price": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "volume": st.integers(-(2**63), 2**63 - 1),
        "exact": st.decimals(-(10**12), 10**12, places=4),
        "at": TIME,
        "side": st.sampled_from(["BUY", "SELL"]),
        "tags": st.lists(st.text(), max_size=3),
        "more": st.dictionaries(st.text(), st.integers(-(2**31), 2**31 - 1), max_size=3),
        "wind": st.fixed_dictionaries({"speed": st.floats(width=32, allow_nan=False, allow_infinity=False)}),
    }
)


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryServer]:
    with registry_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas_module, "FIRST_PAUSE", 0.0)


def avro_values(registry: RegistryServer, schema: dict[str, Any], *records: Any) -> list[bytes]:
    """Values as Confluent's serialiser writes them."""
    client = SchemaRegistryClient({"url": registry.address})
    serialise = AvroSerializer(client, json.dumps(schema))
    return [bytes(serialise(record, AT) or b"") for record in records]


def decoder(registry: RegistryServer, kind: str = "avro") -> ValueDecoder:
    return ValueDecoder(ValueFormat(kind, registry.address))  # type: ignore[arg-type]


@given(quotes=st.lists(QUOTES, min_size=1, max_size=5))
def test_what_confluents_serialiser_writes_is_read_as_it_was(
    registry: RegistryServer, quotes: list[dict[str, Any]]
) -> None:
    read = decoder(registry)
    values = avro_values(registry, QUOTE, *quotes)
    assert [read.record(value) for value in values] == quotes
    for value, quote in zip(values, quotes, strict=True):
        told = json.loads(read.json(value), parse_float=Decimal)
        assert told["exact"] == quote["exact"]  # with all its digits
        assert datetime.fromisoformat(told["at"]) == quote["at"]
        assert (told["stock"], told["volume"], told["tags"]) == (
            quote["stock"],
            quote["volume"],
            quote["tags"],
        )


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1), max_size=4))
def test_json_that_confluents_serialiser_writes_is_read_without_its_schema(
    registry: RegistryServer, record: dict[str, Any]
) -> None:
    client = SchemaRegistryClient({"url": registry.address})
    schema = json.dumps({"type": "object", "title": "Quote"})
    value = bytes(JSONSerializer(schema, client)(record, AT) or b"")
    assert value[0] == 0
    assert json.loads(without_schema_id(value)) == record
    assert without_schema_id(without_schema_id(value)) == without_schema_id(value)


@given(st.binary().filter(lambda value: value[5:6] != b"{" or value[:1] != b"\0"))
def test_other_values_are_left_as_they_are(value: bytes) -> None:
    assert without_schema_id(value) == value


def test_values_of_several_schemas_are_read_each_by_its_own_and_each_schema_is_asked_for_once(
    registry: RegistryServer,
) -> None:
    old = {"type": "record", "name": "Old", "fields": [{"name": "price", "type": "double"}]}
    new = {**old, "fields": [*old["fields"], {"name": "stock", "type": "string", "default": ""}]}  # type: ignore[misc]
    values = [
        *avro_values(registry, old, {"price": 1.0}),
        *avro_values(registry, new, {"price": 2.0, "stock": "OTE"}),
    ]
    read = decoder(registry)
    registry.asked.clear()
    assert [read.record(value) for value in values * 3] == [
        {"price": 1.0},
        {"price": 2.0, "stock": "OTE"},
    ] * 3
    assert len(registry.asked) == 2


def test_a_schema_that_refers_to_others_is_read_with_them(registry: RegistryServer) -> None:
    client = SchemaRegistryClient({"url": registry.address})
    wind = {"type": "record", "name": "far.Wind", "fields": [{"name": "speed", "type": "int"}]}
    client.register_schema("wind", ConfluentSchema(json.dumps(wind), "AVRO"))
    whole = {"type": "record", "name": "Weather", "fields": [{"name": "wind", "type": "far.Wind"}]}
    given = ConfluentSchema(json.dumps(whole), "AVRO", [SchemaReference("far.Wind", "wind", 1)])
    id = client.register_schema("weather", given)
    assert decoder(registry).record(struct.pack(">bI", 0, id) + b"\x06") == {"wind": {"speed": 3}}


@given(st.data())
def test_whatever_the_bytes_it_is_a_record_or_a_reason(registry: RegistryServer, data: st.DataObject) -> None:
    value = avro_values(registry, QUOTE, data.draw(QUOTES))[0]
    damaged = bytearray(value)
    for place in data.draw(st.lists(st.integers(0, len(value) - 1), max_size=4)):
        damaged[place] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(value)))] + data.draw(st.binary(max_size=3))
    with suppress(InputError):  # any other error would end the task, and the pipeline
        read_object(decoder(registry).json(bytes(damaged)))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "has 0 bytes; the magic byte and a schema's id alone are 5"),
        (b'{"price": 1}', "begins with the byte 0x7b, and not with 0x00, which a schema's id follows"),
        (b"\0\0\0\xff\xff", "was written with the schema 65535, which {} does not have"),
    ],
)
def test_what_cannot_be_read_says_why(registry: RegistryServer, value: bytes, reason: str) -> None:
    with pytest.raises(InputError) as told:
        decoder(registry).record(value)
    assert str(told.value) == reason.format(registry.address)


def test_bytes_that_are_left_over_are_told() -> None:
    schema = ValueSchema((b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}',))
    assert AvroReader(schema).record(b"\0\0\0\0\1\x06") == {"a": 3}
    with pytest.raises(InputError, match="2 bytes are left over"):
        AvroReader(schema).record(b"\0\0\0\0\1\x06\x06\x06")
    with pytest.raises(InputError, match="is not what its Avro schema says: EOFError"):
        AvroReader(schema).record(b"\0\0\0\0\1")


@pytest.mark.parametrize(
    "type",
    [
        '["null", "R"]',
        '{"type": "array", "items": "null"}',
        '{"type": "map", "values": {"type": "array", "items": "R"}}',
    ],
)
def test_a_schema_with_which_few_bytes_could_end_the_process_is_refused(type: str) -> None:
    text = f'{{"type": "record", "name": "R", "fields": [{{"name": "a", "type": {type}}}]}}'
    with pytest.raises(InputError, match=r"refers to itself|take no bytes"):
        AvroReader(ValueSchema((text.encode(),)))


def test_what_is_no_number_is_null_and_what_is_infinite_is_refused() -> None:
    assert json_of({"a": [float("nan")], "b": {"c": float("nan")}}) == b'{"a":[null],"b":{"c":null}}'
    for record in ({"a": float("inf")}, {"a": [{"b": float("-inf")}]}):
        with pytest.raises(InputError, match="infinite"):
            json_of(record)


def test_schemas_in_files_are_found_by_their_ids(registry: RegistryServer, tmp_path: Path) -> None:
    [value] = avro_values(registry, {**QUOTE, "fields": QUOTE["fields"][:1]}, {"stock": "OTE"})
    id = int.from_bytes(value[1:5], "big")
    read = ValueDecoder(ValueFormat("avro", schemas=str(tmp_path)))
    with pytest.raises(InputError, match=f"there is no .*{id}.avsc"):
        read.record(value)
    (tmp_path / f"{id}.avsc").write_text(json.dumps({**QUOTE, "fields": QUOTE["fields"][:1]}))
    later = ValueDecoder(ValueFormat("avro", schemas=str(tmp_path)))
    assert later.record(value) == {"stock": "OTE"}


def test_a_registry_that_fails_is_asked_again_and_in_the_end_is_no_fault_of_the_value(
    registry: RegistryServer,
) -> None:
    [value] = avro_values(registry, {**QUOTE, "fields": QUOTE["fields"][:1]}, {"stock": "OTE"})
    registry.failures = schemas_module.TRIES - 1
    assert decoder(registry).record(value) == {"stock": "OTE"}
    registry.failures = schemas_module.TRIES
    with pytest.raises(RegistryError, match="503") as told:
        decoder(registry).record(value)
    assert not isinstance(told.value, InputError)
    assert registry.failures == 0


def test_a_password_in_the_address_is_shown_to_the_registry_and_to_nobody_else(
    registry: RegistryServer,
) -> None:
    id = registry.register("secret", {"schema": '"string"'})
    registry.password = "ann:s p@ce"
    try:
        named = registry.address.replace("//", "//ann:s%20p%40ce@")
        assert SchemaRegistry(named, "avro").find(id).parts == (b'"string"',)
        with pytest.raises(RegistryError, match="401") as told:
            SchemaRegistry(registry.address.replace("//", "//ann:wrong@"), "avro").find(id)
        assert "wrong" not in str(told.value)
    finally:
        registry.password = None


def test_an_unknown_id_is_asked_for_again_after_a_while(registry: RegistryServer) -> None:
    clock = [0.0]
    kept = KeptSchemas(SchemaRegistry(registry.address, "avro"), lambda schema: schema, lambda: clock[0])
    wanted = len(registry.schemas) + 1
    registry.asked.clear()
    for _ in range(3):
        with pytest.raises(InputError, match="does not have"):
            kept.made(wanted)
    assert len(registry.asked) == 1
    registry.register("late", {"schema": '{"type": "fixed", "size": 3, "name": "Late"}'})
    clock[0] = schemas_module.UNKNOWN_FOR
    assert kept.made(wanted).parts[0].startswith(b'{"type": "fixed"')


def protobuf_file() -> descriptor_pb2.FileDescriptorProto:
    """A file of two messages, of which the second holds others, a map, an enum, and Protobuf's own."""
    file = descriptor_pb2.FileDescriptorProto(name="quotes.proto", package="bourse", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    file.message_type.add(name="Other").field.add(name="x", number=1, type=Field.TYPE_INT32, label=1)
    side = file.enum_type.add(name="Side")
    side.value.add(name="BUY", number=0)
    side.value.add(name="SELL", number=1)
    quote = file.message_type.add(name="Quote")
    quote.nested_type.add(name="Wind").field.add(name="speed", number=1, type=Field.TYPE_FLOAT, label=1)
    entry = quote.nested_type.add(name="MoreEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=Field.TYPE_INT64, label=1)
    for number, (name, type, label, of) in enumerate(
        [
            ("stock", Field.TYPE_STRING, 1, ""),
            ("volume", Field.TYPE_UINT64, 1, ""),
            ("raw", Field.TYPE_BYTES, 1, ""),
            ("tags", Field.TYPE_STRING, 3, ""),
            ("side", Field.TYPE_ENUM, 1, ".bourse.Side"),
            ("wind", Field.TYPE_MESSAGE, 1, ".bourse.Quote.Wind"),
            ("more", Field.TYPE_MESSAGE, 3, ".bourse.Quote.MoreEntry"),
            ("at", Field.TYPE_MESSAGE, 1, ".google.protobuf.Timestamp"),
            ("price", Field.TYPE_MESSAGE, 1, ".google.protobuf.DoubleValue"),
            ("before", Field.TYPE_MESSAGE, 1, ".bourse.Quote"),
        ],
        1,
    ):
        quote.field.add(name=name, number=number, type=type, label=label, type_name=of or None)
    return file


def message_class(name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in (timestamp_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR):
        pool.AddSerializedFile(file.serialized_pb)
    pool.Add(protobuf_file())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def a_quote() -> Any:
    quote = message_class("bourse.Quote")(stock="OTE", volume=2**63 + 1, raw=b"\xff", tags=["a", "b"], side=1)
    quote.wind.speed = 1.5
    quote.more["x"] = -7
    quote.at.FromDatetime(datetime(2026, 1, 2, 3, 4, 5, 678, UTC))
    quote.price.value = 8.25
    quote.before.side = 5
    return quote


QUOTE_RECORD = {
    "stock": "OTE",
    "volume": 2**63 + 1,
    "raw": b"\xff",
    "tags": ["a", "b"],
    "side": "SELL",
    "wind": {"speed": 1.5},
    "more": {"x": -7},
    "at": datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
    "price": 8.25,
    "before": {"stock": "", "volume": 0, "raw": b"", "tags": [], "side": 5, "more": {}},
}


def protobuf_value(registry: RegistryServer, message: Any) -> bytes:
    client = SchemaRegistryClient({"url": registry.address})
    serialise = ProtobufSerializer(type(message), client, {"use.deprecated.format": False})
    return bytes(serialise(message, AT) or b"")


def test_protobuf_of_confluents_serialiser_is_read_with_what_it_refers_to(registry: RegistryServer) -> None:
    value = protobuf_value(registry, a_quote())
    assert decoder(registry, "protobuf").record(value) == QUOTE_RECORD
    wind = message_class("bourse.Quote.Wind")(speed=2.5)
    assert decoder(registry, "protobuf").record(protobuf_value(registry, wind)) == {"speed": 2.5}
    with pytest.raises(InputError, match="is one of protobuf, not avro"):
        decoder(registry).record(value)


def test_protobuf_is_read_by_descriptor_sets_in_files(tmp_path: Path) -> None:
    read = ValueDecoder(ValueFormat("protobuf", schemas=str(tmp_path)))
    (tmp_path / "7.desc").write_bytes(b"none")
    with pytest.raises(RegistryError, match="no descriptor set"):
        read.record(b"\0\0\0\0\x07\0")
    files = descriptor_pb2.FileDescriptorSet(file=[protobuf_file()])
    (tmp_path / "7.desc").write_bytes(files.SerializeToString())
    body = a_quote().SerializeToString()
    assert read.record(b"\0\0\0\0\x07\x02\x02" + body) == QUOTE_RECORD
    for head, reason in (
        (b"\x02\x06", "is the message 3 of quotes.proto, which has 2"),
        (b"\x04\x02\x08", "is the message 4 of bourse.Quote, which has 2"),
        (b"\x02", "ends within"),
        (b"\xff\xff\x03", "deep in its file"),
        (b"\x02\x01", "message -1"),
        (b"\x02\x02\xff", "is not what its Protobuf schema says"),
    ):
        with pytest.raises(InputError, match=reason):
            read.record(b"\0\0\0\0\x07" + head)


def test_schemas_that_refer_to_each_other_are_refused(registry: RegistryServer) -> None:
    names = ("egg", "hen")
    for name, other in (names, names[::-1]):
        fields = [{"name": other, "type": other}]
        text = json.dumps({"type": "record", "name": name, "fields": fields})
        references = [{"name": other, "subject": other, "version": 1}]
        id = registry.register(name, {"schema": text, "references": references})
    with pytest.raises(InputError, match="none of Avro's"):
        ValueDecoder(ValueFormat("avro", registry.address)).record(struct.pack(">bI", 0, id))

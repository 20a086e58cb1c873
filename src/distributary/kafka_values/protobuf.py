"""A message of Protobuf's as a record, by the descriptors of its file.

It needs `pip install 'distributary[registry]'`.

Fields have the names of the `.proto` file. A field that can be absent (`optional`, a message, one of a
`oneof`) and is, is not there; any other has its default. An enum's value is its name, one without a name its
number; a `Timestamp` is a time, a wrapper such as `DoubleValue` its value. The library reads no message that
is nested more than 100 deep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf import timestamp_pb2 as timestamp_pb2  # these put their files into the default pool
from google.protobuf import wrappers_pb2 as wrappers_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from distributary.errors import InputError
from distributary.kafka_values.schemas import ValueSchema
from distributary.kafka_values.wire import message_indexes

TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
FREE = frozenset(f"google.protobuf.{kind}" for kind in ("Struct", "Value", "ListValue"))
"""Messages that hold any JSON."""
OURS = "google/protobuf/"
"""Files that every Protobuf has: registries leave them out."""

Convert = Callable[[Any], Any]


class ProtobufReader:
    """Reads the messages of one file."""

    def __init__(self, schema: ValueSchema) -> None:
        pool = descriptor_pool.DescriptorPool()
        try:
            files = [descriptor_pb2.FileDescriptorProto.FromString(part) for part in schema.parts]
            _add_common(pool, {each.name for each in files})
            for each in files:
                pool.AddSerializedFile(each.SerializeToString())
            self._file = pool.FindFileByName(files[-1].name)
        except (DecodeError, TypeError, KeyError, ValueError) as error:
            raise InputError(f"was written with a schema that is none of Protobuf's: {error}") from None
        self._messages = list(self._file.message_types_by_name.values())
        self._made: dict[tuple[int, ...], tuple[Any, Convert]] = {}

    def record(self, value: bytes) -> Mapping[str, Any]:
        """The record of a value; InputError if it is not what its schema says."""
        indexes, begin = message_indexes(value)
        found = self._made.get(indexes)
        if found is None:
            descriptor = self._message(indexes)
            made: tuple[Any, Convert] = message_factory.GetMessageClass(descriptor), _converter(descriptor)
            found = self._made[indexes] = made
        message_class, convert = found
        try:
            record: Mapping[str, Any] = convert(message_class.FromString(value[begin:]))
        except (DecodeError, ValueError, OverflowError, json_format.Error) as error:
            raise InputError(f"is not what its Protobuf schema says: {error}") from None
        return record

    def _message(self, indexes: tuple[int, ...]) -> Descriptor:
        messages, found = self._messages, None
        for index in indexes:
            if index >= len(messages):
                where = found.full_name if found is not None else self._file.name
                raise InputError(f"is the message {index} of {where}, which has {len(messages)}")
            found = messages[index]
            messages = list(found.nested_types)
        assert found is not None
        return found


def _add_common(pool: descriptor_pool.DescriptorPool, given: set[str]) -> None:
    """Add the files that come with Protobuf, but for those that are given."""
    waiting = [timestamp_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR, *_more_common()]
    for file in waiting:
        if file.name not in given:
            pool.AddSerializedFile(file.serialized_pb)


def _more_common() -> list[Any]:
    from google.protobuf import any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2

    modules = (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, descriptor_pb2)
    return [each.DESCRIPTOR for each in modules]


def _converter(descriptor: Descriptor, known: dict[str, list[Any]] | None = None) -> Convert:
    """What makes a record of a message; messages may hold messages of their own kind."""
    name = descriptor.full_name
    if name == TIMESTAMP:
        return lambda message: message.ToDatetime(tzinfo=UTC)
    if name in WRAPPERS:
        return lambda message: message.value
    if name in FREE:
        free: Convert = json_format.MessageToDict
        return free
    known = {} if known is None else known
    if name in known:
        later = known[name]
        return lambda message: _record(message, later)
    fields = known[name] = []
    for field in descriptor.fields:
        fields.append((field.name, field.has_presence, _of_field(field, known)))
    return lambda message: _record(message, fields)


def _record(message: Any, fields: list[Any]) -> dict[str, Any]:
    return {
        name: convert(getattr(message, name)) if convert is not None else getattr(message, name)
        for name, optional, convert in fields
        if not optional or message.HasField(name)
    }


def _of_field(field: FieldDescriptor, known: dict[str, list[Any]]) -> Convert | None:
    """What makes a value of a field's; None where it is one already."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        inner = _of_field(message.fields_by_name["value"], known)
        if inner is None:
            return lambda entries: {str(key): entries[key] for key in entries}
        return lambda entries: {str(key): inner(entries[key]) for key in entries}
    one = _of_one(field, known)
    if not field.is_repeated:
        return one
    return list if one is None else lambda values: [one(each) for each in values]


def _of_one(field: FieldDescriptor, known: dict[str, list[Any]]) -> Convert | None:
    if field.message_type is not None:
        return _converter(field.message_type, known)
    if field.enum_type is None:
        return None
    names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
    return lambda number: names.get(number, number)

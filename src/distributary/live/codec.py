"""Messages as bytes, and bytes as messages.

The format is what `overlay.wire` measures: MessagePack, a message being an array of the number of its kind
and its fields. Fields that have defaults may be left out at the end, and fields behind those that are known
are ignored, so that nodes of two versions understand each other.

Rules:

- What is read is checked by the annotations of the messages (`hints`) and made by their own classes, which
  check what they hold. Whatever the bytes are, the outcome is a message or a `CodecError`.
- Only kinds that have a number (`overlay.kinds`) are made, and nothing that bytes say is imported or called.
- Time and memory are bounded by the length, which is at most `MAX_BYTES`: one byte may become an empty object
  of 64. Messages lie in messages at most `MAX_DEPTH` deep.
- The same message gives the same bytes: sets are written in the order of their members' bytes.

- An event keeps the bytes that it was read from, or written to first, and is sent on as these. Events that
  come together stay together (`PackedEvents`): all are checked, and none is made before somebody asks for it.

Cost: 1 to 2 microseconds for a message of a few fields; a quarter for each of some events that come together,
1 for one that is made, next to nothing for those that are written as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from inspect import signature
from types import NoneType
from typing import Any, Literal, NamedTuple, get_type_hints

import msgspec
from msgspec import Raw
from msgspec.msgpack import Decoder, Encoder, Ext
from msgspec.structs import astuple

from distributary.errors import DistributaryError, InputError, quoted
from distributary.live.hints import WIDE, FieldReader, Finish, Readers, finish_whole
from distributary.model import MAX_TOPIC_LEVELS, Event, EventIdentity, EventKey, check_topic, source_in
from distributary.overlay.kinds import NUMBERS, number_of
from distributary.overlay.node import Message
from distributary.overlay.packed_events import Buffer, EventReading, PackedEvents
from distributary.overlay.wire import sent_fields, wide_bytes

VERSION, OLDEST = 1, 1
"""The version of the protocol, of the numbers and fields of all kinds, and the oldest that is understood."""

MAX_BYTES = 16 << 20
"""The longest message that is written or read."""

MAX_EVENT_BYTES = MAX_BYTES - (1 << 20)
"""The longest event: the rest of a message is for what carries it."""

MAX_DEPTH = 16
"""So deep may messages lie in messages whose kinds are not fixed."""

_NAMES = {number: name for name, number in NUMBERS.items()}
_EVENT = NUMBERS["distributary.model.Event"]
_MISSING = object()
_encoder = Encoder()


class CodecError(DistributaryError):
    """Bytes that are no message, or a message that cannot be put in bytes."""


class UnknownKindError(CodecError):
    """A message, or one within it, of a kind that this version of the protocol has not."""


def encode(message: Message) -> bytes:
    """The bytes of a message.

    >>> from distributary.overlay.courier import Ack
    >>> encode(Ack(2.0, 7)).hex()
    '9406cb400000000000000007cb0000000000000000'
    """
    if number_of(type(message)) is None:
        raise CodecError(f"a {type(message).__qualname__} is no message: it has no number in `overlay.kinds`")
    try:
        written = _encoder.encode(_plain(message))
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(f"{type(message).__qualname__} cannot be put in bytes: {error}") from error
    if len(written) > MAX_BYTES:
        raise CodecError(f"{type(message).__qualname__} takes {len(written):,} bytes, above {MAX_BYTES:,}")
    return written


def decode(data: bytes | memoryview) -> Message:
    """The message that bytes hold; CodecError when they hold none.

    >>> from distributary.overlay.courier import Ack
    >>> decode(encode(Ack(2.0, 7)))
    Ack(incarnation=2.0, number=7, tried=0.0)
    >>> decode(bytes([0x92, 0x06, 0xC0]))
    Traceback (most recent call last):
    ...
    distributary.live.codec.CodecError: Ack: Expected `array` of at least length 3, got 2
    """
    if len(data) > MAX_BYTES:
        raise CodecError(f"{len(data):,} bytes are no message: the longest has {MAX_BYTES:,}")
    if not _is_array(data):
        raise CodecError("these bytes are no message: a message is an array")
    return _decode_kind(data, 0)


def require_sendable(*events: Event) -> None:
    """InputError for an event that no message could carry, so that it is refused before any node knows it.

    >>> require_sendable(Event("e1", attributes={"price": 8.4}))
    """
    require_all_sendable(events)


def require_all_sendable(events: Sequence[Event]) -> None:
    """As `require_sendable`."""
    if type(events) is PackedEvents and events.size <= MAX_EVENT_BYTES:
        return
    for event in events:
        written = event.encoded
        if written is None or len(written) > MAX_EVENT_BYTES:
            _require_sendable(event)


def _require_sendable(event: Event) -> None:
    try:
        length = len(_event(event))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"event {quoted(event.id)} cannot be sent to other nodes: {error}; a value is a text, a number, a"
            " boolean or null, or a tuple or mapping of these"
        ) from error
    if length > MAX_EVENT_BYTES:
        raise InputError(f"event {quoted(event.id)} takes {length:,} bytes, above {MAX_EVENT_BYTES:,}")


# Writing.


def _plain(value: Any) -> Any:
    kind = type(value)
    return (_WRITERS.get(kind) or _writer_of(kind))(value)


def _same(value: Any) -> Any:
    return value


def _whole(value: int) -> Any:
    return value if -(1 << 63) <= value < 1 << 64 else Ext(WIDE, wide_bytes(value))


def _array(value: tuple[Any, ...]) -> Any:
    if value and type(value[0]) in _WRITTEN_TOGETHER and len(kinds := set(map(type, value))) == 1:
        return _WRITTEN_TOGETHER[kinds.pop()](value)
    return [_plain(item) for item in value]


def _wholes(value: tuple[int, ...]) -> Any:
    """Whole numbers, which msgspec writes by itself if they are not too large."""
    return value if min(value) >= -(1 << 63) and max(value) < 1 << 64 else list(map(_whole, value))


def _event_array(value: tuple[Event, ...]) -> Any:
    """Events, of which most have their bytes."""
    return [Raw(event.encoded) if event.encoded is not None else _event(event) for event in value]


def _packed(value: PackedEvents) -> Any:
    """Events as they came."""
    return Raw(b"".join((array_header(len(value)), *value.buffers)))


def array_header(length: int) -> bytes:
    """How an array of so many members begins.

    >>> array_header(3).hex(), array_header(200).hex()
    ('93', 'dc00c8')
    """
    if length < 16:
        return bytes([0x90 | length])
    return b"\xdc" + length.to_bytes(2, "big") if length < 1 << 16 else b"\xdd" + length.to_bytes(4, "big")


def _set(value: frozenset[Any]) -> Any:
    return sorted([Raw(_encoder.encode(_plain(item))) for item in value], key=bytes)


def _mapping(value: Mapping[Any, Any]) -> Any:
    return {_plain(key): _plain(item) for key, item in value.items()}


def _event(event: Event) -> Raw:
    """The bytes of an event, which it keeps."""
    written = event.encoded
    if written is None:
        fields = (event.id, event.topic, _plain(event.attributes), event.document)
        written = _encoder.encode((_EVENT, *fields))
        object.__setattr__(event, "encoded", written)
    return Raw(written)


def _writer_of(kind: type) -> Callable[[Any], Any]:
    """Find out how values of a class are written, and remember it."""
    writer: Callable[[Any], Any] | None
    number = number_of(kind)
    if number is not None and issubclass(kind, tuple):
        writer = _named_tuple_writer(number)
    elif number is not None:
        writer = _dataclass_writer(kind, number)
    elif issubclass(kind, Mapping):
        writer = _mapping
    elif hasattr(kind, "_fields") or is_dataclass(kind):
        raise TypeError(f"{kind.__qualname__} has no number in `overlay.kinds`")
    else:
        bases = (base for base in (str, int) if issubclass(kind, base))
        base = next(bases, None)
        if base is None:
            raise TypeError(f"it holds a {kind.__qualname__}")
        writer = base
    _WRITERS[kind] = writer
    return writer


def _named_tuple_writer(number: int) -> Callable[[Any], Any]:
    return lambda value: [number, *map(_plain, value)]


def _dataclass_writer(kind: type, number: int) -> Callable[[Any], Any]:
    names = sent_fields(kind)
    return lambda value: [number, *(_plain(getattr(value, name)) for name in names)]


_WRITERS: dict[type, Callable[[Any], Any]] = {
    str: _same,
    float: _same,
    bool: _same,
    type(None): _same,
    bytes: _same,
    int: _whole,
    tuple: _array,
    frozenset: _set,
    dict: _mapping,
    Event: _event,
    PackedEvents: _packed,
}


_WRITTEN_TOGETHER: dict[type, Callable[[Any], Any]] = {int: _wholes, Event: _event_array}
"""How arrays are written all of whose members are of one class."""


# Reading.


class _KindReader(NamedTuple):
    """How objects of one class are read."""

    name: str
    decoder: Decoder[Any]
    field: FieldReader


_scalars: Decoder[Any] = Decoder(str | int | float | bool | None | Ext)
_by_number: dict[int, _KindReader] = {}
_structs: dict[type, FieldReader] = {}


def _is_array(data: bytes | memoryview) -> bool:
    return bool(len(data)) and (data[0] & 0xF0 == 0x90 or data[0] in (0xDC, 0xDD))


def _number_in(data: bytes | memoryview) -> int:
    """The number of the kind that an array begins with; CodecError when there is none."""
    start = 1 if data[0] & 0xF0 == 0x90 else 3 if data[0] == 0xDC else 5
    head = bytes(data[start : start + 3])
    if data[0] != 0x90 and head:
        if head[0] < 0x80:
            return head[0]
        width = {0xCC: 2, 0xCD: 3}.get(head[0])
        if width is not None and len(head) >= width:
            return int.from_bytes(head[1:width], "big")
    raise CodecError("these bytes are no message: an array that begins with no kind's number")


def _decode_kind(data: bytes | memoryview, depth: int) -> Any:
    number = _number_in(data)
    reader = _by_number.get(number) or _reader_of(number)
    try:
        read = reader.decoder.decode(data)
        assert reader.field.finish is not None
        return reader.field.finish(read, depth)
    except CodecError:
        raise
    except (msgspec.MsgspecError, DistributaryError, RecursionError, UnicodeError) as error:
        raise CodecError(f"{reader.name}: {error}") from error


def _decode_inner(read: Any, depth: int) -> Any:
    """Read what may be any message, or a plain value."""
    if depth >= MAX_DEPTH:
        raise CodecError(f"messages lie more than {MAX_DEPTH} deep in messages")
    data = memoryview(read)
    return _decode_kind(data, depth + 1) if _is_array(data) else finish_whole(_scalars.decode(data))


def _reader_of(number: int) -> _KindReader:
    name = _NAMES.get(number)
    if name is None:
        raise UnknownKindError(f"no kind of message has the number {number}")
    module, _, qualified = name.rpartition(".")
    field = _struct_of(getattr(import_module(module), qualified))
    assert field is not None
    reader = _by_number[number] = _KindReader(qualified, Decoder(field.type), field)
    return reader


def _struct_of(kind: type) -> FieldReader | None:
    """How a class that has a number is read: as a tagged array, which becomes its object."""
    number = number_of(kind)
    if number is None:
        return None
    if kind not in _structs:
        _structs[kind] = FieldReader(Raw, _read_event) if kind is Event else _tagged_array(kind, number)
    return _structs[kind]


def _tagged_array(kind: type, number: int) -> FieldReader:
    hints = get_type_hints(kind)
    names, needed = _field_names(kind)
    readers = [_readers.reader(hints[name]) for name in names]
    read_as: list[Any] = [
        (f"f{place}", reader.type) if place < needed else (f"f{place}", reader.type, _MISSING)
        for place, reader in enumerate(readers)
    ]
    struct = msgspec.defstruct(kind.__name__, read_as, array_like=True, tag=number, frozen=True)
    make = kind if tuple(signature(kind).parameters)[: len(names)] == names else _by_names(kind, names)
    return FieldReader(struct, _finisher(make, [reader.finish for reader in readers]))


# Events, which are read more often than all else.

_usual_event: Decoder[Any] = Decoder(tuple[Literal[1], str, str | None, dict[str, Any], str | None])
_PLAIN_VALUES = frozenset((str, int, float, bool, NoneType))
_new_event, _new_key = object.__new__, tuple.__new__
_set_id, _set_topic, _set_attributes, _set_document, _set_arrival, _set_encoded, _set_key = (
    Event.__dict__[name].__set__
    for name in ("id", "topic", "attributes", "document", "arrival", "encoded", "_key")
)


def _read_event(read: Any, depth: int) -> Event:
    """An event that has the fields of this version is made without the checks that reading has done."""
    data = bytes(read)
    try:
        _, event_id, topic, attributes, document = _usual_event.decode(data)
    except msgspec.ValidationError:
        return _read_unusual_event(data, depth)
    for value in attributes.values():
        if type(value) not in _PLAIN_VALUES:
            return _read_unusual_event(data, depth)
    if topic is not None and (not topic or len(topic) >= MAX_TOPIC_LEVELS):
        check_topic(topic)
    event = _new_event(Event)
    _set_id(event, event_id)
    _set_topic(event, topic)
    _set_attributes(event, attributes)
    _set_document(event, document)
    _set_arrival(event, None)
    _set_encoded(event, data)
    _set_key(event, None if "source" in attributes else _new_key(EventKey, ("", event_id)))
    return event


def _read_unusual_event(data: bytes, depth: int) -> Event:
    """One of another version, or whose attributes hold more than plain values, or none at all."""
    decoder, finish = _unusual_event()
    event: Event = finish(decoder.decode(data), depth)
    _set_encoded(event, data)
    return event


@cache
def _unusual_event() -> tuple[Decoder[Any], Finish]:
    field = _tagged_array(Event, _EVENT)
    assert field.finish is not None
    return Decoder(field.type), field.finish


# Events that come together.

_PlainEvent = tuple[Literal[1], str, str | None, dict[str, str | int | float | bool | None], str | None]
_usual_events: Decoder[Any] = Decoder(list[_PlainEvent])
read_plain_event: Callable[[Buffer], tuple[Any, ...]] = Decoder(_PlainEvent).decode
"""Reads an event that has the fields of this version, and plain values: its number, and its fields."""
_raw_items: Decoder[Any] = Decoder(list[Raw])


def _read_events(read: Any, depth: int) -> Sequence[Event]:
    """Events that all have the fields of this version, and plain values, are packed; others are made."""
    data = memoryview(read)
    try:
        _, ids, topics, attributes, documents = zip(*_usual_events.decode(data), strict=True)
    except (msgspec.ValidationError, ValueError):  # ValueError: there are none
        return tuple([_read_event(item, depth) for item in _raw_items.decode(data)])
    for topic in set(topics):
        if topic is not None and (not topic or len(topic) >= MAX_TOPIC_LEVELS):
            check_topic(topic)
    identities: Sequence[EventIdentity] = ids
    if "source" in set().union(*attributes):
        identities = [
            EventKey(source, id).identity if (source := source_in(given)) else id
            for id, given in zip(ids, attributes, strict=True)
        ]
    header = 1 if data[0] < 0xA0 else 3 if data[0] == 0xDC else 5
    has_documents = documents.count(None) < len(documents)
    return PackedEvents((data[header:],), identities, topics, has_documents, READING)


def _write_event(event: Event) -> bytes:
    """The bytes of an event, as they lie in messages."""
    return bytes(_event(event))


def _split_events(buffers: Sequence[Buffer], count: int) -> list[bytes]:
    """The bytes of each of some events that were packed, and so were checked."""
    return list(map(bytes, _raw_items.decode(b"".join((array_header(count), *buffers)))))


def _make_event(written: bytes) -> Event:
    """An event that was packed."""
    return _read_event(written, 0)


READING = EventReading(_split_events, _make_event, _write_event)
"""How the bytes of events are read."""


def _by_names(kind: type, names: tuple[str, ...]) -> Callable[..., Any]:
    """Makes objects of a class whose own `__init__` has another order than its fields."""
    return lambda *values: kind(**dict(zip(names, values, strict=False)))


def _field_names(kind: Any) -> tuple[tuple[str, ...], int]:
    """The fields of a class that are sent, and how many come before the first that has a default."""
    if issubclass(kind, tuple):
        return kind._fields, len(kind._fields) - len(kind._field_defaults)
    names = sent_fields(kind)
    given = {one.name: one for one in fields(kind)}
    optional = [
        given[name].default is not MISSING or given[name].default_factory is not MISSING for name in names
    ]
    return names, (optional.index(True) if True in optional else len(names))


def _finisher(make: Callable[..., Any], finishes: list[Finish | None]) -> Finish:
    """Makes an object of what was read of its fields; those left out get their defaults."""

    def finish_kind(read: Any, depth: int) -> Any:
        values = astuple(read)
        if values and values[-1] is _MISSING:
            values = values[: next(place for place, value in enumerate(values) if value is _MISSING)]
        pairs = zip(values, finishes, strict=False)
        finished = [value if finish is None else finish(value, depth) for value, finish in pairs]
        try:
            return make(*finished)
        except Exception as error:  # whatever a class says of values that it cannot hold
            raise CodecError(f"{type(read).__name__}: {error}") from error

    return finish_kind


_readers = Readers(_struct_of, _decode_inner, {Sequence[Event]: FieldReader(Raw, _read_events)})

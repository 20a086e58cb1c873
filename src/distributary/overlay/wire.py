"""How many bytes a message takes, as MessagePack writes it.

A message is an array: the number of its kind (`kinds`), then its fields. Events, subscriptions and messages
inside a message are arrays too. Nothing is encoded here, only measured: `live.codec` writes these bytes, and
no other number of them. Lower layers' headers are not counted.

Rules: a message holds plain immutable values (None, booleans, numbers, texts, bytes, tuples, frozen sets,
mappings of texts, NamedTuples, frozen dataclasses). Anything else could not be put on a wire and is an error.

A kind of this package needs its number; one of a user's own, which only a simulator carries, is measured as
if it had a small one. A whole number of more than 64 bits is an extension of MessagePack: its signed bytes.

Cost: about a microsecond for a few fields. What is inside a message (the event that a hundred messages carry)
is measured once and remembered while it is in use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from distributary.errors import DistributaryError
from distributary.model import LOCAL, Event
from distributary.overlay.kinds import PACKAGE, number_of
from distributary.overlay.node import Message
from distributary.overlay.packed_events import PackedEvents

Measure = Callable[[Any], int]

REMEMBERED = 1 << 12
"""So many inner values have their sizes remembered; then the memory starts anew."""

_inner: dict[int, tuple[Any, int]] = {}
"""Sizes of inner values by identity. Each value is kept with its size, so no identity is used twice."""


def size_of(message: Message) -> int:
    """How many bytes a message takes.

    >>> from distributary.overlay.tree.messages import ChildTimeout
    >>> size_of(ChildTimeout(5, 300, 7))    # the array, its kind, and three numbers
    7
    """
    kind = type(message)
    return (_MEASURES.get(kind) or _measure_of(kind))(message)


def event_size(event: Event) -> int:
    """How many bytes an event takes inside a message."""
    written = event.encoded
    return _inner_size(event) if written is None else len(written)


def _measure_of(kind: type) -> Measure:
    """Find out how values of a class are measured, and remember it."""
    measure: Measure | None
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        measure = _named_tuple_measure(kind)
    elif is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        measure = _dataclass_measure(kind)
    elif issubclass(kind, Mapping):
        measure = _mapping
    else:
        measure = next((known for base, known in _PLAIN.items() if issubclass(kind, base)), None)
    if measure is None:
        raise DistributaryError(
            f"a message holds a {kind.__qualname__}, which cannot be put on a wire; use plain immutable"
            " values: numbers, texts, tuples, NamedTuples, frozen dataclasses"
        )
    _MEASURES[kind] = measure
    return measure


def _dataclass_measure(kind: type) -> Measure:
    names = sent_fields(kind)
    header = _kind_header(kind, len(names))

    def measure(value: Any) -> int:
        if kind is Event and value.encoded is not None:
            return len(value.encoded)
        return header + sum(_inner_size(getattr(value, name)) for name in names)

    return measure


def sent_fields(kind: type) -> tuple[str, ...]:
    """The names of a frozen dataclass's fields that go to other nodes: those that its objects are made of."""
    return tuple(field.name for field in fields(kind) if field.init and LOCAL not in field.metadata)


def _named_tuple_measure(kind: Any) -> Measure:
    header = _kind_header(kind, len(kind._fields))

    def measure(value: tuple[Any, ...]) -> int:
        size = header
        for item in value:
            size += _inner_size(item)
        return size

    return measure


def _kind_header(kind: type, length: int) -> int:
    """The bytes that come before the fields of a kind: those of the array, and its number."""
    number = number_of(kind)
    if number is None and kind.__module__.startswith(PACKAGE):
        raise DistributaryError(f"{kind.__qualname__} cannot be put on a wire: give it a number in `kinds`")
    return _length_header(length + 1) + _whole(number or 0)


def _inner_size(value: Any) -> int:
    kind = type(value)
    plain = _PLAIN.get(kind)
    if plain is not None:
        return plain(value)
    known = _inner.get(id(value))
    if known is not None:
        return known[1]
    size = (_MEASURES.get(kind) or _measure_of(kind))(value)
    if len(_inner) >= REMEMBERED:
        _inner.clear()
    _inner[id(value)] = (value, size)
    return size


def _whole(value: int) -> int:
    if -32 <= value < 128:
        return 1
    bits = value.bit_length() if value > 0 else (~value).bit_length() + 1
    if bits <= 32:
        return 2 if bits <= 8 else 3 if bits <= 16 else 5
    return 9 if bits <= 64 else _extension(len(wide_bytes(value)))


def wide_bytes(value: int) -> bytes:
    """A whole number of more than 64 bits as it is written: signed, the highest byte first.

    >>> wide_bytes(-(2**64)).hex()
    'ff0000000000000000'
    """
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _extension(length: int) -> int:
    """The size of an extension of MessagePack with so many bytes, nine or more."""
    return length + (2 if length == 16 else 3 if length < 256 else 4 if length < 65536 else 6)


def _text(value: str) -> int:
    length = len(value) if value.isascii() else len(value.encode())
    return length + (1 if length < 32 else 2 if length < 256 else 3 if length < 65536 else 5)


def _bytes(value: bytes) -> int:
    length = len(value)
    return length + (2 if length < 256 else 3 if length < 65536 else 5)


def _sequence(value: tuple[Any, ...] | frozenset[Any]) -> int:
    return _length_header(len(value)) + sum(map(_inner_size, value))


def _mapping(value: Mapping[Any, Any]) -> int:
    items = sum(_inner_size(key) + _inner_size(item) for key, item in value.items())
    return _length_header(len(value)) + items


def _length_header(length: int) -> int:
    return 1 if length < 16 else 3 if length < 65536 else 5


_PLAIN: dict[type, Measure] = {
    int: _whole,
    str: _text,
    float: lambda value: 9,
    tuple: _sequence,
    bool: lambda value: 1,
    type(None): lambda value: 1,
    bytes: _bytes,
    frozenset: _sequence,
}
_MEASURES: dict[type, Measure] = {
    **_PLAIN,
    PackedEvents: lambda value: _length_header(len(value)) + sum(map(len, value.buffers)),
}

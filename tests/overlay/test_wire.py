"""Sizes of messages: those of MessagePack, written out plainly here."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as some

from distributary.errors import DistributaryError
from distributary.model import LOCAL, Event, Subscription
from distributary.overlay import wire
from distributary.overlay.wire import size_of


class Pair(NamedTuple):
    one: Any
    other: Any


@dataclass(frozen=True)
class Box:
    inside: Any


@dataclass
class Mutable:
    inside: int


def packed(value: Any) -> bytes:
    """MessagePack by its specification; whole numbers beyond 64 bits as an extension."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return packed_integer(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        data = value.encode()
        if len(data) < 32:
            return bytes([0xA0 | len(data)]) + data
        return header(len(data), [(0xD9, ">B"), (0xDA, ">H"), (0xDB, ">I")]) + data
    if isinstance(value, bytes):
        return header(len(value), [(0xC4, ">B"), (0xC5, ">H"), (0xC6, ">I")]) + value
    if isinstance(value, dict):
        items = b"".join(packed(key) + packed(item) for key, item in value.items())
        return small_or(0x80, len(value), [(0xDE, ">H"), (0xDF, ">I")]) + items
    if hasattr(value, "_fields"):
        value = (0, *value)
    elif is_dataclass(value):
        value = (0, *(getattr(value, each.name) for each in fields(value) if LOCAL not in each.metadata))
    return small_or(0x90, len(value), [(0xDC, ">H"), (0xDD, ">I")]) + b"".join(map(packed, value))


def packed_integer(value: int) -> bytes:
    if 0 <= value < 128 or -32 <= value < 0:
        return struct.pack(">b", value)
    for code in "BHIQ" if value > 0 else "bhiq":
        try:
            return b"\xcc" + struct.pack(f">{code}", value)
        except struct.error:
            continue
    data = value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True)
    if len(data) == 16:
        return b"\xd8\x01" + data
    return header(len(data), [(0xC7, ">B"), (0xC8, ">H"), (0xC9, ">I")]) + b"\x01" + data


def small_or(base: int, length: int, larger: list[tuple[int, str]]) -> bytes:
    return bytes([base | length]) if length < 16 else header(length, larger)


def header(length: int, forms: list[tuple[int, str]]) -> bytes:
    for code, form in forms:
        if length < 256 ** struct.calcsize(form):
            return bytes([code]) + struct.pack(form, length)
    raise AssertionError(length)


plain = (
    some.none()
    | some.booleans()
    | some.integers(-(1 << 130), 1 << 160)
    | some.floats()
    | some.text(max_size=40)
    | some.binary(max_size=40)
)
values = some.recursive(
    plain,
    lambda inner: (
        some.lists(inner, max_size=20).map(tuple)
        | some.builds(Pair, inner, inner)
        | some.builds(Box, inner)
        | some.dictionaries(some.text(max_size=5), inner, max_size=4)
    ),
)


@given(values, values)
def test_a_message_is_as_large_as_its_messagepack(one: Any, other: Any) -> None:
    message = Pair(one, Box(other))
    assert size_of(message) == len(packed(message))
    assert size_of(message) == len(packed(message)), "and when asked again"


@pytest.mark.parametrize("bits", [63, 64, 65, 119, 120, 127, 128, 2039, 2040, 600_000])
def test_wide_numbers_are_extensions(bits: int) -> None:
    for value in (1 << bits, (1 << bits) - 1, -(1 << bits), -(1 << bits) - 1):
        assert size_of(Box(value)) == len(packed(Box(value))), value.bit_length()


@pytest.mark.parametrize("length", [0, 31, 32, 255, 256, 65535, 65536])
def test_long_texts_have_longer_headers(length: int) -> None:
    assert size_of(Box("a" * length)) == len(packed(Box("a" * length)))
    assert size_of(Box(b"a" * length)) == len(packed(Box(b"a" * length)))
    assert size_of(Box((1,) * length)) == len(packed(Box((1,) * length)))


def test_events_and_subscriptions_can_be_inside() -> None:
    event = Event("e", topic="A/B", attributes={"price": 8.5}, document="<a/>")
    subscription = Subscription("s", "ann", where="price > 1", change={"price": 0.5})
    assert size_of(Pair(event, subscription)) == len(packed(Pair(event, subscription)))


@pytest.mark.parametrize(
    "value", [[1], {1}, object(), Mutable(1), len], ids=lambda value: type(value).__name__
)
def test_what_cannot_be_put_on_a_wire_is_refused(value: Any) -> None:
    with pytest.raises(DistributaryError, match="cannot be put on a wire"):
        size_of(Pair(1, value))


def test_no_more_than_so_many_values_are_remembered() -> None:
    for number in range(2 * wire.REMEMBERED):
        assert size_of(Pair(number, Box(number % 100))) >= 6
        assert len(wire._inner) <= wire.REMEMBERED

"""Messages as bytes: every kind comes back as it was, in the bytes measured; bad bytes do no harm."""

from __future__ import annotations

import gc
import os
import tracemalloc
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from distributary.live.codec import MAX_BYTES, MAX_DEPTH, CodecError, decode, encode
from distributary.model import Event, EventKey
from distributary.overlay.courier import Ack, Packet
from distributary.overlay.kinds import NUMBERS
from distributary.overlay.replication import Mark, Version
from distributary.overlay.tree.messages import ForwardedEvents, ParentRequest
from distributary.overlay.wire import size_of
from live.random_messages import ALL_KINDS, messages
from properties.examples import examples
from replay import replayed_by

EVENT = Event(
    "e1", "quotes/OTE", {"source": "ann", "price": 8.5, "wide": 1 << 70, "tags": ("a", {"b": None})}
)


@pytest.mark.parametrize("name", ALL_KINDS)
def test_a_message_comes_back_as_it_was_and_takes_the_bytes_measured(name: str) -> None:
    @settings(max_examples=examples(12), deadline=None)
    @given(messages(name))
    def check(message: Any) -> None:
        written = encode(message)
        assert len(written) == size_of(message)
        read = decode(written)
        assert type(read) is type(message)
        assert read == message
        assert encode(read) == written, "whole numbers are no doubles, though they are equal"

    check()


def test_numbers_of_kinds_are_given_once() -> None:
    assert len(set(NUMBERS.values())) == len(NUMBERS)
    assert all(0 < number < 65_536 for number in NUMBERS.values())


@pytest.mark.parametrize(
    ("message", "written"),
    [
        (Ack(2.0, 7, 0.5), "9406cb400000000000000007cb3fe0000000000000"),
        (
            ForwardedEvents(3, 1.0, 4, (5,), (Event("e1", "A/B", {"price": 8}, None),)),
            "96cd015403cb3ff000000000000004910591" + "9501a26531a3412f4281a5707269636508c0",
        ),
        (
            Packet(0.0, 1, 1, EventKey("ann", "e1"), 0.0),
            "9605cb000000000000000001019302a3616e6ea26531cb0000000000000000",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_bytes_stay_what_they_were_for_nodes_of_earlier_versions(message: Any, written: str) -> None:
    assert encode(message).hex() == written
    assert decode(bytes.fromhex(written)) == message


def test_fields_that_have_defaults_may_be_left_out_and_unknown_ones_are_ignored() -> None:
    number = NUMBERS["distributary.overlay.tree.messages.ParentRequest"]
    short = msgspec.msgpack.encode([number, 1, 2, None, None, None])
    assert decode(short) == ParentRequest(1, 2, None, None, None)
    later = msgspec.msgpack.encode([number, 1, 2, None, None, None, [4], 0, 0, 0, "of a later version", {}])
    assert decode(later) == ParentRequest(1, 2, None, None, None, (4,))


def test_an_event_carried_by_many_messages_is_the_same_in_each() -> None:
    first, second = (decode(encode(ForwardedEvents(link, 0.0, 0, (1,), (EVENT,)))) for link in (1, 2))
    assert first.events == second.events == (EVENT,)


def test_an_event_that_was_read_keeps_its_bytes_and_is_sent_on_as_these() -> None:
    event = Event("e1", "quotes/A", {"price": 8.4, "source": "hall"}, "<a/>")
    read = decode(encode(event))
    assert read == event
    assert read.encoded == encode(event) == encode(read)


def test_sets_are_written_in_one_order() -> None:
    names = [EventKey("ann", f"e{number}") for number in range(40)]
    mixed = Random(1).sample(names, len(names))
    kind = "distributary.systems.state_aware.mfd.LevelValue"

    @settings(max_examples=1, database=None, derandomize=True)
    @given(messages(kind))
    def check(message: Any) -> None:
        one, other = (message._replace(passed=frozenset(order)) for order in (names, mixed))
        assert encode(one) == encode(other)

    check()


MOST_TIMES, MOST_BESIDE = 16, 256 << 10
"""Bytes of memory that reading may take: so many for each byte, and so many besides."""
HOSTILE = {
    "nothing": b"",
    "no array": b"\xc0",
    "an empty array": b"\x90",
    "no number": b"\x91\xa1a",
    "an unknown kind": b"\x91\xcd\xff\xff",
    "an array that claims four thousand million": b"\xdd\xff\xff\xff\xff\x06",
    "a field that claims as many": b"\x94\x06\xdd\xff\xff\xff\xff",
    "a text that claims as much": b"\x93\x02\xdb\xff\xff\xff\xffa",
    "arrays in arrays": b"\x91" * 100_000,
    "packets in packets": b"\x96\x05\x00\x01\x01" * (MAX_DEPTH + 1)
    + encode(Ack(0.0, 1))
    + b"\x00" * (MAX_DEPTH + 1),
    "an attribute of arrays in arrays": b"\x95\x01\xa1e\xc0\x81\xa1a" + b"\x91" * 100_000,
    "a text that is no UTF-8": b"\x93\x02\xa1\xff\xa1e",
    "a number where a text belongs": b"\x93\x02\x01\xa1e",
    "true where a number belongs": b"\x94\x06\xcb" + b"\0" * 8 + b"\xc3\x00",
    "a key that is no text": b"\x95\x01\xa1e\xc0\x81\xa1a\x81\x01\x01\xc0",
    "bytes in an attribute": b"\x95\x01\xa1e\xc0\x81\xa1a\xc4\x01\x00\xc0",
    "an extension of another kind": b"\x94\x06\x00\xc7\x09\x02" + b"\1" * 9 + b"\x00",
    "a whole number of too many bytes": b"\x94\x06\x00\xc8\xff\xff\x01" + b"\1" * 65_535 + b"\x00",
    "a condition that cannot be understood": b"\x98\x03\xa1s\xa3ann\xc0\xa7price >\xc0\xc0\x80",
    "something behind the message": encode(Ack(0.0, 1)) + b"\x00",
    "more than the longest": b"\x91" + b"\x00" * MAX_BYTES,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode(data)


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_refusing_takes_no_more_memory_than_some_times_the_bytes(data: bytes) -> None:
    gc.collect()
    tracemalloc.start()
    try:
        with suppress(CodecError):
            decode(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= MOST_TIMES * len(data) + MOST_BESIDE


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(Packet(0.0, 1, 1, ["a list"]), id="a list"),
        pytest.param(Packet(0.0, 1, 1, object()), id="an object"),
        pytest.param(Packet(0.0, 1, 1, "\ud800"), id="half of a pair of surrogates"),
        pytest.param(Packet(0.0, 1, 1, "a" * MAX_BYTES), id="too long"),
        pytest.param(7, id="no message"),
    ],
)
def test_what_cannot_be_put_in_bytes_is_refused(message: Any) -> None:
    with pytest.raises(CodecError):
        encode(message)


@given(some.binary(max_size=200))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    try_to_read(data)


def try_to_read(data: bytes) -> bool:
    """Whether bytes could be read; what was read can be written again."""
    try:
        read = decode(data)
    except CodecError:
        return False
    encode(read)
    repr(read)  # events that came packed are made now
    return True


def corpus() -> list[bytes]:
    """A message of every kind, in bytes."""
    found: list[bytes] = []
    for name in ALL_KINDS:

        @settings(max_examples=4, database=None, derandomize=True, deadline=None)
        @given(messages(name))
        def collect(message: Any) -> None:
            found.append(encode(message))

        collect()
    return found


def damaged(data: bytes, random: Random, others: list[bytes]) -> bytes:
    """Bytes that were a message: some changed, cut out, put in, or taken from another message."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        place = random.randrange(len(changed) + 1)
        match random.randrange(5):
            case 0 if place < len(changed):
                changed[place] = random.randrange(256)
            case 1 if place < len(changed):
                changed[place] ^= 1 << random.randrange(8)
            case 2:
                del changed[place : place + random.randrange(1, 9)]
            case 3:
                changed[place:place] = random.randbytes(random.randrange(1, 5))
            case _:
                other = random.choice(others)
                start = random.randrange(len(other))
                changed[place : place + random.randrange(9)] = other[start : start + random.randrange(20)]
    return bytes(changed)


def damage_many(count: int, seed: int) -> tuple[int, int]:
    """Read so many damaged messages; how many could be read after all, and how many were refused."""
    random, found = Random(seed), corpus()
    read = sum(try_to_read(damaged(random.choice(found), random, found)) for _ in range(count))
    return read, count - read


def test_damaged_messages_are_refused_or_read() -> None:
    read, refused = damage_many(20_000, seed=1)
    assert read > 1_000, "what is damaged a little is often a message still"
    assert refused > 5_000


@pytest.mark.chaos
def test_a_million_damaged_messages_are_refused_or_read() -> None:
    seed = int(os.environ.get("DISTRIBUTARY_SEED", "1"))
    with replayed_by(f"make chaos SEED={seed}"):
        read, refused = damage_many(1_000_000, seed)
    assert read > 50_000
    assert refused > 250_000


def test_a_name_may_be_any_kind_or_a_plain_value() -> None:
    for name in (EventKey("ann", "e"), "text", 7, 1 << 90, None, True):
        assert decode(encode(Mark(1, name, Version(0.0, 1)))) == Mark(1, name, Version(0.0, 1))

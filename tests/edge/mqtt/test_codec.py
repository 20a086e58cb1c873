"""Packets and bytes: what is written is read again, by another codec too, and nothing else is a packet."""

from __future__ import annotations

from itertools import pairwise

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.edge.mqtt.codec import read_packet, write_packet
from distributary.edge.mqtt.fields import PacketReader, variable_integer
from distributary.edge.mqtt.frames import PacketStream
from distributary.edge.mqtt.packets import (
    VERSION_3,
    VERSION_5,
    ConnectPacket,
    MqttError,
    MqttPacket,
    PublishPacket,
    ReasonCode,
    SubscribePacket,
)
from edge.mqtt.packets import connects, packets, plain_publishes, publishes, subscribes, versions


def body_of(written: bytes) -> tuple[int, bytes]:
    reader = PacketReader(written, 1)
    length = reader.variable_integer()
    body = reader.rest()
    assert len(body) == length
    return written[0], body


def read_slowly(data: bytes, version: int, limit: int) -> tuple[list[MqttPacket], ReasonCode | None, bytes]:
    """The oracle of `PacketStream`: one packet after the other by the codec alone."""
    found: list[MqttPacket] = []
    at = 0
    while True:
        length = shift = 0
        place = at + 1
        while True:
            if place >= len(data):
                return found, None, data[at:]
            byte = data[place]
            length |= (byte & 127) << shift
            shift += 7
            place += 1
            if byte < 128:
                break
            if shift > 21:
                return found, ReasonCode.BAD_PACKET, b""
        if place > at + 2 and not data[place - 1]:
            return found, ReasonCode.BAD_PACKET, b""
        if length > limit:
            return found, ReasonCode.PACKET_TOO_LARGE, b""
        if place + length > len(data):
            return found, None, data[at:]
        try:
            packet = read_packet(data[at], data[place : place + length], version)
        except MqttError as error:
            return found, error.reason, b""
        found.append(packet)
        if isinstance(packet, ConnectPacket):
            version = packet.version
        at = place + length


@given(st.data(), versions)
def test_what_is_written_is_read_again(data: st.DataObject, version: int) -> None:
    packet = data.draw(packets(version))
    first, body = body_of(write_packet(packet, version))
    assert read_packet(first, body, version) == packet


def fed(stream: PacketStream, data: bytes, cuts: list[int]) -> list[MqttPacket]:
    found = []
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        found += stream.feed(data[start:end])
    return found


cuttings = st.lists(st.integers(0, 10_000), max_size=6)


@given(st.data(), versions, cuttings)
def test_a_stream_cut_anywhere_is_read_as_by_the_codec(
    data: st.DataObject, version: int, cuts: list[int]
) -> None:
    sent = data.draw(st.lists(plain_publishes(version) | packets(version), max_size=8))
    written = b"".join(write_packet(packet, version) for packet in sent)
    stream = PacketStream(1_000)
    stream.version = version
    expected, reason, rest = read_slowly(written, version, 1_000)
    assert fed(stream, written, cuts) == expected
    assert (None if stream.error is None else stream.error.reason, len(stream.rest)) == (reason, len(rest))


@given(st.data(), versions, cuttings)
def test_a_damaged_stream_is_read_as_by_the_codec_and_raises_nothing(
    data: st.DataObject, version: int, cuts: list[int]
) -> None:
    sent = data.draw(st.lists(plain_publishes(version) | packets(version), min_size=1, max_size=8))
    damaged = bytearray(b"".join(write_packet(packet, version) for packet in sent))
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4)
    ):
        damaged[place % len(damaged)] = value
    written = bytes(damaged) + data.draw(st.binary(max_size=10))
    stream = PacketStream(1_000)
    stream.version = version
    expected, reason, rest = read_slowly(written, version, 1_000)
    assert fed(stream, written, cuts) == expected
    assert (None if stream.error is None else stream.error.reason, len(stream.rest)) == (reason, len(rest))


@given(st.binary(max_size=60), versions)
def test_hostile_bytes_are_a_packet_or_an_error_of_the_protocol(body: bytes, version: int) -> None:
    for first in range(256):
        try:
            packet = read_packet(first, body, version)
        except MqttError:
            continue
        again, rest = body_of(write_packet(packet, getattr(packet, "version", version)))
        assert read_packet(again, rest, version) == packet


def test_a_packet_above_the_limit_is_refused_before_it_is_gathered() -> None:
    stream = PacketStream(100)
    assert stream.feed(b"\x30" + variable_integer(101)) == []
    assert stream.error is not None
    assert (stream.error.reason, stream.rest) == (ReasonCode.PACKET_TOO_LARGE, b"")
    assert stream.feed(b"x" * 1_000) == []
    assert stream.rest == b""


# Another codec, of version 5: it does not check all that ours does, so it is given what is right.


@given(publishes(VERSION_5))
def test_another_codec_reads_our_messages(packet: PublishPacket) -> None:
    read, size = mqtt5.read(memoryview(written := write_packet(packet, VERSION_5)))
    assert size == len(written)
    assert isinstance(read, mqtt5.PublishPacket)
    properties = packet.properties
    assert (read.topic, read.payload, read.qos, read.retain) == packet[:4]
    assert (read.packet_id or 0, read.duplicate) == (packet.packet_id, packet.duplicate)
    assert read.user_properties == list(properties.get("user_property", ()))
    assert read.subscription_ids == list(properties.get("subscription_identifier", ()))
    for name in (
        "message_expiry_interval",
        "content_type",
        "response_topic",
        "correlation_data",
        "topic_alias",
    ):
        assert getattr(read, name) == properties.get(name)


@given(publishes(VERSION_5))
def test_another_codec_s_messages_are_read(packet: PublishPacket) -> None:
    given = dict(packet.properties)
    made = mqtt5.PublishPacket(
        packet.topic,
        packet.payload,
        qos=mqtt5.QoS(packet.qos),
        retain=packet.retain,
        packet_id=packet.packet_id or None,
        duplicate=packet.duplicate,
        user_properties=list(given.pop("user_property", ())),
        subscription_ids=list(given.pop("subscription_identifier", ())),
        **given,
    )
    first, body = body_of(made.write())
    read = read_packet(first, body, VERSION_5)
    assert isinstance(read, PublishPacket)
    unsaid = {"payload_format_indicator": 0}  # Which says the same as nothing.
    assert {**unsaid, **read.properties} == {**unsaid, **packet.properties}
    assert read._replace(properties={}) == packet._replace(properties={})


@given(connects(VERSION_5))
def test_another_codec_reads_our_connect(packet: ConnectPacket) -> None:
    read, _ = mqtt5.read(memoryview(write_packet(packet, VERSION_5)))
    assert isinstance(read, mqtt5.ConnectPacket)
    assert (read.client_id, read.clean_start, read.keep_alive) == (
        packet.client,
        packet.clean,
        packet.keep_alive,
    )
    assert (read.username, read.password) == (packet.user, packet.password)
    assert read.session_expiry_interval == packet.properties.get("session_expiry_interval", 0)
    assert (read.will is None) == (packet.will is None)
    if read.will is not None and packet.will is not None:
        assert (read.will.topic, read.will.payload or b"", read.will.qos) == packet.will[:3]
        assert read.will.will_delay_interval == packet.will.properties.get("will_delay_interval", 0)


@given(subscribes(VERSION_5))
def test_another_codec_reads_our_subscribe(packet: SubscribePacket) -> None:
    try:
        read, _ = mqtt5.read(memoryview(write_packet(packet, VERSION_5)))
    except ValueError:
        return  # It refuses filters that are none, which is not the codec's business here.
    assert isinstance(read, mqtt5.SubscribePacket)
    asked = [
        (each.pattern, each.max_qos, each.no_local, each.retain_as_published, each.retain_handling)
        for each in read.topic_filters
    ]
    assert asked == list(packet.filters)
    assert read.subscription_id == packet.properties.get("subscription_identifier")


# What must be refused, by the number of the statement in the specification of version 5.

REFUSED = {
    "[MQTT-1.5.4-1] text with half a surrogate pair": ("30050003eda080", 5, 0x81),
    "[MQTT-1.5.4-2] U+0000 in a text": ("3004000200610000", 5, 0x81),
    "[MQTT-1.5.5-1] a length longer than need be": ("30830000006100", 5, 0x81),
    "[MQTT-1.5.7-1] U+0000 in the value of a pair": ("300b0001610726000162000100", 5, 0x81),
    "[MQTT-2.1.3-1] reserved flags": ("c100", 5, 0x81),
    "no identifier at QoS 1": ("320500016100ff", 5, 0x81),
    "[MQTT-2.2.1-3] an identifier of 0": ("32060001610000 00", 5, 0x81),
    "a second property of a kind": ("3008000161040101 0100", 5, 0x82),
    "[MQTT-3.1.2-3] reserved flag of CONNECT": ("100d00044d5154540501000000000000", 5, 0x81),
    "[MQTT-3.1.2-1] another protocol": ("100d00044d5154580502000000000000", 5, 0x84),
    "[MQTT-3.1.2-2] another version": ("100d00044d5154540602000000000000", 5, 0x84),
    "[MQTT-3.1.2-11] QoS of no will": ("100d00044d515454051a000000000000", 5, 0x81),
    "[MQTT-3.1.2-12] will of QoS 3": ("100d00044d515454051e000000000000", 5, 0x81),
    "password without user in 3.1.1": ("100e00044d5154540442000000000000", 4, 0x81),
    "[MQTT-3.3.1-2] duplicate at QoS 0": ("380400016100", 5, 0x81),
    "[MQTT-3.3.1-4] QoS 3": ("36070001610001 00 00", 5, 0x81),
    "[MQTT-3.3.2-2] wildcards in a topic": ("30050002612b00", 5, 0x90),
    "[MQTT-3.3.2-8] topic alias of 0": ("30070001610323 0000", 5, 0x94),
    "[MQTT-3.3.2-14] wildcards in a response topic": ("3009000161050800022b61", 5, 0x90),
    "[MQTT-3.8.1-1] flags of SUBSCRIBE": ("8007000100000161 00", 5, 0x81),
    "[MQTT-3.8.3-2] SUBSCRIBE of nothing": ("8203000100", 5, 0x82),
    "[MQTT-3.8.3-5] reserved options": ("8207000100000161 40", 5, 0x81),
    "[MQTT-3.10.1-1] flags of UNSUBSCRIBE": ("a006000100000161", 5, 0x81),
    "[MQTT-3.10.3-2] UNSUBSCRIBE of nothing": ("a203000100", 5, 0x82),
    "[MQTT-3.6.1-1] flags of PUBREL": ("60020001", 5, 0x81),
    "[MQTT-3.14.1-1] flags of DISCONNECT": ("e100", 5, 0x81),
    "a topic longer than its packet, which is all that has come": ("3003010161", 4, 0x81),
    "a kind that there is not": ("0000", 5, 0x81),
    "AUTH in 3.1.1": ("f000", 4, 0x81),
    "options of version 5 in 3.1.1": ("8206000100016104", 4, 0x81),
    "a code that PUBACK has not": ("400400010100", 5, 0x81),
    "a property of another packet": ("40060001000221000a", 5, 0x81),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_specification_forbids_is_refused(name: str) -> None:
    text, version, reason = REFUSED[name]
    stream = PacketStream(1_000)
    stream.version = version
    assert stream.feed(bytes.fromhex(text)) == []
    assert stream.error is not None
    assert stream.error.reason == reason, str(stream.error)


def test_versions_are_those_of_the_specification() -> None:
    assert (VERSION_3, VERSION_5) == (4, 5)

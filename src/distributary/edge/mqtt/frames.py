"""Cuts the bytes of a connection into packets: those that are many, PUBLISH and acknowledgements, at once.

Rules:

- A packet longer than the limit is refused when its length is known, before it is gathered. So a connection
  holds at most one packet and what came with it.
- What is plain is read here: PUBLISH without properties, PUBACK, PUBREC, PUBREL and PUBCOMP of two bytes. All
  else, and whatever looks wrong, goes to `codec`, so both agree on every byte; a property test holds them
  against each other.
- After an error nothing more is read; what came before it is given out first.

Cost: about a microsecond a plain packet. Topics that came before are not decoded and checked again.
"""

from __future__ import annotations

from distributary.edge.mqtt.codec import read_packet
from distributary.edge.mqtt.packets import (
    VERSION_3,
    VERSION_5,
    AckPacket,
    ConnectPacket,
    MqttError,
    MqttPacket,
    PacketKind,
    PublishPacket,
    ReasonCode,
    bad_packet,
)

MOST_TOPICS = 1_000
"""Topics that a connection remembers."""
_PLAIN_ACKS = {
    0x40: PacketKind.PUBACK,
    0x50: PacketKind.PUBREC,
    0x62: PacketKind.PUBREL,
    0x70: PacketKind.PUBCOMP,
}
_PLAIN_PUBLISH = frozenset((0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x3A, 0x3B, 0x3C, 0x3D))


class PacketStream:
    """Reads packets from bytes as they come.

    >>> stream = PacketStream(limit=100)
    >>> stream.feed(bytes.fromhex("40020007 4002"))
    [AckPacket(kind=<PacketKind.PUBACK: 4>, packet_id=7, reason=0, properties=mappingproxy({}))]
    >>> stream.feed(bytes.fromhex("ffff30ff7f")), str(stream.error)  # one more, and one that is too long
    ([AckPacket(kind=<PacketKind.PUBACK: 4>, packet_id=65535, reason=0, properties=mappingproxy({}))], \
'a packet of 16,383 bytes, where 100 are allowed')
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """Bytes that a packet may have, without its first byte and its length."""
        self.version = VERSION_3
        """Of the connection, once it is known."""
        self.error: MqttError | None = None
        """What was wrong; nothing is read any more then."""
        self._rest = b""
        self._topics: dict[bytes, str] = {}

    @property
    def held(self) -> int:
        """How many bytes wait for the rest of their packet."""
        return len(self._rest)

    def feed(self, data: bytes, most: int | None = None) -> list[MqttPacket]:
        """The packets that are whole with these bytes, at most so many; the rest waits for the next call."""
        packets: list[MqttPacket] = []
        if self.error is not None:
            return packets
        data = self._rest + data if self._rest else data
        at = 0
        try:
            at = self._read(data, packets, most)
        except MqttError as error:
            self.error = error
            self._rest = b""
            return packets
        self._rest = data[at:] if at else data
        return packets

    def _read(self, data: bytes, packets: list[MqttPacket], most: int | None) -> int:
        """Read whole packets; gives where the first one begins that is not whole."""
        at, end, five = 0, len(data), self.version == VERSION_5
        topics, append = self._topics, packets.append
        while end - at >= 2 and (most is None or len(packets) < most):
            first, length, start = data[at], data[at + 1], at + 2
            if length > 127:
                found = _long_length(data, at + 1, end)
                if found is None:
                    break
                length, start = found
            if length > self.limit:
                raise MqttError(
                    ReasonCode.PACKET_TOO_LARGE,
                    f"a packet of {length:,} bytes, where {self.limit:,} are allowed",
                )
            stop = start + length
            if stop > end:
                break
            at = stop
            if first in _PLAIN_PUBLISH and length > 3:
                body = start + 2 + (data[start] << 8 | data[start + 1])
                topic = topics.get(data[start + 2 : body])
                if topic is not None:
                    packet = _plain_publish(data, first, topic, body, stop, five)
                    if packet is not None:
                        append(packet)
                        continue
            elif length == 2 and first in _PLAIN_ACKS and (packet_id := data[start] << 8 | data[start + 1]):
                append(AckPacket(_PLAIN_ACKS[first], packet_id))
                continue
            read = read_packet(first, data[start:stop], self.version)
            append(read)
            if type(read) is PublishPacket and read.topic and len(topics) < MOST_TOPICS:
                topics[read.topic.encode()] = read.topic
            elif type(read) is ConnectPacket:  # It settles the version of all that follows it.
                self.version = read.version
                five = self.version == VERSION_5
        return at


def _plain_publish(
    data: bytes, first: int, topic: str, body: int, stop: int, five: bool
) -> PublishPacket | None:
    """A PUBLISH whose topic is known, if it has no properties; None for one to be read by `codec`."""
    qos, packet_id = first >> 1 & 3, 0
    if qos:
        if body + 2 > stop:
            return None
        packet_id = data[body] << 8 | data[body + 1]
        if not packet_id:
            return None
        body += 2
    if five:
        if body >= stop or data[body]:
            return None
        body += 1
    if body > stop:
        return None
    return PublishPacket(topic, data[body:stop], qos, bool(first & 1), packet_id, first & 8 != 0)


def _long_length(data: bytes, at: int, end: int) -> tuple[int, int] | None:
    """A length of two to four bytes, and where the body begins; None while it is not whole."""
    number = 0
    for place in range(4):
        if at + place >= end:
            return None
        byte = data[at + place]
        number |= (byte & 127) << 7 * place
        if byte < 128:
            if not byte:
                raise bad_packet("a length is longer than it must be")
            return number, at + place + 1
    raise bad_packet("a length of more than four bytes")

"""Cuts the bytes of a connection into packets: those that are many, PUBLISH and acknowledgements, at once.

Rules:

- A packet longer than the limit is refused when its length is known, before it is gathered. So a connection
  holds at most one packet and what came with it.
- What is plain is read here: PUBLISH without properties, PUBACK, PUBREC, PUBREL and PUBCOMP of two bytes. All
  else, and whatever looks wrong, goes to `codec`, so both agree on every byte; a property test holds them
  against each other.
- Plain packets that are alike and lie one behind the other are one run: a `MessageRun` of PUBLISH packets, an
  `AckRun` of acknowledgements.
- After an error nothing more is read; what came before it is given out first.

Cost: some 0.4 microseconds a plain message, 0.1 an acknowledgement. Topics that came before are not decoded
and checked again.
"""

from __future__ import annotations

from struct import unpack_from
from typing import NamedTuple

from distributary.edge.mqtt.codec import read_packet
from distributary.edge.mqtt.message_run import MessageRun
from distributary.edge.mqtt.packets import (
    VERSION_3,
    VERSION_5,
    AckPacket,
    ConnectPacket,
    MqttError,
    MqttPacket,
    PacketKind,
    ReasonCode,
    bad_packet,
)
from distributary.model import topic_fault

MOST_TOPICS = 1_000
"""Topics that a connection remembers."""
_PLAIN_ACKS = {
    0x40: PacketKind.PUBACK,
    0x50: PacketKind.PUBREC,
    0x62: PacketKind.PUBREL,
    0x70: PacketKind.PUBCOMP,
}
_PLAIN_PUBLISH = frozenset((0x30, 0x31, 0x32, 0x33, 0x34, 0x35))
_LESS = ord("<")
MAY_BEGIN_DOCUMENT = frozenset(b"< \t\r\n")
"""Bytes with which an XML document may begin."""
_AFTER_LESS = frozenset(b"?!_:") | frozenset(range(ord("A"), ord("Z") + 1)) | frozenset(range(97, 123))
_MAY_BE_DOCUMENT = _AFTER_LESS | frozenset(range(0x80, 0x100))
"""Bytes that stand behind `<` where a payload may be an XML document."""


class AckRun(NamedTuple):
    """Acknowledgements of one kind, without reasons."""

    kind: PacketKind
    packet_ids: tuple[int, ...]

    def packets(self) -> list[AckPacket]:
        """The packets, one by one."""
        return [AckPacket(self.kind, packet_id) for packet_id in self.packet_ids]


CutPacket = MqttPacket | MessageRun | AckRun


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
        self.rest = b""
        """What waits for the rest of its packet."""
        self._topics: dict[bytes, str] = {}
        """By a topic's bytes with their length before them, those that came before and events may have."""

    def feed(self, data: bytes, most: int | None = None) -> list[MqttPacket]:
        """The packets that are whole with these bytes, at most so many; the rest waits for the next call."""
        packets: list[MqttPacket] = []
        for cut in self.cut(data, most):
            if isinstance(cut, MessageRun | AckRun):
                packets += cut.packets()
            else:
                packets.append(cut)
        return packets

    def cut(self, data: bytes, most: int | None = None) -> list[CutPacket]:
        """As `feed`, with runs of those that are plain."""
        cuts: list[CutPacket] = []
        if self.error is not None:
            return cuts
        data = self.rest + data if self.rest else data
        try:
            at = self._read(data, cuts, most)
        except MqttError as error:
            self.error = error
            self.rest = b""
            return cuts
        self.rest = data[at:] if at else data
        return cuts

    def _read(self, data: bytes, cuts: list[CutPacket], most: int | None) -> int:
        """Read whole packets; gives where the first one begins that is not whole."""
        at, end = 0, len(data)
        while end - at >= 2 and (most is None or len(cuts) < most):
            first = data[at]
            if most is None:
                if first in _PLAIN_PUBLISH:
                    after = self._read_messages(data, at, end, cuts)
                elif first in _PLAIN_ACKS:
                    after = _read_acks(data, at, end, cuts)
                else:
                    after = at
                if after > at:
                    at = after
                    continue
            length, start = data[at + 1], at + 2
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
            read = read_packet(first, data[start:stop], self.version)
            cuts.append(read)
            if type(read) is ConnectPacket:  # It settles the version of all that follows it.
                self.version = read.version
        return at

    def topic(self, head: bytes) -> str | None:
        """A topic by its bytes, with their length before them; None for one that no message or event has."""
        topic = self._topics.get(head)
        if topic is None:
            try:
                topic = str(head[2:], "utf-8")
            except UnicodeDecodeError:
                return None
            if "\0" in topic or "+" in topic or "#" in topic or topic_fault(topic) is not None:
                return None
            if len(self._topics) < MOST_TOPICS:
                self._topics[head] = topic
        return topic

    def _read_messages(self, data: bytes, at: int, end: int, cuts: list[CutPacket]) -> int:
        """Read plain messages that are like the first one; gives where the next packet begins.

        A message is not plain that is not whole, or too long, or without a topic or an identifier that is
        one, or with properties, or that may be an XML document.
        """
        first, five, limit, known = data[at], self.version == VERSION_5, self.limit, self._topics
        before_body = (2 if first & 6 else 0) + five
        edges, bodies, topics, ids = list[int](), list[int](), list[str](), list[int]()
        prefix, header, total = b"", 0, 0
        """Of the message before: its bytes up to its topic's end, where its payload began, and its length."""
        topic: str | None = None
        while True:
            if prefix and data.startswith(prefix, at) and at + total <= end:
                body, stop = at + header, at + total
            else:
                if end - at < 4 or data[at] != first:
                    break
                length, start = data[at + 1], at + 2
                if length > 127:
                    second = data[at + 2]
                    if 0 < second < 128:
                        length, start = length & 127 | second << 7, at + 3
                    else:
                        found = _long_length(data, at + 1, end)
                        if found is None:
                            break
                        length, start = found
                stop = start + length
                if stop > end or length > limit:
                    break
                named = start + 2 + (data[start] << 8 | data[start + 1])
                body = named + before_body
                if body > stop:
                    break
                head = data[start:named]
                topic = known.get(head) or self.topic(head)
                if topic is None:
                    break
                prefix, header, total = data[at:named], body - at, stop - at
            if five and data[body - 1]:
                break
            if body < stop and data[body] in MAY_BEGIN_DOCUMENT and may_be_document(data, body, stop):
                break
            if first & 6:
                packet_id = data[body - before_body] << 8 | data[body - before_body + 1]
                if not packet_id:
                    break
                ids.append(packet_id)
            edges.append(at)
            bodies.append(body)
            topics.append(topic)  # type: ignore[arg-type]
            at = stop
        if bodies:
            cuts.append(MessageRun(self.version, first, data, edges, bodies, topics, ids).end(at))
        return at


def may_be_document(data: bytes, body: int, stop: int) -> bool:
    """Whether a payload that begins suspiciously may be an XML document, by its first two bytes."""
    return data[body] != _LESS or (body + 1 < stop and data[body + 1] in _MAY_BE_DOCUMENT)


def _read_acks(data: bytes, at: int, end: int, cuts: list[CutPacket]) -> int:
    """Read plain acknowledgements that are of the kind of the first; gives where the next packet begins."""
    most, first = (end - at) // 4, data[at]
    stop = at + 4 * most
    kinds, lengths = data[at:stop:4], data[at + 1 : stop : 4]
    count = min(
        most - len(kinds.lstrip(bytes((first,)))),
        most - len(lengths.lstrip(b"\2")),
    )
    packet_ids = unpack_from(f">{2 * count}H", data, at)[1::2]
    if 0 in packet_ids:
        count = packet_ids.index(0)
        packet_ids = packet_ids[:count]
    if count:
        cuts.append(AckRun(_PLAIN_ACKS[first], packet_ids))
    return at + 4 * count


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

"""`MessageRun`: messages that came one behind the other and are alike, in the bytes that they came in.

A broker that passes messages on needs their bytes, their topics, and where a packet identifier stands. So a
run of plain PUBLISH packets is read once (`frames`), published as one (`PackedEvents`, whose origin it is),
and written once for all subscribers that get it alike.

Rules:

- All packets of a run have the same first byte: QoS, retained or not, and never a duplicate. None has
  properties, none is an XML document. What their events are is what `event_of_message` says of each alone.
- A run that goes to a client of the version that it came in, at the QoS that it came with, is the same bytes
  but for the packet identifiers. Otherwise it is written anew, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from distributary.edge.mqtt.fields import text_bytes, variable_integer
from distributary.edge.mqtt.messages import QOS, RETAIN, event_of_message
from distributary.edge.mqtt.packets import VERSION_5, PublishPacket
from distributary.model import Event, EventIdentity, Value, key_of
from distributary.overlay.packed_events import EventOrigin

PACKET_IDS = 65_535
OVERHEAD = 40
"""Bytes of an event beside those of its message, about."""
GIVEN = frozenset(("mqtt", "payload", "source", "id", "topic", "document"))
"""Attributes that an event of a message has, or may have, whatever its payload is; and those below them."""
_two_bytes: list[bytes] = []
"""The numbers from 1 on as packet identifiers are written, twice over; made when the first is needed."""


def identifiers(first: int, count: int) -> list[bytes]:
    """So many packet identifiers in their order, not all, as they are written: 1 comes after the last.

    >>> [each.hex() for each in identifiers(65_535, 2)]
    ['ffff', '0001']
    """
    if not _two_bytes:
        _two_bytes.extend(number.to_bytes(2, "big") for number in range(1, PACKET_IDS + 1))
        _two_bytes.extend(_two_bytes[:])
    return _two_bytes[first - 1 : first - 1 + count]


class MessageRun:
    """Some messages, at least one."""

    __slots__ = ("bodies", "data", "edges", "first", "packet_ids", "size", "topics", "version")

    def __init__(
        self,
        version: int,
        first: int,
        data: bytes,
        edges: list[int],
        bodies: list[int],
        topics: list[str],
        packet_ids: list[int],
    ) -> None:
        self.version = version
        self.first = first
        """The first byte of each."""
        self.data = data
        self.edges = edges
        """Where each packet begins in the data, and where the last one ends."""
        self.bodies = bodies
        """Where each payload begins."""
        self.topics = topics
        self.packet_ids = packet_ids
        """None at QoS 0."""
        self.size = 0
        """About how many bytes their events have; known when the run is whole."""

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def qos(self) -> int:
        """At which QoS they were published."""
        return self.first >> 1 & 3

    @property
    def retain(self) -> bool:
        """Whether they were published to be retained."""
        return bool(self.first & 1)

    def end(self, edge: int) -> MessageRun:
        """No more come: the last one ends here."""
        self.edges.append(edge)
        self.size = edge - self.edges[0] + OVERHEAD * len(self.bodies)
        return self

    def packets(self) -> list[PublishPacket]:
        """The packets, one by one."""
        qos, retain, data = self.qos, self.retain, self.data
        return [
            PublishPacket(topic, data[body:edge], qos, retain, packet_id)
            for topic, body, edge, packet_id in zip(
                self.topics, self.bodies, self.edges[1:], self.packet_ids or [0] * len(self), strict=True
            )
        ]

    # As the origin of events.

    def events(self, identities: Sequence[EventIdentity], topics: Sequence[str | None]) -> tuple[Event, ...]:
        """The events of the messages, known by these."""
        keys = map(key_of, identities)
        return tuple(
            event_of_message(packet, packet.topic, key.id, key.source, 0.0)
            for packet, key in zip(self.packets(), keys, strict=True)
        )

    def may_have(self, name: str) -> bool:
        """Whether one of their events may have an attribute, or one below it; False only if that is certain.

        A message has a QoS, a source and a payload. Others come from JSON objects, whose keys stand in them
        as they are unless there is a backslash.
        """
        if name == RETAIN:
            return bool(self.first & 1)
        if name.partition(".")[0] in GIVEN or not name.isprintable():
            return True
        begin, end = self.edges[0], self.edges[-1]
        data, key = self.data, name.rpartition(".")[2].encode()
        if data.find(b"{", begin, end) < 0:
            return False
        return data.find(key, begin, end) >= 0 or data.find(b"\\", begin, end) >= 0

    def common(self, name: str) -> Value:
        """The value of an attribute that all of their events have alike; None where that is not known."""
        if name == RETAIN and self.retain:
            return True
        return self.qos if name == QOS else None

    def chosen(self, places: Sequence[int]) -> MessageRun:
        """Those at some places, at least one, in their order."""
        edges, bodies, data = self.edges, self.bodies, self.data
        parts, new_edges, new_bodies, at = [], [], [], 0
        for place in places:
            begin, end = edges[place], edges[place + 1]
            parts.append(data[begin:end])
            new_edges.append(at)
            new_bodies.append(bodies[place] - begin + at)
            at += end - begin
        topics = [self.topics[place] for place in places]
        ids = [self.packet_ids[place] for place in places] if self.packet_ids else []
        return MessageRun(self.version, self.first, b"".join(parts), new_edges, new_bodies, topics, ids).end(
            at
        )

    def joins(self, other: EventOrigin) -> bool:
        """Whether another origin is of the same form."""
        return isinstance(other, MessageRun) and (other.version, other.first) == (self.version, self.first)

    def joined(self, others: Sequence[EventOrigin]) -> MessageRun | None:
        """These, and others after them; None when they are not of one form."""
        runs = [self]
        for other in others:
            if not isinstance(other, MessageRun) or not self.joins(other):
                return None
            runs.append(other)
        parts, edges, bodies, at = [], list[int](), list[int](), 0
        for run in runs:
            begin, end = run.edges[0], run.edges[-1]
            parts.append(run.data[begin:end])
            edges += [edge - begin + at for edge in run.edges[:-1]]
            bodies += [body - begin + at for body in run.bodies]
            at += end - begin
        topics = list(chain.from_iterable([run.topics for run in runs]))
        ids = list(chain.from_iterable([run.packet_ids for run in runs]))
        return MessageRun(self.version, self.first, b"".join(parts), edges, bodies, topics, ids).end(at)

    # As what is sent.

    def is_written(self, part: tuple[int, int], version: int, first: int, properties: bytes) -> bool:
        """Whether the data, as it is, has these messages with that first byte, and nothing else."""
        return (
            first == self.first
            and version == self.version
            and (version != VERSION_5 or properties == b"\0")
            and part == (0, len(self.bodies))
            and self.edges[-1] - self.edges[0] == len(self.data)
        )

    def segments(self, start: int, stop: int, version: int, first: int, properties: bytes) -> list[bytes]:
        """The messages from one place to another, as they are written with another first byte.

        At QoS 0 the list has their bytes. Otherwise the packet identifiers belong between its members.
        """
        edges, data = self.edges, self.data
        at, end = edges[start], edges[stop]
        if version == self.version and first == self.first and (version != VERSION_5 or properties == b"\0"):
            if not first & 6:
                return [data[at:end]]
            gap = 2 if version != VERSION_5 else 3
            segments = []
            for body in self.bodies[start:stop]:
                segments.append(data[at : body - gap])
                at = body - gap + 2
            segments.append(data[at:end])
            return segments
        return self._rewritten(start, stop, first, properties if version == VERSION_5 else b"")

    def _rewritten(self, start: int, stop: int, first: int, properties: bytes) -> list[bytes]:
        kind, identified = bytes((first,)), 2 if first & 6 else 0
        heads: dict[str, bytes] = {}
        segments, before = [], b""
        for place in range(start, stop):
            topic = self.topics[place]
            head = heads.get(topic)
            if head is None:
                head = heads[topic] = text_bytes(topic)
            body = properties + self.data[self.bodies[place] : self.edges[place + 1]]
            begin = kind + variable_integer(len(head) + identified + len(body)) + head
            if identified:
                segments.append(before + begin)
                before = body
            else:
                segments.append(begin + body)
        return [*segments, before] if identified else segments


def with_identifiers(segments: list[bytes], first: int) -> bytes:
    """The bytes of messages whose packet identifiers begin with this one and go up by one."""
    parts = [b""] * (2 * len(segments) - 1)
    parts[0::2] = segments
    parts[1::2] = identifiers(first, len(segments) - 1)
    return b"".join(parts)

"""What stock MQTT clients say, in bytes, and how they answer: QoS 0, 1 and 2, in version 3.1.1.

All messages of a workload have one length, so that what a subscriber must answer stands in columns.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

import numpy as np

from bench.network.load import Load, Receiver, send_all
from bench.network.protocols import Counting, connected, payload, received, remaining_length, text_field

PUBACK, PUBREC, PUBREL, PUBCOMP = b"\x40\x02", b"\x50\x02", b"\x62\x02", b"\x70\x02"
PACKET_IDS = 65_535


@dataclass(frozen=True)
class Talk:
    """How the clients of a workload talk."""

    qos: int = 0
    size: int = 100
    topics: int = 1
    """Messages go to so many topics in turn."""
    filter: str = "bench/00/topic"
    """What subscribers ask for."""
    retain: bool = False
    lasting: bool = False
    """Whether sessions outlive their connections."""
    json: bool = False
    """Whether a payload is a JSON object with the attribute `price`."""

    def payload(self, number: int) -> bytes:
        """The payload of a message: its number in a mark, filled up to its size.

        >>> Talk(size=48, json=True).payload(7)
        b'{"price": 8.4, "mark": "<#0000000007#>xxxxxxxx"}'
        """
        if not self.json:
            return payload(number, self.size)
        head, tail = b'{"price": 8.4, "mark": "', b'"}'
        return head + payload(number, self.size - len(head) - len(tail)) + tail

    def topic(self, number: int) -> str:
        """The topic of a message."""
        return f"bench/{number % self.topics:02}/topic"

    def written(self, first: int, count: int) -> bytes:
        """PUBLISH packets of these messages."""
        parts: list[bytes] = []
        kind = bytes([0x30 | self.qos << 1 | self.retain])
        heads = [text_field(self.topic(number)) for number in range(self.topics)]
        length = remaining_length(len(heads[0]) + 2 * bool(self.qos) + self.size)
        for number in range(first, first + count):
            parts += (kind, length, heads[number % self.topics])
            if self.qos:
                parts.append((number % PACKET_IDS + 1).to_bytes(2, "big"))
            parts.append(self.payload(number))
        return b"".join(parts)

    @property
    def id_place(self) -> int:
        """Where the packet identifier stands in a PUBLISH that a subscriber is sent."""
        topic = text_field(self.topic(0))
        return 1 + len(remaining_length(len(topic) + 2 + self.size)) + len(topic)

    def publisher(self, port: int) -> socket.socket:
        """A client that publishes."""
        return mqtt_client(port, "publisher")

    def subscriber(self, port: int, name: str) -> socket.socket:
        """A client whose subscription is in force."""
        made = mqtt_client(port, name, clean=not self.lasting)
        made.sendall(subscribe_packet(self.filter, self.qos))
        if received(made, 5)[4] != self.qos:
            raise ConnectionError(f"the broker refuses the filter {self.filter}")
        return made


def subscribe_packet(filter: str, qos: int) -> bytes:
    """SUBSCRIBE for one filter."""
    body = b"\x00\x01" + text_field(filter) + bytes([qos])
    return b"\x82" + remaining_length(len(body)) + body


def publish_packet(topic: str, payload: bytes) -> bytes:
    """PUBLISH at QoS 0."""
    body = text_field(topic) + payload
    return b"\x30" + remaining_length(len(body)) + body


def mqtt_client(port: int, name: str, keep_alive: int = 0, *, clean: bool = True) -> socket.socket:
    """A client that is let in."""
    made = connected(port)
    body = text_field("MQTT") + bytes([4, 2 * clean]) + keep_alive.to_bytes(2, "big") + text_field(name)
    made.sendall(b"\x10" + remaining_length(len(body)) + body)
    if received(made, 4) != b"\x20\x02\x00\x00":
        raise ConnectionError("the broker refuses an MQTT client")
    return made


class Answering:
    """Answers what a subscriber is sent: PUBACK or PUBREC for a message, PUBCOMP for PUBREL.

    >>> talk = Talk(qos=2)
    >>> answering = Answering(talk)
    >>> data = talk.written(5, 2) + PUBREL + bytes([0, 9]) + talk.written(7, 1)
    >>> (answering.replies(data[:150]) + answering.replies(data[150:])).hex(" ", 4)
    '50020006 50020007 70020009 50020008'
    """

    def __init__(self, talk: Talk) -> None:
        self._length = len(talk.written(0, 1))
        self._place, self._qos = talk.id_place, talk.qos
        self._rest = b""

    def replies(self, data: bytes) -> bytes:
        """What to answer to these bytes."""
        if not self._qos:
            return b""
        data = self._rest + data
        answers, at = list[bytes](), 0
        while at + 4 <= len(data):
            if data[at] >> 4 == 3:
                taken = self._messages(data, at, answers)
                if not taken:
                    break
                at += taken
            else:
                answers.append(PUBCOMP + data[at + 2 : at + 4])
                at += 4
        self._rest = data[at:]
        return b"".join(answers)

    def _messages(self, data: bytes, at: int, answers: list[bytes]) -> int:
        """Answer all whole messages that lie one behind the other; gives how many bytes they have."""
        length = self._length
        whole = (len(data) - at) // length
        if not whole:
            return 0
        rows = np.frombuffer(data, np.uint8, whole * length, at).reshape(whole, length)
        other = np.flatnonzero(rows[:, 0] >> 4 != 3)
        if len(other):
            rows = rows[: other[0]]
        made = np.empty((len(rows), 4), np.uint8)
        made[:, 0], made[:, 1] = PUBACK[0] if self._qos == 1 else PUBREC[0], 2
        made[:, 2:] = rows[:, self._place : self._place + 2]
        answers.append(made.tobytes())
        return len(rows) * length


class Acknowledged(Counting):
    """Counts the messages of a publisher that are done with: PUBACK, or PUBCOMP after PUBREC and PUBREL.

    >>> counting = Acknowledged()
    >>> counting.count(PUBREC + bytes([0, 6]) + PUBCOMP + bytes([0, 5]) + PUBREC)
    1
    >>> counting.count(bytes([0, 7])), counting.replies().hex(" ", 4)
    (0, '62020006 62020007')
    """

    def __init__(self) -> None:
        self._rest = b""
        self._replies: list[bytes] = []

    def count(self, data: bytes) -> int:
        """How many more are done with."""
        data = self._rest + data
        whole = len(data) // 4
        self._rest = data[whole * 4 :]
        rows = np.frombuffer(data, np.uint8, whole * 4).reshape(whole, 4)
        received_now = rows[rows[:, 0] == PUBREC[0]]
        if len(received_now):
            released = received_now.copy()
            released[:, 0] = PUBREL[0]
            self._replies.append(released.tobytes())
        return whole - len(received_now)

    def replies(self) -> bytes:
        """What the publisher has to answer."""
        replies, self._replies = b"".join(self._replies), []
        return replies


class MqttLoad(Load):
    """A load whose publisher answers too."""

    def __init__(self, publisher: socket.socket, receivers: list[Receiver], talk: Talk) -> None:
        self._answers = Acknowledged()
        super().__init__(publisher, self._answers, receivers, acknowledged=talk.qos > 0)

    def _answered(self, data: bytes) -> None:
        super()._answered(data)
        if replies := self._answers.replies():
            send_all(self._publisher, replies)

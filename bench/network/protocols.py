"""What clients of the three brokers say, in bytes that are made before the clock runs.

A message carries its number in a mark, `<#0000000042#>`, filled up with `x` to its size. A mark looks the
same in every protocol, so that one function finds in the bytes that came which messages they were.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np

from distributary.live import client_messages as messages
from distributary.live.codec import VERSION, decode, encode
from distributary.live.frames import FrameReader, frame
from distributary.live.greeting import LinkBeat
from distributary.model import Event, Subscription
from distributary.overlay.broker import SessionState

MARK = re.compile(rb"<#(\d{10})#>")
MARK_LENGTH = 14
TOPIC = "bench/plain/topic"
PATIENCE = 30.0
"""Seconds that a broker may take to answer."""


def payload(number: int, size: int) -> bytes:
    """The payload of a message.

    >>> payload(42, 16)
    b'<#0000000042#>xx'
    """
    return (b"<#%010d#>" % number).ljust(size, b"x")


def marks(data: bytes) -> list[int]:
    """The numbers of the messages in bytes that came, in their order.

    >>> marks(b"head" + payload(7, 20) + b"head" + payload(8, 20))
    [7, 8]
    """
    return list(map(int, MARK.findall(data)))


def last_mark(data: bytes) -> int | None:
    """The number of the last message whose mark is whole; None when there is none.

    >>> last_mark(payload(7, 20) + payload(8, 20)[:9])
    7
    """
    end = len(data)
    while (end := data.rfind(b"#>", 0, end)) >= 0:
        if data[end - 12 : end - 10] == b"<#":
            return int(data[end - 10 : end])
    return None


class Listener(Protocol):
    """Reads what a subscriber is sent."""

    def replies(self, data: bytes) -> bytes:
        """What the subscriber must answer to these bytes, such as acknowledgements."""


class Speaker(Protocol):
    """A protocol, as its clients speak it."""

    beat: bytes
    """What a client says now and then, so that it is not taken for dead."""

    def publisher(self, port: int) -> socket.socket:
        """A publisher that the broker has let in."""

    def subscriber(self, port: int, name: str, acknowledged: bool) -> socket.socket:
        """A client that the broker has let in, and whose subscription to `TOPIC` is in force."""

    def listener(self, size: int, acknowledged: bool) -> Listener:
        """Reads what a subscriber is sent, from its first delivery on."""

    def written(self, first: int, count: int, size: int, acknowledged: bool) -> bytes:
        """These messages, as they are published together."""

    def acknowledgements(self) -> Counting:
        """Counts the acknowledgements in what a publisher is sent."""


class Counting(Protocol):
    """Counts messages that are acknowledged."""

    def count(self, data: bytes) -> int:
        """How many more are acknowledged with these bytes."""


class Silent:
    """A listener that answers nothing, and counts nothing."""

    def replies(self, data: bytes) -> bytes:
        return b""

    def count(self, data: bytes) -> int:
        return 0


def connected(port: int) -> socket.socket:
    """A connection to a broker of this machine, which may still be starting."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            made = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made


def received(connection: socket.socket, length: int) -> bytes:
    """So many bytes."""
    data = b""
    while len(data) < length:
        more = connection.recv(length - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return data


# MQTT 3.1.1.


def remaining_length(length: int) -> bytes:
    """A length as MQTT writes it, seven bits a byte.

    >>> remaining_length(321).hex()
    'c102'
    """
    written = b""
    while length > 127:
        written += bytes([length & 127 | 128])
        length >>= 7
    return written + bytes([length])


def text_field(text: str) -> bytes:
    """A text as MQTT writes it, behind its length."""
    return len(text).to_bytes(2, "big") + text.encode()


class Mqtt:
    """MQTT at QoS 0, or 1 where messages are acknowledged."""

    beat = b""

    def publisher(self, port: int) -> socket.socket:
        return self._client(port, "publisher")

    def _client(self, port: int, name: str) -> socket.socket:
        made = connected(port)
        body = text_field("MQTT") + bytes([4, 2, 0, 0]) + text_field(name)
        made.sendall(b"\x10" + remaining_length(len(body)) + body)
        if received(made, 4) != b"\x20\x02\x00\x00":
            raise ConnectionError("the broker refuses an MQTT client")
        return made

    def subscriber(self, port: int, name: str, acknowledged: bool) -> socket.socket:
        made = self._client(port, name)
        body = b"\x00\x01" + text_field(TOPIC) + bytes([acknowledged])
        made.sendall(b"\x82" + remaining_length(len(body)) + body)
        received(made, 5)
        return made

    def listener(self, size: int, acknowledged: bool) -> Listener:
        return MqttListener(len(self.written(0, 1, size, True))) if acknowledged else Silent()

    def written(self, first: int, count: int, size: int, acknowledged: bool) -> bytes:
        topic, most = text_field(TOPIC), 65_535
        head = bytes([0x32 if acknowledged else 0x30])
        head += remaining_length(len(topic) + 2 * acknowledged + size) + topic
        parts = []
        for number in range(first, first + count):
            parts.append(head)
            if acknowledged:
                parts.append((number % most + 1).to_bytes(2, "big"))
            parts.append(payload(number, size))
        return b"".join(parts)

    def acknowledgements(self) -> Counting:
        return PacketCount(4)


class MqttListener:
    """Acknowledges every message at QoS 1: all are of one length, so their packet ids stand in one column.

    >>> listener = MqttListener(len(Mqtt().written(0, 1, 20, True)))
    >>> data = Mqtt().written(5, 2, 20, True)
    >>> (listener.replies(data[:30]) + listener.replies(data[30:])).hex()
    '4002000640020007'
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._rest = b""
        header = 1 + len(remaining_length(length - 2))
        self._place = header + len(text_field(TOPIC))

    def replies(self, data: bytes) -> bytes:
        data = self._rest + data
        whole = len(data) // self._length
        self._rest = data[whole * self._length :]
        if not whole:
            return b""
        rows = np.frombuffer(data, np.uint8, whole * self._length).reshape(whole, self._length)
        answers = np.empty((whole, 4), np.uint8)
        answers[:, 0], answers[:, 1] = 0x40, 2
        answers[:, 2:] = rows[:, self._place : self._place + 2]
        return answers.tobytes()


class PacketCount:
    """Counts acknowledgements that all have one length."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._bytes = 0

    def count(self, data: bytes) -> int:
        before = self._bytes // self._length
        self._bytes += len(data)
        return self._bytes // self._length - before


# NATS.


class Nats:
    """NATS without JetStream: nothing is acknowledged."""

    beat = b""
    subject = TOPIC.replace("/", ".")

    def publisher(self, port: int) -> socket.socket:
        made = connected(port)
        while received(made, 1) != b"\n":
            pass
        made.sendall(b'CONNECT {"verbose":false,"pedantic":false,"lang":"bench","version":"1"}\r\nPING\r\n')
        self._pong(made)
        return made

    def _pong(self, made: socket.socket) -> None:
        if received(made, 6) != b"PONG\r\n":
            raise ConnectionError("the broker refuses a NATS client")

    def subscriber(self, port: int, name: str, acknowledged: bool) -> socket.socket:
        made = self.publisher(port)
        made.sendall(f"SUB {self.subject} 1\r\nPING\r\n".encode())
        self._pong(made)
        return made

    def listener(self, size: int, acknowledged: bool) -> Listener:
        return Silent()

    def written(self, first: int, count: int, size: int, acknowledged: bool) -> bytes:
        head = f"PUB {self.subject} {size}\r\n".encode()
        return b"".join(head + payload(number, size) + b"\r\n" for number in range(first, first + count))

    def acknowledgements(self) -> Counting:
        return Silent()


# Ours.


class Ours:
    """The native protocol. `together` events travel in one request, as those of one `publish` do."""

    beat = frame(encode(LinkBeat()))

    def __init__(self, together: int = 100) -> None:
        self.together = together

    def publisher(self, port: int) -> socket.socket:
        return self._client(port, "publisher")[0]

    def _client(self, port: int, name: str) -> tuple[socket.socket, FrameReader]:
        made, frames = connected(port), FrameReader()
        made.sendall(frame(encode(messages.ClientGreeting(VERSION, VERSION, "bench", name))))
        _until(made, frames, messages.ClientWelcome)
        return made, frames

    def subscriber(self, port: int, name: str, acknowledged: bool) -> socket.socket:
        return self.subscribed(port, [Subscription(f"s-{name}", name, topic=TOPIC)])

    def subscribed(self, port: int, subscriptions: Sequence[Subscription]) -> socket.socket:
        """A client whose subscriptions, all of its own name, are in force."""
        made, frames = self._client(port, subscriptions[0].subscriber)
        session = SessionState(tuple(subscriptions))
        made.sendall(frame(encode(messages.ClientResume(1, session))))
        _until(made, frames, messages.ClientAnswer)
        return made

    def listener(self, size: int, acknowledged: bool) -> Listener:
        return Silent()

    def written(self, first: int, count: int, size: int, acknowledged: bool) -> bytes:
        make = partial(_plain_event, size=size)
        events = [make(number) for number in range(first, first + count)]
        return self.requests(events, first, acknowledged=acknowledged)

    def requests(self, events: Sequence[Event], first: int, *, acknowledged: bool = True) -> bytes:
        """Requests that publish these, each numbered by how many events there are up to its last.

        Where nothing is acknowledged, all have the number 0: nobody waits for an answer.
        """
        return b"".join(
            frame(encode(messages.ClientEvents((first + place + len(part)) * acknowledged, part)))
            for place in range(0, len(events), self.together)
            if (part := tuple(events[place : place + self.together]))
        )

    def acknowledgements(self) -> Counting:
        return AnswerCount()


def _plain_event(number: int, size: int) -> Event:
    return Event(f"e{number:010}", TOPIC, {"payload": payload(number, size).decode()})


class AnswerCount:
    """Counts events by the numbers of the answers, which come in order."""

    def __init__(self) -> None:
        self._frames = FrameReader()
        self._last = 0

    def count(self, data: bytes) -> int:
        before = self._last
        for each in self._frames.read(data):
            answer = decode(each)
            if isinstance(answer, messages.ClientAnswer):
                if answer.refused:
                    raise ConnectionError(f"events were refused: {answer.refused[0]}")
                self._last = max(self._last, answer.number)
        return self._last - before


def _until(made: socket.socket, frames: FrameReader, kind: type) -> None:
    """Read until a message of this kind comes."""
    while True:
        data = made.recv(1 << 16)
        if not data:
            raise ConnectionError("the broker closed the connection")
        for each in frames.read(data):
            message = decode(each)
            if isinstance(message, kind):
                return
            if isinstance(message, messages.ClientFarewell):
                raise ConnectionError(message.reason)

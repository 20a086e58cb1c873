"""The load generator: one thread with plain sockets, so that the broker is the one who is busy.

What is sent was encoded before. What comes is kept as it is, and looked at when the clock has stopped: each
subscriber must have every message it is owed once and in order, or there is no number.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import quantiles

from bench.network.protocols import MARK_LENGTH, Counting, Listener, last_mark, marks

PATIENCE = 180
"""Seconds without anything coming, after which a run has failed."""
READ = 1 << 20


class LostError(Exception):
    """A subscriber did not get what it is owed."""


@dataclass
class Receiver:
    """A subscriber's end."""

    connection: socket.socket
    listener: Listener
    last: int = -1
    """The number of the latest message."""
    _pieces: list[tuple[float, bytes]] = field(default_factory=list)
    _tail: bytes = b""

    def take(self, data: bytes) -> None:
        """Keep what came, and answer it."""
        self._pieces.append((time.perf_counter(), data))
        tail = self._tail + data
        found = last_mark(tail)
        if found is not None:
            self.last = found
        self._tail = tail[-MARK_LENGTH:]
        answer = self.listener.replies(data)
        if answer:
            send_all(self.connection, answer)

    def check(self, owed: Sequence[int]) -> list[tuple[int, float]]:
        """LostError unless exactly these have come since the last check, in order; else when each came."""
        came = list(arrivals(self._pieces))
        self._pieces.clear()
        got = [number for number, _ in came]
        if got != list(owed):
            place = next((n for n, (a, b) in enumerate(zip(got, owed, strict=False)) if a != b), len(got))
            raise LostError(
                f"{len(got):,} messages came and {len(owed):,} are owed; the first difference is at"
                f" {place}: {got[place : place + 3]} in place of {list(owed[place : place + 3])}"
            )
        return came


def arrivals(pieces: Sequence[tuple[float, bytes]]) -> Iterator[tuple[int, float]]:
    """The messages in what came, with the time of the piece in which the mark of each was whole.

    >>> list(arrivals([(1.0, b"..<#0000000007#>..<#00000"), (2.0, b"00008#>..")]))
    [(7, 1.0), (8, 2.0)]
    """
    tail = b""
    for when, data in pieces:
        data = tail + data
        yield from ((number, when) for number in marks(data))
        begun = data.rfind(b"<#", -MARK_LENGTH + 1)
        tail = data[begun:] if begun >= 0 else data[-1:] if data.endswith(b"<") else b""


class Load:
    """A publisher and subscribers.

    Where all subscribers want `everything`, a message has arrived when all have it; otherwise when it is
    acknowledged.
    """

    def __init__(
        self,
        publisher: socket.socket,
        counting: Counting,
        receivers: Sequence[Receiver],
        *,
        acknowledged: bool,
        everything: bool = True,
        beat: bytes = b"",
    ) -> None:
        self.receivers = receivers
        self._publisher = publisher
        self._counting = counting
        self._acknowledged, self._everything = acknowledged, everything
        self._beat, self._beaten = beat, 0.0
        self._sent = self._done = 0
        self._selector = selectors.DefaultSelector()
        for connection in (publisher, *(each.connection for each in receivers)):
            connection.setblocking(False)
        self._selector.register(publisher, selectors.EVENT_READ, self._answered)
        for each in receivers:
            self._selector.register(each.connection, selectors.EVENT_READ, each.take)

    def close(self) -> None:
        """End all connections."""
        self._selector.close()
        for connection in (self._publisher, *(each.connection for each in self.receivers)):
            connection.close()

    def flood(self, parts: Sequence[tuple[int, bytes]], window: int, seconds: float) -> tuple[int, float]:
        """Publish parts (the number of their last message, and bytes), as fast as they are taken.

        At most `window` messages are under way, so that no broker need drop any; after some seconds no more
        are sent. Returns the number of the last message and how long it took until all had arrived.
        """
        began = time.perf_counter()
        for last, data in parts:
            self._wait(lambda last=last: self._behind(last) <= window)  # type: ignore[misc]
            self._send(data, last)
            if time.perf_counter() - began > seconds:
                break
        self._wait(lambda: self._behind(last) == 0)
        return last, time.perf_counter() - began

    def paced(self, first: int, messages: Sequence[bytes], rate: float) -> dict[int, float]:
        """Publish one message after another at a rate; returns when each was sent."""
        sent: dict[int, float] = {}
        start = time.perf_counter()
        last = first - 1
        for last, data in enumerate(messages, first):
            due = start + (last - first) / rate
            while (left := due - time.perf_counter()) > 0:
                self._poll(left)
            sent[last] = time.perf_counter()
            self._send(data, last)
        self._wait(lambda: self._behind(last) == 0)
        return sent

    def one_by_one(self, first: int, messages: Sequence[bytes]) -> list[float]:
        """Publish a message when the one before has arrived; returns how long each took."""
        delays = []
        for number, data in enumerate(messages, first):
            began = time.perf_counter()
            self._send(data, number)
            self._wait(lambda number=number: self._behind(number) == 0)  # type: ignore[misc]
            delays.append(time.perf_counter() - began)
        return delays

    def publish_last(self, data: bytes, number: int) -> None:
        """Publish a message that all subscribers want, and wait until all have it."""
        self._send(data, number)
        self._wait(lambda: min(each.last for each in self.receivers) == number)

    def _behind(self, last: int) -> int:
        """How many messages up to this one have not arrived."""
        unanswered = last + 1 - self._done if self._acknowledged else 0
        if not self._everything:
            return unanswered
        return max(unanswered, last - min(each.last for each in self.receivers))

    def _wait(self, until: Callable[[], bool]) -> None:
        idle = 0
        while not until():
            self.keep_alive()
            idle = 0 if self._poll(1.0) else idle + 1
            if idle >= PATIENCE:
                slowest = min(each.last for each in self.receivers)
                raise LostError(
                    f"{self._sent:,} messages were sent and nothing comes after number {slowest:,}"
                )

    def keep_alive(self) -> None:
        """Say on all connections, every second, that somebody is there."""
        if self._beat and time.perf_counter() - self._beaten > 1.0:
            self._beaten = time.perf_counter()
            for connection in (self._publisher, *(each.connection for each in self.receivers)):
                send_all(connection, self._beat)

    def _poll(self, seconds: float) -> bool:
        ready = self._selector.select(seconds)
        for key, _ in ready:
            assert isinstance(key.fileobj, socket.socket)
            data = key.fileobj.recv(READ)
            if not data:
                raise LostError("the broker closed a connection")
            key.data(data)
        return bool(ready)

    def _answered(self, data: bytes) -> None:
        self._done += self._counting.count(data)

    def _send(self, data: bytes, last: int) -> None:
        """Send all of it; while the broker takes no more, take what it sends."""
        self.keep_alive()
        self._sent = last + 1
        view = memoryview(data)
        while view:
            try:
                view = view[self._publisher.send(view) :]
            except BlockingIOError:
                self._poll(0.001)


def send_all(connection: socket.socket, data: bytes) -> None:
    """Send a few bytes on a connection that does not block."""
    view = memoryview(data)
    while view:
        try:
            view = view[connection.send(view) :]
        except BlockingIOError:
            time.sleep(0.0001)


def delays(came: Sequence[tuple[int, float]], sent: dict[int, float]) -> list[float]:
    """How long each message took of which it is known when it was sent."""
    return [when - sent[number] for number, when in came if number in sent]


def median_and_worst(values: Sequence[float]) -> tuple[float, float]:
    """The 50th and the 99th percentile.

    >>> median_and_worst(list(range(1, 102)))
    (51.0, 100.0)
    """
    found = quantiles(values, n=100, method="inclusive")
    return found[49], found[98]

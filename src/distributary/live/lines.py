"""Slower lines than there are: what is written on a connection is held back as a long or narrow line would.

For trials on one machine. Rules:

- A line sends one frame after another at its rate, and each arrives its delay after it was sent. Frames never
  overtake each other, and no connection waits for another.
- What a narrow line has not sent yet counts as unsent, so that backpressure comes as it would; what is on its
  way does not. Both are gone with the connection.
- Greetings and the frames of clients are not held back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import NamedTuple, Protocol

from distributary.live.link_faults import LinkFaults
from distributary.overlay.node import Address


class LineSpeed(NamedTuple):
    """How quick a line is, in one direction."""

    delay: float = 0.0
    """Seconds until what was sent arrives."""
    rate: float = inf
    """Bytes a second."""


class LineClock(Protocol):
    """What a line needs of an event loop."""

    def time(self) -> float:
        """Seconds, since whenever."""

    def call_at(self, when: float, callback: Callable[[], None]) -> object:
        """Have this called at that time."""


class Line:
    """The line of one connection to another node."""

    def __init__(
        self,
        clock: LineClock,
        write: Callable[[bytes], None],
        speed: LineSpeed,
        pauses: Callable[[], tuple[float, ...]],
    ) -> None:
        self._clock = clock
        self._write = write
        self._speed = speed
        self._pauses = pauses
        self._on_their_way: deque[tuple[float, bytes]] = deque()
        self._free = 0.0
        """When everything up to now has been sent."""
        self._last = 0.0
        """When the latest frame arrives."""

    def send(self, framed: bytes) -> None:
        """Send a frame, as often and as late as its faults want it."""
        for pause in self._pauses():
            now = self._clock.time()
            self._free = max(now, self._free) + len(framed) / self._speed.rate
            self._last = max(self._last, self._free + self._speed.delay + pause)
            if self._last <= now and not self._on_their_way:
                self._write(framed)
                continue
            self._on_their_way.append((self._last, framed))
            if len(self._on_their_way) == 1:
                self._clock.call_at(self._last, self._arrive)

    @property
    def unsent(self) -> int:
        """Bytes that have to wait for the line."""
        if self._speed.rate == inf:
            return 0
        return int(max(0.0, self._free - self._clock.time()) * self._speed.rate)

    def _arrive(self) -> None:
        """Write what is there by now, at once."""
        now, coming = self._clock.time(), self._on_their_way
        arrived = []
        while coming and coming[0][0] <= now:
            arrived.append(coming.popleft()[1])
        if arrived:
            self._write(b"".join(arrived))
        if coming:
            self._clock.call_at(coming[0][0], self._arrive)


class LinkLines:
    """The lines of one node: how quick they are, and the faults on them."""

    def __init__(
        self, speeds: Mapping[Address, LineSpeed] | None = None, faults: LinkFaults | None = None
    ) -> None:
        self.faults = faults
        """None where nobody may disturb the links."""
        self._speeds = dict(speeds or {})

    def line(self, to: Address, write: Callable[[bytes], None]) -> Line | None:
        """The line of a new connection to a node; None where nothing is to be held back or disturbed."""
        speed, faults = self._speeds.get(to, LineSpeed()), self.faults
        if faults is None and speed == LineSpeed():
            return None
        pauses = _undisturbed if faults is None else lambda: faults.pauses(to)
        return Line(asyncio.get_running_loop(), write, speed, pauses)

    @property
    def fired(self) -> dict[str, int]:
        """How often each fault has happened, by `fault` and its kind."""
        fired = {} if self.faults is None else self.faults.fired
        return {f"fault {kind}": count for kind, count in fired.items()}

    def reaches(self, to: Address) -> bool:
        """Whether anything sent to a node arrives there."""
        return self.faults is None or self.faults.reaches(to)

    def hears(self, sender: Address) -> bool:
        """Whether anything of a node arrives here."""
        return self.faults is None or self.faults.hears(sender)


def _undisturbed() -> tuple[float, ...]:
    return (0.0,)

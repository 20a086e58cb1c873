"""How often things happen: counts a second, over the last seconds."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

EVERY = 1.0
"""Seconds between two looks at the counts."""
OVER = 10
"""So many looks back rates are taken over."""


class RateMeter:
    """Looks at counts every second.

    >>> meter = RateMeter(lambda: {"events": 0})
    >>> meter.rates()
    {'events': 0.0}
    """

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts = counts
        self._seen: deque[tuple[float, dict[str, int]]] = deque(maxlen=OVER)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at the counts now and from now on."""
        loop = asyncio.get_running_loop()
        self.look(loop.time())
        self._timer = loop.call_later(EVERY, self.start)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def look(self, now: float) -> None:
        """Note the counts at a time."""
        self._seen.append((now, dict(self._counts())))

    def rates(self) -> dict[str, float]:
        """How many a second there were lately; 0 before the second look."""
        latest = self._seen[-1] if self._seen else (0.0, dict(self._counts()))
        first = self._seen[0] if self._seen else latest
        seconds = latest[0] - first[0]
        return {
            name: round((count - first[1].get(name, 0)) / seconds, 1) if seconds else 0.0
            for name, count in latest[1].items()
        }

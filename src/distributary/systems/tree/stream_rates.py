"""Which streams come in at a broker, how fast, and which of them its own clients want."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from distributary.model import Event
from distributary.systems.tree.messages import Streams
from distributary.systems.tree.settings import Gauges


class StreamRates:
    """Which streams come in at a broker, how fast, and which of them its own clients want."""

    def __init__(self, gauges: Gauges, wants: Callable[[Event], bool]) -> None:
        self._gauges, self._wants = gauges, wants
        self._latest: deque[tuple[float, str]] = deque()
        self._counts: dict[str, int] = {}
        self._wanted: dict[str, float] = {}
        """When each stream last had something for the clients here."""

    def note(self, event: Event, now: float) -> None:
        """Count an event that came in."""
        stream = self._gauges.stream(event)
        self._counts[stream] = self._counts.get(stream, 0) + 1
        if self._gauges.window is not None:
            self._latest.append((now, stream))
        if self._wants(event):
            self._wanted[stream] = now

    def own(self, now: float) -> Streams:
        """What the clients here want, as far as it came in lately."""
        window = self._gauges.window
        if window is None:
            return tuple(sorted((stream, float(self._counts[stream])) for stream in self._wanted))
        while self._latest and self._latest[0][0] < now - window:
            _, stream = self._latest.popleft()
            self._counts[stream] -= 1
            if not self._counts[stream]:
                del self._counts[stream]
                self._wanted.pop(stream, None)
        recent = (stream for stream, when in self._wanted.items() if when >= now - window)
        return tuple(sorted((stream, self._counts[stream] / window) for stream in recent))


def merged(*rows: Streams) -> Streams:
    """Streams of several, each once, at the highest rate that one of them told."""
    rates: dict[str, float] = {}
    for row in rows:
        for stream, rate in row:
            rates[stream] = max(rate, rates.get(stream, 0.0))
    return tuple(sorted(rates.items()))

"""Counts of what goes through an operator, or into a source, and what an operator would take."""

from __future__ import annotations

from dataclasses import dataclass

from distributary.flow import Item
from distributary.overlay.wire import size_of
from distributary.systems.queries import messages


@dataclass
class TrafficCounter:
    """What went through an operator, or into a source, since a time."""

    since: float
    arrived: int = 0
    """Items that an operator was sent; not all of them may have been processed."""
    items_in: int = 0
    bytes_in: int = 0
    items_out: int = 0
    bytes_out: int = 0
    cycles: float = 0.0

    def take_in(self, item: Item) -> None:
        """Count an item that comes in."""
        self.items_in += 1
        self.bytes_in += size_of(item)

    def give_out(self, item: Item) -> None:
        """Count an item that goes out."""
        self.items_out += 1
        self.bytes_out += size_of(item)

    def counts(self, name: str, now: float) -> messages.TrafficCounts:
        """All of it, as a message.

        Where a processor does not keep up, results and work are those that all items would have given which
        arrived.
        """
        due = self.arrived / self.items_in if self.arrived and self.items_in else 1.0
        return messages.TrafficCounts(
            name,
            now - self.since,
            round(self.items_in * due),
            round(self.bytes_in * due),
            round(self.items_out * due),
            round(self.bytes_out * due),
            self.cycles * due,
        )

    @property
    def is_telling(self) -> bool:
        """Whether it says what items give and cost: not while all that arrived still waits."""
        return self.items_in > 0 or self.arrived == 0


class OperatorDemand:
    """What an operator would take if nothing were left out before it or by it: its load, in cycles a second.

    Of what arrives the rate counts, of what is processed the cost: so neither what is left out nor what waits
    makes the load look smaller. New measurements count half.

    >>> demand = OperatorDemand(now=0.0)
    >>> demand.arrive(10, share=0.5)
    >>> demand.process(4, cycles=12.0)
    >>> demand.load(now=10.0)
    6.0
    """

    def __init__(self, now: float) -> None:
        self._since = now
        self._arrived = 0.0
        self._processed = 0
        self._cycles = 0.0
        self._rate: float | None = None
        """Items a second that would arrive."""
        self._cost: float | None = None
        """Cycles an item."""

    def arrive(self, items: int, share: float) -> None:
        """Items have come by a stream of which a share is left."""
        self._arrived += items / share

    def process(self, items: int, cycles: float) -> None:
        """Items have been processed."""
        self._processed += items
        self._cycles += cycles

    def load(self, now: float) -> float | None:
        """The load since the last call and before; None while nothing is known of what items cost."""
        if now > self._since:
            self._rate = _averaged(self._rate, self._arrived / (now - self._since))
            self._since, self._arrived = now, 0.0
        if self._processed:
            self._cost = _averaged(self._cost, self._cycles / self._processed)
            self._processed, self._cycles = 0, 0.0
        return None if self._rate is None or self._cost is None else self._rate * self._cost


def _averaged(known: float | None, new: float) -> float:
    return new if known is None else (known + new) / 2

"""Counts of what goes through an operator, or into a source."""

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

"""How many nodes the work of an item should be spread over."""

from __future__ import annotations

import math
from dataclasses import dataclass

from distributary.errors import DistributaryError


@dataclass(frozen=True)
class WorkTarget:
    """How much work of one item a node should have."""

    spacing: int
    """The mean number of identifiers between two nodes."""
    kept: float = 16.0
    """Subscriptions."""
    taken: float = 16.0
    """Values taken by subscriptions in a minute."""
    longest: int = 32
    """The most nodes that an item is spread over."""
    period: float = 300.0
    """Seconds between two measurements."""

    def __post_init__(self) -> None:
        if min(self.spacing, self.kept, self.taken, self.longest, self.period) <= 0:
            raise DistributaryError(f"everything about a balance is above 0, not so {self}")

    def nodes(self, kept: int, taken_per_minute: float) -> int:
        """How many nodes an item should be spread over.

        >>> balance = WorkTarget(spacing=1000)
        >>> balance.nodes(3, 1), balance.nodes(80, 1), balance.nodes(80, 125.5), balance.nodes(10**6, 1)
        (1, 5, 8, 32)
        """
        wanted = max(kept / self.kept, taken_per_minute / self.taken)
        return max(1, min(self.longest, math.ceil(wanted)))

    def length(self, nodes: int) -> int:
        """The length of a segment that spans so many nodes; with one node, only the guard."""
        return 1 + (nodes - 1) * self.spacing

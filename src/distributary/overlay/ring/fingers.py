"""Finger tables: whom a ring node knows far away, and to whom it hands a message next.

Two rules, one size. Chord's own (`ONE_WAY`) keeps the first node at or after n + 2^i for every bit i and only
ever goes clockwise. The bi-directional one (`BOTH_WAYS`, 002 section 4.1) keeps, for every second bit, the
first node at or after n + 4^i and the last at or before n - 4^i, and goes whichever way is nearer: a table no
larger, and shorter paths. `DOUBLE_TABLE` is what that gives up: every bit in both directions.

`known` below is a sorted tuple of the identifiers that a node knows, its own not among them. Choosing among
them takes one bisection.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Protocol

from distributary.overlay.node import Address
from distributary.overlay.ring.circle import Circle


@dataclass(frozen=True)
class Finger:
    """A place in the table: the first node at or after `point`, or the last at or before it."""

    point: int
    clockwise: bool = True


@dataclass(frozen=True)
class OneWay:
    """Chord: fingers at powers of two; a message goes to whoever most closely precedes its key."""

    def fingers(self, circle: Circle, identifier: int) -> list[Finger]:
        """The places in the finger table of a node."""
        return [Finger(circle.add(identifier, 1 << bit)) for bit in range(circle.bits)]

    def nearest(self, circle: Circle, identifier: int, key: int, known: tuple[Address, ...]) -> Address:
        """The last one before the key, going clockwise from here; here itself if nobody lies between.

        >>> ONE_WAY.nearest(Circle(4), 2, 11, (4, 6, 10, 12)), ONE_WAY.nearest(Circle(4), 2, 4, (4, 6, 10))
        (10, 2)
        """
        if not known:
            return identifier
        before = known[bisect_left(known, key) - 1]
        return before if circle.between(before, identifier, key) else identifier


@dataclass(frozen=True)
class BothWays:
    """Fingers at powers of four in both directions; a message goes to whoever is nearest to its key."""

    spacing: int = 2
    """A finger each way for every so many bits: 2 is powers of four, 1 is powers of two."""

    def fingers(self, circle: Circle, identifier: int) -> list[Finger]:
        """The places in the finger table of a node."""
        steps = [1 << bit for bit in range(0, circle.bits, self.spacing)]
        ahead = [Finger(circle.add(identifier, step)) for step in steps]
        behind = [Finger(circle.add(identifier, -step), clockwise=False) for step in steps]
        return (ahead + behind)[: 2 * circle.bits // self.spacing]

    def nearest(self, circle: Circle, identifier: int, key: int, known: tuple[Address, ...]) -> Address:
        """The one nearest to the key either way round, here itself included; of two, the one before the key.

        >>> BOTH_WAYS.nearest(Circle(4), 2, 11, (4, 6, 10, 12)), BOTH_WAYS.nearest(Circle(4), 2, 15, (4, 14))
        (10, 14)
        """
        best, left = identifier, circle.distance(identifier, key)
        if known:
            place = bisect_left(known, key)
            for address in (known[place - 1], known[place % len(known)]):
                distance = circle.distance(address, key)
                if distance < left:
                    best, left = address, distance
        return best


class FingerRule(Protocol):
    """Whom a node knows far away, and whom of those it knows it asks next."""

    def fingers(self, circle: Circle, identifier: int) -> list[Finger]:
        """The places in the table of a node."""

    def nearest(self, circle: Circle, identifier: int, key: int, known: tuple[Address, ...]) -> Address:
        """The one to ask next for a key; here itself if nobody known is a better one."""


Rule = OneWay | BothWays
ONE_WAY = OneWay()
BOTH_WAYS = BothWays()
DOUBLE_TABLE = BothWays(spacing=1)
"""Powers of two in both directions: what shortest paths are commonly stated for, at twice the table."""

"""Whether everybody who was asked has answered: known nodes, or whoever owns a stretch of the ring."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from distributary.overlay.node import Address
from distributary.overlay.ring.circle import Circle

Arc = tuple[int, int]
"""The keys (after, last] of a node."""


class Answers(Protocol):
    """Those whose answers are awaited."""

    def add(self, sender: Address, arc: Arc | None) -> None:
        """Note the answer of a node that owns these keys; None if it cannot tell which."""

    @property
    def complete(self) -> bool:
        """Whether everybody has answered."""


class AnswersOfNodes:
    """Answers of nodes that are known."""

    def __init__(self, nodes: Iterable[Address]) -> None:
        self._awaited = set(nodes)

    def add(self, sender: Address, arc: Arc | None) -> None:
        """Note the answer of a node."""
        self._awaited.discard(sender)

    @property
    def complete(self) -> bool:
        """Whether all of them have answered."""
        return not self._awaited


class AnswersOfSegment:
    """Answers of all owners of keys in a segment, whoever they are.

    >>> answers = AnswersOfSegment(Circle(4), start=14, length=6)
    >>> answers.add(1, (15, 1)); answers.add(9, (1, 9)); answers.complete
    False
    >>> answers.add(15, (9, 15)); answers.complete
    True
    """

    def __init__(self, circle: Circle, start: int, length: int) -> None:
        self._circle = circle
        self._start = start
        self._missing = [(0, length)]
        """Stretches without an answer, as distances from the start; the second is excluded."""

    def add(self, sender: Address, arc: Arc | None) -> None:
        """Note the answer of a node that owns these keys."""
        if arc is None:
            return
        after, last = arc
        owned = self._circle.clockwise(after, last) or self._circle.size
        first = self._circle.clockwise(self._start, self._circle.add(after, 1))
        for begin in (first, first - self._circle.size):  # the second where the arc holds the start
            self._missing = [
                (low, high)
                for one, other in self._missing
                for low, high in ((one, min(other, begin)), (max(one, begin + owned), other))
                if low < high
            ]

    @property
    def complete(self) -> bool:
        """Whether every key of the segment belongs to a node that has answered."""
        return not self._missing

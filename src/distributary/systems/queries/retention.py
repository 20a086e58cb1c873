"""What is kept until somebody has acknowledged it.

Several protocols of a query network number what they send and keep it until the receiver says how far it has
come: requests to the registry, its replies, its log, and actions that wait for a checkpoint. `Outbox` is that
list; `discard` removes from a dictionary what has been withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    """Entries that are numbered 1, 2, ... in the order in which they are added, until acknowledged.

    >>> outbox = Outbox()
    >>> outbox.add("a"), outbox.add("b"), outbox.add("c")
    (1, 2, 3)
    >>> outbox.acknowledge(2)
    ['a', 'b']
    >>> outbox.pending
    {3: 'c'}
    """

    def __init__(self, last: int = 0) -> None:
        self.last = last
        """The number of the entry that was added last."""
        self.pending: dict[int, T] = {}

    def add(self, entry: T) -> int:
        """Keep an entry; returns its number."""
        self.last += 1
        self.pending[self.last] = entry
        return self.last

    def acknowledge(self, number: int) -> list[T]:
        """Remove all entries up to a number; returns them in order."""
        return [self.pending.pop(each) for each in [each for each in self.pending if each <= number]]


def discard(mapping: dict[Any, Any], condition: Callable[[Any], bool]) -> None:
    """Remove the keys of a dictionary that meet a condition."""
    for key in [key for key in mapping if condition(key)]:
        del mapping[key]

"""Handing out the parts of a rendezvous plan.

A *place* is some parts in a row. What belongs there is divided among them by the hash of the subscription's
id, and an event that visits the place visits all of them. Most places are one part, which small keys of
the same class share.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

FULL = 0.9
"""How much of the capacity is planned for: counts are estimates, and subscriptions come."""
SLACK = 1.25
"""A key may exceed the capacity so far before it gets a further part."""
SMALL = 0.25
"""What fills less than this part of the capacity is not worth a visit of its own."""


class Place(NamedTuple):
    """The parts from `first` on, `size` of them."""

    first: int
    size: int


class Group(NamedTuple):
    """Parts of one class, for people: what is filed there, in how many parts, how many are expected."""

    what: str
    parts: int
    expected: float


@dataclass
class Allotment:
    """Gives out parts, numbered from 0, and keeps account of them.

    `capacity` is counted in whatever the loads are counted in.
    """

    capacity: float
    parts: int = 0
    groups: list[Group] = field(default_factory=list)

    def is_small(self, load: float) -> bool:
        return load <= SMALL * self.capacity

    def place(self, load: float) -> Place:
        """Parts of its own for one key, as many as it takes."""
        count = max(1, ceil(load / self.capacity - (SLACK - 1)))
        self.parts += count
        return Place(self.parts - count, count)

    def hashed(self, load: float, what: str) -> Place:
        """Parts for many small keys, which a hash of the key divides among them."""
        count = max(1, ceil(load / (FULL * self.capacity)))
        self.groups.append(Group(what, count, load))
        self.parts += count
        return Place(self.parts - count, count)

    def own(self, loads: Sequence[float], what: str) -> tuple[Place, ...]:
        """A place for each load that it shares with no other."""
        before = self.parts
        places = tuple([self.place(load) for load in loads])
        self.groups.append(Group(what, self.parts - before, sum(loads)))
        return places

    def pack(self, loads: Sequence[tuple[K, float]], what: str) -> dict[K, Place]:
        """A place for each key, in the order given; keys next to one another share a part while it lasts."""
        before = self.parts
        places: dict[K, Place] = {}
        room = 0.0
        shared = Place(0, 1)
        for key, load in loads:
            if load > FULL * self.capacity:
                places[key] = self.place(load)
                continue
            if load > room:
                shared = self.place(0)
                room = FULL * self.capacity
            places[key] = shared
            room -= load
        if self.parts > before:
            self.groups.append(Group(what, self.parts - before, sum(load for _, load in loads)))
        return places

"""The parts of a rendezvous plan: ranges of them, how they are given out, and the visits of a batch.

A *range* is some parts in a row. What belongs there is divided among them by the hash of the subscription's
id, and an event that visits the range visits all of its parts. Most ranges are one part, which small keys of
the same kind share.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple, TypeVar

import numpy as np

from distributary.kernel import Flags, Ints, kernel, sealed
from distributary.matching.index import Pairs
from distributary.matching.rendezvous.keys import spread

K = TypeVar("K", bound=Hashable)

FULL = 0.9
"""How much of the capacity is planned for: counts are estimates, and subscriptions come."""
SLACK = 1.25
"""A key may exceed the capacity so far before it gets a further part."""
SMALL = 0.25
"""What fills less than this share of the capacity is not worth a visit of its own."""

Visits = tuple[Ints, Ints]
"""Rows and the parts that they visit, in any order; a pair may come twice."""


class PartRange(NamedTuple):
    """The parts from `first` on, `size` of them."""

    first: int
    size: int

    def part_of(self, fingerprint: int) -> int:
        """The part of the range to which a fingerprint is assigned."""
        return self.first + spread(fingerprint, self.size)


PROVISIONAL = PartRange(0, 1)
"""The range of every key in a draft of a plan, before parts are given out."""


class PartGroup(NamedTuple):
    """Parts of one kind, for people: what is filed there, in how many parts, how many are expected."""

    what: str
    parts: int
    expected: float


@dataclass
class PartAllotment:
    """Gives out parts, numbered from 0, and keeps account of them.

    `capacity` is counted in whatever the loads are counted in.
    """

    capacity: float
    parts: int = 0
    groups: list[PartGroup] = field(default_factory=list)

    def is_small(self, load: float) -> bool:
        """Whether a load is not worth a visit of its own."""
        return load <= SMALL * self.capacity

    def hashed(self, load: float, what: str) -> PartRange:
        """Parts for many small keys, which a hash of the key divides among them."""
        count = max(1, ceil(load / (FULL * self.capacity)))
        self.groups.append(PartGroup(what, count, load))
        return self._next(count)

    def own(self, loads: Sequence[float], what: str) -> tuple[PartRange, ...]:
        """A range for each load that it shares with no other."""
        before = self.parts
        ranges = tuple([self._for_load(load) for load in loads])
        self.groups.append(PartGroup(what, self.parts - before, sum(loads)))
        return ranges

    def pack(self, loads: Sequence[tuple[K, float]], what: str) -> dict[K, PartRange]:
        """A range for each key, in the order given; keys next to one another share a part while it lasts."""
        before = self.parts
        ranges: dict[K, PartRange] = {}
        room = 0.0
        shared = PROVISIONAL
        for key, load in loads:
            if load > FULL * self.capacity:
                ranges[key] = self._for_load(load)
                continue
            if load > room:
                shared = self._next(1)
                room = FULL * self.capacity
            ranges[key] = shared
            room -= load
        if self.parts > before:
            self.groups.append(PartGroup(what, self.parts - before, sum(load for _, load in loads)))
        return ranges

    def _for_load(self, load: float) -> PartRange:
        """Parts for one key alone, as many as it takes."""
        return self._next(max(1, ceil(load / self.capacity - (SLACK - 1))))

    def _next(self, count: int) -> PartRange:
        self.parts += count
        return PartRange(self.parts - count, count)


def combined(found: Sequence[Visits], sound: Flags, everywhere: PartRange) -> Pairs:
    """All visits of the sound rows, each once, ascending; all of them visit the parts `everywhere` too.

    Those parts come after all others. Linear in the number of visits, as long as a row visits few parts.
    """
    rows = np.concatenate([np.empty(0, np.int32), *(rows for rows, _ in found)])
    parts = np.concatenate([np.empty(0, np.int32), *(parts for _, parts in found)])
    return Pairs(*_combined(sealed(rows), sealed(parts), sealed(sound), *everywhere))


@kernel
def _combined(rows: Ints, parts: Ints, sound: Flags, first: int, size: int) -> Visits:
    # Group the visits by row, by counting.
    starts = np.zeros(len(sound) + 1, np.int64)
    for row in rows:
        starts[row + 1] += 1
    starts = np.cumsum(starts)
    following = starts[:-1].copy()
    grouped = np.empty(len(rows), np.int32)
    for visit in range(len(rows)):
        grouped[following[rows[visit]]] = parts[visit]
        following[rows[visit]] += 1
    # Insert each row's parts in order, leaving out what is there already.
    all_rows = np.empty(len(rows) + size * len(sound), np.int32)
    all_parts = np.empty(len(all_rows), np.int32)
    end = 0
    for row in range(len(sound)):
        if not sound[row]:
            continue
        begin = end
        for visit in range(starts[row], starts[row + 1]):
            part = grouped[visit]
            place = end
            while place > begin and all_parts[place - 1] > part:
                place -= 1
            if place > begin and all_parts[place - 1] == part:
                continue
            for at in range(end, place, -1):
                all_parts[at] = all_parts[at - 1]
            all_parts[place] = part
            end += 1
        for part in range(first, first + size):
            all_parts[end] = part
            end += 1
        all_rows[begin:end] = row
    return all_rows[:end], all_parts[:end]


@kernel
def append_visits(visits: Ints, count: int, row: int, first: int, size: int) -> tuple[Ints, int]:
    """Append a row's visits of `size` parts from `first` on to the `count` in the columns row and part.

    Gives the array, a larger copy where there was no room, and the new count.
    """
    if count + size > visits.shape[1]:
        larger = np.empty((2, 2 * visits.shape[1] + size), np.int32)
        larger[:, :count] = visits[:, :count]
        visits = larger
    for part in range(first, first + size):
        visits[0, count], visits[1, count] = row, part
        count += 1
    return visits, count

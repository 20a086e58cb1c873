"""Path lengths on a ring at rest, for a million nodes: routing as in `ring`, for all queries at once.

Rules:

- Nodes are named by their rank among the identifiers. Whom a query asks next depends only on the ranks that a
  node knows (successors, predecessor, fingers) and on distances, so a hop of all queries is a few passes over
  arrays: one for each place in the finger table.
- Every query takes the very hops that `Ring.route` would take; the tests compare them.
- `shortest` is what no routing can beat: the least number of messages from one node to every other if all
  tables were known, by breadth-first search over the same fingers.

Cost: 4 bytes a node and finger (128 MB for a million nodes with 32 fingers); time a few passes over the
queries for each hop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from distributary.errors import DistributaryError
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import OneWay, Rule

Ranks = NDArray[np.int32]
Identifiers = NDArray[np.int64]


@dataclass(frozen=True)
class StaticRing:
    """A ring at rest.

    >>> ring = StaticRing.of([10, 20, 30, 40, 50], Circle(6), OneWay())
    >>> ring.hops(np.array([0, 0, 4]), np.array([10, 45, 15])).tolist()
    [0, 2, 2]
    """

    members: Identifiers
    """Sorted, each once."""
    circle: Circle
    rule: Rule
    successor_count: int = 4

    @classmethod
    def of(cls, identifiers: ArrayLike, circle: Circle, rule: Rule, successor_count: int = 4) -> StaticRing:
        """The ring of these nodes."""
        members = np.unique(np.asarray(identifiers, dtype=np.int64))
        if circle.bits > 62:
            raise DistributaryError(f"identifiers of {circle.bits} bits do not fit; use at most 62")
        if not members.size or members[0] < 0 or members[-1] >= circle.size:
            raise DistributaryError(
                f"the identifiers of a ring, one or more, lie from 0 to {circle.size - 1}"
            )
        return cls(members, circle, rule, successor_count)

    @classmethod
    def random(cls, count: int, circle: Circle, rule: Rule, generator: np.random.Generator) -> StaticRing:
        """A ring of so many nodes with identifiers drawn at random, as hashing gives them."""
        members = np.unique(generator.integers(circle.size, size=count))
        while members.size < count:
            more = generator.integers(circle.size, size=count - members.size)
            members = np.unique(np.concatenate([members, more]))
        return cls.of(members, circle, rule)

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return int(self.members.size)

    def owners(self, keys: Identifiers) -> Ranks:
        """The rank of the owner of each key."""
        return (np.searchsorted(self.members, keys) % self.count).astype(np.int32)

    @cached_property
    def fingers(self) -> tuple[Ranks, ...]:
        """For each place in the finger table, the rank that each node has there.

        Places where every node has its successor or its predecessor are left out: those are known anyway.
        """
        mask = self.circle.size - 1
        here = np.arange(self.count)
        table = []
        for finger in self.rule.fingers(self.circle, 0):
            points = (self.members + finger.point) & mask
            if finger.clockwise:
                ranks = np.searchsorted(self.members, points) % self.count
                trivial = (here + 1) % self.count
            else:
                ranks = (np.searchsorted(self.members, points, side="right") - 1) % self.count
                trivial = (here - 1) % self.count
            if not np.array_equal(ranks, trivial):
                table.append(ranks.astype(np.int32))
        return tuple(table)

    def hops(self, sources: NDArray[np.integer], keys: Identifiers) -> NDArray[np.int32]:
        """How many messages it takes from each source (a rank) to the owner of each key."""
        hops = np.zeros(len(keys), dtype=np.int32)
        owners = self.owners(keys)
        place = np.asarray(sources, dtype=np.int32).copy()
        open_queries = np.flatnonzero(place != owners)
        while open_queries.size:
            here = place[open_queries]
            there = self._next(here, owners[open_queries], keys[open_queries])
            place[open_queries] = there
            hops[open_queries] += 1
            open_queries = open_queries[there != owners[open_queries]]
        return hops

    def _next(self, here: Ranks, owners: Ranks, keys: Identifiers) -> Ranks:
        """Whom each query asks next."""
        ahead = (owners - here) % self.count
        before, after = self._nearest_known(here, ahead)
        step = before
        if not isinstance(self.rule, OneWay):
            step = self._nearest(here, before, after, keys)
        step = np.where(ahead == 1, 1, step)
        return ((here + step) % self.count).astype(np.int32)

    def _nearest_known(self, here: Ranks, ahead: Ranks) -> tuple[Ranks, Ranks]:
        """The last rank known before the owner and the first from the owner on, as steps from here."""
        reach = min(self.successor_count, self.count - 1)
        before = np.minimum(reach, ahead - 1)
        after = np.where(ahead <= reach, ahead, self.count - 1)
        for ranks in self.fingers:
            step = (ranks[here] - here) % self.count
            is_before = step < ahead
            np.maximum(before, np.where(is_before, step, 0), out=before)
            np.minimum(after, np.where(is_before, self.count, step), out=after)
        return before, after

    def _nearest(self, here: Ranks, before: Ranks, after: Ranks, keys: Identifiers) -> Ranks:
        """Of here and the two known on either side of the key, the one nearest to it, as in `BothWays`."""
        own = self._distance(here, keys)
        one = self._distance((here + before) % self.count, keys)
        other = self._distance((here + after) % self.count, keys)
        step = np.where(one < own, before, 0)
        step = np.where(other < np.minimum(own, one), after, step)
        return np.where(step == 0, 1, step)

    def _distance(self, ranks: Ranks, keys: Identifiers) -> Identifiers:
        size = self.circle.size
        clockwise: Identifiers = (keys - self.members[ranks]) & (size - 1)
        shorter: Identifiers = np.minimum(clockwise, size - clockwise)
        return shorter

    def shortest(self, source: int) -> NDArray[np.int16]:
        """The least number of messages from one node (a rank) to each, whatever the routing."""
        distance = np.full(self.count, -1, dtype=np.int16)
        distance[source] = 0
        frontier = np.array([source], dtype=np.int64)
        reach = min(self.successor_count, self.count - 1)
        steps = [-1, *range(1, reach + 1)]
        depth = 0
        while frontier.size:
            depth += 1
            found = [(frontier + step) % self.count for step in steps]
            found += [ranks[frontier] for ranks in self.fingers]
            reached = np.zeros(self.count, dtype=bool)
            for ranks in found:
                reached[ranks] = True
            frontier = np.flatnonzero(reached & (distance < 0))
            distance[frontier] = depth
        return distance

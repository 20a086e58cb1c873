"""Trees of sources: which broker is the root of one, and the parent of each member.

Rules:

- The root broker of a source is the nearest to its proxy among the brokers with bandwidth left for its
  volume, where volume on little bandwidth counts as distance.
- The parent of a new member is the nearest member that has room. Parents change only when a node is removed.
- When the root is removed, another broker takes its place, chosen as for all its sources together.
- Of two trees with nearly the same members one is enough: the one whose root has bandwidth left for the
  other's sources, and the more volume.

Cost: linear in the members, for each who joins or leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.systems.queries.settings import Surroundings

BANDWIDTH = 1e6
"""Bytes a second of a broker whose bandwidth is not given."""


@dataclass
class SourceTree:
    """A tree of sources: its root and the members' parents."""

    root: Address
    parents: dict[Address, Address] = field(default_factory=dict)
    idle: set[Address] = field(default_factory=set)
    """Members that need nothing any more, and stay for those below them."""

    @property
    def members(self) -> set[Address]:
        """The root and all others."""
        return {self.root, *self.parents}

    def join(self, node: Address, surroundings: Surroundings) -> Address:
        """Make a node a member, if it is none; returns its parent."""
        self.idle.discard(node)
        if node not in self.parents:
            self.parents[node] = self._nearest([self.root, *self.parents], node, surroundings)
        return self.parents[node]

    def retire(self, node: Address) -> None:
        """Take out a member that needs nothing any more, as soon as nobody is below it."""
        self.idle.add(node)
        while free := self.idle - set(self.parents.values()):
            self.idle -= free
            for one in free:
                self.parents.pop(one, None)

    def remove(self, node: Address, surroundings: Surroundings) -> list[Address]:
        """Take a member out; returns those that were below it: their way to the root has changed."""
        self.idle.discard(node)
        if self.parents.pop(node, None) is None:
            return []
        below = self._below(node)
        self._adopt(node, [one for one in (self.root, *self.parents) if one not in below], surroundings)
        return below

    def root_candidates(self, brokers: Iterable[Address]) -> list[Address]:
        """The brokers that can replace the root: those right below it, and those that are no members.

        None of these has been forwarding to a member that will be above it, so while news of the change
        spreads there is no cycle.
        """
        return [broker for broker in brokers if self.parents.get(broker, self.root) == self.root]

    def replace_root(self, root: Address, surroundings: Surroundings) -> list[Address]:
        """Put another root in the place of a removed one; returns the members: all ways have changed."""
        removed, self.root = self.root, root
        self.parents.pop(root, None)
        self.idle.discard(root)
        self._adopt(removed, [root, *self._below(root)], surroundings)
        return list(self.parents)

    def _nearest(self, members: Sequence[Address], node: Address, surroundings: Surroundings) -> Address:
        """The nearest of some members that has room for a child; the root if none has."""
        taken = list(self.parents.values())
        able = [one for one in members if taken.count(one) < surroundings.fanout] or [self.root]
        return min(able, key=lambda one: (surroundings.latency(one, node), one))

    def _below(self, node: Address) -> list[Address]:
        """The members whose way to the root leads by a node."""
        found = [node]
        for one in found:
            found += [child for child, parent in self.parents.items() if parent == one]
        return found[1:]

    def _adopt(self, removed: Address, members: list[Address], surroundings: Surroundings) -> None:
        """Give those right below a removed node parents among members, or those who have such by now."""
        for orphan in [node for node, parent in self.parents.items() if parent == removed]:
            self.parents[orphan] = self._nearest(members, orphan, surroundings)
            members += [orphan, *self._below(orphan)]


class SourceFeed(NamedTuple):
    """The proxy of a source, and how many bytes a second it has."""

    proxy: Address
    volume: float


def best_root(
    feeds: Sequence[SourceFeed],
    brokers: Iterable[Address],
    surroundings: Surroundings,
    spent: Mapping[Address, float],
) -> Address:
    """The best of some brokers as the root of sources, given the bandwidth that brokers have spent already.

    >>> best_root([SourceFeed(1, 10.0)], [1, 2, 3], Surroundings(bandwidth={1: 5.0}), {})
    2
    """
    volume = sum(feed.volume for feed in feeds)

    def worth(broker: Address) -> tuple[bool, float, Address]:
        left = surroundings.bandwidth.get(broker, BANDWIDTH) - spent.get(broker, 0.0)
        distance = sum(surroundings.delay(proxy, broker) for proxy, _ in feeds)
        full = left <= volume
        return full, distance + (0.0 if full else volume / left), broker

    return min(brokers, key=worth)


def mergeable(
    trees: Sequence[SourceTree],
    volumes: Mapping[int, float],
    likeness: float,
    surroundings: Surroundings,
    spent: Mapping[Address, float],
) -> tuple[int, int] | None:
    """The tree to give up, and the one to keep, of the two that are most alike; None if none are.

    `volumes` has the bytes a second of the sources of each tree that has any.

    >>> trees = [SourceTree(1, {2: 1, 3: 1}), SourceTree(2, {1: 2, 3: 2}), SourceTree(3)]
    >>> mergeable(trees, {0: 10.0, 1: 20.0, 2: 5.0}, 0.8, Surroundings(), {})
    (0, 1)
    """
    found = []
    for one, other in permutations(volumes, 2):
        mine, theirs = trees[one].members, trees[other].members
        alike = len(mine & theirs) / len(mine | theirs)
        root = trees[other].root
        left = surroundings.bandwidth.get(root, BANDWIDTH) - spent.get(root, 0.0)
        if alike >= likeness and left > volumes[one]:
            found.append((alike, volumes[other], one, other))
    best = max(found, default=None)
    return None if best is None else best[2:]

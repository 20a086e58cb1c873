"""Trees of sources: who is the root of one, and by whom each member gets what it wants.

Rules:

- The root broker of a source is, of those with bandwidth left for its volume, the one that is nearest to its
  proxy, where volume on little bandwidth counts as distance.
- The parent of a new member is the nearest member that has room. Parents change only when somebody is gone.
- When the root is gone, another broker takes its place, chosen as for all its sources together.
- Of two trees with nearly the same members one is enough: the one whose root has bandwidth left for the
  other's sources, and the more volume.

Cost: linear in the members, for each who joins or leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import NamedTuple

from distributary.overlay.node import Address

BANDWIDTH = 1e6
"""Bytes a second of a broker of which nothing else is said."""


@dataclass(frozen=True)
class Surroundings:
    """What is known of the network below."""

    latency: Callable[[Address, Address], float] = lambda one, other: 1.0
    """Seconds from one node to another."""
    bandwidth: Mapping[Address, float] = field(default_factory=dict)
    """Bytes a second that a broker can send."""
    brokers: Sequence[Address] = ()
    """Who can be a root broker."""
    most_trees: int = 4
    fanout: int = 4


@dataclass(frozen=True)
class Regrouping:
    """How often trees that have nearly the same members are looked for, to be merged."""

    period: float = 60.0
    likeness: float = 0.8
    """Of all who are a member of either, how many must be of both."""


@dataclass
class SourceTree:
    """A tree of sources: its root and the members' parents."""

    root: Address
    parents: dict[Address, Address] = field(default_factory=dict)
    idle: set[Address] = field(default_factory=set)
    """Members that need nothing any more, and stay for those below them."""

    @property
    def members(self) -> set[Address]:
        return {self.root, *self.parents}

    def join(self, node: Address, surroundings: Surroundings) -> Address:
        """The parent of a node, which is a member from now on."""
        self.idle.discard(node)
        if node not in self.parents:
            taken = list(self.parents.values())
            able = [one for one in (self.root, *self.parents) if taken.count(one) < surroundings.fanout]
            self.parents[node] = min(able, key=lambda one: (surroundings.latency(one, node), one))
        return self.parents[node]

    def retire(self, node: Address) -> None:
        """Take out a member that needs nothing any more, as soon as nobody is below it."""
        self.idle.add(node)
        while free := self.idle - set(self.parents.values()):
            self.idle -= free
            for one in free:
                self.parents.pop(one, None)

    def leave(self, gone: Address, surroundings: Surroundings) -> list[Address]:
        """Take a member out; returns those that were below it, whose way to the root is another now."""
        self.idle.discard(gone)
        if self.parents.pop(gone, None) is None:
            return []
        below = self._below(gone)
        self._adopt(gone, [one for one in (self.root, *self.parents) if one not in below], surroundings)
        return below

    def heirs(self, brokers: Iterable[Address]) -> list[Address]:
        """Who can take the root's place: brokers right below it, and others that are no members.

        None of these has been passing anything on to a member that will be below it, so that while news of
        the change spreads there is no circle.
        """
        return [broker for broker in brokers if self.parents.get(broker, self.root) == self.root]

    def inherit(self, heir: Address, surroundings: Surroundings) -> list[Address]:
        """Take another root in the place of one that is gone; returns the members: their ways are others."""
        gone, self.root = self.root, heir
        self.parents.pop(heir, None)
        self.idle.discard(heir)
        self._adopt(gone, [heir, *self._below(heir)], surroundings)
        return list(self.parents)

    def _below(self, node: Address) -> list[Address]:
        """Those whose way to the root leads by a node."""
        found = [node]
        for one in found:
            found += [child for child, parent in self.parents.items() if parent == one]
        return found[1:]

    def _adopt(self, gone: Address, members: list[Address], surroundings: Surroundings) -> None:
        """Give those who were right below a node parents among members, or those who have such by now."""
        for orphan in [node for node, parent in self.parents.items() if parent == gone]:
            taken = list(self.parents.values())
            able = [one for one in members if taken.count(one) < surroundings.fanout] or [self.root]
            self.parents[orphan] = min(able, key=lambda one: (surroundings.latency(one, orphan), one))
            members += [orphan, *self._below(orphan)]


class SourceFeed(NamedTuple):
    """Where a source comes from, and how many bytes a second it has."""

    proxy: Address
    volume: float


def best_root(
    feeds: Sequence[SourceFeed],
    brokers: Iterable[Address],
    surroundings: Surroundings,
    spent: Mapping[Address, float],
) -> Address:
    """The best of some brokers as the root of sources, where brokers have spent bandwidth already.

    >>> best_root([SourceFeed(1, 10.0)], [1, 2, 3], Surroundings(bandwidth={1: 5.0}), {})
    2
    """
    volume = sum(feed.volume for feed in feeds)

    def worth(broker: Address) -> tuple[bool, float, Address]:
        left = surroundings.bandwidth.get(broker, BANDWIDTH) - spent.get(broker, 0.0)
        ways = [0.0 if broker == proxy else surroundings.latency(proxy, broker) for proxy, _ in feeds]
        full = left <= volume
        return full, sum(ways) + (0.0 if full else volume / left), broker

    return min(brokers, key=worth)


def mergeable(
    trees: Sequence[SourceTree],
    volumes: Mapping[int, float],
    likeness: float,
    surroundings: Surroundings,
    spent: Mapping[Address, float],
) -> tuple[int, int] | None:
    """The tree to give up, and the one to go on with, of the two that are most alike; None if none are.

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

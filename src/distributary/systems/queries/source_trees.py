"""Trees of sources: which broker is the root of one, and the parent of each member.

Rules:

- The root broker of a source is the nearest to its proxy among the brokers with bandwidth left for its
  volume, where volume on little bandwidth counts as distance.
- The parent of a new member is chosen among those that have room by what the goal asks for: the nearest, the
  one with the least time from the root, or the one with the fewest children.
- When the root is removed, another broker takes its place, chosen as for all its sources together.
- Of two trees with nearly the same members one is enough: the one whose root has bandwidth left for the
  other's sources, and the more volume.

Cost: linear in the members, for each who joins or leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, permutations
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.plan.queries.spreading import ParentPreference
from distributary.systems.queries.links import LinkTable


@dataclass
class SourceTree:
    """A tree of sources: its root and the members' parents."""

    root: Address
    parents: dict[Address, Address] = field(default_factory=dict)
    idle: set[Address] = field(default_factory=set)
    """Members that need nothing any more, and stay for those below them."""
    unsettled: set[Address] = field(default_factory=set)
    """Members that have not said yet that they know the parent which a rule gave them."""

    @property
    def members(self) -> set[Address]:
        """The root and all others."""
        return {self.root, *self.parents}

    def children(self, node: Address) -> int:
        """How many nodes are right below a member."""
        return sum(parent == node for parent in self.parents.values())

    def path(self, node: Address) -> list[Address]:
        """The members from one to the root, both included.

        >>> SourceTree(1, {2: 1, 3: 2}).path(3)
        [3, 2, 1]
        """
        found = [node]
        while found[-1] != self.root:
            found.append(self.parents[found[-1]])
        return found

    def join(self, node: Address, choice: ParentChoice) -> Address:
        """Make a node a member, if it is none; returns its parent."""
        self.idle.discard(node)
        if node not in self.parents:
            self.parents[node] = choice.best(self, [self.root, *self.parents], node)
        return self.parents[node]

    def retire(self, node: Address) -> None:
        """Take out a member that needs nothing any more, as soon as nobody is below it."""
        self.idle.add(node)
        self._release_idle()

    def _release_idle(self) -> None:
        """Take out the members that stayed only for those below them, where nobody is left."""
        while free := self.idle - set(self.parents.values()):
            self.idle -= free
            self.unsettled -= free
            for one in free:
                self.parents.pop(one, None)

    def remove(self, node: Address, choice: ParentChoice) -> list[Address]:
        """Take a member out; returns those that were below it: their way to the root has changed."""
        self.idle.discard(node)
        self.unsettled.discard(node)
        if self.parents.pop(node, None) is None:
            return []
        below = self.below(node)
        self._adopt(node, [one for one in (self.root, *self.parents) if one not in below], choice)
        self._release_idle()
        return [one for one in below if one in self.parents]

    def root_candidates(self, brokers: Iterable[Address]) -> list[Address]:
        """The brokers that can replace the root: those right below it, and those that are no members.

        None of these has been forwarding to a member that will be above it, so while news of the change
        spreads there is no cycle.
        """
        return [broker for broker in brokers if self.parents.get(broker, self.root) == self.root]

    def replace_root(self, root: Address, choice: ParentChoice) -> list[Address]:
        """Put another root in the place of a removed one; returns the members: all ways have changed."""
        removed, self.root = self.root, root
        self.parents.pop(root, None)
        self.idle.discard(root)
        self._adopt(removed, [root, *self.below(root)], choice)
        return list(self.parents)

    def below(self, node: Address) -> list[Address]:
        """The members whose way to the root leads by a node."""
        found = [node]
        for one in found:
            found += [child for child, parent in self.parents.items() if parent == one]
        return found[1:]

    def _adopt(self, removed: Address, members: list[Address], choice: ParentChoice) -> None:
        """Give those right below a removed node parents among members, or those who have such by now."""
        for orphan in [node for node, parent in self.parents.items() if parent == removed]:
            self.parents[orphan] = choice.best(self, members, orphan)
            members += [orphan, *self.below(orphan)]


class ParentChoice(NamedTuple):
    """How the parent of a node is chosen: among members that have room for a child."""

    links: LinkTable
    fanout: int
    prefer: ParentPreference = ParentPreference.NEAREST

    def best(self, tree: SourceTree, members: Sequence[Address], node: Address) -> Address:
        """The best of some members; the root if none has room."""
        able = [one for one in members if tree.children(one) < self.fanout] or [tree.root]

        def worth(one: Address) -> tuple[float, float, Address]:
            distance = self.links.latency(one, node)
            match self.prefer:
                case ParentPreference.NEAREST:
                    return distance, 0.0, one
                case ParentPreference.SHORTEST_PATH:
                    return self.path_latency(tree, one) + distance, distance, one
                case ParentPreference.FEWEST_CHILDREN:
                    return tree.children(one), distance, one

        return min(able, key=worth)

    def path_latency(self, tree: SourceTree, node: Address) -> float:
        """Seconds from the root of a tree to a member."""
        return sum(self.links.latency(above, below) for below, above in pairwise(tree.path(node)))


class SourceFeed(NamedTuple):
    """The proxy of a source, and how many bytes a second it has."""

    proxy: Address
    volume: float


def best_root(
    feeds: Sequence[SourceFeed],
    brokers: Iterable[Address],
    links: LinkTable,
    left: Callable[[Address], float],
) -> Address:
    """The best of some brokers as the root of sources, given the bandwidth that each has left.

    >>> best_root([SourceFeed(1, 10.0)], [1, 2, 3], LinkTable(), {1: 5.0, 2: 50.0, 3: 50.0}.__getitem__)
    2
    """
    volume = sum(feed.volume for feed in feeds)

    def worth(broker: Address) -> tuple[bool, float, Address]:
        distance = sum(links.latency(proxy, broker) for proxy, _ in feeds)
        full = left(broker) <= volume
        return full, distance + (0.0 if full else volume / left(broker)), broker

    return min(brokers, key=worth)


def mergeable(
    trees: Sequence[SourceTree],
    volumes: Mapping[int, float],
    likeness: float,
    left: Callable[[Address], float],
) -> tuple[int, int] | None:
    """The tree to give up, and the one to keep, of the two that are most alike; None if none are.

    `volumes` has the bytes a second of the sources of each tree that has any, `left` gives the bandwidth that
    a broker has left.

    >>> trees = [SourceTree(1, {2: 1, 3: 1}), SourceTree(2, {1: 2, 3: 2}), SourceTree(3)]
    >>> mergeable(trees, {0: 10.0, 1: 20.0, 2: 5.0}, 0.8, lambda broker: 100.0)
    (0, 1)
    """
    found = []
    for one, other in permutations(volumes, 2):
        mine, theirs = trees[one].members, trees[other].members
        alike = len(mine & theirs) / len(mine | theirs)
        if alike >= likeness and left(trees[other].root) > volumes[one]:
            found.append((alike, volumes[other], one, other))
    best = max(found, default=None)
    return None if best is None else best[2:]

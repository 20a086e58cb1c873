"""What the registry knows of sources: their trees, the root brokers, and the links between nodes.

Rules:

- A source gets a root broker (`source_trees`). All sources of one root broker share a tree, and there are at
  most `most_trees` trees. When a root broker is removed, another is chosen in its place, and all members of
  the tree are told their parents.
- Now and then the sources of a tree are moved to another that has nearly the same members (003, 5.2). The
  registry knows the members of all trees, so it compares them as they are, and needs no Bloom filters.
- A node that wants a stream of a tree joins it once.
- Trees are restructured now and then, one rule at a time (`tree_rules`).
- Roots and parents are chosen by what nodes have measured of the links between them and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import NamedTuple

from distributary.flow import Source
from distributary.overlay.node import Address, Message, Node
from distributary.plan.queries.spreading import ParentPreference
from distributary.systems.queries import messages
from distributary.systems.queries.links import LinkReport, LinkTable
from distributary.systems.queries.messages import StreamLocation
from distributary.systems.queries.own_metrics import OwnMetricsReport
from distributary.systems.queries.settings import Surroundings
from distributary.systems.queries.source_trees import (
    ParentChoice,
    SourceFeed,
    SourceTree,
    best_root,
    mergeable,
)
from distributary.systems.queries.tree_rules import restructure

Send = Callable[[Address, Message], None]


class MergeCheck(NamedTuple):
    """It is time to look for trees that share so many members; the registry sends this to itself."""

    likeness: float


class RestructuringCheck(NamedTuple):
    """It is time to restructure trees; the registry sends this to itself."""


class SourceRegistry:
    """Sources and trees: the part of the registry that `QueryRegistry` adds queries to."""

    def __init__(self, node: Node, around: Surroundings, send: Send) -> None:
        self.surroundings = around
        self.sources: dict[str, Source] = {}
        self.locations: dict[str, StreamLocation] = {}
        self.trees: list[SourceTree] = []
        self.removed: set[Address] = set()
        """Brokers that have been removed: nothing is placed there."""
        self.merged = 0
        """How many trees had their sources moved to another."""
        self.restructured = 0
        """How often a rule was applied to a tree."""
        self._spent: dict[Address, float] = {}
        """The bandwidth of root brokers that their sources take."""
        self.links = LinkTable()
        """The links between nodes, as these have measured them."""
        self.speeds: dict[Address, float] = {}
        """Cycles a second of the processors of nodes."""
        self.own_metrics: dict[Address, OwnMetricsReport] = {}
        """What nodes have told of the user's own metrics."""
        self._feeds: dict[str, SourceFeed] = {}
        """The proxy and volume of each source."""
        self._nodes: set[Address] = {*around.brokers, node.address}
        self._send = send

    def _refuse(self, to: Address, name: str, reason: str) -> None:
        self._send(to, messages.RegistrationRefusal(name, reason))

    # Measurements

    @property
    def parent_choice(self) -> ParentChoice:
        """How the parents of nodes in trees are chosen."""
        around = self.surroundings
        return ParentChoice(self.links, around.fanout, around.prefer or ParentPreference.NEAREST)

    def _link_report(self, message: LinkReport, sender: Address) -> None:
        if sender not in self.removed:
            self.speeds[sender] = message.speed
            self.links.learn(sender, message.links)

    def _own_metrics_report(self, message: OwnMetricsReport, sender: Address) -> None:
        if sender not in self.removed:
            self.own_metrics[sender] = message

    def _bandwidth_left(self, broker: Address) -> float:
        able = min(self.surroundings.bandwidth.get(broker, inf), self.links.line(broker))
        return able - self._spent.get(broker, 0.0)

    # Sources

    def _register_source(self, message: messages.RegisterSource, sender: Address) -> None:
        source, proxy, volume = message
        if source.name in self.sources:
            self._refuse(sender, source.name, "there is a source of this name already")
            return
        used = [self.trees[number].root for number in self._used_trees()]
        full = len(used) >= self.surroundings.most_trees
        self._feeds[source.name] = SourceFeed(proxy, volume)
        root = self._root_for([source.name], used if full else self._brokers() or [proxy])
        roots = [tree.root for tree in self.trees]
        if root not in roots:
            self.trees.append(SourceTree(root))
            roots.append(root)
        self.sources[source.name] = source
        self.locations[source.name] = StreamLocation(root, roots.index(root))
        self._announce_root(source.name)

    def _brokers(self) -> list[Address]:
        """The brokers that have not been removed."""
        return [broker for broker in self.surroundings.brokers if broker not in self.removed]

    def _used_trees(self) -> list[int]:
        """The trees that have sources."""
        return sorted({tree for name in self.sources if (tree := self.locations[name].tree) is not None})

    def _sources_of(self, tree: int) -> list[str]:
        return [name for name in self.sources if self.locations[name].tree == tree]

    def _root_for(self, sources: Sequence[str], brokers: Iterable[Address]) -> Address:
        feeds = [self._feeds[name] for name in sources]
        root = best_root(feeds, brokers, self.links, self._bandwidth_left)
        self._spent[root] = self._spent.get(root, 0.0) + sum(feed.volume for feed in feeds)
        return root

    def _announce_root(self, source: str) -> None:
        location, proxy = self.locations[source], self._feeds[source].proxy
        for address in dict.fromkeys((location.host, proxy)):
            self._send(address, messages.SourceRoot(self.sources[source], location, proxy))

    def _join_tree(self, message: messages.JoinTree, sender: Address) -> None:
        tree = self.trees[message.tree]
        if sender != tree.root:  # a root may ask before it has heard that it is one
            parent = tree.join(sender, self.parent_choice)
            self._send(sender, messages.TreeParent(message.tree, parent))

    def remove_node(self, removed: Address) -> None:
        """Place nothing at a node any more; those below it in a tree get other parents, or another root."""
        self.removed.add(removed)
        self.links.forget(removed)
        self.speeds.pop(removed, None)
        self.own_metrics.pop(removed, None)
        for number, tree in enumerate(self.trees):
            lost_root = tree.root == removed
            told = self._replace_root(number) if lost_root else tree.remove(removed, self.parent_choice)
            for node in told:
                self._send(node, messages.TreeParent(number, tree.parents[node]))

    def _replace_root(self, number: int) -> list[Address]:
        """Choose another root broker of a tree; returns the members, whose ways have changed."""
        tree, names = self.trees[number], self._sources_of(number)
        root = self._root_for(names, tree.root_candidates(self._brokers()))
        members = tree.replace_root(root, self.parent_choice)
        for name in names:
            self.locations[name] = self.locations[name]._replace(host=root)
            self._announce_root(name)
        return members

    def _merge_check(self, message: MergeCheck, sender: Address) -> None:
        volumes = {
            number: sum(self._feeds[name].volume for name in self._sources_of(number))
            for number in self._used_trees()
        }
        pair = mergeable(self.trees, volumes, message.likeness, self._bandwidth_left)
        if pair is not None:
            self.merge(*pair)

    def _restructuring_check(self, message: RestructuringCheck, sender: Address) -> None:
        for number in self._used_trees():
            tree = self.trees[number]
            told = restructure(tree, self.parent_choice)
            self.restructured += bool(told)
            for node in told:
                self._send(node, messages.TreeParent(number, tree.parents[node]))

    def _parent_confirmed(self, message: messages.TreeParentConfirmation, sender: Address) -> None:
        self.trees[message.tree].unsettled.discard(sender)

    def merge(self, number: int, into: int) -> None:
        """Move the sources of a tree to another; their readers hear of it from above."""
        self.merged += 1
        former, root = self.trees[number].root, self.trees[into].root
        for name in self._sources_of(number):
            volume = self._feeds[name].volume
            self._spent[former] = self._spent.get(former, 0.0) - volume
            self._spent[root] = self._spent.get(root, 0.0) + volume
            self.locations[name] = StreamLocation(root, into, self.locations[name].version + 1)
            self._announce_root(name)

"""The tree algorithm: a subscription is a path of edges from the root (section III.A of the topic paper).

- Each level of a filter is an edge, labelled with the value or with the wildcard (`WILDCARD`, which no
  value equals). Equal beginnings share edges. First edges of the two syntaxes have labels of their own
  (`labels_of`).
- The edge on which a filter ends holds its destinations, those of open and those of closed filters apart.
- An edge counts the destinations that can be reached through it. One that counts none is removed, from the
  bottom up, and a node goes with its last edge; pruning stops at the first edge that is still needed.
- A node exists only where an edge leaves it, so a filter of m levels adds at most m edges and m - 1 nodes.

Match: at each node at most two edges, the value's and the wildcard's: O(2^m) in the worst case for m levels,
O(m) without wildcards; independent of the number of filters. Add and remove: O(m). Memory: O(n m).
"""

from __future__ import annotations

from sys import intern
from typing import ClassVar

from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.matching.topic.index import TopicIndex, labels_of, labels_seen


class Edge:
    """One level of the filters that share a beginning."""

    __slots__ = ("closed", "node", "open", "references")

    def __init__(self) -> None:
        self.references = 0
        self.open: set[int] | None = None
        self.closed: set[int] | None = None
        self.node: Node | None = None


Node = dict[str, Edge]


class TopicTree(TopicIndex):
    """The tree-based matcher of the topic paper.

    >>> index = TopicTree()
    >>> index.add(7, TopicFilter.parse("Streams/Sensor/*/Pressure"))
    >>> index.destinations("Streams/Sensor/Fluid/Pressure")
    [7]
    >>> index.nodes, index.edges
    (4, 4)
    """

    name: ClassVar[str] = "tree"

    def __init__(self) -> None:
        super().__init__()
        self._root: Node = {}
        self._nodes = 1
        self._edges = 0

    @property
    def nodes(self) -> int:
        """How many nodes there are, the root among them (Figure 6)."""
        return self._nodes

    @property
    def edges(self) -> int:
        """How many edges there are (Figure 6)."""
        return self._edges

    def insert(self, slot: int, filter: TopicFilter) -> None:
        """Follow the filter's levels from the root, making edges where there are none."""
        labels = labels_of(filter)
        edge = self._edge(self._root, labels[0])
        for level in labels[1:]:
            if edge.node is None:
                edge.node = {}
                self._nodes += 1
            edge = self._edge(edge.node, level)
        if filter.open:
            edge.open = edge.open or set()
            edge.open.add(slot)
        else:
            edge.closed = edge.closed or set()
            edge.closed.add(slot)

    def discard(self, slot: int, filter: TopicFilter) -> None:
        """Take the slot off the last edge and prune from the bottom up."""
        labels = labels_of(filter)
        path = self._path(labels)
        last = path[-1]
        for holder in (last.open, last.closed):
            if holder is not None:
                holder.discard(slot)
        last.open = last.open or None
        last.closed = last.closed or None
        for edge in path:
            edge.references -= 1
        self._prune(labels, path)

    def destinations(self, topic: str) -> list[int]:
        """Follow the value's edge and the wildcard's, level by level."""
        found: list[int] = []
        for firsts, values in labels_seen(topic):
            self._follow(firsts, values, found)
        return found

    def _follow(self, firsts: tuple[str, ...], values: list[str], found: list[int]) -> None:
        nodes = [self._root]
        for number, value in enumerate(values, 1):
            choices = firsts if number == 1 else (value, WILDCARD)
            below: list[Node] = []
            for node in nodes:
                for choice in choices:
                    edge = node.get(choice)
                    if edge is None:
                        continue
                    if edge.open is not None:
                        found.extend(edge.open)
                    if edge.closed is not None and number == len(values):
                        found.extend(edge.closed)
                    if edge.node is not None:
                        below.append(edge.node)
            if not below:
                return
            nodes = below

    def structure(self) -> object:
        """The root, which leads to everything."""
        return self._root

    def _edge(self, node: Node, level: str) -> Edge:
        """The edge with that label, made if need be, with one destination more to be reached."""
        edge = node.get(level)
        if edge is None:
            edge = node[intern(level)] = Edge()
            self._edges += 1
        edge.references += 1
        return edge

    def _path(self, labels: tuple[str, ...]) -> list[Edge]:
        path = []
        node: Node | None = self._root
        for level in labels:
            assert node is not None, "every edge above a destination leads to a node"
            path.append(node[level])
            node = path[-1].node
        return path

    def _prune(self, levels: tuple[str, ...], path: list[Edge]) -> None:
        for number in reversed(range(len(path))):
            if path[number].references:
                return
            above = path[number - 1].node if number else self._root
            assert above is not None, "an edge leaves a node"
            del above[levels[number]]
            self._edges -= 1
            if not above and number:
                path[number - 1].node = None
                self._nodes -= 1

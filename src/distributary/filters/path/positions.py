"""Positions along an axis: which nodes stand at a position that a predicate asks for.

On most axes every node that a step begins from has a list of its own. All lists of a step are stretches of
one numbering of the nodes that pass: below a node, behind it, among its siblings. So a list is two numbers,
what a range of positions selects of it is two more, and all of them together take time in proportion to the
nodes. Only the ancestors of a node are no stretch; they are walked up for all nodes at once, level by level.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from distributary.filters.path import xpath
from distributary.filters.path.numbered import NodeSet, NumberedNodes, Numbers
from distributary.filters.path.pattern import RELATIONS
from distributary.filters.path.read_xpath import range_of
from distributary.filters.path.xpath import Expression, XPathAxis

_SIBLINGS = (XPathAxis.FOLLOWING_SIBLING, XPathAxis.PRECEDING_SIBLING)
_ANCESTORS = (XPathAxis.ANCESTOR, XPathAxis.ANCESTOR_OR_SELF)

Stretch = tuple[Numbers, Numbers]
"""By origin: the first place in the numbering, and one beyond the last."""


def ranked(groups: Numbers) -> tuple[Numbers, Numbers]:
    """By member: its position in its group, from 1, and the group's size; members keep their order.

    >>> ranked(np.array([7, 3, 7, 7]))
    (array([1, 1, 2, 3]), array([3, 1, 3, 3]))
    """
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    first, last = np.searchsorted(ordered, ordered), np.searchsorted(ordered, ordered, "right")
    position, size = np.empty((2, len(groups)), np.int64)
    position[order] = np.arange(1, len(groups) + 1) - first
    size[order] = last - first
    return position, size


class PositionLists:
    """The lists of one step: for each node, the nodes that its axis leads to, among those `counted`."""

    def __init__(
        self, nodes: NumberedNodes, axis: XPathAxis, counted: NodeSet, predicate: Expression
    ) -> None:
        self.nodes = nodes
        self.axis = axis
        self.counted = counted
        found = range_of(predicate)
        assert found is not None, "other predicates are refused when they are read"
        self.relation, self.base, self.offset = found

    def along(self, origins: NodeSet) -> NodeSet:
        """The nodes that stand at the positions asked for in the lists of these origins."""
        numbers = np.flatnonzero(origins)
        found = np.zeros(self.nodes.size, np.bool_)
        if self.axis in _ANCESTORS:
            for here, chosen in self._climbing(numbers):
                found[here[chosen]] = True
            return found
        order, stretch = self._stretches(numbers)
        for low, high in self._cut(stretch):
            change = np.zeros(len(order) + 1, np.int64)
            some = low < high
            np.add.at(change, low[some], 1)
            np.subtract.at(change, high[some], 1)
            found[order[np.cumsum(change)[:-1] > 0]] = True
        alone = self._attributes_themselves(numbers)
        found[alone] = True
        return found

    def against(self, targets: NodeSet) -> NodeSet:
        """The origins in whose lists some of the targets stand at the positions asked for."""
        numbers = np.arange(self.nodes.size)
        found = np.zeros(self.nodes.size, np.bool_)
        if self.axis in _ANCESTORS:
            for here, chosen in self._climbing(numbers):
                found |= chosen & targets[here]
            return found
        order, stretch = self._stretches(numbers)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(targets[order])])
        for low, high in self._cut(stretch):
            some = low < high
            found[some] |= before[high[some]] > before[low[some]]
        alone = self._attributes_themselves(numbers)
        found[alone] |= targets[alone]
        return found

    def _stretches(self, origins: Numbers) -> tuple[Numbers, Stretch]:
        """The numbering of the counted nodes, and each origin's stretch of it."""
        nodes, axis = self.nodes, self.axis
        order = np.flatnonzero(self.counted & ~nodes.is_attribute)
        if axis in _SIBLINGS:
            order = order[order > 0]
            size = nodes.size
            keys = nodes.parent[order] * size + order
            place = np.argsort(keys)
            order, keys = order[place], keys[place]
            own = nodes.parent[origins] * size + origins
            if axis is XPathAxis.FOLLOWING_SIBLING:
                low = np.searchsorted(keys, own, "right")
                high = np.searchsorted(keys, (nodes.parent[origins] + 1) * size)
            else:
                low = np.searchsorted(keys, nodes.parent[origins] * size)
                high = np.searchsorted(keys, own)
            high = np.where(nodes.is_attribute[origins] | (origins == 0), low, high)
            return order, (low, high)
        end = nodes.end[origins]
        if axis is XPathAxis.FOLLOWING:
            return order, (np.searchsorted(order, end), np.full(len(origins), len(order)))
        below = np.searchsorted(order, origins + (axis is XPathAxis.DESCENDANT))
        return order, (below, np.searchsorted(order, end))

    def _attributes_themselves(self, origins: Numbers) -> Numbers:
        """The attributes among the origins that stand in their own lists: no stretch has them."""
        if self.axis is not XPathAxis.DESCENDANT_OR_SELF:
            return origins[:0]
        own = origins[self.nodes.is_attribute[origins] & self.counted[origins]]
        one = np.ones(len(own), np.int64)
        chosen = np.zeros(len(own), np.bool_)
        for low, high in self._ranges(one):
            chosen |= (low <= 1) & (high >= 1)
        return own[chosen]

    def _cut(self, stretch: Stretch) -> Iterator[Stretch]:
        """What the positions asked for are of each stretch, as one or two stretches."""
        low, high = stretch
        size = np.maximum(high - low, 0)
        for first, last in self._ranges(size):
            first, last = np.clip(first, 1, size + 1), np.clip(last, 0, size)
            if self.axis is XPathAxis.PRECEDING_SIBLING:
                yield high - last, high - first + 1
            else:
                yield low + first - 1, low + last

    def _ranges(self, size: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
        """The first and the last position asked for in lists of these sizes; once more for `!=`."""
        bound = self.offset + (size.astype(np.float64) if self.base == xpath.LAST else np.zeros(len(size)))
        relation = self.relation
        if relation.startswith("last "):
            holds = RELATIONS[relation.removeprefix("last ")](size, bound)
            yield np.ones(len(size), np.int64), np.where(holds, size, 0)
            return
        # Beyond what any list can have, all numbers are alike.
        bound = np.clip(bound, -1.0, self.nodes.size + 1.0)
        whole = np.floor(bound).astype(np.int64)
        exact = whole == bound
        everything = np.full(len(size), self.nodes.size + 2)
        if relation == "=":
            yield whole, np.where(exact, whole, 0)
        if relation in ("<", "<=", "!="):
            inclusive = relation == "<="
            yield np.ones(len(size), np.int64), np.where(exact & (not inclusive), whole - 1, whole)
        if relation in (">", ">=", "!="):
            inclusive = relation == ">="
            yield np.where(exact & inclusive, whole, whole + 1), everything

    def _climbing(self, origins: Numbers) -> Iterator[tuple[Numbers, NodeSet]]:
        """Level by level, the ancestors of all origins, and which of them stand where asked for."""
        size = np.zeros(len(origins), np.int64)
        for here, counts in self._levels(origins):
            size += counts & self.counted[here]
        position = np.zeros(len(origins), np.int64)
        ranges = list(self._ranges(size))
        for here, counts in self._levels(origins):
            stands = counts & self.counted[here]
            position += stands
            chosen = np.zeros(len(origins), np.bool_)
            for first, last in ranges:
                chosen |= stands & (first <= position) & (position <= last)
            yield here, chosen

    def _levels(self, origins: Numbers) -> Iterator[tuple[Numbers, NodeSet]]:
        """The node above each origin, level by level, and whether there is one."""
        parent, here = self.nodes.parent, origins
        exists = np.ones(len(origins), np.bool_)
        if self.axis is XPathAxis.ANCESTOR_OR_SELF:
            yield here, exists
        while True:
            exists = exists & (here > 0)
            if not exists.any():
                return
            here = parent[here]
            yield here, exists

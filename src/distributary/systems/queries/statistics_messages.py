"""The messages of a round of statistics, and how the registry begins one.

They are kinds of their own, so that metrics tell what statistics cost. `statistics` and `node_model` say what
is done with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.plan.trees.tree import Tree


class NodeValue(NamedTuple):
    """The goal's value of a node."""

    site: Address
    value: float


class SourceRate(NamedTuple):
    """What a stream carries in a second."""

    stream: str
    items: float
    bytes: float


class StreamDemand(NamedTuple):
    """How much of a stream is asked for, in parts of the planner's `WHOLE`; more where several ask for it."""

    stream: str
    share: int


class TreePosition(NamedTuple):
    """Where a node is in a tree."""

    root: Address
    parent: Address | None
    children: tuple[Address, ...]
    levels: int
    """Below the node."""
    height: int
    """Levels of the whole tree."""


class RoundAnnouncement(NamedTuple):
    """A period begins; from the registry to each broker."""

    period: int
    brokers: int
    queries: int
    positions: tuple[TreePosition, ...]
    """In each tree."""


class UpwardStatistics(NamedTuple):
    """From a node to its parent: what it knows of itself and of the nodes below."""

    period: int
    tree: int
    values: tuple[NodeValue, ...]
    widest: float
    """The worst value below: no node there wants to hear of worse."""
    worst: tuple[NodeValue, ...]
    total: float
    """What all nodes below together contribute to the cost."""
    demand: tuple[StreamDemand, ...]
    below: tuple[tuple[Address, int], ...]
    """Nodes below, and how many levels."""


class DownwardStatistics(NamedTuple):
    """From a node to one of its children: what the nodes there can use of what is known above."""

    period: int
    tree: int
    values: tuple[NodeValue, ...]
    worst: tuple[NodeValue, ...]
    total: float
    path_cost: float
    """From the root to the sender: the values of the links together."""
    rates: tuple[SourceRate, ...]
    above: tuple[Address, ...]
    """Nodes above the sender, the nearest first."""
    siblings: tuple[Address, ...]
    """The sender's other children."""


class SendRate(NamedTuple):
    """The bytes a second that the operators of a node send to another one, all streams together."""

    period: int
    bytes: float


class FilterRates(NamedTuple):
    """Filters that read an operator's stream, and the items a second that pass them; to its host.

    Sent when they change. What passes a filter is all that it is sent.
    """

    filters: tuple[tuple[str, str, float], ...]
    """Stream, filter, items."""


ROUND_MESSAGES = (RoundAnnouncement, UpwardStatistics, DownwardStatistics, SendRate, FilterRates)


def statistics_rounds(
    period: int, sites: Sequence[Address], trees: Sequence[Sequence[int]], queries: int
) -> dict[Address, RoundAnnouncement]:
    """What each site is sent as a period begins; trees are rows of the sites' parents.

    >>> statistics_rounds(1, [10, 20], [(-1, 0)], 5)[20].positions
    (TreePosition(root=10, parent=10, children=(), levels=0, height=1),)
    """
    positions: list[list[TreePosition]] = [[] for _ in sites]
    for tree in [Tree(tuple(parents)) for parents in trees]:
        height = max(tree.depth)
        levels = [0] * len(sites)
        for site in reversed(tree.order[1:]):
            above = tree.parents[site]
            levels[above] = max(levels[above], levels[site] + 1)
        for site, row in enumerate(positions):
            parent = None if site == tree.root else sites[tree.parents[site]]
            children = tuple(sites[child] for child in tree.children[site])
            row.append(TreePosition(sites[tree.root], parent, children, levels[site], height))
    rows = zip(sites, positions, strict=True)
    return {site: RoundAnnouncement(period, len(sites), queries, tuple(row)) for site, row in rows}

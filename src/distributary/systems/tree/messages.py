"""What brokers of a tree that optimises itself tell each other, by purpose: upkeep, statistics, optimisation.

Each kind belongs to one of the three, so that the traffic of each can be told from a run's metrics.
"""

from __future__ import annotations

from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.systems.tree.cost_model import Entries, Values

Streams = tuple[tuple[str, float], ...]
"""Rates of streams by name, sorted."""


class LinkMeasurement(NamedTuple):
    """What was measured of the link from a parent to its child."""

    latency: float
    """Milliseconds, there and back."""
    bandwidth: float = 0.0
    own: tuple[float, ...] = ()
    """Of the user's own metrics, in the order of `CostModel.own_links`."""


UNMEASURED = LinkMeasurement(0.0)
"""Stands for a link that has not been measured."""


class BrokerFacts(NamedTuple):
    """What a broker knows of itself, wherever it is in the tree."""

    clients: int = 0
    processing: float = 0.0
    streams: Streams = ()
    """What its own clients want."""
    own: tuple[float, ...] = ()
    """Of the user's own metrics, in the order of `CostModel.own_nodes`."""


# Upkeep: between parent and child, in every maintenance period.


class SubtreeReport(NamedTuple):
    """From a child: the link to you as I measured it, myself, and what is below me (transformation state)."""

    sent: float
    """By the sender's clock: the answer returns it, and the difference is the round trip."""
    link: LinkMeasurement | None
    facts: BrokerFacts
    fanout: int
    size: int
    """How many nodes there are in my subtree, myself included."""
    below: Entries
    """Relative to me."""
    streams: Streams
    """What my whole subtree wants."""
    over_children: Values = ()
    """My aggregates over children, one for each of `CostModel.children`."""


class PathReport(NamedTuple):
    """From a parent: my values, from which yours follow, and what is known of those who are not below you."""

    echo: float
    """What the child said in `sent`."""
    held: float
    """Seconds since that came."""
    values: Values
    rest: Entries
    system: float
    """The cost of the whole tree, as the root knows it."""


# Statistics: along the tree, to those who want them.


class NodeStatistic(NamedTuple):
    """A node's cost at a time; its values, where everybody hears of everybody."""

    node: Address
    times: int
    """How often it counts."""
    values: Values
    time: float


class StatisticsUpdate(NamedTuple):
    """What is new to you of others, and which statistics I and those behind me want.

    `wanted` is a cost: those of better cost than that are wanted, None for none of them.
    """

    statistics: tuple[NodeStatistic, ...]
    wanted: float | None


# Optimisation: in every optimisation period.


class PeriodStart(NamedTuple):
    """From the root, down the tree: name your best rewrite."""

    period: int
    cost: float
    nodes: int


class ChildState(NamedTuple):
    """A child as its parent knows it."""

    address: Address
    link: LinkMeasurement
    facts: BrokerFacts
    fanout: int
    size: int
    below: Entries
    streams: Streams
    over_children: Values = ()


class TreeNeighbourhood(NamedTuple):
    """A node and its children (optimisation state)."""

    address: Address
    parent: Address | None
    values: Values
    facts: BrokerFacts
    children: tuple[ChildState, ...]


class NeighbourhoodRequest(NamedTuple):
    """Send the asker your neighbourhood."""

    period: int
    asker: Address


class PathRequest(NamedTuple):
    """The neighbourhoods of all nodes from this one up to the root; those on the way add theirs."""

    period: int
    asker: Address
    node: Address
    found: tuple[TreeNeighbourhood, ...]


class NeighbourhoodReply(NamedTuple):
    """The sender's neighbourhood."""

    period: int
    found: TreeNeighbourhood | None
    """None while the sender does not know it itself."""


class PathReply(NamedTuple):
    """The neighbourhoods of all nodes on the way to the root."""

    period: int
    node: Address
    """The one that was asked."""
    found: tuple[TreeNeighbourhood, ...]
    """Empty where a node on the way does not know its own."""


class LinksRequest(NamedTuple):
    """How would your links be to these parents?"""

    period: int
    parents: tuple[Address, ...]


class LinksReply(NamedTuple):
    """The sender's links to possible parents, measured by probes."""

    period: int
    parents: tuple[Address, ...]
    """Those that were asked for."""
    links: tuple[tuple[Address, LinkMeasurement], ...]
    """Of those that answered."""


class RewriteProposal(NamedTuple):
    """To the root: the best that can be done around me."""

    period: int
    benefit: float
    rule: str
    arguments: tuple[Address, ...]
    changes: tuple[tuple[Address, Address], ...]
    """Nodes and their new parents."""
    before: tuple[tuple[Address, Address], ...]
    """Nodes and their parents now."""
    shift: float = 0.0
    """By how much the sum of all nodes' costs changes, where the goal is a VARIANCE or STD."""

    @property
    def touched(self) -> frozenset[Address]:
        """Those whose parent or children change (Definition 5)."""
        return frozenset(address for pair in (*self.changes, *self.before) for address in pair)


class ParentOrder(NamedTuple):
    """From the root: change to this parent; to any with room, if none is named."""

    parent: Address | None


UPKEEP = (SubtreeReport, PathReport)
STATISTICS = (StatisticsUpdate,)
OPTIMISATION = (
    *(PeriodStart, RewriteProposal, ParentOrder, NeighbourhoodRequest, NeighbourhoodReply),
    *(PathRequest, PathReply, LinksRequest, LinksReply),
)

"""Links between nodes as these have measured them (`link_meter`): latencies, and free bandwidth.

Nothing is known of a link until it has been measured; then it is taken to be as long as the longest known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.systems.queries.own_metrics import OwnMetricsReport
from distributary.systems.queries.retention import discard

UNKNOWN = 1.0
"""Seconds that a message is taken to take while nothing at all has been measured."""


class LinkProbe(NamedTuple):
    """To be echoed at once; short, or with padding."""

    sent: float
    padding: bytes = b""


class LinkEcho(NamedTuple):
    """The answer to a probe: when that was sent, by its sender's clock, and whether it was long."""

    sent: float
    long: bool


class LinkEstimate(NamedTuple):
    """A link as the node at one end has measured it."""

    latency: float
    """Seconds one way."""
    bandwidth: float = inf
    """Bytes a second that are free; infinite where they are more than can be measured."""


class LinkReport(NamedTuple):
    """To the registry: what the sender has measured, and the cycles a second of its processor."""

    speed: float
    links: tuple[tuple[Address, LinkEstimate], ...]


LINK_MESSAGES = (LinkProbe, LinkEcho, LinkReport, OwnMetricsReport)


class LinkTable:
    """Links by the nodes at their ends.

    >>> links = LinkTable({(1, 2): LinkEstimate(0.25), (2, 3): LinkEstimate(0.5, 1000.0)})
    >>> links.latency(1, 2), links.latency(2, 1), links.latency(3, 3), links.latency(1, 3)
    (0.25, 0.25, 0.0, 0.5)
    >>> links.bandwidth(2, 3), links.bandwidth(3, 2)
    (1000.0, inf)
    """

    def __init__(self, known: Mapping[tuple[Address, Address], LinkEstimate] | None = None) -> None:
        self.known = dict(known or {})
        """From one node to another, as the first has measured it; never assigned anew."""

    def latency(self, one: Address, other: Address) -> float:
        """Seconds between two nodes, as either has measured; those of the longest link if neither has."""
        if one == other:
            return 0.0
        found = self.known.get((one, other)) or self.known.get((other, one))
        if found is not None:
            return found.latency
        return max((each.latency for each in self.known.values()), default=UNKNOWN)

    def milliseconds(self, sites: Sequence[Address]) -> list[list[float]]:
        """The latencies between all of some nodes, as the planner takes them."""
        return [[1000 * self.latency(one, other) for other in sites] for one in sites]

    def bandwidths(self, sites: Sequence[Address]) -> list[list[float]]:
        """The bandwidths between all of some nodes."""
        return [[self.bandwidth(one, other) for other in sites] for one in sites]

    def bandwidth(self, one: Address, other: Address) -> float:
        """Bytes a second from one node to another."""
        found = self.known.get((one, other))
        return inf if found is None or one == other else found.bandwidth

    def line(self, node: Address) -> float:
        """Bytes a second that a node can send on the best of its links."""
        return max((each.bandwidth for (one, _), each in self.known.items() if one == node), default=inf)

    def of(self, node: Address, others: Iterable[Address]) -> tuple[tuple[Address, LinkEstimate], ...]:
        """What a node has measured of its links to some others."""
        ends = ((node, other) for other in others)
        return tuple((each[1], self.known[each]) for each in ends if each in self.known)

    def learn(self, node: Address, links: Iterable[tuple[Address, LinkEstimate]]) -> None:
        """Take in what a node has measured."""
        self.known.update(((node, other), estimate) for other, estimate in links)

    def forget(self, node: Address) -> None:
        """Keep nothing of a node that has been removed."""
        discard(self.known, lambda ends: node in ends)

"""Metrics of the user's own in a network of queries: what nodes tell the registry, and the planner is given.

Rules:

- Gauges say what a node or a link has (`QueryOptimiserSettings.node_gauges`, `link_gauges`). Those of a node
  are read there, those of a link at the node that it leads to.
- A node reads its gauges in every period (`own_metrics_meter`), and tells the registry when a value has
  changed. The planner is given matrices and rows of the metrics that all sites have told; until there are
  values of all that the goal names, nothing is planned.

Cost: a message a node and period, where something has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from distributary.overlay.node import Address

LinkGauges = Mapping[str, Callable[[Address, Address], float]]
"""By name: the metric's value for the link from one node to another."""
NodeGauges = Mapping[str, Callable[[Address], float]]


class OwnMetricsReport(NamedTuple):
    """To the registry: the values of the user's metrics at the sender, and of the links that lead to it."""

    nodes: tuple[tuple[str, float], ...]
    links: tuple[tuple[str, tuple[tuple[Address, float], ...]], ...]


class OwnMetricsTable(NamedTuple):
    """The metrics that all of some sites have told, by name, as the planner takes them."""

    links: tuple[tuple[str, tuple[tuple[float, ...], ...]], ...] = ()
    nodes: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @property
    def names(self) -> set[str]:
        """The metrics that are known everywhere."""
        return {name for name, _ in (*self.links, *self.nodes)}

    @staticmethod
    def of(reports: Mapping[Address, OwnMetricsReport], sites: Sequence[Address]) -> OwnMetricsTable:
        """What the sites have told.

        >>> first = OwnMetricsReport((("rent", 3.0),), (("toll", ((2, 5.0),)),))
        >>> second = OwnMetricsReport((("rent", 4.0),), (("toll", ((1, 7.0),)),))
        >>> OwnMetricsTable.of({1: first, 2: second}, [1, 2])
        OwnMetricsTable(links=(('toll', ((0.0, 7.0), (5.0, 0.0))),), nodes=(('rent', (3.0, 4.0)),))
        >>> OwnMetricsTable.of({1: first}, [1, 2]).names
        set()
        """
        if any(site not in reports for site in sites):
            return OwnMetricsTable()
        nodes = {site: dict(reports[site].nodes) for site in sites}
        links = {site: {name: dict(row) for name, row in reports[site].links} for site in sites}
        of_nodes = set.intersection(*(set(row) for row in nodes.values())) if sites else set()
        of_links = {
            name
            for name in (set.intersection(*(set(row) for row in links.values())) if sites else set())
            if all({*sites} - {site} <= links[site][name].keys() for site in sites)
        }
        return OwnMetricsTable(
            tuple(
                (name, tuple(tuple(links[to][name].get(one, 0.0) for to in sites) for one in sites))
                for name in sorted(of_links)
            ),
            tuple((name, tuple(nodes[site][name] for site in sites)) for name in sorted(of_nodes)),
        )

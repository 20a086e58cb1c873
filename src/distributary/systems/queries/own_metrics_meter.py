"""The gauges of a node: metrics of the user's own, read from time to time and told to the registry."""

from __future__ import annotations

from collections.abc import Iterable

from distributary.overlay.node import Address
from distributary.overlay.periodic import set_periodic_alarm
from distributary.systems.queries.own_metrics import LinkGauges, NodeGauges, OwnMetricsReport
from distributary.systems.queries.registry_failover import RegistryLink


class OwnMetricsMeter:
    """The gauges of one node."""

    def __init__(
        self,
        registry: RegistryLink,
        brokers: Iterable[Address],
        period: float,
        links: LinkGauges,
        nodes: NodeGauges,
    ) -> None:
        self._node, self._registry = registry.connections.node, registry
        self._others = [one for one in brokers if one != self._node.address]
        self._links, self._nodes = links, nodes
        self._told: OwnMetricsReport | None = None
        if links or nodes:
            set_periodic_alarm(self._node, "flow own metrics", period, self._tell, delay=1.0)
            self._node.at_start(self._tell)

    def _tell(self) -> None:
        here = self._node.address
        report = OwnMetricsReport(
            tuple((name, float(gauge(here))) for name, gauge in self._nodes.items()),
            tuple(
                (name, tuple((other, float(gauge(other, here))) for other in self._others))
                for name, gauge in self._links.items()
            ),
        )
        if report != self._told:
            self._told = report
            self._registry.send(report)

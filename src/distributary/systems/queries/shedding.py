"""Shedding load: queries are thinned out while nodes have more to do than their processors can.

    FlowBroker(node, registry, surroundings, processor=processor, shedding=SheddingSettings(period=10.0))

Every node measures what its operators would take (`traffic.OperatorDemand`) and leaves out what the registry
says (`thinning`); the registry decides (`shedding_registry`); clients are told their shares, and what is
delivered follows these exactly (`client_shares`).
"""

from __future__ import annotations

from math import inf

from distributary.overlay.node import Address
from distributary.overlay.periodic import set_periodic_alarm
from distributary.systems.queries.client_shares import ClientShares
from distributary.systems.queries.engine import Engine
from distributary.systems.queries.registry_failover import RegistryLink
from distributary.systems.queries.settings import SheddingSettings
from distributary.systems.queries.shedding_registry import LoadReport, SheddingRegistry
from distributary.systems.queries.thinning import ThinningTable

DECIDING = 0.5
"""How many periods after the nodes' reports the registry decides."""


class Shedding:
    """Shedding at one node: loads, what is left out, clients' shares; at the registry, decisions."""

    def __init__(
        self, settings: SheddingSettings, link: RegistryLink, engine: Engine, thinned: dict[str, str]
    ) -> None:
        self._node = node = link.connections.node
        self._engine = engine
        self._link = link
        self.clients = ClientShares(node, link.send, engine.watermark_of, settings.seed)
        self.registry: SheddingRegistry | None = None
        if link.local_registry is not None:
            send = link.connections.send
            self.registry = SheddingRegistry(link.local_registry, node, send, settings, thinned)
            decide, delay = self.registry.decide, 1 + DECIDING
            set_periodic_alarm(node, "flow shares", settings.period, decide, delay=delay)
        node.handle(ThinningTable, self._table)
        set_periodic_alarm(node, "flow loads", settings.period, self._report, delay=1.0)

    def _table(self, table: ThinningTable, sender: Address) -> None:
        self._link.connections.send(sender, self._engine.thinning.follow(table))

    def _report(self) -> None:
        """Tell the registry what the operators here would take."""
        speed = self._engine.queue.processor.speed
        hosted = self._engine.operators.items() if speed < inf else ()
        loads = [(name, one.demand.load(self._node.now)) for name, one in hosted]
        known = tuple((name, load) for name, load in loads if load is not None)
        self._link.connections.offer(self._link.address, LoadReport(speed, known))
        self.clients.check_whole()

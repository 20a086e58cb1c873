"""The traffic of a query network by what it is for."""

from __future__ import annotations

from distributary.overlay.courier import Ack
from distributary.sim.metrics import Metrics, Traffic
from distributary.systems import queries as query_network

PURPOSES = {
    "streams": query_network.DATA,
    "registering, subscribing, moving": query_network.CONTROL,
    "statistics": (*query_network.STATISTICS, query_network.TrafficCounts),
    "weighing and deciding": query_network.OPTIMISATION,
    "measuring links": query_network.LINK_MESSAGES,
    "checkpoints and registry failover": query_network.CHECKPOINT_MESSAGES,
    "shedding load": query_network.SHEDDING_MESSAGES,
    "acknowledgements": (Ack,),
}


def traffic_by_purpose(metrics: Metrics) -> dict[str, Traffic]:
    """The traffic of each purpose (`PURPOSES`)."""
    purposes = {kind.__name__: purpose for purpose, kinds in PURPOSES.items() for kind in kinds}
    sums = dict.fromkeys(PURPOSES, Traffic(0, 0))
    for kind, traffic in metrics.by_kind().items():
        sums[purposes[kind]] += traffic
    return sums

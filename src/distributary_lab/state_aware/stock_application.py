"""Runs the stock application on a state-aware network in the simulator: who gets what, and at what cost.

    run = run_application(stock_days.trace(seed=1), "thresholds", nodes=400, seed=1)
    run.costs["publish"].messages

Sources and subscribers sit at nodes of a `SparseRing`, drawn from the seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from distributary.errors import DistributaryError
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.ring import Ring
from distributary.sim.deployment import Costs, Deployment
from distributary.systems.state_aware.broker import StateAwareBroker
from distributary.systems.state_aware.lengths.thresholds import BalancedThresholds
from distributary.systems.state_aware.mfd import MFDBroker
from distributary.systems.state_aware.segments import NODES, Segments
from distributary.systems.state_aware.sf import SFBroker
from distributary.systems.state_aware.thresholds import ThresholdsBroker
from distributary.workloads.stock_days import StockQuote, StockRequest, StockTrace
from distributary_lab.sparse_ring import HOP, SparseRing

SYSTEMS: dict[str, Callable[..., StateAwareBroker]] = {
    "sf": SFBroker,
    "mfd": MFDBroker,
    "thresholds": ThresholdsBroker,
    "lengths": BalancedThresholds,
}
COMPARED = ("sf", "mfd", "thresholds")
"""Those that have segments of one length."""
CIRCLE = Circle(48)


@dataclass(frozen=True)
class ApplicationRun:
    """What came of a run."""

    deployment: Deployment
    costs: dict[str, Costs]
    """By kind of operation: 'subscribe', 'publish'."""
    built: int
    """How many nodes took part."""

    @property
    def delay_in_hops(self) -> float:
        """Mean hops from a publication to a delivery, counting waits at the time of a hop each."""
        return self.costs["publish"].delay / HOP

    def deliveries(self) -> list[tuple[str, str]]:
        """Event and subscriber of each delivery, sorted."""
        return sorted(
            (each.delivery.event.id, each.delivery.subscriber) for each in self.deployment.deliveries
        )


def deploy(
    system: str, nodes: int, seed: int, *, span: float = NODES, maximum: float = 64.0, **options: Any
) -> SparseRing:
    """A ring at rest of so many nodes, none of which has been made yet."""
    if system not in SYSTEMS:
        raise DistributaryError(f"no system {system!r}; choose one of {', '.join(SYSTEMS)}")

    def make(ring: Ring) -> StateAwareBroker:
        segments = Segments.spanning(CIRCLE, nodes=span, of=nodes, maximum=maximum)
        return SYSTEMS[system](ring, segments, **options)

    return SparseRing(CIRCLE, nodes, seed, make)


def run_application(
    trace: StockTrace, system: str, *, nodes: int = 400, seed: int, span: float = NODES, **options: Any
) -> ApplicationRun:
    """Let a trace happen, and everything settle in the end."""
    deployment = deploy(system, nodes, seed, span=span, **options)
    random = Random(f"clients {seed}")
    sources = [random.choice(deployment.addresses) for _ in range(trace.sources)]
    homes = [random.choice(deployment.addresses) for _ in range(trace.subscribers)]
    for address in sorted({*sources, *homes}):
        deployment.add(address)
    steps: Iterable[StockQuote | StockRequest] = heapq.merge(
        trace.publications, trace.requests, key=lambda each: each.time
    )
    for step in steps:
        deployment.simulator.run(until=step.time)
        if isinstance(step, StockQuote):
            deployment.publish(step.event, at=sources[step.source])
        else:
            deployment.subscribe(step.subscription, at=homes[step.subscriber])
    deployment.simulator.run()
    return ApplicationRun(deployment, deployment.costs(), len(deployment.members))

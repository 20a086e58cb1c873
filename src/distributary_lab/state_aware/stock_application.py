"""Runs the stock application on a state-aware network in the simulator: who gets what, and at what cost.

    run = run_application(stock_days.trace(seed=1), "thresholds", nodes=400, seed=1)
    run.costs["publish"].messages

Sources and subscribers sit at nodes drawn from the seed; every hop takes the same time, so that time and hops
tell the same. Nodes are made when they are first needed, as a ring at rest would have them: a ring of a
million costs the memory of its identifiers and of the nodes that take part.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from distributary.errors import DistributaryError
from distributary.overlay.node import Address, Message, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.ring import Ring, settle_among
from distributary.sim.deployment import Costs, Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Cause, Observer, Simulator
from distributary.systems.state_aware.broker import StateAwareBroker
from distributary.systems.state_aware.lengths import BalancedBroker
from distributary.systems.state_aware.mfd import MFDBroker
from distributary.systems.state_aware.segments import NODES, Segments
from distributary.systems.state_aware.sf import SFBroker
from distributary.systems.state_aware.thresholds import ThresholdsBroker
from distributary.workloads.stock_days import StockQuote, StockRequest, StockTrace

SYSTEMS: dict[str, Callable[..., StateAwareBroker]] = {
    "sf": SFBroker,
    "mfd": MFDBroker,
    "thresholds": ThresholdsBroker,
    "lengths": BalancedBroker,
}
COMPARED = ("sf", "mfd", "thresholds")
"""Those that have segments of one length."""
HOP = 0.05
"""Seconds from one node to another."""
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
        return sorted((each.delivery.event, each.delivery.subscriber) for each in self.deployment.deliveries)


class _Builder(Observer):
    """Makes a node when the first message is sent to it."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        if to not in self.deployment.members:
            self.deployment.add(to)


@lru_cache(maxsize=2)
def addresses_of(nodes: int, seed: int) -> tuple[Address, ...]:
    """Where so many nodes are on the circle, sorted."""
    return tuple(sorted(Random(f"addresses {seed}").sample(range(CIRCLE.size), nodes)))


def deploy(
    system: str, nodes: int, seed: int, *, span: float = NODES, maximum: float = 64.0, **options: Any
) -> tuple[Deployment, tuple[Address, ...]]:
    """A ring at rest of so many nodes, none of which has been made yet, and their addresses, sorted."""
    if system not in SYSTEMS:
        raise DistributaryError(f"no system {system!r}; choose one of {', '.join(SYSTEMS)}")
    if nodes < 1:
        raise DistributaryError(f"a ring has at least one node, not {nodes}")
    addresses = addresses_of(nodes, seed)
    segments = Segments.spanning(CIRCLE, nodes=span, of=nodes, maximum=maximum)

    def make(address: Address) -> StateAwareBroker:
        ring = Ring(Node(address), CIRCLE)
        settle_among(ring, addresses)
        return SYSTEMS[system](ring, segments, **options)

    simulator = Simulator(seed, ConstantLatency(HOP))
    deployment = Deployment(simulator, make, sizes=False)
    simulator.observe(_Builder(deployment))
    return deployment, addresses


def run_application(
    trace: StockTrace, system: str, *, nodes: int = 400, seed: int, span: float = NODES, **options: Any
) -> ApplicationRun:
    """Let a trace happen, and everything settle in the end."""
    deployment, addresses = deploy(system, nodes, seed, span=span, **options)
    random = Random(f"clients {seed}")
    sources = [random.choice(addresses) for _ in range(trace.sources)]
    homes = [random.choice(addresses) for _ in range(trace.subscribers)]
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

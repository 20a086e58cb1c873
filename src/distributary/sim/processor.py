"""The processor of a simulated node: it has a speed, each item costs work, and the work takes virtual time.

    FlowBroker(node, registry, processor=SimulatedProcessor(speed=200.0, cycles={"join": 8.0}))

Rule: an item costs an operator so many cycles by its kind, and takes them divided by the node's speed. What
comes meanwhile waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from distributary.errors import DistributaryError
from distributary.systems.queries.messages import OperatorSpec
from distributary.systems.queries.processing import Action, ProcessedItems


@dataclass(frozen=True)
class SimulatedProcessor:
    """A processor of some cycles a second.

    >>> SimulatedProcessor(speed=0)
    Traceback (most recent call last):
    ...
    distributary.errors.DistributaryError: a processor's speed is above 0, and finite, not 0
    """

    speed: float
    """Cycles a second."""
    cycles: Mapping[str, float] = field(default_factory=dict)
    """What an item costs an operator of a kind; 1 where not given."""

    def __post_init__(self) -> None:
        if not 0 < self.speed < inf:
            raise DistributaryError(f"a processor's speed is above 0, and finite, not {self.speed:g}")

    def seconds_until(self, spec: OperatorSpec, items: int) -> float:
        """The time that the work takes."""
        return self._work(spec, items) / self.speed

    def run(self, spec: OperatorSpec, items: int, action: Action) -> ProcessedItems:
        """Process items whose time has passed."""
        return ProcessedItems(action(), self._work(spec, items))

    def _work(self, spec: OperatorSpec, items: int) -> float:
        return items * self.cycles.get(spec.operation.kind, 1.0)

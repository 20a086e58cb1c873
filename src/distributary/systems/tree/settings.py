"""How the brokers of a tree optimise it, and what they measure with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from distributary.errors import DistributaryError
from distributary.model import Event
from distributary.overlay.node import Address
from distributary.plan.goal.expression import Goal
from distributary.plan.trees.optimiser import HYBRID
from distributary.plan.trees.rules import TreeRule


def _topic(event: Event) -> str:
    return event.topic or ""


@dataclass(frozen=True)
class Gauges:
    """What brokers measure with."""

    bandwidth: Callable[[Address, Address], float] | None = None
    """From a parent to a child."""
    processing: Callable[[Address], float] | None = None
    """The time a node takes over a message for each child and client."""
    stream: Callable[[Event], str] = _topic
    """The stream that an event belongs to."""
    window: float | None = 60.0
    """Seconds over which rates are taken; None for counts since the beginning."""


@dataclass(frozen=True)
class OptimisationSettings:
    """How a tree optimises itself."""

    goal: Goal
    rules: Sequence[TreeRule] = HYBRID
    statistics: float = 1.0
    """Seconds between maintenance messages (S)."""
    period: float = 60.0
    """Seconds between optimisation periods (P); enough for statistics to reach everybody."""
    window: float = 10.0
    """Seconds from the beginning of a period until the root decides."""
    slack: float = 0.0
    """Nodes whose cost is within this share of the system's are critical too."""
    concurrent: bool = False
    """Whether several independent rewrites are granted in one period."""
    approximate: float | None = None
    """The constant p of equation 4.4, where costs are broadcast; None to broadcast all in every period."""
    best_effort: bool = False
    """Whether nodes that need a parent choose the best for themselves."""
    most_heard: int | None = 8
    """Of so many better nodes a critical one considers for directed rules; None for all."""
    fresh: float = 300.0
    """Seconds for which a measured link is not measured again."""
    gauges: Gauges = field(default_factory=Gauges)

    def __post_init__(self) -> None:
        if not 0 < self.statistics < self.period or not 0 < self.window < self.period:
            raise DistributaryError(
                "an optimisation period is longer than a maintenance period, and than the window for rewrites"
            )
        if self.approximate is not None and self.approximate < 1:
            raise DistributaryError(f"the period of broadcasts is at least 1, not {self.approximate}")

    @property
    def local(self) -> list[TreeRule]:
        """The rules that a node applies to its own unit."""
        return [rule for rule in self.rules if not rule.directed]

    @property
    def directed(self) -> list[TreeRule]:
        """The rules about a critical node and another that does better."""
        return [rule for rule in self.rules if rule.directed]

    @property
    def levels(self) -> int:
        """The size of an optimisation unit."""
        return max((rule.levels for rule in self.local), default=0)

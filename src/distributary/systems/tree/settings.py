"""How the brokers of a tree optimise it, and what they measure with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distributary.errors import DistributaryError
from distributary.model import Event
from distributary.overlay.node import Address
from distributary.plan.goal.expression import Goal
from distributary.plan.trees.metrics import BUILT_IN
from distributary.plan.trees.optimiser import HYBRID
from distributary.plan.trees.rules import TreeRule
from distributary.plan.trees.tree import Matrix, Number, Sites
from distributary.systems.tree.cost_model import CostModel


def _topic(event: Event) -> str:
    return event.topic or ""


@dataclass(frozen=True)
class Gauges:
    """What brokers measure with."""

    bandwidth: Callable[[Address, Address], float] | None = None
    """From a parent to a child."""
    processing: Callable[[Address], float] | None = None
    """The time a node takes over a message for each child and client."""
    links: Mapping[str, Callable[[Address, Address], float]] = field(default_factory=dict)
    """Metrics of the user's own, by name: of the link from a parent to a child, measured at the child."""
    nodes: Mapping[str, Callable[[Address], float]] = field(default_factory=dict)
    """The same of a node, measured there."""
    stream: Callable[[Event], str] = _topic
    """The stream that an event belongs to."""
    window: float | None = 60.0
    """Seconds over which rates are taken; None for counts since the beginning."""

    @staticmethod
    def of_sites(sites: Sites, places: Mapping[Address, int], **more: Any) -> Gauges:
        """Gauges that read what is known of sites, such as those of a plan's file; `places` has each node's.

        >>> sites = Sites([[0, 5], [5, 0]], link_metrics={"toll": [[0, 2], [3, 0]]})
        >>> Gauges.of_sites(sites, {17: 0, 93: 1}).links["toll"](17, 93)
        2.0
        """

        def of_links(matrix: Matrix) -> Callable[[Address, Address], float]:
            return lambda parent, child: float(matrix[places[parent]][places[child]])

        def of_nodes(row: Sequence[Number]) -> Callable[[Address], float]:
            return lambda node: float(row[places[node]])

        return Gauges(
            bandwidth=of_links(sites.bandwidth) if sites.bandwidth else None,
            processing=of_nodes(sites.processing) if sites.processing else None,
            links={name: of_links(matrix) for name, matrix in sites.link_metrics.items()},
            nodes={name: of_nodes(row) for name, row in sites.site_metrics.items()},
            **more,
        )

    def refuse_unmeasured(self, model: CostModel) -> None:
        """Raise an error if a goal asks for what nothing measures here."""
        named = {metric.name for metric in model.metrics if metric in BUILT_IN.values()}
        missing = [f"links[{name!r}]" for name in model.own_links if name not in self.links]
        missing += [f"nodes[{name!r}]" for name in model.own_nodes if name not in self.nodes]
        missing += ["bandwidth"] if "link bandwidth" in named and self.bandwidth is None else []
        missing += ["processing"] if "cpu" in named and self.processing is None else []
        if missing:
            raise DistributaryError(
                f"the goal asks for what brokers have no gauge for: give Gauges {' and '.join(missing)}"
            )


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
    """Whether several rewrites are granted in one period, where each is worth what it is worth alone."""
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
        self.gauges.refuse_unmeasured(CostModel.with_fanout(self.goal, None))
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

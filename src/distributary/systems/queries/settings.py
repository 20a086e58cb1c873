"""What a query network is told when it is made: the network below it, its goal, and what it does besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from distributary.errors import DistributaryError
from distributary.overlay.node import Address
from distributary.plan.goal.expression import Goal, Place, SystemCost
from distributary.plan.queries.optimiser import BATCH
from distributary.plan.queries.rules import HYBRID, MIGRATIONS, QueryRule, RuleArea
from distributary.plan.queries.spreading import ParentPreference
from distributary.plan.trees.metrics import Metric, metrics_of
from distributary.systems.queries.local_goals import is_local
from distributary.systems.queries.own_metrics import LinkGauges, NodeGauges

Addresses = Sequence[Address]


@dataclass(frozen=True)
class Regrouping:
    """How often trees that have nearly the same members are looked for, to be merged."""

    period: float = 60.0
    likeness: float = 0.8
    """The share of the members of either tree that must be members of both."""


@dataclass(frozen=True)
class Surroundings:
    """What is known of the network below before anything is measured."""

    brokers: Addresses = ()
    """The nodes that can be a root broker, and that measure the links between them."""
    bandwidth: Mapping[Address, float] = field(default_factory=dict)
    """Bytes a second that a broker may send, where that is less than it can."""
    most_trees: int = 4
    fanout: int = 4
    """How many children a node has in a tree, at most."""
    restructuring: float | None = None
    """Seconds between changes of trees by rules; where not given, the optimiser's period, if there is one."""
    prefer: ParentPreference | None = None
    """By what a node's parent in a tree is chosen; where not given, by the goal."""
    probing: float = 30.0
    """Seconds between measurements of links."""
    regrouping: Regrouping | None = None
    """How trees of sources are merged, if they are."""


@dataclass(frozen=True)
class CheckpointSettings:
    """How often nodes make checkpoints and send heartbeats, and when they are removed; in seconds."""

    checkpoint: float = 2.0
    beat: float = 1.0
    silence: float = 8.0


@dataclass(frozen=True)
class SheddingSettings:
    """How queries are thinned out while nodes have more to do than they can.

    >>> SheddingSettings(limit=0)
    Traceback (most recent call last):
    ...
    distributary.errors.DistributaryError: limit is above 0 and at most 1, not 0
    """

    period: float = 10.0
    """Seconds between measurements, and between changes of shares."""
    limit: float = 0.95
    """The part of its processor's speed that a node may need."""
    band: float = 0.2
    """The part of the limit by which the load may be below it before shares are larger again."""
    least: float = 0.05
    """No query keeps less: else nobody could tell when the overload ends."""
    seed: int = 0
    """Of the choice of what is left out; the same at all nodes."""

    def __post_init__(self) -> None:
        for name, value in (("limit", self.limit), ("least", self.least)):
            if not 0 < value <= 1:
                raise DistributaryError(f"{name} is above 0 and at most 1, not {value:g}")
        if not 0 <= self.band < 1:
            raise DistributaryError(f"band is at least 0 and below 1, not {self.band:g}")
        if self.period <= 0:
            raise DistributaryError(f"period is above 0, not {self.period:g}")


@dataclass(frozen=True)
class QueryOptimiserSettings:
    """How a query network improves its placement of operators."""

    goal: Goal
    period: float = 30.0
    """Seconds between changes."""
    window: float = 2.0
    """Seconds that whoever collects messages waits for them."""
    rules: Sequence[QueryRule] = MIGRATIONS
    area: RuleArea = HYBRID
    margin: float = 0.05
    """The share that a change must gain of the cost, or of what one node or query costs on average."""
    rest: int = 3
    """Periods for which an operator stays at a node that it has moved to."""
    batch: int = BATCH
    """Changes that are carried out in a period, at most."""
    told: Literal["neighbourhood", "whole"] = "neighbourhood"
    """Whether nodes weigh changes with what their neighbourhood tells them, where the goal allows it, or with
    a snapshot of the whole network."""
    top: int | None = 20
    """How many nodes' values are passed on over a link, at most."""
    slack: float = 0.0
    """Under a MIN or MAX: the share of the cost within which a node's value must be for it to matter."""
    seed: int = 0
    """Of the lottery for values."""
    link_gauges: LinkGauges = field(default_factory=dict)
    """Metrics of the user's own that the goal names: of the link from one node to another."""
    node_gauges: NodeGauges = field(default_factory=dict)
    """The same of a node."""
    most_streams: int = 20
    """The number of streams between operators here and elsewhere that a node asks about in a period, at most;
    a node that has more weighs its operators in turn."""

    def __post_init__(self) -> None:
        if self.told not in ("neighbourhood", "whole"):
            raise DistributaryError(f"told is neighbourhood or whole, not {self.told!r}")
        lacking = sorted(
            one.name
            for one in self.own_metrics
            if one.name not in (self.link_gauges if one.place is Place.LINK else self.node_gauges)
        )
        if lacking:
            raise DistributaryError(f"the goal asks for {', '.join(lacking)}, for which there is no gauge")
        for name, least in (("top", self.top), ("most_streams", self.most_streams)):
            if least is not None and least < 1:
                raise DistributaryError(f"{name} is at least 1, not {least}")

    @property
    def own_metrics(self) -> set[Metric]:
        """The metrics of the user's own that the goal names."""
        metrics = [self.goal.cost.value]
        for each in self.goal.constraints:
            limited = each.metric
            metrics.append(limited.value if isinstance(limited, SystemCost) else limited)
        return {metric for one in metrics for metric in metrics_of(one)}

    @property
    def extreme(self) -> bool:
        """Whether the cost of the system is that of one node or query: a MIN or MAX."""
        return self.goal.cost.function.is_bottleneck

    def least_benefit(self, cost: float, members: int) -> float:
        """What a change must gain, when the cost is that of so many nodes or queries."""
        return self.margin * abs(cost) / (1 if self.extreme else max(1, members))

    @property
    def local(self) -> bool:
        """Whether nodes weigh changes with what their neighbourhood tells them."""
        return self.told == "neighbourhood" and is_local(self.goal)

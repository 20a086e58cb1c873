"""What a good tree is: the two-level aggregation of the seed's Figures 3.2 and 4.1, as Python objects.

Rules:

- A node's cost is a local metric, an aggregate of local metrics over its PATH to the root or over its
  CHILDREN, or a combination of such. The system's cost aggregates the node costs over BROKERS, CLIENTS (each
  client has its broker's cost) or both.
- A site without a value has no part in the system's cost: the root where links are concerned, a leaf where
  its children are aggregated by MIN, MAX or AVERAGE. The SUM over no children is 0.
- VARIANCE is the sample's: divided by one less than the number of values; of one value it is 0.
- A constraint on a node's cost holds for every site that has that cost.

`goal_text` reads and writes them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from distributary.errors import DistributaryError
from distributary.plan.trees.metrics import Metric
from distributary.plan.trees.tree import Number


class Function(Enum):
    MIN = "MIN"
    MAX = "MAX"
    SUM = "SUM"
    AVERAGE = "AVERAGE"
    PRODUCT = "PRODUCT"
    VARIANCE = "VARIANCE"
    STD = "STD"


class Kind(Enum):
    """The classes of functions by the state they need (section 4.2)."""

    ADDITIVE = "additive"
    BOTTLENECK = "bottleneck"
    HOLISTIC = "holistic"


KINDS: Mapping[Function, Kind] = {
    Function.SUM: Kind.ADDITIVE,
    Function.AVERAGE: Kind.ADDITIVE,
    Function.MIN: Kind.BOTTLENECK,
    Function.MAX: Kind.BOTTLENECK,
    Function.PRODUCT: Kind.HOLISTIC,
    Function.VARIANCE: Kind.HOLISTIC,
    Function.STD: Kind.HOLISTIC,
}

NODE_FUNCTIONS = (Function.MIN, Function.MAX, Function.SUM, Function.AVERAGE)


class Over(Enum):
    """What a node's cost aggregates."""

    PATH = "PATH"
    CHILDREN = "CHILDREN"


class Members(Enum):
    """What the system's cost aggregates."""

    BROKERS = "BROKERS"
    CLIENTS = "CLIENTS"
    BOTH = "BROKERS|CLIENTS"


class Direction(Enum):
    MINIMISE = "minimise"
    MAXIMISE = "maximise"


@dataclass(frozen=True)
class Constant:
    value: Number


@dataclass(frozen=True)
class Local:
    metric: Metric


@dataclass(frozen=True)
class Combination:
    """Two metrics made one by `+`, `-`, `*` or `/`, such as the bandwidth-delay product."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Aggregate:
    """A node's cost from the local metrics of its path or of its children."""

    function: Function
    value: Expression
    over: Over

    def __post_init__(self) -> None:
        if self.function not in NODE_FUNCTIONS:
            raise DistributaryError(
                f"{self.function.value} cannot aggregate over {self.over.value}: "
                "take MIN, MAX, SUM or AVERAGE"
            )
        if any(isinstance(part, Aggregate) for part in parts(self.value)):
            raise DistributaryError("a node's aggregate takes local metrics, not another aggregate")


Expression = Constant | Local | Combination | Aggregate


def parts(expression: Expression) -> Iterator[Expression]:
    """The expression and all it is made of; an aggregate's inside too."""
    yield expression
    if isinstance(expression, Combination):
        yield from parts(expression.left)
        yield from parts(expression.right)
    elif isinstance(expression, Aggregate):
        yield from parts(expression.value)


def metrics_of(expression: Expression) -> list[Metric]:
    return [part.metric for part in parts(expression) if isinstance(part, Local)]


@dataclass(frozen=True)
class SystemCost:
    """The second level: one number from all node costs."""

    function: Function
    node: Expression
    members: Members = Members.BROKERS

    @property
    def aggregation_type(self) -> str | None:
        """I to VI as in Table 4.1, or None where the node's cost is no aggregate.

        >>> from distributary.plan.goal.tree_text import parse_goal
        >>> goal = parse_goal("minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)")
        >>> goal.cost.aggregation_type
        'III'
        """
        if not isinstance(self.node, Aggregate):
            return None
        rows = (Kind.ADDITIVE, Kind.BOTTLENECK, Kind.HOLISTIC)
        bottleneck = KINDS[self.node.function] is Kind.BOTTLENECK
        return ("I", "II", "III", "IV", "V", "VI")[2 * rows.index(KINDS[self.function]) + bottleneck]


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
}


class Comparing:
    """What constraints of every language have: how the value must compare with the threshold."""

    comparison: str
    threshold: Number

    def check_comparison(self) -> None:
        if self.comparison not in COMPARISONS:
            raise DistributaryError(
                f"no comparison {self.comparison!r}: take one of {', '.join(COMPARISONS)}"
            )

    def holds(self, value: Number) -> bool:
        return COMPARISONS[self.comparison](value, self.threshold)

    def no_worse(self, new: Number, old: Number) -> bool:
        """Whether the new value breaks the constraint no more than the old one did."""
        if self.comparison in ("<", "<="):
            return new <= old
        if self.comparison in (">", ">="):
            return new >= old
        return False


class Directed:
    """What goals of every language have: whether less is better, or more."""

    direction: Direction

    @property
    def sign(self) -> int:
        """1 where less is better, -1 where more is: cost times sign is always to be made small."""
        return 1 if self.direction is Direction.MINIMISE else -1


@dataclass(frozen=True)
class Constraint(Comparing):
    """What must hold: of the system's cost, or of every node's."""

    metric: SystemCost | Expression
    comparison: str
    threshold: Number

    def __post_init__(self) -> None:
        self.check_comparison()


@dataclass(frozen=True)
class Goal(Directed):
    """What to make small or large, and what must hold."""

    cost: SystemCost
    direction: Direction = Direction.MINIMISE
    constraints: tuple[Constraint, ...] = field(default=())

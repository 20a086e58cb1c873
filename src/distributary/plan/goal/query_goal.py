"""What a good placement of queries is: the aggregations of the seed's Figure 5.4, as Python objects.

Rules:

- Every expression is of a level: of a link, an operator, a node (a site) or a query. An aggregate leads from
  one level to the next: links UPSTREAM or DOWNSTREAM to an operator, LOCAL OPERATORS to a node, QUERY
  OPERATORS to a query; BROKERS or QUERIES to the system.
- An operator with several producers (or readers) has the average of what it has towards each of them.
- Where a link's value or an operator's asks for a value of a node, it is that of the site that sends on the
  link, or of the operator's host.
- SUM over nothing is 0. MIN, MAX and AVERAGE over nothing are no value at all, and what has no value takes no
  part in what is aggregated from it: an operator beside its producer has no capacity towards it.
- A constraint holds for every node, query or operator that has a value.

`goal_text` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from distributary.errors import DistributaryError
from distributary.plan.goal.tree_goal import Comparing, Constant, Directed, Direction, Function
from distributary.plan.trees.tree import Number


class Level(Enum):
    """What an expression has a value for."""

    CONSTANT = "anything"
    LINK = "a link"
    NODE = "a node"
    OPERATOR = "an operator"
    QUERY = "a query"


class Over(Enum):
    """What an aggregate takes together."""

    UPSTREAM = "UPSTREAM OPERATORS"
    DOWNSTREAM = "DOWNSTREAM OPERATORS"
    LOCAL = "LOCAL OPERATORS"
    QUERY = "QUERY OPERATORS"
    UNSAID = ""
    """The set that the system's cost implies: QUERY OPERATORS over QUERIES, LOCAL OPERATORS over BROKERS."""


class Members(Enum):
    """What the system's cost takes together."""

    BROKERS = "BROKERS"
    QUERIES = "QUERIES"


FUNCTIONS = (Function.MIN, Function.MAX, Function.SUM, Function.AVERAGE)


@dataclass(frozen=True)
class Meaning:
    """A statistic's level, and what it is."""

    level: Level
    text: str


STATISTICS: Mapping[str, Meaning] = {
    "latency": Meaning(Level.LINK, "milliseconds from one end of the link to the other"),
    "bandwidth": Meaning(Level.LINK, "what the link can carry, in bytes a second"),
    "load": Meaning(Level.OPERATOR, "processor cycles a second: items that come in times their cost"),
    "input rate": Meaning(Level.OPERATOR, "bytes a second that come in"),
    "produced rate": Meaning(Level.OPERATOR, "bytes a second that come out"),
    "output rate": Meaning(Level.OPERATOR, "bytes a second that it sends to other sites: once to each"),
    "selectivity": Meaning(Level.OPERATOR, "items out for an item in"),
    "processing latency": Meaning(Level.OPERATOR, "milliseconds an item takes at the operator's host"),
    "node load": Meaning(Level.NODE, "the load of all operators there"),
    "capacity": Meaning(Level.NODE, "processor cycles a second that the site has"),
    "operators": Meaning(Level.NODE, "how many operators it hosts"),
    "fanout": Meaning(Level.NODE, "links of trees on which it forwards anything"),
    "incoming rate": Meaning(Level.NODE, "bytes a second that come in from other sites"),
    "forwarding rate": Meaning(Level.NODE, "bytes a second that it forwards on trees"),
    "node delay": Meaning(
        Level.NODE,
        "milliseconds an item takes there: an item's cost for every operator, and matching for every link",
    ),
}
"""What a goal may name."""

SPELLINGS: Mapping[str, str] = {
    "processing load": "load",
    "path latency": "latency",
    "link latency": "latency",
    "link bandwidth": "bandwidth",
    "incoming data rate": "incoming rate",
}
"""Other words for them; `operator` and `node` before a statistic's name may be said or left out."""


@dataclass(frozen=True)
class Statistic:
    name: str

    @property
    def level(self) -> Level:
        return STATISTICS[self.name].level


@dataclass(frozen=True)
class Combination:
    """Two expressions made one by `+`, `-`, `*` or `/`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Aggregate:
    function: Function
    value: Expression
    over: Over


Expression = Constant | Statistic | Combination | Aggregate

INSIDE: Mapping[Over, Level] = {
    Over.UPSTREAM: Level.LINK,
    Over.DOWNSTREAM: Level.LINK,
    Over.LOCAL: Level.OPERATOR,
    Over.QUERY: Level.OPERATOR,
    Over.UNSAID: Level.OPERATOR,
}
OUTSIDE: Mapping[Over, Level] = {
    Over.UPSTREAM: Level.OPERATOR,
    Over.DOWNSTREAM: Level.OPERATOR,
    Over.LOCAL: Level.NODE,
    Over.QUERY: Level.QUERY,
}


def level_of(expression: Expression) -> Level:
    """What an expression has a value for; an error where its parts do not go together.

    >>> level_of(Aggregate(Function.SUM, Statistic("latency"), Over.UPSTREAM)).value
    'an operator'
    """
    if isinstance(expression, Constant):
        return Level.CONSTANT
    if isinstance(expression, Statistic):
        return expression.level
    if isinstance(expression, Combination):
        return _together(level_of(expression.left), level_of(expression.right))
    inside = level_of(expression.value)
    if expression.function not in FUNCTIONS:
        raise DistributaryError(f"{expression.function.value} is not known here: take MIN, MAX, SUM, AVERAGE")
    if expression.over is Over.UNSAID and inside is Level.NODE:
        return Level.NODE
    wanted = INSIDE[expression.over]
    if inside not in (wanted, Level.NODE, Level.CONSTANT):
        over = expression.over.value or "operators"
        raise DistributaryError(f"{over} takes values of {wanted.value}, not of {inside.value}")
    if expression.over is Over.UNSAID:
        raise DistributaryError("which operators: LOCAL OPERATORS or QUERY OPERATORS?")
    return OUTSIDE[expression.over]


def _together(left: Level, right: Level) -> Level:
    pair = {left, right} - {Level.CONSTANT}
    if not pair:
        return Level.CONSTANT
    if len(pair) == 1:
        return pair.pop()
    if Level.NODE in pair and len(pair) == 2 and not pair & {Level.QUERY}:
        return (pair - {Level.NODE}).pop()
    raise DistributaryError(f"a value of {left.value} and one of {right.value} cannot be combined")


def said(expression: Expression, over: Over) -> Expression:
    """The expression with the set that was left unsaid."""
    if isinstance(expression, Combination):
        return Combination(expression.operator, said(expression.left, over), said(expression.right, over))
    if isinstance(expression, Aggregate) and expression.over is Over.UNSAID:
        of_node = level_of(expression.value) is Level.NODE
        return expression.value if of_node else Aggregate(expression.function, expression.value, over)
    return expression


def parts(expression: Expression) -> Iterator[Expression]:
    """The expression and all it is made of; an aggregate's inside too."""
    yield expression
    if isinstance(expression, Combination):
        yield from parts(expression.left)
        yield from parts(expression.right)
    elif isinstance(expression, Aggregate):
        yield from parts(expression.value)


@dataclass(frozen=True)
class SystemCost:
    """One number from all node costs or from all query costs."""

    function: Function
    value: Expression
    members: Members

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise DistributaryError(f"{self.function.value} is not known here: take MIN, MAX, SUM, AVERAGE")
        over = Over.QUERY if self.members is Members.QUERIES else Over.LOCAL
        object.__setattr__(self, "value", said(self.value, over))
        level = level_of(self.value)
        wanted = Level.QUERY if self.members is Members.QUERIES else Level.NODE
        if level not in (wanted, Level.CONSTANT):
            raise DistributaryError(
                f"{self.members.value} takes values of {wanted.value}, not of {level.value}"
            )


@dataclass(frozen=True)
class Constraint(Comparing):
    """What must hold: of the system's cost, or of every node, query or operator."""

    metric: SystemCost | Expression
    comparison: str
    threshold: Number

    def __post_init__(self) -> None:
        self.check_comparison()
        if not isinstance(self.metric, SystemCost) and level_of(self.metric) in (Level.LINK, Level.CONSTANT):
            raise DistributaryError("a constraint is on the system, a node, a query or an operator")


@dataclass(frozen=True)
class QueryGoal(Directed):
    """What to make small or large, and what must hold."""

    cost: SystemCost
    direction: Direction = Direction.MINIMISE
    constraints: tuple[Constraint, ...] = field(default=())

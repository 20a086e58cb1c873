"""What a goal is made of: expressions, the system's cost, constraints, and the goal itself.

One model serves trees and placed queries; they differ in what can be measured and in what can be aggregated.

- An expression has a value at a *place*: on a link, at a node (a site), at an operator, or for a query. A
  measure is a named value; expressions are combined by `+ - * /`; an aggregate leads from one place to the
  next.
- The scope of an aggregate says what it takes together:

  | scope | takes values of | gives a value of | in goals for |
  |---|---|---|---|
  | PATH | the links and nodes from a site up to the root | the node | trees |
  | CHILDREN | the links and nodes of a site's children | the node | trees |
  | UPSTREAM, DOWNSTREAM | the links to an operator's producers, to its readers | the operator | queries |
  | LOCAL | the operators at a site | the node | queries |
  | QUERY | the operators of a query, its client included | the query | queries |

- The system's cost aggregates the values of a population: of all brokers, of all clients (each has its
  broker's value), of both, or of all queries.
- A place without a value takes no part in what is aggregated from it: the root, where links are concerned; an
  operator beside its producer. The SUM over nothing is 0; MIN, MAX and AVERAGE over nothing are no value.
  VARIANCE is the sample's: divided by one less than the number of values; of one value it is 0.
- Where the value of a link or an operator asks for the value of a node, it is that of the site that sends on
  the link, or of the operator's host. An operator with several producers (or readers) has the average over
  them.
- A constraint holds for everything that has a value.

`text` reads and writes goals; `plan.trees.goals` and `plan.queries.goals` say what can be measured.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from distributary.errors import DistributaryError

Number = int | float | Fraction


class GoalFunction(Enum):
    """A function that makes one number of several."""

    MIN = "MIN"
    MAX = "MAX"
    SUM = "SUM"
    AVERAGE = "AVERAGE"
    PRODUCT = "PRODUCT"
    VARIANCE = "VARIANCE"
    STD = "STD"

    @property
    def is_additive(self) -> bool:
        """Whether a count and a sum are all that it needs to know of the values (section 4.2)."""
        return self in (GoalFunction.SUM, GoalFunction.AVERAGE)

    @property
    def is_bottleneck(self) -> bool:
        """Whether it is one of the values: the smallest or the largest."""
        return self in (GoalFunction.MIN, GoalFunction.MAX)

    @property
    def identity(self) -> float:
        """What SUM, MIN or MAX begin with: joined with a value it gives that value."""
        return {GoalFunction.MIN: math.inf, GoalFunction.MAX: -math.inf}.get(self, 0.0)

    @property
    def join(self) -> Callable[[Any, Any], Any]:
        """What makes the SUM, MIN or MAX of two values."""
        if self is GoalFunction.SUM:
            return operator.add
        return min if self is GoalFunction.MIN else max


NODE_FUNCTIONS = (GoalFunction.MIN, GoalFunction.MAX, GoalFunction.SUM, GoalFunction.AVERAGE)
"""The functions of aggregates; the others are for the system's cost alone."""


class Place(Enum):
    """What an expression has a value for."""

    CONSTANT = "anything"
    LINK = "a link"
    NODE = "a node"
    OPERATOR = "an operator"
    QUERY = "a query"


class Scope(Enum):
    """What an aggregate takes together."""

    PATH = "PATH"
    CHILDREN = "CHILDREN"
    UPSTREAM = "UPSTREAM OPERATORS"
    DOWNSTREAM = "DOWNSTREAM OPERATORS"
    LOCAL = "LOCAL OPERATORS"
    QUERY = "QUERY OPERATORS"
    UNSAID = ""
    """What the system's cost implies: QUERY OPERATORS over QUERIES, LOCAL OPERATORS over BROKERS."""


class GoalMembers(Enum):
    """What the system's cost aggregates."""

    BROKERS = "BROKERS"
    CLIENTS = "CLIENTS"
    BOTH = "BROKERS|CLIENTS"
    QUERIES = "QUERIES"


class Direction(Enum):
    """Whether the system's cost shall be small or large."""

    MINIMISE = "minimise"
    MAXIMISE = "maximise"


@dataclass(frozen=True)
class GoalConstant:
    """A number that was written into the goal."""

    value: Number


@dataclass(frozen=True)
class Measure:
    """A named number, and the place where it is measured."""

    name: str
    place: Place


@dataclass(frozen=True)
class Combination:
    """Two expressions made one by `+`, `-`, `*` or `/`, such as the bandwidth-delay product."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class GoalAggregate:
    """One value from those in a scope."""

    function: GoalFunction
    value: Expression
    over: Scope

    def __post_init__(self) -> None:
        if self.function not in NODE_FUNCTIONS:
            raise DistributaryError(
                f"{self.function.value} cannot aggregate over {self.over.value}: "
                "take MIN, MAX, SUM or AVERAGE"
            )
        in_tree = self.over in (Scope.PATH, Scope.CHILDREN)
        if in_tree and any(isinstance(part, GoalAggregate) for part in parts(self.value)):
            raise DistributaryError("a node's aggregate takes local metrics, not another aggregate")


Expression = GoalConstant | Measure | Combination | GoalAggregate


def parts(expression: Expression) -> Iterator[Expression]:
    """The expression and everything that it is made of, the inside of aggregates included."""
    yield expression
    if isinstance(expression, Combination):
        yield from parts(expression.left)
        yield from parts(expression.right)
    elif isinstance(expression, GoalAggregate):
        yield from parts(expression.value)


def names_in(expression: Expression) -> set[str]:
    """The names of the measures in an expression."""
    return {part.name for part in parts(expression) if isinstance(part, Measure)}


SCOPE_PLACES: Mapping[Scope, tuple[Place, Place]] = {
    Scope.PATH: (Place.LINK, Place.NODE),
    Scope.CHILDREN: (Place.LINK, Place.NODE),
    Scope.UPSTREAM: (Place.LINK, Place.OPERATOR),
    Scope.DOWNSTREAM: (Place.LINK, Place.OPERATOR),
    Scope.LOCAL: (Place.OPERATOR, Place.NODE),
    Scope.QUERY: (Place.OPERATOR, Place.QUERY),
    Scope.UNSAID: (Place.OPERATOR, Place.OPERATOR),
}
"""The place whose values a scope takes together (values of nodes fit anywhere), and the place it leads to."""


def place_of(expression: Expression) -> Place:
    """What an expression has a value for; an error where its parts do not go together.

    >>> latency = Measure("latency", Place.LINK)
    >>> place_of(GoalAggregate(GoalFunction.SUM, latency, Scope.UPSTREAM)).value
    'an operator'
    """
    if isinstance(expression, GoalConstant):
        return Place.CONSTANT
    if isinstance(expression, Measure):
        return expression.place
    if isinstance(expression, Combination):
        return _place_of_both(place_of(expression.left), place_of(expression.right))
    inside = place_of(expression.value)
    if expression.over is Scope.UNSAID and inside is Place.NODE:
        return Place.NODE
    wanted, outside = SCOPE_PLACES[expression.over]
    if inside not in (wanted, Place.NODE, Place.CONSTANT):
        over = expression.over.value or "operators"
        raise DistributaryError(f"{over} takes values of {wanted.value}, not of {inside.value}")
    if expression.over is Scope.UNSAID:
        raise DistributaryError("which operators: LOCAL OPERATORS or QUERY OPERATORS?")
    return outside


def _place_of_both(left: Place, right: Place) -> Place:
    """The place of a combination: a node's value joins a link's or an operator's, a constant any."""
    pair = {left, right} - {Place.CONSTANT}
    if len(pair) == 2 and Place.NODE in pair and Place.QUERY not in pair:
        pair.discard(Place.NODE)
    if len(pair) > 1:
        raise DistributaryError(f"a value of {left.value} and one of {right.value} cannot be combined")
    return pair.pop() if pair else Place.CONSTANT


def with_scope(expression: Expression, scope: Scope) -> Expression:
    """The expression with the scope that was left unsaid; a node's value needs no aggregate."""
    if isinstance(expression, Combination):
        left, right = with_scope(expression.left, scope), with_scope(expression.right, scope)
        return Combination(expression.operator, left, right)
    if isinstance(expression, GoalAggregate) and expression.over is Scope.UNSAID:
        of_node = place_of(expression.value) is Place.NODE
        return expression.value if of_node else GoalAggregate(expression.function, expression.value, scope)
    return expression


@dataclass(frozen=True)
class SystemCost:
    """One number from the values of all nodes or all queries."""

    function: GoalFunction
    value: Expression
    members: GoalMembers = GoalMembers.BROKERS


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Constraint:
    """What must hold: of the system's cost, or of every place that has a value."""

    metric: SystemCost | Expression
    comparison: str
    threshold: Number

    def __post_init__(self) -> None:
        if self.comparison not in COMPARISONS:
            raise DistributaryError(
                f"no comparison {self.comparison!r}: take one of {', '.join(COMPARISONS)}"
            )

    def holds(self, value: Number) -> bool:
        """Whether a value keeps the constraint."""
        return COMPARISONS[self.comparison](value, self.threshold)

    def no_worse(self, new: Any, old: Any) -> Any:
        """Whether the new value breaks the constraint no more than the old one did; also of arrays."""
        if self.comparison in ("<", "<="):
            return new <= old
        return new >= old if self.comparison in (">", ">=") else False


@dataclass(frozen=True)
class Goal:
    """What to make small or large, and what must hold."""

    cost: SystemCost
    direction: Direction = Direction.MINIMISE
    constraints: tuple[Constraint, ...] = ()

    @property
    def sign(self) -> int:
        """1 where less is better, -1 where more is: cost times sign is always to be made small."""
        return 1 if self.direction is Direction.MINIMISE else -1


# Evaluating on plain numbers, exactly where the numbers are whole or fractions


def divide(left: Number, right: Number) -> Number:
    """A quotient, as a fraction if both are whole numbers; divided by 0 it is infinite.

    >>> divide(1, 3), divide(1.0, 4), divide(-1, 0)
    (Fraction(1, 3), 0.25, -inf)
    """
    if right == 0:
        return math.inf if left >= 0 else -math.inf
    return Fraction(left, right) if isinstance(left, int) and isinstance(right, int) else left / right


OPERATIONS: Mapping[str, Callable[[Any, Any], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
}


def combine(sign: str, left: Number | None, right: Number | None) -> Number | None:
    """Two values joined by `+ - * /`; without one of them there is no value."""
    return None if left is None or right is None else OPERATIONS[sign](left, right)


def fold(function: GoalFunction, values: Sequence[Number | None], *, zero: bool = False) -> Number | None:
    """MIN, MAX, SUM or AVERAGE of the values that there are; of none, nothing (with `zero`, a SUM of 0)."""
    there = [value for value in values if value is not None]
    if not there:
        return 0 if zero and function is GoalFunction.SUM else None
    if function.is_bottleneck:
        return min(there) if function is GoalFunction.MIN else max(there)
    return sum(there) if function is GoalFunction.SUM else divide(sum(there), len(there))

"""What the brokers of a live tree must know of each other for a goal, by the goal's functions (Table 4.6).

Rules:

- A node's *values* are its aggregates over the path, one for each that the goal names. They follow from the
  parent's values and the node's own link: nothing else need be sent down.
- What lies below a node is a row of *entries*: how many there are, and their values relative to the node, so
  that they hold wherever it moves. Where the goal allows it, entries are made fewer without changing any
  benefit: sums need a count and a mean, extremes the extreme (Table 4.6's T).
- What lies elsewhere matters to a MIN or MAX (the extreme of it), and to VARIANCE, STD and PRODUCT (all of
  it); not to sums.
- A live tree works for costs that aggregate over PATH by SUM, MIN or MAX, whatever the system's function, and
  for sums and averages of any other cost of the nodes. Others are refused, as are constraints on the cost of
  the whole tree: these need what no broker knows. The planner takes all of them.

| system | node | entries below | of the rest |
|---|---|---|---|
| additive | SUM | count and mean | nothing |
| additive | MIN, MAX | distinct values | nothing |
| bottleneck | any | the extreme | the extreme |
| holistic | any | all | all |
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.plan.goal import expression as goals
from distributary.plan.goal.expression import GoalAggregate, GoalFunction
from distributary.plan.trees.cost import aggregated
from distributary.plan.trees.metrics import BUILT_IN, Reads, metrics_of

Values = tuple[float, ...]
"""One value for each of the goal's aggregates over the path."""


class CostEntry(NamedTuple):
    """So many nodes with the same values."""

    times: int
    values: Values


Entries = tuple[CostEntry, ...]


class CostModel:
    """A goal, and what of it each broker keeps.

    A goal that needs what no broker knows is refused with DistributaryError.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> goal = parse_goal("minimise aggregate(SUM, aggregate(SUM, link latency, PATH), BROKERS)")
    >>> model = CostModel(goal)
    >>> model.fewer([CostEntry(1, (10.0,)), CostEntry(3, (30.0,))])
    (CostEntry(times=4, values=(25.0,)),)
    """

    def __init__(self, goal: goals.Goal) -> None:
        self.goal = goal
        node, function = goal.cost.value, goal.cost.function
        limits = [(each, each.metric) for each in goal.constraints]
        constrained = [(each, metric) for each, metric in limits if not isinstance(metric, goals.SystemCost)]
        expressions = [node, *(metric for _, metric in constrained)]
        """The cost of a node, and what is constrained of it."""
        self.metrics = [metric for each in expressions for metric in metrics_of(each)]
        parts = [part for each in expressions for part in goals.parts(each)]
        aggregates = [part for part in parts if isinstance(part, GoalAggregate)]
        self.paths = tuple(dict.fromkeys(one for one in aggregates if one.over is goals.Scope.PATH))
        """The aggregates over the path, each once; those of the cost before those of constraints."""
        self.additive = function.is_additive
        self.bottleneck = function.is_bottleneck
        self.holistic = not (self.additive or self.bottleneck)
        self.along_path = _made_of_paths(node)
        """Whether a node's cost is made of aggregates over its path alone."""
        self.single = node.function if isinstance(node, GoalAggregate) and self.along_path else None
        """The function over the path, if a node's cost is one such aggregate and nothing else."""
        self.root_counts = all(metric.place is goals.Place.NODE for metric in metrics_of(node))
        """Whether the root has a cost: where links count it has none."""
        self.broadcasts_costs = self.holistic and self.single is GoalFunction.SUM and len(self.paths) == 1
        """Whether what is below a node is known by what everybody tells everybody (type V)."""
        self.needs_streams = any(metric.reads is Reads.SUBTREE for metric in self.metrics)
        """Whether metrics read what the subtree asks for."""
        self.aggregates_children = any(one.over is goals.Scope.CHILDREN for one in aggregates)
        self._on_path = [each for each in constrained if _made_of_paths(each[1])]
        """The constraints on what is made of aggregates over the path, with what they constrain."""
        if len(constrained) < len(goal.constraints):
            raise DistributaryError("a live tree has no constraints on its cost as a whole, only on nodes")
        if any(metric.reads is Reads.ANYTHING for metric in self.metrics):
            raise DistributaryError("a live tree measures metrics of links and nodes, not of anything")
        if any(path.function is GoalFunction.AVERAGE for path in self.paths):
            raise DistributaryError("a live tree has no averages over the path; take a sum")
        if not self.additive and not self.along_path:
            raise DistributaryError(
                "a live tree sums or averages costs of nodes that are not aggregated over the path"
            )
        self.nothing: Values = tuple(path.function.identity for path in self.paths)
        """The values of the root, where only links count."""

    @staticmethod
    @lru_cache(64)
    def with_fanout(goal: goals.Goal, fanout: int | None) -> CostModel:
        """The goal, and that no node has more children than that; one model for all brokers of a tree."""
        if fanout is None:
            return CostModel(goal)
        limit = goals.Constraint(BUILT_IN["fanout"], "<=", fanout)
        return CostModel(replace(goal, constraints=(*goal.constraints, limit)))

    def joined(self, above: Values, below: Values) -> Values:
        """Values further down, from those above and those relative to there."""
        rows = zip(self.paths, above, below, strict=True)
        return tuple(float(path.function.join(one, other)) for path, one, other in rows)

    def weight(self, clients: int) -> int:
        """How often a node with so many clients counts."""
        members = self.goal.cost.members
        of_clients = clients if members is not goals.GoalMembers.BROKERS else 0
        return (members is not goals.GoalMembers.CLIENTS) + of_clients

    def cost(self, values: Values) -> float:
        """A node's cost from its values, where these are all it is made of."""
        return self._evaluated(self.goal.cost.value, values)

    def _evaluated(self, expression: goals.Expression, values: Values) -> float:
        if isinstance(expression, goals.GoalConstant):
            return float(expression.value)
        if isinstance(expression, goals.Combination):
            left, right = self._evaluated(expression.left, values), self._evaluated(expression.right, values)
            return float(goals.OPERATIONS[expression.operator](left, right))
        assert isinstance(expression, GoalAggregate)
        return values[self.paths.index(expression)]

    def within(self, values: Values) -> bool:
        """Whether a node with these values keeps the constraints on its path."""
        return all(constraint.holds(self._evaluated(metric, values)) for constraint, metric in self._on_path)

    def system_cost(self, entries: Iterable[CostEntry]) -> float:
        """The cost of the tree from its nodes; 0 while none is known."""
        counted = [each for each in entries if each.times]
        if not counted or not self.along_path:
            return 0.0
        costs = [self.cost(each.values) for each in counted]
        return float(aggregated(self.goal.cost.function, costs, [each.times for each in counted]))

    def worst(self, entries: Iterable[CostEntry]) -> CostEntry | None:
        """Of entries that count, the one whose cost a MIN or MAX takes."""
        choose = min if self.goal.cost.function is GoalFunction.MIN else max
        counted = [each for each in entries if each.times]
        return choose(counted, key=lambda each: self.cost(each.values), default=None)

    def fewer(self, entries: Iterable[CostEntry]) -> Entries:
        """The same in as few entries as the goal allows."""
        alike: Counter[Values] = Counter()
        for count, values in entries:
            alike[values] += count
        merged = [CostEntry(count, values) for values, count in sorted(alike.items())]
        counted = [each for each in merged if each.times]
        if not self.paths or not merged:
            return ()
        if self.single is not None and self.bottleneck:
            worst = self.worst(counted)
            counted = [] if worst is None else [worst._replace(times=1)]
        elif self.single is GoalFunction.SUM and counted:
            counted = list(self._moments(counted))
        return (*counted, *dict.fromkeys(self._extremes(merged)))

    def _moments(self, entries: Sequence[CostEntry]) -> Entries:
        """Entries with the same count and sum; for a variance also with the same sum of squares."""
        count = sum(each.times for each in entries)
        columns = zip(*([each.times * one for one in each.values] for each in entries), strict=True)
        mean = tuple(sum(column) / count for column in columns)
        if self.additive:
            return (CostEntry(count, mean),)
        if self.goal.cost.function is GoalFunction.PRODUCT or count < 2:
            return tuple(entries)
        squares = sum(each.times * (each.values[0] - mean[0]) ** 2 for each in entries)
        pairs = count // 2
        away = math.sqrt(squares / (2 * pairs))
        low, high = ((mean[0] + sign * away, *mean[1:]) for sign in (-1, 1))
        middle = [CostEntry(1, mean)] if count % 2 else []
        return (CostEntry(pairs, low), CostEntry(pairs, high), *middle)

    def _extremes(self, entries: Sequence[CostEntry]) -> list[CostEntry]:
        """The extremes of what is constrained, which count for nothing else."""
        found: list[CostEntry] = []
        for _, metric in self._on_path:
            valued = [(self._evaluated(metric, each.values), each) for each in entries]
            for choose in (min, max):
                _, extreme = choose(valued, key=lambda pair: pair[0])
                found.append(extreme._replace(times=0))
        return found


def _made_of_paths(expression: goals.Expression) -> bool:
    if isinstance(expression, goals.Combination):
        return _made_of_paths(expression.left) and _made_of_paths(expression.right)
    return isinstance(expression, goals.GoalConstant) or (
        isinstance(expression, GoalAggregate) and expression.over is goals.Scope.PATH
    )

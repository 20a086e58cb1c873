"""What the brokers of a live tree must know of each other for a goal, by the goal's functions (Table 4.6).

Rules:

- A node's *values* are its aggregates over the path, one for each that the goal names, and those parts of its
  cost in which no path is: its *own* part. The first follow from the parent's values and the node's own link,
  the second from the node, its link and its children alone. A value that a node does not have (the root, of
  links; a leaf, the least of its children) is None.
- What lies below a node is a row of *entries*: how many there are, and their values relative to the node, so
  that they hold wherever it moves. Where the goal allows it, entries are made fewer without changing any
  benefit: sums need a count and a mean, extremes the extreme (Table 4.6's T).
- What lies elsewhere matters to a MIN or MAX (the extreme of it), and to VARIANCE, STD and PRODUCT (all of
  it); not to sums. Where costs are not of the path alone, and in all that aggregates over CHILDREN, a broker
  asks for everything on its way to the root instead (`whole`).
- An average over the path is a sum by a count.
- A user's own metric is measured by a gauge (`settings.Gauges`); one that is a function of the tree is
  refused. Constraints on the cost of the whole tree and over CHILDREN are taken where they are constraints
  on nodes in other words (`node_limits` says which, and why no others); the rest is refused. The planner
  takes all of them.

| system | node | entries below | of the rest |
|---|---|---|---|
| additive | SUM over the path, or no path in it | count and mean | nothing |
| additive | MIN, MAX over the path | distinct values | nothing |
| bottleneck | any of these | the extreme | the extreme |
| holistic | any of these | all; of a variance, as many as have its moments | all |
| any | a combination with several paths | distinct values | as above |
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.plan.goal import expression as goals
from distributary.plan.goal.expression import Expression, GoalAggregate, GoalFunction, Place, Scope
from distributary.plan.trees.benefit import allowed
from distributary.plan.trees.cost import aggregated, local_value
from distributary.plan.trees.metrics import BUILT_IN, Metric, Reads, measured, metrics_of
from distributary.plan.trees.tree import Sites, Tree
from distributary.systems.tree.node_limits import on_nodes

Values = tuple[float | None, ...]
"""One value for each of the goal's aggregates over the path, then one for each part in which no path is."""


SiteInTree = tuple[Sites, Tree, int]
"""A site of the planner's."""


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
        self.goal = goal = _as_measured(goal)
        """The goal as brokers measure it: own metrics by gauges, averages over the path as sums by counts."""
        node, function = goal.cost.value, goal.cost.function
        limits = [(each, each.metric) for each in goal.constraints]
        constrained = [(each, metric) for each, metric in limits if not isinstance(metric, goals.SystemCost)]
        expressions = [node, *(metric for _, metric in constrained)]
        """The cost of a node, and what is constrained of it."""
        self.metrics = [metric for each in expressions for metric in metrics_of(each)]
        aggregates = [part for each in expressions for part in _aggregates(each)]
        self.paths = tuple(dict.fromkeys(one for one in aggregates if one.over is Scope.PATH))
        """The aggregates over the path, each once; those of the cost before those of constraints."""
        self.children = tuple(dict.fromkeys(one for one in aggregates if one.over is Scope.CHILDREN))
        """The aggregates over children, each once."""
        self._limits = constrained
        self._on_path = [each for each in constrained if has_path(each[1])]
        """The constraints on what is aggregated over the path, with what they constrain."""
        mixed = [node, *(metric for _, metric in self._on_path)]
        self.own = tuple(dict.fromkeys(part for each in mixed for part in _without_path(each)))
        """The largest parts without a path of the cost, and of constraints that have a path."""
        self.additive = function.is_additive
        self.bottleneck = function.is_bottleneck
        self.holistic = not (self.additive or self.bottleneck)
        self.along_path = not any(True for _ in _without_path(node))
        """Whether a node's cost is made of aggregates over its path alone."""
        self.single = node.function if isinstance(node, GoalAggregate) and self.along_path else None
        """The function over the path, if a node's cost is one such aggregate and nothing else."""
        self.has_critical = self.bottleneck and self.single is not None
        """Whether the system's cost hangs on the nodes that have it, and on no others."""
        self.broadcasts_costs = (
            self.holistic and self.single is GoalFunction.SUM and not self.own and not self._on_path
        )
        """Whether what is below a node is known by what everybody tells everybody (type V)."""
        self.whole = bool(self.children) or not (self.additive or self.along_path)
        """Whether brokers ask for all that is on the way to the root before they weigh a rewrite."""
        self.needs_streams = any(metric.reads is Reads.SUBTREE for metric in self.metrics)
        """Whether metrics read what the subtree asks for."""
        self.own_links, self.own_nodes = (
            tuple(sorted({one.name for one in self.metrics if one == measured(one.name, place)}))
            for place in (Place.LINK, Place.NODE)
        )
        """The user's own metrics of links and of nodes, in the order in which their values are told."""
        self._refuse_unknowable(constrained)
        self.nothing: Values = (*(path.function.identity for path in self.paths), *[None] * len(self.own))
        """The values of a stand-in, which change nothing below it."""
        self._position = self._position_of(node)
        sums = self._position is not None and self.single in (GoalFunction.SUM, None)
        self.adds_up = sums and not self._on_path
        """Whether a node's cost is its own or a sum over its path, and no path is constrained."""
        self._reducible = self._position is not None and all(
            metric in self.paths and each.comparison != "!=" for each, metric in self._on_path
        )

    def _refuse_unknowable(self, constrained: Sequence[tuple[goals.Constraint, Expression]]) -> None:
        if len(constrained) < len(self.goal.constraints):
            raise DistributaryError(
                "a live tree keeps a constraint on its whole only where each node can: MAX with < or <=, MIN "
                "with > or >=, over brokers"
            )
        if any(one.over is Scope.CHILDREN for _, metric in constrained for one in _aggregates(metric)):
            raise DistributaryError(
                "a live tree keeps a constraint over CHILDREN only where each child can: MAX with < or <=, "
                "MIN with > or >=, of their links"
            )

    def _position_of(self, node: Expression) -> int | None:
        """Where a node's cost is among its values, if it is one of them."""
        if isinstance(node, GoalAggregate) and node in self.paths:
            return self.paths.index(node)
        return len(self.paths) + self.own.index(node) if node in self.own else None

    @staticmethod
    @lru_cache(64)
    def with_fanout(goal: goals.Goal, fanout: int | None) -> CostModel:
        """The goal, and that no node has more children than that; one model for all brokers of a tree."""
        if fanout is None:
            return CostModel(goal)
        limit = goals.Constraint(BUILT_IN["fanout"], "<=", fanout)
        return CostModel(replace(goal, constraints=(*goal.constraints, limit)))

    # Values.

    def local_values(self, sites: Sites, tree: Tree, site: int, over_children: Values) -> Values:
        """A site's part in its own values, given its aggregates over children."""
        paths = [local_value(path.value, sites, tree, site) for path in self.paths]
        own = [self._evaluated(part, (), (sites, tree, site), over_children) for part in self.own]
        return tuple(None if value is None else float(value) for value in (*paths, *own))

    def joined(self, above: Values, below: Values) -> Values:
        """Values further down, from those above and those relative to there."""
        count = len(self.paths)
        rows = zip(self.paths, above[:count], below[:count], strict=True)
        return (*(_joined(path.function, one, other) for path, one, other in rows), *below[count:])

    def weight(self, clients: int) -> int:
        """How often a node with so many clients counts."""
        members = self.goal.cost.members
        of_clients = clients if members is not goals.GoalMembers.BROKERS else 0
        return (members is not goals.GoalMembers.CLIENTS) + of_clients

    def cost(self, values: Values) -> float | None:
        """A node's cost from its values; None if it has none."""
        found = self._evaluated(self.goal.cost.value, values)
        return None if found is None else float(found)

    def _evaluated(
        self,
        expression: Expression,
        values: Values,
        at: SiteInTree | None = None,
        over_children: Values = (),
    ) -> goals.Number | None:
        """An expression by a node's values, or where it has no path, at a site."""
        if isinstance(expression, goals.GoalConstant):
            return expression.value
        if values and expression in self.own:
            return values[len(self.paths) + self.own.index(expression)]
        if isinstance(expression, goals.Combination):
            left, right = (
                self._evaluated(side, values, at, over_children)
                for side in (expression.left, expression.right)
            )
            return goals.combine(expression.operator, left, right)
        if isinstance(expression, GoalAggregate):
            on_path = expression.over is Scope.PATH
            row, among = (values, self.paths) if on_path else (over_children, self.children)
            return row[among.index(expression)]
        assert at is not None
        return local_value(expression, *at)

    # Constraints.

    def within(self, values: Values) -> bool:
        """Whether a node with these values keeps the constraints on its path."""
        found = ((each, self._evaluated(metric, values)) for each, metric in self._on_path)
        return all(value is None or each.holds(value) for each, value in found)

    def limited(self, values: Values, at: SiteInTree) -> list[float | None]:
        """What the constraints are on, of a node with these values that is a site of a small tree."""
        found = (
            self._evaluated(metric, values if has_path(metric) else (), at) for _, metric in self._limits
        )
        return [None if value is None else float(value) for value in found]

    def fits(self, values: Values, at: SiteInTree) -> bool:
        """Whether a node keeps the constraints that hang on its place in the tree."""
        rows = zip(self._limits, self.limited(values, at), strict=True)
        return all(
            value is None or each.holds(value) for (each, metric), value in rows if _is_of_place(metric)
        )

    def stays_kept(self, before: Sequence[float | None], after: Sequence[float | None]) -> bool:
        """Whether no constraint is broken that was kept, or more than it was; by what `limited` finds."""
        rows = zip(self._limits, before, after, strict=True)
        return all(allowed(each, old, new) for (each, _), old, new in rows)

    # Many nodes.

    def system_cost(self, entries: Iterable[CostEntry]) -> float:
        """The cost of the tree from its nodes; 0 while none is known."""
        found = [(self.cost(each.values), each.times) for each in entries if each.times]
        counted = [(cost, times) for cost, times in found if cost is not None]
        if not counted:
            return 0.0
        costs, times = zip(*counted, strict=True)
        return float(aggregated(self.goal.cost.function, costs, times))

    def worst(self, entries: Iterable[CostEntry]) -> CostEntry | None:
        """Of entries that count, the one whose cost a MIN or MAX takes."""
        choose = min if self.goal.cost.function is GoalFunction.MIN else max
        found = [(self.cost(each.values), each) for each in entries if each.times]
        counted = [(cost, each) for cost, each in found if cost is not None]
        return choose(counted, key=lambda pair: pair[0], default=(0.0, None))[1]

    def fewer(self, entries: Iterable[CostEntry]) -> Entries:
        """The same in as few entries as the goal allows."""
        alike: Counter[Values] = Counter()
        for count, values in entries:
            alike[values] += count
        merged = [CostEntry(alike[values], values) for values in sorted(alike, key=_order)]
        counted = [each for each in merged if each.times and self.cost(each.values) is not None]
        if not self._reducible:
            return tuple(merged if self._on_path else counted)
        if self.bottleneck:
            worst = self.worst(counted)
            counted = [] if worst is None else [worst._replace(times=1)]
        elif self.single in (GoalFunction.SUM, None) and counted:
            counted = list(self._moments(counted))
        return (*counted, *dict.fromkeys(self._extremes(merged)))

    def _moments(self, entries: Sequence[CostEntry]) -> Entries:
        """Entries with the same count and sum; for a variance also with the same sum of squares."""
        position = self._position
        assert position is not None
        count = sum(each.times for each in entries)
        columns = zip(*([each.times * (one or 0.0) for one in each.values] for each in entries), strict=True)
        mean = tuple(sum(column) / count for column in columns)
        if self.additive:
            return (CostEntry(count, mean),)
        if self.goal.cost.function is GoalFunction.PRODUCT or count < 2:
            return tuple(entries)
        squares = sum(each.times * ((each.values[position] or 0.0) - mean[position]) ** 2 for each in entries)
        pairs = count // 2
        away = math.sqrt(squares / (2 * pairs))
        low, high = (
            (*mean[:position], mean[position] + sign * away, *mean[position + 1 :]) for sign in (-1, 1)
        )
        middle = [CostEntry(1, mean)] if count % 2 else []
        return (CostEntry(pairs, low), CostEntry(pairs, high), *middle)

    def _extremes(self, entries: Sequence[CostEntry]) -> list[CostEntry]:
        """The extremes of what is constrained, which count for nothing else."""
        found: list[CostEntry] = []
        for _, metric in self._on_path:
            values = [(self._evaluated(metric, each.values), each) for each in entries]
            valued = [(value, each) for value, each in values if value is not None]
            for choose in (min, max):
                _, extreme = choose(valued, key=lambda pair: pair[0], default=(None, None))
                found += [] if extreme is None else [extreme._replace(times=0)]
        return found


def _joined(function: GoalFunction, above: float | None, below: float | None) -> float | None:
    if above is None or below is None:
        return below if above is None else above
    return float(function.join(above, below))


def _order(values: Values) -> tuple[tuple[bool, float], ...]:
    """Sorts values, those that are none at the end."""
    return tuple((value is None, value or 0.0) for value in values)


# The goal's expressions.


def _aggregates(expression: Expression) -> Iterator[GoalAggregate]:
    return (part for part in goals.parts(expression) if isinstance(part, GoalAggregate))


def has_path(expression: Expression) -> bool:
    """Whether an aggregate over the path is in an expression."""
    return any(one.over is Scope.PATH for one in _aggregates(expression))


def _is_of_place(metric: Expression) -> bool:
    """Whether a constraint's metric depends on who the parent is."""
    return has_path(metric) or any(one.reads is Reads.PARENT for one in metrics_of(metric))


def _without_path(expression: Expression) -> Iterator[Expression]:
    """The largest parts in which no path is, constants apart."""
    if not has_path(expression):
        if not isinstance(expression, goals.GoalConstant):
            yield expression
    elif isinstance(expression, goals.Combination):
        yield from _without_path(expression.left)
        yield from _without_path(expression.right)


def _as_measured(goal: goals.Goal) -> goals.Goal:
    """The goal as brokers measure it; see `CostModel.goal`."""
    cost = replace(goal.cost, value=_changed(goal.cost.value))
    constraints = tuple(
        each if isinstance(each.metric, goals.SystemCost) else replace(each, metric=_changed(each.metric))
        for each in map(on_nodes, goal.constraints)
    )
    return replace(goal, cost=cost, constraints=constraints)


def _changed(expression: Expression) -> Expression:
    if isinstance(expression, goals.Combination):
        left, right = _changed(expression.left), _changed(expression.right)
        return goals.Combination(expression.operator, left, right)
    if isinstance(expression, GoalAggregate):
        value = _changed(expression.value)
        if expression.over is Scope.PATH and expression.function is GoalFunction.AVERAGE:
            total, count = (GoalAggregate(GoalFunction.SUM, one, Scope.PATH) for one in (value, _one(value)))
            return goals.Combination("/", total, count)
        return replace(expression, value=value)
    if isinstance(expression, Metric) and expression not in BUILT_IN.values():
        if expression.reads not in (Reads.NOTHING, Reads.PARENT):
            raise DistributaryError(
                f"a live tree measures {expression.name!r} on a link or at a node by itself, and it reads "
                f"{expression.reads.value}; combine it in the goal from what can be measured"
            )
        return measured(expression.name, expression.place)
    return expression


@lru_cache(64)
def _one(value: Expression) -> Metric:
    """1 wherever an expression of local metrics has a value."""
    on_link = any(metric.place is Place.LINK for metric in metrics_of(value))
    place, reads = (Place.LINK, Reads.PARENT) if on_link else (Place.NODE, Reads.NOTHING)
    return Metric("values on the path", place, reads, lambda sites, tree, site: 1)

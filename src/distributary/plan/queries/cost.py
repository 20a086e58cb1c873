"""What a placement costs, measured item by item: the plain answer that everything faster is checked against.

Cost: every stream is followed to every reader once, and every expression evaluated for all it is of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from distributary.errors import DistributaryError
from distributary.plan.goal.query_goal import (
    Aggregate,
    Combination,
    Constraint,
    Expression,
    Level,
    Members,
    Over,
    QueryGoal,
    Statistic,
    SystemCost,
    level_of,
)
from distributary.plan.goal.query_text import query_constraint_text
from distributary.plan.goal.tree_goal import Constant, Function
from distributary.plan.queries.graph import WHOLE, shared
from distributary.plan.queries.placement import Placement
from distributary.plan.trees.cost import OPERATIONS, divide, fold
from distributary.plan.trees.tree import Number

Link = tuple[int, int]
Values = list[Number | None]


class Measured:
    """All values of one placement.

    >>> from distributary.plan.queries.graph import Operator, Query, Source, Workload, client
    >>> from distributary.plan.goal.query_text import parse_query_goal
    >>> from distributary.plan.queries.placement import Network
    >>> from distributary.plan.trees.tree import Sites, star
    >>> network = Network(Sites(latency=[[0, 5], [5, 0]]), (star(2),))
    >>> operators = (Operator("rare", "filter", (0,), selectivity=0.25), client("ann", 1, site=1))
    >>> workload = Workload((Source("feed", 0, 100, 1),), operators, (Query("q", (0, 1)),))
    >>> goal = parse_query_goal('''
    ...     out = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate
    ...     minimise aggregate(SUM, out, BROKERS)''')
    >>> [Measured(Placement(workload, network, (host, 1))).system(goal.cost) for host in (0, 1)]
    [25.0, 100]
    """

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self.workload = placement.workload
        self.network = placement.network

    # What travels

    @cached_property
    def carried(self) -> dict[tuple[int, Link], Number]:
        """The bytes a second of each stream on each link that it takes."""
        asked: dict[tuple[int, Link], int] = defaultdict(int)
        for reader, operator in enumerate(self.workload.operators):
            for stream in operator.inputs:
                for link in self.placement.links(stream, reader):
                    asked[stream, link] += self.network.asked(operator)
        return {
            (stream, link): shared(self.workload.rate(stream), min(share, WHOLE))
            for (stream, link), share in asked.items()
        }

    def of_sources(self, stream: int) -> bool:
        return self.workload.producer(stream) is None

    # Statistics

    def link_statistic(self, name: str, link: Link) -> Number:
        sites = self.network.sites
        if name == "latency":
            return sites.latency[link[0]][link[1]]
        if not sites.bandwidth:
            raise DistributaryError("the goal asks for bandwidth, and no bandwidth matrix was given")
        return sites.bandwidth[link[0]][link[1]]

    def operator_statistic(self, name: str, operator: int) -> Number:
        workload = self.workload
        if name == "load":
            return self.placement.load(operator)
        if name == "input rate":
            return self.placement.input_rate(operator)
        if name == "produced rate":
            return workload.output_rate(operator)
        if name == "selectivity":
            return workload.operators[operator].selectivity
        if name == "processing latency":
            return self.node_statistic("node delay", self.placement.hosts[operator])
        stream = workload.stream(operator)
        return sum(rate for (carried, _), rate in self.carried.items() if carried == stream)

    def node_statistic(self, name: str, site: int) -> Number:
        local = [index for index, host in enumerate(self.placement.hosts) if host == site]
        duties = self.network.duties_of(site)
        if name == "node load":
            return duties.load + sum(self.placement.load(index) for index in local)
        if name == "capacity":
            return 1000 * self.network.speed_of(site)
        if name == "operators":
            return duties.operators + len([index for index in local if self.workload.runs(index)])
        if name == "incoming rate":
            return duties.incoming + sum(rate for (_, link), rate in self.carried.items() if link[1] == site)
        if name == "forwarding rate":
            return duties.forwarding + sum(
                rate
                for (stream, link), rate in self.carried.items()
                if link[0] == site and self.of_sources(stream)
            )
        if name == "fanout":
            return self.fanout(site)
        cycles = duties.cycles + sum(self.workload.operators[index].cost for index in local)
        return divide(cycles + self.network.matching * self.fanout(site), self.network.speed_of(site))

    def fanout(self, site: int) -> int:
        """Links of trees, each tree's for itself, on which the site forwards anything."""
        sources = self.workload.sources
        return len(
            {
                (sources[stream].tree, link)
                for stream, link in self.carried
                if link[0] == site and self.of_sources(stream)
            }
        )

    # Expressions

    def values(self, expression: Expression) -> Values:
        """The expression for every node, operator or query, whatever it is of."""
        level = level_of(expression)
        if level is Level.NODE:
            return [self.node(expression, site) for site in range(self.network.sites.count)]
        if level is Level.OPERATOR:
            return [self.operator(expression, index) for index in range(len(self.workload.operators))]
        return [self.query(expression, number) for number in range(len(self.workload.queries))]

    def system(self, cost: SystemCost) -> Number:
        """The system's cost."""
        count = self.network.sites.count
        if cost.members is Members.BROKERS:
            values: Iterable[Number | None] = (self.node(cost.value, site) for site in range(count))
        else:
            values = (self.query(cost.value, number) for number in range(len(self.workload.queries)))
        total = _folded(cost.function, list(values))
        if total is None:
            raise DistributaryError("nothing has the cost that the goal aggregates")
        return total

    def node(self, expression: Expression, site: int) -> Number | None:
        if isinstance(expression, Constant):
            return expression.value
        if isinstance(expression, Statistic):
            return self.node_statistic(expression.name, site)
        if isinstance(expression, Combination):
            return combine(
                expression.operator, self.node(expression.left, site), self.node(expression.right, site)
            )
        local = [index for index, host in enumerate(self.placement.hosts) if host == site]
        return _folded(expression.function, [self.operator(expression.value, index) for index in local])

    def query(self, expression: Expression, number: int) -> Number | None:
        if isinstance(expression, Constant):
            return expression.value
        if isinstance(expression, Combination):
            left, right = self.query(expression.left, number), self.query(expression.right, number)
            return combine(expression.operator, left, right)
        assert isinstance(expression, Aggregate)
        operators = self.workload.queries[number].operators
        return _folded(expression.function, [self.operator(expression.value, index) for index in operators])

    def operator(self, expression: Expression, index: int) -> Number | None:
        if isinstance(expression, Constant):
            return expression.value
        if isinstance(expression, Statistic):
            if expression.level is Level.NODE:
                return self.node_statistic(expression.name, self.placement.hosts[index])
            return self.operator_statistic(expression.name, index)
        if isinstance(expression, Combination):
            left, right = self.operator(expression.left, index), self.operator(expression.right, index)
            return combine(expression.operator, left, right)
        if expression.over is Over.LOCAL:
            return self.node(expression, self.placement.hosts[index])
        stream = self.workload.stream(index)
        ways = (
            [self.placement.links(above, index) for above in self.workload.operators[index].inputs]
            if expression.over is Over.UPSTREAM
            else [self.placement.links(stream, reader) for reader in self.workload.readers[stream]]
        )
        if not ways and expression.function is Function.SUM:
            return 0
        return _folded(Function.AVERAGE, [self._along(expression, way) for way in ways])

    def _along(self, expression: Aggregate, way: Sequence[Link]) -> Number | None:
        return _folded(expression.function, [self.link(expression.value, link) for link in way])

    def link(self, expression: Expression, link: Link) -> Number | None:
        if isinstance(expression, Constant):
            return expression.value
        if isinstance(expression, Statistic):
            if expression.level is Level.NODE:
                return self.node_statistic(expression.name, link[0])
            return self.link_statistic(expression.name, link)
        if isinstance(expression, Combination):
            left, right = self.link(expression.left, link), self.link(expression.right, link)
            return combine(expression.operator, left, right)
        return self.node(expression, link[0])

    # Constraints

    def broken(self, constraint: Constraint) -> dict[int, Number]:
        """Who breaks a constraint, by number, and with what value; the system is number 0."""
        if isinstance(constraint.metric, SystemCost):
            values: Values = [self.system(constraint.metric)]
        else:
            values = self.values(constraint.metric)
        return {
            number: value
            for number, value in enumerate(values)
            if value is not None and not constraint.holds(value)
        }


def combine(operator: str, left: Number | None, right: Number | None) -> Number | None:
    return None if left is None or right is None else OPERATIONS[operator](left, right)


def _folded(function: Function, values: Sequence[Number | None]) -> Number | None:
    there = [value for value in values if value is not None]
    return 0 if not there and function is Function.SUM else fold(function, there)


def placement_cost(cost: SystemCost, placement: Placement) -> Number:
    """What a placement costs, measured anew."""
    return Measured(placement).system(cost)


def query_violations(goal: QueryGoal, placement: Placement) -> list[str]:
    """Which constraints the placement breaks, and where."""
    measured = Measured(placement)
    return [
        f"{query_constraint_text(constraint)}: {_whose(placement, constraint, number)} it is {value}"
        for constraint in goal.constraints
        for number, value in measured.broken(constraint).items()
    ]


def _whose(placement: Placement, constraint: Constraint, number: int) -> str:
    if isinstance(constraint.metric, SystemCost):
        return "of all"
    level = level_of(constraint.metric)
    if level is Level.NODE:
        return f"at {placement.network.sites.name(number)}"
    if level is Level.QUERY:
        return f"of query {placement.workload.queries[number].name}"
    return f"of operator {placement.workload.operators[number].name}"

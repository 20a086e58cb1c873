"""What a placement costs, measured item by item: the plain answer that everything faster is checked against.

Cost: every stream is followed to every reader once, and every expression evaluated for all it is of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

from distributary.errors import DistributaryError
from distributary.plan.goal import expression as goals
from distributary.plan.goal.expression import Expression, GoalFunction, Number, Place, Scope, SystemCost
from distributary.plan.goal.text import constraint_text
from distributary.plan.queries.graph import WHOLE, shared
from distributary.plan.queries.placement import Placement

Link = tuple[int, int]
Values = list[Number | None]


class MeasuredPlacement:
    """All values of one placement.

    >>> from distributary.plan.queries.graph import PlannedOperator, PlannedQuery, PlannedSource
    >>> from distributary.plan.queries.graph import QueryWorkload, client
    >>> from distributary.plan.queries.goals import parse_query_goal
    >>> from distributary.plan.queries.placement import SiteNetwork
    >>> from distributary.plan.trees.tree import Sites, star
    >>> network = SiteNetwork(Sites(latency=[[0, 5], [5, 0]]), (star(2),))
    >>> operators = (PlannedOperator("rare", "filter", (0,), selectivity=0.25), client("ann", 1, site=1))
    >>> queries = (PlannedQuery("q", (0, 1)),)
    >>> workload = QueryWorkload((PlannedSource("feed", 0, 100, 1),), operators, queries)
    >>> goal = parse_query_goal('''
    ...     out = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate
    ...     minimise aggregate(SUM, out, BROKERS)''')
    >>> [MeasuredPlacement(Placement(workload, network, (host, 1))).system(goal.cost) for host in (0, 1)]
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

    def _forwarded(self, site: int) -> dict[tuple[int, Link], Number]:
        """Of what is carried, what the site forwards on trees: all streams but those of its own operators."""
        carried = self.carried.items()
        return {key: rate for key, rate in carried if key[1][0] == site and self._host(key[0]) != site}

    def _host(self, stream: int) -> int | None:
        """Where the operator of a stream is; None for a source, which its tree's root forwards."""
        producer = self.workload.producer(stream)
        return None if producer is None else self.placement.hosts[producer]

    # Statistics

    def link_statistic(self, name: str, link: Link) -> Number:
        """A statistic of a link, by its name."""
        sites = self.network.sites
        if name == "latency":
            return sites.latency[link[0]][link[1]]
        if name in sites.link_metrics:
            return sites.link_metrics[name][link[0]][link[1]]
        if name != "bandwidth" or not sites.bandwidth:
            raise DistributaryError(f"the goal asks for {name}, of which no values were given")
        return sites.bandwidth[link[0]][link[1]]

    def operator_statistic(self, name: str, operator: int) -> Number:
        """A statistic of an operator, by its name."""
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
        own, host = workload.stream(operator), self.placement.hosts[operator]
        carried = self.carried.items()
        return sum(rate for (stream, (sender, _)), rate in carried if (stream, sender) == (own, host))

    def node_statistic(self, name: str, site: int) -> Number:
        """A statistic of a site, by its name, with what the site does besides."""
        local = self._local(site)
        duties = self.network.duties_of(site)
        if name == "node load":
            return duties.load + sum(self.placement.load(index) for index in local)
        if name in self.network.sites.site_metrics:
            return self.network.sites.site_metrics[name][site]
        if name == "capacity":
            return 1000 * self.network.speed_of(site)
        if name == "operators":
            return duties.operators + len([index for index in local if self.workload.runs(index)])
        if name == "incoming rate":
            return duties.incoming + sum(rate for (_, link), rate in self.carried.items() if link[1] == site)
        if name == "forwarding rate":
            return duties.forwarding + sum(self._forwarded(site).values())
        if name == "fanout":
            return self.fanout(site)
        cycles = duties.cycles + sum(self.workload.operators[index].cost for index in local)
        return goals.divide(cycles + self.network.matching * self.fanout(site), self.network.speed_of(site))

    def fanout(self, site: int) -> int:
        """Links of trees, each tree's for itself, on which the site forwards anything."""
        sources = self.workload.sources

        def tree(stream: int) -> tuple[bool, int]:
            from_source = stream < len(sources)
            return from_source, sources[stream].tree if from_source else stream

        return len({(tree(stream), link) for stream, link in self._forwarded(site)})

    # Expressions

    def values(self, expression: Expression, place: Place | None = None) -> Values:
        """The expression for every node, operator or query, whatever it is of."""
        place = place or goals.place_of(expression)
        count = {
            Place.NODE: self.network.sites.count,
            Place.OPERATOR: len(self.workload.operators),
            Place.QUERY: len(self.workload.queries),
        }[place]
        return [self.value(expression, place, number) for number in range(count)]

    def system(self, cost: SystemCost) -> Number:
        """The system's cost."""
        place = Place.NODE if cost.members is goals.GoalMembers.BROKERS else Place.QUERY
        total = goals.fold(cost.function, self.values(cost.value, place), zero=True)
        if total is None:
            raise DistributaryError("nothing has the cost that the goal aggregates")
        return total

    def value(self, expression: Expression, place: Place, at: int | Link) -> Number | None:
        """The expression for one node, operator or query, or for one link."""
        if isinstance(expression, goals.GoalConstant):
            return expression.value
        if isinstance(expression, goals.Combination):
            left, right = self.value(expression.left, place, at), self.value(expression.right, place, at)
            return goals.combine(expression.operator, left, right)
        if isinstance(expression, goals.Measure):
            if expression.place is Place.NODE:
                return self.node_statistic(expression.name, self._site(place, at))
            if isinstance(at, tuple):
                return self.link_statistic(expression.name, at)
            return self.operator_statistic(expression.name, at)
        if expression.over is Scope.LOCAL:
            operators: Sequence[int] = self._local(self._site(place, at))
        else:
            assert isinstance(at, int)
            if expression.over is not Scope.QUERY:
                return self._along_ways(expression, at)
            operators = self.workload.queries[at].operators
        values = [self.value(expression.value, Place.OPERATOR, index) for index in operators]
        return goals.fold(expression.function, values, zero=True)

    def _site(self, place: Place, at: int | Link) -> int:
        """The site whose values a node, an operator or a link has: an operator's host, a link's sender."""
        if isinstance(at, tuple):
            return at[0]
        return self.placement.hosts[at] if place is Place.OPERATOR else at

    def _local(self, site: int) -> list[int]:
        return [index for index, host in enumerate(self.placement.hosts) if host == site]

    def _along_ways(self, expression: goals.GoalAggregate, operator: int) -> Number | None:
        """The average of what lies between an operator and each of its producers, or of its readers."""
        stream = self.workload.stream(operator)
        ways = (
            [self.placement.links(above, operator) for above in self.workload.operators[operator].inputs]
            if expression.over is Scope.UPSTREAM
            else [self.placement.links(stream, reader) for reader in self.workload.readers[stream]]
        )
        if not ways and expression.function is GoalFunction.SUM:
            return 0
        along = [[self.value(expression.value, Place.LINK, link) for link in way] for way in ways]
        return goals.fold(
            GoalFunction.AVERAGE, [goals.fold(expression.function, row, zero=True) for row in along]
        )

    # Constraints

    def broken(self, constraint: goals.Constraint) -> dict[int, Number]:
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


def placement_cost(cost: SystemCost, placement: Placement) -> Number:
    """What a placement costs, measured anew."""
    return MeasuredPlacement(placement).system(cost)


def query_violations(goal: goals.Goal, placement: Placement) -> list[str]:
    """Which constraints the placement breaks, and where."""
    measured = MeasuredPlacement(placement)
    return [
        f"{constraint_text(constraint)}: {_whose(placement, constraint, number)} it is {value}"
        for constraint in goal.constraints
        for number, value in measured.broken(constraint).items()
    ]


def _whose(placement: Placement, constraint: goals.Constraint, number: int) -> str:
    if isinstance(constraint.metric, SystemCost):
        return "of all"
    place = goals.place_of(constraint.metric)
    if place is Place.NODE:
        return f"at {placement.network.sites.name(number)}"
    if place is Place.QUERY:
        return f"of query {placement.workload.queries[number].name}"
    return f"of operator {placement.workload.operators[number].name}"

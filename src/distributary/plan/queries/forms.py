"""Values of goals in forms that a move changes little: Properties 1 to 3 of section 5.4.4, derived again.

A *form* knows the values that a goal or a constraint needs: of all nodes (`NodeForm`), operators
(`OperatorForm`) or queries (`QueryForm`), or the system's cost (`system`). For a move of operators to each of
several sites it says what the values would be, without measuring the placement anew.

Layout: `values()` is a row, with one value for each node, operator, query, or for the system. `after(move)`
gives the numbers of the values that the move may change, and a matrix: a row for each site tried, a column
for each of these values.

What a move changes, from the bottom up:

- Links. Trees stand still, so what lies between a tree's root and a site, or between two sites, is known
  beforehand, whatever function aggregates it. Only the moved operators and those they exchange data with get
  other values (Property 2 without the case of a link that changes).
- Nodes. Where an operator's value holds a value of nodes (the delay at its host, or at the sites that forward
  to it), a change there changes all its dependents by as much: it is known how often each node counts for
  each query (Definitions 6 and 7, for sums).
- Queries. The value of a query with one of these operators is folded again from its operators' values, which
  is right for SUM, AVERAGE, MIN and MAX alike, whichever way costs go (Property 3).

A chain of sites 0, 1, 2, a feed of 100 bytes a second from 0, a filter that passes a quarter, a client at 2:

    >>> from distributary.plan.queries.graph import PlannedOperator, PlannedQuery, PlannedSource, client
    >>> from distributary.plan.queries.goals import STATISTICS
    >>> from distributary.plan.queries.graph import QueryWorkload
    >>> from distributary.plan.queries.placement import Placement, SiteNetwork
    >>> from distributary.plan.trees.tree import Sites, Tree
    >>> network = SiteNetwork(Sites(latency=[[0, 1, 2], [1, 0, 1], [2, 1, 0]]), (Tree((-1, 0, 1)),))
    >>> operators = (PlannedOperator("rare", "filter", (0,), selectivity=0.25), client("ann", 1, site=2))
    >>> queries = (PlannedQuery("q", (0, 1)),)
    >>> workload = QueryWorkload((PlannedSource("feed", 0, 100, 1),), operators, queries)
    >>> state = PlacementState(Placement(workload, network, (2, 2)))
    >>> incoming = NodeForm(STATISTICS["incoming rate"], state)
    >>> incoming.values()                        # the feed goes all the way to the filter at 2
    array([  0., 100., 100.])
    >>> incoming.after(OperatorMove(state, [0], np.array([0, 1])))[1]       # the filter at 0, and at 1
    array([[  0.,   0.,  25.],
           [  0., 100.,  25.]])

Cost: as `OperatorMove`; with values of nodes under MIN or MAX, the queries times the sites for each site
tried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.goal import expression as goals
from distributary.plan.goal.expression import Expression, GoalAggregate, GoalFunction, Measure, Scope
from distributary.plan.queries import evaluation
from distributary.plan.queries.evaluation import UnfitError, is_of_node
from distributary.plan.queries.moves import OperatorMove
from distributary.plan.queries.state import Floats, Indices, PlacementState

Columns = Sequence[int] | slice
"""Which values a matrix has columns for."""

ALL = slice(None)


class Form:
    """Values of a placement, and what they would be after a move."""

    def values(self) -> Floats:
        """The values as they are."""
        raise NotImplementedError

    def after(self, move: OperatorMove) -> tuple[Columns, Floats]:
        """Which values a move may change, and what they would be for each site tried: a row each."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget all operators; those that are learnt again count again."""

    def forget(self, operators: Sequence[int]) -> None:
        """Called before these operators change."""

    def learn(self, operators: Sequence[int]) -> None:
        """Called after these operators changed, or came in."""


class NodeForm(Form):
    """A value of every node, read from the state's quantities as they are."""

    def __init__(self, expression: Expression, state: PlacementState) -> None:
        self.state = state
        self.expression = expression
        speed = state.network.speed
        self.speed: Floats = np.array([float(value) for value in speed]) if speed else np.ones(state.count)
        self.values()  # an expression that does not fit is refused at once

    def values(self) -> Floats:
        return self._evaluated(self.state.quantities.__getitem__)

    def rows_after(self, move: OperatorMove) -> Floats:
        """The values of all nodes for each site tried."""
        found = self._evaluated(move.quantity)
        return np.broadcast_to(found, (len(move.sites), self.state.count))

    def after(self, move: OperatorMove) -> tuple[Columns, Floats]:
        return ALL, self.rows_after(move)

    def _evaluated(self, quantity: Callable[[str], Floats]) -> Floats:
        found = evaluation.evaluated(self.expression, lambda part: self._part(part, quantity))
        return np.broadcast_to(found, (*found.shape[:-1], self.state.count))

    def _part(self, part: Expression, quantity: Callable[[str], Floats]) -> Floats:
        if isinstance(part, GoalAggregate):
            total: Floats = np.zeros(())
            for factor, name in evaluation.local_multiples(part):
                total = total + factor * quantity(name)
            return total
        assert isinstance(part, Measure)
        if part.name in self.state.network.sites.site_metrics:
            return np.array(self.state.network.sites.site_metrics[part.name], dtype=np.float64)
        if part.name == "capacity":
            return 1000 * self.speed
        if part.name in evaluation.NODE_QUANTITIES:
            return self._with_duties(evaluation.NODE_QUANTITIES[part.name], quantity)
        if part.name in ("node delay", "processing latency"):
            matching = float(self.state.network.matching)
            cycles = self._with_duties("cycles", quantity)
            return (cycles + matching * quantity("fanout") if matching else cycles) / self.speed
        raise UnfitError(f"{part.name} as a value of a node")

    def _with_duties(self, name: str, quantity: Callable[[str], Floats]) -> Floats:
        besides = self.state.duties.get(name)
        return quantity(name) if besides is None else quantity(name) + besides


class WayCosts:
    """An aggregate of links between every two sites, and from every tree's root to every site.

    `direct[sender, reader]` is the value of the one link that an operator's output takes, unless it spreads
    by a tree; `from_root[tree][site]` that of the links of a tree from its root down to a site.
    """

    def __init__(self, aggregate: GoalAggregate, state: PlacementState) -> None:
        self.upstream = aggregate.over is Scope.UPSTREAM
        self.state = state
        self.sums = aggregate.function is GoalFunction.SUM
        self.nothing = 0.0 if self.sums else np.nan
        """The value where no link lies between."""
        sites = state.network.sites

        def matrix(part: Expression) -> Floats:
            assert isinstance(part, Measure)
            given = {"latency": sites.latency, "bandwidth": sites.bandwidth, **sites.link_metrics}
            if not given.get(part.name):
                raise DistributaryError(f"the goal asks for {part.name}, of which no values were given")
            return np.array(given[part.name], dtype=np.float64)

        links = np.broadcast_to(evaluation.evaluated(aggregate.value, matrix), (state.count, state.count))
        self._function = aggregate.function
        self._links = links
        self.direct: Floats = links.copy()
        np.fill_diagonal(self.direct, self.nothing)
        self.from_root: list[Floats] = [
            self._down(aggregate.function, links, number) for number in range(len(state.trees))
        ]

    def _down(self, function: GoalFunction, links: Floats, number: int) -> Floats:
        """Aggregate the links of one tree from its root down."""
        tree = self.state.network.trees[number]
        averages = function is GoalFunction.AVERAGE
        join = GoalFunction.SUM.join if averages else function.join
        found = np.full(self.state.count, self.nothing)
        for site in tree.order[1:]:
            parent = tree.parents[site]
            start = (0.0 if averages else function.identity) if parent == tree.root else found[parent]
            found[site] = join(start, links[parent, site])
        if averages:
            found /= np.maximum(np.array(tree.depth), 1)
            found[tree.root] = np.nan
        return found

    def _by_tree(self, stream: int, reader: int, moved: Collection[int], sites: Indices) -> Floats:
        """The value of the links of a stream's tree on the way to a reader, for each site."""
        found = np.full(len(sites), self.nothing)
        for row, site in enumerate(sites.tolist()):
            way = self.state.way(stream, reader, moved, site)
            if way:
                found[row] = evaluation.folded(self._function, np.array([self._links[link] for link in way]))
        return found

    def of(self, operator: int, moved: Collection[int], sites: Indices) -> Floats:
        """An operator's value with some operators at each of these sites: the average over its ways."""
        state = self.state

        def host(one: int) -> Indices | int:
            return sites if one in moved else state.hosts[one]

        own, found = host(operator), []
        if self.upstream:
            for stream in state.inputs[operator]:
                if stream < state.sources:
                    found.append(self.from_root[state.tree_of[stream]][own])
                elif state.spreads(stream - state.sources):
                    found.append(self._by_tree(stream, operator, moved, sites))
                else:
                    found.append(self.direct[host(stream - state.sources), own])
        elif state.spreads(operator):
            stream = state.sources + operator
            found = [self._by_tree(stream, reader, moved, sites) for reader in state.readers[stream]]
        else:
            found = [self.direct[own, host(reader)] for reader in state.readers[state.sources + operator]]
        if not found:
            return np.full(len(sites), self.nothing)
        if len(found) == 1:
            return np.broadcast_to(found[0], (len(sites),))
        rows = np.stack([np.broadcast_to(row, (len(sites),)) for row in found], axis=-1)
        return evaluation.folded(GoalFunction.AVERAGE, rows)


class OperatorForm(Form):
    """A value of every operator, in two parts: one that hangs on the ways to it, and one that hangs on nodes.

    `known` holds each operator's first part; it must have been learnt before it is read. Values of nodes are
    those at the operator's host (`at_host`) and those of the sites that send on its ways (`on_the_way`).
    """

    def __init__(self, expression: Expression, state: PlacementState) -> None:
        self.state = state
        self.known: list[float] = []
        self.ways: dict[GoalAggregate, WayCosts] = {}
        self.on_the_way: list[tuple[bool, NodeForm]] = []
        """Whether the way is upstream, and the values of the nodes that send on it."""
        found, self.rest = evaluation.terms(expression, _reads_nodes)
        hosts: list[tuple[float, Expression]] = []
        for factor, part in found:
            if isinstance(part, GoalAggregate) and part.over is not Scope.LOCAL:
                self._add_way(factor, part)
            else:
                hosts.append((factor, part))
        total = evaluation.weighted_sum(hosts)
        self.at_host = None if total is None else NodeForm(total, state)
        for part in goals.parts(self.rest) if self.rest is not None else ():
            if isinstance(part, GoalAggregate):
                self.ways[part] = WayCosts(part, state)
            elif isinstance(part, Measure) and part.name == "output rate":
                raise UnfitError("what an operator sends, as a cost of a query or an operator")

    def _add_way(self, factor: float, part: GoalAggregate) -> None:
        """A sum over links of values of links and of the nodes that send on them."""
        if part.function is not GoalFunction.SUM:
            raise UnfitError("values of nodes along a way, not summed")
        found, rest = evaluation.terms(part.value, is_of_node)
        total = evaluation.weighted_sum([(inner * factor, node) for inner, node in found])
        assert total is not None
        self.on_the_way.append((part.over is Scope.UPSTREAM, NodeForm(total, self.state)))
        if rest is not None:
            links = GoalAggregate(GoalFunction.SUM, rest, part.over)
            way = goals.Combination("*", goals.GoalConstant(factor), links)
            self.rest = way if self.rest is None else goals.Combination("+", self.rest, way)

    @property
    def node_forms(self) -> list[NodeForm]:
        """The values of nodes that take part."""
        at_host = [] if self.at_host is None else [self.at_host]
        return [form for _, form in self.on_the_way] + at_host

    @property
    def complete(self) -> bool:
        """Whether every operator has a value wherever it is."""
        return all(ways.sums for ways in self.ways.values())

    # The part without nodes

    def values(self) -> Floats:
        return np.array(self.known)

    def after(self, move: OperatorMove) -> tuple[Columns, Floats]:
        ids = self.affected(move)
        return ids, np.stack([self.rest_of(index, move.operators, move.sites) for index in ids], axis=-1)

    def learn(self, operators: Sequence[int]) -> None:
        hosts = self.state.hosts
        del self.known[len(hosts) :]
        self.known += [0.0] * (len(hosts) - len(self.known))
        for index in operators:
            self.known[index] = float(self.rest_of(index, (index,), np.array([hosts[index]]))[0])

    def rest_of(self, operator: int, moved: Collection[int], sites: Indices) -> Floats:
        """The part that hangs on no node, with some operators at each of these sites."""
        if self.rest is None:
            return np.zeros(len(sites))

        def lookup(part: Expression) -> Floats:
            if isinstance(part, GoalAggregate):
                return self.ways[part].of(operator, moved, sites)
            assert isinstance(part, Measure)
            return np.array(self.state.statistic(part.name, operator))

        return np.broadcast_to(evaluation.evaluated(self.rest, lookup), (len(sites),))

    def affected(self, move: OperatorMove) -> list[int]:
        """The operators whose ways change: those that move, and those they exchange data with."""
        return sorted({near for operator in move.operators for near in self.state.near(operator)})

    # The part that hangs on nodes

    def _ways_of(self, operator: int, upstream: bool) -> list[tuple[int, int]]:
        """The streams and readers between an operator and its producers, or its readers."""
        if upstream:
            return [(stream, operator) for stream in self.state.inputs[operator]]
        stream = self.state.sources + operator
        return [(stream, reader) for reader in self.state.readers[stream]]

    def weights(self, operator: int) -> list[tuple[NodeForm, Indices, float]]:
        """Which nodes' values the operator has, and how much of each."""
        found = []
        if self.at_host is not None:
            found.append((self.at_host, np.array([self.state.hosts[operator]]), 1.0))
        for upstream, form in self.on_the_way:
            ways = self._ways_of(operator, upstream)
            found += [(form, self._senders(stream, reader), 1 / len(ways)) for stream, reader in ways]
        return found

    def _senders(self, stream: int, reader: int) -> Indices:
        """The sites that send a stream on its way to a reader."""
        state = self.state
        site = state.hosts[reader]
        if stream < state.sources:
            tree = state.trees[state.tree_of[stream]]
            return tree.parents[tree.paths[site]]
        links = state.way(stream, reader, (), site)
        return np.array([sender for sender, _ in links], dtype=np.intp)

    def node_change(self, operator: int, move: OperatorMove, values: Mapping[NodeForm, Floats]) -> Floats:
        """By how much the operator's other ways change its part that hangs on nodes, for each site tried.

        `values` are the nodes' values after the move: what these change by themselves is not counted here.
        """
        found = np.zeros(len(move.sites))
        if self.at_host is not None:
            sites = move.sites if operator in move.operators else self.state.hosts[operator]
            found = found + values[self.at_host][move.rows, sites]
        for upstream, form in self.on_the_way:
            ways = self._ways_of(operator, upstream)
            for stream, reader in ways:
                found = found + self._along(stream, reader, move, values[form]) / len(ways)
        for form, senders, share in self.weights(operator):
            found = found - share * values[form][:, senders].sum(axis=1)
        return found

    def _along(self, stream: int, reader: int, move: OperatorMove, values: Floats) -> Floats:
        """The sum of the senders' values on a way, for each site tried."""
        state = self.state

        def hosts(operator: int) -> Indices:
            return (
                move.sites if operator in move.operators else np.full(len(move.sites), state.hosts[operator])
            )

        if stream >= state.sources and state.spreads(stream - state.sources):
            ways = [state.way(stream, reader, move.operators, site) for site in move.sites.tolist()]
            senders = [[sender for sender, _ in way] for way in ways]
            return np.array([values[row, sending].sum() for row, sending in enumerate(senders)])
        ends = hosts(reader)
        if stream >= state.sources:
            starts = hosts(stream - state.sources)
            return np.where(starts != ends, values[move.rows, starts], 0.0)
        tree = state.trees[state.tree_of[stream]]
        # The value of a link's sender, at its lower end; the root's own column is never on a path.
        return np.asarray((tree.above[ends] * values[:, tree.parents]).sum(axis=1))


def _reads_nodes(part: Expression) -> bool:
    if isinstance(part, GoalAggregate) and part.over in (Scope.UPSTREAM, Scope.DOWNSTREAM):
        return any(is_of_node(inner) for inner in goals.parts(part.value))
    return is_of_node(part)


class QueryForm(Form):
    """A value of every query: `rest`, folded from its operators' parts without nodes, and values of nodes.

    `times[form][query, node]` is how often a node's value counts for a query, `totals[form][node]` for all of
    them.
    """

    def __init__(self, expression: Expression, state: PlacementState) -> None:
        if not isinstance(expression, GoalAggregate):
            raise UnfitError("a cost of a query that is no single aggregate of its operators")
        self.state = state
        self.function = expression.function
        self.operators = OperatorForm(expression.value, state)
        forms = self.operators.node_forms
        if forms and self.function is not GoalFunction.SUM:
            raise UnfitError("values of nodes in queries' costs that are no sums")
        count = len(state.workload.queries)
        self.rest: Floats = np.zeros(count)
        self.times: dict[NodeForm, Floats] = {form: np.zeros((count, state.count)) for form in forms}
        self.totals: dict[NodeForm, Floats] = {form: np.zeros(state.count) for form in forms}
        self.learn(range(len(state.hosts)))

    # Keeping up

    def clear(self) -> None:
        """Forget all queries; what has no operators yet counts as 0 in sums, and not at all otherwise."""
        self.rest[:] = 0.0 if self.function is GoalFunction.SUM else np.nan
        for rows in (*self.times.values(), *self.totals.values()):
            rows[...] = 0

    def forget(self, operators: Sequence[int]) -> None:
        self._count(operators, -1.0)

    def learn(self, operators: Sequence[int]) -> None:
        self.operators.learn(operators)
        self._count(operators, 1.0)
        known = self.operators.known
        for number in {number for operator in operators for number in self.state.queries_of[operator]}:
            row = np.array([known[index] for index in self.state.members[number]])
            self.rest[number] = float(evaluation.folded(self.function, row))

    def _count(self, operators: Iterable[int], sign: float) -> None:
        """Count what nodes the operators have values of in (1) or out (-1)."""
        for operator in operators if self.times else ():
            queries = self.state.queries_of[operator]
            for form, sites, share in self.operators.weights(operator):
                self.totals[form][sites] += sign * share * len(queries)
                for number in queries:
                    self.times[form][number, sites] += sign * share

    # Values

    def values(self) -> Floats:
        found = self.rest.copy()
        for form, times in self.times.items():
            found += times @ form.values()
        return found

    def after(self, move: OperatorMove) -> tuple[list[int], Floats]:
        """The queries a move reaches (with values of nodes, all), and their values for each site tried."""
        rest_of, affected = self.operators.rest_of, self.operators.affected(move)
        changed = {index: rest_of(index, move.operators, move.sites) for index in affected}
        queries = sorted({number for index in changed for number in self.state.queries_of[index]})
        columns = np.zeros((len(move.sites), 0))
        if queries:
            columns = np.stack([self._folded(number, changed) for number in queries], axis=-1)
        if not self.times:
            return queries, columns
        values = {form: form.rows_after(move) for form in self.times}
        found = np.broadcast_to(self.rest, (len(move.sites), len(self.rest))).copy()
        found[:, queries] = columns
        for form, times in self.times.items():
            found += values[form] @ times.T
        for index in changed:
            change = self.operators.node_change(index, move, values)
            for number in self.state.queries_of[index]:
                found[:, number] += change
        return list(range(len(self.rest))), found

    def _folded(self, number: int, changed: Mapping[int, Floats]) -> Floats:
        size = len(next(iter(changed.values())))
        rows = [
            changed[index] if index in changed else np.full(size, self.operators.known[index])
            for index in self.state.members[number]
        ]
        return evaluation.folded(self.function, np.stack(rows, axis=-1))

    def total_after(self, move: OperatorMove) -> Floats:
        """The sum of all queries' values for each site tried, when each is the sum of its operators'."""
        found = np.zeros(len(move.sites))
        affected = self.operators.affected(move)
        asked = {index: len(self.state.queries_of[index]) for index in affected}
        for index in affected:
            rest = self.operators.rest_of(index, move.operators, move.sites)
            found = found + asked[index] * (rest - self.operators.known[index])
        found = found + float(self.rest.sum())
        if not self.times:
            return found
        values = {form: form.rows_after(move) for form in self.times}
        for form, times in self.totals.items():
            found = found + values[form] @ times
        for index in affected:
            found = found + asked[index] * self.operators.node_change(index, move, values)
        return found

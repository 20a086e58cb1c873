"""Costs in the forms in which a move changes them little: Properties 1 to 3 of section 5.4.4, derived again.

What a move changes, from the bottom up:

- Links. Trees stand still, so what lies between a tree's root and a site, or between two sites, is a number
  known beforehand, whatever function aggregates it. Only the moved operator and those it exchanges data with
  get another one (Property 2 without the case of a link that changes).
- Nodes. Where an operator's cost holds a value of nodes (the delay at its host, or at the sites that forward
  to it), a change there changes all its dependents by as much: known is how often each node counts for each
  query (Definitions 6 and 7, for sums).
- Queries. The cost of a query with one of these operators is folded again from its operators' costs, which is
  right for SUM, AVERAGE, MIN and MAX alike, whichever way costs go (Property 3).
- The system. Sums change by the queries' changes; MIN and MAX are taken of the new values and of the best (or
  worst) of all others, whether costs are to be small or large (Property 1).

Goals that fit none of these forms (`UnfitError`) are measured anew for every site tried: right, and slow.

Cost: as `state.Move`; with values of nodes under MIN or MAX, the queries times the sites for each site tried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.goal import (
    Combination,
    Expression,
    GoalAggregate,
    GoalConstant,
    GoalFunction,
    GoalMembers,
    Measure,
    Place,
    Scope,
    SystemCost,
    parts,
)
from distributary.plan.queries.cost import MeasuredPlacement
from distributary.plan.queries.state import Floats, Indices, OperatorMove, PlacementState


class UnfitError(DistributaryError):
    """A cost that none of the forms here can say."""


Lookup = Callable[[Expression], Floats]

OPERATIONS: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
}


def evaluated(expression: Expression, lookup: Lookup) -> Floats:
    """An expression over arrays; statistics and aggregates are looked up."""
    if isinstance(expression, GoalConstant):
        return np.array(float(expression.value))
    if not isinstance(expression, Combination):
        return lookup(expression)
    left, right = evaluated(expression.left, lookup), evaluated(expression.right, lookup)
    if expression.operator != "/":
        return OPERATIONS[expression.operator](left, right)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(right == 0, np.where(left >= 0, np.inf, -np.inf), left / right)


def folded(function: GoalFunction, values: Floats) -> Floats:
    """MIN, MAX, SUM or AVERAGE along the last axis; what is not a number is not there."""
    missing = np.isnan(values)
    if not missing.any():
        if not values.shape[-1]:
            return np.full(values.shape[:-1], 0.0 if function is GoalFunction.SUM else np.nan)
        if function is GoalFunction.SUM:
            return np.asarray(values.sum(axis=-1))
        if function is GoalFunction.AVERAGE:
            return np.asarray(values.sum(axis=-1) / values.shape[-1])
        return np.asarray(values.min(axis=-1) if function is GoalFunction.MIN else values.max(axis=-1))
    if function.is_additive:
        total = np.where(missing, 0.0, values).sum(axis=-1)
        if function is GoalFunction.SUM:
            return np.asarray(total)
        there = (~missing).sum(axis=-1)
        return np.where(there > 0, total / np.maximum(there, 1), np.nan)
    worst = np.inf if function is GoalFunction.MIN else -np.inf
    filled = np.where(missing, worst, values)
    found = filled.min(axis=-1) if function is GoalFunction.MIN else filled.max(axis=-1)
    return np.where(missing.all(axis=-1), np.nan, found)


# Sums of parts

Terms = tuple[list[tuple[float, Expression]], Expression | None]


def terms(
    expression: Expression, is_part: Callable[[Expression], bool]
) -> tuple[list[tuple[float, Expression]], Expression | None]:
    """The expression as a sum of multiples of such parts, and the rest, in which there are none."""
    if is_part(expression):
        return [(1.0, expression)], None
    if not any(is_part(part) for part in parts(expression)):
        return [], expression
    if not isinstance(expression, Combination):
        raise UnfitError("a value of nodes inside another aggregate")
    left, left_rest = terms(expression.left, is_part)
    right, right_rest = terms(expression.right, is_part)
    if expression.operator in ("+", "-"):
        sign = 1.0 if expression.operator == "+" else -1.0
        found = left + [(sign * factor, part) for factor, part in right]
        if left_rest is None or right_rest is None:
            kept = left_rest if right_rest is None else right_rest
            if kept is right_rest and kept is not None and sign < 0:
                kept = Combination("-", GoalConstant(0), kept)
            return found, kept
        return found, Combination(expression.operator, left_rest, right_rest)
    if isinstance(expression.right, GoalConstant) and expression.right.value and left_rest is None:
        by = float(expression.right.value)
        by = by if expression.operator == "*" else 1 / by
        return [(by * factor, part) for factor, part in left], None
    if isinstance(expression.left, GoalConstant) and expression.operator == "*" and right_rest is None:
        by = float(expression.left.value)
        return [(by * factor, part) for factor, part in right], None
    raise UnfitError("values of nodes that are multiplied or divided")


def of_nodes(expression: Expression) -> bool:
    """Whether an expression is a value of a node, by itself."""
    if isinstance(expression, Measure):
        return expression.place is Place.NODE or expression.name == "processing latency"
    return isinstance(expression, GoalAggregate) and expression.over is Scope.LOCAL


# Nodes

SUMS: Mapping[str, str] = {
    "load": "load",
    "input rate": "input",
    "produced rate": "produced",
    "output rate": "published",
    "selectivity": "selectivity",
}
"""Statistics of operators, and the quantity that is their sum at each node."""

OF_NODE: Mapping[str, str] = {
    "node load": "load",
    "operators": "operators",
    "fanout": "fanout",
    "incoming rate": "incoming",
    "forwarding rate": "forwarding",
}


class NodeForm:
    """A value of every node."""

    def __init__(self, expression: Expression, state: PlacementState) -> None:
        self.state = state
        self.expression = expression
        speed = state.network.speed
        self.speed: Floats = np.array([float(value) for value in speed]) if speed else np.ones(state.count)
        self.values()

    def values(self) -> Floats:
        return self._evaluated(lambda name: self.state.quantities[name])

    def after(self, move: OperatorMove) -> Floats:
        """The values for each site tried: a row each."""
        found = self._evaluated(move.quantity)
        return np.broadcast_to(found, (len(move.sites), self.state.count))

    def _evaluated(self, quantity: Callable[[str], Floats]) -> Floats:
        found = evaluated(self.expression, lambda part: self._part(part, quantity))
        return (
            np.broadcast_to(found, (*found.shape[:-1], self.state.count))
            if found.ndim
            else np.full(self.state.count, float(found))
        )

    def _part(self, part: Expression, quantity: Callable[[str], Floats]) -> Floats:
        if isinstance(part, GoalAggregate):
            if part.function is not GoalFunction.SUM:
                raise UnfitError("an aggregate of local operators that is no sum")
            found, rest = terms(part.value, lambda inner: isinstance(inner, Measure) and inner.name in SUMS)
            if rest is not None:
                raise UnfitError("a sum over local operators of something else than their statistics")
            total: Floats = np.zeros(())
            for factor, inner in found:
                assert isinstance(inner, Measure)
                total = total + factor * quantity(SUMS[inner.name])
            return total
        assert isinstance(part, Measure)
        if part.name == "capacity":
            return 1000 * self.speed
        if part.name in OF_NODE:
            return self._with_duties(OF_NODE[part.name], quantity)
        if part.name in ("node delay", "processing latency"):
            matching = float(self.state.network.matching)
            cycles = self._with_duties("cycles", quantity)
            return (cycles + matching * quantity("fanout") if matching else cycles) / self.speed
        raise UnfitError(f"{part.name} as a value of a node")

    def _with_duties(self, name: str, quantity: Callable[[str], Floats]) -> Floats:
        besides = self.state.duties.get(name)
        return quantity(name) if besides is None else quantity(name) + besides


def multiples(expression: Expression) -> list[tuple[float, str]] | None:
    """A value of nodes as multiples of quantities, if it is nothing else."""

    def simple(part: Expression) -> bool:
        return isinstance(part, GoalAggregate) or (isinstance(part, Measure) and part.name in OF_NODE)

    try:
        found, rest = terms(expression, simple)
        if rest is not None and not isinstance(rest, GoalConstant):
            return None
        quantities = []
        for factor, part in found:
            if isinstance(part, Measure):
                quantities.append((factor, OF_NODE[part.name]))
                continue
            assert isinstance(part, GoalAggregate)
            inner, others = terms(part.value, lambda one: isinstance(one, Measure) and one.name in SUMS)
            if others is not None:
                return None
            quantities += [
                (factor * times, SUMS[one.name]) for times, one in inner if isinstance(one, Measure)
            ]
    except UnfitError:
        return None
    return quantities


# Paths


class WayCosts:
    """An aggregate of links between every two sites, and from every tree's root to every site."""

    def __init__(self, aggregate: GoalAggregate, state: PlacementState) -> None:
        self.upstream = aggregate.over is Scope.UPSTREAM
        self.state = state
        self.sums = aggregate.function is GoalFunction.SUM
        sites = state.network.sites

        def matrix(part: Expression) -> Floats:
            assert isinstance(part, Measure)
            if part.name == "bandwidth" and not sites.bandwidth:
                raise DistributaryError("the goal asks for bandwidth, and no bandwidth matrix was given")
            return np.array(sites.latency if part.name == "latency" else sites.bandwidth, dtype=np.float64)

        links = np.broadcast_to(evaluated(aggregate.value, matrix), (state.count, state.count))
        self.direct: Floats = links.copy()
        np.fill_diagonal(self.direct, 0.0 if self.sums else np.nan)
        self.from_root: list[Floats] = [
            self._down(aggregate.function, links, number) for number in range(len(state.trees))
        ]

    def _down(self, function: GoalFunction, links: Floats, number: int) -> Floats:
        tree = self.state.network.trees[number]
        found = np.full(self.state.count, 0.0 if self.sums else np.nan)
        for site in tree.order[1:]:
            parent = tree.parents[site]
            above, link = found[parent], links[parent, site]
            if function.is_additive:
                found[site] = (0.0 if parent == tree.root else above) + link
            elif parent == tree.root:
                found[site] = link
            else:
                found[site] = min(above, link) if function is GoalFunction.MIN else max(above, link)
        if function is GoalFunction.AVERAGE:
            found /= np.maximum(np.array(tree.depth), 1)
            found[tree.root] = np.nan
        return found

    def of(self, operator: int, moved: Collection[int], sites: Indices) -> Floats:
        """An operator's value with some operators at each of these sites."""
        state = self.state
        found = []
        own = sites if operator in moved else state.hosts[operator]
        if self.upstream:
            for stream in state.inputs[operator]:
                if stream < state.sources:
                    found.append(self.from_root[state.tree_of[stream]][own])
                    continue
                producer = stream - state.sources
                found.append(self.direct[sites if producer in moved else state.hosts[producer], own])
        else:
            for reader in state.readers[state.sources + operator]:
                found.append(self.direct[own, sites if reader in moved else state.hosts[reader]])
        if not found:
            return np.full(len(sites), 0.0 if self.sums else np.nan)
        if len(found) == 1:
            return np.broadcast_to(found[0], (len(sites),))
        rows = np.stack([np.broadcast_to(row, (len(sites),)) for row in found], axis=-1)
        return folded(GoalFunction.AVERAGE, rows)


# Operators and queries


class OperatorForm:
    """A value of every operator: a part that hangs on the ways to it, and a part that hangs on nodes."""

    def __init__(self, expression: Expression, state: PlacementState) -> None:
        self.state = state
        self.ways: dict[GoalAggregate, WayCosts] = {}
        self.at_host: NodeForm | None = None
        self.on_the_way: list[tuple[bool, NodeForm]] = []
        host: Expression | None = None
        if any(_reads_nodes(part) for part in parts(expression)):
            found, self.rest = terms(expression, _reads_nodes)
        else:
            found, self.rest = [], expression
        for factor, part in found:
            if isinstance(part, GoalAggregate) and part.over is not Scope.LOCAL:
                self._add_way(factor, part)
            else:
                more: Expression = Combination("*", GoalConstant(factor), part)
                host = more if host is None else Combination("+", host, more)
        if host is not None:
            self.at_host = NodeForm(host, state)
        for part in parts(self.rest) if self.rest is not None else ():
            if isinstance(part, GoalAggregate):
                self.ways[part] = WayCosts(part, state)
            elif isinstance(part, Measure) and part.name == "output rate":
                raise UnfitError("what an operator sends, as a cost of a query or an operator")

    def _add_way(self, factor: float, part: GoalAggregate) -> None:
        """A sum over links of values of links and of the nodes that send on them."""
        if part.function is not GoalFunction.SUM:
            raise UnfitError("values of nodes along a way, not summed")
        found, rest = terms(part.value, of_nodes)
        total: Expression | None = None
        for inner, node in found:
            more: Expression = Combination("*", GoalConstant(inner * factor), node)
            total = more if total is None else Combination("+", total, more)
        assert total is not None
        self.on_the_way.append((part.over is Scope.UPSTREAM, NodeForm(total, self.state)))
        if rest is not None:
            way: Expression = Combination(
                "*", GoalConstant(factor), GoalAggregate(GoalFunction.SUM, rest, part.over)
            )
            self.rest = way if self.rest is None else Combination("+", self.rest, way)

    @property
    def on_nodes(self) -> bool:
        """Whether values of nodes take part."""
        return self.at_host is not None or bool(self.on_the_way)

    @property
    def complete(self) -> bool:
        """Whether every operator has a value wherever it is."""
        return all(ways.sums for ways in self.ways.values())

    def rest_of(self, operator: int, moved: Collection[int], sites: Indices) -> Floats:
        """The part that hangs on no node, with some operators at each of these sites."""
        if self.rest is None:
            return np.zeros(len(sites))

        def lookup(part: Expression) -> Floats:
            if isinstance(part, GoalAggregate):
                return self.ways[part].of(operator, moved, sites)
            assert isinstance(part, Measure)
            return np.array(self.state.statistic(part.name, operator))

        return np.broadcast_to(evaluated(self.rest, lookup), (len(sites),))

    def affected(self, move: OperatorMove) -> list[int]:
        """The operators whose ways change: those that move, and those they exchange data with."""
        return sorted({near for operator in move.operators for near in self.state.near(operator)})

    def weights(self, operator: int) -> list[tuple[NodeForm, Indices, float]]:
        """Which nodes' values the operator has, and how much of each."""
        state = self.state
        host = state.hosts[operator]
        found = []
        if self.at_host is not None:
            found.append((self.at_host, np.array([host]), 1.0))
        for upstream, form in self.on_the_way:
            ways = [self.senders(operator, stream, host) for stream in state.inputs[operator]]
            if not upstream:
                stream = state.sources + operator
                ways = [self.senders(reader, stream, state.hosts[reader]) for reader in state.readers[stream]]
            found += [(form, way, 1 / len(ways)) for way in ways]
        return found

    def senders(self, reader: int, stream: int, site: int) -> Indices:
        """The sites that send a stream on its way to a reader at a site."""
        state = self.state
        if stream < state.sources:
            tree = state.trees[state.tree_of[stream]]
            return tree.parents[tree.paths[site]]
        host = state.hosts[stream - state.sources]
        return np.array([host] if host != site else [], dtype=np.intp)

    def nodes_of(self, operator: int, move: OperatorMove, values: Mapping[NodeForm, Floats]) -> Floats:
        """The part that hangs on nodes, with the move's operator at each of its sites."""
        found = np.zeros(len(move.sites))
        own = move.sites if operator in move.operators else None
        if self.at_host is not None:
            sites = own if own is not None else self.state.hosts[operator]
            found = found + values[self.at_host][move.rows, sites]
        for upstream, form in self.on_the_way:
            state = self.state
            if upstream:
                ways = [(stream, operator) for stream in state.inputs[operator]]
            else:
                stream = state.sources + operator
                ways = [(stream, reader) for reader in state.readers[stream]]
            for stream, reader in ways:
                found = found + self._along(stream, reader, move, values[form]) / len(ways)
        return found

    def _along(self, stream: int, reader: int, move: OperatorMove, values: Floats) -> Floats:
        state = self.state
        ends = move.sites if reader in move.operators else np.full(len(move.sites), state.hosts[reader])
        if stream >= state.sources:
            producer = stream - state.sources
            hosts = move.sites if producer in move.operators else np.full(len(ends), state.hosts[producer])
            return np.where(hosts != ends, values[move.rows, hosts], 0.0)
        tree = state.trees[state.tree_of[stream]]
        above = tree.above[ends]
        # The value of a link's sender, at its lower end; the root's own column is never on a path.
        return np.asarray((above * values[:, tree.parents]).sum(axis=1))


def _reads_nodes(part: Expression) -> bool:
    if isinstance(part, GoalAggregate) and part.over in (Scope.UPSTREAM, Scope.DOWNSTREAM):
        return any(of_nodes(inner) for inner in parts(part.value))
    return of_nodes(part)


class QueryForm:
    """A value of every query."""

    def __init__(self, expression: Expression, state: PlacementState) -> None:
        if not isinstance(expression, GoalAggregate):
            raise UnfitError("a cost of a query that is no single aggregate of its operators")
        self.state = state
        self.function = expression.function
        self.operators = OperatorForm(expression.value, state)
        if self.operators.on_nodes and self.function is not GoalFunction.SUM:
            raise UnfitError("values of nodes in queries' costs that are no sums")
        count = len(state.workload.queries)
        self.rest_values: list[float] = []
        self.rest: Floats = np.zeros(count)
        forms = [form for _, form in self.operators.on_the_way]
        if self.operators.at_host is not None:
            forms.append(self.operators.at_host)
        self.times: dict[NodeForm, Floats] = {form: np.zeros((count, state.count)) for form in forms}
        """How often each node's value counts for each query."""
        self.totals: dict[NodeForm, Floats] = {form: np.zeros(state.count) for form in forms}
        self.learn(range(len(state.hosts)))

    # Keeping up

    def clear(self) -> None:
        """Forget all queries; what has no operators yet counts as 0 in sums, and not at all otherwise."""
        self.rest[:] = 0.0 if self.function is GoalFunction.SUM else np.nan
        for rows in (*self.times.values(), *self.totals.values()):
            rows[...] = 0

    def forget(self, operators: Iterable[int]) -> None:
        """Before operators change: take out what nodes count for them."""
        if self.times:
            for operator in operators:
                self._count(operator, -1.0)

    def learn(self, operators: Iterable[int]) -> None:
        """After operators changed: read their values again."""
        state = self.state
        del self.rest_values[len(state.hosts) :]
        self.rest_values += [0.0] * (len(state.hosts) - len(self.rest_values))
        asked: set[int] = set()
        for operator in operators:
            here = np.array([state.hosts[operator]])
            self.rest_values[operator] = float(self.operators.rest_of(operator, (operator,), here)[0])
            asked.update(state.queries_of[operator])
            if self.times:
                self._count(operator, 1.0)
        self.refold(asked)

    def refold(self, queries: Iterable[int]) -> None:
        for number in queries:
            row = np.array([self.rest_values[index] for index in self.state.members[number]])
            self.rest[number] = float(folded(self.function, row))

    def _count(self, operator: int, sign: float) -> None:
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
        """The queries that a move reaches, and their values for each site tried.

        With values of nodes these are all queries.
        """
        changed = {index: self._changed(index, move) for index in self.operators.affected(move)}
        queries = sorted({number for index in changed for number in self.state.queries_of[index]})
        columns = (
            np.stack([self._folded(number, changed) for number in queries], axis=-1)
            if queries
            else (np.zeros((len(move.sites), 0)))
        )
        if not self.times:
            return queries, columns
        values = {form: form.after(move) for form in self.times}
        found = np.broadcast_to(self.rest, (len(move.sites), len(self.rest))).copy()
        found[:, queries] = columns
        for form, times in self.times.items():
            found += values[form] @ times.T
        for index in changed:
            of_nodes_now = self.operators.nodes_of(index, move, values)
            for form, sites, share in self.operators.weights(index):
                of_nodes_now = of_nodes_now - share * values[form][:, sites].sum(axis=1)
            for number in self.state.queries_of[index]:
                found[:, number] += of_nodes_now
        return list(range(len(self.rest))), found

    def _changed(self, operator: int, move: OperatorMove) -> Floats:
        return self.operators.rest_of(operator, move.operators, move.sites)

    def _folded(self, number: int, changed: Mapping[int, Floats]) -> Floats:
        size = len(next(iter(changed.values())))
        rows = [
            changed[index] if index in changed else np.full(size, self.rest_values[index])
            for index in self.state.members[number]
        ]
        return folded(self.function, np.stack(rows, axis=-1))

    def total_after(self, move: OperatorMove) -> Floats:
        """The sum of all queries' values for each site tried, when each is the sum of its operators'."""
        state = self.state
        found = np.zeros(len(move.sites))
        affected = self.operators.affected(move)
        for index in affected:
            asked = len(state.queries_of[index])
            found = found + asked * (self._changed(index, move) - self.rest_values[index])
        found = found + float(self.rest.sum())
        if not self.times:
            return found
        values = {form: form.after(move) for form in self.times}
        for form, times in self.totals.items():
            found = found + values[form] @ times
        for index in affected:
            nodes = self.operators.nodes_of(index, move, values)
            for form, sites, share in self.operators.weights(index):
                nodes = nodes - share * values[form][:, sites].sum(axis=1)
            found = found + len(state.queries_of[index]) * nodes
        return found


# The system


class SystemForm(Protocol):
    """The system's cost, and what it would be after a move."""

    def cost(self) -> float: ...

    def after(self, move: OperatorMove) -> Floats: ...

    def forget(self, operators: Sequence[int]) -> None: ...

    def learn(self, operators: Sequence[int]) -> None: ...


class BrokersCost:
    """A cost over all nodes."""

    def __init__(self, cost: SystemCost, state: PlacementState) -> None:
        self.function = cost.function
        self.nodes = NodeForm(cost.value, state)
        self.multiples: list[tuple[float, str]] | None = None
        """Where the cost is a sum of multiples of quantities: these."""
        if cost.function.is_additive:
            self.multiples = multiples(cost.value)

    def cost(self) -> float:
        return float(folded(self.function, self.nodes.values()))

    def after(self, move: OperatorMove) -> Floats:
        if self.multiples is None:
            return folded(self.function, self.nodes.after(move))
        change = np.zeros(len(move.sites))
        for factor, name in self.multiples:
            change += factor * move.total(name)
        if self.function is GoalFunction.AVERAGE:
            change /= move.state.count
        return self.cost() + change

    def forget(self, operators: Sequence[int]) -> None:
        """Nodes are read from the state as they are."""

    def learn(self, operators: Sequence[int]) -> None:
        """Nodes are read from the state as they are."""


class QueriesCost:
    """A cost over all queries."""

    def __init__(self, cost: SystemCost, state: PlacementState) -> None:
        self.function = cost.function
        self.queries = QueryForm(cost.value, state)

    def cost(self) -> float:
        return float(folded(self.function, self.queries.values()))

    def after(self, move: OperatorMove) -> Floats:
        sums = self.function.is_additive
        if sums and self.queries.function is GoalFunction.SUM and self.queries.operators.complete:
            total = self.queries.total_after(move)
            return total if self.function is GoalFunction.SUM else total / len(self.queries.rest)
        queries, columns = self.queries.after(move)
        if len(queries) == len(self.queries.rest):
            return folded(self.function, columns)
        others = np.delete(self.queries.values(), queries)
        if sums:
            rows = np.broadcast_to(others, (len(move.sites), len(others)))
            return folded(self.function, np.concatenate([columns, rows], axis=1))
        best = folded(self.function, others)
        return folded(self.function, np.column_stack([columns, np.full(len(move.sites), float(best))]))

    def forget(self, operators: Sequence[int]) -> None:
        self.queries.forget(operators)

    def learn(self, operators: Sequence[int]) -> None:
        self.queries.learn(operators)


class RemeasuredCost:
    """Any cost, measured anew for every site tried."""

    def __init__(self, cost: SystemCost, state: PlacementState) -> None:
        self.state = state
        self.system = cost

    def cost(self) -> float:
        return float(MeasuredPlacement(self.state.placement).system(self.system))

    def after(self, move: OperatorMove) -> Floats:
        placement = self.state.placement
        return np.array(
            [
                float(
                    MeasuredPlacement(placement.moved(dict.fromkeys(move.operators, int(site)))).system(
                        self.system
                    )
                )
                for site in move.sites
            ]
        )

    def forget(self, operators: Sequence[int]) -> None:
        """Nothing is kept."""

    def learn(self, operators: Sequence[int]) -> None:
        """Nothing is kept."""


def system_form(cost: SystemCost, state: PlacementState) -> SystemForm:
    """The quickest form that can say the cost."""
    try:
        return BrokersCost(cost, state) if cost.members is GoalMembers.BROKERS else QueriesCost(cost, state)
    except UnfitError:
        return RemeasuredCost(cost, state)


def fits(cost: SystemCost, state: PlacementState) -> bool:
    """Whether one of the quick forms can say the cost."""
    return not isinstance(system_form(cost, state), RemeasuredCost)

"""The catalogue: all sources and queries, their streams, and what is wrong with those that cannot run.

It is the global schema: every stream by its name, from outside (a source) or made by an operator
(`query.operator`, published with the topic `query/operator`, or one of its own that sources may read: see
`entries`). A query that is faulty, or that reads a stream of a faulty one, is left out with its faults told;
the others are not affected. What is left has no cycle, and `operators` lists it so that every operator comes
after those it reads.

`shared` finds what queries have in common: two operators are one when their operations are equal and so are,
in turn, their inputs. Ids and times of items never depend on names, so one computation serves all.

Cost: linear in the number of operators and their inputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from distributary.errors import DistributaryError, InputError
from distributary.flow.entries import SourceEntry, told_in_loop, with_entries
from distributary.flow.language.operators import Operation
from distributary.flow.language.problems import CombinedError, QueryError, faults_of, located
from distributary.flow.language.query import Operator, Query
from distributary.flow.language.schema import Item, Schema, listed
from distributary.flow.language.source import Source
from distributary.flow.language.topics import ANY_TOPIC, TopicTemplate, published_item
from distributary.flow.language.units import unit_faults, unit_of, unpublished
from distributary.model import Event


@dataclass(frozen=True)
class Stream:
    """One stream: of a source, or of an operator of a query."""

    name: str
    topic: str | None
    """Of a source: the pattern its events match. Of an operator: how the topics of its items are made."""
    schema: Schema
    published: bool = True
    """False inside a super-operator: nobody else can read it."""

    def may_match(self, pattern: str | None) -> bool:
        """Whether items of an operator's stream may be published under a topic that matches."""
        ranges = TopicTemplate.parse(self.topic).ranges([ANY_TOPIC])
        return any(each.overlaps(pattern) for each in ranges)

    def event(self, item: Item) -> Event:
        """An item as it is published."""
        return published_item(item, TopicTemplate.parse(self.topic).topic(item.attributes))


def published_topic(stream: str) -> str:
    """The topic of the items of an operator's stream, unless the operator says another."""
    return stream.replace(".", "/")


@dataclass(frozen=True)
class BoundOperator:
    """An operator of a query with its inputs: names of streams of the catalogue, and their schemas."""

    name: str
    """`query.operator`"""
    query: str
    operator: Operator
    inputs: tuple[str, ...]
    input_schemas: tuple[Schema, ...]
    schema: Schema
    unit: str | None = None
    """The super-operator it is part of, as `query.unit`."""

    @property
    def operation(self) -> Operation:
        """What it does."""
        return self.operator.operation

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of its output streams."""
        return tuple(self.name + port for port in self.operation.ports)


@dataclass(frozen=True)
class SharedOperator:
    """One computation that serves every operator with the same meaning."""

    name: str
    """That of the first it stands for."""
    operation: Operation
    inputs: tuple[str, ...]
    """Names of sources, and of streams of other shared operators."""
    input_schemas: tuple[Schema, ...]
    schema: Schema
    stands_for: tuple[str, ...]
    """The operators it computes, as `query.operator`."""

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of its output streams."""
        return tuple(self.name + port for port in self.operation.ports)


@dataclass(frozen=True)
class Sharing:
    """What is computed, each thing once, and which of it is each operator's stream."""

    operators: tuple[SharedOperator, ...]
    """Every operator comes after those it reads."""
    streams: dict[str, str]
    """From every stream of the catalogue to the one that is computed in its place."""


class Catalogue:
    """Sources and queries that fit together, and the faults of those that do not.

    >>> from distributary.flow import QueryBuilder
    >>> build = QueryBuilder("busy")
    >>> _ = build.filter("large", "trades", where="size > 1000")
    >>> trades = Source("trades", {"size": "integer", "at": "integer"}, time="at", topic="trades")
    >>> catalogue = Catalogue([trades], [build.query()])
    >>> catalogue.streams["busy.large"].topic
    'busy/large'
    """

    def __init__(
        self, sources: Iterable[Source], queries: Iterable[Query], problems: Sequence[QueryError] = ()
    ) -> None:
        self.problems: list[QueryError] = list(problems)
        """All that is wrong, in the order in which it was found."""
        self.sources: dict[str, Source] = {}
        self.queries: dict[str, Query] = {}
        """The queries that can run."""
        self.streams: dict[str, Stream] = {}
        self.operators: tuple[BoundOperator, ...] = ()
        for source in sources:
            self._add_source(source)
        self._bind(self._distinct(queries))

    def check(self) -> None:
        """Raise all faults together, if there are any."""
        if self.problems:
            raise CombinedError(self.problems)

    def outputs(self, query: str) -> tuple[str, ...]:
        """The streams that are a query's answer, by their names in the catalogue."""
        return tuple(f"{query}.{name}" for name in self.queries[query].outputs)

    def shared(self) -> Sharing:
        """The distinct computations of all queries."""
        streams = {name: name for name in self.sources}
        members: dict[tuple[Operation, tuple[str, ...]], list[BoundOperator]] = defaultdict(list)
        for bound in self.operators:
            inputs = tuple(streams[name] for name in bound.inputs)
            same = members[bound.operation.canonical, inputs]
            same.append(bound)
            for stream, computed in zip(bound.streams, same[0].streams, strict=True):
                streams[stream] = computed
        shared = [
            SharedOperator(
                first.name,
                first.operation,
                inputs,
                first.input_schemas,
                first.schema,
                tuple(each.name for each in (first, *others)),
            )
            for (_, inputs), (first, *others) in members.items()
        ]
        return Sharing(tuple(shared), streams)

    # Building

    def _add_source(self, source: Source) -> None:
        if source.name in self.sources:
            self._fault("there are two sources of this name", source=source.name)
            return
        self.sources[source.name] = source
        self.streams[source.name] = Stream(source.name, source.topic, source.schema)

    def _distinct(self, queries: Iterable[Query]) -> dict[str, Query]:
        distinct: dict[str, Query] = {}
        for query in queries:
            if query.name in distinct:
                self._fault("there are two queries of this name; the first is taken", query=query.name)
            elif query.name in self.sources:
                self._fault("a source has the same name; choose another", query=query.name)
            else:
                distinct[query.name] = query
        return distinct

    def _bind(self, queries: dict[str, Query]) -> None:
        names = StreamNames(self.sources, queries)
        written, queries = queries, with_entries(self.sources, queries, names.stream, names.operator_of)
        names = StreamNames(self.sources, queries)
        faulty: set[str] = set()
        for query in queries.values():
            for fault in (*names.faults(query), *unit_faults(query)):
                self.problems.append(located(fault, query=query.name))
                faulty.add(query.name)
        ordered = self._ordered(queries, names, faulty)
        bound = self._bind_operators(ordered, names, faulty)
        self._spread(ordered, names, faulty)
        self.queries = {name: query for name, query in written.items() if name not in faulty}
        self.operators = tuple(each for each in bound if each.query not in faulty)
        for each in self.operators:
            hidden = each.operation.internal or each.operator.name in unpublished(self.queries[each.query])
            for stream in each.streams:
                topic = each.operator.publish or published_topic(stream)
                self.streams[stream] = Stream(stream, topic, each.schema, not hidden)

    def _ordered(
        self, queries: dict[str, Query], names: StreamNames, faulty: set[str]
    ) -> list[tuple[Query, Operator]]:
        """The operators of the queries without a fault so far, each after those it reads."""
        while True:
            operators = {
                f"{query.name}.{operator.name}": (query, operator)
                for query in queries.values()
                if query.name not in faulty
                for operator in query.operators
            }
            graph = {
                name: [
                    target
                    for read in operator.inputs
                    if (target := names.operator_of(query, read)) in operators
                ]
                for name, (query, operator) in operators.items()
            }
            try:
                return [operators[name] for name in TopologicalSorter(graph).static_order()]
            except CycleError as error:
                cycle = error.args[1]
                reason = f"operators read one another in a circle: {' -> '.join(cycle[::-1])}"
                if any(operators[name][1].operation.internal for name in cycle):
                    told = " -> ".join(told_in_loop(operators[name][1], name) for name in cycle)
                    reason = f"items would be published to where they come from: {told}"
                for query_name in sorted({operators[name][0].name for name in cycle}):
                    self._fault(reason, query=query_name)
                    faulty.add(query_name)

    def _bind_operators(
        self, ordered: list[tuple[Query, Operator]], names: StreamNames, faulty: set[str]
    ) -> list[BoundOperator]:
        """The operators whose inputs have schemas that fit them."""
        schemas = {name: stream.schema for name, stream in self.streams.items()}
        bound = []
        for query, operator in ordered:
            inputs = tuple(names.stream(query, read) for read in operator.inputs)
            if any(name not in schemas for name in inputs):
                continue  # what it reads is faulty, and told already
            given = tuple(schemas[name] for name in inputs)
            try:
                schema = operator.operation.schema(*given)
                if operator.publish is not None:
                    TopicTemplate.parse(operator.publish).check(schema)
            except DistributaryError as error:
                place = {"query": query.name}
                if not operator.operation.internal:
                    place["operator"] = operator.name
                self.problems.extend(located(fault, **place) for fault in faults_of(error))
                faulty.add(query.name)
                continue
            unit = unit_of(query, operator.name)
            name = f"{query.name}.{operator.name}"
            whole = f"{query.name}.{unit}" if unit else None
            bound.append(BoundOperator(name, query.name, operator, inputs, given, schema, whole))
            schemas.update(dict.fromkeys(bound[-1].streams, schema))
        return bound

    def _spread(self, ordered: list[tuple[Query, Operator]], names: StreamNames, faulty: set[str]) -> None:
        """Mark every query as faulty that reads, directly or through others, a stream of a faulty one."""
        before = -1
        while before < len(faulty):
            before = len(faulty)
            for query, operator in ordered:
                read = next((name for name in operator.inputs if names.query_of(query, name) in faulty), None)
                if query.name not in faulty and read is not None:
                    place = {"query": query.name, "operator": operator.name}
                    reason = f"reads {read!r} of a query that is faulty"
                    if isinstance(operator.operation, SourceEntry):
                        del place["operator"]
                        reason += f", as it reads source {operator.operation.source.name!r}"
                    self._fault(reason, **place)
                    faulty.add(query.name)

    def _fault(self, reason: str, **place: str) -> None:
        self.problems.append(QueryError(reason, **place))


class StreamNames:
    """What the names in a query mean: from what an input is called to a stream of the catalogue."""

    def __init__(self, sources: dict[str, Source], queries: dict[str, Query]) -> None:
        self._sources = sources
        self._streams: dict[str, str] = {}
        """From every operator's stream to its operator, both with the query's name."""
        self._splits: set[str] = set()
        self._hidden: set[str] = set()
        for query in queries.values():
            for operator in query.operators:
                name = f"{query.name}.{operator.name}"
                self._streams.update({f"{query.name}.{stream}": name for stream in operator.streams})
                if operator.streams != (operator.name,):
                    self._splits.add(name)
            self._hidden |= {f"{query.name}.{name}" for name in unpublished(query)}

    def stream(self, query: Query, read: str) -> str:
        """The stream that a query calls `read`."""
        own = f"{query.name}.{read}"
        return own if own in self._streams else read

    def operator_of(self, query: Query, read: str) -> str | None:
        """The operator whose stream that is; None for a source."""
        return self._streams.get(self.stream(query, read))

    def query_of(self, query: Query, read: str) -> str | None:
        """The query whose stream that is; None for a source."""
        operator = self.operator_of(query, read)
        return operator and operator.partition(".")[0]

    def faults(self, query: Query) -> Iterator[InputError]:
        """Names in a query that mean nothing, or more than one thing."""
        for operator in query.operators:
            if operator.name in self._sources:
                reason = "a source has the same name; choose another"
                yield QueryError(reason, operator=operator.name, field="name")
            for read in operator.inputs:
                misread = self._misread(query, read)
                if misread:
                    yield QueryError(misread, operator=operator.name, field="from")
        own = listed([stream for operator in query.operators for stream in operator.streams])
        for output in query.outputs:
            if f"{query.name}.{output}" not in self._streams:
                yield InputError(f"no stream {output!r} in this query; there are {own}", field="outputs")

    def _misread(self, query: Query, read: str) -> str | None:
        """Why a query cannot read a stream of that name; None when it can."""
        stream = self.stream(query, read)
        if stream in self._streams:
            foreign = not stream.startswith(f"{query.name}.")
            if foreign and self._streams[stream] in self._hidden:
                return f"{read!r} is inside a super-operator of its query, which does not publish it"
            return None
        if stream in self._sources:
            return None
        if stream in self._splits or f"{query.name}.{read}" in self._splits:
            return f"{read!r} is a split; say {read + '.1'!r} or {read + '.2'!r}"
        own = [name for each in query.operators for name in each.streams]
        return (
            f"there is no stream {read!r}; this query has {listed(own)}, the sources are "
            f"{listed(list(self._sources))}, and a stream of another query is called query.operator"
        )

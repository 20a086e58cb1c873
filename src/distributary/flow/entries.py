"""Items that are published under a topic of their own, as events of the sources whose patterns match it.

An operator with `publish` makes events: subscriptions see them, and so does every query that reads a source
whose topic pattern and condition they pass. In the graph of operators that is an edge like any other. Where a
query reads a source that published items can belong to, it is given inner operators:

- `#source:query:operator`, a `SourceEntry`: the published items of one stream that belong to the source, as
  items of it. Their ids begin with the stream's name, for an event of another stream may have the same.
- `#source`, a `Gather`: the source's own events (unless it is `derived`) and all entries.

So every engine runs them without more ado: watermarks, windows, moves and checkpoints are those of operators,
and a loop of topics is a cycle of operators, which the catalogue refuses. An entry stands wherever a topic
*may* match (`TopicRange.overlaps`); which items pass is decided by the source itself.

Cost: for each publishing operator the sources, and for each reader of a source its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from distributary.errors import InputError
from distributary.flow.language.operators import Copy, FilterOperation, Map, Operation, Rename, Split, Union
from distributary.flow.language.query import Operator, Query
from distributary.flow.language.schema import RESERVED, Item, Schema, Type
from distributary.flow.language.source import Source
from distributary.flow.language.topics import ANY_TOPIC, TOPIC, TopicRange, TopicTemplate, published_item
from distributary.flow.language.windowed import Aggregate, Arrangement, Count
from distributary.flow.splitting import Gather

Named = Mapping[str, tuple[Query, Operator]]
"""Operators with their queries, by `query.operator`."""
StreamOf = Callable[[Query, str], str]
"""From a query and what it calls an input to a stream of the catalogue."""
OperatorOf = Callable[[Query, str], str | None]
"""The same, to the operator whose stream it is; None for a source."""


@dataclass(frozen=True)
class SourceEntry(Operation):
    """The items that a stream publishes under topics of a source, as items of the source."""

    kind: ClassVar[str] = "entry"
    internal: ClassVar[bool] = True

    source: Source
    publish: str
    stream: str
    """`query.operator`, which publishes them."""

    @property
    def template(self) -> TopicTemplate:
        """How their topics are made."""
        return TopicTemplate.parse(self.publish)

    def schema(self, *inputs: Schema) -> Schema:
        """The source's; an error where items of the stream could not fit it, or would come late."""
        (given,), wanted = inputs, self.source.schema
        told = f"{self.stream!r} is published under topics of source {self.source.name!r}"
        if given.time != wanted.time:
            reason = f"{told}, whose time is {wanted.time!r}, but the stream's is {given.time!r}; rename it"
            raise InputError(reason, field="publish")
        for name, type in wanted.attributes.items():
            found = given.type_of(name)
            fits = found in (None, type) or (found, type) == (Type.INTEGER, Type.NUMBER)
            if not fits and not (name == TOPIC and type is Type.TEXT):
                reason = (
                    f"{told}, where {name!r} is {type}, but in the stream it is {found}; map or rename it"
                )
                raise InputError(reason, field="publish")
        return wanted

    def entry_id(self, id: str) -> str:
        """The id in the source of an item of the stream."""
        return f"{self.stream}:{id}"

    def enter(self, item: Item) -> Item | None:
        """A published item as an item of the source; None when it does not belong to it."""
        topic = self.template.topic(item.attributes)
        event = published_item(replace(item, id=self.entry_id(item.id)), topic)
        if not self.source.matches(event):
            return None
        return Item(event.id, item.time, self.source.schema.settled(self.source.seen(event)))


def with_entries(
    sources: Mapping[str, Source], queries: Mapping[str, Query], stream_of: StreamOf, operator_of: OperatorOf
) -> dict[str, Query]:
    """The queries with the inner operators that published items need to reach those who read sources."""
    named = {
        f"{query.name}.{each.name}": (query, each) for query in queries.values() for each in query.operators
    }
    publishing = {name: each.publish for name, (_, each) in named.items() if each.publish is not None}
    if not publishing:
        return dict(queries)
    tracing = TopicTracing(sources, named, stream_of, operator_of)
    made = {name: TopicTemplate.parse(text).ranges(tracing.topics(name)) for name, text in publishing.items()}
    entering: dict[str, list[SourceEntry]] = {
        source.name: [
            SourceEntry(source, text, name)
            for name, text in publishing.items()
            if any(each.overlaps(source.topic) for each in made[name])
        ]
        for source in sources.values()
    }
    return {
        name: _entered(query, {read: entering[read] for read in _sources_read(query, sources, operator_of)})
        for name, query in queries.items()
    }


def _sources_read(query: Query, sources: Mapping[str, Source], operator_of: OperatorOf) -> list[str]:
    reads = dict.fromkeys(read for operator in query.operators for read in operator.inputs)
    return [read for read in reads if read in sources and operator_of(query, read) is None]


def _entered(query: Query, entering: Mapping[str, list[SourceEntry]]) -> Query:
    """A query that reads sources together with what is published into them."""
    inner: list[Operator] = []
    called: dict[str, str] = {}
    for source, entries in entering.items():
        if not entries:
            continue
        names = [f"{RESERVED}{source}:{entry.stream.replace('.', ':')}" for entry in entries]
        inner += [Operator(name, each, (each.stream,)) for name, each in zip(names, entries, strict=True)]
        outside = () if entries[0].source.derived else (source,)
        called[source] = f"{RESERVED}{source}"
        inner.append(Operator(called[source], Gather(), (*outside, *names)))
    own = [
        replace(each, inputs=tuple(called.get(read, read) for read in each.inputs))
        for each in query.operators
    ]
    return Query(query.name, [*inner, *own], query.outputs, query.units, query.ordered)


def told_in_loop(operator: Operator, name: str) -> str:
    """How an operator is called where a loop is told."""
    if isinstance(operator.operation, SourceEntry):
        return f"topic {operator.operation.publish!r}"
    return f"source {operator.name.removeprefix(RESERVED)!r}" if operator.operation.internal else name


class TopicTracing:
    """Which topics the attribute `topic` of a stream can hold, followed back to the sources."""

    def __init__(
        self, sources: Mapping[str, Source], named: Named, stream_of: StreamOf, operator_of: OperatorOf
    ) -> None:
        self._sources = sources
        self._named = named
        self._stream_of = stream_of
        self._operator_of = operator_of
        self._known: dict[str, list[TopicRange]] = {}

    def topics(self, operator: str) -> list[TopicRange]:
        """Of the stream of an operator; any topic where it cannot be followed."""
        if operator not in self._known:
            self._known[operator] = [ANY_TOPIC]  # until it is known: a cycle ends here
            query, each = self._named[operator]
            inputs = each.inputs if keeps_topic(each.operation) else ()
            found = dict.fromkeys(one for read in inputs for one in self._read(query, read))
            self._known[operator] = list(found) or [ANY_TOPIC]
        return self._known[operator]

    def _read(self, query: Query, read: str) -> list[TopicRange]:
        operator = self._operator_of(query, read)
        if operator is not None:
            return self.topics(operator)
        source = self._sources.get(self._stream_of(query, read))
        return [ANY_TOPIC if source is None else TopicRange.of(source.topic)]


def keeps_topic(operation: Operation) -> bool:
    """Whether the attribute `topic` of every output item is that of an input item; true only when certain."""
    match operation:
        case FilterOperation() | Split() | Union() | Arrangement():
            return True
        case Map():
            kept = operation.keep if isinstance(operation.keep, bool) else TOPIC in operation.keep
            return kept and TOPIC not in operation.set
        case Rename(names) | Copy(names):
            return TOPIC not in names.values()
        case Aggregate() | Count():
            return TOPIC in operation.group_by
    return False  # of a join, which side it is of depends on their schemas

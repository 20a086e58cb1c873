"""Queries: named graphs of operators, written down in Python.

A `Query` is plain data: its operators with the names of their inputs, which operators' streams are its
outputs, and which operators form units (super-operators). Whether the names mean anything is for the
catalogue to say, which knows the sources and the other queries. `QueryBuilder` writes one, and the
interpreter answers it:

>>> from distributary.flow import Catalogue, answer
>>> from distributary.model import Event
>>> trades = Source("trades", {"symbol": "text", "size": "integer", "at": "integer"}, "at", topic="trades")
>>> build = QueryBuilder("busy")
>>> large = build.filter("large", trades, where="size > 1000")
>>> build.count("per_minute", large, window="1 minute", group_by=["symbol"])
'per_minute'
>>> catalogue = Catalogue([trades], [build.query()])
>>> sizes = [("e1", 1500, 10_000), ("e2", 900, 20_000), ("e3", 2000, 30_000)]
>>> events = [Event(id, "trades", {"symbol": "OTE", "size": size, "at": at}) for id, size, at in sizes]
>>> answered = answer(catalogue, events)
>>> [item.id for item in answered.streams["busy.large"]]
['e1', 'e3']
>>> [item.attributes for item in answered.streams["busy.per_minute"]]
[{'symbol': 'OTE', 'count': 2, 'at': 59999}]

An input is the name of a source, of an operator of the same query, or `query.operator` of another one; the
two streams of a split are `name.1` and `name.2`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Concatenate, ParamSpec

from distributary.errors import InputError
from distributary.flow.language.function import Function
from distributary.flow.language.operators import Copy, FilterOperation, Map, Operation, Rename, Split, Union
from distributary.flow.language.problems import Checks
from distributary.flow.language.schema import FrozenMapping, listed, require_name, set_fields
from distributary.flow.language.source import Source
from distributary.flow.language.topics import TopicTemplate
from distributary.flow.language.windowed import Aggregate, Count, Join, Sort, Truncate, Unique


@dataclass(frozen=True)
class Operator:
    """An operation with a name and the names of its inputs."""

    name: str
    operation: Operation
    inputs: tuple[str, ...]
    publish: str | None = None
    """The topic that its items are published under, as `topics.TopicTemplate` reads it; else the default."""

    def __post_init__(self) -> None:
        if not self.operation.internal:
            require_name(self.name, "an operator")
        if self.publish is not None:
            TopicTemplate.parse(self.publish)
            if len(self.operation.ports) > 1:
                reason = "the streams of a split cannot have one topic; publish what is read from them"
                raise InputError(reason, field="publish")
        if isinstance(self.inputs, str) or not all(isinstance(name, str) for name in self.inputs):
            raise InputError(f"must be names of streams, not {self.inputs!r}", field="from")
        set_fields(self, inputs=tuple(self.inputs))
        least, most = self.operation.arity
        if not least <= len(self.inputs) <= (most or len(self.inputs)):
            wanted = str(least) if least == most else f"at least {least}"
            reason = (
                f"a {self.operation.kind} takes {wanted} input{'s' * (wanted != '1')}, not {len(self.inputs)}"
            )
            raise InputError(reason, field="from")

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of its output streams within the query."""
        return tuple(self.name + port for port in self.operation.ports)


@dataclass(frozen=True)
class Query:
    """A named graph of operators.

    >>> Query("busy", [Operator("large", FilterOperation(where="size > 1000"), ("trades",))]).outputs
    ('large',)
    """

    name: str
    operators: tuple[Operator, ...]
    outputs: tuple[str, ...]
    """The streams that are the query's answer."""
    units: Mapping[str, tuple[str, ...]]
    """Super-operators: each a name and the connected operators that are placed and published as one."""
    ordered: bool = False
    """Whether a network gives the answer in stream order, once that is certain, and not as items come."""

    def __init__(
        self,
        name: str,
        operators: Sequence[Operator],
        outputs: Sequence[str] | None = None,
        units: Mapping[str, Sequence[str]] | None = None,
        ordered: bool = False,
    ) -> None:
        checks = Checks()
        checks.attempt(require_name, name, "a query")
        if not operators:
            checks.fault("there are none", field="operators")
        names = [operator.name for operator in operators]
        for twice in sorted({each for each in names if names.count(each) > 1}):
            checks.fault(f"two operators are called {twice!r}", field="operators")
        listed = isinstance(outputs, list | tuple) and all(isinstance(each, str) for each in outputs)
        if outputs is not None and not (listed and outputs):
            checks.fault('must be a list of streams such as ["large"]', field="outputs")
        if not isinstance(ordered, bool):
            checks.fault(f"must be true or false, not {ordered!r}", field="ordered")
        checks.finish(query=str(name))
        set_fields(self, name=name, operators=tuple(operators), outputs=tuple(outputs or _unread(operators)))
        members = FrozenMapping({k: tuple(v) for k, v in (units or {}).items()})
        set_fields(self, units=members, ordered=ordered)


def _unread(operators: Sequence[Operator]) -> list[str]:
    """The streams that no operator of the query reads."""
    read = {name for operator in operators for name in operator.inputs}
    return [stream for operator in operators for stream in operator.streams if stream not in read]


P = ParamSpec("P")
Input = str | Source
"""What an operator reads: a source, or the name of a stream."""


def _of_one(operation: Callable[P, Operation]) -> Callable[Concatenate[QueryBuilder, str, Input, P], str]:
    """The builder's method for an operation of one input: its name, its input, the operation's parameters."""

    def method(build: QueryBuilder, name: str, of: Input, /, *args: P.args, **parameters: P.kwargs) -> str:
        return build.add(name, operation(*args, **parameters), of)

    method.__doc__ = (operation.__doc__ or "").partition("\n\n")[0]  # without the example
    return method


class QueryBuilder:
    """Writes a query operator by operator; each method returns the name of the stream it adds.

    A method takes the name of the operator, its input (a `Source`, or the name of a stream), and what the
    operation takes: `filter` what `FilterOperation` takes, `sort` what `Sort` takes, and so on.

    >>> build = QueryBuilder("hot")
    >>> high = build.filter("high", "sensors", where="celsius > 30")
    >>> build.aggregate("mean", high, window="1 minute", values={"celsius": "average(celsius)"})
    'mean'
    >>> [operator.name for operator in build.query().operators]
    ['high', 'mean']
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._operators: list[Operator] = []
        self._units: dict[str, tuple[str, ...]] = {}

    def add(self, name: str, operation: Operation, *inputs: Input) -> str:
        """Add an operator of any kind; returns its name."""
        names = tuple(each.name if isinstance(each, Source) else each for each in inputs)
        self._operators.append(Operator(name, operation, names))
        return name

    filter = _of_one(FilterOperation)
    map = _of_one(Map)
    rename = _of_one(Rename)
    copy = _of_one(Copy)
    aggregate = _of_one(Aggregate)
    count = _of_one(Count)
    sort = _of_one(Sort)
    truncate = _of_one(Truncate)
    unique = _of_one(Unique)
    function = _of_one(Function)

    def union(self, name: str, *of: Input) -> str:
        """All items of several streams."""
        return self.add(name, Union(), *of)

    def split(self, name: str, of: Input) -> tuple[str, str]:
        """Add a split; returns the names of its two streams."""
        self.add(name, Split(), of)
        return f"{name}.1", f"{name}.2"

    def join(
        self,
        name: str,
        left: Input,
        right: Input,
        on: Mapping[str, str] | Sequence[str],
        within: str | int,
        prefix: str = "",
        time: str | None = None,
    ) -> str:
        """Pairs of items with equal keys, near in time."""
        return self.add(name, Join(on, within, prefix, time), left, right)

    def publish(self, name: str, topic: str) -> str:
        """Publish the items of an operator under a topic made from them, such as `alerts/{symbol}`.

        >>> build = QueryBuilder("hot")
        >>> high = build.filter("high", "sensors", where="celsius > 30")
        >>> build.publish(high, "alerts/{room}")
        'high'
        """
        names = [operator.name for operator in self._operators]
        if name not in names:
            raise InputError(f"no operator {name!r}; there are {listed(names)}", field="publish")
        at = names.index(name)
        self._operators[at] = replace(self._operators[at], publish=topic)
        return name

    def unit(self, name: str, *members: str) -> None:
        """Make operators one unit: of its streams, only the last one is published."""
        self._units[name] = members

    def query(self, outputs: Sequence[str] | None = None, *, ordered: bool = False) -> Query:
        """The query as it stands; its outputs are the streams nobody in it reads, unless they are named."""
        return Query(self.name, self._operators, outputs, self._units, ordered)

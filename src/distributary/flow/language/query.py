"""Queries: named graphs of operators, written down in Python.

A `Query` is plain data: its operators with the names of their inputs, which operators' streams are its
outputs, and which operators form units (super-operators). Whether the names mean anything is for the
catalogue to say, which knows the sources and the other queries. `QueryBuilder` writes one:

    build = QueryBuilder("busy")
    large = build.filter("large", "trades", where="size > 1000")
    build.count("per_minute", large, window="1 minute", group_by=["symbol"])
    query = build.query()

An input is the name of a source, of an operator of the same query, or `query.operator` of another one; the
two streams of a split are `name.1` and `name.2`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distributary.errors import InputError
from distributary.flow.language.function import Function
from distributary.flow.language.operators import Copy, FilterOperation, Map, Operation, Rename, Split, Union
from distributary.flow.language.problems import Checks, CombinedError, located
from distributary.flow.language.schema import FrozenMapping, require_name
from distributary.flow.language.source import Source
from distributary.flow.language.windowed import Aggregate, Count, Join, Sort, Truncate, Unique


@dataclass(frozen=True)
class Operator:
    """An operation with a name and the names of its inputs."""

    name: str
    operation: Operation
    inputs: tuple[str, ...]

    def __post_init__(self) -> None:
        require_name(self.name, "an operator")
        if isinstance(self.inputs, str) or not all(isinstance(name, str) for name in self.inputs):
            raise InputError(f"must be names of streams, not {self.inputs!r}", field="from")
        object.__setattr__(self, "inputs", tuple(self.inputs))
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

    def __init__(
        self,
        name: str,
        operators: Sequence[Operator],
        outputs: Sequence[str] | None = None,
        units: Mapping[str, Sequence[str]] | None = None,
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
        if checks.found:
            raise CombinedError([located(fault, None, str(name), None) for fault in checks.found])
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "operators", tuple(operators))
        object.__setattr__(self, "outputs", tuple(outputs or _unread(operators)))
        object.__setattr__(self, "units", FrozenMapping({k: tuple(v) for k, v in (units or {}).items()}))

    def operator(self, name: str) -> Operator:
        """The operator of this name."""
        return next(each for each in self.operators if each.name == name)


def _unread(operators: Sequence[Operator]) -> list[str]:
    """The streams that no operator of the query reads."""
    read = {name for operator in operators for name in operator.inputs}
    return [stream for operator in operators for stream in operator.streams if stream not in read]


class QueryBuilder:
    """Writes a query operator by operator; each method returns the name of the stream it adds.

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

    def add(self, name: str, operation: Operation, *inputs: str | Source) -> str:
        """Add an operator of any kind; returns its name."""
        names = tuple(each.name if isinstance(each, Source) else each for each in inputs)
        self._operators.append(Operator(name, operation, names))
        return name

    def filter(self, name: str, of: str | Source, where: str | None = None, block: str | None = None) -> str:
        """Keep what `where` is true of, or drop what `block` is true of."""
        return self.add(name, FilterOperation(where, block), of)

    def map(
        self, name: str, of: str | Source, set: Mapping[str, str], keep: bool | Sequence[str] = True
    ) -> str:
        """Compute attributes; `keep` says which of the input's stay."""
        return self.add(name, Map(set, keep), of)

    def rename(self, name: str, of: str | Source, names: Mapping[str, str]) -> str:
        """Give attributes other names, from old to new."""
        return self.add(name, Rename(names), of)

    def copy(self, name: str, of: str | Source, names: Mapping[str, str]) -> str:
        """Copy attributes under further names."""
        return self.add(name, Copy(names), of)

    def union(self, name: str, *of: str | Source) -> str:
        """All items of several streams."""
        return self.add(name, Union(), *of)

    def split(self, name: str, of: str | Source) -> tuple[str, str]:
        """Add a split; returns the names of its two streams."""
        self.add(name, Split(), of)
        return f"{name}.1", f"{name}.2"

    def aggregate(
        self,
        name: str,
        of: str | Source,
        window: str,
        values: Mapping[str, str],
        group_by: Sequence[str] = (),
        time: str | None = None,
    ) -> str:
        """Count, sum, average, min or max of each window and group."""
        return self.add(name, Aggregate(window, values, group_by, time), of)

    def count(self, name: str, of: str | Source, window: str, group_by: Sequence[str] = ()) -> str:
        """How many items each window and group has."""
        return self.add(name, Count(window, group_by), of)

    def join(
        self,
        name: str,
        left: str | Source,
        right: str | Source,
        on: Mapping[str, str] | Sequence[str],
        within: str | int,
        prefix: str = "",
        time: str | None = None,
    ) -> str:
        """Pairs of items with equal keys, near in time."""
        return self.add(name, Join(on, within, prefix, time), left, right)

    def sort(
        self, name: str, of: str | Source, window: str, by: Sequence[str], time: str | None = None
    ) -> str:
        """The items of each window, ranked."""
        return self.add(name, Sort(window, by, time), of)

    def truncate(self, name: str, of: str | Source, window: str, items: int) -> str:
        """The first so many items of each window."""
        return self.add(name, Truncate(window, items), of)

    def unique(self, name: str, of: str | Source, window: str, by: Sequence[str]) -> str:
        """The first of the items of a window with equal values."""
        return self.add(name, Unique(window, by), of)

    def function(
        self,
        name: str,
        of: str | Source,
        use: str,
        gives: Mapping[str, str],
        window: str | None = None,
        replicas: str = "",
        by: Sequence[str] = (),
        partial: str | None = None,
        merge: str | None = None,
        options: Mapping[str, str | int | float | bool] | None = None,
    ) -> str:
        """What a function of the user's gives; see `distributary.flow.language.function`."""
        operation = Function(use, gives, window, replicas, by, partial, merge, options or {})
        return self.add(name, operation, of)

    def unit(self, name: str, *members: str) -> None:
        """Make operators one unit: of its streams, only the last one is published."""
        self._units[name] = members

    def query(self, outputs: Sequence[str] | None = None) -> Query:
        """The query as it stands; its outputs are the streams nobody in it reads, unless they are named."""
        return Query(self.name, self._operators, outputs, self._units)

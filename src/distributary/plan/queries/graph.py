"""Queries as numbers: sources, the operators that read them, and who reads those; what flows in between.

Rules:

- Streams are numbered: first the sources, then the operators in their order (operator `o` publishes stream
  `len(sources) + o`). Everything an operator reads is a stream; an operator reads a stream at most once.
- A query names its operators; one operator may be of several queries. A query's client is the last of them: a
  pinned operator of kind `CLIENT` that costs nothing and publishes nothing.
- Rates follow from the sources' by the operators' selectivities, in bytes and in items a second.
- A workload never changes. Replication and partition (section 5.4.1) make another one, in which all numbers
  keep their meaning: the operator itself becomes the final one, and its replicas are put at the end.
- Replication gives each input a replica of its own. An operator that reads nothing but a union which only it
  reads is replicated over that union's inputs; the union then has nothing to do and leaves its queries.
  Partition gives each of several replicas an equal share of the items. An operator is split once, its parts
  never again.
- Shares are counted in parts of `WHOLE`, so that they stay whole numbers: what is added to a link and taken
  away again leaves nothing behind.

    >>> feeds = (PlannedSource("a", tree=0, rate=100, items=10), PlannedSource("b", 1, rate=100, items=10))
    >>> short = PlannedOperator("short", "filter", (0, 1), selectivity=0.5, cost=2)
    >>> workload = QueryWorkload(feeds, (short, client("ann", 2, site=3)), (PlannedQuery("q", (0, 1)),))
    >>> workload.output_rate(0), workload.load(0)
    (100.0, 40)
    >>> split = workload.replicated(0)
    >>> [(part.name, part.kind, part.inputs) for part in split.operators if part.kind != CLIENT]
    [('short', 'union', (4, 5)), ('short/1', 'filter', (0,)), ('short/2', 'filter', (1,))]

Cost: making one is linear in the operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Number

CLIENT = "client"
FILTER = "filter"
RETIRED = "retired"
"""The kind of a union that replication left without work."""

FINALS: Mapping[str, str] = {
    "count": "sum",
    "filter": "union",
    "rename": "union",
    "copy": "union",
    "split": "union",
    "truncate": "union",
    "union": "union",
    "unique": "unique",
}
"""Which operator makes one output of the replicas' (Table 5.1); what is not here is never split."""

MOST_PARTS = 16
"""How many replicas a partition makes at most."""
WHOLE = 720720
"""All of a stream, in the parts in which shares are counted: every number of replicas up to `MOST_PARTS`
divides it."""


class SplitRole(Enum):
    """What an operator is after replication or partition."""

    ALL = "all of it"
    REPLICA = "a replica"
    FINAL = "the final operator"


@dataclass(frozen=True)
class PlannedSource:
    """An external stream, published by the root of a tree."""

    name: str
    tree: int
    rate: Number
    """Bytes a second."""
    items: Number
    """Items a second."""


@dataclass(frozen=True)
class PlannedOperator:
    """One operator: what it reads, how much it lets pass, what an item costs it."""

    name: str
    kind: str
    inputs: tuple[int, ...]
    selectivity: Number = 1
    """Items out for an item in."""
    cost: Number = 1
    """Processor cycles an item."""
    growth: Number = 1
    """Bytes of an item that goes out, against one that comes in."""
    final: str = "?"
    """The kind of operator that makes one of its replicas' outputs; "" if it may not be split."""
    by_input: bool = True
    """Whether each input may have a replica of its own (replication): not so for a join."""
    keyed: bool = True
    """Whether its items may be dealt out to several replicas (partition)."""
    pinned: int | None = None
    """The site it must stay at."""
    share: int = WHOLE
    """How much of its inputs it reads, in parts of `WHOLE`: all, unless it is a replica of a partition."""
    wanted: Number | None = None
    """Which share of its inputs it can use at all, as far as others can tell; if not said, a filter's is its
    selectivity, and any other operator's is all."""
    part: SplitRole = SplitRole.ALL

    def __post_init__(self) -> None:
        if self.final == "?":
            object.__setattr__(self, "final", FINALS.get(self.kind, ""))
        if len(set(self.inputs)) != len(self.inputs):
            raise DistributaryError(f"operator {self.name!r} reads the same stream twice")
        if self.selectivity < 0 or self.cost < 0 or self.growth < 0:
            raise DistributaryError(f"operator {self.name!r}: selectivity, cost and growth are at least 0")
        if not 0 < self.share <= WHOLE:
            raise DistributaryError(f"operator {self.name!r}: share is {self.share}, of {WHOLE} parts")

    @property
    def usable(self) -> Number:
        """Which share of what it reads a network that filters must send it: see `wanted`."""
        if self.wanted is not None:
            return self.wanted
        return self.selectivity if self.kind == FILTER else 1


def client(name: str, stream: int, site: int) -> PlannedOperator:
    """Who gets a query's results, and where."""
    return PlannedOperator(name, CLIENT, (stream,), selectivity=0, cost=0, pinned=site)


@dataclass(frozen=True)
class PlannedQuery:
    """A named set of operators, their client among them."""

    name: str
    operators: tuple[int, ...]
    utility: Number = 1
    """What its results are worth to its client; of interest when not everything can be served."""


@dataclass(frozen=True)
class QueryWorkload:
    """Sources, operators and queries."""

    sources: tuple[PlannedSource, ...]
    operators: tuple[PlannedOperator, ...]
    queries: tuple[PlannedQuery, ...]
    final_cost: Number = 1
    """Processor cycles that a final operator spends on an item."""

    def __post_init__(self) -> None:
        streams = len(self.sources) + len(self.operators)
        for operator in self.operators:
            for stream in operator.inputs:
                if not 0 <= stream < streams:
                    raise DistributaryError(f"operator {operator.name!r} reads stream {stream} of {streams}")
        for query in self.queries:
            if not all(0 <= index < len(self.operators) for index in query.operators):
                raise DistributaryError(f"query {query.name!r} names an operator that is not there")
        assert self.order is not None

    # Who reads what

    def stream(self, operator: int) -> int:
        """The stream that an operator publishes."""
        return len(self.sources) + operator

    def producer(self, stream: int) -> int | None:
        """The operator that publishes a stream, or None if it is a source's."""
        return None if stream < len(self.sources) else stream - len(self.sources)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Every operator after those it reads."""
        above = {
            index: [p for p in map(self.producer, operator.inputs) if p is not None]
            for index, operator in enumerate(self.operators)
        }
        try:
            return tuple(TopologicalSorter(above).static_order())
        except CycleError as error:
            names = " -> ".join(self.operators[index].name for index in reversed(error.args[1]))
            raise DistributaryError(f"operators read each other in a circle: {names}") from error

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """The operators that read each stream."""
        streams = len(self.sources) + len(self.operators)
        return _rows_with((operator.inputs for operator in self.operators), streams)

    @cached_property
    def queries_of(self) -> tuple[tuple[int, ...], ...]:
        """The queries that each operator is of."""
        return _rows_with((query.operators for query in self.queries), len(self.operators))

    def runs(self, operator: int) -> bool:
        """Whether there is anything to run: neither a client nor retired."""
        return self.operators[operator].kind not in (CLIENT, RETIRED)

    # What flows

    @cached_property
    def _flow(self) -> tuple[list[Number], list[Number]]:
        """Every stream's rate in bytes and in items."""
        rates: list[Number] = [source.rate for source in self.sources] + [0] * len(self.operators)
        items: list[Number] = [source.items for source in self.sources] + [0] * len(self.operators)
        for index in self.order:
            operator, stream = self.operators[index], self.stream(index)
            came = sum(items[stream] for stream in operator.inputs)
            bytes_in = sum(rates[stream] for stream in operator.inputs)
            items[stream] = operator.selectivity * shared(came, operator.share)
            rates[stream] = operator.selectivity * operator.growth * shared(bytes_in, operator.share)
        return rates, items

    def rate(self, stream: int) -> Number:
        """A stream's bytes a second."""
        return self._flow[0][stream]

    def items(self, stream: int) -> Number:
        """A stream's items a second."""
        return self._flow[1][stream]

    def output_rate(self, operator: int) -> Number:
        """Bytes a second that an operator publishes."""
        return self.rate(self.stream(operator))

    def load(self, operator: int) -> Number:
        """Processor cycles a second, for the items that it reads as far as its share goes."""
        one = self.operators[operator]
        return one.cost * shared(sum(map(self.items, one.inputs)), one.share)

    # Splitting

    def replica_inputs(self, operator: int) -> tuple[int, ...]:
        """What the replicas of an operator would read, one each; nothing if it cannot be replicated."""
        one = self.operators[operator]
        if not (one.final and one.by_input) or one.part is not SplitRole.ALL or one.pinned is not None:
            return ()
        if len(one.inputs) > 1:
            return one.inputs
        above = self.producer(one.inputs[0]) if one.inputs else None
        if above is None or one.share != WHOLE:
            return ()
        union = self.operators[above]
        alone = self.readers[one.inputs[0]] == (operator,)
        plain = union.kind == "union" and union.selectivity == union.growth == 1 and union.share == WHOLE
        return union.inputs if alone and plain and union.pinned is None else ()

    def may_partition(self, operator: int) -> bool:
        """Whether an operator's items may be dealt out to replicas."""
        one = self.operators[operator]
        return bool(one.final) and one.keyed and one.part is SplitRole.ALL and one.pinned is None

    def replicated(self, operator: int) -> QueryWorkload:
        """The workload in which each input of the operator has a replica."""
        inputs = self.replica_inputs(operator)
        if len(inputs) < 2:
            raise DistributaryError(f"operator {self.operators[operator].name!r} cannot be replicated")
        one = self.operators[operator]
        replicas = [self._replica(operator, number, (stream,)) for number, stream in enumerate(inputs, 1)]
        retired = None if inputs == one.inputs else self.producer(one.inputs[0])
        return self._split(operator, replicas, retired)

    def partitioned(self, operator: int, parts: int = 2) -> QueryWorkload:
        """The workload in which so many replicas of the operator read an equal share of the items each."""
        one = self.operators[operator]
        if not self.may_partition(operator):
            raise DistributaryError(f"operator {one.name!r} cannot be partitioned")
        if not 2 <= parts <= MOST_PARTS or one.share % parts:
            raise DistributaryError(
                f"operator {one.name!r} cannot be split into {parts}: take 2 to {MOST_PARTS} equal parts"
            )
        replicas = [
            replace(self._replica(operator, number, one.inputs), share=one.share // parts)
            for number in range(1, parts + 1)
        ]
        return self._split(operator, replicas, None)

    def _replica(self, operator: int, number: int, inputs: tuple[int, ...]) -> PlannedOperator:
        one = self.operators[operator]
        return replace(one, name=f"{one.name}/{number}", inputs=inputs, part=SplitRole.REPLICA)

    def _split(
        self, operator: int, replicas: Sequence[PlannedOperator], retired: int | None
    ) -> QueryWorkload:
        count = len(self.operators)
        added = tuple(range(count, count + len(replicas)))
        operators = [*self.operators, *replicas]
        operators[operator] = replace(
            self.operators[operator],
            kind=self.operators[operator].final,
            inputs=tuple(map(self.stream, added)),
            selectivity=1,
            growth=1,
            cost=self.final_cost,
            share=WHOLE,
            part=SplitRole.FINAL,
        )
        if retired is not None:
            operators[retired] = replace(operators[retired], kind=RETIRED, inputs=(), final="", cost=0)
        queries = list(self.queries)
        for number in self.queries_of[operator]:
            *kept, last = (index for index in queries[number].operators if index != retired)
            queries[number] = replace(queries[number], operators=(*kept, *added, last))
        # What comes out needs no check, as this was checked: splits are tried by the thousand.
        made = object.__new__(QueryWorkload)
        made.__dict__.update(
            sources=self.sources,
            operators=tuple(operators),
            queries=tuple(queries),
            final_cost=self.final_cost,
        )
        return made


def _rows_with(rows: Iterable[Sequence[int]], count: int) -> tuple[tuple[int, ...], ...]:
    """For every number up to a count, in which rows it is."""
    found: list[list[int]] = [[] for _ in range(count)]
    for place, row in enumerate(rows):
        for number in row:
            found[number].append(place)
    return tuple(map(tuple, found))


def shared(value: Number, share: int) -> Number:
    """A share of a value, in parts of `WHOLE`; a fraction's is exact.

    >>> shared(100, WHOLE), shared(100, WHOLE // 8)
    (100, 12.5)
    """
    return value if share == WHOLE else value * share / WHOLE

"""Queries of a catalogue as a workload: who reads what is the catalogue's, the numbers are measured.

    workload = workload_of(catalogue, clients={"busy": 3}, trees={"trades": 0}, measured=measured)

Rules:

- What several queries compute alike is one operator here, of all those queries (`blocks`). A query
  that reads another one's operator has that operator, and all before it, among its own.
- A query with several outputs has one client operator that reads them all.
- What was not measured is guessed: a source gives `RATE` bytes and `ITEMS` items a second, an operator passes
  everything on as it is and spends one cycle an item.
- A super-operator is one operator here, called `query.unit`, and never split. What it makes of an item
  follows from what its members do (`blocks.combined`), unless it is known by its own name.
- How an operator may be split is what `flow` says of it; its final's kind here is only a name.

Cost: linear in the catalogue's operators, times how deep queries go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from distributary.errors import DistributaryError
from distributary.flow.catalogue import Catalogue
from distributary.flow.splitting import splitting_of
from distributary.plan.goal.expression import Number
from distributary.plan.queries import graph
from distributary.plan.queries.blocks import (
    SUPER,
    Block,
    FlowRate,
    OperatorProfile,
    PlacementBlocks,
    block_profile,
    blocks_of,
    output_flow,
    total_flow,
)
from distributary.plan.queries.graph import PlannedOperator, PlannedSource, QueryWorkload

RATE = 1000.0
ITEMS = 1.0
GUESS = OperatorProfile(1, 1, 1)


@dataclass(frozen=True)
class WorkloadStatistics:
    """What is known of a source or an operator; operators by the name of any query's, `query.operator`."""

    rates: Mapping[str, Number] = field(default_factory=dict)
    """Bytes a second of a source."""
    items: Mapping[str, Number] = field(default_factory=dict)
    """Items a second of a source."""
    selectivity: Mapping[str, Number] = field(default_factory=dict)
    growth: Mapping[str, Number] = field(default_factory=dict)
    cost: Mapping[str, Number] = field(default_factory=dict)


def workload_of(
    catalogue: Catalogue,
    clients: Mapping[str, int],
    trees: Mapping[str, int] | None = None,
    measured: WorkloadStatistics | None = None,
    *,
    blocks: PlacementBlocks | None = None,
    filtering: bool = False,
) -> QueryWorkload:
    """The catalogue's queries with a client each, at the sites given; sources are on tree 0 unless said.

    `blocks` says what is placed as one, if not the catalogue; `filtering`, whether the network filters.

    >>> from distributary.flow import Catalogue, QueryBuilder, Source
    >>> build = QueryBuilder("busy")
    >>> _ = build.filter("large", "trades", where="size > 1000")
    >>> trades = Source("trades", {"size": "integer", "at": "integer"}, time="at", topic="trades")
    >>> known = WorkloadStatistics(rates={"trades": 5000}, selectivity={"busy.large": 0.1})
    >>> workload = workload_of(Catalogue([trades], [build.query()]), {"busy": 2}, measured=known)
    >>> [(operator.name, operator.kind, operator.inputs) for operator in workload.operators]
    [('busy.large', 'filter', (0,)), ('busy', 'client', (1,))]
    >>> workload.output_rate(0)
    500.0
    """
    missing = sorted(set(catalogue.queries) - set(clients))
    if missing:
        raise DistributaryError(f"no client's site for query {missing[0]!r}")
    known = measured or WorkloadStatistics()
    placed = blocks or blocks_of(catalogue)
    sources = tuple(
        PlannedSource(
            name, (trees or {}).get(name, 0), known.rates.get(name, RATE), known.items.get(name, ITEMS)
        )
        for name in catalogue.sources
    )
    streams = {name: number for number, name in enumerate(catalogue.sources)}
    for index, block in enumerate(placed.blocks):
        streams.update(dict.fromkeys(block.last.streams, len(sources) + index))
    operators = _Operators(sources, placed, known, streams, filtering).made()
    queries = []
    for name in catalogue.queries:
        ends = sorted({streams[placed.streams[stream]] for stream in catalogue.outputs(name)})
        own = [
            index
            for index, block in enumerate(placed.blocks)
            if any(each.startswith(f"{name}.") for each in block.stands_for)
        ]
        members = _with_all_before(own, operators, len(sources))
        operators.append(
            PlannedOperator(name, graph.CLIENT, tuple(ends), selectivity=0, cost=0, pinned=clients[name])
        )
        queries.append(graph.PlannedQuery(name, (*members, len(operators) - 1)))
    return QueryWorkload(sources, tuple(operators), tuple(queries))


class _Operators:
    """The planner's operators, from the first to the last, with what flows between them."""

    def __init__(
        self,
        sources: Sequence[PlannedSource],
        placed: PlacementBlocks,
        known: WorkloadStatistics,
        streams: Mapping[str, int],
        filtering: bool,
    ) -> None:
        self.known = known
        self.blocks = placed.blocks
        self.streams = streams
        self.filtering = filtering
        self.rates = {source.name: FlowRate(source.items, source.rate) for source in sources}
        """What each source and operator gives out."""
        self.makers = {source.name: source.name for source in sources}
        """From streams to who makes them; a split makes two."""

    def made(self) -> list[PlannedOperator]:
        """All operators, each after those it reads."""
        found = []
        for block in self.blocks:
            for member in block.members:
                self.makers.update(dict.fromkeys(member.streams, member.name))
            found.append(self.operator(block))
            read = dict.fromkeys(self.makers[stream] for stream in block.inputs)
            one = found[-1]
            self.rates[block.last.name] = output_flow(
                OperatorProfile(one.selectivity, one.growth, one.cost),
                total_flow(self.rates[maker] for maker in read),
            )
        return found

    def numbers(self, names: Sequence[str], otherwise: OperatorProfile = GUESS) -> OperatorProfile:
        """What is known by any of these names."""
        known = self.known
        given = zip((known.selectivity, known.growth, known.cost), otherwise, strict=True)
        return OperatorProfile(
            *(next((of[name] for name in names if name in of), guess) for of, guess in given)
        )

    def operator(self, block: Block) -> PlannedOperator:
        """A block as one operator; a super-operator is never split."""
        kind, final, wanted = SUPER, "", None
        if len(block.members) > 1:
            profile, wanted = self.unit(block)
        else:
            only = block.last
            kind, profile = only.operation.kind, self.numbers(only.stands_for)
            splitting = None if block.unit else splitting_of(only.operation, *only.input_schemas)
            if splitting is not None:
                final = graph.FINALS.get(kind, "union" if splitting.final.then is None else "merge")
        return PlannedOperator(
            block.name,
            kind,
            tuple(dict.fromkeys(self.streams[stream] for stream in block.inputs)),
            selectivity=profile.selectivity,
            cost=profile.cost,
            growth=profile.growth,
            final=final,
            by_input=kind != "join",
            wanted=wanted,
        )

    def unit(self, block: Block) -> tuple[OperatorProfile, Number]:
        """What a super-operator does, and which share of its inputs it can use.

        What is known of it by its own name counts more than what is known of its members.
        """
        own = [self.numbers(member.stands_for) for member in block.members]
        whole, wanted = block_profile(block, own, self.makers, self.rates, self.filtering)
        of_unit = [block.name] if block.name not in block.stands_for else []
        return self.numbers(of_unit, whole), wanted


def _with_all_before(own: list[int], operators: list[PlannedOperator], sources: int) -> list[int]:
    """These operators and all that they read, directly or not."""
    found = set(own)
    for index in reversed(range(len(operators))):  # each is after those that it reads
        if index in found:
            found.update(stream - sources for stream in operators[index].inputs if stream >= sources)
    return sorted(found)

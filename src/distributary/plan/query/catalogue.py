"""Queries of a catalogue as a workload: who reads what is the catalogue's, the numbers are measured.

    workload = workload_of(catalogue, clients={"busy": 3}, trees={"trades": 0}, measured=measured)

Rules:

- What several queries compute alike is one operator here, of all those queries (`Catalogue.shared`). A query
  that reads another one's operator has that operator, and all before it, among its own.
- A query with several outputs has one client operator that reads them all.
- What was not measured is guessed: a source gives `RATE` bytes and `ITEMS` items a second, an operator passes
  everything on as it is and spends one cycle an item.
- How an operator may be split is what `flow` says of it; its final's kind here is only a name.

Cost: linear in the catalogue's operators, times how deep queries go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from distributary.errors import DistributaryError
from distributary.flow.catalogue import Catalogue, SharedOperator
from distributary.flow.splitting import splitting_of
from distributary.plan.query.graph import CLIENT, FINALS, Operator, Query, Source, Workload
from distributary.plan.tree import Number

RATE = 1000.0
ITEMS = 1.0


@dataclass(frozen=True)
class Measured:
    """What is known of a source or an operator; operators by the name of any query's, `query.operator`."""

    rates: Mapping[str, Number] = field(default_factory=dict)
    """Bytes a second of a source."""
    items: Mapping[str, Number] = field(default_factory=dict)
    """Items a second of a source."""
    selectivity: Mapping[str, Number] = field(default_factory=dict)
    growth: Mapping[str, Number] = field(default_factory=dict)
    cost: Mapping[str, Number] = field(default_factory=dict)
    utility: Mapping[str, Number] = field(default_factory=dict)
    """What a query is worth to its client."""


def workload_of(
    catalogue: Catalogue,
    clients: Mapping[str, int],
    trees: Mapping[str, int] | None = None,
    measured: Measured | None = None,
) -> Workload:
    """The catalogue's queries with a client each, at the sites given; sources are on tree 0 unless said.

    >>> from distributary.flow import Catalogue, QueryBuilder, Source
    >>> build = QueryBuilder("busy")
    >>> _ = build.filter("large", "trades", where="size > 1000")
    >>> trades = Source("trades", {"size": "integer", "at": "integer"}, time="at", topic="trades")
    >>> known = Measured(rates={"trades": 5000}, selectivity={"busy.large": 0.1})
    >>> workload = workload_of(Catalogue([trades], [build.query()]), {"busy": 2}, measured=known)
    >>> [(operator.name, operator.kind, operator.inputs) for operator in workload.operators]
    [('busy.large', 'filter', (0,)), ('busy', 'client', (1,))]
    >>> workload.output_rate(0)
    500.0
    """
    missing = sorted(set(catalogue.queries) - set(clients))
    if missing:
        raise DistributaryError(f"no client's site for query {missing[0]!r}")
    known = measured or Measured()
    sharing = catalogue.shared()
    sources = tuple(
        Source(name, (trees or {}).get(name, 0), known.rates.get(name, RATE), known.items.get(name, ITEMS))
        for name in catalogue.sources
    )
    streams = {name: number for number, name in enumerate(catalogue.sources)}
    for index, shared in enumerate(sharing.operators):
        streams.update(dict.fromkeys(shared.streams, len(sources) + index))
    operators = [_operator(shared, streams, known) for shared in sharing.operators]
    queries = []
    for name in catalogue.queries:
        ends = sorted({streams[sharing.streams[stream]] for stream in catalogue.outputs(name)})
        own = [
            index
            for index, shared in enumerate(sharing.operators)
            if any(each.startswith(f"{name}.") for each in shared.stands_for)
        ]
        members = _with_all_before(own, operators, len(sources))
        operators.append(Operator(name, CLIENT, tuple(ends), selectivity=0, cost=0, pinned=clients[name]))
        queries.append(Query(name, (*members, len(operators) - 1), known.utility.get(name, 1)))
    return Workload(sources, tuple(operators), tuple(queries))


def _operator(shared: SharedOperator, streams: Mapping[str, int], known: Measured) -> Operator:
    def of(values: Mapping[str, Number], otherwise: Number) -> Number:
        return next((values[name] for name in shared.stands_for if name in values), otherwise)

    kind = shared.operation.kind
    splitting = splitting_of(shared.operation, *shared.input_schemas)
    final = (
        "" if splitting is None else FINALS.get(kind, "union" if splitting.final.then is None else "merge")
    )
    return Operator(
        shared.name,
        kind,
        tuple(dict.fromkeys(streams[name] for name in shared.inputs)),
        selectivity=of(known.selectivity, 1),
        cost=of(known.cost, 1),
        growth=of(known.growth, 1),
        final=final,
        by_input=kind != "join",
    )


def _with_all_before(own: list[int], operators: list[Operator], sources: int) -> list[int]:
    """These operators and all that they read, directly or not."""
    found = set(own)
    waiting = list(own)
    while waiting:
        for stream in operators[waiting.pop()].inputs:
            if stream >= sources and stream - sources not in found:
                found.add(stream - sources)
                waiting.append(stream - sources)
    return sorted(found)

"""What there is to optimise: the planner's problem, made from what is registered and measured; a message.

Rules:

- Sites are the brokers in the order of their addresses. Trees are those of the sources; a broker that is not
  a member is taken to be where it would join.
- Selectivity is measured against all that an operator's inputs give out, though a filter is sent only what
  passes it: the network filters on the way (`SiteNetwork.filtering`). What an item costs a filter is measured
  against those that reach it, which are those it gives out.
- An operator that has been divided gives out what its final operator does; what it takes to process an item
  is what it took before.
- Operators have the names they run by. A query that was withdrawn and is still read counts as one whose
  client is at a node that reads it.
- A super-operator is one operator, with the name that its last member runs by: who moves that moves all of
  it. If an inner stream of it is read elsewhere, by a query that computes the same, it stays where it is.
- A division that the planner does not know (into more than `MOST_PARTS`) is left out: the operator counts as
  whole, where its final operator is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.flow import FilterOperation, SharedOperator
from distributary.flow.splitting import splitting_of
from distributary.overlay.node import Address
from distributary.plan.queries.blocks import running_blocks
from distributary.plan.queries.catalogue import WorkloadStatistics, workload_of
from distributary.plan.queries.graph import (
    PlannedOperator,
    PlannedQuery,
    PlannedSource,
    QueryWorkload,
    SplitRole,
)
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.queries.rules import REPLICATION
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree
from distributary.systems.queries.messages import TrafficCounts
from distributary.systems.queries.registry import QueryRegistry
from distributary.systems.queries.source_trees import SourceTree


class OperatorRecord(NamedTuple):
    """An operator of the planner's, as a message holds it."""

    name: str
    kind: str
    inputs: tuple[int, ...]
    selectivity: float
    cost: float
    growth: float
    final: str
    by_input: bool
    keyed: bool
    pinned: int | None
    share: int
    wanted: float | None
    part: str


class PlanningSnapshot(NamedTuple):
    """Everything that a site needs to weigh rules on its operators."""

    period: int
    sites: tuple[Address, ...]
    trees: tuple[tuple[int, ...], ...]
    sources: tuple[PlannedSource, ...]
    operators: tuple[OperatorRecord, ...]
    queries: tuple[PlannedQuery, ...]
    hosts: tuple[int, ...]

    def root(self, tree: int) -> Address:
        """The root broker of a tree."""
        return self.sites[self.trees[tree].index(NO_PARENT)]

    def workload(self) -> QueryWorkload:
        """Queries and operators, as the planner takes them."""
        operators = tuple(
            PlannedOperator(*known[:-1], part=SplitRole(known.part)) for known in self.operators
        )
        return QueryWorkload(self.sources, operators, self.queries)

    def placement(self, sites: Sites) -> Placement:
        """The problem as the planner takes it."""
        network = SiteNetwork(sites, tuple(Tree(parents) for parents in self.trees), filtering=True)
        return Placement(self.workload(), network, self.hosts)


class MeasuredRates(NamedTuple):
    """What a source or an operator does in a second."""

    items: float
    """That it gives out."""
    bytes: float
    work: float


class RateEstimates:
    """What is believed of sources and operators, from all that was reported.

    What was counted for long changes a belief more than what was counted for a moment: `memory` is how many
    seconds of counting weigh as much as all before.
    """

    def __init__(self, memory: float) -> None:
        self.memory = memory
        self.sources: dict[str, MeasuredRates] = {}
        self.operators: dict[str, MeasuredRates] = {}

    def source(self, counted: TrafficCounts) -> None:
        """Take in what a root broker has counted of a source."""
        rates = MeasuredRates(counted.items_in / counted.seconds, counted.bytes_in / counted.seconds, 0.0)
        self._learn(self.sources, counted, rates)

    def operator(self, counted: TrafficCounts, divided: bool) -> None:
        """Take in what a host has counted of an operator, or of the final one after its division."""
        seconds = counted.seconds
        rates = MeasuredRates(
            counted.items_out / seconds, counted.bytes_out / seconds, counted.work / seconds
        )
        known = self.operators.get(counted.name)
        if divided and known is not None:
            grown = rates.items / known.items if known.items else 1.0
            rates = rates._replace(work=known.work * grown)
        self._learn(self.operators, counted, rates)

    def _learn(self, known: dict[str, MeasuredRates], counted: TrafficCounts, rates: MeasuredRates) -> None:
        before = known.get(counted.name)
        share = counted.seconds / (counted.seconds + self.memory)
        if before is not None:
            rates = MeasuredRates(
                *(old + share * (new - old) for old, new in zip(before, rates, strict=True))
            )
        known[counted.name] = rates

    def forget(self, known: Callable[[str], bool]) -> None:
        """Believe nothing of operators that are no more."""
        self.operators = {name: rates for name, rates in self.operators.items() if known(name)}

    def measured(self, operators: Iterable[SharedOperator], runs: Mapping[str, str]) -> WorkloadStatistics:
        """What operators make of what is offered to them, whether or not it was filtered on the way.

        `runs` says which operators were measured in their place.
        """
        selectivity, growth, cost = {}, {}, {}
        given = {**self.sources, **self.operators}
        shared = list(operators)
        makers = {stream: one.name for one in shared for stream in one.streams}
        for one in shared:
            inputs = {makers.get(stream, stream) for stream in one.inputs}
            read = [given.get(runs.get(name, name)) for name in inputs]
            rates = self.operators.get(runs[one.name])
            if rates is None or not all(read):
                continue
            items, bytes = (sum(each[place] for each in read if each) for place in (0, 1))
            if items:
                selectivity[one.name] = rates.items / items
                reached = rates.items if isinstance(one.operation, FilterOperation) else items
                cost[one.name] = rates.work / reached if reached else 0.0
                if rates.items:
                    growth[one.name] = (rates.bytes / rates.items) / (bytes / items)
        return WorkloadStatistics(
            {name: rates.bytes for name, rates in self.sources.items()},
            {name: rates.items for name, rates in self.sources.items()},
            selectivity,
            growth,
            cost,
        )


def planning_snapshot(
    registry: QueryRegistry, period: int, measured: RateEstimates
) -> PlanningSnapshot | None:
    """The problem as the registry knows it; None while there is nothing to place."""
    catalogue = registry.catalogue
    if not registry.trees or not catalogue.queries:
        return None
    stand_ins = registry.stand_ins()
    used = {*stand_ins.values(), *(place.host for place in registry.places.values())}
    brokers = set(registry.surroundings.brokers)
    addresses = tuple(sorted((brokers - registry.gone) | (brokers & used)))
    numbers = {address: number for number, address in enumerate(addresses)}
    clients = {query: numbers[at] for query, at in stand_ins.items()}
    trees = {name: registry.places[name].tree or 0 for name in catalogue.sources}
    shared_operators = catalogue.shared().operators
    blocks = running_blocks(catalogue, lambda one: registry.specs[registry.runs[one.name]].unit)
    known = measured.measured(shared_operators, registry.runs)
    workload = workload_of(catalogue, clients, trees, known, blocks=blocks, filtering=True)
    dealt = {
        shared.name
        for shared in shared_operators
        if (splitting := splitting_of(shared.operation, *shared.input_schemas)) and splitting.keys is not None
    }
    operators = [
        replace(
            one,
            name=registry.runs.get(one.name, one.name),
            by_input=one.by_input and one.name not in dealt,
        )
        for one in workload.operators
    ]
    workload = _divided(replace(workload, operators=tuple(operators)), registry)
    hosts = tuple(
        one.pinned if one.pinned is not None else numbers[registry.places[one.name].host]
        for one in workload.operators
    )
    shapes = tuple(_shape(tree, addresses, numbers, registry) for tree in registry.trees)
    staying = {registry.runs[block.name] for block in blocks.blocks if block.open}
    told = tuple(
        _known(replace(one, pinned=host) if one.name in staying else one)
        for one, host in zip(workload.operators, hosts, strict=True)
    )
    return PlanningSnapshot(period, addresses, shapes, workload.sources, told, workload.queries, hosts)


def _known(one: PlannedOperator) -> OperatorRecord:
    return OperatorRecord(
        one.name,
        one.kind,
        one.inputs,
        float(one.selectivity),
        float(one.cost),
        float(one.growth),
        one.final,
        one.by_input,
        one.keyed,
        one.pinned,
        one.share,
        None if one.wanted is None else float(one.wanted),
        one.part.value,
    )


def _divided(workload: QueryWorkload, registry: QueryRegistry) -> QueryWorkload:
    """The workload after all divisions that the planner knows."""
    for parted in registry.parted:
        index = next(at for at, one in enumerate(workload.operators) if one.name == parted.operator)
        try:
            by_input = parted.rule == REPLICATION.name
            parts = len(parted.replicas)
            made = workload.replicated(index) if by_input else workload.partitioned(index, parts)
        except DistributaryError:
            continue
        if tuple(one.name for one in made.operators[len(workload.operators) :]) == parted.replicas:
            workload = made
    return workload


def _shape(
    tree: SourceTree, addresses: tuple[Address, ...], numbers: Mapping[Address, int], registry: QueryRegistry
) -> tuple[int, ...]:
    """A tree over all sites."""
    whole = SourceTree(tree.root, dict(tree.parents))
    for address in addresses:
        if address != tree.root:
            whole.join(address, registry.surroundings)
    return tuple(
        NO_PARENT if address == tree.root else numbers[whole.parents[address]] for address in addresses
    )

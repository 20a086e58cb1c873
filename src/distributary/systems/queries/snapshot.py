"""The planner's problem of the whole network, made from what is registered and measured; a message.

Rules:

- Sites are the brokers in the order of their addresses. What they have measured of the links between them and
  their processors' speeds are as they reported them to the registry.
- Trees are those of the sources; a broker that is not
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
from math import inf
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.flow import FilterOperation, SharedOperator
from distributary.flow.splitting import splitting_of
from distributary.overlay.node import Address
from distributary.plan.queries import graph
from distributary.plan.queries.blocks import running_blocks
from distributary.plan.queries.catalogue import WorkloadStatistics, workload_of
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.queries.rules import REPLICATION
from distributary.plan.queries.spreading import StreamSpreading
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree
from distributary.systems.queries.messages import TrafficCounts
from distributary.systems.queries.own_metrics import OwnMetricsTable
from distributary.systems.queries.registry import QueryRegistry
from distributary.systems.queries.source_trees import SourceTree


class OperatorRecord(NamedTuple):
    """A planner's operator, as a message holds it: its fields in order, plain numbers and texts."""

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

    @staticmethod
    def of(one: graph.PlannedOperator) -> OperatorRecord:
        """The record of an operator."""
        wanted = None if one.wanted is None else float(one.wanted)
        numbers = {name: float(vars(one)[name]) for name in ("selectivity", "cost", "growth")}
        return OperatorRecord(**{**vars(one), **numbers, "wanted": wanted, "part": one.part.value})

    def operator(self) -> graph.PlannedOperator:
        """The operator that this is the record of."""
        return graph.PlannedOperator(*self[:-1], part=graph.SplitRole(self.part))


class PlanningSnapshot(NamedTuple):
    """Everything that a site needs to weigh rules on its operators."""

    period: int
    sites: tuple[Address, ...]
    trees: tuple[tuple[int, ...], ...]
    sources: tuple[graph.PlannedSource, ...]
    operators: tuple[OperatorRecord, ...]
    queries: tuple[graph.PlannedQuery, ...]
    hosts: tuple[int, ...]
    latency: tuple[tuple[float, ...], ...]
    """Milliseconds between sites, as these have measured them."""
    bandwidth: tuple[tuple[float, ...], ...]
    """Bytes a second between sites."""
    speed: tuple[float, ...]
    """Cycles a millisecond of the sites' processors."""
    own: OwnMetricsTable = OwnMetricsTable()
    """Metrics of the user's own."""

    def root(self, tree: int) -> Address:
        """The root broker of a tree."""
        return self.sites[self.trees[tree].index(NO_PARENT)]

    def workload(self) -> graph.QueryWorkload:
        """Queries and operators, as the planner takes them."""
        operators = tuple(record.operator() for record in self.operators)
        return graph.QueryWorkload(self.sources, operators, self.queries)

    def placement(self, spreading: StreamSpreading | None = None) -> Placement:
        """The problem as the planner takes it, with operators' streams spreading so."""
        trees = tuple(Tree(parents) for parents in self.trees)
        links, nodes = dict(self.own.links), dict(self.own.nodes)
        sites = Sites(self.latency, self.bandwidth, link_metrics=links, site_metrics=nodes)
        network = SiteNetwork(sites, trees, self.speed, filtering=True, spreading=spreading)
        return Placement(self.workload(), network, self.hosts)


class TrafficRates(NamedTuple):
    """What a source or an operator gives out in a second, and what work that takes."""

    items: float
    bytes: float
    work: float


class RateEstimates:
    """Estimated rates of sources and operators, from all counts so far.

    Counts over a long time change an estimate more than counts over a short one: `memory` is how many seconds
    of counting weigh as much as all before. What was counted for less than that so far weighs less.

    >>> estimates = RateEstimates(memory=10.0)
    >>> for seconds, items in ((0.1, 3), (9.9, 27)):
    ...     estimates.add_source(TrafficCounts("feed", seconds, items, 0, 0, 0, 0.0))
    >>> round(estimates.sources["feed"].items, 6)
    3.0
    """

    def __init__(self, memory: float) -> None:
        self.memory = memory
        self.sources: dict[str, TrafficRates] = {}
        self.operators: dict[str, TrafficRates] = {}
        self._seconds: dict[str, float] = {}
        """For how long each that is not counted for as long as the memory has been counted."""

    def add_source(self, counts: TrafficCounts) -> None:
        """Take in what a root broker has counted of a source."""
        items, bytes = counts.items_in / counts.seconds, counts.bytes_in / counts.seconds
        self._add(self.sources, counts, TrafficRates(items, bytes, 0.0))

    def add_operator(self, counts: TrafficCounts, divided: bool) -> None:
        """Take in what a host has counted of an operator, or of the final one after its division."""
        out = (counts.items_out, counts.bytes_out, counts.work)
        rates = TrafficRates(*(each / counts.seconds for each in out))
        known = self.operators.get(counts.name)
        if divided and known is not None:
            growth = rates.items / known.items if known.items else 1.0
            rates = rates._replace(work=known.work * growth)
        self._add(self.operators, counts, rates)

    def forget(self, is_gone: Callable[[str], bool]) -> None:
        """Keep nothing of operators that are gone."""
        gone = [name for name in self.operators if is_gone(name)]
        for name in gone:
            del self.operators[name]
            self._seconds.pop(name, None)

    def _add(self, known: dict[str, TrafficRates], counts: TrafficCounts, rates: TrafficRates) -> None:
        name, seconds = counts.name, counts.seconds
        before = known.get(name, rates)
        counted = self._seconds.pop(name, self.memory if name in known else 0.0)
        if counted + seconds < self.memory:
            self._seconds[name] = counted + seconds
        share = seconds / (seconds + counted)
        both = zip(before, rates, strict=True)
        known[name] = TrafficRates(*(old + share * (new - old) for old, new in both))

    def statistics(self, operators: Iterable[SharedOperator], runs: Mapping[str, str]) -> WorkloadStatistics:
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
        byte_rates = {name: rates.bytes for name, rates in self.sources.items()}
        item_rates = {name: rates.items for name, rates in self.sources.items()}
        return WorkloadStatistics(byte_rates, item_rates, selectivity, growth, cost)


def planning_snapshot(registry: QueryRegistry, period: int, rates: RateEstimates) -> PlanningSnapshot | None:
    """The problem as the registry knows it; None while there is nothing to place."""
    catalogue = registry.catalogue
    if not registry.trees or not catalogue.queries:
        return None
    client_nodes = registry.client_nodes()
    used = {*client_nodes.values(), *(location.host for location in registry.locations.values())}
    brokers = set(registry.surroundings.brokers)
    sites = tuple(sorted((brokers - registry.removed) | (brokers & used)))
    numbers = {address: number for number, address in enumerate(sites)}
    clients = {query: numbers[at] for query, at in client_nodes.items()}
    trees = {name: registry.locations[name].tree or 0 for name in catalogue.sources}
    shared = catalogue.shared().operators
    blocks = running_blocks(catalogue, lambda one: registry.specs[registry.runs[one.name]].unit)
    known = rates.statistics(shared, registry.runs)
    workload = workload_of(catalogue, clients, trees, known, blocks=blocks, filtering=True)
    keyed = {
        one.name
        for one in shared
        if (splitting := splitting_of(one.operation, *one.input_schemas)) and splitting.keys is not None
    }
    operators = []
    for one in workload.operators:
        by_input = one.by_input and one.name not in keyed
        operators.append(replace(one, name=registry.runs.get(one.name, one.name), by_input=by_input))
    workload = _with_divisions(replace(workload, operators=tuple(operators)), registry)
    hosts = tuple(
        one.pinned if one.pinned is not None else numbers[registry.locations[one.name].host]
        for one in workload.operators
    )
    staying = {registry.runs[block.name] for block in blocks.blocks if block.open}
    records = tuple(
        OperatorRecord.of(replace(one, pinned=host) if one.name in staying else one)
        for one, host in zip(workload.operators, hosts, strict=True)
    )
    shapes = tuple(_shape(tree, numbers, registry) for tree in registry.trees)
    links = registry.links
    return PlanningSnapshot(
        period,
        sites,
        shapes,
        workload.sources,
        records,
        workload.queries,
        hosts,
        tuple(map(tuple, links.milliseconds(sites))),
        tuple(map(tuple, links.bandwidths(sites))),
        tuple(registry.speeds.get(site, inf) / 1000 for site in sites),
        OwnMetricsTable.of(registry.own_metrics, sites),
    )


def _with_divisions(workload: graph.QueryWorkload, registry: QueryRegistry) -> graph.QueryWorkload:
    """The workload after all divisions that the planner knows."""
    for division in registry.divisions:
        index = next(at for at, one in enumerate(workload.operators) if one.name == division.operator)
        try:
            by_input = division.rule == REPLICATION.name
            parts = len(division.replicas)
            made = workload.replicated(index) if by_input else workload.partitioned(index, parts)
        except DistributaryError:
            continue
        if tuple(one.name for one in made.operators[len(workload.operators) :]) == division.replicas:
            workload = made
    return workload


def _shape(tree: SourceTree, numbers: Mapping[Address, int], registry: QueryRegistry) -> tuple[int, ...]:
    """A tree over all sites: the number of each site's parent."""
    whole = SourceTree(tree.root, dict(tree.parents))
    for site in numbers:
        if site != tree.root:
            whole.join(site, registry.parent_choice)
    return tuple(NO_PARENT if site == tree.root else numbers[whole.parents[site]] for site in numbers)

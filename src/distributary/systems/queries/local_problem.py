"""The planner's problem of one node: its own operators, and what its neighbourhood replied to probes.

Rules:

- Sites are this node, those probed, and those between them and the roots. Trees are made of these paths.
- Operators are those here. Every other reader that asks for a source on a link or reads a stream is a reader
  that stays where it is; the publisher of a stream that is read here is an operator that stays where it is.
- The totals of a site are those that it told; so a site that hosts other operators counts with these, though
  the problem does not have them. Under a MIN or MAX the worst of all other nodes counts too.
- An operator may move if all is known of what it reads and of its readers: to those sites whose paths to the
  roots are known.

For the goals that fit (`local_goals.is_local`) a change is worth here exactly what it is worth to the whole.

Cost: that of the planner for so many sites and operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from math import inf

import numpy as np

from distributary.overlay.node import Address
from distributary.plan.goal.expression import Goal, GoalFunction, GoalMembers, SystemCost
from distributary.plan.queries import graph, placement, system_forms
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.moves import OperatorMove
from distributary.plan.queries.optimiser import Climber
from distributary.plan.queries.state import Floats, Indices, PlacementState
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree
from distributary.systems.queries.links import LinkEstimate, LinkTable
from distributary.systems.queries.messages import NodeValue, SourceRate
from distributary.systems.queries.node_model import SUPER, NodeModel, PlacementUnit, ReaderInfo
from distributary.systems.queries.probes import ProbeResults, StreamUsage
from distributary.systems.queries.settings import QueryOptimiserSettings

STAND_IN = "stand-in"
"""The kind of an operator elsewhere whose stream is read here."""


class ExtremeWithOthers(system_forms.BrokersCost):
    """A MIN or MAX over some nodes, and one value for all others."""

    def __init__(self, cost: SystemCost, state: PlacementState, others: float) -> None:
        super().__init__(cost, state)
        self.others = others

    def cost(self) -> float:
        """The cost now."""
        return float(self._with_others(np.array(super().cost())))

    def cost_after(self, move: OperatorMove) -> Floats:
        """The cost after each variant of a move."""
        return self._with_others(super().cost_after(move))

    def _with_others(self, values: Floats) -> Floats:
        worse = np.fmax if self.function is GoalFunction.MAX else np.fmin
        return np.asarray(worse(values, self.others))


class LocalClimber(Climber):
    """A climber that considers some sites only."""

    def __init__(self, estimate: PlacementEstimate, settings: QueryOptimiserSettings, sites: Indices) -> None:
        super().__init__(estimate, settings.rules, settings.area)
        self.destinations = sites

    def candidates(self, group: Sequence[int]) -> Indices:
        """The sites that a group of operators may move to."""
        found: Indices = self.destinations[self.destinations != self.estimate.state.hosts[group[0]]]
        return found


class LocalProblem:
    """The problem of one node in one period."""

    def __init__(self, model: NodeModel, probes: ProbeResults, rates: dict[str, SourceRate]) -> None:
        self.results = results = probes
        self.complete = [site for site in results.requests if results.is_complete(site)]
        """The sites of which all is known."""
        self.sites = tuple(sorted({*results.requests, *(site for path in results.paths() for site in path)}))
        self.numbers = {site: number for number, site in enumerate(self.sites)}
        self._model = model
        self._here = model.node.address
        self._units = model.units()
        self._own = {unit.name: unit for unit in self._units}
        self._rates = rates
        readers = [name for unit in self._units for name, _, _ in model.readers_of(unit.name)]
        told = [info for reply in results.replies.values() for info in reply.readers]
        self._readers = {info.name: info for info in (*model.reader_infos(readers), *told)}
        self._trees: list[tuple[int, ...]] = []
        self._sources: list[graph.PlannedSource] = []
        self._operators: list[graph.PlannedOperator] = []
        self._query_counts: list[int] = []
        """The number of queries that each operator is of."""
        self._streams: dict[str, tuple[bool, int]] = {}
        """By name: whether it is a source, and the number of the source or operator."""
        for order, (tree, sources) in enumerate(results.requests[self._here].sources):
            self._add_tree(order, tree, sources)
        replies = results.replies.items()
        published = {usage.stream: (host, usage) for host, reply in replies for usage in reply.published}
        for host, usage in published.values():
            self._add_producer(host, usage)
        for unit in self._in_order():
            self._add_unit(unit)
        self._add_readers()
        if not self._trees:
            self._trees.append(self._star(self._here))

    # Making the problem

    def _add_tree(self, order: int, tree: int, sources: Sequence[str]) -> None:
        """A tree of sources, as far as it is known, and what others ask for on its links."""
        replies = {site: self.results.replies[site].uplinks[order] for site in self.complete}
        uplinks = {site: uplink for site, uplink in replies.items() if uplink is not None}
        if not uplinks:
            return
        paths = [(site, *uplink.above) for site, uplink in uplinks.items()]
        root = self.numbers[paths[0][-1]]
        parents = [root] * len(self.sites)
        parents[root] = NO_PARENT
        for path in paths:
            for site, above in pairwise(path):
                parents[self.numbers[site]] = self.numbers[above]
        numbered = {self.numbers[site]: uplink.shares for site, uplink in uplinks.items()}
        shares = {site: asked for site, asked in numbered.items() if site != root}
        here = self.numbers[self._here]
        self._trees.append(tuple(parents))
        for at, source in enumerate(sources):
            rate = self._rates.get(source, SourceRate(source, 0.0, 0.0))
            self._streams[source] = True, len(self._sources)
            self._sources.append(graph.PlannedSource(source, len(self._trees) - 1, rate.bytes, rate.items))
            rest = {site: asked[at] for site, asked in shares.items()}
            for site, asked in shares.items():
                if parents[site] in rest:
                    rest[parents[site]] -= asked[at]
            if here in rest:
                rest[here] -= self._model.last_demand(tree, source)
            for site, left in rest.items():
                self._add_reader(f"{source} at {self.sites[site]}", [source], site, left)

    def _star(self, root: Address) -> tuple[int, ...]:
        at = self.numbers[root]
        return tuple(NO_PARENT if site == at else at for site in range(len(self.sites)))

    def _add_producer(self, host: Address, usage: StreamUsage) -> None:
        """An operator elsewhere, which gives out what it is given, and the other readers of its stream."""
        stream, given = usage.stream, len(self._sources)
        self._trees.append(self._star(host))
        self._sources.append(graph.PlannedSource(stream, len(self._trees) - 1, usage.bytes, usage.items))
        self._streams[stream] = False, len(self._operators)
        pinned = self.numbers[host]
        self._add(graph.PlannedOperator(stream, STAND_IN, (given,), cost=0, final="", pinned=pinned), 0)
        here = [(self._here, graph.WHOLE)] if self._model.read_by_clients(stream) else []
        for site, share in (*usage.read_at, *here):
            if site in self.numbers:
                self._add_reader(f"{stream} at {site}", [stream], self.numbers[site], share)

    def _add_reader(
        self, name: str, streams: Sequence[str], site: int, share: int, info: ReaderInfo | None = None
    ) -> None:
        """A reader of streams that stays where it is."""
        if share > 0:
            inputs = self._inputs(streams, len(streams) if info is None else info.inputs)
            share = min(share, graph.WHOLE)
            operator = graph.PlannedOperator(
                name, graph.CLIENT, inputs, selectivity=0, cost=0, pinned=site, share=share
            )
            self._add(operator, 0 if info is None else info.queries)

    def _inputs(self, streams: Sequence[str], count: int) -> tuple[int, ...]:
        """The streams that are known, and empty ones up to a count.

        Streams of operators are numbered after all sources, which are not all known yet: see `workload`.
        """
        known = [self._streams[stream] for stream in streams if stream in self._streams]
        found = [number if is_source else -1 - number for is_source, number in known]
        for _ in range(count - len(known)):
            found.append(len(self._sources))
            self._sources.append(graph.PlannedSource("", 0, 0.0, 0.0))
        return tuple(found)

    def _add(self, operator: graph.PlannedOperator, queries: int) -> None:
        self._operators.append(operator)
        self._query_counts.append(queries)

    def _in_order(self) -> list[PlacementUnit]:
        """The operators here, each after those it reads."""

        @cache
        def level(name: str) -> int:
            inputs = [stream for stream in self._own[name].inputs if stream in self._own]
            return 1 + max(map(level, inputs), default=0)

        return sorted(self._units, key=lambda unit: level(unit.name))

    def _add_unit(self, unit: PlacementUnit) -> None:
        """An operator here, which may move if enough is known of it."""
        inputs = [stream for stream in unit.inputs if stream in self._streams]
        items, bytes = (offered * unit.share / graph.WHOLE for offered in self._offered(inputs))
        rates = unit.rates
        wanted = None
        if unit.kind == SUPER:
            wanted = unit.wanted_share({stream: self._offered([stream]) for stream in inputs})
            wanted = 1.0 if wanted is None else wanted
        # The items that reach it: of a filter's, those that pass it.
        reached = rates.items if unit.kind == graph.FILTER else items if wanted is None else items * wanted
        cost = (rates.work / reached if reached else 0.0) if items else 1.0
        growth = (rates.bytes / rates.items) / (bytes / items) if items and rates.items and bytes else 1.0
        self._streams[unit.name] = False, len(self._operators)
        operator = graph.PlannedOperator(
            unit.name,
            unit.kind,
            self._inputs(inputs, len(unit.inputs)),
            selectivity=rates.items / items if items else 1.0,
            cost=cost,
            growth=growth,
            final=unit.final,
            by_input=unit.by_input,
            pinned=None if self._may_move(unit) else self.numbers[self._here],
            share=unit.share,
            wanted=wanted,
        )
        self._add(operator, self._model.query_counts.get(unit.name, 0))

    def _offered(self, streams: Iterable[str]) -> tuple[float, float]:
        """Items and bytes that streams carry in a second."""
        items = bytes = 0.0
        for stream in streams:
            if stream in self._own:
                rates = self._own[stream].rates
                items, bytes = items + rates.items, bytes + rates.bytes
                continue
            is_source, number = self._streams[stream]
            known = self._sources[number if is_source else self._operators[number].inputs[0]]
            items, bytes = items + float(known.items), bytes + float(known.rate)
        return items, bytes

    def _may_move(self, unit: PlacementUnit) -> bool:
        """Whether all is known that an operator's placement depends on: costs of paths need no rates."""
        by_path = self._model.by_path
        measured = unit.name in self._model.query_counts if by_path else unit.measured
        if unit.stays or not measured:
            return False
        for stream in unit.inputs:
            is_source, _ = self._streams.get(stream, (True, 0))
            rated = stream in self._streams and (by_path or stream in self._rates)
            if stream not in self._own and is_source and not rated:
                return False
        return all(
            self.results.is_complete(at) and (name in self._readers or not by_path)
            for name, at, _ in self._model.readers_of(unit.name)
        )

    def _add_readers(self) -> None:
        """The readers of the streams of operators here: those elsewhere, and clients."""
        own = {name for unit in self._units for name in unit.members}
        read: dict[tuple[str, Address], dict[str, int]] = {}
        infos: dict[str, ReaderInfo | None] = {}
        for unit in self._units:
            for name, at, share in self._model.readers_of(unit.name):
                if name not in own and at in self.numbers:
                    known = self._readers.get(name)
                    reader = known.whole or name if known is not None else name
                    streams = read.setdefault((reader, at), {})
                    streams[unit.name] = streams.get(unit.name, 0) + share
                    infos[reader] = known
        for (reader, at), streams in read.items():
            share = max(streams.values())
            self._add_reader(reader, list(streams), self.numbers[at], share, infos[reader])

    # The problem

    def workload(self) -> graph.QueryWorkload:
        """Operators with the numbers of the streams they read; queries that count each as often as due."""
        first, counts = len(self._sources), self._query_counts
        operators = tuple(
            replace(one, inputs=tuple(at if at >= 0 else first - 1 - at for at in one.inputs))
            for one in self._operators
        )
        queries = tuple(
            graph.PlannedQuery(str(number), tuple(at for at, count in enumerate(counts) if count > number))
            for number in range(max(counts, default=0))
        )
        return graph.QueryWorkload(tuple(self._sources), operators, queries)

    def estimate(self, goal: Goal, worst: Sequence[NodeValue] = (), brokers: int = 0) -> PlacementEstimate:
        """The placement as it is; `worst` are the worst of so many nodes, where the cost is a MIN or MAX.

        Averages are taken as sums here: of how many is not known from some. Those that are neither known nor
        among the worst are taken to be as bad as the last of these, so that nothing is overrated.
        """
        cost = goal.cost
        if cost.function is GoalFunction.AVERAGE:
            cost = replace(cost, function=GoalFunction.SUM)
        sites = Sites(self._links().milliseconds(self.sites))
        trees = tuple(map(Tree, self._trees))
        network = placement.SiteNetwork(sites, trees, self._speeds(), filtering=True)
        here = self.numbers[self._here]
        hosts = tuple(here if one.pinned is None else one.pinned for one in self._operators)
        placed = placement.Placement(self.workload(), network, hosts)
        others = [one.value for one in worst if one.site not in self.numbers]
        if not others and len(self.sites) < brokers:
            others = [one.value for one in worst[-1:]]
        form: Callable[[SystemCost, PlacementState], system_forms.SystemForm] = system_forms.system_form
        if cost.function.is_bottleneck and others:
            assert cost.members is GoalMembers.BROKERS
            form = partial(ExtremeWithOthers, others=others[0])
        estimate = PlacementEstimate(replace(goal, cost=cost), placed, form)
        for site, reply in self.results.replies.items():
            for name, total in zip(self._model.total_names, reply.totals, strict=True):
                estimate.state.quantities[name][self.numbers[site]] = total
        return estimate

    def _links(self) -> LinkTable:
        """The links that this node and those that replied have measured."""
        links = self._model.links()
        for site, reply in self.results.replies.items():
            links.learn(site, reply.links)
            for uplink in [uplink for uplink in reply.uplinks if uplink is not None]:
                for (below, above), hop in zip(pairwise((site, *uplink.above)), uplink.hops, strict=False):
                    links.learn(below, [(above, LinkEstimate(hop))])
        return links

    def _speeds(self) -> tuple[float, ...]:
        """Cycles a millisecond of the sites' processors; of those that did not reply none is weighed."""
        replies = self.results.replies
        return tuple(replies[site].speed / 1000 if site in replies else inf for site in self.sites)

    def destinations(self) -> Indices:
        """The sites that operators may move to."""
        found = [self.numbers[site] for site in self.results.destinations if site in self.complete]
        return np.array(sorted(found), dtype=np.intp)

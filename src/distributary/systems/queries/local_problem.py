"""A planner's problem of what a node knows: its own operators, and what its neighbourhood answered.

Rules:

- Sites are this node, those asked, and those on their ways to the roots. Trees are made of these ways.
- Operators are those here. Whoever else asks for a source on a link or reads a stream is a reader that stays
  where it is; who publishes a stream that is read here is an operator that stays where it is.
- What the sites do in all is what they told; so a site that other operators are at counts with these, though
  the problem does not hold them. Under a MIN or MAX the worst of all other nodes counts too.
- An operator may go away if all is known of what it reads and of who reads it. Where to: to those sites whose
  ways to the roots are known.

For the goals that fit (`local_goals.is_local`) a change is worth here exactly what it is worth to the whole.

Cost: that of the planner for so many sites and operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from distributary.overlay.node import Address
from distributary.plan.goal import Goal, GoalFunction, GoalMembers, SystemCost
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.graph import (
    CLIENT,
    FILTER,
    WHOLE,
    PlannedOperator,
    PlannedQuery,
    PlannedSource,
    QueryWorkload,
)
from distributary.plan.queries.moves import OperatorMove
from distributary.plan.queries.optimiser import Climber
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.queries.rules import QueryRule, RuleArea
from distributary.plan.queries.state import Floats, Indices, PlacementState
from distributary.plan.queries.system_forms import BrokersCost, SystemForm, system_form
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree
from distributary.systems.queries.node_model import SUPER, NodeModel, PlacementUnit, ReaderInfo
from distributary.systems.queries.probes import ProbeResults, StreamUsage
from distributary.systems.queries.statistics_messages import NodeValue, StreamRate

STAND_IN = "stand-in"


class ExtremeWithOthers(BrokersCost):
    """A MIN or MAX over some nodes, and one value for all others."""

    def __init__(self, cost: SystemCost, state: PlacementState, others: float) -> None:
        super().__init__(cost, state)
        self.others = others

    def cost(self) -> float:
        return float(self._with_others(np.array(super().cost())))

    def cost_after(self, move: OperatorMove) -> Floats:
        return self._with_others(super().cost_after(move))

    def _with_others(self, values: Floats) -> Floats:
        worse = np.fmax if self.function is GoalFunction.MAX else np.fmin
        return np.asarray(worse(values, self.others))


class LocalClimber(Climber):
    """A climber that considers some sites only."""

    def __init__(
        self, standing: PlacementEstimate, rules: Sequence[QueryRule], area: RuleArea, places: Indices
    ) -> None:
        super().__init__(standing, rules, area, batch=1)
        self.places = places

    def candidates(self, group: Sequence[int]) -> Indices:
        found: Indices = self.places[self.places != self.standing.state.hosts[group[0]]]
        return found


class LocalProblem:
    """The problem of one node in one period."""

    def __init__(
        self,
        local: NodeModel,
        answers: ProbeResults,
        latency: Callable[[Address, Address], float],
        rates: dict[str, StreamRate],
    ) -> None:
        self.local = local
        self.answers = answers
        self.here = local.node.address
        self.pieces = local.pieces()
        self.rates = rates
        self.complete = [site for site in answers.asked if answers.complete(site)]
        ways = [uplink.above for told in answers.told.values() for uplink in told.uplinks if uplink]
        known = {*answers.asked, *(site for above in ways for site in above)}
        self.sites: tuple[Address, ...] = tuple(sorted(known))
        self.numbers = {site: number for number, site in enumerate(self.sites)}
        self.latency = [
            [0.0 if one == other else latency(one, other) for other in self.sites] for one in self.sites
        ]
        self._published: dict[str, tuple[Address, StreamUsage]] = {
            one.stream: (host, one) for host, told in answers.told.items() for one in told.published
        }
        told = [one for told in answers.told.values() for one in told.readers]
        own = local.readings(name for piece in self.pieces for name, _, _ in local.read_by(piece.name))
        self._reading = {one.name: one for one in (*own, *told)}
        self._trees: list[tuple[int, ...]] = []
        self._sources: list[PlannedSource] = []
        self._operators: list[PlannedOperator] = []
        self._hosts: list[int] = []
        self._times: list[int] = []
        """How many queries each operator is of."""
        self._streams: dict[str, tuple[bool, int]] = {}
        """By name: whether it is a source, and the number of the source or operator."""
        self._describe()

    # What there is

    def _describe(self) -> None:
        for order, (tree, sources) in enumerate(self.answers.asked[self.here].sources):
            self._add_tree(order, tree, sources)
        for stream, (host, published) in self._published.items():
            self._add_producer(stream, host, published)
        for piece in self._ordered():
            self._add_piece(piece)
        self._add_readers()
        if not self._trees:
            self._trees.append(self._star(self.here))

    def _add_tree(self, order: int, tree: int, sources: Sequence[str]) -> None:
        """A tree of sources, as far as it is known, and what others ask for on its links."""
        uplinks = {site: self.answers.told[site].uplinks[order] for site in self.complete}
        ways = [(site, *uplink.above) for site, uplink in uplinks.items() if uplink is not None]
        if not ways:
            return
        root = self.numbers[ways[0][-1]]
        parents = [root] * len(self.sites)
        parents[root] = NO_PARENT
        for way in ways:
            for site, above in pairwise(way):
                parents[self.numbers[site]] = self.numbers[above]
        shares = {
            self.numbers[site]: uplink.shares
            for site, uplink in uplinks.items()
            if uplink is not None and self.numbers[site] != root
        }
        self._trees.append(tuple(parents))
        for at, source in enumerate(sources):
            rate = self.rates.get(source, StreamRate(source, 0.0, 0.0))
            self._streams[source] = True, len(self._sources)
            self._sources.append(PlannedSource(source, len(self._trees) - 1, rate.bytes, rate.items))
            rest = {site: asked[at] for site, asked in shares.items()}
            for site, asked in shares.items():
                if parents[site] in rest:
                    rest[parents[site]] -= asked[at]
            if self.numbers[self.here] in rest:
                rest[self.numbers[self.here]] -= self.local.asked_before(tree, source)
            for site, left in rest.items():
                self._add_reader(f"{source} at {self.sites[site]}", [source], site, left)

    def _star(self, root: Address) -> tuple[int, ...]:
        at = self.numbers[root]
        return tuple(NO_PARENT if site == at else at for site in range(len(self.sites)))

    def _add_producer(self, stream: str, host: Address, published: StreamUsage) -> None:
        """An operator elsewhere, which gives out what it is given, and who else reads its stream."""
        self._trees.append(self._star(host))
        self._sources.append(PlannedSource(stream, len(self._trees) - 1, published.bytes, published.items))
        given = len(self._sources) - 1
        self._streams[stream] = False, len(self._operators)
        self._add(PlannedOperator(stream, STAND_IN, (given,), cost=0, final="", pinned=self.numbers[host]), 0)
        here = [(self.here, WHOLE)] if self.local.read_by_clients(stream) else []
        for site, share in (*published.read_at, *here):
            if site in self.numbers:
                self._add_reader(f"{stream} at {site}", [stream], self.numbers[site], share)

    def _add_reader(
        self, name: str, streams: Sequence[str], site: int, share: int, reading: ReaderInfo | None = None
    ) -> None:
        """Somebody who reads streams and stays where they are."""
        if share > 0:
            inputs = self._inputs(streams, len(streams) if reading is None else reading.inputs)
            share = min(share, WHOLE)
            operator = PlannedOperator(name, CLIENT, inputs, selectivity=0, cost=0, pinned=site, share=share)
            self._add(operator, 0 if reading is None else reading.queries)

    def _inputs(self, streams: Sequence[str], count: int) -> tuple[int, ...]:
        """The streams that are known, and as many of which nothing is known as there are besides.

        Streams of operators are numbered after all sources, which are not all known yet: see `workload`.
        """
        known = [self._streams[stream] for stream in streams if stream in self._streams]
        found = [number if source else -1 - number for source, number in known]
        for _ in range(count - len(known)):
            found.append(len(self._sources))
            self._sources.append(PlannedSource("", 0, 0.0, 0.0))
        return tuple(found)

    def _add(self, operator: PlannedOperator, times: int) -> None:
        self._operators.append(operator)
        assert operator.pinned is not None
        self._hosts.append(operator.pinned)
        self._times.append(times)

    def _ordered(self) -> list[PlacementUnit]:
        """The operators here, each after those it reads."""
        waiting, found = list(self.pieces), []
        names = {piece.name for piece in waiting}
        known: set[str] = set()
        while waiting:
            free = [
                piece for piece in waiting if all(one in known or one not in names for one in piece.inputs)
            ]
            found += free
            known |= {piece.name for piece in free}
            waiting = [piece for piece in waiting if piece not in free]
        return found

    def _add_piece(self, piece: PlacementUnit) -> None:
        inputs = [stream for stream in piece.inputs if stream in self._streams]
        items, bytes = self._offered(inputs)
        items, bytes = items * piece.share / WHOLE, bytes * piece.share / WHOLE
        rates = piece.rates
        selectivity = rates.items / items if items else 1.0
        growth = (rates.bytes / rates.items) / (bytes / items) if items and rates.items and bytes else 1.0
        self._streams[piece.name] = False, len(self._operators)
        operator = PlannedOperator(
            piece.name,
            piece.kind,
            self._inputs(inputs, len(piece.inputs)),
            selectivity=selectivity,
            cost=self._cost(piece, items),
            growth=growth,
            final=piece.final,
            by_input=piece.by_input,
            pinned=self.numbers[self.here],
            share=piece.share,
            wanted=self._wanted(piece, inputs) if piece.kind == SUPER else None,
        )
        self._add(operator, self.local.counts.get(piece.name, 0))
        if self._is_free(piece):
            self._operators[-1] = replace(operator, pinned=None)

    def _cost(self, piece: PlacementUnit, items: float) -> float:
        """What an item costs an operator, of those that reach it: of a filter's, those that pass it."""
        reached = piece.rates.items if piece.kind == FILTER else items
        if piece.kind == SUPER:
            reached = items * self._wanted(piece, [one for one in piece.inputs if one in self._streams])
        if not items:
            return 1.0
        return piece.rates.work / reached if reached else 0.0

    def _wanted(self, piece: PlacementUnit, inputs: Sequence[str]) -> float:
        """Which share of what it reads is sent to a super-operator."""
        wanted = piece.wanted({stream: self._offered([stream]) for stream in inputs})
        return 1.0 if wanted is None else wanted

    def _offered(self, streams: Iterable[str]) -> tuple[float, float]:
        """Items and bytes that streams carry in a second."""
        items = bytes = 0.0
        own = {piece.name: piece for piece in self.pieces}
        for stream in streams:
            if stream in own:
                rates = own[stream].rates
                items, bytes = items + rates.items, bytes + rates.bytes
                continue
            source, number = self._streams[stream]
            known = self._sources[number if source else self._operators[number].inputs[0]]
            items, bytes = items + float(known.items), bytes + float(known.rate)
        return items, bytes

    def _is_free(self, piece: PlacementUnit) -> bool:
        """Whether all is known that an operator's place has to do with."""
        own = {one.name for one in self.pieces}
        known = all(
            stream in own
            or (stream in self._streams and (not self._streams[stream][0] or self._is_rated(stream)))
            for stream in piece.inputs
        )
        counted = piece.name in self.local.counts if self.local.of_ways else piece.measured
        able = counted and not piece.stays
        return known and able and self._are_known(piece.name)

    def _are_known(self, stream: str) -> bool:
        """Whether all is known of those who read a stream: where they are and, for ways, what they read."""
        for name, hop, _ in self.local.read_by(stream):
            if not self.answers.complete(hop) or (self.local.of_ways and name not in self._reading):
                return False
        return True

    def _is_rated(self, source: str) -> bool:
        """Whether as much is known of a source as the goal asks for: ways have nothing to do with rates."""
        return source in self.rates or self.local.of_ways

    def _add_readers(self) -> None:
        """Who reads the streams of the operators here: those elsewhere, and clients."""
        own = {name for piece in self.pieces for name in piece.members}
        read: dict[tuple[str, Address], dict[str, int]] = {}
        reading: dict[str, ReaderInfo | None] = {}
        for piece in self.pieces:
            for name, hop, share in self.local.read_by(piece.name):
                if name not in own and hop in self.numbers:
                    known = self._reading.get(name)
                    who = known.whole or name if known is not None else name
                    streams = read.setdefault((who, hop), {})
                    streams[piece.name] = streams.get(piece.name, 0) + share
                    reading[who] = known
        for (who, hop), streams in read.items():
            self._add_reader(who, list(streams), self.numbers[hop], max(streams.values()), reading[who])

    # The planner's problem

    def workload(self) -> QueryWorkload:
        """Operators with the numbers of the streams they read; queries that count them as often as due."""
        first = len(self._sources)
        operators = tuple(
            replace(one, inputs=tuple(at if at >= 0 else first - 1 - at for at in one.inputs))
            for one in self._operators
        )
        most = max(self._times, default=0)
        queries = tuple(
            PlannedQuery(str(number), tuple(at for at, times in enumerate(self._times) if times > number))
            for number in range(most)
        )
        return QueryWorkload(tuple(self._sources), operators, queries)

    def placement(self) -> Placement:
        trees = tuple(Tree(parents) for parents in self._trees)
        network = SiteNetwork(Sites(self.latency), trees, filtering=True)
        return Placement(self.workload(), network, tuple(self._hosts))

    def standing(self, goal: Goal, worst: Sequence[NodeValue] = (), brokers: int = 0) -> PlacementEstimate:
        """The problem as it stands; `worst` are the worst of so many nodes, where the cost is a MIN or MAX.

        Averages are taken as sums here: of how many is not known from some. Those that are neither known nor
        among the worst are taken to be as bad as the last of these, so that nothing is overrated.
        """
        function = GoalFunction.SUM if goal.cost.function is GoalFunction.AVERAGE else goal.cost.function
        goal = replace(goal, cost=replace(goal.cost, function=function))
        others = [one.value for one in worst if one.site not in self.numbers]
        if not others and len(self.sites) < brokers:
            others = [one.value for one in worst[-1:]]
        form: Callable[[SystemCost, PlacementState], SystemForm] = system_form
        if function.is_bottleneck and others:
            assert goal.cost.members is GoalMembers.BROKERS
            form = partial(ExtremeWithOthers, others=others[0])
        standing = PlacementEstimate(goal, self.placement(), form)
        for site, totals in self._totals().items():
            for name, total in zip(self.local.names, totals, strict=True):
                standing.state.quantities[name][self.numbers[site]] = total
        return standing

    def _totals(self) -> dict[Address, tuple[float, ...]]:
        return {site: told.totals for site, told in self.answers.told.items()}

    def places(self) -> Indices:
        """The sites that operators may go to."""
        found = [self.numbers[site] for site in self.answers.places if site in self.complete]
        return np.array(sorted(found), dtype=np.intp)

"""A query network that optimises itself: statistics, weighing of changes, and proposals (003, 5.4.5).

    goal = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
    FlowBroker(node, registry, surroundings, optimising=QueryOptimiserSettings(goal, period=30.0))

Rules, for every period:

- `NeighbourhoodOptimiser`: nodes tell each other their values (`statistics`). Each node that the cost depends
  on probes its neighbourhood (`probes`), and weighs the planner's rules on its own operators
  (`local_problem`). What is told and asked is bounded, however many queries there are.
- `SnapshotOptimiser`, with `told="whole"` and for goals that need it (`local_goals.is_local` says which do
  not): each node reports what it has measured to the registry, which sends a snapshot of the whole network to
  all nodes that host operators (`snapshot`).
- A node proposes the best change that it found to the root of a tree it is a member of. The roots have the
  best of all carried out, several if these are independent (`proposals`).
- A change must gain a share of the cost (`margin`) where that is a MIN or MAX; where it is a sum or average,
  of what one node or query costs on average, for of a cost that many share no change is a large part. And
  what has just moved to a node stays for a while (`rest`). So noise moves little, and nothing goes to and
  fro.
- A node that breaks a constraint on nodes, because it has more to do than before, first has operators taken
  off it, whatever that does to the cost. Such changes go before all others.
- The host that carries out a proposal checks it again: an operator that has left meanwhile stays where it is.

Messages are of kinds of their own, `STATISTICS` and `OPTIMISATION`.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.plan.goal.expression import GoalFunction, GoalMembers
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.optimiser import Climber
from distributary.plan.queries.rules import QueryRewrite as Change
from distributary.plan.queries.statistics import critical_sites
from distributary.systems.queries import snapshot
from distributary.systems.queries.local_problem import LocalClimber, LocalProblem
from distributary.systems.queries.messages import ROUND_MESSAGES
from distributary.systems.queries.node_model import MeasurementReport, NodeModel, Site
from distributary.systems.queries.probes import PROBE_MESSAGES, Prober, ProbeResults
from distributary.systems.queries.proposals import ChangeOrder, ChangeProposal, ProposalSelection
from distributary.systems.queries.registry import QueryRegistry
from distributary.systems.queries.settings import Addresses, QueryOptimiserSettings
from distributary.systems.queries.snapshot import PlanningSnapshot, RateEstimates, planning_snapshot
from distributary.systems.queries.statistics import StatisticsManager, statistics_rounds


class RateHandover(NamedTuple):
    """The estimated rates of an operator, to its new host."""

    name: str
    rates: snapshot.TrafficRates


class QueryCounts(NamedTuple):
    """Of how many queries operators are; from the registry to their host, when that changes."""

    queries: tuple[tuple[str, int], ...]


STATISTICS = (MeasurementReport, PlanningSnapshot, QueryCounts, *ROUND_MESSAGES)
OPTIMISATION = (ChangeProposal, ChangeOrder, RateHandover, *PROBE_MESSAGES)

ELECTION_GAP = 1 << 20
"""How many periods are skipped when another node begins them: this node may not have heard of the last."""


class QueryOptimiser:
    """The optimiser of a node, and at roots and the registry what they do for all."""

    def __init__(self, settings: QueryOptimiserSettings, site: Site) -> None:
        self.node = node = site.connections.node
        self.settings = settings
        self._site = site
        self._send = site.connections.send
        self._period = 0
        self._is_primary = site.registry_link.local_registry is not None
        ProposalSelection(node, self._send, settings.window, settings.batch)
        node.handle(ChangeOrder, self._order)
        node.at_alarm("flow period", self._wake)
        node.at_start(lambda: node.wake_after(settings.period, "flow period"))

    def _wake(self, about: object) -> None:
        self.node.wake_after(self.settings.period, "flow period")
        registry = self._site.registry_link.local_registry
        if registry is not None and not self._is_primary:
            self._is_primary = True
            self._period += ELECTION_GAP
        self._begin_period(registry)

    def _begin_period(self, registry: QueryRegistry | None) -> None:
        """Do what begins a period at this node; the registry is here, or None."""
        raise NotImplementedError

    def withdraw(self) -> None:
        """Keep nothing of operators that are withdrawn."""

    def _order(self, order: ChangeOrder, sender: Address) -> None:
        self._site.carry_out(order)

    def _propose(
        self, period: int, benefit: float, roots: Addresses, sites: Addresses, climber: Climber, best: Change
    ) -> None:
        """Send a change to the root of a tree that this node is a member of; the first root decides."""
        here, router = self.node.address, self._site.engine.router
        names = [one.name for one in climber.estimate.state.workload.operators]
        moves = tuple((names[index], sites[site]) for index, site in best.changes.items())
        touched = tuple(sorted({here, *(sites[at] for at in climber.touched(best))}))
        operator = names[best.operator]
        rooted = [location.tree for location in router.locations.values() if location.host == here]
        tree = next((tree for tree in (*rooted, *router.parents) if tree is not None), 0)
        proposal = ChangeProposal(period, benefit, roots[0], here, best.rule, operator, moves, touched)
        self._send(roots[tree], proposal)


class NeighbourhoodOptimiser(QueryOptimiser):
    """An optimiser that weighs changes with what its neighbourhood tells it."""

    def __init__(self, settings: QueryOptimiserSettings, site: Site) -> None:
        super().__init__(settings, site)
        self.model = NodeModel(site, settings)
        self.statistics = StatisticsManager(self.model, self._round_over)
        self.prober = Prober(self.statistics, self._weigh)
        self.problem: LocalProblem | None = None
        """What was weighed last."""
        self._told_counts: dict[Address, dict[str, int]] = {}
        """At the registry: what hosts were told of their operators' queries."""
        self.node.handle(RateHandover, self._rates_received)
        self.node.handle(QueryCounts, lambda message, sender: self.model.query_counts.update(message.queries))

    def withdraw(self) -> None:
        """Keep nothing of operators that are withdrawn."""
        self.model.forget_others()

    def _begin_period(self, registry: QueryRegistry | None) -> None:
        """At the registry: begin a round everywhere."""
        if registry is None:
            return
        self._period += 1
        snapshot = planning_snapshot(registry, self._period, RateEstimates(self.settings.period))
        if snapshot is None:
            self._told_counts = {}
            return
        if self.settings.goal.cost.members is GoalMembers.QUERIES:
            self._tell_counts(snapshot)
        rounds = statistics_rounds(self._period, snapshot.sites, snapshot.trees, len(snapshot.queries))
        for site, round in rounds.items():
            self._site.connections.offer(site, round)

    def _tell_counts(self, snapshot: PlanningSnapshot) -> None:
        """Tell hosts of how many queries their operators are, as far as they do not know."""
        workload = snapshot.workload()
        found: dict[Address, dict[str, int]] = {}
        for index, operator in enumerate(workload.operators):
            if workload.runs(index):
                host = snapshot.sites[snapshot.hosts[index]]
                found.setdefault(host, {})[operator.name] = len(workload.queries_of[index])
        for host, counts in found.items():
            known = self._told_counts.get(host, {})
            news = tuple(each for each in counts.items() if known.get(each[0]) != each[1])
            if news:
                self._send(host, QueryCounts(news))
        self._told_counts = found

    def _round_over(self) -> None:
        """Probe the neighbourhood, if the cost depends on this node."""
        self.prober.answer_deferred()
        due = self.statistics.critical() or self.statistics.breaks_constraint()
        if due and self.model.units():
            self.prober.begin(self.destinations(), near=self.settings.area.local)

    def destinations(self) -> list[Address]:
        """The nodes that operators might move to, as far as they are known without probes."""
        area, found = self.settings.area, []
        if area.local:
            found += self.statistics.neighbours()
        if area.directed:
            best = sorted(self.statistics.better_nodes.items(), key=lambda each: (each[1], each[0]))
            found += [site for site, _ in best[: area.reach]]
        return found

    def _weigh(self, results: ProbeResults) -> None:
        """Weigh the rules on this node's operators, and propose the best."""
        statistics, settings = self.statistics, self.settings
        cost, round = statistics.cost, statistics.round
        if cost is None or round is None or not results.is_complete(self.node.address):
            return
        problem = self.problem = LocalProblem(self.model, results, statistics.rates)
        estimate = problem.estimate(settings.goal, statistics.worst, round.brokers)
        climber = LocalClimber(estimate, settings, problem.destinations())
        members = statistics.members if settings.goal.cost.function is GoalFunction.AVERAGE else 1
        # The cost that was told may be of the period before, and be less than what is known here alone.
        before = max(abs(cost), abs(estimate.cost) / members)
        roots = [position.root for position in round.positions]
        here = problem.numbers[self.node.address]
        mended = climber.mend(here)
        if mended is not None:
            self._propose(statistics.period, inf, roots, problem.sites, climber, mended)
        elif not climber.breaks(here) and (done := climber.at_site(here, 1)):
            benefit = done[0].benefit / members
            if benefit > settings.least_benefit(before, statistics.members):
                self._propose(statistics.period, benefit, roots, problem.sites, climber, done[0])

    def _rates_received(self, message: RateHandover, sender: Address) -> None:
        self.model.estimates.operators.setdefault(*message)

    def _order(self, order: ChangeOrder, sender: Address) -> None:
        """Have an order carried out; the rates of an operator go where it goes."""
        for name, to in order.moves:
            rates = self.model.estimates.operators.get(name)
            if rates is not None and to != self.node.address:
                self._send(to, RateHandover(name, rates))
        super()._order(order, sender)


class SnapshotOptimiser(QueryOptimiser):
    """An optimiser that weighs changes with a snapshot of the whole network."""

    def __init__(self, settings: QueryOptimiserSettings, site: Site) -> None:
        super().__init__(settings, site)
        self.estimates = RateEstimates(settings.period)
        """Of all operators, at the registry."""
        self.node.handle(MeasurementReport, self._report)
        self.node.handle(PlanningSnapshot, self._weigh)
        self.node.at_alarm("flow situation", self._send_snapshot)

    def _begin_period(self, registry: QueryRegistry | None) -> None:
        report = self._site.measure()
        if report.operators or report.sources:
            self._send(self._site.registry_link.address, report)
        if registry is not None:
            self.node.wake_after(self.settings.window, "flow situation")

    def _report(self, report: MeasurementReport, sender: Address) -> None:
        """At the registry: take in what a node has measured."""
        registry = self._site.registry_link.local_registry
        assert registry is not None
        divided = {division.operator for division in registry.divisions}
        for counts in [one for one in report.operators if registry.has(one.name)]:
            self.estimates.add_operator(counts, counts.name in divided)
        for counts in report.sources:
            self.estimates.add_source(counts)

    def _send_snapshot(self, about: object) -> None:
        """At the registry: send the snapshot to all that host operators."""
        registry = self._site.registry_link.local_registry
        assert registry is not None
        self.estimates.forget(lambda name: not registry.has(name))
        self._period += 1
        snapshot = planning_snapshot(registry, self._period, self.estimates)
        named = {metric.name for metric in self.settings.own_metrics}
        if snapshot is not None and named <= snapshot.own.names:
            for site in sorted(set(snapshot.hosts)):
                self._send(snapshot.sites[site], snapshot)

    def _weigh(self, snapshot: PlanningSnapshot, sender: Address) -> None:
        """Weigh the rules on this node's operators, and propose the best."""
        settings, sites = self.settings, snapshot.sites
        here = sites.index(self.node.address)
        spreading = self._site.engine.router.stream_trees.settings.spreading
        placement = self._with_arrivals(snapshot, here).placement(spreading)
        estimate = PlacementEstimate(settings.goal, placement)
        climber = Climber(estimate, settings.rules, settings.area)
        roots = [snapshot.root(tree) for tree in range(len(snapshot.trees))]
        mended = climber.mend(here)
        if mended is not None:
            self._propose(snapshot.period, inf, roots, sites, climber, mended)
        if climber.breaks(here) or mended is not None or here not in critical_sites(estimate):
            return
        before = estimate.cost
        done = climber.at_site(here, 1)
        over_brokers = settings.goal.cost.members is GoalMembers.BROKERS
        members = len(sites if over_brokers else snapshot.queries)
        if done and done[0].benefit > settings.least_benefit(before, members):
            self._propose(snapshot.period, done[0].benefit, roots, sites, climber, done[0])

    def _with_arrivals(self, snapshot: PlanningSnapshot, here: int) -> PlanningSnapshot:
        """The snapshot, in which operators that have just arrived here stay."""
        rest = self.settings.rest * self.settings.period
        hosted = self._site.engine.operators.values()
        arrived = {one.name for one in hosted if one.arrived_within(rest, self.node.now)}
        operators = tuple(
            record._replace(pinned=here) if at == here and record.name in arrived else record
            for record, at in zip(snapshot.operators, snapshot.hosts, strict=True)
        )
        return snapshot._replace(operators=operators)


def optimiser_of(settings: QueryOptimiserSettings, site: Site) -> QueryOptimiser:
    """The optimiser that a goal and its settings ask for."""
    return (NeighbourhoodOptimiser if settings.local else SnapshotOptimiser)(settings, site)

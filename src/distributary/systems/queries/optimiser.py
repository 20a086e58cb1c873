"""A query network that optimises itself: statistics, what nodes make of them, and proposals (003, 5.4.5).

    goal = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
    FlowBroker(node, registry, surroundings, optimising=Optimising(goal, period=30.0))

Rules, for every period:

- Nodes tell each other how they are doing (`statistics`). Each that the cost hangs on asks its
  neighbourhood what it needs to know (`probes`), and weighs the planner's rules on its own operators
  (`local_problem`). What is told and asked is bounded, however many queries there are.
- Or, with `told="whole"` and for goals that need it (`local_goals.is_local` says which do not): each node
  reports what it has measured to the registry, which tells the whole situation to all that host operators.
- The best change that a node found it proposes to the root of a tree it is a member of. The roots have the
  best of all carried out, several if these have nothing to do with each other (`proposals`).
- A change must bring a share of what there is to gain (`margin`): of the cost, where that is a MIN or MAX;
  where it is a sum or average, of what one node or query costs on average, for of a cost that many share no
  change is a large part. And what has just come to a node stays for a while (`rest`). So noise moves little,
  and nothing goes to and fro.
- What is proposed is checked again by the host that carries it out: an operator that has left meanwhile stays
  where it is.

Messages are of kinds of their own, `STATISTICS` and `OPTIMISATION`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from distributary.errors import DistributaryError
from distributary.overlay.node import Address, Node
from distributary.plan.goal import Goal, GoalFunction, GoalMembers
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.optimiser import BATCH, Climber
from distributary.plan.queries.rules import HYBRID, MIGRATIONS, QueryRewrite, QueryRule, RuleArea
from distributary.plan.queries.statistics import critical_sites
from distributary.plan.trees.tree import Sites
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.engine import Engine
from distributary.systems.queries.local_goals import is_local
from distributary.systems.queries.local_problem import LocalClimber, LocalProblem
from distributary.systems.queries.messages import TrafficCounts
from distributary.systems.queries.node_model import NodeModel
from distributary.systems.queries.probes import PROBE_MESSAGES, Prober, ProbeResults
from distributary.systems.queries.proposals import ChangeOrder, ChangeProposal, ProposalSelection
from distributary.systems.queries.registry import QueryRegistry
from distributary.systems.queries.router import Router
from distributary.systems.queries.snapshot import (
    MeasuredRates,
    PlanningSnapshot,
    RateEstimates,
    planning_snapshot,
)
from distributary.systems.queries.source_trees import Surroundings
from distributary.systems.queries.statistics import StatisticsManager, StatisticsSettings
from distributary.systems.queries.statistics_messages import ROUND_MESSAGES, statistics_rounds


@dataclass(frozen=True)
class QueryOptimiserSettings:
    """How a query network improves itself."""

    goal: Goal
    period: float = 30.0
    """Seconds between changes."""
    window: float = 2.0
    """Seconds that whoever collects waits for the others."""
    rules: Sequence[QueryRule] = MIGRATIONS
    area: RuleArea = HYBRID
    margin: float = 0.05
    """The share that a change must bring of the cost, or of what one node or query costs on average."""
    rest: int = 3
    """Periods for which an operator stays where it has come to."""
    batch: int = BATCH
    """Changes that are carried out in a period, at most."""
    told: Literal["neighbourhood", "whole"] = "neighbourhood"
    """Whether nodes weigh with what their neighbourhood tells them, where the goal allows it, or with all."""
    top: int | None = 20
    """How many nodes' values are passed on over a link, at most."""
    slack: float = 0.0
    """Under a MIN or MAX: the share of the cost within which a node's value must be for it to matter."""
    seed: int = 0
    """Of the lottery for values."""
    most_streams: int = 20
    """Of how many streams between operators here and elsewhere a node asks in a period, at most; a node that
    has more weighs its operators in turn."""

    def __post_init__(self) -> None:
        if self.told not in ("neighbourhood", "whole"):
            raise DistributaryError(f"told is neighbourhood or whole, not {self.told!r}")
        if self.top is not None and self.top < 1:
            raise DistributaryError(f"top is at least 1, not {self.top}")
        if self.most_streams < 1:
            raise DistributaryError(f"most_streams is at least 1, not {self.most_streams}")

    def worthwhile(self, cost: float, members: int) -> float:
        """What a change must bring, when the cost is that of so many nodes or queries."""
        extreme = self.goal.cost.function.is_bottleneck
        return self.margin * abs(cost) / (1 if extreme else max(1, members))

    @property
    def local(self) -> bool:
        """Whether nodes weigh with what their neighbourhood tells them."""
        return self.told == "neighbourhood" and is_local(self.goal)


class MeasurementReport(NamedTuple):
    """What a node has measured since its last report."""

    counted: tuple[TrafficCounts, ...]
    sources: tuple[TrafficCounts, ...]


class RateHandover(NamedTuple):
    """What is believed of an operator, to its new host."""

    name: str
    rates: MeasuredRates


class QueryCounts(NamedTuple):
    """Of how many queries operators are; from the registry to their host, when that changes."""

    queries: tuple[tuple[str, int], ...]


STATISTICS = (MeasurementReport, PlanningSnapshot, QueryCounts, *ROUND_MESSAGES)
OPTIMISATION = (ChangeProposal, ChangeOrder, RateHandover, *PROBE_MESSAGES)


LATER = 1 << 20
"""So many periods are skipped when another node begins them."""


class QueryOptimiser:
    """The optimiser of a node, and at roots and the registry what they do for all."""

    def __init__(
        self,
        node: Node,
        connections: Connections,
        settings: QueryOptimiserSettings,
        surroundings: Surroundings,
        engine: Engine,
        router: Router,
        registry: QueryRegistry | None,
        registry_at: Address,
        measure: Callable[[], MeasurementReport],
        carry_out: Callable[[ChangeOrder], None],
        tree_of: Callable[[], int | None],
    ) -> None:
        self.node = node
        self.settings = settings
        self.surroundings = surroundings
        self.weighed = 0
        """Changes that were considered here."""
        self.measurements = RateEstimates(settings.period)
        """Of all operators, at the registry, where nodes are told the whole."""
        self._engine = engine
        self._send = connections.send
        self._offer = connections.offer
        self._registry = registry
        self._registry_at = registry_at
        self._measure = measure
        self._tree_of = tree_of
        self._carry_out = carry_out
        self._period = 0
        self._counted: dict[Address, dict[str, int]] = {}
        """At the registry: what hosts were told of their operators' queries."""
        self._choosing = ProposalSelection(node, connections.send, settings.window, settings.batch)
        node.handle(ChangeOrder, self._order)
        node.at_alarm("flow period", self._begin_period)
        node.at_start(lambda: node.wake_after(settings.period, "flow period"))
        if settings.local:
            self._tell_neighbours(engine, router)
        else:
            node.handle(MeasurementReport, self._report)
            node.handle(PlanningSnapshot, self._situation)
            node.at_alarm("flow situation", self._tell)

    def _tell_neighbours(self, engine: Engine, router: Router) -> None:
        """Set up what is needed where nodes weigh with what their neighbourhood tells them."""
        node, settings = self.node, self.settings
        latency = self.surroundings.latency
        rest = settings.rest * settings.period
        self.local = NodeModel(
            node, engine, router, settings.goal, latency, settings.period, rest, self._measure, self._offer
        )
        telling = StatisticsSettings(
            settings.goal, settings.window, settings.top, settings.slack, settings.seed, settings.area.levels
        )
        self.statistics = StatisticsManager(node, self._offer, telling, self.local, self._ask)
        self.local.statistics = self.statistics
        self.asking = Prober(
            node,
            self._offer,
            self.local,
            self.statistics,
            settings.window,
            settings.most_streams,
            self._weigh_neighbourhood,
        )
        self.surrounded: LocalProblem | None = None
        """What was weighed last."""
        node.handle(RateHandover, lambda message, sender: self.local.believe(*message))
        node.handle(QueryCounts, lambda message, sender: self.local.counts.update(message.queries))

    def _begin_period(self, about: object) -> None:
        self.node.wake_after(self.settings.period, "flow period")
        if self.settings.local:
            self._begin_rounds()
        else:
            report = self._measure()
            if report.counted or report.sources:
                self._send(self._registry_at, report)
            if self._registry is not None:
                self.node.wake_after(self.settings.window, "flow situation")

    def take_office(self, registry: QueryRegistry) -> None:
        """The registry is here from now on."""
        self._registry = registry
        self._period += LATER  # beyond the periods that were before, which this node may not have heard of

    def registry_moved(self, address: Address) -> None:
        """The registry is elsewhere from now on."""
        self._registry_at = address

    def withdraw_all(self) -> None:
        """Know nothing of operators that are over."""
        if self.settings.local:
            self.local.forget_others()

    # With what the neighbourhood tells

    def _begin_rounds(self) -> None:
        """At the registry: begin a round everywhere."""
        if self._registry is None:
            return
        self._period += 1
        situation = planning_snapshot(self._registry, self._period, self.measurements)
        if situation is None:
            self._counted = {}
            return
        if self.settings.goal.cost.members is GoalMembers.QUERIES:
            self._tell_counts(situation)
        rounds = statistics_rounds(self._period, situation.sites, situation.trees, len(situation.queries))
        for site, round in rounds.items():
            self._offer(site, round)

    def _tell_counts(self, situation: PlanningSnapshot) -> None:
        """Tell hosts of how many queries their operators are, as far as they do not know."""
        workload = situation.workload()
        found: dict[Address, dict[str, int]] = {}
        for index, operator in enumerate(workload.operators):
            if workload.runs(index):
                host = situation.sites[situation.hosts[index]]
                found.setdefault(host, {})[operator.name] = len(workload.queries_of[index])
        for host, counts in found.items():
            known = self._counted.get(host, {})
            news = tuple(each for each in counts.items() if known.get(each[0]) != each[1])
            if news:
                self._send(host, QueryCounts(news))
        self._counted = found

    def _ask(self) -> None:
        """A round is over: whoever can better the cost asks around."""
        self.asking.answer_waiting()
        if self.statistics.critical() and self.local.pieces():
            self.asking.begin(self._places(), near=self.settings.area.local)

    def _places(self) -> list[Address]:
        """Where operators might go, as far as that is known without asking."""
        area, found = self.settings.area, []
        if area.local:
            found += self.statistics.near()
        if area.directed:
            heard = sorted(self.statistics.heard.items(), key=lambda each: (each[1], each[0]))
            found += [site for site, _ in heard[: area.reach]]
        return found

    def _weigh_neighbourhood(self, answers: ProbeResults) -> None:
        statistics, settings = self.statistics, self.settings
        cost, round = statistics.cost, statistics.round
        if cost is None or round is None or not answers.complete(self.node.address):
            return
        self.surrounded = LocalProblem(self.local, answers, self.surroundings.latency, statistics.rates)
        standing = self.surrounded.standing(settings.goal, statistics.worst, round.brokers)
        climber = LocalClimber(standing, settings.rules, settings.area, self.surrounded.places())
        members = statistics.members if settings.goal.cost.function is GoalFunction.AVERAGE else 1
        # The cost that was told may be of the period before, and be less than what is known here alone.
        before = max(abs(cost), abs(standing.cost) / members)
        done = climber.at_site(self.surrounded.numbers[self.node.address], 1)
        self.weighed += climber.considered
        benefit = done[0].benefit / members if done else 0.0
        if benefit > settings.worthwhile(before, statistics.members):
            lead = round.positions[0].root
            sites = self.surrounded.sites
            proposal = self._proposed(statistics.period, lead, sites, climber, done[0], benefit)
            self._send(round.positions[self._tree_of() or 0].root, proposal)

    # With the whole situation

    def _report(self, report: MeasurementReport, sender: Address) -> None:
        registry = self._registry
        assert registry is not None
        divided = {parted.operator for parted in registry.parted}
        for counted in [one for one in report.counted if registry.has(one.name)]:
            self.measurements.operator(counted, counted.name in divided)
        for counted in report.sources:
            self.measurements.source(counted)

    def _tell(self, about: object) -> None:
        assert self._registry is not None
        self.measurements.forget(self._registry.has)
        self._period += 1
        situation = planning_snapshot(self._registry, self._period, self.measurements)
        if situation is not None:
            for site in sorted(set(situation.hosts)):
                self._send(situation.sites[site], situation)

    def _situation(self, situation: PlanningSnapshot, sender: Address) -> None:
        """Weigh the rules on this node's operators, and propose the best to a root."""
        proposal = self._weigh(situation)
        if proposal is not None:
            self._send(situation.root(self._tree_of() or 0), proposal)

    def _weigh(self, situation: PlanningSnapshot) -> ChangeProposal | None:
        settings = self.settings
        latency = self.surroundings.latency
        nodes = situation.sites
        matrix = [[0.0 if one == other else latency(one, other) for other in nodes] for one in nodes]
        here = situation.sites.index(self.node.address)
        standing = PlacementEstimate(settings.goal, self._rested(situation, here).placement(Sites(matrix)))
        if here not in critical_sites(standing):
            return None
        before = standing.cost
        climber = Climber(standing, settings.rules, settings.area, batch=1)
        done = climber.at_site(here, 1)
        self.weighed += climber.considered
        over_brokers = settings.goal.cost.members is GoalMembers.BROKERS
        members = len(situation.sites if over_brokers else situation.queries)
        if not done or done[0].benefit <= settings.worthwhile(before, members):
            return None
        lead, sites = situation.root(0), situation.sites
        return self._proposed(situation.period, lead, sites, climber, done[0], done[0].benefit)

    def _rested(self, situation: PlanningSnapshot, here: int) -> PlanningSnapshot:
        """The situation, in which operators that have just come here stay."""
        hosted = self._engine.hosted
        rest = self.settings.rest * self.settings.period
        operators = tuple(
            known._replace(pinned=here)
            if at == here and known.name in hosted and hosted[known.name].has_come_within(rest, self.node.now)
            else known
            for known, at in zip(situation.operators, situation.hosts, strict=True)
        )
        return situation._replace(operators=operators)

    # Proposals

    def _proposed(
        self,
        period: int,
        lead: Address,
        sites: Sequence[Address],
        climber: Climber,
        rewrite: QueryRewrite,
        benefit: float,
    ) -> ChangeProposal:
        names = [one.name for one in climber.standing.state.workload.operators]
        moves = tuple((names[index], sites[site]) for index, site in rewrite.changes.items())
        operator = names[rewrite.operator]
        touched = tuple(sorted({self.node.address, *(sites[at] for at in climber.touched(rewrite))}))
        return ChangeProposal(
            period, benefit, lead, self.node.address, rewrite.rule, operator, moves, touched
        )

    def _order(self, order: ChangeOrder, sender: Address) -> None:
        """Have an order carried out; what is believed of an operator goes where it goes."""
        if self.settings.local:
            for name, to in order.moves:
                rates = self.local.measurements.operators.get(name)
                if rates is not None and to != self.node.address:
                    self._send(to, RateHandover(name, rates))
        self._carry_out(order)

"""A query network that optimises itself: statistics, proposals, and the one that is carried out (003, 5.4.5).

    goal = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
    FlowBroker(node, registry, surroundings, optimising=Optimising(goal, period=30.0))

Rules, for every period:

- Each node reports what it has measured of its operators and of the sources it is the root broker of. The
  registry, which knows queries and trees, tells the situation to the nodes that host operators.
- Each of these weighs the planner's rules on its own operators only, and proposes the best to the root
  of a tree it is a member of. The roots pass their best on to the first of them, and that has the
  best of all carried out by the operator's host: one change a period, as in the seed.
- A change must bring a share of the cost (`margin`), so that noise moves nothing.
- What is proposed is checked again by the host that carries it out: an operator that has left meanwhile stays
  where it is.

Nodes are told the whole situation, which costs bytes in proportion to the operators (`plan.query.statistics`
has what the seed saves by telling less). Messages are of kinds of their own, `STATISTICS` and `OPTIMISATION`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from distributary.overlay.node import Address, Node
from distributary.plan.query.benefit import Standing
from distributary.plan.query.goal import QueryGoal
from distributary.plan.query.optimiser import Climber
from distributary.plan.query.rules import HYBRID, MIGRATIONS, Area, Rewrite, Rule
from distributary.plan.query.statistics import critical_sites
from distributary.plan.tree import Sites
from distributary.systems.flow_connections import Connections
from distributary.systems.flow_messages import Counted
from distributary.systems.flow_registry import Registry, Surroundings
from distributary.systems.flow_situation import Measurements, Situation, situation_of


@dataclass(frozen=True)
class Optimising:
    """How a query network improves itself."""

    goal: QueryGoal
    period: float = 30.0
    """Seconds between changes."""
    window: float = 2.0
    """Seconds that whoever collects waits for the others."""
    rules: Sequence[Rule] = MIGRATIONS
    area: Area = HYBRID
    margin: float = 0.05
    """The share of the cost that a change must bring."""


class Report(NamedTuple):
    """What a node has measured since its last report."""

    counted: tuple[Counted, ...]
    sources: tuple[Counted, ...]


class Proposal(NamedTuple):
    """The best change that a node, or a root for its tree, knows of."""

    period: int
    benefit: float
    lead: Address
    """The first root, which decides."""
    host: Address
    rule: str
    operator: str
    moves: tuple[tuple[str, Address], ...]
    """Who goes where; of a division, the replicas."""


class Order(NamedTuple):
    """A proposal that is to be carried out by the operator's host."""

    rule: str
    operator: str
    moves: tuple[tuple[str, Address], ...]


STATISTICS = (Report, Situation)
OPTIMISATION = (Proposal, Order)


class Optimiser:
    """The optimiser of a node, and at roots and the registry what they do for all."""

    def __init__(
        self,
        node: Node,
        connections: Connections,
        settings: Optimising,
        surroundings: Surroundings,
        registry: Registry | None,
        registry_at: Address,
        measure: Callable[[], Report],
        carry_out: Callable[[Order], None],
        tree_of: Callable[[], int | None],
    ) -> None:
        self.node = node
        self.settings = settings
        self.surroundings = surroundings
        self.weighed = 0
        """Changes that were considered here."""
        self._send = connections.send
        self._registry = registry
        self._registry_at = registry_at
        self._measure = measure
        self._tree_of = tree_of
        self._measurements = Measurements(settings.period)
        self._period = 0
        self._best: Proposal | None = None
        node.handle(Report, self._report)
        node.handle(Situation, self._situation)
        node.handle(Proposal, self._proposal)
        node.handle(Order, lambda order, sender: carry_out(order))
        node.at_alarm("flow period", self._begin_period)
        node.at_alarm("flow situation", self._tell)
        node.at_alarm("flow best", self._decide)
        node.at_start(lambda: node.wake_after(settings.period, "flow period"))

    # Statistics

    def _begin_period(self, about: object) -> None:
        self.node.wake_after(self.settings.period, "flow period")
        report = self._measure()
        if report.counted or report.sources:
            self._send(self._registry_at, report)
        if self._registry is not None:
            self.node.wake_after(self.settings.window, "flow situation")

    def _report(self, report: Report, sender: Address) -> None:
        registry = self._registry
        assert registry is not None
        divided = {parted.operator for parted in registry.parted}
        for counted in [one for one in report.counted if registry.has(one.name)]:
            self._measurements.operator(counted, counted.name in divided)
        for counted in report.sources:
            self._measurements.source(counted)

    def _tell(self, about: object) -> None:
        assert self._registry is not None
        self._measurements.forget(self._registry.has)
        self._period += 1
        situation = situation_of(self._registry, self._period, self._measurements)
        if situation is not None:
            for site in sorted(set(situation.hosts)):
                self._send(situation.sites[site], situation)

    # Proposals

    def _situation(self, situation: Situation, sender: Address) -> None:
        """Weigh the rules on this node's operators, and propose the best to a root."""
        proposal = self._weigh(situation)
        if proposal is not None:
            self._send(situation.root(self._tree_of() or 0), proposal)

    def _weigh(self, situation: Situation) -> Proposal | None:
        settings = self.settings
        latency = self.surroundings.latency
        nodes = situation.sites
        matrix = [[0.0 if one == other else latency(one, other) for other in nodes] for one in nodes]
        standing = Standing(settings.goal, situation.placement(Sites(matrix)))
        here = situation.sites.index(self.node.address)
        if here not in critical_sites(standing):
            return None
        before = standing.cost
        climber = Climber(standing, settings.rules, settings.area, batch=1)
        done = climber.at_site(here, 1)
        self.weighed += climber.considered
        if not done or done[0].benefit <= settings.margin * abs(before):
            return None
        return self._proposed(situation, climber, done[0])

    def _proposed(self, situation: Situation, climber: Climber, rewrite: Rewrite) -> Proposal:
        names = [one.name for one in climber.standing.state.workload.operators]
        moves = tuple((names[index], situation.sites[site]) for index, site in rewrite.changes.items())
        operator = names[rewrite.operator]
        lead, here = situation.root(0), self.node.address
        return Proposal(situation.period, rewrite.benefit, lead, here, rewrite.rule, operator, moves)

    # Choosing

    def _proposal(self, proposal: Proposal, sender: Address) -> None:
        """At a root: keep the best of a period, and pass it on, or carry it out, after a while."""
        best = self._best
        if best is None or best.period < proposal.period:
            self._best = proposal
            # The first root waits until the others have waited.
            windows = 2 if proposal.lead == self.node.address else 1
            self.node.wake_after(self.settings.window * windows, "flow best", proposal.period)
        elif best.period == proposal.period and worth(proposal) > worth(best):
            self._best = proposal

    def _decide(self, period: int) -> None:
        best = self._best
        if best is None or best.period != period:
            return
        if best.lead != self.node.address:
            self._send(best.lead, best)
        else:
            self._send(best.host, Order(best.rule, best.operator, best.moves))


def worth(proposal: Proposal) -> tuple[float, str]:
    """What proposals are compared by; of equal ones, any, but always the same."""
    return proposal.benefit, proposal.operator

"""Following drift: rates, selectivities and costs change, and operators move only when that is worth it.

Rules:

- Measurements are smoothed, as those of trees are (`plan.trees.adaptation`): what is believed of a source or
  an operator moves a share of the way to each new value.
- Operators move only when that saves a margin of the cost, under what is believed; then everything rests for
  some periods. Constraints that are broken are mended at once. So noise below the margin moves nothing,
  however long it lasts, and what moved is not moved back by what the move itself did to the measurements.
- Operators are not split here: what is measured is measured of the same operators period after period.

Cost: that of a climb in every period without rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from distributary.errors import DistributaryError
from distributary.plan.goal import Goal, Number
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.graph import PlannedOperator, PlannedSource, QueryWorkload
from distributary.plan.queries.optimiser import QueryClimb, climb
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.rules import HYBRID, MIGRATIONS, QueryRule, RuleArea
from distributary.plan.trees.adaptation import Patience


class QueryAdaptation:
    """A placement that is kept good while measurements come in.

    >>> from distributary.plan.queries.generator import at_clients, feed_workload, random_network
    >>> from distributary.plan.queries.goals import parse_query_goal
    >>> network = random_network(sites=10, trees=2, seed=1)
    >>> workload = feed_workload(network, 20, seed=1)
    >>> goal = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
    >>> keeper = QueryAdaptation(goal, at_clients(workload, network))
    >>> keeper.period(workload) is not None, keeper.period(workload)
    (True, None)
    """

    def __init__(
        self,
        goal: Goal,
        placement: Placement,
        patience: Patience | None = None,
        rules: Sequence[QueryRule] = MIGRATIONS,
        area: RuleArea = HYBRID,
    ) -> None:
        if any(rule.groups is None for rule in rules):
            raise DistributaryError("operators are not split while conditions are followed: take migrations")
        self.goal = goal
        self.placement = placement
        self.patience = patience or Patience()
        self.rules = rules
        self.area = area
        self.believed: QueryWorkload | None = None
        self._resting = 0

    def period(self, measured: QueryWorkload) -> QueryClimb | None:
        """Take new measurements in; what was moved, or None."""
        self.believed = smoothed(self.believed, measured, self.patience.smoothing)
        self.placement = Placement(self.believed, self.placement.network, self.placement.hosts)
        if self._resting:
            self._resting -= 1
            return None
        found = climb(self.goal, self.placement, self.rules, self.area)
        if not found.rewrites or not self._worth_it(found):
            return None
        self.placement = found.placement
        self._resting = self.patience.rest
        return found

    def _worth_it(self, found: QueryClimb) -> bool:
        saved = self.goal.sign * (found.before - found.cost)
        if saved > self.patience.margin * abs(found.before):
            return True
        now, then = (
            PlacementEstimate(self.goal, self.placement),
            PlacementEstimate(self.goal, found.placement),
        )
        return then.broken() < now.broken()


def smoothed(believed: QueryWorkload | None, measured: QueryWorkload, share: float) -> QueryWorkload:
    """What to believe after a measurement."""
    if believed is None:
        return measured
    shape = [operator.inputs for operator in measured.operators]
    if shape != [operator.inputs for operator in believed.operators]:
        raise DistributaryError("the operators measured are not those of the placement")

    def nearer(old: Number, new: Number) -> float:
        return float(old) + share * (float(new) - float(old))

    def source(old: PlannedSource, new: PlannedSource) -> PlannedSource:
        return replace(new, rate=nearer(old.rate, new.rate), items=nearer(old.items, new.items))

    def operator(old: PlannedOperator, new: PlannedOperator) -> PlannedOperator:
        unsaid = old.wanted is None or new.wanted is None
        return replace(
            new,
            wanted=new.wanted if unsaid else nearer(old.usable, new.usable),
            selectivity=nearer(old.selectivity, new.selectivity),
            cost=nearer(old.cost, new.cost),
            growth=nearer(old.growth, new.growth),
        )

    return replace(
        measured,
        sources=tuple(map(source, believed.sources, measured.sources)),
        operators=tuple(map(operator, believed.operators, measured.operators)),
    )

"""Keeping a placement good while rates, selectivities and costs drift (`plan.adaptation`).

Operators are not split here: what is measured is measured of the same operators period after period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from distributary.errors import DistributaryError
from distributary.plan.adaptation import Adaptation, Patience, nearer
from distributary.plan.goal.expression import Goal
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.graph import PlannedOperator, PlannedSource, QueryWorkload
from distributary.plan.queries.optimiser import QueryClimb, climb
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.rules import HYBRID, MIGRATIONS, QueryRule, RuleArea


class QueryAdaptation(Adaptation[QueryWorkload, QueryClimb]):
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
        super().__init__(goal, patience)
        self.placement = placement
        self.rules = rules
        self.area = area

    def improved(self, believed: QueryWorkload) -> QueryClimb | None:
        now = Placement(believed, self.placement.network, self.placement.hosts)
        found = climb(self.goal, now, self.rules, self.area)
        if not found.rewrites:
            return None
        if not self.saves_enough(found.before, found.cost):
            before, after = (PlacementEstimate(self.goal, one) for one in (now, found.placement))
            if after.broken() >= before.broken():
                return None
        self.placement = found.placement
        return found

    def smoothed(self, old: QueryWorkload, new: QueryWorkload) -> QueryWorkload:
        if [one.inputs for one in old.operators] != [one.inputs for one in new.operators]:
            raise DistributaryError("the operators measured are not those of the placement")
        share = self.patience.smoothing

        def source(old: PlannedSource, new: PlannedSource) -> PlannedSource:
            return replace(
                new, rate=nearer(old.rate, new.rate, share), items=nearer(old.items, new.items, share)
            )

        def operator(old: PlannedOperator, new: PlannedOperator) -> PlannedOperator:
            unsaid = old.wanted is None or new.wanted is None
            return replace(
                new,
                wanted=new.wanted if unsaid else nearer(old.usable, new.usable, share),
                selectivity=nearer(old.selectivity, new.selectivity, share),
                cost=nearer(old.cost, new.cost, share),
                growth=nearer(old.growth, new.growth, share),
            )

        return replace(
            new,
            sources=tuple(map(source, old.sources, new.sources)),
            operators=tuple(map(operator, old.operators, new.operators)),
        )

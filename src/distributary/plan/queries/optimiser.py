"""The seed's optimiser for queries: hill climbing in periods, with batches of rules (section 5.4.5).

    found = climb(goal, placement, rules=MIGRATIONS, area=LOCAL)
    found.placement, found.cost                 # where everything is now, and what that costs
    found.rewrites                              # what was moved or split, in order, with what it brought
    [step.after for step in found.steps]        # the cost after every period
    found.traffic.statistics                    # bytes; .maintenance, .optimisation

Rules:

- In every period each site that can matter (`statistics.critical_sites`) weighs all rules on its operators.
  The best is carried out, then the best of the remaining ones given that, and so on for `BATCH` steps.
  Sites take turns, so that each sees what those before it did.
- Where the system's cost is a MIN or MAX and several sites or queries have it, no single change makes it
  better. A change after which fewer have it counts as an improvement too. Of changes that are equally good,
  the one that leaves all values most even (by their squares) is taken.
- A change must bring more than rounding. The climb ends with the first period in which nothing does; where
  statistics are drawn by lottery, only after `IDLE` such periods.

Cost: a period weighs each operator of a critical site about once, against its area.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

import numpy as np

from distributary.plan.goal.expression import Goal
from distributary.plan.queries.benefit import Bound, PlacementEstimate
from distributary.plan.queries.forms import NodeForm, OperatorForm
from distributary.plan.queries.graph import QueryWorkload
from distributary.plan.queries.moves import OperatorMove
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.rules import (
    LOCAL,
    MIGRATIONS,
    PARTITION,
    REPLICATION,
    QueryRewrite,
    QueryRule,
    RuleArea,
    SiteNeighbourhood,
)
from distributary.plan.queries.state import Floats, Indices
from distributary.plan.queries.statistics import (
    Dissemination,
    DisseminationRound,
    OptimiserTraffic,
    asked_for,
    better_sites,
    critical_sites,
    maintenance,
)

SPLITS: Mapping[str, Callable[[QueryWorkload, int], QueryWorkload]] = {
    REPLICATION.name: QueryWorkload.replicated,
    PARTITION.name: QueryWorkload.partitioned,
}
"""What rules that split an operator make of a workload."""
NEGLIGIBLE = 1e-9
"""A benefit below this share of the cost is rounding, and following it could go round in circles."""
TIE = 1e-6
"""The share of the cost below which two benefits under a MIN or MAX count as equal."""
BATCH = 17
"""Rules that a site carries out in a period; in the seed's runs, 17 operators a step (section 5.5.1)."""
IDLE = 3
"""Periods in which nothing helps before a climb by lottery ends."""


@dataclass(frozen=True)
class QueryStep:
    """One optimisation period: what was done, the cost before and after, the bytes sent for it."""

    rewrites: tuple[QueryRewrite, ...]
    before: float
    after: float
    traffic: OptimiserTraffic


@dataclass(frozen=True)
class QueryClimb:
    """A placement reached from another."""

    start: Placement
    placement: Placement
    cost: float
    steps: tuple[QueryStep, ...]

    @property
    def rewrites(self) -> list[QueryRewrite]:
        """All rewrites, in the order in which they were carried out."""
        return list(chain.from_iterable(step.rewrites for step in self.steps))

    @property
    def traffic(self) -> OptimiserTraffic:
        """The bytes sent in all periods."""
        return sum((step.traffic for step in self.steps), OptimiserTraffic())

    @property
    def before(self) -> float:
        """The cost at the start."""
        return self.steps[0].before if self.steps else self.cost


def climb(
    goal: Goal,
    placement: Placement,
    rules: Sequence[QueryRule] = MIGRATIONS,
    area: RuleArea = LOCAL,
    *,
    periods: int | None = None,
    statistics: Dissemination | None = None,
) -> QueryClimb:
    """Improve a placement until no rule helps, or for so many periods.

    Directed rules know every better site, unless `statistics` says how sites hear of each other.

    >>> from distributary.plan.queries.generator import at_clients, feed_workload, random_network
    >>> from distributary.plan.queries.goals import parse_query_goal
    >>> network = random_network(sites=10, trees=2, seed=1)
    >>> placement = at_clients(feed_workload(network, 20, seed=1), network)
    >>> goal = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
    >>> found = climb(goal, placement)
    >>> found.cost < found.before, found.rewrites[0].rule
    (True, 'migration together')
    """
    climber = Climber(PlacementEstimate(goal, placement), rules, area)
    steps: list[QueryStep] = []
    unlucky = 0
    while periods is None or len(steps) < periods:
        step = climber.period(statistics)
        if step.rewrites:
            unlucky = 0
        elif statistics is None or statistics.top is None or (unlucky := unlucky + 1) >= IDLE:
            if statistics is not None:
                steps.append(step)
            break
        steps.append(step)
    estimate = climber.estimate
    return QueryClimb(placement, estimate.placement, estimate.cost, tuple(steps))


class Climber:
    """A placement on its way up."""

    def __init__(self, estimate: PlacementEstimate, rules: Sequence[QueryRule], area: RuleArea) -> None:
        self.estimate = estimate
        self.rules = rules
        self.area = area
        self.near = SiteNeighbourhood(estimate.state.network, area.levels)
        self.bottleneck = estimate.goal.cost.function.is_bottleneck
        self._heard: DisseminationRound | None = None
        self._asked: dict[int, int] = {}
        """How many sites each site asked in this period: once for all its operators."""

    def period(self, statistics: Dissemination | None) -> QueryStep:
        """One optimisation period."""
        estimate = self.estimate
        estimate.recount()
        before, told = estimate.cost, 0
        self._asked, self._heard = {}, None
        if self.area.directed and statistics is not None:
            self._heard = statistics.round(estimate)
            told = self._heard.statistics
        rewrites = self._relieve() if self.bottleneck else self._at_sites(BATCH)
        asked = sum(asked_for(estimate, sites) for sites in self._asked.values())
        traffic = OptimiserTraffic(maintenance(estimate), asked, told)
        return QueryStep(tuple(rewrites), before, estimate.cost, traffic)

    def _relieve(self) -> list[QueryRewrite]:
        """Take the worst down, as long as that is possible and the batch lasts."""
        rewrites: list[QueryRewrite] = []
        while len(rewrites) < BATCH and (done := self._at_sites(1)):
            rewrites += done
        return rewrites

    def _at_sites(self, steps: int) -> list[QueryRewrite]:
        """What all critical sites do in their turns."""
        return [rewrite for site in critical_sites(self.estimate) for rewrite in self.at_site(site, steps)]

    # One site

    def at_site(self, site: int, steps: int) -> list[QueryRewrite]:
        """The site's batch: the best change, then the best given that, and so on."""
        state = self.estimate.state
        order = count()
        waiting = [
            (-best.benefit, next(order), best)
            for operator in sorted(state.local[site])
            if self._movable(operator) and (best := self.best(operator)) is not None
        ]
        heapq.heapify(waiting)
        done: list[QueryRewrite] = []
        while waiting and len(done) < steps:
            _, _, rewrite = heapq.heappop(waiting)
            if state.hosts[rewrite.operator] != site:
                continue
            if done:
                again = self.best(rewrite.operator)
                if again is None:
                    continue
                if waiting and again.benefit < -waiting[0][0]:
                    heapq.heappush(waiting, (-again.benefit, next(order), again))
                    continue
                rewrite = again
            self.carry_out(rewrite)
            done.append(rewrite)
        return done

    def breaks(self, site: int) -> bool:
        """Whether a site, or an operator at it, breaks a constraint on sites or on operators."""
        return bool(self._broken(site))

    def _broken(self, site: int) -> list[tuple[Bound, list[int]]]:
        """The constraints that are broken at a site, and by which values: the site's, or its operators'."""
        found = []
        for bound in self.estimate.bounds:
            there = [site] if isinstance(bound.form, NodeForm) else []
            if isinstance(bound.form, OperatorForm):
                there = sorted(self.estimate.state.local[site])
            held = bound.holds(bound.form.values()) if there else ()
            found.append((bound, [value for value in there if not held[value]]))
        return [(bound, values) for bound, values in found if values]

    def mend(self, site: int) -> QueryRewrite | None:
        """Take operators off a site where a constraint is broken, whatever that does to the cost.

        Of the moves after which all are kept there, the best is made; if there is none, the one after which
        they are broken least. None if no constraint is broken, or no move is legal that makes it less.
        """
        bounds = self._broken(site)
        state = self.estimate.state
        found: list[tuple[tuple[bool, float, float], QueryRewrite]] = []
        movable = [one for one in sorted(state.local[site]) if self._movable(one)] if bounds else []
        for operator in movable:
            groups = [group for rule in self.rules if rule.groups for group in rule.groups(state, operator)]
            for group in groups:
                sites = self.candidates(group)
                for at, worth, (keeps, relief) in self._relieving(bounds, group, sites):
                    changes = dict.fromkeys(group, at)
                    rewrite = QueryRewrite(MIGRATIONS[0].name, operator, changes, site, worth)
                    found.append(((keeps, 0.0 if keeps else relief, worth), rewrite))
        if not found:
            return None
        best = max(found, key=lambda each: each[0])[1]
        self.carry_out(best)
        return best

    def _relieving(
        self, bounds: Sequence[tuple[Bound, list[int]]], group: Sequence[int], sites: Indices
    ) -> Iterator[tuple[int, float, tuple[bool, float]]]:
        """Of the sites that a group may go to: what that is worth, whether it mends all, and how far."""
        if not len(sites):
            return
        worth = self.estimate.benefits(group, sites)
        move = OperatorMove(self.estimate.state, group, sites)
        keeps, relief = np.ones(len(sites), dtype=np.bool_), np.zeros(len(sites))
        for bound, values in bounds:
            columns, after = bound.form.after(move)
            known = bound.form.values()
            new = np.broadcast_to(known, (len(sites), len(known))).copy()
            new[:, columns] = after
            before = known[values]
            keeps &= bound.holds(new[:, values]).all(axis=1)
            relief += (abs(before - new[:, values]) / np.maximum(abs(before), 1e-300)).sum(axis=1)
        for number in np.flatnonzero(np.isfinite(worth) & (relief > NEGLIGIBLE)):
            yield int(sites[number]), float(worth[number]), (bool(keeps[number]), float(relief[number]))

    def best(self, operator: int) -> QueryRewrite | None:
        """The best change for one operator, if any helps. What replication helps is not moved instead:

        where it was moved to, as a whole, its replicas would have to be moved away from again.
        """
        least = NEGLIGIBLE * abs(self.estimate.cost)
        if REPLICATION in self.rules:
            replicated = self._split(REPLICATION, operator)
            if replicated is not None and replicated.benefit > least:
                return replicated
        best: QueryRewrite | None = None
        for rule in self.rules:
            if rule is not REPLICATION:
                for change in self._changes(rule, operator, least):
                    if change.benefit > (best.benefit if best else least):
                        best = change
        return best

    def _changes(self, rule: QueryRule, operator: int, least: float) -> Iterator[QueryRewrite]:
        """What a rule can do for an operator: split it, or move each group to its best site."""
        if rule.groups is None:
            split = self._split(rule, operator)
            if split is not None:
                yield split
            return
        state = self.estimate.state
        for group in rule.groups(state, operator):
            sites = self.candidates(group)
            if len(sites):
                worth = self._worth(group, sites, least)
                at = int(worth.argmax())
                changes = dict.fromkeys(group, int(sites[at]))
                yield QueryRewrite(rule.name, operator, changes, state.hosts[operator], float(worth[at]))

    def _worth(self, group: Sequence[int], sites: Indices, least: float) -> Floats:
        """The benefits; under a MIN or MAX, of what is equally good the most even is best."""
        worth = self.estimate.benefits(group, sites)
        if not self.bottleneck or not (worth >= -least).any():
            return worth
        relieved, evened = self.estimate.relief(group, sites)
        helps = (worth > least) | ((worth >= -least) & (relieved > 0))
        return np.where(helps, worth + TIE * abs(self.estimate.cost) * (1 + evened), -np.inf)

    def candidates(self, group: Sequence[int]) -> Indices:
        """Where a group may go."""
        state = self.estimate.state
        host = state.hosts[group[0]]
        found = self.near.of_operators(state, group) if self.area.local else np.array([], dtype=np.intp)
        if self.area.directed:
            far = self._heard.sites[host] if self._heard is not None else better_sites(self.estimate, host)
            found = np.union1d(found, far[: self.area.reach])
        self._asked[host] = max(self._asked.get(host, 0), len(found))
        return found

    def _movable(self, operator: int) -> bool:
        workload = self.estimate.state.workload
        return workload.operators[operator].pinned is None and workload.runs(operator)

    # Carrying out

    def touched(self, rewrite: QueryRewrite) -> set[int]:
        """The sites that have to do with a change that was carried out.

        These are where from and where to, and the hosts of all that the operators read or are read by.
        """
        state = self.estimate.state
        near = (one for operator in {rewrite.operator, *rewrite.changes} for one in state.near(operator))
        return {rewrite.origin, *rewrite.changes.values(), *(state.hosts[one] for one in near)}

    def carry_out(self, rewrite: QueryRewrite) -> None:
        """Make a rewrite in the placement."""
        if rewrite.rule in SPLITS:
            self.estimate.split(rewrite.operator, SPLITS[rewrite.rule])
        self.estimate.move_all(rewrite.changes)

    def _split(self, rule: QueryRule, operator: int) -> QueryRewrite | None:
        """Split an operator on trial, with each replica where it is best."""
        estimate, workload = self.estimate, self.estimate.state.workload
        if rule is REPLICATION and len(workload.replica_inputs(operator)) < 2:
            return None
        if rule is PARTITION and not workload.may_partition(operator):
            return None
        before, bounded, host = estimate.cost, estimate.bounded(), estimate.state.hosts[operator]
        worst = len(critical_sites(estimate)) if self.bottleneck else 0
        split = estimate.split(operator, SPLITS[rule.name])
        for replica in split.replicas:
            sites = self.candidates((replica,))
            if len(sites):
                worth = self._worth((replica,), sites, NEGLIGIBLE * abs(estimate.cost))
                if worth.max() >= 0:
                    estimate.move(replica, int(sites[int(worth.argmax())]))
        benefit = estimate.goal.sign * (before - estimate.cost)
        if abs(benefit) <= NEGLIGIBLE * abs(before) and len(critical_sites(estimate)) < worst:
            benefit = TIE * abs(before)
        legal = estimate.legal_since(bounded)
        changes = {replica: estimate.state.hosts[replica] for replica in split.replicas}
        estimate.undo(split)
        return QueryRewrite(rule.name, operator, changes, host, benefit) if legal else None

"""Climbs from several placements, which a planner can do because it knows everything.

A climb ends where no rule helps, and where that is depends on where it began. Queries that share feeds hold
each other back: each would move if the others had. GLOBAL puts them down one by one where all is best, and a
climb goes on from there as from anywhere.

Cost: GLOBAL's, and two climbs.
"""

from __future__ import annotations

from collections.abc import Callable

from distributary.plan.goal.expression import Goal
from distributary.plan.queries.baselines import globally
from distributary.plan.queries.benefit import best_of
from distributary.plan.queries.placement import Placement

Improve = Callable[[Placement], Placement]


def best_from_beginnings(goal: Goal, start: Placement, improve: Improve) -> Placement:
    """The better of what comes of improving a placement, and GLOBAL's.

    >>> from distributary.plan.queries.benefit import PlacementEstimate
    >>> from distributary.plan.queries.generator import at_clients, feed_workload, random_network
    >>> from distributary.plan.queries.goals import parse_query_goal
    >>> from distributary.plan.queries.optimiser import climb
    >>> network = random_network(sites=10, trees=2, seed=1)
    >>> start = at_clients(feed_workload(network, 30, seed=1), network)
    >>> goal = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
    >>> found = best_from_beginnings(goal, start, lambda placement: climb(goal, placement).placement)
    >>> PlacementEstimate(goal, found).cost <= climb(goal, start).cost
    True
    """
    beginnings = (start, globally(goal, start.workload, start.network))
    return best_of(goal, map(improve, beginnings))

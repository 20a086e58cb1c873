"""The walk of simulated annealing in machine code: draw a rewrite, weigh it, perhaps apply it.

Cost: a try costs as much as the sites it moves; an applied one reads the tree anew, which is linear.
"""

from __future__ import annotations

import numpy as np

from distributary.kernel import kernel
from distributary.plan.trees import bulk
from distributary.plan.trees.annealing import Schedule


@kernel
def walk(
    layout: bulk.Layout, rules: bulk.Integers, random: np.random.Generator, sign: int, schedule: Schedule
) -> tuple[bulk.Integers, int, int]:
    """The parents in the best tree met, how many rewrites were tried, and how many applied.

    `rules` has a row of numbers for each. The layout ends at the walk's last tree.
    """
    sites, places = layout.sites, layout.places
    count = len(sites)
    cost = best_cost = bulk.read(layout)
    best = sites["parent"].copy()
    temperature = schedule.start * abs(cost)
    idle = tried = applied = 0
    while temperature >= schedule.frozen or idle < schedule.patience:
        idle += 1
        for _ in range(schedule.tries * count):
            row = rules[random.integers(0, len(rules))]
            rule = (row[0], row[1], row[2])
            one, other = draw(sites, places, rule, random)
            if other < 0 or bulk.owner_of(sites, rule, one, other) < 0:
                continue
            tried += 1
            benefit = sign * (cost - bulk.cost_after(layout, rule[0], one, other))
            if benefit < 0 and random.random() >= np.exp(benefit / temperature):
                continue
            apply(sites, places, rule[0], one, other)
            cost = bulk.read(layout)
            applied += 1
            if sign * (best_cost - cost) > 0:
                best_cost, idle = cost, 0
                best[:] = sites["parent"]
        temperature *= schedule.cooling
    return best, tried, applied


@kernel
def draw(
    sites: bulk.Records, places: bulk.Records, rule: bulk.Rule, random: np.random.Generator
) -> tuple[int, int]:
    """Two sites that may stand in the relation, the first at random; the second is -1 if there is none."""
    _, relation, levels = rule
    one = int(random.integers(0, len(sites)))
    if relation == bulk.RISE:
        return one, bulk.above(sites, one, levels)
    if relation == bulk.SWAP_UP:
        ancestor = bulk.above(sites, one, levels)
        return (ancestor, one) if ancestor >= 0 else (one, ancestor)
    if relation >= bulk.ELSEWHERE:
        return one, int(random.integers(0, len(sites)))
    other = int(sites[one].parent)
    for _ in range(levels + 1 if relation == bulk.BESIDE else 1):
        if other < 0 or sites[other].fanout == 0:
            return one, -1
        other = places[sites[other].first + random.integers(0, sites[other].fanout)].child
    return (other, one) if relation == bulk.SIBLINGS and other < one else (one, other)


@kernel
def apply(sites: bulk.Records, places: bulk.Records, shape: int, one: int, other: int) -> None:
    """Give the sites their new parents; whatever else is known of the tree is to be read anew."""
    if shape == bulk.MOVE:
        sites[one].parent = other
        return
    before, after = sites[one].parent, sites[other].parent
    for child in range(sites[one].fanout):
        sites[places[sites[one].first + child].child].parent = other
    if shape == bulk.HAND:
        return
    for child in range(sites[other].fanout):
        sites[places[sites[other].first + child].child].parent = one
    if shape == bulk.EXCHANGE:
        return
    # Where one of the two was the other's parent, it is its child now.
    sites[one].parent = other if after == one else after
    sites[other].parent = one if before == other else before

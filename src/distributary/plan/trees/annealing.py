"""Simulated annealing over the same rules: the seed's baseline, with its parameters (Figure 4.6).

The temperature starts at twice the first cost and falls by a twentieth whenever 64 rewrites a site have been
tried; it is frozen below 0.001 once ten temperatures in a row have found nothing better. A goal to be
maximised is minimised with its sign turned. A try is a random rule at a random site; where the rule has
nothing to offer there, the try is lost.

Cost: some 250 temperatures times 64 tries a site, each applied rewrite being a new tree. Where `bulk` applies
and no constraint is set, a walk over 200 sites takes ten seconds; elsewhere it is a study for small networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distributary.plan.trees.benefit import Problem, TreeEstimate
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.optimiser import HYBRID
from distributary.plan.trees.rules import TreeRewrite, TreeRule
from distributary.plan.trees.tree import Tree

if TYPE_CHECKING:
    from distributary.plan.trees.bulk import Layout


class Schedule(NamedTuple):
    """The seed's parameters."""

    start: float = 2.0
    """The first temperature, in first costs."""
    tries: int = 64
    """Rewrites tried at a temperature, for each site."""
    cooling: float = 0.95
    frozen: float = 0.001
    patience: int = 10
    """Temperatures without a better tree before a frozen search ends."""


def anneal(
    problem: Problem,
    tree: Tree,
    random: Random,
    rules: Sequence[TreeRule] = HYBRID,
    schedule: Schedule | None = None,
) -> TreeClimb:
    """The best tree met on a walk that takes every better tree, and a worse one with a falling probability.

    `TreeClimb.applied` counts the rewrites on the way, which are too many to list; those after the best tree
    count as well, as the walk could not know.
    """
    schedule = schedule or Schedule()
    estimate = problem.at(tree)
    layout = estimate.layout
    if layout is None or problem.goal.constraints or any(rule.pair is None for rule in rules):
        return _walk(estimate, random, rules, schedule)
    return _walk_in_bulk(estimate, layout, random, rules, schedule)


def _walk(estimate: TreeEstimate, random: Random, rules: Sequence[TreeRule], schedule: Schedule) -> TreeClimb:
    problem, tree, best = estimate.problem, estimate.tree, estimate
    temperature = schedule.start * abs(float(estimate.cost))
    idle = tried = applied = 0
    while temperature >= schedule.frozen or idle < schedule.patience:
        idle += 1
        for _ in range(schedule.tries * len(tree.parents)):
            rewrite = random_rewrite(estimate, random, rules)
            if rewrite is None:
                continue
            tried += 1
            benefit = float(estimate.benefit(rewrite.changes))
            if benefit < 0 and random.random() >= exp(benefit / temperature):
                continue
            estimate = problem.at(estimate.tree.changed(rewrite.changes))
            applied += 1
            if problem.goal.sign * float(best.cost - estimate.cost) > 0:
                best, idle = estimate, 0
        temperature *= schedule.cooling
    return TreeClimb(tree, best.tree, best.cost, (), tried, unlisted=applied)


def random_rewrite(estimate: TreeEstimate, random: Random, rules: Sequence[TreeRule]) -> TreeRewrite | None:
    """A random rule around a random site; None where it has nothing to offer, or nothing legal."""
    rule = random.choice(rules)
    offered = list(rule.arguments(estimate.tree, random.randrange(len(estimate.tree.parents))))
    if not offered:
        return None
    rewrite = rule.rewrite(estimate.tree, random.choice(offered))
    return rewrite if estimate.legal(rewrite.changes) else None


def _walk_in_bulk(
    estimate: TreeEstimate, layout: Layout, random: Random, rules: Sequence[TreeRule], schedule: Schedule
) -> TreeClimb:
    from distributary.plan.trees.bulk_walk import walk

    known = [rule.pair.numbers for rule in rules if rule.pair is not None]
    parents, tried, applied = walk(
        layout,
        np.array(known, dtype=np.int64),
        np.random.default_rng(random.getrandbits(64)),
        estimate.problem.goal.sign,
        schedule,
    )
    best = Tree(tuple(parents.tolist()))
    return TreeClimb(estimate.tree, best, estimate.problem.at(best).cost, (), tried, unlisted=applied)

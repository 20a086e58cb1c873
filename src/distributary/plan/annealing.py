"""Simulated annealing over the same rules: the seed's baseline, with its parameters (Figure 4.6).

The temperature starts at twice the first cost and falls by a twentieth whenever 64 rewrites a site have been
tried; it is frozen below 0.001 once ten temperatures in a row have found nothing better. A goal to be
maximised is minimised with its sign turned.

Cost: some 200 temperatures times 64 rewrites a site, each a new tree: a study for small networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from random import Random

from distributary.plan.benefit import Estimate, Problem
from distributary.plan.climbing import Climb, Step
from distributary.plan.optimiser import HYBRID
from distributary.plan.rules import Rewrite, Rule
from distributary.plan.tree import Tree


@dataclass(frozen=True)
class Schedule:
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
    rules: Sequence[Rule] = HYBRID,
    schedule: Schedule | None = None,
) -> Climb:
    """The best tree met on a walk that takes every better tree, and a worse one with a falling probability.

    The steps are the rewrites that were applied on the way; those after the best tree count as well, as the
    walk could not know.
    """
    schedule = schedule or Schedule()
    estimate = problem.at(tree)
    best = estimate
    temperature = schedule.start * abs(float(estimate.cost))
    idle = tried = 0
    steps: list[Step] = []
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
            before = estimate.cost
            estimate = problem.at(estimate.tree.changed(rewrite.changes))
            steps.append(Step((rewrite,), before, estimate.cost))
            if problem.goal.sign * float(best.cost - estimate.cost) > 0:
                best, idle = estimate, 0
        temperature *= schedule.cooling
    return Climb(tree, best.tree, best.cost, tuple(steps), tried)


def random_rewrite(estimate: Estimate, random: Random, rules: Sequence[Rule]) -> Rewrite | None:
    """A random rule around a random site; None where it has nothing to offer, or nothing legal."""
    rule = random.choice(rules)
    offered = list(rule.arguments(estimate.tree, random.randrange(len(estimate.tree.parents))))
    if not offered:
        return None
    rewrite = rule.rewrite(estimate.tree, random.choice(offered))
    return rewrite if estimate.legal(rewrite.changes) else None

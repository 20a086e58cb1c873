"""Simulated annealing over the same rules: the seed's baseline, with its parameters (Figure 4.6).

The temperature starts at twice the first cost and falls by a twentieth whenever 64 rewrites a site have been
tried; it is frozen below 0.001 once ten temperatures in a row have found nothing better. A goal to be
maximised is minimised with its sign turned. A try is a random rule at a random site; where the rule has
nothing to offer there, the try is lost.

The walk is in machine code (`bulk_walk`), so it takes the goals that `bulk` knows, without constraints, and
our own rules.

Cost: some 250 temperatures times 64 tries a site: a walk over 200 sites takes ten seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.optimiser import HYBRID
from distributary.plan.trees.rules import TreeRule
from distributary.plan.trees.tree import Tree


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
    estimate = problem.at(tree)
    known = [rule.pair.numbers for rule in rules if rule.pair is not None]
    if estimate.layout is None or problem.goal.constraints or len(known) < len(rules):
        raise DistributaryError(
            "annealing takes goals along the path, without PRODUCT and constraints, and the rules of `rules`"
        )
    from distributary.plan.trees.bulk_walk import walk  # loads Numba

    parents, tried, applied = walk(
        estimate.layout,
        np.array(known, dtype=np.int64),
        np.random.default_rng(random.getrandbits(64)),
        problem.goal.sign,
        schedule or Schedule(),
    )
    best = Tree(tuple(parents.tolist()))
    return TreeClimb(tree, best, problem.at(best).cost, (), tried, unlisted=applied)

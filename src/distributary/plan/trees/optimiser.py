"""The seed's optimiser: hill climbing in optimisation periods, by local and directed rules.

Rules:

- In every period each site that can matter weighs the rewrites of its unit and names its best; the root
  applies the best of all. The climb ends when nothing helps.
- Only critical sites can matter (section 3.4.3). Where the system's cost is a MIN or MAX of costs along the
  path, those are the sites that have it, and local rules are weighed only in units on the way from the root
  to them. Otherwise all sites are critical.
- A critical site hears, for directed rules, only of sites that do better than itself (Table 4.3).

Cost: a period weighs, near a star, about the square of the sites for each rule, and does so in `bulk` where
that applies: 200 sites climb from a random tree to the shortest paths in about a second.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distributary.plan.goal.expression import GoalAggregate, Scope
from distributary.plan.trees.benefit import Problem, TreeEstimate
from distributary.plan.trees.climb import TreeClimb, TreeStep
from distributary.plan.trees.rules import DIRECTED, LOCAL, Arguments, TreeRewrite, TreeRule
from distributary.plan.trees.tree import Tree

if TYPE_CHECKING:
    from distributary.plan.trees.bulk import Floats, Integers, Layout

HYBRID: Sequence[TreeRule] = (*LOCAL, *DIRECTED)

NEGLIGIBLE = 1e-9
"""A benefit below this share of the cost is rounding, and following it could go round in circles."""


def climb(
    problem: Problem, tree: Tree, rules: Sequence[TreeRule] = HYBRID, *, periods: int | None = None
) -> TreeClimb:
    """Improve a tree until no rule helps, or for so many periods.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> from distributary.plan.trees.tree import Sites
    >>> goal = parse_goal("minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)")
    >>> problem = Problem(goal, Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]]))
    >>> found = climb(problem, Tree((-1, 0, 0)))
    >>> found.tree.parents, found.cost, [rewrite.rule for rewrite in found.rewrites]
    ((-1, 0, 1), 8, ['child demotion'])
    """
    estimate, considered = problem.at(tree), 0
    steps: list[TreeStep] = []
    while periods is None or len(steps) < periods:
        weighed, looked_at = weigh(estimate, rules)
        considered += looked_at
        least = negligible(estimate)
        best = next(
            (
                rewrite
                for _, rewrite in weighed
                if estimate.legal(rewrite.changes) and float(estimate.benefit(rewrite.changes)) > least
            ),
            None,
        )
        if best is None:
            break
        before, estimate = estimate.cost, problem.at(estimate.tree.changed(best.changes))
        steps.append(TreeStep((best,), before, estimate.cost))
    return TreeClimb(tree, estimate.tree, estimate.cost, tuple(steps), considered)


def negligible(estimate: TreeEstimate) -> float:
    """The benefit up to which a rewrite is not worth while."""
    return NEGLIGIBLE * abs(float(estimate.cost))


# Which sites are considered


def critical_sites(estimate: TreeEstimate) -> list[int]:
    """The sites whose costs decide the system's cost."""
    cost = estimate.problem.goal.cost
    along_path = isinstance(cost.value, GoalAggregate) and cost.value.over is Scope.PATH
    if not cost.function.is_bottleneck or not along_path:
        return list(range(len(estimate.tree.parents)))
    return [site for site, own in enumerate(estimate.costs) if own == estimate.cost]


def candidates(estimate: TreeEstimate, rules: Sequence[TreeRule]) -> Iterator[tuple[TreeRule, Arguments]]:
    """Every rule with every argument that a critical site may use it with."""
    tree, costs, sign = estimate.tree, estimate.costs, estimate.problem.goal.sign
    critical = critical_sites(estimate)
    owners = sorted({above for site in critical for above in tree.path(site)})
    for rule in rules:
        if not rule.directed:
            for owner in owners:
                yield from ((rule, arguments) for arguments in rule.arguments(tree, owner))
            continue
        for site in critical:
            own = costs[site]
            for arguments in rule.arguments(tree, site):
                other = costs[arguments[1]]
                if own is None or other is None or sign * other < sign * own:
                    yield rule, arguments


# Weighing rewrites


class WeighedRewrite(NamedTuple):
    """A rewrite and what it is worth."""

    benefit: float
    rewrite: TreeRewrite


def weigh(estimate: TreeEstimate, rules: Sequence[TreeRule]) -> tuple[Iterable[WeighedRewrite], int]:
    """The rewrites that help, best first, and how many were looked at."""
    layout = estimate.layout
    known = [] if layout is None else [rule for rule in rules if rule.pair is not None]
    if layout is None or not known:
        return _weigh_one_by_one(estimate, rules)
    found, looked_at = _weigh_in_bulk(estimate, layout, known)
    more, looked_at_more = _weigh_one_by_one(estimate, [rule for rule in rules if rule.pair is None])
    return merge(found, more, key=_rank), looked_at + looked_at_more


def _rank(item: WeighedRewrite) -> tuple[float, str, Arguments]:
    return -item.benefit, item.rewrite.rule, item.rewrite.arguments


def _weigh_one_by_one(estimate: TreeEstimate, rules: Sequence[TreeRule]) -> tuple[list[WeighedRewrite], int]:
    offered = [rule.rewrite(estimate.tree, arguments) for rule, arguments in candidates(estimate, rules)]
    weighed = [WeighedRewrite(float(estimate.benefit(each.changes)), each) for each in offered]
    least = negligible(estimate)
    return sorted((each for each in weighed if each.benefit > least), key=_rank), len(offered)


def _weigh_in_bulk(
    estimate: TreeEstimate, layout: Layout, rules: Sequence[TreeRule]
) -> tuple[Iterator[WeighedRewrite], int]:
    from distributary.plan.trees.bulk import weigh_pairs

    tree, sign = estimate.tree, estimate.problem.goal.sign
    critical = critical_sites(estimate)
    owners = np.full(len(tree.parents), len(critical) == len(tree.parents))
    if not owners.all():
        owners[[above for site in critical for above in tree.path(site)]] = True
    everyone = np.arange(len(tree.parents))
    # A site without a cost, such as the root, is as well off as can be: everybody hears of it.
    signed = np.array([-math.inf if cost is None else sign * float(cost) for cost in estimate.costs])
    least = negligible(estimate)
    found, looked_at = [], 0
    for rule in sorted(rules, key=lambda rule: rule.name):
        assert rule.pair is not None
        sites = np.array(critical, dtype=np.int64) if rule.directed else everyone
        numbers = rule.pair.numbers
        ones, others, benefits, looked = weigh_pairs(layout, numbers, sites, owners, signed, sign, least)
        found.append((rule, ones, others, benefits))
        looked_at += looked
    return _best_first(tree, found), looked_at


FIRST = 32
"""So many of the best are put in order at first: mostly the very first is taken."""


def _best_first(
    tree: Tree, found: Sequence[tuple[TreeRule, Integers, Integers, Floats]]
) -> Iterator[WeighedRewrite]:
    """Rewrites by their benefit, then by rule and arguments; made only when they are asked for."""
    ones, others = (np.concatenate([row[part] for row in found]) for part in (1, 2))
    benefits = np.concatenate([row[3] for row in found])
    rules = np.repeat(np.arange(len(found)), [len(row[1]) for row in found])
    bar = float(np.partition(benefits, -FIRST)[-FIRST]) if len(benefits) > FIRST else -math.inf
    for part in (benefits >= bar, benefits < bar):
        at = np.flatnonzero(part)
        for place in at[np.lexsort((others[at], ones[at], rules[at], -benefits[at]))].tolist():
            pair = int(ones[place]), int(others[place])
            yield WeighedRewrite(float(benefits[place]), found[rules[place]][0].rewrite(tree, pair))

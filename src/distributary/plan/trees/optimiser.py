"""The seed's optimiser: hill climbing in optimisation periods, by local and directed rules.

Rules:

- In every period each site that can matter weighs the rewrites of its unit and names its best; the root
  applies the best of all, or several that are independent. The climb ends when nothing helps.
- Only critical sites can matter (section 3.4.3). Where the system's cost is a MIN or MAX of costs along the
  path, those are the sites that have it (within `slack`), and local rules are weighed only in units on the
  way from the root to them. Otherwise all sites are critical.
- A critical site hears, for directed rules, only of sites that do better than itself (Table 4.3).
- Two rewrites go together when the sites whose parent or children they change are disjoint (Definition 5),
  what comes out is a tree and legal, and together they bring more than either alone: their benefit is
  measured together, not estimated.

Cost: a period weighs, near a star, about the square of the sites for each rule, and does so in `bulk` where
that applies: 200 sites climb from a random tree to the shortest paths in about a second.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import GoalAggregate, Scope
from distributary.plan.trees.approximation import Broadcasts
from distributary.plan.trees.benefit import Problem, TreeEstimate
from distributary.plan.trees.climb import TreeClimb, TreeStep
from distributary.plan.trees.rules import DIRECTED, LOCAL, Arguments, TreeRewrite, TreeRule
from distributary.plan.trees.tree import Tree

if TYPE_CHECKING:
    from distributary.plan.trees.bulk import Floats, Integers, Layout

HYBRID: Sequence[TreeRule] = (*LOCAL, *DIRECTED)

NEGLIGIBLE = 1e-9
"""A benefit below this share of the cost is rounding, and following it could go round in circles."""


@dataclass(frozen=True)
class WeighedRewrite:
    """A rewrite and what it is worth."""

    benefit: float
    rewrite: TreeRewrite


def climb(
    problem: Problem,
    tree: Tree,
    rules: Sequence[TreeRule] = HYBRID,
    *,
    concurrent: bool = False,
    slack: float = 0.0,
    periods: int | None = None,
    broadcasts: Broadcasts | None = None,
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
    start, considered, messages = tree, 0, 0
    steps: list[TreeStep] = []
    estimate = problem.at(tree)
    while periods is None or len(steps) < periods:
        if broadcasts is not None:
            messages += broadcasts.phase(estimate)
        weighed, looked_at = weigh(estimate, rules, slack, broadcasts)
        considered += looked_at
        chosen = choose(estimate, weighed, concurrent)
        if not chosen:
            break
        before = estimate.cost
        changes = {site: parent for rewrite in chosen for site, parent in rewrite.changes.items()}
        tree = tree.changed(changes)
        estimate = problem.at(tree)
        steps.append(TreeStep(tuple(chosen), before, estimate.cost))
    return TreeClimb(start, tree, estimate.cost, tuple(steps), considered, messages)


# Which sites are considered


def critical_sites(estimate: TreeEstimate, slack: float = 0.0) -> list[int]:
    """The sites whose costs decide the system's cost."""
    cost = estimate.problem.goal.cost
    everyone = list(range(len(estimate.tree.parents)))
    along_path = isinstance(cost.value, GoalAggregate) and cost.value.over is Scope.PATH
    if not cost.function.is_bottleneck or not along_path:
        return everyone
    reach = slack * abs(float(estimate.cost))
    return [
        site
        for site in everyone
        if (own := estimate.costs[site]) is not None and abs(float(own) - float(estimate.cost)) <= reach
    ]


def candidates(
    estimate: TreeEstimate, rules: Sequence[TreeRule], slack: float
) -> Iterator[tuple[TreeRule, Arguments]]:
    """Every rule with every argument that a critical site may use it with."""
    tree, costs, sign = estimate.tree, estimate.costs, estimate.problem.goal.sign
    critical = critical_sites(estimate, slack)
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


def weigh(
    estimate: TreeEstimate, rules: Sequence[TreeRule], slack: float, broadcasts: Broadcasts | None = None
) -> tuple[Iterable[WeighedRewrite], int]:
    """The rewrites that help, best first, and how many were looked at.

    With `broadcasts` they are worth what they seem to be by what was last heard of the sites; the root
    measures its choice before it applies it.
    """
    layout = estimate.layout
    known = [rule for rule in rules if rule.shape is not None and rule.reach is not None]
    if layout is None or not known:
        return _weigh_one_by_one(estimate, rules, slack, broadcasts)
    others = [rule for rule in rules if rule not in known]
    found, looked_at = _weigh_in_bulk(estimate, layout, known, slack, broadcasts)
    if not others:
        return found, looked_at
    more, looked_at_more = _weigh_one_by_one(estimate, others, slack, broadcasts)
    return merge(found, more, key=_rank), looked_at + looked_at_more


def _rank(item: WeighedRewrite) -> tuple[float, str, Arguments]:
    return -item.benefit, item.rewrite.rule, item.rewrite.arguments


def _weigh_one_by_one(
    estimate: TreeEstimate, rules: Sequence[TreeRule], slack: float, broadcasts: Broadcasts | None
) -> tuple[list[WeighedRewrite], int]:
    least = NEGLIGIBLE * abs(float(estimate.cost))
    weighed: list[WeighedRewrite] = []
    looked_at = 0
    for rule, arguments in candidates(estimate, rules, slack):
        looked_at += 1
        rewrite = rule.rewrite(estimate.tree, arguments)
        if broadcasts is None:
            benefit = float(estimate.benefit(rewrite.changes))
        else:
            benefit = broadcasts.benefit(estimate, rewrite)
        if benefit > least:
            weighed.append(WeighedRewrite(benefit, rewrite))
    return sorted(weighed, key=_rank), looked_at


def _weigh_in_bulk(
    estimate: TreeEstimate,
    layout: Layout,
    rules: Sequence[TreeRule],
    slack: float,
    broadcasts: Broadcasts | None,
) -> tuple[Iterator[WeighedRewrite], int]:
    from distributary.plan.trees.bulk import weigh_pairs

    tree, sign = estimate.tree, estimate.problem.goal.sign
    critical = critical_sites(estimate, slack)
    owners = np.full(len(tree.parents), len(critical) == len(tree.parents))
    if not owners.all():
        owners[[above for site in critical for above in tree.path(site)]] = True
    everyone = np.arange(len(tree.parents))
    # A site without a cost, such as the root, is as well off as can be: everybody hears of it.
    signed = np.array([-math.inf if cost is None else sign * float(cost) for cost in estimate.costs])
    least = NEGLIGIBLE * abs(float(estimate.cost))
    heard = np.empty(0) if broadcasts is None else broadcasts.heard()
    found, looked_at = [], 0
    for rule in sorted(rules, key=lambda rule: rule.name):
        assert rule.shape is not None
        assert rule.reach is not None
        sites = np.array(critical, dtype=np.int64) if rule.directed else everyone
        ones, others, benefits, looked = weigh_pairs(
            layout, int(rule.shape), rule.reach.numbers, sites, owners, signed, sign, least, heard
        )
        found.append((rule, ones, others, benefits))
        looked_at += looked
    return _best_first(estimate.tree, found), looked_at


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


def choose(estimate: TreeEstimate, weighed: Iterable[WeighedRewrite], concurrent: bool) -> list[TreeRewrite]:
    """The best legal rewrite; if several may go at once, also those that are independent and add to it.

    The rewrites come best first.
    """
    chosen: list[TreeRewrite] = []
    touched: set[int] = set()
    changes: dict[int, int] = {}
    best = 0.0
    least = NEGLIGIBLE * abs(float(estimate.cost))
    for rewrite in (item.rewrite for item in weighed):
        if touched & rewrite.touched(estimate.tree):
            continue
        together = {**changes, **rewrite.changes}
        if not tree_and_legal(estimate, together):
            continue
        benefit = float(estimate.benefit(together))
        if benefit <= best + least:
            continue
        chosen.append(rewrite)
        touched |= rewrite.touched(estimate.tree)
        changes, best = together, benefit
        if not concurrent:
            break
    return chosen


def tree_and_legal(estimate: TreeEstimate, changes: Mapping[int, int]) -> bool:
    """Whether the changes leave a tree that the constraints allow.

    Rewrites that are possible each can make a circle together: each may move its sites below the other's.
    """
    try:
        after = estimate.tree.changed(changes)
    except DistributaryError:
        return False
    return estimate.legal(changes, after)

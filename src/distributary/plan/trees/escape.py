"""The default optimiser: where hill climbing stops at a local optimum, it goes on.

A climb on a MIN or MAX sees only the worst site, and stops as soon as no rewrite helps all of the worst at
once. Three things lead past that:

- A bar for the cost. How far all sites together fall short of it (the excess) tells useful moves from useless
  ones, even while the worst site stays as it is.
- Best paths. Where one tree is best for every site (`optimum.has_best_paths`), its cost is the bar. For a MIN
  or MAX, the move that removes most excess is made again and again; when none removes any, the worst site
  gets the path that it has in the best tree. For other functions exactly those sites move that have a worse
  path than they could have.
- Tabu search, for all other goals (constraints, variances, costs over children). The best move is made even
  if it is a step back, and a site that moved may not move again for some rounds; where a move is forbidden by
  a constraint, two subtrees change places instead. When the search stops improving it restarts a few random
  moves away.

The search works on copies. The result is the list of moves from the first tree to the best one found, without
those that it is as good without: never more than there are sites.

Cost: a round of tabu search weighs the square of the sites in bulk; goals that only `incremental` knows are
sampled. `Effort.work` bounds the whole, which ends the search for a thousand sites in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import GoalFunction
from distributary.plan.trees.benefit import Problem, TreeEstimate
from distributary.plan.trees.climb import TreeClimb, TreeStep
from distributary.plan.trees.incremental import IncrementalCost
from distributary.plan.trees.mending import mended
from distributary.plan.trees.moves import JOINS, Floats, Moves
from distributary.plan.trees.optimum import best_paths, has_best_paths
from distributary.plan.trees.path_cost import TreePathCost
from distributary.plan.trees.rules import NODE_SWAP, TreeRewrite
from distributary.plan.trees.tree import NO_PARENT, Tree

MOVE = "move"
"""The one rule of this optimiser: a site goes under another parent, with its subtree."""

ROUNDING = 1e-9

MEASURING = 200
"""Moves weighed in bulk in the time that it takes to measure one site's cost."""

Sites = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Effort:
    """How long to search."""

    patience: int = 20
    """Rounds of a walk without a better tree before it ends."""
    rounds: int = 400
    memory: int = 7
    """Rounds for which a site that moved may not move again (the tabu tenure); less with few sites."""
    restarts: int = 3
    """Times that the walk, when it ends, begins again near the best tree, a few random moves away."""
    parents: int = 20
    """Of a site, the parents weighed in a round when each has to be walked."""
    measured: int = 20_000
    """Costs measured in such a round, after which no more sites are looked at."""
    work: int = 150_000_000
    """Moves weighed in all, a cost that had to be measured counting for `MEASURING` of them: for a thousand
    sites this is what ends the search."""
    refused: int = 60
    """Forbidden moves in a round after which no better one is hoped for."""
    step: float = 0.02
    """How far above the best cost the bar is set, as a share of it."""


def improve(problem: Problem, tree: Tree, seed: int = 0, effort: Effort | None = None) -> TreeClimb:
    """Improve a tree; what it hands back is legal, and never worse than what it got if that was legal.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> from distributary.plan.trees.tree import Sites
    >>> goal = parse_goal("minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)")
    >>> problem = Problem(goal, Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]]))
    >>> found = improve(problem, Tree((-1, 0, 0)))
    >>> found.cost, found.rewrites
    (8, [TreeRewrite(rule='move', arguments=(2, 1), changes={2: 1})])
    """
    if has_best_paths(problem):
        if problem.goal.cost.function.is_bottleneck:
            return _level(problem, tree)
        return _settle(problem, tree)
    return _tabu_search(problem, tree, Random(seed), effort or Effort())


def outsiders(tree: Tree, order: Sites, site: int) -> Sites:
    """The sites under which this one could be moved and is not yet; `order` is the tree's, as an array."""
    start = tree.position[site]
    outside = np.concatenate((order[:start], order[start + tree.size[site] :]))
    return np.sort(outside[outside != tree.parents[site]])


# Best paths


def _settle(problem: Problem, tree: Tree) -> TreeClimb:
    """Give every site whose path is not best its best parent, from the best site to the worst."""
    best, costs, order = best_paths(problem, tree.root)
    estimate = problem.at(tree)
    steps: list[TreeStep] = []
    for site in order[1:]:
        if _worse(problem, estimate.costs[site], costs[site]):
            before, rewrite = estimate.cost, _move(site, best.parents[site])
            estimate = problem.at(estimate.tree.changed(rewrite.changes))
            steps.append(TreeStep((rewrite,), before, estimate.cost))
    return TreeClimb(tree, estimate.tree, estimate.cost, tuple(steps), len(order) - 1)


def _move(site: int, parent: int) -> TreeRewrite:
    return TreeRewrite(MOVE, (site, parent), {site: parent})


def _worse(problem: Problem, cost: object, best: float) -> bool:
    return problem.goal.sign * (float(cost) - best) > ROUNDING * abs(best)  # type: ignore[arg-type]


def _level(problem: Problem, tree: Tree) -> TreeClimb:
    """Bring every site up to the bar, which is the best cost the system can have."""
    best, costs, _ = best_paths(problem, tree.root)
    bar = float(problem.at(best).cost)
    estimate = problem.at(tree)
    considered = 0
    while _worse(problem, estimate.cost, bar):
        assert estimate.moves is not None
        excess = Excess(estimate.moves, problem.goal.sign, bar)
        considered += len(excess.sites) * len(tree.parents)
        site, parent, gain = excess.best_move()
        if gain > ROUNDING * abs(bar):
            estimate = problem.at(estimate.tree.changed({site: parent}))
            continue
        worst = int(np.argmax(excess.own))
        for above in reversed(best.path(worst)[:-1]):
            if _worse(problem, estimate.costs[above], costs[above]):
                estimate = problem.at(estimate.tree.changed({above: best.parents[above]}))
    return _migration(problem, tree, estimate, considered)


class Excess:
    """How far the sites of a tree fall short of a bar, and how much of that each move removes."""

    def __init__(self, moves: Moves, sign: int, bar: float) -> None:
        self.moves = moves
        self.sign = sign
        self.bar = bar
        state = moves.state
        self.tree = state.tree
        self.weights: Floats = np.array(state.weights, dtype=np.float64)
        self.order = np.array(self.tree.order, dtype=np.intp)
        self.own: Floats = self.weights * np.maximum(sign * (moves.costs - bar), 0.0)
        self.own[~np.isfinite(moves.costs)] = 0.0
        above = {site for short in np.flatnonzero(self.own) for site in self.tree.path(int(short))}
        self.sites = sorted(above - {self.tree.root})
        """Only above a site that falls short is there anything to gain."""

    def between(self, site: int) -> Floats:
        """Along the order, h of everyone in the subtree; of the site itself, nothing."""
        state = self.moves.state
        start = self.tree.position[site]
        members = self.tree.order[start : start + self.tree.size[site]]
        worst = {site: state.node_function.identity}
        for below in members[1:]:
            local = state.local[below]
            assert local is not None
            worst[below] = state.node_function.join(worst[self.tree.parents[below]], float(local))
        return np.array([worst[member] for member in members])

    def gains(self, site: int, parents: Sites) -> Floats:
        """The excess removed by moving the site under each parent."""
        start = self.tree.position[site]
        members = self.order[start : start + self.tree.size[site]]
        costs = self.moves.new_costs(site, parents)
        if self.moves.state.node_function is GoalFunction.SUM:
            after = self.moves.costs[members][:, None] + (costs - self.moves.costs[site])[None, :]
        else:
            joined = JOINS[self.moves.state.node_function]
            after = joined(self.between(site)[:, None], costs[None, :])
        short = np.maximum(self.sign * (after - self.bar), 0.0)
        gains: Floats = self.own[members].sum() - self.weights[members] @ short
        return gains

    def best_move(self) -> tuple[int, int, float]:
        """The site, the parent and the gain of the move that removes most; the first of equals."""
        found = (NO_PARENT, NO_PARENT, 0.0)
        for site in self.sites:
            parents = outsiders(self.tree, self.order, site)
            if not len(parents):
                continue
            gains = self.gains(site, parents)
            at = int(np.argmax(gains))
            if gains[at] > found[2]:
                found = site, int(parents[at]), float(gains[at])
        return found


# Tabu search


@dataclass(frozen=True)
class _Choice:
    score: float
    changes: Mapping[int, int]


def _tabu_search(problem: Problem, tree: Tree, random: Random, effort: Effort) -> TreeClimb:
    """Walks from the tree, made legal, and from near the best tree found, as far as the budget goes."""
    budget = _Budget(effort.work)
    best = _walk(problem.at(mended(problem, tree)), random, effort, budget)
    for _ in range(effort.restarts):
        if not budget.left:
            break
        found = _walk(_perturbed(best, random), random, effort, budget)
        if _better(found, best):
            best = found
    return _migration(problem, tree, best, budget.considered)


class _Budget:
    """What may still be spent on looking, and how many moves were looked at."""

    def __init__(self, work: int) -> None:
        self.left = work
        self.considered = 0

    def spend(self, moves: int, measured: int) -> None:
        """Count moves that were looked at; measured costs count for many."""
        self.considered += moves
        self.left = max(0, self.left - (MEASURING * measured or moves))


def _better(one: TreeEstimate, other: TreeEstimate) -> bool:
    gain = one.problem.goal.sign * float(other.cost - one.cost)
    return gain > ROUNDING * abs(float(other.cost))


def _perturbed(estimate: TreeEstimate, random: Random) -> TreeEstimate:
    """A legal tree a few random moves away."""
    count = len(estimate.tree.parents)
    for _ in range(random.randint(4, 5 + count // 10)):
        site, parent = random.randrange(count), random.randrange(count)
        if site != estimate.tree.root and not estimate.tree.below(parent, site):
            changes = {site: parent}
            if estimate.legal(changes):
                estimate = estimate.problem.at(estimate.tree.changed(changes))
    return estimate


def _walk(estimate: TreeEstimate, random: Random, effort: Effort, budget: _Budget) -> TreeEstimate:
    """The best tree on a walk that always takes the best move left."""
    best = estimate
    memory = min(effort.memory, len(estimate.tree.parents) // 4)
    resting: dict[int, int] = {}
    idle = 0
    for turn in range(effort.rounds):
        if idle >= effort.patience or not budget.left:
            break
        idle += 1
        scored = _scores(estimate, best, random, effort)
        awake = [item for item in scored if resting.get(item[0], -1) < turn]
        choice = _choose(estimate, awake, effort)
        measured = 0 if isinstance(estimate.system, TreePathCost) else estimate.system.measured
        budget.spend(sum(len(parents) for _, parents, _ in scored), measured)
        if choice is None:
            continue
        for site in choice.changes:
            resting[site] = turn + memory
        estimate = estimate.problem.at(estimate.tree.changed(choice.changes))
        if _better(estimate, best):
            best, idle = estimate, 0
    return best


Scored = list[tuple[int, Sites, Floats]]


def _scores(estimate: TreeEstimate, best: TreeEstimate, random: Random, effort: Effort) -> Scored:
    """For the sites worth moving, the parents and how good each is."""
    if not isinstance(estimate.system, TreePathCost):
        return _sampled(estimate, estimate.system, random, effort)
    tree, goal = estimate.tree, estimate.problem.goal
    sites, score = sorted({*tree.order} - {tree.root}), estimate.move_benefits
    if estimate.moves is not None and goal.cost.function.is_bottleneck:
        best_cost = float(best.cost)
        excess = Excess(estimate.moves, goal.sign, best_cost - goal.sign * effort.step * abs(best_cost))
        sites, score = excess.sites, excess.gains
    order = np.array(tree.order, dtype=np.intp)
    rows = ((site, outsiders(tree, order, site)) for site in sites)
    return [(site, parents, score(site, parents)) for site, parents in rows if len(parents)]


def _sampled(estimate: TreeEstimate, system: IncrementalCost, random: Random, effort: Effort) -> Scored:
    """Some parents for each of some sites, as far as a round's measuring goes."""
    tree = estimate.tree
    order = np.array(tree.order, dtype=np.intp)
    sites = [site for site in range(len(tree.parents)) if site != tree.root]
    random.shuffle(sites)
    scored: Scored = []
    for site in sites:
        parents = outsiders(tree, order, site)
        if len(parents) > effort.parents:
            parents = np.sort(np.array(random.sample(parents.tolist(), effort.parents), dtype=np.intp))
        if len(parents):
            scored.append((site, parents, estimate.move_benefits(site, parents)))
        if system.measured > effort.measured:
            break
    return scored


def _ranked(scored: Scored, most: int) -> Iterator[tuple[float, int, int]]:
    """The best moves of all, best first."""
    if not scored:
        return
    scores = np.concatenate([values for _, _, values in scored])
    sites = np.concatenate([np.full(len(parents), site) for site, parents, _ in scored])
    parents = np.concatenate([parents for _, parents, _ in scored])
    first = np.argpartition(-scores, most)[:most] if most < len(scores) else np.arange(len(scores))
    first = first[np.lexsort((first, -scores[first]))]
    for at in first.tolist():
        yield float(scores[at]), int(sites[at]), int(parents[at])


def _choose(estimate: TreeEstimate, scored: Scored, effort: Effort) -> _Choice | None:
    """The best move that is allowed, or the best exchange of subtrees in place of those that are not."""
    forbidden: list[tuple[int, int]] = []
    move: _Choice | None = None
    for score, site, parent in _ranked(scored, effort.refused):
        if move is not None and (score <= 0 or site in move.changes):
            continue
        changes = {**(move.changes if move else {}), site: parent}
        if not _tree_and_legal(estimate, changes):
            if move is None:
                forbidden.append((site, parent))
            continue
        worth = float(estimate.benefit(changes))
        if move is None or worth > move.score + ROUNDING * abs(move.score):
            move = _Choice(worth, changes)
    exchange = _best_exchange(estimate, forbidden[:10])
    return exchange if exchange and (move is None or move.score < exchange.score) else move


def _tree_and_legal(estimate: TreeEstimate, changes: Mapping[int, int]) -> bool:
    """Whether the moves leave a tree that the constraints allow.

    Moves that are possible each can make a circle together: each may put its site below the other's.
    """
    try:
        after = estimate.tree.changed(changes)
    except DistributaryError:
        return False
    return estimate.legal(changes, after)


def _best_exchange(estimate: TreeEstimate, forbidden: list[tuple[int, int]]) -> _Choice | None:
    """The best way of letting a site in by taking one of the parent's children out in exchange.

    The two change places with all below them, or by themselves.
    """
    tree = estimate.tree
    found: _Choice | None = None
    for site, parent in forbidden:
        for child in tree.children[parent]:
            if child == site:
                continue
            offers = [NODE_SWAP.rewrite(tree, (site, child)).changes]
            if not tree.below(site, child) and not tree.below(child, site):
                offers.append({site: parent, child: tree.parents[site]})
            for changes in offers:
                score = float(estimate.benefit(changes))
                if (found is None or score > found.score) and estimate.legal(changes):
                    found = _Choice(score, changes)
    return found


def _migration(problem: Problem, start: Tree, best: TreeEstimate, considered: int) -> TreeClimb:
    """The moves from one tree to another: from the root down, so that no site is ever moved below itself.

    They are one step: in between, a parent may have a child too many.
    """
    best = _without_needless(problem, start, best)
    parents = best.tree.parents
    rewrites = tuple(
        _move(site, parents[site]) for site in best.tree.order if start.parents[site] != parents[site]
    )
    steps = (TreeStep(rewrites, problem.at(start).cost, best.cost),) if rewrites else ()
    return TreeClimb(start, best.tree, best.cost, steps, considered)


def _without_needless(problem: Problem, start: Tree, best: TreeEstimate) -> TreeEstimate:
    """Put sites back under their first parents where the tree is as good and as legal with them there."""
    for site in reversed(best.tree.order[1:]):
        first = start.parents[site]
        if first == best.tree.parents[site] or best.tree.below(first, site):
            continue
        back = {site: first}
        if best.benefit(back) >= 0 and best.legal(back):
            best = problem.at(best.tree.changed(back))
    return best

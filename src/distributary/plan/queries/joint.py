"""Trees and placements improved together: the seed's main open question (section 7).

    found = improve_both(goal, placement)
    found.network.trees, found.hosts

Rules:

- Phases take turns until neither helps: operators move over the trees as they are, and sites move in the
  trees for the operators where they are (each site, with its subtree, under another parent). Which goes first
  matters: operators that have gone to the roots leave trees nothing to do. Both are tried.
- A move in a tree is worth what it takes from the streams' links and from the ways to operators. Known are,
  per tree, what each site asks for and how often the way to it counts; all parents are weighed at once.
- This holds for goals that are sums (or averages): of nodes' rates, or of queries' latencies without values
  of nodes. Other goals are refused. A limit on `fanout` is kept by counting all children in all trees; a
  phase that would break other constraints more than before is taken back.

Cost: a round over a tree weighs the square of its sites, times the streams that are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Goal, GoalAggregate, GoalFunction
from distributary.plan.queries.benefit import PlacementEstimate, best_of
from distributary.plan.queries.evaluation import UnfitError, terms
from distributary.plan.queries.goals import STATISTICS
from distributary.plan.queries.graph import WHOLE
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.rules import LOCAL, MIGRATIONS, QueryRule, RuleArea
from distributary.plan.queries.state import Floats, TreeArrays
from distributary.plan.queries.system_forms import BrokersCost, QueriesCost
from distributary.plan.trees.tree import Tree

LEAST = 1e-9
"""The share of the cost below which a difference is rounding."""
ROUNDS = 10
"""Rounds of the two phases at most."""


def improve_both(
    goal: Goal, placement: Placement, rules: Sequence[QueryRule] = MIGRATIONS, area: RuleArea = LOCAL
) -> Placement:
    """Improve operators and trees in turns.

    >>> from distributary.plan.queries.generator import at_clients, feed_workload, random_network
    >>> from distributary.plan.queries.goals import parse_query_goal
    >>> network = random_network(sites=10, trees=2, seed=1)
    >>> placement = at_clients(feed_workload(network, 20, seed=1), network)
    >>> goal = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS); node load <= 3")
    >>> PlacementEstimate(goal, improve_both(goal, placement)).cost < climb(goal, placement).cost
    True
    """
    ways = [_in_turns(goal, placement, rules, area, trees_first) for trees_first in (True, False)]
    return best_of(goal, ways)


def _in_turns(
    goal: Goal, placement: Placement, rules: Sequence[QueryRule], area: RuleArea, trees_first: bool
) -> Placement:
    for phase in range(2 * ROUNDS):
        before = placement
        if (phase % 2 == 0) == trees_first:
            placement = improve_trees(goal, placement)
        else:
            placement = climb(goal, placement, rules, area).placement
        if phase and placement == before:
            break
    return placement


def improve_trees(goal: Goal, placement: Placement) -> Placement:
    """Improve the trees alone; the placement itself, if that does not help."""
    estimate = PlacementEstimate(goal, placement)
    network = placement.network
    room = _room(goal, placement)
    for number, tree in enumerate(network.trees):
        network = network.with_tree(number, TreeProblem(estimate, number).climbed(tree, room))
    after = replace(placement, network=network)
    changed = PlacementEstimate(goal, after)
    worse = goal.sign * (changed.cost - estimate.cost) > LEAST * abs(estimate.cost)
    return placement if worse or changed.broken() > estimate.broken() else after


def _room(goal: Goal, placement: Placement) -> Floats:
    """How many more children each site may have, over all trees."""
    limits = [
        float(constraint.threshold) - (constraint.comparison == "<")
        for constraint in goal.constraints
        if constraint.metric == STATISTICS["fanout"] and constraint.comparison in ("<", "<=")
    ]
    children = np.zeros(placement.network.sites.count)
    for tree in placement.network.trees:
        children += [len(row) for row in tree.children]
    return min(limits, default=np.inf) - children


class TreeProblem:
    """What a tree's shape costs, with all operators where they are."""

    def __init__(self, estimate: PlacementEstimate, number: int) -> None:
        state = estimate.state
        self.sign = estimate.goal.sign
        streams = [stream for stream, tree in enumerate(state.tree_of) if tree == number]
        place = {stream: row for row, stream in enumerate(streams)}
        self.asked = np.zeros((len(streams), state.count))
        """How much of each stream each site asks for, in parts of `WHOLE`."""
        self.weight = np.zeros(state.count)
        """How often the way to each site counts."""
        self.traffic, self.ways = _shares(estimate)
        self.rates = np.array([state.rates[stream] for stream in streams]) / WHOLE
        for operator, host in enumerate(state.hosts):
            for stream in state.inputs[operator]:
                if stream in place:
                    self.asked[place[stream], host] += state.asked_by[operator]
                    self.weight[host] += len(state.queries_of[operator]) / len(state.inputs[operator])
        wanted = self.asked.any(axis=1)
        self.asked, self.rates = self.asked[wanted], self.rates[wanted]

    def climbed(self, tree: Tree, room: Floats) -> Tree:
        """The tree after every site has moved to its best parent, until none moves.

        `room` says how many more children each site may have, and is kept up to date.
        """
        while True:
            before = tree
            for site in tree.order[1:]:
                worth = np.where(room > 0, self.benefits(tree, site), -np.inf)
                parent = int(worth.argmax())
                if worth[parent] > LEAST * self.scale(tree):
                    room[[parent, tree.parents[site]]] += (-1, 1)
                    tree = tree.changed({site: parent})
            if tree is before:
                return tree

    def scale(self, tree: Tree) -> float:
        """A size of costs, below a small share of which a benefit is rounding."""
        total = float(self.rates.sum()) * abs(self.traffic) * len(tree.parents)
        return total + sum(abs(factor) * float(np.nanmax(links)) for factor, links in self.ways)

    def benefits(self, tree: Tree, site: int) -> Floats:
        """What moving a site under each other one is worth; -infinity for those below it."""
        arrays = TreeArrays(tree)
        cost = np.zeros(len(tree.parents))
        if self.traffic:
            units = self.asked @ arrays.above
            moved = units[:, site][:, None]
            without = units - moved * arrays.above[tree.parents[site]]
            more = np.minimum(without + moved, WHOLE) - np.minimum(without, WHOLE)
            through: Floats = self.rates @ more
            ways = arrays.above @ through
            cost += self.traffic * (ways - ways[tree.parents[site]])
        below = arrays.above[:, site] > 0
        for factor, links in self.ways:
            down = arrays.above * links[arrays.parents, np.arange(len(links))]
            reach: Floats = down.sum(axis=1)
            times = float(self.weight[below].sum())
            cost += factor * times * (reach + links[:, site] - reach[site])
        cost[below] = np.inf
        return -self.sign * cost


def _shares(estimate: PlacementEstimate) -> tuple[float, list[tuple[float, Floats]]]:
    """How much a byte on a tree counts, and a way to a reader: by its factor and the links it sums."""
    system = estimate.system
    refused = DistributaryError("trees are improved for sums of nodes' rates or of queries' latencies only")
    if isinstance(system, BrokersCost) and system.multiples is not None:
        if any(name == "fanout" for _, name in system.multiples):
            raise refused
        share = sum(factor for factor, name in system.multiples if name in ("forwarding", "incoming"))
        return share / (estimate.state.count if system.function is GoalFunction.AVERAGE else 1), []
    if not isinstance(system, QueriesCost) or not system.function.is_additive:
        raise refused
    form = system.queries
    if form.function is not GoalFunction.SUM or form.times or form.operators.rest is None:
        raise refused
    try:
        found, _ = terms(form.operators.rest, lambda part: isinstance(part, GoalAggregate))
    except UnfitError:
        raise refused from None
    by = 1 / len(form.rest) if system.function is GoalFunction.AVERAGE else 1.0
    shares = []
    for factor, part in found:
        assert isinstance(part, GoalAggregate)
        ways = form.operators.ways[part]
        if part.function is not GoalFunction.SUM:
            raise refused
        if ways.upstream:
            shares.append((factor * by, ways.direct))
    return 0.0, shares

"""A part of a tree as one broker knows it, made into a small problem of the planner's.

Rules:

- Nodes whose neighbourhoods are known are sites, and so are their children. Whatever is below a child that is
  not known any closer hangs below it as sites that stand for many: a gate that costs nothing, and below the
  gate one site for each entry. The gate has as many idle siblings as it takes for the child to have as many
  children as it really has.
- Where the way to the root is not known, the topmost node hangs below a site of its own with its values; and
  what is known of the rest of the tree hangs there too.
- So a rewrite is worth here exactly what it is worth in the whole tree, as far as what was heard is true, and
  the planner's rules, constraints and benefits apply as they are.

Cost: as many sites as neighbours and entries; links only where they are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.plan.goal import expression as goals
from distributary.plan.goal.expression import Expression, GoalAggregate, GoalFunction, SystemCost
from distributary.plan.trees.benefit import Problem, TreeEstimate
from distributary.plan.trees.cost import local_value
from distributary.plan.trees.metrics import Metric, Reads, metrics_of
from distributary.plan.trees.path_cost import Links
from distributary.plan.trees.rules import TreeRewrite, TreeRule
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree, star
from distributary.systems.tree.cost_model import CostModel, Entries, Values
from distributary.systems.tree.messages import BrokerFacts, ChildState, LinkMeasurement, TreeNeighbourhood
from distributary.systems.tree.statistics import known_sites

LinkKey = tuple[Address, Address]
"""Parent and child."""


class _Site(NamedTuple):
    """A site of the problem that is put together."""

    parent: int
    times: int
    """How many nodes it stands for."""
    facts: BrokerFacts = BrokerFacts()
    stored: Values | None = None
    """Its values, if they are not measured here."""


@dataclass
class _Draft:
    """The sites of a problem, and which of them are brokers."""

    sites: list[_Site] = field(default_factory=list)
    index: dict[Address, int] = field(default_factory=dict)

    def add(self, site: _Site) -> int:
        self.sites.append(site)
        return len(self.sites) - 1


@dataclass
class PartialTree:
    """Neighbourhoods that a broker has heard of, and the links that it knows."""

    model: CostModel
    neighbourhoods: dict[Address, TreeNeighbourhood] = field(default_factory=dict)
    links: dict[LinkKey, LinkMeasurement] = field(default_factory=dict)
    rest: Entries = ()
    """Nodes that are not in any of the neighbourhoods, as far as they matter."""

    def add(self, neighbourhood: TreeNeighbourhood) -> None:
        """Know a neighbourhood and its links."""
        self.neighbourhoods[neighbourhood.address] = neighbourhood
        for child in neighbourhood.children:
            self.links[neighbourhood.address, child.address] = child.link

    def children(self, address: Address) -> tuple[ChildState, ...]:
        """The children of a node, as far as they are known."""
        known = self.neighbourhoods.get(address)
        return () if known is None else known.children

    @property
    def _below(self) -> list[Address]:
        return [child.address for each in self.neighbourhoods.values() for child in each.children]

    @property
    def _tops(self) -> list[TreeNeighbourhood]:
        """Neighbourhoods of nodes that are no known node's child."""
        below = set(self._below)
        return [each for address, each in self.neighbourhoods.items() if address not in below]

    def is_sound(self, whole: bool) -> bool:
        """Whether what was heard fits together: one top, which is the root if the whole way up is known.

        While the tree changes, neighbourhoods heard at different times may not.
        """
        below, tops = self._below, self._tops
        return len(below) == len(set(below)) and len(tops) == 1 and (tops[0].parent is None or not whole)

    def problem(self) -> PartialProblem:
        """What is known, as the planner takes it."""
        draft, tops = _Draft(), self._tops
        if len(tops) == 1 and tops[0].parent is None:
            self._grow(draft, tops[0].address, NO_PARENT, tops[0].facts, None)
        else:
            root = draft.add(_Site(NO_PARENT, 0, stored=self.model.nothing))
            for top in tops:
                self._grow(draft, top.address, root, top.facts, top.values)
            for times, values in self.rest:
                draft.add(_Site(root, times, stored=values))
        return PartialProblem(self.model, draft, self.links)

    def _grow(
        self, draft: _Draft, address: Address, parent: int, facts: BrokerFacts, stored: Values | None
    ) -> None:
        """Add a node, and what is below it."""
        # A top that hangs on a site of its own stays as it is, whatever is done below it.
        count = 0 if stored is not None else self.model.weight(facts.clients)
        site = draft.index[address] = draft.add(_Site(parent, count, facts, stored))
        for child in self.children(address):
            if child.address not in draft.index:
                self._grow(draft, child.address, site, child.facts, None)
                if child.address not in self.neighbourhoods and child.fanout:
                    self._hang(draft, child)

    def _hang(self, draft: _Draft, child: ChildState) -> None:
        """Add what is below a child of which no more is known than its parent does."""
        site, nothing = draft.index[child.address], self.model.nothing
        gate = draft.add(_Site(site, 0, BrokerFacts(streams=child.streams), nothing))
        for times, values in child.below:
            draft.add(_Site(gate, times, stored=values))
        for _ in range(child.fanout - 1):
            draft.add(_Site(site, 0, stored=nothing))


class PartialProblem(Problem):
    """The planner's problem over what one broker knows."""

    def __init__(self, model: CostModel, draft: _Draft, links: Mapping[LinkKey, LinkMeasurement]) -> None:
        self._index = draft.index
        self._pairs = {
            (draft.index[parent], draft.index[child]): link
            for (parent, child), link in links.items()
            if parent in draft.index and child in draft.index
        }
        stored = {number: site.stored for number, site in enumerate(draft.sites) if site.stored is not None}
        _, times, facts, _ = zip(*draft.sites, strict=True)
        sites = known_sites(self._pairs, facts, math.inf, times)
        super().__init__(_stored_goal(model, stored), sites)
        self.tree = Tree(tuple(site.parent for site in draft.sites))
        self.addresses = {site: address for address, site in draft.index.items()}
        self.estimate = TreeEstimate(self, self.tree)

    def links(self, cost: SystemCost) -> Links:
        """The local values, but only where a link is known or a site has its parent now."""
        known = self._links.get(cost)
        if known is None:
            assert isinstance(cost.value, GoalAggregate)
            expression, count = cost.value.value, self.sites.count
            known = self._links[cost] = [[None] * count for _ in range(count)]
            pairs = {*self._pairs, *((max(parent, 0), site) for site, parent in enumerate(self.tree.parents))}
            stars: dict[int, Tree] = {}
            for parent, site in pairs:
                under = stars.get(parent) or stars.setdefault(parent, star(count, parent))
                known[parent][site] = local_value(expression, self.sites, under, site)
        return known

    def rewrites(self, rules: Iterable[TreeRule], owner: Address) -> Iterator[TreeRewrite]:
        """All that these rules can do around a node, to nodes that are known."""
        site = self._index.get(owner)
        if site is None:
            return
        real = self.addresses.keys()
        for rule in rules:
            for arguments in rule.arguments(self.tree, site):
                if real >= set(arguments):
                    rewrite = rule.rewrite(self.tree, arguments)
                    if real >= {*rewrite.changes, *rewrite.changes.values()}:
                        yield rewrite

    def links_needed(self, rewrite: TreeRewrite) -> list[LinkKey]:
        """Links that must be measured before the rewrite can be weighed, by address."""
        return [
            (self.addresses[parent], self.addresses[site])
            for site, parent in rewrite.changes.items()
            if (parent, site) not in self._pairs
        ]

    def weigh(self, rewrite: TreeRewrite) -> float:
        """What the rewrite is worth."""
        return float(self.estimate.benefit(rewrite.changes))


def _stored_goal(model: CostModel, stored: Mapping[int, Values]) -> goals.Goal:
    """The goal, reading stored values where there are any, and adding up where it takes averages.

    A broker does not know how many nodes there are; an average is best where the sum is.
    """
    goal = model.goal
    function = GoalFunction.SUM if goal.cost.function is GoalFunction.AVERAGE else goal.cost.function
    cost = replace(goal.cost, function=function, value=_with_stored(goal.cost.value, model, stored))
    constraints = tuple(
        replace(each, metric=_with_stored(each.metric, model, stored))
        for each in goal.constraints
        if not isinstance(each.metric, SystemCost)
    )
    return replace(goal, cost=cost, constraints=constraints)


def _with_stored(expression: Expression, model: CostModel, stored: Mapping[int, Values]) -> Expression:
    if isinstance(expression, goals.Combination):
        left = _with_stored(expression.left, model, stored)
        return goals.Combination(expression.operator, left, _with_stored(expression.right, model, stored))
    if not isinstance(expression, GoalAggregate) or expression.over is not goals.Scope.PATH:
        return expression
    which, value = model.paths.index(expression), expression.value
    metrics = metrics_of(value)
    on_links = any(metric.place is goals.Place.LINK for metric in metrics)
    order = (Reads.NOTHING, Reads.PARENT, Reads.CHILDREN, Reads.SUBTREE)
    reads = max((metric.reads for metric in metrics), key=order.index, default=Reads.NOTHING)

    def measure(sites: Sites, tree: Tree, site: int) -> goals.Number:
        if site in stored:
            return stored[site][which]
        found = local_value(value, sites, tree, site)
        assert found is not None
        return found

    metric = Metric(f"known {which}", goals.Place.LINK if on_links else goals.Place.NODE, reads, measure)
    return GoalAggregate(expression.function, metric, goals.Scope.PATH)

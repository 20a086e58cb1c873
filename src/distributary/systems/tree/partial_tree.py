"""A part of a tree as one broker knows it, made into a small problem of the planner's.

Rules:

- Nodes whose neighbourhoods are known are sites, and so are their children. Whatever is below a child that is
  not known any closer hangs below it as sites that stand for many: a gate that costs nothing, and below the
  gate one site for each entry. The gate has as many idle siblings as it takes for the child to have as many
  children as it really has.
- Where the way to the root is not known, the topmost node hangs below a site of its own with its values; and
  what is known of the rest of the tree hangs there too.
- What a child aggregates over its own children, where those are not known, is what it told: no rewrite around
  here changes it.
- So a rewrite is worth here exactly what it is worth in the whole tree, as far as what was heard is true, and
  the planner's rules, constraints and benefits apply as they are.

Cost: as many sites as neighbours and entries; links only where they are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, cast

from distributary.overlay.node import Address
from distributary.plan.goal import expression as goals
from distributary.plan.goal.expression import Expression, GoalAggregate, GoalFunction, Scope, SystemCost
from distributary.plan.trees.benefit import Problem, TreeEstimate
from distributary.plan.trees.cost import folded_at, local_value, node_costs
from distributary.plan.trees.metrics import Metric, Reads
from distributary.plan.trees.path_cost import Links
from distributary.plan.trees.rules import TreeRewrite, TreeRule
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree, star
from distributary.systems.tree.cost_model import CostModel, Entries, Values, has_path
from distributary.systems.tree.known_sites import known_sites
from distributary.systems.tree.messages import BrokerFacts, ChildState, LinkMeasurement, TreeNeighbourhood

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
    over_children: Values | None = None
    """Its aggregates over children, if these are not known."""


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
                    at = draft.index[child.address]
                    draft.sites[at] = draft.sites[at]._replace(over_children=child.over_children)
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
        _, times, facts, *_ = zip(*draft.sites, strict=True)
        self.tree = Tree(tuple(site.parent for site in draft.sites))
        sites = known_sites(model, self._pairs, facts, math.inf, times)
        super().__init__(_StoredValues(model, draft, self.tree).goal(), sites)
        self.addresses = {site: address for address, site in draft.index.items()}

    @cached_property
    def estimate(self) -> TreeEstimate:
        """What the part of the tree costs, and what rewrites of it are worth."""
        return TreeEstimate(self, self.tree)

    @property
    def has_cost(self) -> bool:
        """Whether any of those known counts in the goal."""
        costs = node_costs(self.goal.cost.value, self.sites, self.tree)
        return any(cost is not None and times for cost, times in zip(costs, self.sites.counts, strict=True))

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

    def shift(self, rewrite: TreeRewrite) -> float:
        """By how much the rewrite changes the sum of the costs, where the goal is a VARIANCE or STD."""
        if self.goal.cost.function not in (GoalFunction.VARIANCE, GoalFunction.STD):
            return 0.0
        summed = self.system(replace(self.goal.cost, function=GoalFunction.SUM), self.tree)
        return float(summed.cost_after(rewrite.changes) - summed.cost)


class _StoredValues:
    """What was told of sites, in place of what cannot be measured here."""

    def __init__(self, model: CostModel, draft: _Draft, tree: Tree) -> None:
        self._model, self._tree = model, tree
        numbered = list(enumerate(draft.sites))
        self._stored = {number: site.stored for number, site in numbered if site.stored is not None}
        self._over_children = {
            number: site.over_children for number, site in numbered if site.over_children is not None
        }

    def goal(self) -> goals.Goal:
        """The goal, reading what was told where there is something.

        A broker that does not know the whole tree does not know how many nodes there are: it adds up where
        the goal takes an average, which is best where the sum is.
        """
        goal = self._model.goal
        averages = goal.cost.function is GoalFunction.AVERAGE and not self._model.whole
        function = GoalFunction.SUM if averages else goal.cost.function
        cost = replace(goal.cost, function=function, value=self._read(goal.cost.value))
        constraints = tuple(
            replace(each, metric=self._read(each.metric))
            for each in goal.constraints
            if not isinstance(each.metric, SystemCost)
        )
        return replace(goal, cost=cost, constraints=constraints)

    def _read(self, expression: Expression) -> Expression:
        """An expression that reads what was told."""
        model = self._model
        if isinstance(expression, GoalAggregate) and expression.over is Scope.PATH:
            return GoalAggregate(expression.function, self._path(expression), Scope.PATH)
        if isinstance(expression, goals.GoalConstant):
            return expression
        if expression in model.own:
            return self._part(expression, len(model.paths) + model.own.index(expression))
        if isinstance(expression, goals.Combination) and has_path(expression):
            left, right = self._read(expression.left), self._read(expression.right)
            return goals.Combination(expression.operator, left, right)
        return self._part(expression, None)

    def _path(self, path: GoalAggregate) -> Metric:
        """What a site adds to its path."""
        which, value = self._model.paths.index(path), path.value

        def measure(sites: Sites, tree: Tree, site: int) -> goals.Number:
            if site in self._stored:
                return _number(self._stored[site][which])
            return _number(local_value(value, sites, tree, site))

        return Metric(f"known {which}", _place(value), _reads(value), measure)

    def _part(self, part: Expression, which: int | None) -> Metric:
        """A part of a cost or a constraint without a path; a site that told nothing of it has no value."""

        def measure(sites: Sites, tree: Tree, site: int) -> goals.Number:
            if site in self._stored:
                return _number(None if which is None else self._stored[site][which])
            return _number(self._evaluated(part, sites, tree, site))

        return Metric(f"own {which}", _place(part), _reads(part), measure)

    def _evaluated(self, part: Expression, sites: Sites, tree: Tree, site: int) -> goals.Number | None:
        if isinstance(part, goals.Combination):
            left, right = (self._evaluated(side, sites, tree, site) for side in (part.left, part.right))
            return goals.combine(part.operator, left, right)
        if not isinstance(part, GoalAggregate):
            return local_value(part, sites, tree, site)
        if site not in self._over_children:
            return folded_at(part, tree, site, lambda member: local_value(part.value, sites, tree, member))
        if tree.children[site] != self._tree.children[site]:
            return math.nan  # a rule that reaches further than its unit: nobody knows what that is worth
        return self._over_children[site][self._model.children.index(part)]


def _number(value: goals.Number | None) -> goals.Number:
    """A value that there may not be: the planner's combinations and aggregates take None, metrics give it."""
    return cast(goals.Number, value)


def _place(expression: Expression) -> goals.Place:
    """Where an expression has values: on links if a metric does that is not one of children."""
    if isinstance(expression, goals.Combination):
        both = _place(expression.left), _place(expression.right)
        return goals.Place.LINK if goals.Place.LINK in both else goals.Place.NODE
    on_link = isinstance(expression, Metric) and expression.place is goals.Place.LINK
    return goals.Place.LINK if on_link else goals.Place.NODE


def _reads(expression: Expression) -> Reads:
    """What an expression reads of a tree: the widest of what its metrics do."""
    if isinstance(expression, goals.Combination):
        return max(_reads(expression.left), _reads(expression.right), key=READING.index)
    if isinstance(expression, GoalAggregate):
        inside = _reads(expression.value)
        return Reads.CHILDREN if inside in (Reads.NOTHING, Reads.PARENT) else Reads.SUBTREE
    return expression.reads if isinstance(expression, Metric) else Reads.NOTHING


READING = (Reads.NOTHING, Reads.PARENT, Reads.CHILDREN, Reads.SUBTREE)
"""What metrics read, each more than those before it."""

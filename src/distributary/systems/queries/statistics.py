"""The statistics manager of a node: rounds in which nodes tell each other their values (003, 5.3.2, 5.4.3).

Rules, for every period:

- The registry begins a round: it tells each broker its position in every tree of sources. A broker that is
  not a member of a tree takes part where it would join it, so that idle brokers are heard of too.
- A node has one value, that of the goal's cost over BROKERS; or, where the goal is over QUERIES, one for each
  tree: the cost of the path from the root, which is its parent's, as last told, and that of its own link.
- Values go up to the root and down again, at most `top` over a link each way, drawn by the lottery of
  `plan.queries.statistics`. Down go only values that some node below can use: those better than its own
  (Table 5.2); under a MIN or MAX only nodes whose own value is within `slack` of the cost are interested.
- With them go up: how much of each source is asked for below, the sum of all values and the worst few, the
  nodes below. With them go down: the cost and the worst few, rates of the sources asked for, the nodes near.
- A round waits for no node longer than its window, and messages of an earlier round are ignored: the values
  of a node that is late, paused or gone are left out, and what it asked for last still counts.

Cost: for each tree a message to the parent and one to each child, whose size depends on `top`, on the levels
of the area and on the tree's sources, and not on the number of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from distributary.overlay.node import Address
from distributary.plan.goal.expression import GoalFunction, GoalMembers
from distributary.plan.queries.graph import WHOLE
from distributary.plan.queries.statistics import drawn
from distributary.plan.trees.tree import Tree
from distributary.systems.queries import messages
from distributary.systems.queries.messages import DownwardStatistics, NodeValue, SourceRate, UpwardStatistics
from distributary.systems.queries.node_model import NodeModel

WORST = 10
"""How many of the worst nodes all nodes are told of, where the cost is a MIN or MAX."""
ROUNDING = 1e-9
"""The share of the cost within which a value is the cost."""


@dataclass
class TreeRound:
    """One tree in one round."""

    position: messages.TreePosition
    reports: dict[Address, UpwardStatistics] = field(default_factory=dict)
    """Of the children."""
    reported: bool = False
    """Whether the parent has been told, or at the root the children."""
    down: DownwardStatistics | None = None
    """What the parent told."""


class StatisticsManager:
    """The statistics manager of a node; `on_round_over` is called when a round is over here."""

    def __init__(self, model: NodeModel, on_round_over: Callable[[], None]) -> None:
        self.node = node = model.node
        self.model = model
        self.period = 0
        self.round: messages.RoundAnnouncement | None = None
        self.rates: dict[str, SourceRate] = {}
        """Of the sources that pass here, and those that are published here."""
        self.shares: dict[int, dict[str, int]] = {}
        """By tree, how much of each source is asked for here and below."""
        self.better_nodes: dict[Address, float] = {}
        """Nodes that do better than this one in a tree, and their best values, the less the better."""
        self._settings = settings = model.settings
        self._goal = settings.goal
        self._on_round_over = on_round_over
        self._random = np.random.default_rng([settings.seed, node.address])
        self._trees: list[TreeRound] = []
        self._early: list[tuple[Address, UpwardStatistics]] = []
        self._parent_paths: dict[int, tuple[Address, float]] = {}
        """By tree, the parent and the cost of the path from the root to it, as it told."""
        self._value = self._contribution = 0.0
        """Of this node in this round."""
        self._demand: dict[tuple[int, Address], tuple[messages.StreamDemand, ...]] = {}
        """What children asked for when they were last heard of."""
        self._over = True
        node.handle(messages.RoundAnnouncement, self._begin)
        node.handle(UpwardStatistics, self._report)
        node.handle(DownwardStatistics, self._down)
        node.at_alarm("flow up", self._report_timeout)
        node.at_alarm("flow heard", self._end)

    # The results of a round

    @property
    def complete(self) -> bool:
        """Whether the round has come back from all roots."""
        return bool(self._trees) and all(tree.down is not None for tree in self._trees)

    def is_over(self, period: int) -> bool:
        """Whether a round is over here: all has come, or it is too late."""
        return self.period > period or (self.period == period and self._over)

    @property
    def cost(self) -> float | None:
        """The system's cost, once it is known."""
        down = self._trees[0].down if self._trees else None
        if down is None or self.round is None:
            return None
        if self._settings.extreme:
            return down.worst[0].value if down.worst else None
        average = self._goal.cost.function is GoalFunction.AVERAGE
        return down.total / self.members if average else down.total

    @property
    def worst(self) -> tuple[NodeValue, ...]:
        """The worst nodes under a MIN or MAX, the worst first."""
        down = self._trees[0].down if self._trees else None
        return () if down is None else down.worst

    @property
    def members(self) -> int:
        """How many nodes or queries the cost is over."""
        assert self.round is not None
        brokers = self._goal.cost.members is GoalMembers.BROKERS
        return max(1, self.round.brokers if brokers else self.round.queries)

    def neighbours(self) -> list[Address]:
        """The neighbours in all trees: parents, children and siblings, and so many levels up and down."""
        found: list[Address] = []
        for tree in self._trees:
            if tree.position.parent is not None:
                found.append(tree.position.parent)
            found += tree.position.children
            found += [site for report in tree.reports.values() for site, _ in report.below]
            if tree.down is not None:
                found += (*tree.down.above[: self._settings.area.levels - 1], *tree.down.siblings)
        return [site for site in dict.fromkeys(found) if site != self.node.address]

    def above(self, number: int) -> tuple[Address, ...] | None:
        """The nodes between this one and the root of a tree, which comes last; None while not known."""
        tree = self._trees[number] if number < len(self._trees) else None
        if tree is None or tree.down is None:
            return None
        return () if tree.position.parent is None else (tree.position.parent, *tree.down.above)

    def hops(self, number: int) -> tuple[float, ...]:
        """How long a message takes from the parent in a tree, from the node above that to it, and so on.

        Nothing where the goal does not ask for it.
        """
        tree = self._trees[number]
        if tree.position.parent is None or tree.down is None or not self.model.by_path:
            return ()
        return (self.model.links().latency(tree.position.parent, self.node.address), *tree.down.hops)

    def critical(self) -> bool:
        """Whether the system's cost depends on this node."""
        cost = self.cost
        at_cost = not self._settings.extreme or (cost is not None and self._at_cost(self._value, cost))
        return at_cost and self.model.busy

    def breaks_constraint(self) -> bool:
        """Whether this node breaks a constraint of the goal."""
        return self.model.breaks_constraint(self.flows(), self.period)

    def flows(self) -> tuple[float, float]:
        """The bytes of sources that come in and are forwarded here in a second, by what is asked for."""
        incoming = forwarding = 0.0
        for number, tree in enumerate(self._trees):
            if tree.position.parent is not None:
                incoming += self._carried(self.shares.get(number, {}).items())
            for child in tree.position.children:
                forwarding += self._carried(self._demand.get((number, child), ()))
        return incoming, forwarding

    def _carried(self, demand: Iterable[tuple[str, int]]) -> float:
        known = ((self.rates.get(stream), share) for stream, share in demand)
        return sum(rate.bytes * min(share, WHOLE) / WHOLE for rate, share in known if rate is not None)

    def path_cost(self, number: int) -> float | None:
        """The cost of the path from a tree's root to this node; None until the parent has told its own."""
        parent = self._trees[number].position.parent if number < len(self._trees) else None
        if parent is None:
            return 0.0
        known, cost = self._parent_paths.get(number, (None, 0.0))
        return cost + self.model.link_cost(parent) if known == parent else None

    # A round begins, and ends

    def _begin(self, message: messages.RoundAnnouncement, sender: Address) -> None:
        if message.period <= self.period:
            return
        self.period, self.round = message.period, message
        self.better_nodes, self._over = {}, False
        self._trees = [TreeRound(position) for position in message.positions]
        self.model.begin_round(self.period)
        # The others have not said yet what they send in this round: what they said in the last one counts.
        self._value = self.model.value(self.flows(), self.period - 1)
        by_path = self.model.by_path
        self._contribution = self.model.path_costs(self.path_cost) if by_path else self._value
        for number, tree in enumerate(self._trees):
            self.rates.update((rate.stream, rate) for rate in self.model.source_rates(number))
            for child, report in self._early:
                if (report.period, report.tree) == (self.period, number) and child in tree.position.children:
                    tree.reports[child] = report
        self._early = []
        window = self._settings.window
        for number, tree in enumerate(self._trees):
            if not self._report_if_complete(number):
                wait = window * tree.position.levels / max(1, tree.position.height)
                self.node.wake_after(wait, "flow up", (self.period, number))
        self.node.wake_after(2 * window, "flow heard", self.period)

    def _end(self, period: int) -> None:
        """All has come, or it is too late."""
        if period == self.period and not self._over:
            self._over = True
            self._on_round_over()

    # Up

    def _report(self, report: UpwardStatistics, sender: Address) -> None:
        if report.period > self.period:
            self._early.append((sender, report))
        elif report.period == self.period and sender in self._trees[report.tree].position.children:
            self._demand[report.tree, sender] = report.demand
            tree = self._trees[report.tree]
            if not tree.reported:
                tree.reports[sender] = report
                self._report_if_complete(report.tree)

    def _report_timeout(self, about: tuple[int, int]) -> None:
        period, number = about
        if period == self.period and not self._trees[number].reported:
            self._report_up(number)

    def _report_if_complete(self, number: int) -> bool:
        tree = self._trees[number]
        if len(tree.reports) == len(tree.position.children):
            self._report_up(number)
        return tree.reported

    def _report_up(self, number: int) -> None:
        """Tell the parent what is known here and below; the root begins to tell the children."""
        tree = self._trees[number]
        tree.reported = True
        for child, report in tree.reports.items():
            self._demand[number, child] = report.demand
        shares = dict(self.model.demand(number, self.rates))
        for child in tree.position.children:
            for stream, share in self._demand.get((number, child), ()):
                shares[stream] = shares.get(stream, 0) + share
        self.shares[number] = shares
        worst, reports = self._worst(number), tree.reports.values()
        total = (self._contribution if number == 0 else 0.0) + sum(report.total for report in reports)
        if tree.position.parent is None:
            nothing_above = DownwardStatistics(self.period, number, (), worst, total, 0.0, (), (), (), ())
            self._take_down(number, nothing_above)
            return
        own = self._own_values(number)
        signed = [self._signed(one) for one in own if self.model.busy]
        children = [(child, 1) for child in tree.position.children]
        below = (*children, *((site, at + 1) for report in reports for site, at in report.below))
        report = UpwardStatistics(
            self.period,
            number,
            self._drawn([*own, *(value for report in reports for value in report.values)]),
            max([*signed, *(report.widest for report in reports)], default=-np.inf),
            worst,
            total,
            tuple(messages.StreamDemand(*each) for each in sorted(shares.items())),
            tuple(each for each in below if each[1] < self._settings.area.levels),
        )
        self.model.offer(tree.position.parent, report)

    def _worst(self, number: int) -> tuple[NodeValue, ...]:
        """The worst values here and below: only under a MIN or MAX, and in the first tree."""
        if not self._settings.extreme or number:
            return ()
        values = [NodeValue(self.node.address, self._value)]
        values += [value for report in self._trees[number].reports.values() for value in report.worst]
        sign = -1 if self._goal.cost.function is GoalFunction.MAX else 1
        return tuple(sorted(values, key=lambda one: (sign * one.value, one.site))[:WORST])

    # Down

    def _down(self, down: DownwardStatistics, sender: Address) -> None:
        if down.period != self.period:
            return
        tree = self._trees[down.tree]
        if sender == tree.position.parent and tree.down is None:
            self._parent_paths[down.tree] = sender, down.path_cost
            self.rates.update((rate.stream, rate) for rate in down.rates)
            self._take_down(down.tree, down)

    def _take_down(self, number: int, down: DownwardStatistics) -> None:
        """Take in what comes from above, and pass on to each child what some node there can use."""
        tree = self._trees[number]
        tree.down = down
        own = self._own_values(number)
        known = [*own, *down.values, *(value for up in tree.reports.values() for value in up.values)]
        if own and self.critical():
            for other in known:
                if self._signed(other) < self._signed(own[0]):
                    best = self.better_nodes.get(other.site, np.inf)
                    self.better_nodes[other.site] = min(best, self._signed(other))
        for child in tree.position.children:
            self.model.offer(child, self._to_child(number, child, known, down))
        if self.complete:
            self._end(self.period)

    def _to_child(
        self, number: int, child: Address, known: list[NodeValue], down: DownwardStatistics
    ) -> DownwardStatistics:
        tree = self._trees[number]
        report = tree.reports.get(child)
        values: tuple[NodeValue, ...] = ()
        if report is not None:
            own, limit = {value.site for value in report.values}, self._widest(report)
            values = self._drawn([one for one in known if self._signed(one) < limit and one.site not in own])
        demand = {stream for stream, _ in self._demand.get((number, child), ())}
        return down._replace(
            values=values,
            path_cost=self.path_cost(number) or 0.0,
            rates=tuple(self.rates[stream] for stream in sorted(demand & self.rates.keys())),
            above=self.above(number) or (),
            hops=self.hops(number),
            siblings=tuple(one for one in tree.position.children if one != child),
        )

    # Values

    def _own_values(self, number: int) -> list[NodeValue]:
        """This node's value in a tree, if it has one there."""
        own = None if number else self._value
        value = self.path_cost(number) if self.model.by_path else own
        return [] if value is None else [NodeValue(self.node.address, value)]

    def _signed(self, value: NodeValue) -> float:
        """The less the better, whether the goal is to minimise or to maximise."""
        return self._goal.sign * value.value

    def _at_cost(self, value: float, cost: float) -> bool:
        return abs(value - cost) <= (self._settings.slack + ROUNDING) * abs(cost)

    def _widest(self, report: UpwardStatistics) -> float:
        """Some node below can use values that are better than this one."""
        if not self._settings.extreme:
            return report.widest
        cost, sign = self.cost, self._goal.sign
        if cost is None:
            return -np.inf
        # Whether the cost is that of the worst node, as usual, or of the best.
        if (self._goal.cost.function is GoalFunction.MAX) == (sign > 0):
            return report.widest if self._at_cost(sign * report.widest, cost) else -np.inf
        return sign * cost + (self._settings.slack + ROUNDING) * abs(cost)

    def _drawn(self, values: list[NodeValue]) -> tuple[NodeValue, ...]:
        """At most `top` of these, by lottery."""
        worth = np.array([self._signed(one) for one in values], dtype=np.float64)
        return tuple(values[index] for index in drawn(self._random, worth, self._settings.top))


def statistics_rounds(
    period: int, sites: Sequence[Address], trees: Sequence[Sequence[int]], queries: int
) -> dict[Address, messages.RoundAnnouncement]:
    """What each site is sent as a period begins; trees are rows of the sites' parents.

    >>> statistics_rounds(1, [10, 20], [(-1, 0)], 5)[20].positions
    (TreePosition(root=10, parent=10, children=(), levels=0, height=1),)
    """
    positions: list[list[messages.TreePosition]] = [[] for _ in sites]
    for tree in [Tree(tuple(parents)) for parents in trees]:
        height = max(tree.depth)
        levels = [0] * len(sites)
        for site in reversed(tree.order[1:]):
            above = tree.parents[site]
            levels[above] = max(levels[above], levels[site] + 1)
        for site, row in enumerate(positions):
            parent = None if site == tree.root else sites[tree.parents[site]]
            children = tuple(sites[child] for child in tree.children[site])
            row.append(messages.TreePosition(sites[tree.root], parent, children, levels[site], height))
    rows = zip(sites, positions, strict=True)
    return {site: messages.RoundAnnouncement(period, len(sites), queries, tuple(row)) for site, row in rows}

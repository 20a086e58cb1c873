"""The statistics manager of a node: what nodes tell each other of how they are doing (003, 5.3.2 and 5.4.3).

Rules, for every period:

- The registry begins a round: it tells each broker its place in every tree of sources. A broker that is not a
  member of a tree takes part where it would join it, so that idle brokers are heard of too.
- A node has one value, that of the goal's cost over BROKERS; or, where the goal is over QUERIES, one for each
  tree: what lies between the root and the node, which is what its parent told it last, and its own link.
- Values go up to the root and down again, at most `top` over a link each way, drawn by the lottery of
  `plan.query.statistics`. Down goes only what somebody below can use: what is better than their own values
  (Table 5.2); under a MIN or MAX only those are interested whose own value is within `slack` of the cost.
- With them go up: how much of each source is asked for below, the sum of all values and the worst few, who is
  below. With them go down: the cost and the worst few, rates of the sources that are asked for, who is near.
- A round waits for nobody longer than its window, and what belongs to an earlier round is not heard: whoever
  is late, paused or gone is left out of the values, and what it asked for last still counts.

Cost: for each tree a message to the parent and one to each child, whose size depends on `top`, on the levels
of the area and on the tree's sources, and not on the number of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from distributary.overlay.node import Address, Node
from distributary.plan.goal import Goal, GoalFunction, GoalMembers
from distributary.plan.queries.graph import WHOLE
from distributary.plan.queries.statistics import drawn
from distributary.systems.queries.statistics_messages import (
    DownwardStatistics,
    NodeValue,
    StatisticsRound,
    StreamDemand,
    StreamRate,
    TreePosition,
    UpwardStatistics,
)

WORST = 10
"""Of how many of the worst nodes everybody is told, where the cost is a MIN or MAX."""
ROUNDING = 1e-9
"""The share of the cost within which a value is the cost."""


class StatisticsSettings(NamedTuple):
    """How statistics are told."""

    goal: Goal
    window: float
    top: int | None
    slack: float
    seed: int
    levels: int


class LocalStatistics(Protocol):
    """What a node knows of itself."""

    of_ways: bool
    """Whether a node's value is what lies between a tree's root and the node, or its own."""

    @property
    def busy(self) -> bool:
        """Whether anything runs or is read here."""

    def begin(self, round: StatisticsRound) -> None:
        """Take in what was measured since the last round."""

    def asked(self, tree: int) -> Mapping[str, int]:
        """How much of each source of a tree the operators here ask for."""

    def source_rates(self, tree: int) -> Iterable[StreamRate]:
        """Of the sources that this node is the root broker of."""

    def value(self) -> float:
        """The goal's cost of this node."""

    def part(self) -> float:
        """What this node contributes to a cost that is a sum."""

    def link(self, parent: Address) -> float:
        """The value of the link from a parent."""


@dataclass
class TreeRound:
    """One tree in one round."""

    position: TreePosition
    ups: dict[Address, UpwardStatistics] = field(default_factory=dict)
    told: bool = False
    """Whether the parent has been told, or at the root the children."""
    down: DownwardStatistics | None = None


class StatisticsManager:
    """The statistics manager of a node."""

    def __init__(
        self,
        node: Node,
        send: Callable[[Address, object], None],
        settings: StatisticsSettings,
        itself: LocalStatistics,
        ready: Callable[[], None],
    ) -> None:
        self.node = node
        self.period = 0
        self.round: StatisticsRound | None = None
        self.rates: dict[str, StreamRate] = {}
        """Of the sources that pass here, and those that are published here."""
        self.shares: dict[int, dict[str, int]] = {}
        """By tree, how much of each source is asked for here and below."""
        self.heard: dict[Address, float] = {}
        """Nodes that do better than this one in a tree, and their best values, the less the better."""
        self._send = send
        self._settings = settings
        self._self = itself
        self._ready = ready
        self._random = np.random.default_rng([settings.seed, node.address])
        self._trees: list[TreeRound] = []
        self._early: list[tuple[Address, UpwardStatistics]] = []
        self._ways: dict[int, tuple[Address, float]] = {}
        """By tree, what lies between the root and the parent, as the parent told it."""
        self._value = self._part = 0.0
        """Of this node in this round."""
        self._asked: dict[tuple[int, Address], tuple[StreamDemand, ...]] = {}
        """What children asked for when they were last heard of."""
        self._over = True
        node.handle(StatisticsRound, self._begin)
        node.handle(UpwardStatistics, self._up)
        node.handle(DownwardStatistics, self._down)
        node.at_alarm("flow up", self._up_at_last)
        node.at_alarm("flow heard", self._heard_at_last)

    # What came of a round

    @property
    def complete(self) -> bool:
        """Whether the round has come back from all roots."""
        return bool(self._trees) and all(tree.down is not None for tree in self._trees)

    def is_over(self, period: int) -> bool:
        """Whether a round is over here: what there is to hear in it has been heard."""
        return self.period > period or (self.period == period and self._over)

    @property
    def cost(self) -> float | None:
        """The system's cost, once it is known."""
        down = self._trees[0].down if self._trees else None
        if down is None or self.round is None:
            return None
        if self.extreme:
            return down.worst[0].value if down.worst else None
        average = self._settings.goal.cost.function is GoalFunction.AVERAGE
        return down.total / self.members if average else down.total

    @property
    def worst(self) -> tuple[NodeValue, ...]:
        """The worst nodes under a MIN or MAX, the worst first."""
        down = self._trees[0].down if self._trees else None
        return () if down is None else down.worst

    def near(self) -> list[Address]:
        """The neighbours in all trees: parents, children and siblings, and so many levels up and down."""
        found: list[Address] = []
        for tree in self._trees:
            if tree.position.parent is not None:
                found.append(tree.position.parent)
            found += tree.position.children
            found += [site for up in tree.ups.values() for site, _ in up.below]
            if tree.down is not None:
                found += (*tree.down.above[: self._settings.levels - 1], *tree.down.beside)
        return [site for site in dict.fromkeys(found) if site != self.node.address]

    def above(self, number: int) -> tuple[Address, ...] | None:
        """Who is between this node and the root of a tree, which comes last; None while that is not known."""
        tree = self._trees[number] if number < len(self._trees) else None
        if tree is None or tree.down is None:
            return None
        return () if tree.position.parent is None else (tree.position.parent, *tree.down.above)

    def critical(self) -> bool:
        """Whether the system's cost hangs on this node."""
        cost = self.cost
        at_cost = not self.extreme or (cost is not None and self._at_cost(self._value, cost))
        return at_cost and self._self.busy

    def flows(self) -> tuple[float, float]:
        """What comes in and what is forwarded here in a second of the sources, by what is asked for."""
        incoming = forwarding = 0.0
        for number, tree in enumerate(self._trees):
            if tree.position.parent is not None:
                incoming += self._carried(self.shares.get(number, {}).items())
            for child in tree.position.children:
                forwarding += self._carried(self._asked.get((number, child), ()))
        return incoming, forwarding

    def _carried(self, asked: Iterable[tuple[str, int]]) -> float:
        known = ((self.rates.get(stream), share) for stream, share in asked)
        return sum(rate.bytes * min(share, WHOLE) / WHOLE for rate, share in known if rate is not None)

    # A round begins

    def _begin(self, message: StatisticsRound, sender: Address) -> None:
        if message.period <= self.period:
            return
        self.period, self.round = message.period, message
        self.heard, self._over = {}, False
        self._trees = [TreeRound(position) for position in message.positions]
        self._self.begin(message)
        self._value, self._part = self._self.value(), self._self.part()
        for number, tree in enumerate(self._trees):
            self.rates.update((rate.stream, rate) for rate in self._self.source_rates(number))
            for child, up in self._early:
                if up.period == self.period and up.tree == number and child in tree.position.children:
                    tree.ups[child] = up
        self._early = []
        window = self._settings.window
        for number, tree in enumerate(self._trees):
            if not self._tell_parent_if_all_told(number):
                wait = window * tree.position.levels / max(1, tree.position.height)
                self.node.wake_after(wait, "flow up", (self.period, number))
        self.node.wake_after(2 * window, "flow heard", self.period)

    def _heard_at_last(self, period: int) -> None:
        if period == self.period:
            self._end()

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._ready()

    # Up

    def _up(self, up: UpwardStatistics, sender: Address) -> None:
        if up.period > self.period:
            self._early.append((sender, up))
        elif up.period == self.period and sender in self._trees[up.tree].position.children:
            self._asked[up.tree, sender] = up.asked
            tree = self._trees[up.tree]
            if not tree.told:
                tree.ups[sender] = up
                self._tell_parent_if_all_told(up.tree)

    def _up_at_last(self, about: tuple[int, int]) -> None:
        period, number = about
        if period == self.period and not self._trees[number].told:
            self._tell_parent(number)

    def _tell_parent_if_all_told(self, number: int) -> bool:
        tree = self._trees[number]
        if len(tree.ups) == len(tree.position.children):
            self._tell_parent(number)
        return tree.told

    def _tell_parent(self, number: int) -> None:
        tree = self._trees[number]
        tree.told = True
        for child, up in tree.ups.items():
            self._asked[number, child] = up.asked
        shares = dict(self._self.asked(number))
        for child in tree.position.children:
            for stream, share in self._asked.get((number, child), ()):
                shares[stream] = shares.get(stream, 0) + share
        self.shares[number] = shares
        if tree.position.parent is None:
            self._down_from(number, self._from_root(number))
        else:
            self._send(tree.position.parent, self._to_parent(number))

    def _to_parent(self, number: int) -> UpwardStatistics:
        tree = self._trees[number]
        own = self._own(number)
        held = [own] if own is not None else []
        held += [value for up in tree.ups.values() for value in up.values]
        signed = [self._signed(own)] if own is not None and self._self.busy else []
        return UpwardStatistics(
            self.period,
            number,
            self._drawn(held),
            max([*signed, *(up.widest for up in tree.ups.values())], default=-np.inf),
            self._worst(number),
            self._total(number),
            tuple(StreamDemand(*each) for each in sorted(self.shares[number].items())),
            self._below(number),
        )

    def _below(self, number: int) -> tuple[tuple[Address, int], ...]:
        tree, levels = self._trees[number], self._settings.levels
        children = [(child, 1) for child in tree.position.children]
        further = [(site, at + 1) for up in tree.ups.values() for site, at in up.below]
        return tuple(each for each in (*children, *further) if each[1] < levels)

    def _total(self, number: int) -> float:
        return (self._part if number == 0 else 0.0) + sum(up.total for up in self._trees[number].ups.values())

    def _worst(self, number: int) -> tuple[NodeValue, ...]:
        """The worst values here and below: only under a MIN or MAX, and in the first tree."""
        if not self.extreme or number:
            return ()
        held = [NodeValue(self.node.address, self._value)]
        held += [value for up in self._trees[number].ups.values() for value in up.worst]
        sign = -1 if self._settings.goal.cost.function is GoalFunction.MAX else 1
        return tuple(sorted(held, key=lambda one: (sign * one.value, one.site))[:WORST])

    # Down

    def _from_root(self, number: int) -> DownwardStatistics:
        """What nobody above the root has to say."""
        return DownwardStatistics(
            self.period, number, (), self._worst(number), self._total(number), 0.0, (), (), ()
        )

    def _down(self, down: DownwardStatistics, sender: Address) -> None:
        if down.period != self.period:
            return
        tree = self._trees[down.tree]
        if sender == tree.position.parent and tree.down is None:
            self._ways[down.tree] = sender, down.way
            self.rates.update((rate.stream, rate) for rate in down.rates)
            self._down_from(down.tree, down)

    def _down_from(self, number: int, down: DownwardStatistics) -> None:
        """Hear what comes from above, and pass on to each child what somebody there can use."""
        tree = self._trees[number]
        tree.down = down
        own = self._own(number)
        known = [own] if own is not None else []
        known += [*down.values, *(value for up in tree.ups.values() for value in up.values)]
        if own is not None and self.critical():
            for other in known:
                if self._signed(other) < self._signed(own):
                    best = self.heard.get(other.site, np.inf)
                    self.heard[other.site] = min(best, self._signed(other))
        for child in tree.position.children:
            self._send(child, self._to_child(number, child, known, down))
        if self.complete:
            self._end()

    def _to_child(
        self, number: int, child: Address, known: list[NodeValue], down: DownwardStatistics
    ) -> DownwardStatistics:
        tree = self._trees[number]
        up = tree.ups.get(child)
        values: tuple[NodeValue, ...] = ()
        if up is not None:
            there = {value.site for value in up.values}
            widest = self._widest(up)
            values = self._drawn(
                [one for one in known if self._signed(one) < widest and one.site not in there]
            )
        asked = {stream for stream, _ in self._asked.get((number, child), ())}
        rates = tuple(self.rates[stream] for stream in sorted(asked & self.rates.keys()))
        above = self.above(number) or ()
        beside = tuple(one for one in tree.position.children if one != child)
        way = self.way(number) or 0.0
        return DownwardStatistics(
            self.period, number, values, down.worst, down.total, way, rates, above, beside
        )

    # Values

    @property
    def extreme(self) -> bool:
        return self._settings.goal.cost.function.is_bottleneck

    @property
    def members(self) -> int:
        assert self.round is not None
        brokers = self._settings.goal.cost.members is GoalMembers.BROKERS
        return max(1, self.round.brokers if brokers else self.round.queries)

    def way(self, number: int) -> float | None:
        """What lies between a tree's root and this node; None while the parent has not told its own."""
        parent = self._trees[number].position.parent if number < len(self._trees) else None
        if parent is None:
            return 0.0
        known, way = self._ways.get(number, (None, 0.0))
        return way + self._self.link(parent) if known == parent else None

    def _own(self, number: int) -> NodeValue | None:
        """This node's value in a tree, if it has one there."""
        here = self.node.address
        if not self._self.of_ways:
            return NodeValue(here, self._value) if number == 0 else None
        way = self.way(number)
        return None if way is None else NodeValue(here, way)

    def _signed(self, value: NodeValue) -> float:
        """The less the better, whichever way the goal goes."""
        return self._settings.goal.sign * value.value

    def _at_cost(self, value: float, cost: float) -> bool:
        return abs(value - cost) <= (self._settings.slack + ROUNDING) * abs(cost)

    def _widest(self, up: UpwardStatistics) -> float:
        """What is better than which somebody below can use."""
        if not self.extreme:
            return up.widest
        cost = self.cost
        if cost is None:
            return -np.inf
        sign = self._settings.goal.sign
        # Whether the cost is that of the worst node, as usual, or of the best.
        if (self._settings.goal.cost.function is GoalFunction.MAX) == (sign > 0):
            return up.widest if self._at_cost(sign * up.widest, cost) else -np.inf
        return sign * cost + (self._settings.slack + ROUNDING) * abs(cost)

    def _drawn(self, held: list[NodeValue]) -> tuple[NodeValue, ...]:
        """At most `top` of these, by lottery."""
        worth = np.array([self._signed(one) for one in held], dtype=np.float64)
        return tuple(held[index] for index in drawn(self._random, worth, self._settings.top))

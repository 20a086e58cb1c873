"""Statistics of single nodes on their way along a tree, to those who want them (Table 4.3).

Rules:

- For directed rules a node that can matter wants to hear of nodes that do better than itself; every node
  tells each neighbour the widest such wish of itself and of those behind it, and gets nothing outside that.
  Told is a node's cost alone: the seed adds its link where bottlenecks count, but links are probed anyway.
- Where the system's cost is holistic, everybody hears of everybody. With `approximate` a node then broadcasts
  only once in so many periods: its weight times that number (equation 4.4), where the weight is the number of
  nodes over the size of its subtree, or, for bottlenecks, how far its own part is from the worst below it.
- Of two statistics of a node the later counts. Each passes over a link once, never back to where it came
  from. What has not been heard of for long is forgotten.

Cost: a message a link, way and period, if there is anything new.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.plan.goal.expression import GoalFunction
from distributary.systems.tree.cost_model import CostEntry, Entries, Values
from distributary.systems.tree.messages import NodeStatistic, StatisticsUpdate
from distributary.systems.tree.settings import OptimisationSettings
from distributary.systems.tree.statistics import BrokerStatistics

REMEMBERED = 30
"""So many periods a statistic is remembered that is not told again; longer where it is told more seldom."""


NO_COST = -1
"""How often a node counts that has no cost, such as the root where links count: it is better than any."""


class HeardStatistic(NamedTuple):
    """The latest that was heard of a node."""

    times: int
    """How often the node counts, or `NO_COST`."""
    values: Values
    time: float
    """When the node took it, by its own clock."""
    via: Address
    """The neighbour that it came from."""
    heard: float
    """When it came, by the clock here."""

    @property
    def entry(self) -> CostEntry:
        """The node's part in the system's cost."""
        return CostEntry(max(self.times, 0), self.values)


class StatisticsBroadcast:
    """The statistics that one node has heard, and passes on."""

    def __init__(
        self, statistics: BrokerStatistics, settings: OptimisationSettings, is_critical: Callable[[], bool]
    ) -> None:
        self.statistics = statistics
        self.tree = statistics.tree
        self.nodes = 1
        """How many there are in the tree, as the root last said."""
        self._model = statistics.model
        self._period = settings.statistics
        self._everything = self._model.holistic and self._model.along_path
        self._active = self._everything or bool(settings.directed)
        self._approximate = settings.approximate if self._everything else None
        self._is_critical = is_critical
        self._phase = 0
        self._own: HeardStatistic | None = None
        self._heard: dict[Address, HeardStatistic] = {}
        self._sent: dict[Address, dict[Address, float]] = {}
        self._wanted_by: dict[Address, float | None] = {}
        self._told_wanted: dict[Address, float | None] = {}
        self.tree.node.handle(StatisticsUpdate, self._statistics_told)

    # What has been heard.

    def better(self) -> list[Address]:
        """Nodes that are known to do better than this one, the best first."""
        own = self.statistics.ranked
        if own is None:
            return []
        ranked = [(self._rank(each), address) for address, each in self._heard.items()]
        return [address for rank, address in sorted(ranked) if rank < own]

    def _rank(self, heard: HeardStatistic) -> float:
        """A cost as it counts: less is better."""
        if heard.times == NO_COST:
            return -math.inf
        cost = self._model.cost(heard.values) if self._everything else heard.values[0]
        return -math.inf if cost is None else self._model.goal.sign * cost

    def below(self, child: Address, values: Values) -> Entries:
        """Those below a child, relative to its values; where everybody tells everybody."""
        found = [one.entry for at, one in self._heard.items() if one.via == child and at != child]
        (above,) = values
        relative = (CostEntry(times, ((own or 0.0) - (above or 0.0),)) for times, (own,) in found)
        return self._model.fewer(relative)

    def elsewhere(self) -> list[CostEntry]:
        """All that are not below this node, nor this node itself."""
        return [each.entry for each in self._heard.values() if each.via not in self.tree.children]

    def everybody(self) -> list[CostEntry]:
        """All nodes that are known, this one included."""
        return [*self.statistics.own, *(each.entry for each in self._heard.values())]

    # Telling.

    def tell(self) -> None:
        """Pass on what is new."""
        if not self._active:
            return
        self._look_at_self()
        self._forget()
        neighbours = self._neighbours()
        for known in (self._sent, self._wanted_by, self._told_wanted):
            for gone in known.keys() - set(neighbours):
                del known[gone]
        own = self.statistics.ranked if not self._everything and self._is_critical() else None
        to_tell = sorted(self._heard.items())
        if self._own is not None:
            to_tell.append((self.tree.address, self._own))
        for neighbour in neighbours:
            new = self._new_to(neighbour, to_tell)
            wanted = self._wanted_without(neighbour, own)
            if new or self._told_wanted.get(neighbour) != wanted:
                self._told_wanted[neighbour] = wanted
                self.tree.node.send(neighbour, StatisticsUpdate(new, wanted))

    def _neighbours(self) -> tuple[Address, ...]:
        above = () if self.tree.is_root or self.tree.parent is None else (self.tree.parent,)
        return (*above, *self.tree.children)

    def _look_at_self(self) -> None:
        """Take this node's own statistic anew, if it is its turn."""
        values = self.statistics.values
        if values is None:
            return
        if self._phase % self._turn() == 0:
            own, cost = self.statistics.own, self._model.cost(values)
            times = sum(each.times for each in own) if cost is not None else NO_COST
            told = values if self._everything else (cost,)
            now = self.tree.node.now
            self._own = HeardStatistic(times, told, now, self.tree.address, now)
        self._phase += 1

    def _turn(self) -> int:
        """Once in how many periods this node tells of itself."""
        if self._approximate is None or self._phase == 0:
            return 1
        return max(1, round(self._weight() * self._approximate))

    def _weight(self) -> float:
        if self._model.single in (GoalFunction.SUM, None):
            return self.nodes / self.statistics.size
        own = self.statistics.local
        rows = [own, *(each.values for each in self.statistics.below)]
        first = [values[0] for values in rows if values[0] is not None]
        worst = (min if self._model.single is GoalFunction.MIN else max)(first, default=0.0)
        return abs((own[0] or 0.0) - worst)

    def _forget(self) -> None:
        seldom = 1.0 if self._approximate is None else 3 * self.nodes * self._approximate
        oldest = self.tree.node.now - self._period * max(REMEMBERED, seldom)
        self._heard = {address: each for address, each in self._heard.items() if each.heard >= oldest}

    def _new_to(
        self, neighbour: Address, known: list[tuple[Address, HeardStatistic]]
    ) -> tuple[NodeStatistic, ...]:
        sent = self._sent.setdefault(neighbour, {})
        found: list[NodeStatistic] = []
        for address, each in known:
            if each.via == neighbour or address == neighbour or sent.get(address, -1.0) >= each.time:
                continue
            wanted = self._wanted_by.get(neighbour)
            if self._everything or (wanted is not None and self._rank(each) < wanted):
                sent[address] = each.time
                found.append(NodeStatistic(address, each.times, each.values, each.time))
        return tuple(found)

    def _wanted_without(self, neighbour: Address, own: float | None) -> float | None:
        """The widest range of costs that this node and its other neighbours want to hear of."""
        wishes = [wish for other, wish in self._wanted_by.items() if other != neighbour]
        return max((wish for wish in (own, *wishes) if wish is not None), default=None)

    def _statistics_told(self, message: StatisticsUpdate, sender: Address) -> None:
        if sender not in self._neighbours():
            return
        self._wanted_by[sender] = message.wanted
        for node, times, values, time in message.statistics:
            before = self._heard.get(node)
            if node != self.tree.address and (before is None or before.time < time):
                self._heard[node] = HeardStatistic(times, values, time, sender, self.tree.node.now)

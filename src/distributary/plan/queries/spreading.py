"""The trees by which the streams of operators spread where they have many readers (section 5.1.1).

Rules:

- The host of an operator sends its stream itself to as many sites as the fanout allows. Where these are all
  that read it, nothing else is needed.
- Of more sites the nearest to the host are served by it. Each further one, nearest first, gets the stream by
  way of a site that gets it already and serves fewer than the fanout, chosen by the preference.
- A live network follows the same preference (`systems.queries.stream_trees`). There sites join in the order
  in which they come, and trees are restructured meanwhile, so what a plan counts is an estimate of that.

Cost: the square of the sites that read a stream, once for each host and set of sites.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Goal, Number, SystemCost, names_in


class ParentPreference(Enum):
    """By what a node's parent in a tree is chosen (003, section 5.1.3)."""

    NEAREST = "the nearest member"
    SHORTEST_PATH = "the member by which the way from the root takes the least time"
    FEWEST_CHILDREN = "the member with the fewest children, and of those the nearest"


def preference_of(goal: Goal | None) -> ParentPreference:
    """The preference that serves a goal.

    >>> from distributary.plan.queries.goals import LATENCY, parse_query_goal
    >>> preference_of(parse_query_goal(LATENCY)).name
    'SHORTEST_PATH'
    """
    if goal is None:
        return ParentPreference.NEAREST
    metrics = (goal.cost, *(constraint.metric for constraint in goal.constraints))
    values = [metric.value if isinstance(metric, SystemCost) else metric for metric in metrics]
    named = {name for value in values for name in names_in(value)}
    if "fanout" in named or "node delay" in named:
        return ParentPreference.FEWEST_CHILDREN
    return ParentPreference.SHORTEST_PATH if "latency" in named else ParentPreference.NEAREST


@dataclass(frozen=True)
class StreamSpreading:
    """How streams with many readers spread."""

    fanout: int
    """How many sites one site sends a stream to, at most."""
    prefer: ParentPreference = ParentPreference.NEAREST

    def __post_init__(self) -> None:
        if self.fanout < 1:
            raise DistributaryError(f"a fanout of {self.fanout} serves nobody; give 1 or more")


class SpreadTrees:
    """The trees of streams over some sites, each made once.

    >>> row = [[abs(one - other) for other in range(5)] for one in range(5)]
    >>> SpreadTrees(StreamSpreading(fanout=2), row).parents(0, {1, 2, 3, 4})
    {1: 0, 2: 0, 3: 2, 4: 3}
    """

    def __init__(self, spreading: StreamSpreading, latency: Sequence[Sequence[Number]]) -> None:
        self.spreading = spreading
        self._latency = latency
        self._known: dict[tuple[int, frozenset[int]], Mapping[int, int]] = {}

    def parents(self, host: int, sites: Collection[int]) -> Mapping[int, int]:
        """From every site that reads a stream, but its host, to the site that sends it there."""
        key = host, frozenset(sites) - {host}
        if key not in self._known:
            self._known[key] = self._made(*key)
        return self._known[key]

    def _made(self, host: int, sites: frozenset[int]) -> Mapping[int, int]:
        fanout = self.spreading.fanout
        parents: dict[int, int] = {}
        children: Counter[int] = Counter()
        away: dict[int, Number] = {host: 0}
        """How long the way from the host takes."""
        for site in sorted(sites, key=lambda one: (self._latency[host][one], one)):
            able = [host] if children[host] < fanout else [one for one in away if children[one] < fanout]
            parent = min(able, key=lambda one: self._worth(one, site, away[one], children[one]))
            parents[site] = parent
            children[parent] += 1
            away[site] = away[parent] + self._latency[parent][site]
        return parents

    def _worth(self, parent: int, site: int, away: Number, children: int) -> tuple[Number, Number, int]:
        """What a parent is worth to a site: the less, the better."""
        distance = self._latency[parent][site]
        match self.spreading.prefer:
            case ParentPreference.NEAREST:
                return distance, 0, parent
            case ParentPreference.SHORTEST_PATH:
                return away + distance, distance, parent
            case ParentPreference.FEWEST_CHILDREN:
                return children, distance, parent


def tree_links(parents: Mapping[int, int], host: int, site: int) -> list[tuple[int, int]]:
    """The links from the host of a stream to a site of its tree, in this order.

    >>> tree_links({1: 0, 2: 0, 3: 2}, 0, 3)
    [(0, 2), (2, 3)]
    """
    links = []
    while site != host:
        links.append((parents[site], site))
        site = parents[site]
    return links[::-1]

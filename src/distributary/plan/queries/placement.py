"""Where operators run: the sites with their trees, and a host for every operator.

How data travels (section 5.1):

- Sources are grouped onto trees. A tree spans all sites, and its root publishes its sources' streams. Each
  link of a tree carries a stream once, however many below it ask for it, and not at all if nobody does.
- An operator's output is published on a tree of its own, rooted at its host. Without `spreading` the host
  sends it directly, once to every other site where somebody reads it; with it, no site sends it to more than
  the fanout, and further sites get it by way of those (`spreading`). Where producer and reader share a site,
  nothing travels.
- A replica of a partition asks for its share of a stream. A link carries as much as those beyond it ask for
  together, and never more than all of it.
- Where the network filters (`filtering`), a filter is sent only what passes it: it asks for its selectivity's
  share of what it reads, and works on that. What several filters beyond a link let pass may be the same
  items, which a network sends once; how many is not known, so what such a link carries is an upper bound.

Cost: a placement is checked in the operators.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import ceil

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Number
from distributary.plan.queries.graph import PlannedOperator, QueryWorkload, shared
from distributary.plan.queries.spreading import SpreadTrees, StreamSpreading, tree_links
from distributary.plan.trees.tree import Sites, Tree


@dataclass(frozen=True)
class Duties:
    """What a site does besides the workload: it counts for the site, and no rule moves it.

    Left out is what cannot be added up: `fanout` counts the workload's links alone, as a link that both use
    would count twice. Aggregates of LOCAL OPERATORS are of the workload's.
    """

    load: Number = 0
    """Processor cycles a second, in `node load`."""
    incoming: Number = 0
    """Bytes a second that come in from other sites, in `incoming rate`."""
    forwarding: Number = 0
    """Bytes a second that it sends to other sites, in `forwarding rate`."""
    operators: int = 0
    """How many operators it runs, in `operators`."""
    cycles: Number = 0
    """What an item costs all of them together, in processor cycles: in `node delay`."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 0:
                raise DistributaryError(f"a site's duties: {name} is {value}, and is at least 0")


NO_DUTIES = Duties()


@dataclass(frozen=True)
class SiteNetwork:
    """Sites, the trees over them, how fast they compute, and what else they do."""

    sites: Sites
    trees: tuple[Tree, ...]
    speed: Sequence[Number] = ()
    """Processor cycles a millisecond of each site; 1 where not given."""
    matching: Number = 0
    """Processor cycles that a site spends on an item for each link of a tree that it forwards on."""
    duties: Sequence[Duties] = ()
    """What each site does besides the workload; nothing where not given."""
    filtering: bool = False
    """Whether what a filter does not let pass is left out already on the way to it."""
    spreading: StreamSpreading | None = None
    """By what trees operators' streams spread; None where hosts send them straight to every reader's site."""

    def __post_init__(self) -> None:
        if not self.trees:
            raise DistributaryError("a network needs at least one tree")
        for number, tree in enumerate(self.trees):
            if len(tree.parents) != self.sites.count:
                raise DistributaryError(
                    f"tree {number} has {len(tree.parents)} sites, and there are {self.sites.count}"
                )
        for what, given in (("speed", self.speed), ("duties", self.duties)):
            if given and len(given) != self.sites.count:
                raise DistributaryError(f"{what} has {len(given)} entries for {self.sites.count} sites")
        if any(speed <= 0 for speed in self.speed):
            raise DistributaryError("every site's speed is above 0")

    def speed_of(self, site: int) -> Number:
        """How many processor cycles a millisecond a site has."""
        return self.speed[site] if self.speed else 1

    def duties_of(self, site: int) -> Duties:
        """What a site does besides the workload."""
        return self.duties[site] if self.duties else NO_DUTIES

    def asked(self, operator: PlannedOperator) -> int:
        """How much of its inputs travels to an operator, in parts of `WHOLE`, rounded up.

        It is never nothing: a filter that lets nothing pass still hears how far its inputs have come.

        >>> from distributary.plan.queries.graph import WHOLE
        >>> from distributary.plan.trees.tree import star
        >>> network = SiteNetwork(Sites(latency=[[0, 5], [5, 0]]), (star(2),), filtering=True)
        >>> network.asked(PlannedOperator("rare", "filter", (0,), selectivity=0.25)) / WHOLE
        0.25
        """
        if not self.filtering:
            return operator.share
        passing = ceil(round(operator.share * operator.usable, 6))
        return max(1, min(operator.share, passing))

    @cached_property
    def stream_trees(self) -> SpreadTrees | None:
        """The trees of operators' streams, where these spread by trees."""
        return None if self.spreading is None else SpreadTrees(self.spreading, self.sites.latency)

    def spread(self, host: int, sites: Collection[int]) -> Mapping[int, int]:
        """From every site that reads an operator's stream, but its host, to the site that sends it there.

        >>> from distributary.plan.trees.tree import star
        >>> direct = SiteNetwork(Sites(latency=[[0, 1, 2], [1, 0, 1], [2, 1, 0]]), (star(3),))
        >>> direct.spread(0, {1, 2}), replace(direct, spreading=StreamSpreading(fanout=1)).spread(0, {1, 2})
        ({1: 0, 2: 0}, {1: 0, 2: 1})
        """
        trees = self.stream_trees
        if trees is None or len(sites) <= trees.spreading.fanout:
            return {site: host for site in sites if site != host}
        return trees.parents(host, sites)

    def with_tree(self, number: int, tree: Tree) -> SiteNetwork:
        """The network in which one tree is another."""
        return replace(self, trees=(*self.trees[:number], tree, *self.trees[number + 1 :]))


@dataclass(frozen=True)
class Placement:
    """A host for every operator of a workload.

    >>> from distributary.plan.queries.graph import PlannedQuery, PlannedSource, client
    >>> from distributary.plan.trees.tree import star
    >>> network = SiteNetwork(Sites(latency=[[0, 5], [5, 0]]), (star(2),))
    >>> operators = (PlannedOperator("large", "filter", (0,)), client("ann", 1, site=1))
    >>> workload = QueryWorkload((PlannedSource("feed", 0, 100, 1),), operators, (PlannedQuery("q", (0, 1)),))
    >>> Placement(workload, network, (1, 1)).moved({0: 0}).hosts
    (0, 1)
    """

    workload: QueryWorkload
    network: SiteNetwork
    hosts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.hosts) != len(self.workload.operators):
            raise DistributaryError(f"{len(self.hosts)} hosts for {len(self.workload.operators)} operators")
        for operator, host in zip(self.workload.operators, self.hosts, strict=True):
            if not 0 <= host < self.network.sites.count:
                raise DistributaryError(f"operator {operator.name!r} is at site {host}, which is not there")
            if operator.pinned not in (None, host):
                raise DistributaryError(f"operator {operator.name!r} must stay at site {operator.pinned}")
        for source in self.workload.sources:
            if not 0 <= source.tree < len(self.network.trees):
                raise DistributaryError(
                    f"source {source.name!r} is on tree {source.tree}, which is not there"
                )

    def moved(self, changes: Mapping[int, int]) -> Placement:
        """The placement in which these operators are at these sites."""
        return replace(self, hosts=tuple(changes.get(at, host) for at, host in enumerate(self.hosts)))

    def input_rate(self, operator: int) -> Number:
        """The bytes a second that reach an operator."""
        one = self.workload.operators[operator]
        return shared(sum(map(self.workload.rate, one.inputs)), self.network.asked(one))

    def load(self, operator: int) -> Number:
        """The processor cycles a second that an operator spends on the items that reach it."""
        one = self.workload.operators[operator]
        return one.cost * shared(sum(map(self.workload.items, one.inputs)), self.network.asked(one))

    def spread(self, producer: int) -> Mapping[int, int]:
        """From every site that reads an operator's stream, but its host, to the site that sends it there."""
        readers = self.workload.readers[self.workload.stream(producer)]
        return self.network.spread(self.hosts[producer], {self.hosts[reader] for reader in readers})

    def links(self, stream: int, reader: int) -> list[tuple[int, int]]:
        """The links that a stream takes from its publisher to an operator."""
        site, producer = self.hosts[reader], self.workload.producer(stream)
        if producer is not None:
            return tree_links(self.spread(producer), self.hosts[producer], site)
        path = self.network.trees[self.workload.sources[stream].tree].path(site)
        return [(above, below) for below, above in pairwise(path)][::-1]

"""The network below an overlay: routers and links, and what the overlay's messages do to them.

Rules:

- Nodes are attached to routers, each by a line of its own. A message between two nodes takes the shortest
  path; an `Underlay` is also a latency model, so that delays and paths agree.
- *Stress* of a link: how many copies of the same payload cross it, that is, messages of one operation. The
  direct way, were every link crossed once, has stress 1.
- *Stretch* of a delivery: the length of the way it took, from node to node, over that of the direct way from
  its publisher.
- A generated topology is transit-stub shaped, as internetworks are: a few transit domains in the middle,
  stub domains around each of their routers, nodes in the stubs.

Cost: one Dijkstra for each router at which somebody stands, E log V, made when first needed and kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise, product
from math import inf, isfinite
from pathlib import Path
from random import Random
from typing import TypeVar

from distributary.errors import DistributaryError
from distributary.overlay.courier import Ack
from distributary.overlay.node import Address, Message
from distributary.sim.latency import Latency
from distributary.sim.simulator import Cause, DeliveredItem, Observer

T = TypeVar("T")

Edge = tuple[str, str, float]
"""Two routers, and the milliseconds that the link between them takes, one way."""

Link = tuple[str, str]
"""Two ends of a link of the underlay, in the order of their names."""

LINE = 1.0
"""Milliseconds that the line from a node to its router takes."""


class Underlay(Latency):
    """Routers and links, with the nodes of an overlay at some of them.

    >>> below = Underlay([("a", "b", 10), ("b", "c", 20), ("a", "c", 50)], seed=1, places={1: "a", 2: "c"})
    >>> below.path(1, 2)
    (('a', 'node 1'), ('a', 'b'), ('b', 'c'), ('c', 'node 2'))
    >>> below.delay(0.0, 1, 2, "")
    0.032
    """

    def __init__(
        self,
        edges: Iterable[Edge],
        *,
        seed: int,
        places: Mapping[Address, str] | None = None,
        homes: Sequence[str] | None = None,
    ) -> None:
        """Nodes stand where `places` says, the others at one of `homes` (all routers) drawn by the seed."""
        super().__init__()
        self._links = _links_of(edges)
        self.routers: tuple[str, ...] = tuple(sorted(self._links))
        self._homes = tuple(homes) if homes else self.routers
        self._seed = seed
        self._places: dict[Address, str] = dict(places or {})
        for address, router in self._places.items():
            if router not in self._links:
                raise DistributaryError(f"node {address} is to stand at {router!r}, which has no link")
        self._trees: dict[str, dict[str, tuple[float, str]]] = {}
        self._lengths: dict[tuple[Address, Address], float] = {}
        self._paths: dict[tuple[Address, Address], tuple[Link, ...]] = {}

    @classmethod
    def transit_stub(cls, *, seed: int) -> Underlay:
        """Draw an internetwork of 4 transit domains of 4 routers, each with 3 stubs of 8 routers."""
        edges = list(_transit_stub(Random(f"{seed}/transit-stub")))
        homes = {end for edge in edges for end in edge[:2] if end.startswith("stub")}
        return cls(edges, seed=seed, homes=sorted(homes))

    @classmethod
    def read(cls, path: str | Path, *, seed: int, places: Mapping[Address, str] | None = None) -> Underlay:
        """Read a file of links: on each line two routers and milliseconds, with commas or blanks between.

        Empty lines, and what follows a #, are skipped.
        """
        return cls(_read_edges(Path(path)), seed=seed, places=places)

    def router(self, address: Address) -> str:
        """Where a node stands."""
        router = self._places.get(address)
        if router is None:
            router = Random(f"{self._seed}/router/{address}").choice(self._homes)
            self._places[address] = router
        return router

    def delay(self, now: float, sender: Address, to: Address, message: Message) -> float:
        return self.length(sender, to)

    def length(self, one: Address, other: Address) -> float:
        """Seconds that the shortest way between two nodes takes."""
        known = self._lengths.get((one, other))
        if known is None:
            known = 0.0
            if one != other:
                known = (self._tree(self.router(one))[self.router(other)][0] + 2 * LINE) / 1000
            self._lengths[one, other] = known
        return known

    def path(self, one: Address, other: Address) -> tuple[Link, ...]:
        """The links of the shortest way between two nodes, their own lines included."""
        known = self._paths.get((one, other))
        if known is None:
            known = self._paths[one, other] = tuple(self._walk(one, other))
        return known

    def _walk(self, one: Address, other: Address) -> Iterator[Link]:
        if one == other:
            return
        tree, at = self._tree(self.router(one)), self.router(other)
        way = [f"node {other}", at]
        while at != self.router(one):
            at = tree[at][1]
            way.append(at)
        way.append(f"node {one}")
        for end, start in pairwise(way[::-1]):
            yield (end, start) if end < start else (start, end)

    def _tree(self, root: str) -> dict[str, tuple[float, str]]:
        """For every router its distance from the root and the router before it on the way."""
        known = self._trees.get(root)
        if known is None:
            known = self._trees[root] = _shortest_paths(self._links, root)
        return known


class UnderlayLoad(Observer):
    """Measures the link stress and stretch of publications, acknowledgements left out."""

    def __init__(self, underlay: Underlay) -> None:
        self._underlay = underlay
        self._hops: dict[Cause, Counter[tuple[Address, Address]]] = {}
        self._starts: dict[Cause, Address] = {}
        self._reached: dict[Cause, dict[Address, float]] = {}
        self.stretches: list[float] = []
        """Of each delivery away from its publisher, in the order of time."""

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        if not (isinstance(cause, tuple) and cause[0] == "publish") or isinstance(message, Ack):
            return
        self._hops.setdefault(cause, Counter())[sender, to] += 1
        self._starts.setdefault(cause, sender)
        reached = self._reached.setdefault(cause, {self._starts[cause]: 0.0})
        length = reached.get(sender, 0.0) + self._underlay.length(sender, to)
        # Delays follow lengths: of several ways to a node, the shortest is the first to arrive.
        reached[to] = min(length, reached.get(to, inf))

    def delivered(self, delivered: DeliveredItem) -> None:
        cause, address = delivered.cause, delivered.address
        start = self._starts.get(cause)
        if start is None or address == start:
            return
        self.stretches.append(self._reached[cause][address] / self._underlay.length(start, address))

    def stress(self, cause: Cause) -> Counter[Link]:
        """How many copies of an operation's payload crossed each link that was crossed at all."""
        copies: Counter[Link] = Counter()
        for (sender, to), count in self._hops.get(cause, {}).items():
            for link in self._underlay.path(sender, to):
                copies[link] += count
        return copies

    def summary(self) -> UnderlayCost:
        """The means over all operations seen."""
        stresses = [self.stress(cause) for cause in self._hops]
        crossed = [stress for stress in stresses if stress]
        return UnderlayCost(
            operations=len(crossed),
            stress=_mean([sum(stress.values()) / len(stress) for stress in crossed]),
            largest_stress=max((max(stress.values()) for stress in crossed), default=0),
            stretch=_mean(self.stretches),
            largest_stretch=max(self.stretches, default=0.0),
        )


@dataclass(frozen=True)
class UnderlayCost:
    """Link stress and stretch of operations on an underlay."""

    operations: int
    stress: float
    """Copies on a link that is crossed: the mean of an operation, and of those the mean."""
    largest_stress: int
    stretch: float
    """The mean over deliveries."""
    largest_stretch: float


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _links_of(edges: Iterable[Edge]) -> dict[str, list[tuple[str, float]]]:
    """The neighbours of every router; of several links between two routers, the quickest."""
    quickest: dict[tuple[str, str], float] = {}
    for one, other, milliseconds in edges:
        if not (isfinite(milliseconds) and milliseconds > 0):
            raise DistributaryError(
                f"the link from {one} to {other} takes more than 0 ms, not {milliseconds:g}"
            )
        if one == other:
            raise DistributaryError(f"a link leads from {one} to itself")
        ends = (one, other) if one < other else (other, one)
        quickest[ends] = min(milliseconds, quickest.get(ends, inf))
    if not quickest:
        raise DistributaryError("an underlay has at least one link")
    links: dict[str, list[tuple[str, float]]] = {}
    for (one, other), milliseconds in sorted(quickest.items()):
        links.setdefault(one, []).append((other, milliseconds))
        links.setdefault(other, []).append((one, milliseconds))
    start = min(links)
    apart = sorted(links.keys() - _shortest_paths(links, start).keys())
    if apart:
        raise DistributaryError(f"no way leads from {start} to {apart[0]}: the links must join all routers")
    return links


def _shortest_paths(links: Mapping[str, list[tuple[str, float]]], root: str) -> dict[str, tuple[float, str]]:
    """Dijkstra; of equally long ways, the one by the router whose name comes first."""
    tree: dict[str, tuple[float, str]] = {}
    due: list[tuple[float, str, str]] = [(0.0, root, root)]
    while due:
        length, before, router = heappop(due)
        if router in tree:
            continue
        tree[router] = (length, before)
        for neighbour, milliseconds in links[router]:
            if neighbour not in tree:
                heappush(due, (length + milliseconds, router, neighbour))
    return tree


def _transit_stub(random: Random) -> Iterator[Edge]:
    """Draw the links of an internetwork.

    Delays are those usual for such topologies: tens of milliseconds between transit domains, ten within one,
    a few towards and within stubs.
    """
    transit = [[f"{domain}.{router}" for router in range(4)] for domain in range(4)]
    for one, other in _connected(transit, 0.5, random):
        ends = f"transit {random.choice(one)}", f"transit {random.choice(other)}"
        yield (*ends, random.uniform(20, 80))
    for domain in transit:
        for first, second in _connected(domain, 0.5, random):
            yield f"transit {first}", f"transit {second}", random.uniform(5, 15)
        for gateway, stub in product(domain, range(3)):
            routers = [f"stub {gateway}.{stub}.{router}" for router in range(8)]
            yield f"transit {gateway}", random.choice(routers), random.uniform(2, 10)
            for first, second in _connected(routers, 0.3, random):
                yield first, second, random.uniform(1, 5)


def _connected(things: list[T], probability: float, random: Random) -> Iterator[tuple[T, T]]:
    """Pairs that join all things, and others with this probability."""
    for number in range(1, len(things)):
        known = random.randrange(number)
        for other in range(number):
            if other == known or random.random() < probability:
                yield things[other], things[number]


def _read_edges(path: Path) -> list[Edge]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise DistributaryError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DistributaryError(f"{path}: is no text: {error}") from None
    edges: list[Edge] = []
    for number, line in enumerate(lines, start=1):
        cells = [cell for cell in re.split(r"[,\s]+", line.partition("#")[0].strip()) if cell]
        if cells:
            edges.append(_read_edge(f"{path}:{number}", cells))
    if not edges:
        raise DistributaryError(f"{path}: has no link; each line names two routers and milliseconds")
    return edges


def _read_edge(place: str, cells: list[str]) -> Edge:
    if len(cells) != 3:
        raise DistributaryError(
            f"{place}: two routers and milliseconds are expected, not {len(cells)} things"
        )
    one, other, text = cells
    try:
        milliseconds = float(text)
    except ValueError:
        milliseconds = inf
    if not (isfinite(milliseconds) and milliseconds > 0):
        raise DistributaryError(f"{place}: {text!r} is no time; milliseconds above 0 are expected")
    if one == other:
        raise DistributaryError(f"{place}: a link leads from {one} to itself")
    return one, other, milliseconds

"""A dissemination tree over sites, and what is known of the sites and of the links between them.

Rules:

- Sites are numbered from 0. A tree is the row of their parents; the root's parent is `NO_PARENT`.
- A tree never changes: a change makes another tree, and one that would be no tree is refused.
- Matrices are read `[from][to]`: the link from a parent to its child. Numbers are whatever the caller gave
  (floats, integers, fractions), so that costs can be exact.
- Interest is a row of streams for each site, as the bits of a number: what the clients there want.

Cost: making a tree is linear in its sites; everything derived is computed once, when first asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from random import Random

from distributary.errors import DistributaryError

NO_PARENT = -1

Number = int | float | Fraction
Matrix = Sequence[Sequence[Number]]


@dataclass(frozen=True)
class Sites:
    """What is known of the sites. Whatever is not given is as if it cost nothing and nobody wanted anything.

    `clients` counts each site's clients; `processing` is the time a site takes over a message for each child
    and client it matches it against; `interest` holds each site's streams as bits, `rates` a stream's rate.
    """

    latency: Matrix
    bandwidth: Matrix = ()
    clients: Sequence[int] = ()
    processing: Sequence[Number] = ()
    interest: Sequence[int] = ()
    rates: Sequence[Number] = ()
    names: Sequence[str] = ()
    counts: Sequence[int] = ()
    """How often each site's cost counts, whoever the goal aggregates over: where one site stands for many."""
    link_metrics: Mapping[str, Matrix] = field(default_factory=dict)
    """Metrics of links that the user has measured, by name (`metrics.measured`)."""
    site_metrics: Mapping[str, Sequence[Number]] = field(default_factory=dict)
    """The same of sites."""

    def __post_init__(self) -> None:
        matrices = {"latency": self.latency, "bandwidth": self.bandwidth, **self.link_metrics}
        for what, matrix in matrices.items():
            if matrix and (len(matrix) != self.count or any(len(row) != self.count for row in matrix)):
                raise DistributaryError(
                    f"the {what} matrix must have {self.count} rows of {self.count} values"
                )
        rows = {
            what: getattr(self, what) for what in ("clients", "processing", "interest", "names", "counts")
        }
        for what, given in {**rows, **self.site_metrics}.items():
            if given and len(given) != self.count:
                raise DistributaryError(f"{what} has {len(given)} entries for {self.count} sites")

    @property
    def count(self) -> int:
        """How many sites there are."""
        return len(self.latency)

    def name(self, site: int) -> str:
        """A site's name, or its number if names were not given."""
        return self.names[site] if self.names else str(site)

    def rate_of(self, streams: int) -> Number:
        """The rate of the streams whose bits are set, taken together."""
        total: Number = 0
        while streams:
            lowest = streams & -streams
            total += self.rates[lowest.bit_length() - 1]
            streams ^= lowest
        return total


@dataclass(frozen=True)
class Tree:
    """The parent of every site.

    >>> tree = Tree((NO_PARENT, 0, 0, 1))
    >>> tree.children[0], tree.subtree(1), tree.path(3)
    ((1, 2), [1, 3], [3, 1, 0])
    >>> tree.changed({3: 2}).parents
    (-1, 0, 0, 2)
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        roots = [site for site, parent in enumerate(self.parents) if parent == NO_PARENT]
        if len(roots) != 1:
            raise DistributaryError(f"a tree has one root, not {len(roots)}")
        outside = [parent for parent in self.parents if not NO_PARENT <= parent < len(self.parents)]
        if outside:
            raise DistributaryError(f"there is no site {outside[0]} to be a parent")
        if len(self.order) != len(self.parents):
            lost = sorted(set(range(len(self.parents))) - set(self.order))
            raise DistributaryError(f"sites {lost[:5]} cannot be reached from the root {roots[0]}")

    @cached_property
    def root(self) -> int:
        """The site without a parent."""
        return self.parents.index(NO_PARENT)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Every site's children, by number."""
        rows: list[list[int]] = [[] for _ in self.parents]
        for site, parent in enumerate(self.parents):
            if parent != NO_PARENT:
                rows[parent].append(site)
        return tuple(map(tuple, rows))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Every site after its parent, and every subtree in one piece (a walk in depth first)."""
        walk: list[int] = []
        waiting = [self.root]
        while waiting:
            site = waiting.pop()
            walk.append(site)
            waiting.extend(reversed(self.children[site]))
        return tuple(walk)

    @cached_property
    def position(self) -> tuple[int, ...]:
        """Where each site stands in `order`."""
        places = [0] * len(self.parents)
        for place, site in enumerate(self.order):
            places[site] = place
        return tuple(places)

    @cached_property
    def size(self) -> tuple[int, ...]:
        """How many sites each site's subtree holds, itself included."""
        sizes = [1] * len(self.parents)
        for site in reversed(self.order[1:]):
            sizes[self.parents[site]] += sizes[site]
        return tuple(sizes)

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """How many links each site is away from the root."""
        depths = [0] * len(self.parents)
        for site in self.order[1:]:
            depths[site] = depths[self.parents[site]] + 1
        return tuple(depths)

    def subtree(self, site: int) -> list[int]:
        """The site and everything below it."""
        start = self.position[site]
        return list(self.order[start : start + self.size[site]])

    def below(self, site: int, ancestor: int) -> bool:
        """Whether the site is in the ancestor's subtree (every site is in its own)."""
        start = self.position[ancestor]
        return start <= self.position[site] < start + self.size[ancestor]

    def path(self, site: int) -> list[int]:
        """The sites from this one up to the root."""
        row = []
        while site != NO_PARENT:
            row.append(site)
            site = self.parents[site]
        return row

    def changed(self, changes: Mapping[int, int]) -> Tree:
        """The tree in which these sites have these parents.

        Only what changed is checked and derived anew: this is done for every rewrite that is weighed.
        """
        count = len(self.parents)
        parents = list(self.parents)
        for site, parent in changes.items():
            parents[site] = parent
        if self.root in changes or not all(0 <= parent < count for parent in changes.values()):
            return Tree(tuple(parents))
        for site in changes:
            above, steps = parents[site], 0
            while above != self.root:
                above, steps = parents[above], steps + 1
                if steps > count:
                    raise DistributaryError(f"site {site} under {changes[site]} would be below itself")
        children = list(self.children)
        for site, parent in changes.items():
            before = self.parents[site]
            children[before] = tuple(child for child in children[before] if child != site)
            if site not in children[parent]:
                children[parent] = tuple(sorted((*children[parent], site)))
        tree = object.__new__(Tree)
        tree.__dict__.update(parents=tuple(parents), root=self.root, children=tuple(children))
        return tree


def star(count: int, root: int = 0) -> Tree:
    """Every site directly under the root."""
    return Tree(tuple(NO_PARENT if site == root else root for site in range(count)))


def random_tree(count: int, random: Random, root: int = 0, fanout: int | None = None) -> Tree:
    """Sites join in random order, each under a random one of those that are in and have room."""
    if fanout is not None and fanout < 1 < count:
        raise DistributaryError(f"no tree of {count} sites has at most {fanout} children a site")
    parents = [NO_PARENT] * count
    joining = [site for site in range(count) if site != root]
    random.shuffle(joining)
    most = math.inf if fanout is None else fanout
    room = {root: most}
    for site in joining:
        parent = parents[site] = random.choice(list(room))
        room[parent] -= 1
        if not room[parent]:
            del room[parent]
        room[site] = most
    return Tree(tuple(parents))

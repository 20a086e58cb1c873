"""Where on a ring the values of an attribute belong: three hashes behind one interface.

An *axis* is a named row of cells, the finite domain of an attribute in order. A placement says under which
keys a run of cells is stored and under which key one cell is looked up:

- `ScatteredPlacement`: Chord's hash of each value. Load is spread by chance; a range has as many keys as
  values, all over the ring, and each is reached by a route of its own.
- `OrderedPlacement`: the order-preserving hash of 004 section 4.1. A range lies along successive nodes and is
  walked node by node. Values that are asked for often burden their neighbourhood, and with fewer values than
  nodes the walk passes nodes that hold nothing.
- `ArcPlacement`: order-preserving and balanced. The cells are divided into arcs of equal weight by how often
  they were asked for, and each arc lies on a node of its own, the next arc on the next node: no node between
  holds nothing, and no node holds many times its share. A cell that alone outweighs an arc lies on several
  nodes, of which an event asks one. A range is stored once for each arc that it touches.

Whatever the placement: the key under which a cell is looked up is among those of every run that holds it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, NamedTuple, Protocol

from distributary.overlay.ring.circle import Circle

MOST_GRAINS = 4096
UNSEEN = 0.1
"""The share of the weight that goes to cells that nobody asked for."""


class AttributeAxis(NamedTuple):
    """The domain of an attribute: how many cells it has, in order."""

    name: str
    cells: int

    @property
    def grains(self) -> int:
        """How many groups of cells are told apart when weights are taken: all cells, or a few thousand."""
        return min(self.cells, MOST_GRAINS)

    def grain_of(self, cell: int) -> int:
        """The grain that a cell belongs to."""
        return cell * self.grains // self.cells

    def first_of(self, grain: int) -> int:
        """The first cell of a grain."""
        return -(-grain * self.cells // self.grains)


class Spread(Enum):
    """How a run of cells reaches the nodes that store it."""

    EACH = "a route for each key"
    WALK = "a route to the first key, then from node to node"
    JUMP = "one message that divides on its way to the keys"


Version = tuple[int, int]
"""Which of the placements of an axis: counted up, and by whom, for two may count at once."""

FIRST: Version = (0, 0)


class StoredRun(NamedTuple):
    """A key and the cells of a run that are stored there."""

    key: int
    first: int
    last: int


class AttributePlacement(Protocol):
    """Where the cells of one axis belong."""

    @property
    def spread(self) -> Spread:
        """How a run of cells reaches the nodes that store it."""

    @property
    def version(self) -> Version:
        """Which of the placements of the axis this is."""

    def stored(self, first: int, last: int) -> Iterator[StoredRun]:
        """The keys under which a run of cells is stored, in its order; by default one for each cell."""
        return (StoredRun(self.key(cell, 0), cell, cell) for cell in range(first, last + 1))

    def key(self, cell: int, choice: int) -> int:
        """The key under which a cell is looked up; the choice is any number, and spreads what is alike."""


PlacementFactory = Callable[[Circle, AttributeAxis], AttributePlacement]
"""Makes the first placement of an axis."""


def point_key(circle: Circle, name: str, point: str) -> int:
    """Where a single value without an order belongs, whatever the placement."""
    return circle.hash(f"{name}={point}")


@dataclass(frozen=True)
class ScatteredPlacement(AttributePlacement):
    """Chord's own hash of each value."""

    spread: ClassVar[Spread] = Spread.EACH

    circle: Circle
    axis: AttributeAxis
    version: Version = FIRST

    def key(self, cell: int, choice: int) -> int:
        """The hash of name and value."""
        return self.circle.hash(f"{self.axis.name}={cell}")


@dataclass(frozen=True)
class OrderedPlacement(AttributePlacement):
    """The order-preserving hash of 004 section 4.1; the attribute's name decides where it begins.

    As the formula has it, the maximum falls on the key of the minimum.

    >>> placement = OrderedPlacement(Circle(3), AttributeAxis("a", 9))
    >>> [placement.key(cell, 0) for cell in range(9)]
    [4, 5, 6, 7, 0, 1, 2, 3, 4]
    """

    circle: Circle
    axis: AttributeAxis
    spread: Spread = Spread.WALK
    """A walk, as in the paper; with a jump no node between two values is visited."""
    version: Version = FIRST

    def key(self, cell: int, choice: int) -> int:
        """As far round the ring from the name's hash as the cell is along the axis."""
        steps = max(self.axis.cells - 1, 1)
        return self.circle.add(self.circle.hash(self.axis.name), cell * self.circle.size // steps)


@dataclass(frozen=True)
class ArcPlacement(AttributePlacement):
    """Arcs of cells on keys that follow one another; `evenly` and `balanced` make them.

    >>> arcs = ArcPlacement.evenly(Circle(3), AttributeAxis("a", 8), arcs=4)
    >>> [tuple(run) for run in arcs.stored(1, 4)], arcs.key(3, 0)     # key, first and last cell
    ([(4, 0, 1), (6, 2, 3), (0, 4, 5)], 6)
    """

    spread: ClassVar[Spread] = Spread.JUMP

    circle: Circle
    axis: AttributeAxis
    starts: tuple[int, ...]
    """The first cell of each arc, ascending from 0."""
    copies: tuple[int, ...]
    """On how many keys each arc lies."""
    keys: tuple[int, ...]
    """The keys of the first arc, then of the second, and so on, clockwise."""
    version: Version = FIRST

    @cached_property
    def _places(self) -> tuple[int, ...]:
        """For each arc, and one more, where its keys begin among `keys`."""
        return (0, *accumulate(self.copies))

    @classmethod
    def evenly(cls, circle: Circle, axis: AttributeAxis, arcs: int = 256) -> ArcPlacement:
        """What to begin with, when nothing is known of nodes and values: arcs alike, all round the ring."""
        count = min(arcs, axis.cells)
        begin = circle.hash(axis.name)
        return cls(
            circle,
            axis,
            tuple(number * axis.cells // count for number in range(count)),
            (1,) * count,
            tuple(circle.add(begin, number * circle.size // count) for number in range(count)),
        )

    @classmethod
    def balanced(
        cls,
        circle: Circle,
        axis: AttributeAxis,
        nodes: Sequence[int],
        weights: Mapping[int, CellWeight],
        *,
        version: Version,
        most_copies: int = 8,
    ) -> ArcPlacement:
        """Arcs of equal weight on these nodes, beginning where the attribute's name says."""
        divided = divide(axis, len(nodes), weights, most_copies)
        ring = sorted(nodes)
        begin = bisect_right(ring, circle.hash(axis.name))
        keys = tuple(ring[(begin + place) % len(ring)] for place in range(sum(divided.values())))
        return cls(circle, axis, tuple(divided), tuple(divided.values()), keys, version)

    def stored(self, first: int, last: int) -> Iterator[StoredRun]:
        """As many keys as the arcs that the run touches have, each with all cells of its arc."""
        low, high = bisect_right(self.starts, first) - 1, bisect_right(self.starts, last)
        for arc in range(low, high):
            start = self.starts[arc]
            end = self.starts[arc + 1] - 1 if arc + 1 < len(self.starts) else self.axis.cells - 1
            for key in self.keys[self._places[arc] : self._places[arc + 1]]:
                yield StoredRun(key, start, end)

    def key(self, cell: int, choice: int) -> int:
        """One of the keys of the cell's arc."""
        arc = bisect_right(self.starts, cell) - 1
        return self.keys[self._places[arc] + choice % self.copies[arc]]


class CellWeight(NamedTuple):
    """How much a cell was asked for: by events, and by subscriptions."""

    lookups: int = 0
    entries: int = 0


def divide(
    axis: AttributeAxis, nodes: int, weights: Mapping[int, CellWeight], most_copies: int
) -> dict[int, int]:
    """The first cell of each arc and on how many keys it lies, about as many keys in all as there are nodes.

    Weights are by grain. Lookups and entries count alike, each as a share of their sum. A grain that draws
    several times the lookups of a node, or of a grain where these are fewer, is an arc of its own on several
    keys: that divides its lookups, though not its entries.

    >>> divide(AttributeAxis("a", 6), 6, {2: CellWeight(lookups=6), 4: CellWeight(lookups=4)}, most_copies=8)
    {0: 1, 2: 3, 3: 1, 4: 2, 5: 1}
    """
    lookups = sum(weight.lookups for weight in weights.values()) or 1
    entries = sum(weight.entries for weight in weights.values()) or 1
    copies = {
        grain: count
        for grain, weight in weights.items()
        if (count := min(weight.lookups * min(nodes, axis.grains) // lookups, most_copies)) > 1
    }
    heavy = {
        grain: weight.lookups / lookups + weight.entries / entries
        for grain, weight in weights.items()
        if grain not in copies
    }
    # Cells that nobody asked for get a little room as well.
    little = UNSEEN * (sum(heavy.values()) or 1.0) / axis.grains
    share = (sum(heavy.values()) + little * axis.grains) / max(nodes - sum(copies.values()), 1)
    arcs: dict[int, int] = {}
    so_far, arc = 0.0, -1
    for grain in range(axis.grains):
        if grain in copies:
            arcs[axis.first_of(grain)] = copies[grain]
            arc = -1
            continue
        weight = heavy.get(grain, 0.0) + little
        of_share = int((so_far + weight / 2) / share)
        if of_share != arc:
            arcs[axis.first_of(grain)] = 1
            arc = of_share
        so_far += weight
    return arcs

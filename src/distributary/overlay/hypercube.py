"""An ordered hypercube of keys, its spanning trees, and where its vertices stand on a ring.

A key is a bit vector, and one key *covers* another when it has all its bits. The keys of `dimension` bits are
the vertices of a hypercube; neighbours differ in one bit, and of two neighbours the one with the bit covers
the other. So what a key covers is a hypercube below it, what covers it a hypercube above it, and a message
reaches either without meeting a vertex twice along a spanning tree (001 section 4.4):

- Down, from a root, a vertex passes on to those that it gets by clearing one of its bits below the bit by
  which the message came; at the root, any of its bits (Equation 4.2).
- Up is the same with the roles of 0 and 1 exchanged (Algorithm 1).
- A message needs to carry the vertex it comes from and nothing else of its way.

Rules for standing on a ring (section 5.4): every vertex is a *virtual node*, hosted by the owner of its
position. The leading bits of a position are those of the vertex, so a node that owns a stretch of the circle
hosts vertices that share leading bits; the trees change leading bits first, so what one node hosts is a whole
branch, entered once. Setting bit i is a step of 2^i clockwise, which is a finger of Chord; `mirrored` makes
clearing a bit such a step instead.

Reaching h vertices takes h - 1 messages, at most as deep as the root's weight (Theorem 1; on the way up, as
the number of its zeros), and a vertex sends at most as many as it has such bits (Theorem 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.overlay.ring.circle import Circle

Key = int
"""A bit vector; bit i of it is bit i of the number."""


def covers(key: Key, other: Key) -> bool:
    """Whether a key has every bit of another.

    >>> covers(0b1101, 0b0101), covers(0b1101, 0b0010)
    (True, False)
    """
    return not other & ~key


def covered_keys(key: Key) -> Iterator[Key]:
    """Every key that this one covers, itself first: for an event, where subscriptions to it may be.

    >>> [f"{covered:04b}" for covered in covered_keys(0b1101)]
    ['1101', '1100', '1001', '1000', '0101', '0100', '0001', '0000']
    """
    covered = key
    while covered:
        yield covered
        covered = (covered - 1) & key
    yield 0


def bits_of(mask: int) -> Iterator[int]:
    """The places of the bits that are set, from the lowest.

    >>> list(bits_of(0b1010))
    [1, 3]
    """
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def bit_between(vertex: Key, neighbour: Key) -> int:
    """The bit in which two neighbours differ; an error when they are no neighbours."""
    difference = vertex ^ neighbour
    if difference.bit_count() != 1:
        raise DistributaryError(f"{vertex:b} and {neighbour:b} are no neighbours in a hypercube")
    return difference.bit_length() - 1


def branch_below(vertex: Key, came_from: Key | None = None) -> Key:
    """The bits that a vertex, and those further down, may clear in what goes down: they make up its branch.

    >>> f"{branch_below(0b1011):04b}", f"{branch_below(0b0011, came_from=0b1011):04b}"
    ('1011', '0011')
    >>> f"{branch_below(0b1010, came_from=0b1011):04b}"
    '0000'
    """
    return vertex if came_from is None else vertex & ((1 << bit_between(vertex, came_from)) - 1)


def children_below(vertex: Key, came_from: Key | None = None) -> Iterator[Key]:
    """To whom a vertex passes on what goes down; it is the root when it came from nowhere (Equation 4.2).

    >>> [f"{child:04b}" for child in children_below(0b1011)]          # Figure 4.6
    ['1010', '1001', '0011']
    >>> [f"{child:04b}" for child in children_below(0b0011, came_from=0b1011)]
    ['0010', '0001']
    """
    return (vertex ^ (1 << bit) for bit in bits_of(branch_below(vertex, came_from)))


def children_above(vertex: Key, dimension: int, came_from: Key | None = None) -> Iterator[Key]:
    """To whom a vertex passes on what goes up (Algorithm 1).

    >>> [f"{child:04b}" for child in children_above(0b0100, 4)]
    ['0101', '0110', '1100']
    >>> [f"{child:04b}" for child in children_above(0b0110, 4, came_from=0b0100)]
    ['0111']
    """
    limit = dimension if came_from is None else bit_between(vertex, came_from)
    return (vertex | (1 << bit) for bit in bits_of(~vertex & ((1 << limit) - 1)))


class CubeVertex(NamedTuple):
    """A vertex of one of the cubes that stand on a ring: of which dimension (by rank), and which facet."""

    vertex: Key
    facet: int = 0
    rank: int = 0


@dataclass(frozen=True)
class Cubes:
    """Hypercubes on a ring: of one or several dimensions, and of each of them one or several *facets*.

    Facets are cubes of one shape, each turned by another part of the circle.

    >>> cubes = Cubes((4,), Circle(8))
    >>> cubes.position(CubeVertex(0b1011)), cubes.place(0b10110000)
    (176, CubeVertex(vertex=11, facet=0, rank=0))
    """

    dimensions: tuple[int, ...]
    circle: Circle
    mirrored: bool = False
    facets: int = 1

    def __post_init__(self) -> None:
        bits = self.circle.bits
        if not all(1 <= dimension <= bits for dimension in self.dimensions):
            raise DistributaryError(
                f"a hypercube on a circle of {bits} bits has 1 to as many dimensions, not {self.dimensions}"
            )
        room, cubes = 1 << bits - max(self.dimensions), len(self.dimensions) * self.facets
        if not 1 <= cubes <= room:
            raise DistributaryError(
                f"{cubes} cubes of up to {max(self.dimensions)} dimensions do not fit on a circle of {bits} "
                f"bits; take 1 to {room}, or a longer circle"
            )

    def dimension(self, place: CubeVertex) -> int:
        """The dimension of the cube that a vertex belongs to."""
        return self.dimensions[place.rank]

    def position(self, place: CubeVertex) -> int:
        """Where a vertex stands. Cubes differ in the trailing bits, so no two vertices share a position."""
        vertex, facet, rank = place
        dimension = self.dimensions[rank]
        every = (1 << dimension) - 1
        turn = facet * (1 << dimension) // self.facets
        turned = (vertex ^ every if self.mirrored else vertex) + turn & every
        return self.circle.add(turned << self.circle.bits - dimension, -(rank * self.facets + facet))

    def place(self, position: int) -> CubeVertex:
        """Which vertex stands at a position."""
        number = -position & ((1 << self.circle.bits - max(self.dimensions)) - 1)
        rank, facet = divmod(number, self.facets)
        dimension = self.dimensions[rank]
        turned = self.circle.add(position, number) >> self.circle.bits - dimension
        every = (1 << dimension) - 1
        vertex = (turned - facet * (1 << dimension) // self.facets) & every
        return CubeVertex(vertex ^ every if self.mirrored else vertex, facet, rank)

    def across(self, position: int, bit: int) -> int:
        """The position of the neighbour, across a bit, of the vertex at a position."""
        place = self.place(position)
        return self.position(place._replace(vertex=place.vertex ^ 1 << bit))

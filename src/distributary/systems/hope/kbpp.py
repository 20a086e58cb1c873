"""KBPP, key-based publication propagation: events go down to where subscriptions are (001, 4.3.2).

A subscription is known to one vertex, that of its key. An event goes to the vertex of its own key and from
there down the spanning tree to every vertex whose key it covers; each of these compares filters and sends it
to the homes.

Cost: a subscription is one message to its vertex (about half of log2 N hops); an event with a key of weight w
visits 2^w vertices, as many messages less those between vertices of one node. Where a node hosts all that is
left of the tree below a vertex, as it does for whole branches, it looks at the vertices there that have
registrations, and at no others. Nothing is kept about other vertices, so removing a subscription is one
message too. Suitable where subscriptions change as often as events come, or keys have few bits set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from distributary.overlay.hypercube import CubeVertex, Key, branch_below, children_below, covered_keys
from distributary.overlay.node import Address
from distributary.overlay.replication import Name
from distributary.systems.hope.broker import HopeBroker, Vertex
from distributary.systems.hope.messages import RegistrationName, XmlPublication


class Kbpp(HopeBroker):
    """A node that sends events to every vertex where a matching subscription may be registered."""

    mirrored: ClassVar[bool] = True

    def __init__(self, *args: Any, **options: Any) -> None:
        self._vertices: dict[tuple[int, int], dict[Key, Vertex]] = {}
        """By facet and rank of the cube, the vertices with registrations."""
        super().__init__(*args, **options)

    def _meet(self, position: int, publication: XmlPublication) -> None:
        homes: set[Address] = set()

        def visit(position: int, place: CubeVertex, came_from: Key | None) -> Iterable[Key]:
            vertices = self._vertices.get(place[1:], {})
            branch = branch_below(place.vertex, came_from)
            if self._hosts_branch(position, place, branch):
                for vertex in _within(vertices, place.vertex, branch):
                    vertex.find_homes(publication.filter, homes)
                return ()
            if place.vertex in vertices:
                vertices[place.vertex].find_homes(publication.filter, homes)
            return children_below(place.vertex, came_from)

        self.spread(position, publication, visit)
        self.documents.notify(sorted(homes), publication)

    def _hosts_branch(self, position: int, place: CubeVertex, branch: Key) -> bool:
        """Whether this node owns all positions from a vertex to the lowest one of a branch below it."""
        lowest = self.cubes.position(place._replace(vertex=place.vertex ^ branch))
        arc = self.ring.arc()
        if arc is None:  # alone, and everything is its own, or nothing but its identifier is
            return self.ring.owns(lowest)
        after, last = arc
        mask = self.ring.circle.mask
        # Clearing bits is a way clockwise, as the cube is mirrored.
        return (position - after - 1) & mask <= (lowest - after - 1) & mask <= (last - after - 1) & mask

    def _changed(self, position: int, name: Name, entry: Any) -> None:
        if not isinstance(name, RegistrationName):
            return
        key, facet, rank = self.cubes.place(position)
        vertices = self._vertices.setdefault((facet, rank), {})
        vertex = vertices.setdefault(key, Vertex())
        vertex.update(name, entry)
        if not vertex.registrations:
            del vertices[key]
            if not vertices:
                del self._vertices[facet, rank]


def _within(vertices: dict[Key, Vertex], root: Key, branch: Key) -> list[Vertex]:
    """The vertices of a branch that have registrations; asks after each in the branch, or looks at all."""
    if 1 << branch.bit_count() < len(vertices):
        above = root ^ branch
        return [vertices[above | key] for key in covered_keys(branch) if above | key in vertices]
    outside = ~branch
    return [vertex for key, vertex in vertices.items() if not (key ^ root) & outside]

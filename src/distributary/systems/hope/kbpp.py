"""KBPP, key-based publication propagation: events go down to where subscriptions are (001, 4.3.2).

A subscription is known to one vertex, that of its key. An event goes to the vertex of its own key and from
there down the spanning tree to every vertex whose key it covers; each of these compares filters and sends it
to the homes.

Cost: a subscription is one message to its vertex (about half of log2 N hops); an event with a key of weight w
visits 2^w vertices, as many messages less those between vertices of one node. Nothing is kept about other
vertices, so removing a subscription is one message too. Suitable where subscriptions change as often as
events come, or keys have few bits set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from distributary.overlay.hypercube import CubeVertex, Key, children_below
from distributary.overlay.node import Address
from distributary.overlay.replication import Name
from distributary.systems.hope.broker import HopeBroker, Vertex
from distributary.systems.hope.messages import RegistrationName, XmlPublication


class Kbpp(HopeBroker):
    """A node that sends events to every vertex where a matching subscription may be registered."""

    mirrored: ClassVar[bool] = True

    def __init__(self, *args: Any, **options: Any) -> None:
        self._vertices: dict[int, Vertex] = {}
        super().__init__(*args, **options)

    def _meet(self, position: int, publication: XmlPublication) -> None:
        homes: set[Address] = set()

        def visit(position: int, place: CubeVertex, came_from: Key | None) -> Iterator[Key]:
            vertex = self._vertices.get(position)
            if vertex is not None:
                vertex.find_homes(publication.filter, homes)
            return children_below(place.vertex, came_from)

        self.spread(position, publication, visit)
        self.documents.notify(sorted(homes), publication)

    def _changed(self, position: int, name: Name, entry: Any) -> None:
        if not isinstance(name, RegistrationName):
            return
        vertex = self._vertices.setdefault(position, Vertex())
        vertex.update(name, entry)
        if not vertex.registrations:
            del self._vertices[position]

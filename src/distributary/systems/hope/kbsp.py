"""KBSP, key-based subscription propagation: subscriptions go up to where events arrive (001, 4.3.2 and 4.5).

The filter of a subscription is advertised from the vertex of its key up the spanning tree, to every vertex
whose key covers it. An event goes to the vertex of its own key, and back along the same tree, only to
neighbours that advertised a filter it covers. Each vertex keeps for each neighbour the filters that came from
it, and advertises upwards no more than is needed (`table`): a filter covered by another is not sent on.

Rules:

- An event that came across bit j is forwarded across higher bits only, because only what came across those
  was advertised across j. So it reaches a vertex at most once, and every vertex where a matching subscription
  is registered.
- An advert carries changes: added and dropped filters, with a digest of the whole set. A receiver whose
  resulting set has another digest adds the new filters, drops none, and requests the whole set. A set that is
  too large costs needless messages; one that is too small would lose events.
- Late and repeated adverts of one sender are recognised by their numbers. When another node has taken over a
  vertex, its adverts are added to the known filters until a later digest shows what is obsolete.
- Every `refresh` seconds digests are sent again, and filters that are not renewed are dropped.

Cost: a subscription to a key of weight w reaches at most 2^(dimension - w) vertices, fewer the more filters
are known already. Unsubscribing costs at most the same: the neighbours above are sent what they would have
been sent without it, which may be filters that it had covered. An event costs a message for each vertex on
the way to a matching subscription, less those between vertices of one node, and one for each home.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from hashlib import blake2b
from operator import xor
from typing import Any, ClassVar

from distributary.errors import DistributaryError
from distributary.overlay.hypercube import CubeVertex, Key, bit_between, bits_of
from distributary.overlay.node import Address
from distributary.overlay.replication import Name
from distributary.overlay.ring.ring import Arrival
from distributary.systems.hope.broker import HopeBroker, Vertex
from distributary.systems.hope.messages import (
    AdvertRenewal,
    AdvertRequest,
    FilterAdvert,
    NeighbourFilterName,
    RegistrationName,
    XmlPublication,
)
from distributary.systems.hope.table import FilterTable

BUDGET = 1
"""How many filters a vertex advertises to a neighbour at most, unless told otherwise (section 4.5)."""


@dataclass
class NeighbourAdvert:
    """The node that last sent adverts for a neighbour below, and the number and time of the last one."""

    speaker: Address | None
    number: int
    heard_of: float


@dataclass
class RoutingVertex:
    """A vertex hosted here: its registrations, the filters of its neighbours, and what it advertised."""

    table: FilterTable
    registered: Vertex = field(default_factory=Vertex)
    links: dict[int, NeighbourAdvert] = field(default_factory=dict)
    told: dict[int, frozenset[int]] = field(default_factory=dict)


class Kbsp(HopeBroker):
    """A node that advertises filters to the vertices above, and forwards events along the same links.

    `budget` limits the filters advertised to a neighbour. One for each, the default, keeps the table of a
    vertex at log2 N filters, as section 4.5 promises. With None as many are sent as are needed to be as
    selective as the subscriptions themselves: fewer needless messages, but a table that grows with them.
    """

    mirrored: ClassVar[bool] = False

    def __init__(self, *args: Any, budget: int | None = BUDGET, **options: Any) -> None:
        if budget is not None and budget < 1:
            raise DistributaryError(f"a neighbour is sent at least 1 filter, not {budget}")
        self.budget = budget
        self._vertices: dict[int, RoutingVertex] = {}
        self._dirty: dict[int, None] = {}
        """Vertices whose neighbours may need a new advert, in the order of their changes."""
        self._number = 0
        super().__init__(*args, **options)
        self.ring.listen(FilterAdvert, self._advertised)
        self.ring.listen(AdvertRenewal, self._renewed)
        self.node.handle(AdvertRequest, self._answer_request)
        self.node.at_alarm("hope tell", self._advertise_all)
        self.node.at_start(self._after_restart)

    # Events.

    def _meet(self, position: int, publication: XmlPublication) -> None:
        homes: set[Address] = set()

        def visit(position: int, place: CubeVertex, came_from: Key | None) -> Iterator[Key]:
            vertex = self._vertices.get(position)
            if vertex is None:
                return
            above = -1 if came_from is None else bit_between(place.vertex, came_from)
            for source in bits_of(vertex.table.matching(publication.filter, above)):
                if source == vertex.table.dimension:
                    vertex.registered.find_homes(publication.filter, homes)
                else:
                    yield place.vertex ^ (1 << source)

        self.spread(position, publication, visit)
        self.documents.notify(sorted(homes), publication)

    # What the vertices here want.

    def _changed(self, position: int, name: Name, entry: Any) -> None:
        if not isinstance(name, RegistrationName | NeighbourFilterName):
            return
        if not self.ring.owns(position):
            self._vertices.pop(position, None)
            return
        vertex = self._vertices.get(position)
        place = self.cubes.place(position)
        if vertex is None:
            if entry is None:
                return
            table = FilterTable(self.cubes.dimension(place), place.vertex, self.budget)
            vertex = self._vertices[position] = RoutingVertex(table)
        if isinstance(name, NeighbourFilterName):
            (vertex.table.remove if entry is None else vertex.table.add)(name.filter, name.bit)
        else:
            dropped, new = vertex.registered.update(name, entry)
            if dropped is not None:
                vertex.table.remove(dropped, vertex.table.dimension)
            if new is not None:
                vertex.table.add(new, vertex.table.dimension)
        if not self._dirty:  # advertise once everything that arrived at this moment has been processed
            self.node.wake_after(0.0, "hope tell")
        self._dirty[position] = None

    def _advertise_all(self, about: None) -> None:
        while self._dirty:
            position = next(iter(self._dirty))
            del self._dirty[position]
            vertex = self._vertices.get(position)
            if vertex is not None and self.ring.member:
                self._advertise(position, vertex)
                if not vertex.table:
                    del self._vertices[position]

    def _advertise(self, position: int, vertex: RoutingVertex) -> None:
        """Send the neighbours above what has changed for them; equal changes share one advert."""
        place = self.cubes.place(position)
        changes: dict[FilterAdvert, list[int]] = {}
        for bit in vertex.table.open_bits:
            wanted, told = vertex.table.told(bit), vertex.told.get(bit)
            if wanted == (told or frozenset()):
                continue
            vertex.told[bit] = wanted
            advert = self._advert(place.vertex, told, wanted)
            changes.setdefault(advert, []).append(self.cubes.across(position, bit))
        for advert, positions in changes.items():
            self._number += 1
            self._send_above(positions, advert._replace(number=self._number))

    def _advert(self, vertex: Key, told: frozenset[int] | None, wanted: frozenset[int]) -> FilterAdvert:
        """The advert that brings a neighbour from what it was sent (None for nothing yet) to `wanted`."""
        known = told or frozenset()
        added, dropped = tuple(sorted(wanted - known)), tuple(sorted(known - wanted))
        return FilterAdvert(vertex, self.node.address, added, dropped, digest_of(wanted), told is None, 0)

    def _send_above(self, positions: list[int], message: FilterAdvert | AdvertRenewal) -> None:
        elsewhere = [position for position in positions if not self.ring.owns(position)]
        self._send_on(elsewhere, message)
        here = tuple(position for position in positions if self.ring.owns(position))
        self.ring.listeners[type(message)](message, Arrival(self.node.address, here))

    # What the neighbours below want.

    def _advertised(self, advert: FilterAdvert, arrival: Arrival) -> None:
        self.introduce(arrival, advert.speaker)
        for position in arrival.keys:
            self._apply_advert(position, advert)

    def _apply_advert(self, position: int, advert: FilterAdvert) -> None:
        speaker = advert.speaker
        bit = bit_between(self.cubes.place(position).vertex, advert.vertex)
        vertex = self._vertices.get(position)
        link = None if vertex is None else vertex.links.get(bit)
        known = frozenset() if vertex is None else vertex.table.of(bit)
        if link is not None and link.speaker == speaker and advert.number <= link.number:
            if digest_of(known) != advert.digest:  # late, or of a speaker that counts from further back
                self._request(position, bit, speaker)
            return
        moved = link is not None and link.speaker not in (None, speaker)
        wanted = (frozenset() if advert.full else known.difference(advert.dropped)).union(advert.added)
        if advert.full and moved:
            wanted |= known
        elif digest_of(wanted) != advert.digest:
            wanted = known.union(advert.added)
            self._request(position, bit, speaker)
        for filter in sorted(wanted - known):
            self.replication.put(position, NeighbourFilterName(bit, filter), True)
        for filter in sorted(known - wanted):
            self.replication.drop(position, NeighbourFilterName(bit, filter))
        vertex = self._vertices.get(position)
        if vertex is not None:
            vertex.links[bit] = NeighbourAdvert(speaker, advert.number, self.node.now)
        self._hosts[self.cubes.across(position, bit)] = speaker

    def _renewed(self, message: AdvertRenewal, arrival: Arrival) -> None:
        speaker = message.speaker
        self.introduce(arrival, speaker)
        for position in arrival.keys:
            bit = bit_between(self.cubes.place(position).vertex, message.vertex)
            vertex = self._vertices.get(position)
            if vertex is None or digest_of(vertex.table.of(bit)) != message.digest:
                self._request(position, bit, speaker)
            if vertex is not None:
                link = vertex.links.setdefault(bit, NeighbourAdvert(speaker, -1, self.node.now))
                if link.speaker != speaker:
                    link.speaker, link.number = speaker, -1
                link.heard_of = self.node.now
            self._hosts[self.cubes.across(position, bit)] = speaker

    def _request(self, position: int, bit: int, speaker: Address) -> None:
        vertex = self._vertices.get(position)
        link = None if vertex is None else vertex.links.get(bit)
        number = link.number if link is not None and link.speaker == speaker else -1
        self.tell(speaker, AdvertRequest(self.cubes.across(position, bit), bit, number))

    def _answer_request(self, message: AdvertRequest, sender: Address) -> None:
        if not self.ring.member or not self.ring.owns(message.position):
            return
        place = self.cubes.place(message.position)
        vertex = self._vertices.get(message.position)
        wanted = frozenset() if vertex is None else vertex.table.told(message.bit)
        if vertex is not None:
            vertex.told[message.bit] = wanted
        self._number = max(self._number, message.number) + 1
        advert = self._advert(place.vertex, None, wanted)._replace(number=self._number)
        self._send_above([self.cubes.across(message.position, message.bit)], advert)

    # Upkeep.

    def _after_restart(self) -> None:
        """After a restart, number adverts above all earlier ones, and set a lost alarm again.

        If the clock has been put back meanwhile they are not: then whoever knows a later one says so.
        """
        self._number = max(self._number, int(self.node.now * 1e6))
        if self._dirty:
            self.node.wake_after(0.0, "hope tell")

    def _renew(self) -> None:
        super()._renew()
        # A renewal to a vertex hosted here may bring it filters, and make it known, before the loop is over.
        for position, vertex in list(self._vertices.items()):
            place = self.cubes.place(position)
            renewals: dict[AdvertRenewal, list[int]] = {}
            for bit, told in vertex.told.items():
                if told:
                    renewal = AdvertRenewal(place.vertex, self.node.address, digest_of(told))
                    renewals.setdefault(renewal, []).append(self.cubes.across(position, bit))
            for renewal, positions in renewals.items():
                self._send_above(positions, renewal)

    def _expire(self, before: float) -> None:
        super()._expire(before)
        for position, vertex in list(self._vertices.items()):
            for bit in range(vertex.table.dimension):
                wanted = vertex.table.of(bit)
                if not wanted:
                    continue
                link = vertex.links.setdefault(bit, NeighbourAdvert(None, -1, self.node.now))
                if link.heard_of < before:
                    for filter in sorted(wanted):
                        self.replication.drop(position, NeighbourFilterName(bit, filter))


def digest_of(filters: Iterable[int]) -> int:
    """A 64-bit digest of a set of filters; 0 for the empty set.

    >>> digest_of([]), digest_of([1, 2]) == digest_of([2, 1]) != digest_of([1])
    (0, True)
    """
    return reduce(xor, map(_hash, filters), 0)


@lru_cache(maxsize=1 << 14)
def _hash(filter: int) -> int:
    written = filter.to_bytes((filter.bit_length() + 7) // 8, "little")
    return int.from_bytes(blake2b(written, digest_size=8).digest(), "little")

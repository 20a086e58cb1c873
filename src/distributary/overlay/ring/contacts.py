"""The nodes that a ring node remembers: to join through, to fall back on, and to find other rings by."""

from __future__ import annotations

from distributary.overlay.node import Address
from distributary.overlay.ring.ring import Ring

REMEMBERED = 64
"""How many nodes of either sort a node remembers."""


class Rotation:
    """Addresses of other nodes, least recently used first; the first is dropped beyond `REMEMBERED`."""

    def __init__(self, own: Address) -> None:
        self._own = own
        self.addresses: dict[Address, None] = {}

    def note(self, address: Address) -> None:
        """Add an address as the most recently used one, or make it that."""
        if address != self._own:
            self.addresses.pop(address, None)
            self.addresses[address] = None
            if len(self.addresses) > REMEMBERED:
                del self.addresses[next(iter(self.addresses))]

    def turn(self) -> Address | None:
        """The least recently used address, which becomes the most recently used; None if there are none."""
        address = next(iter(self.addresses), None)
        if address is not None:
            self.note(address)
        return address


class Contacts:
    """The nodes that one node has known, and those of them that fell silent."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self.known = Rotation(ring.identifier)
        self.silent = Rotation(ring.identifier)
        ring.watch(self.remember_neighbours)

    def remember_neighbours(self) -> None:
        """Remember all that the ring knows."""
        for address in self._ring.known():
            if address not in self.known.addresses:
                self.known.note(address)

    def clockwise(self) -> list[Address]:
        """All that were known, clockwise from here, those that are suspected at the end."""
        ring = self._ring
        distance = {one: ring.circle.clockwise(ring.identifier, one) for one in self.known.addresses}
        return sorted(distance, key=lambda one: (one in ring.suspected, distance[one]))

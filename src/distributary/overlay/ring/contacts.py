"""The nodes that a ring node remembers: to join through, to fall back on, and to find other rings by."""

from __future__ import annotations

from distributary.overlay.node import Address
from distributary.overlay.ring.ring import Ring

REMEMBERED = 64
"""How many nodes a node remembers having known."""


class Contacts:
    """Nodes known before and nodes that fell silent, each with the one turned to last at the end."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._known: dict[Address, None] = {}
        self._silent: dict[Address, None] = {}
        ring.watch(self.remember_neighbours)

    def remember(self, address: Address) -> None:
        """Remember a node, as the one turned to last."""
        self._note(self._known, address)

    def remember_neighbours(self) -> None:
        """Remember all that the ring knows."""
        for address in self._ring.known():
            if address not in self._known:
                self.remember(address)

    def note_silent(self, address: Address) -> None:
        """A node has not answered."""
        self._note(self._silent, address)

    def note_alive(self, address: Address) -> None:
        """A node has answered."""
        self._silent.pop(address, None)

    def next(self, *, silent: bool = False) -> Address | None:
        """The one that has not been turned to for longest: of those known before, or of the silent ones."""
        noted = self._silent if silent else self._known
        address = next(iter(noted), None)
        if address is not None:
            self._note(noted, address)
        return address

    def clockwise(self) -> list[Address]:
        """All that are remembered, clockwise from here, those that are suspected at the end."""
        ring = self._ring
        return sorted(
            self._known, key=lambda one: (one in ring.suspected, ring.circle.clockwise(ring.identifier, one))
        )

    def _note(self, noted: dict[Address, None], address: Address) -> None:
        """Have an address at the end of those noted; the first goes if there are too many."""
        if address != self._ring.identifier:
            noted.pop(address, None)
            noted[address] = None
            if len(noted) > REMEMBERED:
                del noted[next(iter(noted))]

"""Upkeep with a mistake each, to see that the invariants catch it."""

from __future__ import annotations

from distributary.overlay.node import Address
from distributary.overlay.ring.upkeep import NeighboursReply, Upkeep


class AdoptsUnasked(Upkeep):
    """Stabilise takes the successor's predecessor without asking whether it is up, as Chord first did."""

    def _consider(self, candidate: Address) -> None:
        self._set_list([candidate, *self.ring.successors])
        self._notify_successor()


class JoinsWithoutList(Upkeep):
    """A node joins with its successor alone, and does not copy the list."""

    def _take(self, head: Address, told: NeighboursReply) -> None:
        super()._take(head, told if self.ring.member else told._replace(successors=()))


class NeverFillsLists(Upkeep):
    """A list is not taken over from the successor, so that it shrinks with every failure."""

    def _take(self, head: Address, told: NeighboursReply) -> None:
        self._set_list([head, *self.ring.successors])


class KeepsDeadPredecessors(Upkeep):
    """A predecessor is replaced by a closer one only, even when it is dead."""

    def _predecessor_answered(self, asked: Address, candidate: Address, told: NeighboursReply | None) -> None:
        pass

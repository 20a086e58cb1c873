"""Stabilisation with a mistake each, to see that the invariants catch it."""

from __future__ import annotations

from distributary.overlay.node import Address
from distributary.overlay.ring.questions import NeighboursReply
from distributary.overlay.ring.stabilisation import Stabilisation


class AdoptsUnasked(Stabilisation):
    """Stabilise takes the successor's predecessor without asking whether it is up, as Chord first did."""

    def _consider(self, candidate: Address) -> None:
        self._set_list([candidate, *self.ring.successors])
        self._notify_successor()


class JoinsWithoutList(Stabilisation):
    """A node joins with its successor alone, and does not copy the list."""

    def take(self, head: Address, told: NeighboursReply) -> None:
        super().take(head, told if self.ring.member else told._replace(successors=()))


class NeverFillsLists(Stabilisation):
    """A list is not taken over from the successor, so that it shrinks with every failure."""

    def take(self, head: Address, told: NeighboursReply) -> None:
        self._set_list([head, *self.ring.successors])


class KeepsDeadPredecessors(Stabilisation):
    """A predecessor is replaced by a closer one only, even when it is dead."""

    def _predecessor_answered(self, asked: Address, candidate: Address, told: NeighboursReply | None) -> None:
        pass

"""Keeps the successors and the predecessor of a ring node right: Chord's stabilisation as corrected by Zave.

Rules, each an operation of one node on its own state; what it must know of others it asks for:

- *Stabilise*, each period. Ask the first successor. If it does not answer, drop it from the list, shift the
  others up and go on with the next. If it does, the list becomes that node followed by its list. If its
  predecessor lies between, ask that one too, and only when it answers does it become the first successor,
  followed by its list; and so on with its predecessor. In the end notify the first successor.
- *Rectify*, when notified. Whoever notifies becomes the predecessor if it is closer than the present one, or
  if the present one does not answer.
- Every change of a list is one step. A list that came out too short (its giver had just dropped somebody)
  is padded with the older entries that lie beyond.
- *Leave.* Both neighbours are told, and take each other.
- A node whose successors are all silent takes the first that answers of all it remembers.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.overlay.ring.contacts import Contacts
from distributary.overlay.ring.questions import Neighbours, NeighboursReply, Questions
from distributary.overlay.ring.ring import Ring


class PredecessorNotice(NamedTuple):
    """The sender takes the receiver for its first successor (Chord's notify)."""


class RingDeparture(NamedTuple):
    """The sender is about to leave, and these are its neighbours."""

    predecessor: Address | None
    successors: tuple[Address, ...]


class Stabilisation:
    """The neighbours of one node."""

    def __init__(self, ring: Ring, questions: Questions, contacts: Contacts) -> None:
        self.ring = ring
        self._busy = False
        """Whether a stabilisation is under way: there is one at a time."""
        self._questions, self._contacts = questions, contacts
        ring.node.handle(PredecessorNotice, self._notified)
        ring.node.handle(RingDeparture, self._departed)

    def forget(self) -> None:
        """End a stabilisation that is under way: after a restart nobody answers its questions."""
        self._busy = False

    def leave(self) -> None:
        """Tell both neighbours that this node leaves."""
        ring = self.ring
        departure = RingDeparture(ring.predecessor, tuple(ring.successors))
        for neighbour in dict.fromkeys([ring.predecessor, ring.successors[0]]):
            if neighbour is not None and neighbour != ring.identifier:
                ring.node.send(neighbour, departure)

    # Stabilise.

    def stabilise(self) -> None:
        """Check the successors, and let the first know of this node; nothing while that is under way."""
        if not self._busy:
            self._busy = True
            self._ask_successor()

    def _ask_successor(self) -> None:
        head = self.ring.successors[0]
        self._questions.ask(head, partial(self._successor_answered, head))

    def _successor_answered(self, head: Address, told: Neighbours) -> None:
        if head != self.ring.successors[0]:  # another operation was faster
            self._busy = False
        elif told is not None:
            self._adopt(head, told)
        elif len(self.ring.successors) > 1:
            self.ring.set_successors(self.ring.successors[1:])
            self._ask_successor()
        else:
            self._search(self._contacts.clockwise())

    def _adopt(self, head: Address, told: NeighboursReply) -> None:
        """Take a live node for the first successor; go on to its predecessor if that lies between."""
        self.take(head, told)
        candidate = told.predecessor
        if candidate is not None and self.ring.circle.between(candidate, self.ring.identifier, head):
            self._consider(candidate)
        else:
            self._notify_successor()

    def consider(self, candidate: Address) -> None:
        """Make a node that lies between the first successor, if it is up; nothing while stabilising."""
        if not self._busy:
            self._busy = True
            self._consider(candidate)

    def _consider(self, candidate: Address) -> None:
        self._questions.ask(candidate, partial(self._candidate_answered, candidate))

    def _candidate_answered(self, candidate: Address, told: Neighbours) -> None:
        ring = self.ring
        closer = ring.circle.between(candidate, ring.identifier, ring.successors[0])
        if told is not None and closer:
            self._adopt(candidate, told)
        else:
            self._notify_successor()

    def take(self, head: Address, told: NeighboursReply) -> None:
        """The list becomes a live node followed by its list, and by older entries where that is too short.

        It is not too short if it comes round to this node.
        """
        comes_round = self.ring.identifier in told.successors
        self._set_list([head, *told.successors, *([] if comes_round else self.ring.successors)])

    def _search(self, candidates: list[Address]) -> None:
        """Ask these nodes in turn, and make the first that answers the successor."""
        if not candidates:
            self._busy = False
            return
        candidate, *others = candidates

        def answered(told: Neighbours) -> None:
            if told is None:
                self._search(others)
            else:
                self._adopt(candidate, told)

        self._questions.ask(candidate, answered)

    def _notify_successor(self) -> None:
        self._busy = False
        head = self.ring.successors[0]
        if head != self.ring.identifier:
            self.ring.node.send(head, PredecessorNotice())

    def _set_list(self, entries: list[Address]) -> None:
        """Set the successors to as many of these as there is room for, leaving out what is out of order."""
        ring = self.ring
        successors: list[Address] = []
        reach = 0
        for entry in entries:
            distance = ring.circle.clockwise(ring.identifier, entry)
            if distance > reach and len(successors) < ring.successor_count:
                successors.append(entry)
                reach = distance
        ring.set_successors(successors or [ring.identifier])

    # Rectify, and the departure of a neighbour.

    def _notified(self, message: PredecessorNotice, sender: Address) -> None:
        self.ring.trust(sender)
        if self.ring.member:
            self.rectify(sender)

    def rectify(self, candidate: Address) -> None:
        """Take a node that is up for the predecessor if it is closer, or if the present one is silent."""
        ring, present = self.ring, self.ring.predecessor
        if present is None or ring.circle.between(candidate, present, ring.identifier):
            ring.set_predecessor(candidate)
        elif candidate != present:
            self._questions.ask(present, partial(self._predecessor_answered, present, candidate))

    def _predecessor_answered(self, asked: Address, candidate: Address, told: Neighbours) -> None:
        if self.ring.predecessor != asked:
            self.rectify(candidate)
        elif told is None:
            self.ring.set_predecessor(candidate)

    def _departed(self, message: RingDeparture, sender: Address) -> None:
        ring = self.ring
        if not ring.member:
            return
        ring.suspect(sender)
        if sender in ring.successors:
            self._set_list([one for one in (*ring.successors, *message.successors) if one != sender])
        if ring.predecessor == sender:
            alone = message.predecessor in (None, ring.identifier)
            ring.set_predecessor(None if alone else message.predecessor)
        ring.fingers = [None if finger == sender else finger for finger in ring.fingers]
        ring.forget_known()

"""Merges rings that came apart.

Rules:

- Every `interval` seconds a node asks one of those it remembers, by turns one known before and one that fell
  silent, to look up the first node after itself in whatever ring that one is in.
- A closer successor than its own is asked and adopted, as when stabilising.
- Any other answer than its own successor tells of another ring: the owner, in this one, of that node's
  identifier is told to meet it, and takes it for its predecessor if it is up and closer. One such link is
  enough: where two rings touch, every path round either ends in the same one, and stabilising closes them
  like a zip.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.overlay.ring.contacts import Contacts
from distributary.overlay.ring.questions import LookupResult, Neighbours, Questions
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.overlay.ring.stabilisation import Stabilisation


class MergeHint(NamedTuple):
    """To the owner of a node's identifier: this node is in another ring, and may be your predecessor."""

    stranger: Address


class Merging:
    """Looks for other rings on behalf of one node."""

    def __init__(
        self,
        ring: Ring,
        questions: Questions,
        contacts: Contacts,
        stabilisation: Stabilisation,
        interval: float,
    ) -> None:
        self._ring, self._questions, self._contacts = ring, questions, contacts
        self._stabilisation = stabilisation
        self._interval = interval
        self._probes = 0
        ring.listen(MergeHint, self._meet)
        ring.node.at_alarm("upkeep probe", self._probe)

    def _probe(self, about: None) -> None:
        ring = self._ring
        if not ring.member:
            return
        ring.node.wake_after(self._interval, "upkeep probe")
        # Only those that a message might be sent to stay suspected.
        for address in sorted(ring.suspected - {*ring.successors, *ring.fingers, ring.predecessor}):
            ring.trust(address)
        self._probes += 1
        contacts = self._contacts.silent if self._probes % 2 else self._contacts.known
        contact = contacts.turn()
        if contact is not None:
            self._questions.look_up_place(partial(self._successor_found, contact), contact)

    def _successor_found(self, contact: Address, result: LookupResult | None) -> None:
        """See whether a contact is in this ring, in a better place of it, or in another."""
        ring = self._ring
        if result is None or not ring.member:
            return
        successor = ring.successors[0]
        self._contacts.silent.addresses.pop(contact, None)
        if result.owner == successor:
            return
        if ring.circle.between(result.owner, ring.identifier, successor):
            self._stabilisation.consider(result.owner)
        else:
            ring.route(contact, MergeHint(contact))

    def _meet(self, message: MergeHint, arrival: Arrival) -> None:
        stranger = message.stranger

        def answered(told: Neighbours) -> None:
            if told is not None:
                self._stabilisation.rectify(stranger)

        if stranger != self._ring.identifier:
            self._questions.ask(stranger, answered)

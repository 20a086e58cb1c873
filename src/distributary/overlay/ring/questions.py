"""What a ring node asks others: who their neighbours are, and who owns a key.

Rules:

- A question for neighbours is asked `TRIES` times, `TIMEOUT` seconds apart. A node that does not answer has
  failed as far as the asker knows: it is suspected until it is heard of again.
- A lookup goes to any member, which routes it to the owner of the key. The first node behind the key answers,
  which on a ring is the owner. It has failed without an answer after ten timeouts.
- Only members answer. Whoever has left hears no answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.overlay.ring.contacts import Contacts
from distributary.overlay.ring.ring import Arrival, Ring

TIMEOUT, TRIES = 0.5, 3
"""How many seconds an answer is awaited, and how often a question is asked."""


class NeighboursRequest(NamedTuple):
    """Who are your neighbours? An answer also says: I am up."""

    number: int


class NeighboursReply(NamedTuple):
    """A member's neighbours."""

    number: int
    predecessor: Address | None
    successors: tuple[Address, ...]


class KeyLookup(NamedTuple):
    """Who owns this key? Goes to any member, which routes it on."""

    number: int
    key: int
    asker: Address


class KeyOwnerReply(NamedTuple):
    """The sender owns the key, and this is its predecessor."""

    number: int
    predecessor: Address | None


class LookupResult(NamedTuple):
    """The owner of a key, and the owner's predecessor."""

    owner: Address
    predecessor: Address | None


Neighbours = NeighboursReply | None
"""What came of a question for neighbours: None if the node is silent."""

LookupHandler = Callable[[LookupResult | None], None]
"""Is called with the result of a lookup; with None if nobody answered."""


@dataclass
class _Question:
    """A NeighboursRequest that waits for its answer."""

    address: Address
    then: Callable[[Neighbours], None]
    tries: int = 0


class Questions:
    """The questions of one node that wait for answers, and its answers to those of others."""

    def __init__(self, ring: Ring, contacts: Contacts) -> None:
        self.closed = False
        """Whether the node has left: then no answer is of any use."""
        self._ring, self._node, self._contacts = ring, ring.node, contacts
        self._questions: dict[int, _Question] = {}
        self._lookups: dict[int, LookupHandler] = {}
        self._numbered = 0
        node = ring.node
        node.handle(NeighboursRequest, self._requested)
        node.handle(NeighboursReply, self._replied)
        node.handle(KeyLookup, self._lookup_came)
        node.handle(KeyOwnerReply, self._found)
        node.at_alarm("upkeep silence", self._silence)
        node.at_alarm("upkeep lookup", self._end_lookup)
        ring.listen(KeyLookup, self._lookup_arrived)

    def forget(self) -> None:
        """Drop all open questions and lookups: after a restart nobody answers them."""
        self._questions.clear()
        self._lookups.clear()

    # Neighbours.

    def ask(self, address: Address, then: Callable[[Neighbours], None]) -> None:
        """Ask a node for its neighbours, and call `then` with the answer, or with None if it is silent."""
        if address == self._ring.identifier:
            then(self._reply(0))
            return
        self._numbered += 1
        self._questions[self._numbered] = _Question(address, then)
        self._try(self._numbered)

    def _try(self, number: int) -> None:
        question = self._questions[number]
        question.tries += 1
        self._node.send(question.address, NeighboursRequest(number))
        self._node.wake_after(TIMEOUT, "upkeep silence", number)

    def _silence(self, number: int) -> None:
        question = self._questions.get(number)
        if question is None:
            return
        if question.tries < TRIES:
            self._try(number)
            return
        del self._questions[number]
        self._ring.suspect(question.address)
        self._contacts.silent.note(question.address)
        if not self.closed:
            question.then(None)

    def _reply(self, number: int) -> NeighboursReply:
        return NeighboursReply(number, self._ring.predecessor, tuple(self._ring.successors))

    def _requested(self, message: NeighboursRequest, sender: Address) -> None:
        self._ring.trust(sender)
        if self._ring.member:
            self._node.send(sender, self._reply(message.number))

    def _replied(self, message: NeighboursReply, sender: Address) -> None:
        self._ring.trust(sender)
        question = self._questions.pop(message.number, None)
        if question is not None and not self.closed:
            question.then(message)

    # Owners.

    def look_up(self, key: int, then: LookupHandler, via: Address | None = None) -> None:
        """Find the owner of a key, in this ring or in that of another node, and call `then` with it.

        None is the result of a lookup that nobody answered.
        """
        self._numbered += 1
        self._lookups[self._numbered] = then
        lookup = KeyLookup(self._numbered, key, self._ring.identifier)
        self._node.wake_after(10 * TIMEOUT, "upkeep lookup", self._numbered)
        if via is None:
            self._ring.route(key, lookup)
        else:
            self._node.send(via, lookup)

    def look_up_place(self, then: LookupHandler, via: Address) -> None:
        """Find the first node after this one in the ring of another node."""
        self.look_up(self._ring.circle.add(self._ring.identifier, 1), then, via)

    def _lookup_came(self, message: KeyLookup, sender: Address) -> None:
        if self._ring.member:
            self._ring.route(message.key, message)

    def _lookup_arrived(self, message: KeyLookup, arrival: Arrival) -> None:
        """Answer, as the first node behind the key; where a key's owner may stand before it, pass it on."""
        ring, before = self._ring, self._ring.predecessor
        is_before = before is not None and not ring.circle.up_to(message.key, before, ring.identifier)
        if is_before and arrival.keys == (message.key,):  # it is passed on once, if neighbours disagree
            ring.route(ring.successor, message)
            return
        reply = KeyOwnerReply(message.number, self._ring.predecessor)
        if message.asker == self._ring.identifier:
            self._found(reply, message.asker)
        else:
            self._node.send(message.asker, reply)

    def _found(self, message: KeyOwnerReply, sender: Address) -> None:
        self._end_lookup(message.number, LookupResult(sender, message.predecessor))

    def _end_lookup(self, number: int, result: LookupResult | None = None) -> None:
        then = self._lookups.pop(number, None)
        if then is not None and not self.closed:
            then(result)

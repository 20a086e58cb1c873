"""Keeps a ring in order while nodes join, leave and fail: Chord as corrected by Zave; merges rings.

Rules, each an operation of one node on its own state; what it must know of others it asks for:

- *Join.* Look up the first node after oneself, ask it, and take it and its list as one's own. It answers
  only if it is up, so a member begins with a live successor. Until then a node is no member: it answers
  nothing and owns nothing.
- *Stabilise*, each period. Ask the first successor. If it does not answer, drop it from the list, shift the
  others up and go on with the next. If it does, the list becomes that node followed by its list. If its
  predecessor lies between, ask that one too, and only when it answers does it become the first successor,
  followed by its list; and so on with its predecessor. In the end notify the first successor.
- *Rectify*, when notified. Whoever notifies becomes the predecessor if it is closer than the present one, or
  if the present one does not answer.
- Every change of a list is one step. A list that came out too short (its giver had just dropped somebody)
  is padded with the older entries that lie beyond.
- *Leave.* Tell both neighbours, who take each other; then be silent. The ring does not depend on it: a leave
  whose messages are lost is a failure.
- *Failure* is silence: a question asked `tries` times, `timeout` seconds apart, without an answer. Whoever is
  heard of again is trusted again.
- *Fingers* are looked up one after the other, one lookup a period, and at once when they are suspected; those
  within reach of the successors or the predecessor need none. An anticlockwise finger is the predecessor of
  its point's owner.
- *Merging.* A node remembers those it knew, and which of them fell silent. Every `probe` seconds it asks one
  of them, by turns of either sort, to look up the first node after itself in whatever ring that one is in. A
  closer successor than its own is asked and adopted, as when stabilising. Any other answer than its own
  successor tells of another ring: the owner, in this one, of that node's identifier is told to meet it, and
  takes it for its predecessor if it is up and closer. One such link is enough: where two rings touch, every
  path round either ends in the same one, and stabilising closes them like a zip. A node whose successors are
  all silent takes the first that answers of all it remembers.

Invariants, as long as silence means failure (messages take less than `timeout`), the ring started with more
members than a list is long, and no failure leaves a member without a live successor, not even with the
answers that are under way (`invariants.problems` after every event):

- each member has a live successor, and no list names a node twice or out of order;
- following first live successors, every member comes to one ring, which goes round once and in order.

Loss, pauses and partitions make live nodes silent. Lists stay in order, but there may be several rings for
a while. Once the last fault is over, and after some periods, there is one ring again, and everybody's
neighbours and fingers are those of a ring at rest (`invariants.unsettled`).

Cost: each period a node sends a question, a notification and a lookup, and answers as many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from distributary.overlay.node import Address, Message
from distributary.overlay.ring.fingers import Finger
from distributary.overlay.ring.ring import Arrival, Ring

REMEMBERED = 64
"""How many nodes a node remembers having known."""


class NeighboursRequest(NamedTuple):
    """Who are your neighbours? An answer also says: I am up."""

    number: int


class NeighboursReply(NamedTuple):
    """A member's neighbours."""

    number: int
    predecessor: Address | None
    successors: tuple[Address, ...]


class PredecessorNotice(NamedTuple):
    """The sender takes the receiver for its first successor."""


class OwnerLookup(NamedTuple):
    """Who owns this key? Goes to any member, which routes it on."""

    number: int
    key: int
    asker: Address


class OwnerReply(NamedTuple):
    """The owner of a key, which is who says so, and the owner's predecessor."""

    number: int
    predecessor: Address | None


class MergeHint(NamedTuple):
    """There is a node of another ring close to the one that gets this."""

    stranger: Address


class RingDeparture(NamedTuple):
    """The sender is about to leave, and these are its neighbours."""

    predecessor: Address | None
    successors: tuple[Address, ...]


class LookupResult(NamedTuple):
    """What came of a lookup."""

    owner: Address
    predecessor: Address | None


class _Question:
    """A NeighboursRequest that waits for its answer."""

    def __init__(self, address: Address, then: Callable[[NeighboursReply | None], None]) -> None:
        self.address = address
        self.then = then
        self.tries = 0


class Upkeep:
    """Keeps one node's place in its ring. With `via` it joins through those nodes when it starts; without, it
    is a member already: the first of all, or one of a settled ring."""

    def __init__(
        self,
        ring: Ring,
        via: Address | Iterable[Address] | None = None,
        *,
        period: float = 1.0,
        timeout: float = 0.5,
        tries: int = 3,
        probe: float = 5.0,
    ) -> None:
        self.ring = ring
        self.period = period
        self.timeout = timeout
        self.tries = tries
        self.probe = probe
        self.left = False
        self.unanswered = 0
        """Questions that were given up."""
        self._points: list[Finger] = ring.rule.fingers(ring.circle, ring.identifier)
        self._remembered: dict[Address, None] = {}
        self._silent: dict[Address, None] = {}
        """Those that did not answer; both are kept with the one turned to last at the end."""
        self._probes = 0
        self._questions: dict[int, _Question] = {}
        self._lookups: dict[int, Callable[[LookupResult | None], None]] = {}
        self._numbered = 0
        self._busy = False
        self._next_finger = 0
        self._sought_places: set[int] = set()
        """The fingers that are being looked up."""
        self._leave_handlers: list[Callable[[], None]] = []
        if via is not None:
            ring.member = False
            for address in [via] if isinstance(via, int) else via:
                self._note(self._remembered, address)
        self._register()

    def _register(self) -> None:
        node = self.ring.node
        node.handle(NeighboursRequest, self._ask_came)
        node.handle(NeighboursReply, self._told_came)
        node.handle(PredecessorNotice, self._notify_came)
        node.handle(OwnerLookup, self._seek_came)
        node.handle(OwnerReply, self._found_came)
        node.handle(RingDeparture, self._leaving_came)
        self.ring.listen(OwnerLookup, self._sought)
        self.ring.listen(MergeHint, self._meet)
        node.at_alarm("upkeep period", self._each_period)
        node.at_alarm("upkeep probe", self._each_probe)
        node.at_alarm("upkeep join", self._join)
        node.at_alarm("upkeep silence", self._silence)
        node.at_alarm("upkeep lookup", self._lookup_over)
        node.at_start(self._begin)
        self.ring.watch(self._remember_neighbours)

    def on_leave(self, handler: Callable[[], None]) -> None:
        """Have this called just before the node leaves, while it still is a member."""
        self._leave_handlers.append(handler)

    def leave(self) -> None:
        """Leave the ring in good order."""
        ring = self.ring
        if not ring.member:
            return
        for handler in self._leave_handlers:
            handler()
        farewell = RingDeparture(ring.predecessor, tuple(ring.successors))
        for neighbour in dict.fromkeys([ring.predecessor, ring.successors[0]]):
            if neighbour is not None and neighbour != ring.identifier:
                ring.node.send(neighbour, farewell)
        ring.member = False
        self.left = True

    def _begin(self) -> None:
        """Start, or start again with the state of before: nothing that was asked will be answered."""
        self._questions.clear()
        self._lookups.clear()
        self._sought_places.clear()
        self._busy = False
        self._remember_neighbours()
        if self.left:
            return
        if self.ring.member:
            self._begin_periods()
        else:
            self._join(None)

    def _begin_periods(self) -> None:
        # Spread over the period by identifier, so that not all nodes act at once.
        share = (self.ring.identifier * 0.618034) % 1.0
        self.ring.node.wake_after(self.period * share, "upkeep period")
        self.ring.node.wake_after(self.probe * (share + 0.5), "upkeep probe")

    def _each_period(self, about: None) -> None:
        if not self.ring.member:
            return
        self.ring.node.wake_after(self.period, "upkeep period")
        self._stabilise()
        self._fix_fingers()

    # Join.

    def _join(self, about: None) -> None:
        """Ask the next node remembered for one's place, and again until there is one."""
        if self.ring.member:
            return
        contact = self._next_of(self._remembered)
        if contact is None:
            self.ring.node.wake_after(self.probe, "upkeep join")
            return
        self._look_up(self._after_here(), self._place_found, via=contact)

    def _place_found(self, located: LookupResult | None) -> None:
        if located is None or located.owner == self.ring.identifier:
            self.ring.node.wake_after(self.period, "upkeep join")
        else:
            self._ask(located.owner, partial(self._enter, located.owner))

    def _enter(self, successor: Address, told: NeighboursReply | None) -> None:
        if told is None:
            self.ring.node.wake_after(self.period, "upkeep join")
            return
        self._take(successor, told)
        self.ring.member = True
        self._begin_periods()
        self._stabilise()

    # Stabilise.

    def _stabilise(self) -> None:
        if not self._busy:
            self._busy = True
            self._ask_successor()

    def _ask_successor(self) -> None:
        head = self.ring.successors[0]
        self._ask(head, partial(self._successor_answered, head))

    def _successor_answered(self, head: Address, told: NeighboursReply | None) -> None:
        ring = self.ring
        if head != ring.successors[0]:  # another operation was faster
            self._busy = False
        elif told is None:
            self._drop_head()
        else:
            self._take(head, told)
            self._look_closer(head, told)

    def _look_closer(self, head: Address, told: NeighboursReply) -> None:
        """Go on to the first successor's predecessor if that lies between; notify if not."""
        candidate = told.predecessor
        if candidate is not None and self.ring.circle.between(candidate, self.ring.identifier, head):
            self._consider(candidate)
        else:
            self._notify_successor()

    def _consider(self, candidate: Address) -> None:
        """Make a node that lies between the first successor, if it is up."""
        self._ask(candidate, partial(self._candidate_answered, candidate))

    def _candidate_answered(self, candidate: Address, told: NeighboursReply | None) -> None:
        ring = self.ring
        closer = ring.circle.between(candidate, ring.identifier, ring.successors[0])
        if told is not None and closer:
            self._take(candidate, told)
            self._look_closer(candidate, told)
        else:
            self._notify_successor()

    def _take(self, head: Address, told: NeighboursReply) -> None:
        """The list becomes a live node followed by its list, and by older entries where that is too short.

        It is not too short if it comes round to this node.
        """
        comes_round = self.ring.identifier in told.successors
        self._set_list([head, *told.successors, *([] if comes_round else self.ring.successors)])

    def _drop_head(self) -> None:
        if len(self.ring.successors) == 1:
            self._search(self._clockwise_remembered())
        else:
            self.ring.set_successors(self.ring.successors[1:])
            self._ask_successor()

    def _search(self, candidates: list[Address]) -> None:
        """Nobody in the list answers: take the first that does of those remembered."""
        if not candidates:
            self._busy = False
            return
        candidate, *others = candidates

        def answered(told: NeighboursReply | None) -> None:
            if told is None:
                self._search(others)
            else:
                self._take(candidate, told)
                self._look_closer(candidate, told)

        self._ask(candidate, answered)

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

    # Rectify.

    def _notify_came(self, message: PredecessorNotice, sender: Address) -> None:
        self.ring.trust(sender)
        if self.ring.member:
            self._rectify(sender)

    def _rectify(self, candidate: Address) -> None:
        ring, present = self.ring, self.ring.predecessor
        if present is None or ring.circle.between(candidate, present, ring.identifier):
            ring.set_predecessor(candidate)
        elif candidate != present:
            self._ask(present, partial(self._predecessor_answered, present, candidate))

    def _predecessor_answered(self, asked: Address, candidate: Address, told: NeighboursReply | None) -> None:
        if self.ring.predecessor != asked:
            self._rectify(candidate)
        elif told is None:
            self.ring.set_predecessor(candidate)

    # Leave.

    def _leaving_came(self, message: RingDeparture, sender: Address) -> None:
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

    # Fingers.

    def _fix_fingers(self) -> None:
        """See to all fingers that are suspected, and to the next one that must be looked up in any case."""
        for place, address in enumerate(self.ring.fingers):
            if address in self.ring.suspected:
                self._fix(place)
        for _ in self._points:
            place = self._next_finger
            self._next_finger = (place + 1) % len(self._points)
            if not self._fix(place):
                return

    def _fix(self, place: int) -> bool:
        """Set a finger from the neighbours, if they are enough to tell (True); otherwise look it up."""
        near = self._nearby(self._points[place])
        if near is not None:
            self._set_finger(place, near)
        elif place not in self._sought_places:
            self._sought_places.add(place)
            self._look_up(self._points[place].point, partial(self._finger_found, place))
        return near is not None

    def _nearby(self, finger: Finger) -> Address | None:
        """Who a finger is, if the neighbours are enough to tell."""
        circle, here, predecessor = self.ring.circle, self.ring.identifier, self.ring.predecessor
        if finger.clockwise:
            for successor in self.ring.successors:
                if circle.up_to(finger.point, here, successor):
                    return successor
        elif predecessor is not None:
            if circle.clockwise(predecessor, finger.point) < (circle.clockwise(predecessor, here)):
                return predecessor
        elif self.ring.successors[0] == here:
            return here
        return None

    def _finger_found(self, place: int, located: LookupResult | None) -> None:
        self._sought_places.discard(place)
        if located is None:
            self._test_finger(place)
            return
        finger, (owner, predecessor) = self._points[place], located
        self._set_finger(place, owner if finger.clockwise or owner == finger.point else predecessor)

    def _test_finger(self, place: int) -> None:
        """See that a lookup did not fail because it went to the very finger that it was for."""
        present = self.ring.fingers[place]

        def answered(told: NeighboursReply | None) -> None:
            if told is None and self.ring.fingers[place] == present:
                self.ring.fingers[place] = None
                self.ring.forget_known()

        if present is not None:
            self._ask(present, answered)

    def _set_finger(self, place: int, address: Address | None) -> None:
        if address is not None and self.ring.fingers[place] != address:
            self.ring.fingers[place] = address
            self.ring.forget_known()
            self._note(self._remembered, address)

    # Merging.

    def _each_probe(self, about: None) -> None:
        if not self.ring.member:
            return
        self.ring.node.wake_after(self.probe, "upkeep probe")
        self._forgive_strangers()
        self._probes += 1
        contact = self._next_of(self._silent if self._probes % 2 else self._remembered)
        if contact is not None:
            self._look_up(self._after_here(), partial(self._successor_found, contact), via=contact)

    def _successor_found(self, contact: Address, located: LookupResult | None) -> None:
        """See whether a contact is in this ring, in a better place of it, or in another."""
        if located is None or not self.ring.member:
            return
        ring, successor = self.ring, self.ring.successors[0]
        self._silent.pop(contact, None)
        if located.owner == successor:
            return
        if not ring.circle.between(located.owner, ring.identifier, successor):
            ring.route(contact, MergeHint(contact))
        elif not self._busy:
            self._busy = True
            self._consider(located.owner)

    def _meet(self, message: MergeHint, arrival: Arrival) -> None:
        stranger = message.stranger

        def answered(told: NeighboursReply | None) -> None:
            if told is not None:
                self._rectify(stranger)

        if stranger != self.ring.identifier:
            self._ask(stranger, answered)

    def _forgive_strangers(self) -> None:
        """Suspect only those that a message might be sent to."""
        ring = self.ring
        known = {*ring.successors, *ring.fingers, ring.predecessor}
        for address in sorted(ring.suspected - known):
            ring.trust(address)

    def _note(self, noted: dict[Address, None], address: Address) -> None:
        """Have an address at the end of those noted, and the first go if there are too many."""
        if address != self.ring.identifier:
            noted.pop(address, None)
            noted[address] = None
            if len(noted) > REMEMBERED:
                del noted[next(iter(noted))]

    def _next_of(self, noted: dict[Address, None]) -> Address | None:
        """The one that has not been turned to for longest."""
        address = next(iter(noted), None)
        if address is not None:
            self._note(noted, address)
        return address

    def _remember_neighbours(self) -> None:
        for address in self.ring.known():
            if address not in self._remembered:
                self._note(self._remembered, address)

    def _clockwise_remembered(self) -> list[Address]:
        """All that are remembered, those that are suspected at the end."""
        ring = self.ring
        return sorted(
            self._remembered,
            key=lambda address: (
                address in ring.suspected,
                ring.circle.clockwise(ring.identifier, address),
            ),
        )

    def _after_here(self) -> int:
        return self.ring.circle.add(self.ring.identifier, 1)

    # Questions and lookups.

    def _ask(self, address: Address, then: Callable[[NeighboursReply | None], None]) -> None:
        """Ask a node for its neighbours; None is the answer of one that is silent."""
        if address == self.ring.identifier:
            then(NeighboursReply(0, self.ring.predecessor, tuple(self.ring.successors)))
            return
        self._numbered += 1
        self._questions[self._numbered] = _Question(address, then)
        self._try(self._numbered)

    def _try(self, number: int) -> None:
        question = self._questions[number]
        question.tries += 1
        self.ring.node.send(question.address, NeighboursRequest(number))
        self.ring.node.wake_after(self.timeout, "upkeep silence", number)

    def _silence(self, number: int) -> None:
        question = self._questions.get(number)
        if question is None:
            return
        if question.tries < self.tries:
            self._try(number)
            return
        del self._questions[number]
        self.unanswered += 1
        self.ring.suspect(question.address)
        self._note(self._silent, question.address)
        if not self.left:
            question.then(None)

    def _ask_came(self, message: NeighboursRequest, sender: Address) -> None:
        self.ring.trust(sender)
        if self.ring.member:
            told = NeighboursReply(message.number, self.ring.predecessor, tuple(self.ring.successors))
            self.ring.node.send(sender, told)

    def _told_came(self, message: NeighboursReply, sender: Address) -> None:
        self.ring.trust(sender)
        question = self._questions.pop(message.number, None)
        if question is not None and not self.left:
            question.then(message)

    def _look_up(
        self, key: int, then: Callable[[LookupResult | None], None], via: Address | None = None
    ) -> None:
        """Find the owner of a key, in this ring or in that of another node."""
        self._numbered += 1
        self._lookups[self._numbered] = then
        seek: Message = OwnerLookup(self._numbered, key, self.ring.identifier)
        self.ring.node.wake_after(10 * self.timeout, "upkeep lookup", self._numbered)
        if via is None:
            self.ring.route(key, seek)
        else:
            self.ring.node.send(via, seek)

    def _lookup_over(self, number: int) -> None:
        then = self._lookups.pop(number, None)
        if then is not None and not self.left:
            then(None)

    def _seek_came(self, message: OwnerLookup, sender: Address) -> None:
        if self.ring.member:
            self.ring.route(message.key, message)

    def _sought(self, message: OwnerLookup, arrival: Arrival) -> None:
        found = OwnerReply(message.number, self.ring.predecessor)
        if message.asker == self.ring.identifier:
            self._found_came(found, self.ring.identifier)
        else:
            self.ring.node.send(message.asker, found)

    def _found_came(self, message: OwnerReply, sender: Address) -> None:
        then = self._lookups.pop(message.number, None)
        if then is not None and not self.left:
            then(LookupResult(sender, message.predecessor))

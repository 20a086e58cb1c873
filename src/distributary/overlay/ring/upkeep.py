"""Keeps a ring in order while nodes join, leave and fail: Chord as corrected by Zave; merges rings.

What a node does is divided by idea: `stabilisation` (successors and predecessor), `finger_upkeep`, `merging`
(rings that came apart), `questions` (what all of them ask others) and `contacts` (whom they remember). Here
is its life: joining, the periods of a member, leaving.

Rules:

- *Join.* Look up the first node after oneself, ask it, and take it and its list as one's own. It answers
  only if it is up, so a member begins with a live successor. Until then a node is no member: it answers
  nothing and owns nothing.
- *Leave.* Tell both neighbours; then be silent. The ring does not depend on it: a leave whose messages are
  lost is a failure.
- *Failure* is silence: a question asked `TRIES` times, `TIMEOUT` seconds apart, without an answer. Whoever is
  heard of again is trusted again.

Invariants, as long as silence means failure (messages take less than `TIMEOUT`), the ring started with more
members than a list is long, and no failure leaves a member without a live successor, not even with the
answers that are under way (tests check it after every event):

- each member has a live successor, and no list names a node twice or out of order;
- following first live successors, every member comes to one ring, which goes round once and in order.

Loss, pauses and partitions make live nodes silent. Lists stay in order, but there may be several rings for
a while. Once the last fault is over, and after some periods, there is one ring again, and everybody's
neighbours and fingers are those of a ring at rest (`ring.at_rest`).

Cost: each period a node sends a question, a notification and a lookup, and answers as many.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from distributary.overlay.node import Address
from distributary.overlay.periodic import staggered
from distributary.overlay.ring.contacts import Contacts
from distributary.overlay.ring.finger_upkeep import FingerUpkeep
from distributary.overlay.ring.merging import Merging
from distributary.overlay.ring.questions import LookupResult, Neighbours, Questions
from distributary.overlay.ring.ring import Ring
from distributary.overlay.ring.stabilisation import Stabilisation


class Upkeep:
    """Keeps one node's place in its ring.

    With `via` it joins through those nodes when it starts; without, it is a member already: the first of all,
    or one of a settled ring. `period` is the time between stabilisations, `probe` between looks for other
    rings, both in seconds. `stabilisation` makes the part that keeps the neighbours.
    """

    def __init__(
        self,
        ring: Ring,
        via: Iterable[Address] | None = None,
        *,
        period: float = 1.0,
        probe: float = 5.0,
        stabilisation: type[Stabilisation] = Stabilisation,
    ) -> None:
        self.ring = ring
        self.period = period
        self.probe = probe
        self._contacts = Contacts(ring)
        self._questions = Questions(ring, self._contacts)
        self._stabilisation = stabilisation(ring, self._questions, self._contacts)
        self._fingers = FingerUpkeep(ring, self._questions, self._contacts)
        self._merging = Merging(ring, self._questions, self._contacts, self._stabilisation, probe)
        if via is not None:
            ring.member = False
            for address in via:
                self._contacts.known.note(address)
        ring.node.at_alarm("upkeep period", self._each_period)
        ring.node.at_alarm("upkeep join", self._join)
        ring.node.at_start(self._begin)

    @property
    def left(self) -> bool:
        """Whether the node has left the ring."""
        return self._questions.closed

    def leave(self) -> None:
        """Leave the ring in good order."""
        if not self.ring.member:
            return
        self._stabilisation.leave()
        self.ring.member = False
        self._questions.closed = True

    def _begin(self) -> None:
        """Start, or start again with the state of before: nothing that was asked will be answered."""
        self._questions.forget()
        self._fingers.forget()
        self._stabilisation.forget()
        self._contacts.remember_neighbours()
        if self.left:
            return
        if self.ring.member:
            self._begin_periods()
        else:
            self._join(None)

    def _begin_periods(self) -> None:
        # Spread over the period by identifier, so that not all nodes act at once.
        share = staggered(self.ring.identifier)
        self.ring.node.wake_after(self.period * share, "upkeep period")
        self.ring.node.wake_after(self.probe * (share + 0.5), "upkeep probe")

    def _each_period(self, about: None) -> None:
        if not self.ring.member:
            return
        self.ring.node.wake_after(self.period, "upkeep period")
        self._stabilisation.stabilise()
        self._fingers.fix()

    # Join.

    def _join(self, about: None) -> None:
        """Ask the next node remembered for one's place, and again until there is one."""
        if self.ring.member:
            return
        contact = self._contacts.known.turn()
        if contact is None:
            self.ring.node.wake_after(self.probe, "upkeep join")
        else:
            self._questions.look_up_place(self._place_found, contact)

    def _place_found(self, result: LookupResult | None) -> None:
        if result is None or result.owner == self.ring.identifier:
            self.ring.node.wake_after(self.period, "upkeep join")
        else:
            self._questions.ask(result.owner, partial(self._enter, result.owner))

    def _enter(self, successor: Address, told: Neighbours) -> None:
        if told is None:
            self.ring.node.wake_after(self.period, "upkeep join")
            return
        self._stabilisation.take(successor, told)
        self.ring.member = True
        self._begin_periods()
        self._stabilisation.stabilise()

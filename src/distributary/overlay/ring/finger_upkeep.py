"""Keeps the finger table of a ring node right.

Rules:

- Fingers are looked up one after the other, one lookup a period, and at once when they are suspected. Those
  within reach of the successors or the predecessor need no lookup.
- An anticlockwise finger is the predecessor of its point's owner.
"""

from __future__ import annotations

from functools import partial

from distributary.overlay.node import Address
from distributary.overlay.ring.contacts import Contacts
from distributary.overlay.ring.fingers import Finger
from distributary.overlay.ring.questions import LookupResult, Neighbours, Questions
from distributary.overlay.ring.ring import Ring


class FingerUpkeep:
    """The fingers of one node."""

    def __init__(self, ring: Ring, questions: Questions, contacts: Contacts) -> None:
        self._ring, self._questions, self._contacts = ring, questions, contacts
        self._points: list[Finger] = ring.rule.fingers(ring.circle, ring.identifier)
        self._next = 0
        self._sought: set[int] = set()
        """The places in the table that are being looked up."""
        self._neighbours: tuple[Address | None, ...] = ()
        self._near: list[Address | None] = []
        """What these neighbours, the predecessor first, tell of every place."""

    def forget(self) -> None:
        """Drop all open lookups: after a restart nobody answers them."""
        self._sought.clear()

    def fix(self) -> None:
        """Set or look up every suspected finger, then the others in turn until one needs a lookup."""
        self._look_around()
        for place, address in enumerate(self._ring.fingers):
            if address in self._ring.suspected:
                self._fix(place)
        for _ in self._points:
            place = self._next
            self._next = (place + 1) % len(self._points)
            if not self._fix(place):
                return

    def _fix(self, place: int) -> bool:
        """Set a finger from the neighbours, if they are enough to tell (True); otherwise look it up."""
        near = self._near[place]
        if near is not None:
            self._set(place, near)
        elif place not in self._sought:
            self._sought.add(place)
            self._questions.look_up(self._points[place].point, partial(self._found, place))
        return near is not None

    def _look_around(self) -> None:
        """Find out what the neighbours tell of every place; most periods they are those of the last one."""
        neighbours = (self._ring.predecessor, *self._ring.successors)
        if neighbours != self._neighbours:
            self._neighbours = neighbours
            self._near = [self._nearby(point) for point in self._points]

    def _nearby(self, finger: Finger) -> Address | None:
        """The node that belongs at a finger, if the neighbours are enough to tell."""
        circle, here, predecessor = self._ring.circle, self._ring.identifier, self._ring.predecessor
        if finger.clockwise:
            reaching = (one for one in self._ring.successors if circle.up_to(finger.point, here, one))
            return next(reaching, None)
        if predecessor is None:
            return here if self._ring.successors[0] == here else None
        behind = circle.clockwise(predecessor, finger.point) < circle.clockwise(predecessor, here)
        return predecessor if behind else None

    def _found(self, place: int, result: LookupResult | None) -> None:
        self._sought.discard(place)
        if result is None:
            self._test(place)
            return
        finger, (owner, predecessor) = self._points[place], result
        self._set(place, owner if finger.clockwise or owner == finger.point else predecessor)

    def _test(self, place: int) -> None:
        """Clear a finger if its node is down: a failed lookup may have been routed through it."""
        ring, present = self._ring, self._ring.fingers[place]

        def answered(told: Neighbours) -> None:
            if told is None and ring.fingers[place] == present:
                ring.fingers[place] = None
                ring.forget_known()

        if present is not None:
            self._questions.ask(present, answered)

    def _set(self, place: int, address: Address | None) -> None:
        if address is not None and self._ring.fingers[place] != address:
            self._ring.fingers[place] = address
            self._ring.forget_known()
            self._contacts.known.note(address)

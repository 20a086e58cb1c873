"""A ring of nodes: each knows its neighbours and some fingers, and together they find the owner of any key.

Rules:

- A node's address is its identifier on the circle. A key belongs to its *owner*: the first node at or after
  it.
- A layer above sends a payload to the owner of a key (`route`), to the owners of several keys (`multicast`),
  or to every owner of a stretch of the circle (`multicast_segment`), and listens for payloads by their class.
- Each node that a multicast is meant for gets it once. A segment is divided by the identifiers of nodes, not
  by the keys that they own, so that no two branches end at the same node.
- Here a message is only passed on. Whether it survives faults is `courier`'s business; how neighbours and
  fingers are found and mended is `upkeep`'s. `settle` sets them as a ring at rest has them.

The expected path is (log2 N) / 2 nodes long with one-way fingers, and shorter both ways (002 Figure 3).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from distributary.overlay.circle import Circle
from distributary.overlay.fingers import BOTH_WAYS, OneWay, Rule
from distributary.overlay.node import Address, Message, Node

P = TypeVar("P")


class Arrival(NamedTuple):
    """How a payload came here: who sent it out, and for which keys of this node (none for a segment)."""

    origin: Address
    keys: tuple[int, ...] = ()


class Routed(NamedTuple):
    """A payload on its way to the owners of some keys."""

    keys: tuple[int, ...]
    payload: Message
    origin: Address


class Segment(NamedTuple):
    """The stretch of the circle from first to last, both included; the whole circle when last is just
    before first."""

    first: int
    last: int


class SegmentCast(NamedTuple):
    """A payload on its way to every node in a piece of a segment.

    The owner of the segment's last key may lie behind it: it belongs to the piece that has `tail`.
    """

    piece: Segment
    tail: bool
    segment: Segment
    payload: Message
    origin: Address


class Ring:
    """The ring layer of a node."""

    def __init__(
        self, node: Node, circle: Circle, *, rule: Rule = BOTH_WAYS, successor_count: int = 4
    ) -> None:
        self.node = node
        self.circle = circle
        self.rule = rule
        self.successor_count = successor_count
        self.identifier: Address = node.address
        self.predecessor: Address | None = None
        self.successors: list[Address] = [node.address]
        self.fingers: list[Address | None] = [None] * len(rule.fingers(circle, node.address))
        self.forward: Callable[[Address, Message], None] = node.send
        """Hands a message to a next node; the courier puts itself here."""
        self.listeners: dict[type, Callable[[Any, Arrival], None]] = {}
        self._known: tuple[Address, ...] | None = None
        node.handle(Routed, self._routed)
        node.handle(SegmentCast, self._segment_cast)

    # For the layers above.

    def listen(self, kind: type[P], handler: Callable[[P, Arrival], None]) -> None:
        """Have payloads of this class that are meant for this node given to the handler."""
        if kind in self.listeners:
            raise ValueError(f"{kind.__name__} has a listener already")
        self.listeners[kind] = handler

    def route(self, key: int, payload: Message) -> None:
        """Send a payload to the owner of a key, here or elsewhere."""
        self.pass_on(Routed((key,), payload, self.identifier))

    def multicast(self, keys: Iterable[int], payload: Message) -> None:
        """Send a payload once to each owner of these keys; each learns which of the keys are its own.

        Keys that are identifiers of nodes reach each node by one message. Keys between may reach the same
        owner by several, each with other keys.
        """
        self.pass_on(Routed(tuple(sorted(set(keys))), payload, self.identifier))

    def multicast_segment(self, start: int, length: int, payload: Message) -> None:
        """Send a payload once to each owner of a key in [start, start + length)."""
        segment = Segment(start, self.circle.add(start, length - 1))
        whole = length >= self.circle.size
        self.spread(SegmentCast(segment, not whole, segment, payload, self.identifier))

    def owns(self, key: int) -> bool:
        if self.predecessor is None:
            return self.successors[0] == self.identifier or key == self.identifier
        return self.circle.up_to(key, self.predecessor, self.identifier)

    def next_hop(self, key: int) -> Address | None:
        """Whom to ask next for a key; None when it is this node's own."""
        if self.owns(key):
            return None
        successor = self.successors[0]
        if self.circle.up_to(key, self.identifier, successor):
            return successor
        nearest = self.rule.nearest(self.circle, self.identifier, key, self.known())
        return nearest if nearest != self.identifier else successor

    # What a node knows.

    def known(self) -> tuple[Address, ...]:
        """Everybody this node knows, sorted, itself excluded."""
        if self._known is None:
            known = {*self.successors, *self.fingers, self.predecessor} - {None, self.identifier}
            self._known = tuple(sorted(address for address in known if address is not None))
        return self._known

    def forget_known(self) -> None:
        """To be called after any change of predecessor, successors or fingers."""
        self._known = None

    # On the way.

    def _routed(self, message: Routed, sender: Address) -> None:
        self.pass_on(message)

    def pass_on(self, message: Routed) -> None:
        """Hand the payload over for the keys owned here, and on to the next node for each of the others."""
        own: list[int] = []
        onwards: dict[Address, list[int]] = {}
        for key in message.keys:
            hop = self.next_hop(key)
            if hop is None:
                own.append(key)
            else:
                onwards.setdefault(hop, []).append(key)
        if own:
            self._hand_over(message.payload, Arrival(message.origin, tuple(own)))
        for hop, keys in onwards.items():
            self.forward(hop, message._replace(keys=tuple(keys)))

    def _segment_cast(self, message: SegmentCast, sender: Address) -> None:
        self.spread(message)

    def spread(self, message: SegmentCast) -> None:
        """Hand the payload over if it is meant for this node, and divide the rest of the piece."""
        piece, tail = message.piece, message.tail
        inside = self._holds(piece, self.identifier)
        is_tail = tail and self.owns(piece.last)
        if inside or is_tail:
            self._hand_over(message.payload, Arrival(message.origin))
        for target, part, part_tail in self._shares(piece, tail and not is_tail, message.segment, inside):
            self.forward(target, message._replace(piece=part, tail=part_tail))

    def _shares(
        self, piece: Segment, tail: bool, segment: Segment, inside: bool
    ) -> list[tuple[Address, Segment, bool]]:
        """Who gets which part of a piece of a segment."""
        if not inside:
            return self._share(piece, tail, segment)
        shares = []
        if piece.first != self.identifier:
            shares += self._share(Segment(piece.first, self.circle.add(self.identifier, -1)), False, segment)
        if piece.last != self.identifier:
            shares += self._share(Segment(self.circle.add(self.identifier, 1), piece.last), tail, segment)
        return shares

    def _share(self, part: Segment, tail: bool, segment: Segment) -> list[tuple[Address, Segment, bool]]:
        """Divide a part that does not hold this node among those known in it, or pass it towards it."""
        circle = self.circle
        targets = self._targets(part)
        if isinstance(self.rule, OneWay):
            starts = targets
            if not targets or targets[0] != part.first:
                starts = [part.first, *targets]
                targets = [self.rule.nearest(circle, self.identifier, part.first, self.known()), *targets]
        elif targets:
            middles = [
                circle.add(one, circle.clockwise(one, other) // 2 + 1) for one, other in pairwise(targets)
            ]
            starts = [part.first, *middles]
        else:
            starts = [part.first]
            targets = [self.rule.nearest(circle, self.identifier, part.last, self.known())]
        ends = [*(circle.add(start, -1) for start in starts[1:]), part.last]
        shares = []
        for target, start, end in zip(targets, starts, ends, strict=True):
            has_tail = tail and end == part.last
            share = self._trimmed(target, Segment(start, end), has_tail, segment)
            if share is not None:
                shares.append(share)
        return shares

    def _trimmed(
        self, target: Address, part: Segment, tail: bool, segment: Segment
    ) -> tuple[Address, Segment, bool] | None:
        """A share, unless nobody can be there: no node lies between this one and its neighbours."""
        successor = self.successors[0]
        if self._holds(part, target):
            return target, part, tail
        ahead = self.circle.clockwise(self.identifier, part.first)
        beyond = self.circle.clockwise(self.identifier, part.last)
        gap = self.circle.clockwise(self.identifier, successor) or self.circle.size
        if ahead <= beyond and beyond < gap:
            if tail and not self._holds(segment, successor):
                return successor, part, True
            return None
        if self.predecessor is not None and target in (self.predecessor, self.identifier):
            behind = self.circle.clockwise(self.predecessor, part.first)
            if (
                0
                < behind
                <= self.circle.clockwise(self.predecessor, part.last)
                < self.circle.clockwise(self.predecessor, self.identifier)
            ):
                return None
        return target if target != self.identifier else successor, part, tail

    def _targets(self, part: Segment) -> list[Address]:
        """Those known whose identifiers lie in the part, clockwise."""
        known = self.known()
        low, high = bisect_left(known, part.first), bisect_right(known, part.last)
        return list(known[low:high] if part.first <= part.last else known[low:] + known[:high])

    def _holds(self, part: Segment, identifier: int) -> bool:
        return self.circle.clockwise(part.first, identifier) <= self.circle.clockwise(part.first, part.last)

    def _hand_over(self, payload: Message, arrival: Arrival) -> None:
        self.listeners[type(payload)](payload, arrival)


def settle(rings: Sequence[Ring]) -> None:
    """Give every node the neighbours and fingers that it would have in the end, were nothing to change."""
    members = sorted(ring.identifier for ring in rings)
    count = len(members)
    for ring in rings:
        place = bisect_left(members, ring.identifier)
        ring.predecessor = members[place - 1] if count > 1 else None
        following = [
            members[(place + step) % count] for step in range(1, min(ring.successor_count, count - 1) + 1)
        ]
        ring.successors = following or [ring.identifier]
        ring.fingers = [
            members[bisect_left(members, finger.point) % count]
            if finger.clockwise
            else members[bisect_right(members, finger.point) - 1]
            for finger in ring.rule.fingers(ring.circle, ring.identifier)
        ]
        ring.forget_known()

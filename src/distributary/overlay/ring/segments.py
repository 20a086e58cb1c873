"""Stretches of the circle, and how one is divided among the nodes that somebody knows in it.

Rules:

- A segment is divided by the identifiers of nodes, not by the keys that they own: of every piece, each node
  whose identifier lies in it gets one message, and no two branches end at the same node.
- The owner of a segment's last key may lie behind the segment. One branch has the *tail*: it alone looks for
  that owner.
- One way, a node is responsible for what lies between it and the next one known; both ways, for what lies
  nearer to it than to the others known (002 section 4.2).
- Nobody is left out for being suspected: a piece in which only suspected nodes may be waits.

Cost: one share for each node known in the piece, found by bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from distributary.overlay.node import Address
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import ONE_WAY, OneWay

if TYPE_CHECKING:
    from distributary.overlay.ring.ring import Ring


class RingSegment(NamedTuple):
    """The stretch of the circle from first to last, both included; the whole circle when last is just
    before first."""

    first: int
    last: int


class SegmentShare(NamedTuple):
    """The node that passes a piece of a segment on, and whether it looks for the owner behind the segment."""

    target: Address
    piece: RingSegment
    tail: bool


def holds(circle: Circle, piece: RingSegment, identifier: int) -> bool:
    """Whether an identifier lies in a piece.

    >>> holds(Circle(3), RingSegment(6, 1), 0), holds(Circle(3), RingSegment(6, 1), 2)
    (True, False)
    """
    return circle.clockwise(piece.first, identifier) <= circle.clockwise(piece.first, piece.last)


def divide(view: Ring, piece: RingSegment, tail: bool, segment: RingSegment) -> list[SegmentShare]:
    """Who gets which part of a piece of a segment. What the dividing node gets itself must wait there, for
    it might be meant for somebody suspected."""
    circle, here = view.circle, view.identifier
    if not holds(circle, piece, here):
        return _parts(view, piece, tail, segment)
    shares = []
    if piece.first != here:
        shares += _parts(view, RingSegment(piece.first, circle.add(here, -1)), False, segment)
    if piece.last != here:
        shares += _parts(view, RingSegment(circle.add(here, 1), piece.last), tail, segment)
    return shares


def _parts(view: Ring, piece: RingSegment, tail: bool, segment: RingSegment) -> list[SegmentShare]:
    """Divide a piece that does not hold the node among those known in it, or pass it towards it."""
    circle, targets = view.circle, _targets(view.known(), piece)
    if isinstance(view.rule, OneWay):
        starts = targets
        if not targets or targets[0] != piece.first:
            starts = [piece.first, *targets]
            targets = [view.rule.nearest(circle, view.identifier, piece.first, view.known()), *targets]
    elif targets:
        middles = [circle.add(one, circle.clockwise(one, other) // 2 + 1) for one, other in pairwise(targets)]
        starts = [piece.first, *middles]
    else:
        starts = [piece.first]
        targets = [view.rule.nearest(circle, view.identifier, piece.last, view.known())]
    ends = [*(circle.add(start, -1) for start in starts[1:]), piece.last]
    shares = [
        _trimmed(view, target, RingSegment(start, end), tail and end == piece.last, segment)
        for target, start, end in zip(targets, starts, ends, strict=True)
    ]
    return [share for share in shares if share is not None]


def _trimmed(
    view: Ring, target: Address, piece: RingSegment, tail: bool, segment: RingSegment
) -> SegmentShare | None:
    """A share, or None if no node can be in the piece: none lies between this one and its neighbours."""
    circle, here = view.circle, view.identifier
    if holds(circle, piece, target):
        return SegmentShare(target, piece, tail)
    if _within(circle, piece, here, view.successor):
        if any(holds(circle, piece, one) for one in view.passed_over()):
            return SegmentShare(here, piece, tail)
        if tail and not holds(circle, segment, view.successor):
            return SegmentShare(view.successor, piece, True)
        return None
    if (
        view.predecessor is not None
        and target in (view.predecessor, here)
        and _within(circle, piece, view.predecessor, here)
    ):
        return None
    if target == here:  # those nearer are suspected: let somebody before the piece look at it
        target = ONE_WAY.nearest(circle, here, piece.first, view.known())
    return SegmentShare(target, piece, tail)


def _within(circle: Circle, piece: RingSegment, start: Address, end: Address) -> bool:
    """Whether a whole piece lies strictly between two nodes."""
    gap = circle.clockwise(start, end) or circle.size
    return 0 < circle.clockwise(start, piece.first) <= circle.clockwise(start, piece.last) < gap


def _targets(known: tuple[Address, ...], piece: RingSegment) -> list[Address]:
    """Those known whose identifiers lie in the piece, clockwise."""
    low, high = bisect_left(known, piece.first), bisect_right(known, piece.last)
    return list(known[low:high] if piece.first <= piece.last else known[low:] + known[:high])

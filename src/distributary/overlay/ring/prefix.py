"""Key-based routing as in Pastry: by the digits of identifiers, to the node nearest to a key (001, 2.4, 5.2).

A second layer with the interface of `ring.Ring`, from which it differs in two ways:

- A key belongs to the node whose identifier is *nearest*, whichever side it is on. A node owns the stretch
  from half-way to its predecessor to half-way to its successor; a key in the very middle is that of the node
  before it.
- A message goes to a node whose identifier shares at least one digit more with the key. The routing table has
  such a node, if there is one, for every length of the shared prefix and every next digit. Near the key,
  among the neighbours (the *leaf set*), it goes to the nearest at once.

Every hop shares more digits with the key, or as many and is nearer, so no message goes in circles; the
expected path is log N to the base 2^digit long.

Joins, leaves and repairs are those of a ring (`upkeep`), since the neighbours are the same. When a node
fails, its keys are divided between its neighbours: copies are kept on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

from distributary.overlay.node import Address, Message, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import Finger
from distributary.overlay.ring.ring import Arrival, Ring, SegmentCast
from distributary.overlay.ring.segments import holds


@dataclass(frozen=True)
class Prefixes:
    """Pastry's table: a node for every length of the prefix shared with it, and every other next digit."""

    digit: int = 2
    """The bits of a digit."""

    def fingers(self, circle: Circle, identifier: int) -> list[Finger]:
        """The places in the routing table of a node: the first node with each such prefix.

        >>> [f"{finger.point:04b}" for finger in Prefixes().fingers(Circle(4), 0b1001)]
        ['0000', '0100', '1100', '1000', '1010', '1011']
        """
        table = []
        for low in range(circle.bits - self.digit, -self.digit, -self.digit):
            shift = max(low, 0)
            size = 1 << min(self.digit, circle.bits - shift, self.digit + low)
            own = identifier >> shift
            row = own // size * size
            table += [Finger(other << shift) for other in range(row, row + size) if other != own]
        return table

    def nearest(self, circle: Circle, identifier: int, key: int, known: tuple[Address, ...]) -> Address:
        """Of those who share more digits with the key, or as many and are nearer, the best; else here itself.

        >>> Prefixes().nearest(Circle(4), 0b1001, 0b0110, (0b0001, 0b0100, 0b1000))
        4
        """
        return max(
            (identifier, *known), key=lambda one: (self.shared(circle, one, key), -circle.distance(one, key))
        )

    def shared(self, circle: Circle, one: int, other: int) -> int:
        """How many leading digits two identifiers share."""
        return (circle.bits - (one ^ other).bit_length()) // self.digit


class PrefixRing(Ring):
    """The routing layer of a node, as in Pastry.

    >>> from distributary.overlay.ring.ring import settle
    >>> rings = [PrefixRing(Node(place), Circle(6)) for place in (4, 20, 40)]
    >>> settle(rings)
    >>> [[key for key in (0, 12, 13, 30, 31, 54, 55) if ring.owns(key)] for ring in rings]
    [[0, 12, 55], [13, 30], [31, 54]]
    """

    def __init__(
        self, node: Node, circle: Circle, *, rule: Prefixes = Prefixes(), successor_count: int = 4
    ) -> None:
        super().__init__(node, circle, rule=rule, successor_count=successor_count)
        self.listen(SegmentCast, self._spread_from_first)

    def multicast_segment(self, start: int, length: int, payload: Message) -> None:
        """Send a payload once to each owner of a key in [start, start + length).

        The owner of the first key may stand before the segment, where dividing it by identifiers would not
        look; so the payload is routed to that node, which divides the segment.
        """
        if length >= self.circle.size:
            super().multicast_segment(start, length, payload)
        else:
            self.route(start, self.segment_cast(start, length, payload))

    def _spread_from_first(self, message: SegmentCast, arrival: Arrival) -> None:
        """As the owner of a segment's first key: take the payload, and divide the segment."""
        if not (holds(self.circle, message.segment, self.identifier) or self.owns(message.segment.last)):
            self._hand_over(message.payload, message.stamp, None)
        self._spread(message, self.identifier)

    def arc(self) -> tuple[int, int] | None:
        """Where the keys of this node begin and end."""
        if self.predecessor is None:
            return None
        return self._middle(self.predecessor, self.identifier), self._middle(
            self.identifier, self.successors[0]
        )

    def owns(self, key: int) -> bool:
        """Whether this node is nearest to a key, as far as it knows."""
        arc = self.arc()
        if arc is None:
            return super().owns(key)
        return self.member and self.circle.up_to(key, *arc)

    def siblings(self, count: int) -> list[Address]:
        """The neighbours on both sides, between which the keys of this node are divided if it fails."""
        first, *others = self.successors
        nearest = dict.fromkeys([first, self.predecessor, *others])
        return [one for one in nearest if one is not None and one != self.identifier][:count]

    def new_owners(self) -> list[Address]:
        """The neighbours that own what this node has ceased to own: on either side."""
        return self.siblings(2)

    def next_hop(self, key: int) -> Address | None:
        """Whom to ask next for a key; None when it is this node's own."""
        if self.owns(key):
            return None
        leaves = [one for one in (self.predecessor, *self.successors) if one is not None]
        trusted = [one for one in leaves if one not in self.suspected]
        if self._is_among(key, leaves) and trusted:
            return min(
                trusted, key=lambda one: (self.circle.distance(one, key), self.circle.clockwise(one, key))
            )
        best = self.rule.nearest(self.circle, self.identifier, key, self.known())
        return best if best != self.identifier else self.successor

    def _middle(self, one: int, other: int) -> int:
        """The last key that is nearer to the first of two neighbours, going clockwise."""
        return self.circle.add(one, self.circle.clockwise(one, other) // 2)

    def _is_among(self, key: int, leaves: list[Address]) -> bool:
        """Whether a key lies between the neighbours: from the predecessor to the last successor."""
        first, last = leaves[0], leaves[-1]
        if first == last:
            return True
        return self.circle.clockwise(first, key) <= self.circle.clockwise(first, last)

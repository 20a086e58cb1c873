"""How the nodes of a HOPE system agree on the length of addresses as their number changes.

With too few bits nodes are left without a vertex and keys are full; with too many a subscription goes to more
vertices than it need. So the dimension follows the number of nodes, and nobody may miss an event meanwhile:

- One node, the *keeper*, decides: the owner of a certain key. What is settled is kept by replication.
- A change is three steps, so many refresh periods apart that every node has heard of one before the next:
  subscriptions are registered in the cubes of both dimensions; then events are published in the new one; then
  subscriptions are withdrawn from the old one. At every step, and between any two, an event goes to a cube in
  which all subscriptions are registered.
- The keeper sends what is settled to all nodes at once. Against what gets lost, and for newcomers, every node
  tells another one in each period what it knows; the higher number is right.
- The number of nodes is guessed from how close together the successors are, and the guesses are averaged as
  they are told on. The dimension changes when the guess is well outside of what it suits.

Cost: a message a node and period; at a change one to every node, and every subscription registered once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.overlay.replication import Replication
from distributary.overlay.ring.ring import Arrival, Ring

STEP = 3
"""Refresh periods between two steps."""
ABOVE, BELOW = 0.5, 2.0
"""By how many bits the guess may lie above and below the dimension before it is changed."""
SHARE = 0.2
"""How much of a node's own guess goes into what it has averaged, a period."""


class AgreedDimensions(NamedTuple):
    """What is settled, by rank among the possible dimensions: where to publish, and where to register."""

    number: int
    publishing: int
    registering: tuple[int, ...]
    since: float = 0.0


class DimensionGossip(NamedTuple):
    """What a node knows to be settled, and its guess of the nodes, as a power of two."""

    settled: AgreedDimensions
    guess: float | None = None


class DimensionRequest(NamedTuple):
    """From a node that has just come, to the keeper: what is settled?"""

    address: Address


class DimensionAgreement:
    """What one node knows of the dimension, and its part in changing it."""

    def __init__(self, ring: Ring, dimension: int, dimensions: tuple[int, ...]) -> None:
        self.ring = ring
        self.dimensions = dimensions
        rank = dimensions.index(dimension)
        self.settled = AgreedDimensions(0, rank, (rank,))
        self.changed: Callable[[AgreedDimensions, AgreedDimensions], None] | None = None
        """Called with what was and what is settled."""
        self.replication: Replication | None = None
        self._key = ring.circle.hash("the dimension of HOPE")
        self._guess: float | None = None
        self._asked = False
        self._turn = 0
        if self.adapts:
            ring.node.handle(DimensionGossip, self._heard)
            ring.listen(DimensionGossip, lambda tidings, arrival: self._heard(tidings, arrival.origin))
            ring.listen(DimensionRequest, self._newcomer)
            ring.watch(self._ask_once)

    @property
    def adapts(self) -> bool:
        """Whether there is more than one dimension to choose from."""
        return len(self.dimensions) > 1

    @property
    def dimension(self) -> int:
        """The dimension in which events are published."""
        return self.dimensions[self.settled.publishing]

    def each_period(self, refresh: float) -> None:
        """Guess, tell on, and decide if this node is the keeper."""
        if not self.adapts or not self.ring.member:
            return
        own = guessed_nodes(self.ring)
        self._guess = own if self._guess is None else (1 - SHARE) * self._guess + SHARE * own
        self._turn += 1
        if self.ring.owns(self._key) and self._turn > STEP:  # not before guesses have been averaged
            self._decide(refresh)
        known = self.ring.known()
        if known:
            self.ring.node.send(known[self._turn % len(known)], DimensionGossip(self.settled, self._guess))

    def _decide(self, refresh: float) -> None:
        """Take the next step if it is due; what an earlier keeper settled counts."""
        assert self.replication is not None
        kept = self.replication.contents(self._key).get("settled")
        if isinstance(kept, AgreedDimensions):
            self._adopt(kept)
        following = self._following(self.settled, STEP * refresh)
        if following != kept:
            self.replication.put(self._key, "settled", following)
        if following != self.settled:
            self.ring.multicast_segment(0, self.ring.circle.size, DimensionGossip(following))

    def _following(self, settled: AgreedDimensions, wait: float) -> AgreedDimensions:
        """What is to be settled after this, now."""
        number, publishing, registering, since = settled
        now = self.ring.node.now
        if len(registering) == 1:
            fitting = self._fitting()
            if fitting == publishing:
                return settled
            return AgreedDimensions(number + 1, publishing, (publishing, fitting), now)
        if now - since < wait:
            return settled
        if publishing == registering[0]:
            return AgreedDimensions(number + 1, registering[1], registering, now)
        return AgreedDimensions(number + 1, publishing, (publishing,), now)

    def _fitting(self) -> int:
        """The rank of the dimension to have: the present one while it will do."""
        assert self._guess is not None
        if self.dimension - BELOW <= self._guess <= self.dimension + ABOVE:
            return self.settled.publishing
        wanted = max(1, math.ceil(self._guess))
        return min(range(len(self.dimensions)), key=lambda rank: abs(self.dimensions[rank] - wanted))

    # What others say.

    def _heard(self, tidings: DimensionGossip, sender: Address) -> None:
        self._adopt(tidings.settled)
        if tidings.guess is not None:
            own = tidings.guess if self._guess is None else self._guess
            self._guess = (own + tidings.guess) / 2

    def _adopt(self, settled: AgreedDimensions) -> None:
        if settled.number > self.settled.number:
            before, self.settled = self.settled, settled
            if self.changed is not None:
                self.changed(before, settled)

    def _ask_once(self) -> None:
        """When this node has just found its place, ask what is settled."""
        if self.ring.member and not self._asked and self.ring.successors[0] != self.ring.identifier:
            self._asked = True
            self.ring.route(self._key, DimensionRequest(self.ring.identifier))

    def _newcomer(self, message: DimensionRequest, arrival: Arrival) -> None:
        if message.address != self.ring.identifier:
            self.ring.node.send(message.address, DimensionGossip(self.settled))


def guessed_nodes(ring: Ring) -> float:
    """The logarithm to base 2 of how many nodes there are, to judge by the distances of the successors.

    >>> from distributary.overlay.ring.circle import Circle
    >>> from distributary.overlay.node import Node
    >>> from distributary.overlay.ring.ring import settle
    >>> rings = [Ring(Node(place), Circle(8)) for place in range(0, 256, 8)]
    >>> settle(rings)
    >>> guessed_nodes(rings[0])
    5.0
    """
    successors = ring.successors
    if len(successors) < ring.successor_count or successors[-1] == ring.identifier:
        return math.log2(len(successors) + (successors[0] != ring.identifier))
    span = ring.circle.clockwise(ring.identifier, successors[-1])
    return math.log2(len(successors) * ring.circle.size / span)

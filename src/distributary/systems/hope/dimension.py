"""How the nodes of a HOPE system agree on the length of keys as the number of nodes changes.

With too few bits some nodes have no vertex and keys have too many bits set; with too many a subscription goes
to more vertices than needed. So the dimension follows the number of nodes, and no event may be missed during
a change:

- One node, the *keeper*, decides: the owner of a certain key. The decision is replicated.
- A change has three steps: subscriptions are registered in the cubes of both dimensions; then events are
  published in the new one; then subscriptions are withdrawn from the old one. At any time an event goes to a
  cube in which all subscriptions are registered.
- The steps are several refresh periods apart, so that every node has learned of one before the next. The
  keeper counts its own periods since it learned of a step, and another that takes over begins to count anew:
  no clock is compared with another's, nor with itself before it was put forward.
- The keeper multicasts each decision to all nodes. In case that is lost, and for new nodes, every node also
  sends what it knows to another node in each period; the higher number wins.
- The number of nodes is estimated from the distances of the successors, and nodes average their estimates
  with those that they receive. The dimension changes when the estimate is well outside its range.

Cost: one message a node and period; at a change one to every node, and every registration once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from distributary.overlay.key_routing import KeyRouting
from distributary.overlay.node import Address
from distributary.overlay.replication import Replication
from distributary.overlay.ring.ring import Arrival

STEP = 3
"""How many refresh periods lie between two steps."""
ABOVE, BELOW = 0.5, 2.0
"""How many bits the estimate may lie above and below the dimension before that is changed."""
SHARE = 0.2
"""The weight of a node's own estimate in its average, in each period."""


class AgreedDimensions(NamedTuple):
    """A decision, by rank among the possible dimensions: where to publish, and where to register."""

    number: int
    publishing: int
    registering: tuple[int, ...]
    past: tuple[int, ...] = ()
    """Where events were published before, and may still be stored."""


class DimensionGossip(NamedTuple):
    """The decision that a node knows, and its estimate of log2 of the number of nodes."""

    settled: AgreedDimensions
    guess: float | None = None


class DimensionRequest(NamedTuple):
    """From a node that has just joined to the keeper: a request for the current decision."""

    address: Address


class DimensionAgreement:
    """The dimension as one node knows it, and this node's part in changing it."""

    def __init__(
        self,
        ring: KeyRouting,
        replication: Replication,
        dimension: int,
        dimensions: tuple[int, ...],
        *,
        changed: Callable[[AgreedDimensions, AgreedDimensions], None],
    ) -> None:
        """`changed` is called with the previous and the new decision."""
        self.ring = ring
        self.replication = replication
        self.dimensions = dimensions
        rank = dimensions.index(dimension)
        self.settled = AgreedDimensions(0, rank, (rank,))
        self._changed = changed
        self._key = ring.circle.hash("the dimension of HOPE")
        self._estimate: float | None = None
        self._asked = False
        self._turn = 0
        """How many periods this node has seen."""
        self._learned = 0
        """In which of them it learned of the decision."""
        self._adapts = len(dimensions) > 1
        if self._adapts:
            ring.node.handle(DimensionGossip, self._heard)
            ring.listen(DimensionGossip, lambda gossip, arrival: self._heard(gossip, arrival.origin))
            ring.listen(DimensionRequest, self._newcomer)
            ring.watch(self._ask_once)

    @property
    def dimension(self) -> int:
        """The dimension in which events are published."""
        return self.dimensions[self.settled.publishing]

    def each_period(self) -> None:
        """Update the estimate, send it to another node, and decide if this node is the keeper."""
        if not self._adapts:
            return
        own = estimated_bits(self.ring)
        self._estimate = own if self._estimate is None else (1 - SHARE) * self._estimate + SHARE * own
        self._turn += 1
        if self.ring.owns(self._key) and self._turn > STEP:  # not before guesses have been averaged
            self._decide()
        known = self.ring.known()
        if known:
            self.ring.node.send(known[self._turn % len(known)], DimensionGossip(self.settled, self._estimate))

    def _decide(self) -> None:
        """Take the next step if it is due, starting from the replicated decision of an earlier keeper."""
        kept = self.replication.contents(self._key).get("settled")
        if isinstance(kept, AgreedDimensions):
            self._adopt(kept)
        following = self._following(self.settled)
        if following != kept:
            self.replication.put(self._key, "settled", following)
        if following != self.settled:
            self.ring.multicast_segment(0, self.ring.circle.size, DimensionGossip(following))

    def _following(self, settled: AgreedDimensions) -> AgreedDimensions:
        """The decision that follows this one now; the same one if no step is due."""
        number, publishing, registering, past = settled
        if len(registering) == 1:
            fitting = self._fitting()
            if fitting == publishing:
                return settled
            return AgreedDimensions(number + 1, publishing, (publishing, fitting), past)
        if self._turn - self._learned < STEP:
            return settled
        if publishing == registering[0]:
            past = tuple(sorted({*past, publishing}))
            return AgreedDimensions(number + 1, registering[1], registering, past)
        return AgreedDimensions(number + 1, publishing, (publishing,), past)

    def _fitting(self) -> int:
        """The rank of the best dimension: the present one while the estimate is in its range."""
        assert self._estimate is not None
        if self.dimension - BELOW <= self._estimate <= self.dimension + ABOVE:
            return self.settled.publishing
        wanted = max(1, math.ceil(self._estimate))
        return min(range(len(self.dimensions)), key=lambda rank: abs(self.dimensions[rank] - wanted))

    # What others say.

    def _heard(self, gossip: DimensionGossip, sender: Address) -> None:
        self._adopt(gossip.settled)
        if gossip.guess is not None:
            own = gossip.guess if self._estimate is None else self._estimate
            self._estimate = (own + gossip.guess) / 2

    def _adopt(self, settled: AgreedDimensions) -> None:
        """Follow a later decision; what is known of the past adds up, whoever decided it."""
        before = self.settled
        past = tuple(sorted({*before.past, *settled.past}))
        self.settled = max(before, settled, key=lambda decision: decision.number)._replace(past=past)
        if settled.number > before.number:
            self._learned = self._turn
            self._changed(before, self.settled)

    def _ask_once(self) -> None:
        """Ask the keeper for the decision once, as soon as this node is in the ring."""
        if self.ring.member and not self._asked and self.ring.successors[0] != self.ring.identifier:
            self._asked = True
            self.ring.route(self._key, DimensionRequest(self.ring.identifier))

    def _newcomer(self, message: DimensionRequest, arrival: Arrival) -> None:
        if message.address != self.ring.identifier:
            self.ring.node.send(message.address, DimensionGossip(self.settled))


def estimated_bits(ring: KeyRouting) -> float:
    """The logarithm to base 2 of the number of nodes, estimated from the distances of the successors.

    >>> from distributary.overlay.ring.circle import Circle
    >>> from distributary.overlay.node import Node
    >>> from distributary.overlay.ring.ring import Ring, settle
    >>> rings = [Ring(Node(place), Circle(8)) for place in range(0, 256, 8)]
    >>> settle(rings)
    >>> estimated_bits(rings[0])
    5.0
    """
    successors = ring.successors
    if len(successors) < ring.successor_count or successors[-1] == ring.identifier:
        return math.log2(len(successors) + (successors[0] != ring.identifier))
    span = ring.circle.clockwise(ring.identifier, successors[-1])
    return math.log2(len(successors) * ring.circle.size / span)

"""A ring of nodes: each knows its neighbours and some fingers, and together they find the owner of any key.

Rules:

- A node's address is its identifier on the circle. A key belongs to its *owner*: the first node at or after
  it.
- A layer above sends a payload to the owner of a key (`route`), to the owners of several keys (`multicast`),
  or to every owner of a stretch of the circle (`multicast_segment`), and listens for payloads by their class.
  Several payloads, each with keys of its own, go together as far as their ways do (`multicast_all`).
- Each node that a multicast is meant for gets it once: on a ring at rest because only one message brings it,
  otherwise because the stamp of what was handed over is remembered (when a courier carries the ring, for
  only then may a message be repeated).
- Here a message is only passed on. Whether it survives faults is `courier`'s business; how neighbours and
  fingers are found and mended is `upkeep`'s. `settle` sets them as a ring at rest has them.
- Whoever is *suspected* of being down is passed over as if it were not known.
- A message that goes in circles, or whose owner cannot be told yet, waits a while and is then tried again,
  if somebody keeps it (`hold`, the courier's). One that nobody keeps, or that has waited too often, is
  dropped and counted in `dropped`, by reason. On a ring at rest that never happens.

The expected path is (log2 N) / 2 nodes long with one-way fingers, and shorter both ways (002 Figure 3).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from distributary.overlay.node import Address, Message, Node, SendMessage
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import BOTH_WAYS, FingerRule
from distributary.overlay.ring.segments import RingSegment, divide, holds

P = TypeVar("P")

REMEMBERED = 4096
"""How many stamps of what was handed over a node remembers."""

MOST_WAITS = 40
"""How often a message waits for the ring to mend before it is dropped."""


class Arrival(NamedTuple):
    """How a payload came here: who sent it out, and for which keys of this node (none for a segment)."""

    origin: Address
    keys: tuple[int, ...] = ()


class PayloadStamp(NamedTuple):
    """Identifies a payload: who sent it out, in which incarnation, and as which of its payloads."""

    origin: Address
    incarnation: float
    number: int


class RoutedPayload(NamedTuple):
    """A payload on its way to the owners of some keys."""

    keys: tuple[int, ...]
    payload: Message
    stamp: PayloadStamp
    hops: int = 0
    waits: int = 0


class RoutedBundle(NamedTuple):
    """Payloads that take the same next step on their way to the owners of their keys."""

    messages: tuple[RoutedPayload, ...]


class SegmentCast(NamedTuple):
    """A payload on its way to every node in a piece of a segment."""

    piece: RingSegment
    tail: bool
    segment: RingSegment
    payload: Message
    stamp: PayloadStamp
    hops: int = 0
    waits: int = 0


class Ring:
    """The ring layer of a node."""

    def __init__(
        self, node: Node, circle: Circle, *, rule: FingerRule = BOTH_WAYS, successor_count: int = 4
    ) -> None:
        self.node = node
        self.circle = circle
        self.rule = rule
        self.successor_count = successor_count
        self.identifier: Address = node.address
        self.member = True
        """Whether this node takes part; one that is still joining or has left does not."""
        self.predecessor: Address | None = None
        self.successors: list[Address] = [node.address]
        self.fingers: list[Address | None] = [None] * len(rule.fingers(circle, node.address))
        self.forward: SendMessage = node.send
        """Hands a message to a next node."""
        self.hold: Callable[[Message], None] | None = None
        """Keeps a message for a while and then has it handled again; None where nobody does."""
        self.suspected: set[Address] = set()
        self.listeners: dict[type, Callable[[Any, Arrival], None]] = {}
        self.dropped: Counter[str] = Counter()
        self.most_hops = max(32, 2 * circle.bits)
        """After so many hops a message is thought to go in circles."""
        self._known: tuple[Address, ...] | None = None
        self._watchers: list[Callable[[], None]] = []
        self.incarnation = 0.0
        """When this node first started, by its own clock."""
        self._numbered = 0
        self._handed_over: dict[PayloadStamp, set[int]] = {}
        node.handle(RoutedPayload, self._pass_on)
        node.handle(RoutedBundle, self._pass_on_bundle)
        node.handle(SegmentCast, self._spread)
        node.at_start(self._begin)

    # For the layers above.

    def listen(self, kind: type[P], handler: Callable[[P, Arrival], None]) -> None:
        """Have payloads of this class that are meant for this node given to the handler."""
        if kind in self.listeners:
            raise ValueError(f"{kind.__name__} has a listener already")
        self.listeners[kind] = handler

    def carried_by(self, forward: SendMessage, hold: Callable[[Message], None]) -> None:
        """Have messages forwarded and held by a courier."""
        self.forward, self.hold = forward, hold

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have this called whenever the predecessor or the successors have changed."""
        self._watchers.append(watcher)

    def route(self, key: int, payload: Message) -> None:
        """Send a payload to the owner of a key, here or elsewhere."""
        self._pass_on(RoutedPayload((key,), payload, self._stamp()), self.identifier)

    def multicast(self, keys: Iterable[int], payload: Message) -> None:
        """Send a payload once to each owner of these keys; each learns which of the keys are its own.

        Keys that are identifiers of nodes reach each node by one message. Keys between may reach the same
        owner by several, each with other keys.
        """
        self._pass_on(self._addressed(keys, payload), self.identifier)

    def multicast_all(self, payloads: Iterable[tuple[Iterable[int], Message]]) -> None:
        """Send several payloads, each to the owners of its keys, in as few messages as their ways allow.

        A node sends one message to each next node, whatever the number of payloads that go there.
        """
        messages = tuple(self._addressed(keys, payload) for keys, payload in payloads)
        self._pass_on_bundle(RoutedBundle(messages), self.identifier)

    def _addressed(self, keys: Iterable[int], payload: Message) -> RoutedPayload:
        return RoutedPayload(tuple(sorted(set(keys))), payload, self._stamp())

    def multicast_segment(self, start: int, length: int, payload: Message) -> None:
        """Send a payload once to each owner of a key in [start, start + length)."""
        self._spread(self.segment_cast(start, length, payload), self.identifier)

    def segment_cast(self, start: int, length: int, payload: Message) -> SegmentCast:
        """A payload of this node for [start, start + length), not divided yet."""
        segment = RingSegment(start, self.circle.add(start, length - 1))
        whole = length >= self.circle.size
        return SegmentCast(segment, not whole, segment, payload, self._stamp())

    def owns(self, key: int) -> bool:
        """Whether a key is this node's own, as far as it knows: whoever is no member owns nothing."""
        if self.predecessor is None:
            alone = self.successors[0] == self.identifier
            return self.member and (alone or key == self.identifier)
        return self.member and self.circle.up_to(key, self.predecessor, self.identifier)

    def arc(self) -> tuple[int, int] | None:
        """The stretch (after, last] of keys that are this node's own; None while it cannot tell."""
        return None if self.predecessor is None else (self.predecessor, self.identifier)

    def siblings(self, count: int) -> list[Address]:
        """The nodes that own the keys of this one next, if it fails."""
        return [one for one in self.successors[:count] if one != self.identifier]

    def new_owners(self) -> list[Address]:
        """The neighbours that own what this node has ceased to own."""
        return [] if self.predecessor is None else [self.predecessor]

    def next_hop(self, key: int) -> Address | None:
        """Whom to ask next for a key; None when it is this node's own."""
        if self.owns(key):
            return None
        successor = self.successor
        if self.circle.up_to(key, self.identifier, successor):
            return successor
        nearest = self.rule.nearest(self.circle, self.identifier, key, self.known())
        return nearest if nearest != self.identifier else successor

    # What a node knows.

    @property
    def successor(self) -> Address:
        """The first successor that is not suspected; the first of all if every one is."""
        first = self.successors[0]
        if first not in self.suspected:
            return first
        return next((one for one in self.successors if one not in self.suspected), first)

    def passed_over(self) -> tuple[Address, ...]:
        """The suspected successors before the first that is not."""
        return tuple(self.successors[: self.successors.index(self.successor)])

    def known(self) -> tuple[Address, ...]:
        """Everybody this node knows and does not suspect, sorted, itself excluded."""
        if self._known is None:
            known = {*self.successors, *self.fingers, self.predecessor} - {None, self.identifier}
            self._known = tuple(sorted(one for one in known - self.suspected if one is not None))
        return self._known

    def forget_known(self) -> None:
        """To be called after any change of fingers, or of neighbours that is not made here."""
        self._known = None

    def set_predecessor(self, predecessor: Address | None) -> None:
        """Change the predecessor, and tell those who watch."""
        if predecessor != self.predecessor:
            self.predecessor = predecessor
            self._changed()

    def set_successors(self, successors: Sequence[Address]) -> None:
        """Change the successors, and tell those who watch."""
        if list(successors) != self.successors:
            self.successors = list(successors)
            self._changed()

    def suspect(self, address: Address) -> None:
        """Pass over a node that did not answer, until it is trusted again."""
        if address != self.identifier:
            self.suspected.add(address)
            self.forget_known()

    def trust(self, address: Address) -> None:
        """Suspect a node no longer: it has just been heard of, or the suspicion is old."""
        if address in self.suspected:
            self.suspected.remove(address)
            self.forget_known()

    def _changed(self) -> None:
        self.forget_known()
        for watcher in self._watchers:
            watcher()

    # On the way.

    def _pass_on(self, message: RoutedPayload, sender: Address) -> None:
        """Hand the payload over for the keys owned here, and on to the next node for each of the others."""
        kept: list[RoutedPayload] = []
        for hop, onward in self._taken(message, sender, kept):
            self.forward(hop, onward)
        self._hold_together(kept)

    def _pass_on_bundle(self, bundle: RoutedBundle, sender: Address) -> None:
        """The same for several payloads: what goes on to the same node goes in one message, and what cannot
        be placed now waits together."""
        onwards: dict[Address, list[RoutedPayload]] = {}
        kept: list[RoutedPayload] = []
        for message in bundle.messages:
            for hop, onward in self._taken(message, sender, kept):
                onwards.setdefault(hop, []).append(onward)
        for hop, messages in onwards.items():
            self.forward(hop, _bundled(messages))
        self._hold_together(kept)

    def _taken(
        self, message: RoutedPayload, sender: Address, kept: list[RoutedPayload]
    ) -> list[tuple[Address, RoutedPayload]]:
        """Hand a payload over for the keys owned here; what has to go on for the others, and to whom.

        What cannot be placed now is added to `kept`.
        """
        keys, payload, stamp, hops, waits = message
        if not self.member or hops > self.most_hops:
            if self._may_wait(message, "circles" if self.member else "not a member"):
                kept.append(message)
            return []
        own: list[int] = []
        unclear: list[int] = []
        onwards: dict[Address, list[int]] = {}
        for key in keys:
            hop = self.next_hop(key)
            if hop is None:
                own.append(key)
            elif self.hold is not None and self._is_unclear(key, hop, sender):
                unclear.append(key)
            else:
                onwards.setdefault(hop, []).append(key)
        if own:
            self._hand_over(payload, stamp, own)
        if unclear and self._may_wait(message, "owner unclear"):
            kept.append(message._replace(keys=tuple(unclear)))
        return [
            (hop, RoutedPayload(tuple(hop_keys), payload, stamp, hops + 1, waits))
            for hop, hop_keys in onwards.items()
        ]

    def _is_unclear(self, key: int, hop: Address, sender: Address) -> bool:
        """Whether sender and this node think of each other as the owner, or this one cannot tell yet."""
        if sender == self.identifier:
            return hop == self.identifier
        sure = self.predecessor is not None and self.predecessor not in self.suspected
        return hop in (sender, self.identifier) or (
            not sure and self.circle.up_to(key, sender, self.identifier)
        )

    def _spread(self, message: SegmentCast, sender: Address) -> None:
        """Hand the payload over if it is meant for this node, and divide the rest of the piece."""
        piece, tail, segment, payload, stamp, hops, waits = message
        if not self.member or hops > self.most_hops:
            self._keep(message, "circles" if self.member else "not a member")
            return
        is_tail = tail and self.owns(piece.last)
        if is_tail or holds(self.circle, piece, self.identifier):
            self._hand_over(payload, stamp, None)
        for target, part, part_tail in divide(self, piece, tail and not is_tail, segment):
            share = SegmentCast(part, part_tail, segment, payload, stamp, hops + 1, waits)
            if target == self.identifier:
                self._keep(share, "suspected")
            else:
                self.forward(target, share)

    def _keep(self, message: SegmentCast, reason: str) -> None:
        if self.hold is not None and self._may_wait(message, reason):
            self.hold(message._replace(hops=0, waits=message.waits + 1))

    def _hold_together(self, kept: list[RoutedPayload]) -> None:
        """Have payloads handled again later, all at once."""
        if kept and self.hold is not None:
            self.hold(_bundled([each._replace(hops=0, waits=each.waits + 1) for each in kept]))

    def _may_wait(self, message: RoutedPayload | SegmentCast, reason: str) -> bool:
        """Whether a message that cannot be placed now is to be tried again; if not, it is counted."""
        waits = self.hold is not None and message.waits < MOST_WAITS
        self.dropped[reason] += not waits
        return waits

    def _hand_over(self, payload: Message, stamp: PayloadStamp, keys: list[int] | None) -> None:
        """Give a payload to its listener, once for each key (or for a segment, `keys` being None)."""
        if self.hold is not None:
            handed = self._handed_over.setdefault(stamp, set())
            new = [key for key in ([-1] if keys is None else keys) if key not in handed]
            if not new:
                return
            handed.update(new)
            keys = None if keys is None else new
            if len(self._handed_over) > REMEMBERED:
                del self._handed_over[next(iter(self._handed_over))]
        self.listeners[type(payload)](payload, Arrival(stamp.origin, tuple(keys or ())))

    def _stamp(self) -> PayloadStamp:
        self._numbered += 1
        return PayloadStamp(self.identifier, self.incarnation, self._numbered)

    def _begin(self) -> None:
        if not self._numbered:
            self.incarnation = self.node.now


def _bundled(messages: Sequence[RoutedPayload]) -> RoutedPayload | RoutedBundle:
    return RoutedBundle(tuple(messages)) if len(messages) > 1 else messages[0]


def settle(rings: Sequence[Ring]) -> None:
    """Give every node the neighbours and fingers that it has in a ring at rest."""
    members = sorted(ring.identifier for ring in rings)
    for ring in rings:
        settle_among(ring, members)


def settle_among(ring: Ring, members: Sequence[Address]) -> None:
    """Give one node the neighbours and fingers that it has in a ring at rest of these members, sorted."""
    ring.predecessor, ring.successors, ring.fingers = at_rest(ring, members)
    ring.forget_known()


class RingNeighbours(NamedTuple):
    """Whom a node knows in its ring."""

    predecessor: Address | None
    successors: list[Address]
    fingers: list[Address | None]


def at_rest(ring: Ring, members: Sequence[Address]) -> RingNeighbours:
    """Whom a node knows in a ring at rest of these members, which are sorted and include it."""
    count = len(members)
    place = bisect_left(members, ring.identifier)
    reach = min(ring.successor_count, count - 1)
    following = [members[(place + step) % count] for step in range(1, reach + 1)]
    fingers: list[Address | None] = [
        members[bisect_left(members, finger.point) % count]
        if finger.clockwise
        else members[bisect_right(members, finger.point) - 1]
        for finger in ring.rule.fingers(ring.circle, ring.identifier)
    ]
    return RingNeighbours(members[place - 1] if count > 1 else None, following or [ring.identifier], fingers)

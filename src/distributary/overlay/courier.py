"""Carries messages at least once to a node that is up, and has each handled once.

Rules:

- A message travels in a `Packet`, numbered by its sender for each receiver. The receiver acknowledges every
  packet, and handles it unless it did so before. A packet that is not acknowledged is sent again.
- A packet says which number is the lowest that its sender still waits for. Whatever is below is over:
  acknowledged or given up. So a receiver remembers no more numbers than are under way, and a message that
  was given up, and perhaps went another way, is not handled late.
- Packets carry the sender's incarnation, the time at which it first started. A node that starts again without
  its state has a new incarnation: its numbers begin anew, and nothing of its earlier incarnation counts any
  more. One that starts again with its state takes up what it had under way.
- A message of the ring is tried a few times and its next hop then suspected: the ring looks for another
  way. A suspicion ends when the node is heard of, or after a while. A message sent to one node directly is
  tried for longer, at doubling intervals; then whoever asked (`on_failure`) is told.
- How long an answer is awaited follows the round trips measured: a packet carries the time of its try, which
  its acknowledgement returns. Otherwise, on a network that has become slow, a next hop would be given
  up while it passes the message on, which doubles the message at every hop.
- What the ring cannot place now is kept for `PAUSE` seconds and handled again.

Cost: an acknowledgement for each message, of a kind of its own so that costs can be counted without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from distributary.overlay.node import Address, Message, Node
from distributary.overlay.ring.ring import Ring

DECAY = 0.125
"""How much a measured round trip counts against those before."""
HOP_TRIES = 3
"""How often a message of the ring is tried before its next hop is suspected."""
PAUSE = 0.5
"""Seconds after which a message that the ring could not place is handled again."""
SUSPICION = 10.0
"""Seconds until a suspected node is given another try."""
MOST_PATIENCE = 4.0
"""How many times the timeout an answer is awaited at most."""


class Packet(NamedTuple):
    """A message under way, to be acknowledged."""

    incarnation: float
    number: int
    lowest: int
    """The lowest number that the sender still waits for."""
    message: Message
    tried: float = 0.0
    """When this try was sent, by the sender's clock."""


class Ack(NamedTuple):
    """A packet has arrived."""

    incarnation: float
    number: int
    tried: float = 0.0


@dataclass
class _Waiting:
    """A message that has not been acknowledged."""

    message: Message
    is_hop: bool
    tries: int = 0


@dataclass
class _Outgoing:
    """What is under way to one receiver."""

    numbered: int = 0
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    round_trip: float = 0.0
    """Seconds that recent answers took: rises at once with a slower answer, falls gradually."""
    measured: float = 0.0
    """When the last of them came."""

    @property
    def lowest(self) -> int:
        """The lowest number that is still waited for."""
        return next(iter(self.waiting), self.numbered + 1)


@dataclass
class _Incoming:
    """Which packets of one sender have been handled: all below `lowest`, and some at or above it."""

    incarnation: float
    lowest: int = 1
    handled: set[int] = field(default_factory=set)

    def take(self, number: int, lowest: int) -> bool:
        """Note that a packet is handled and that all below `lowest` are over; whether it is new."""
        if lowest > self.lowest:
            self.lowest = lowest
            self.handled = {one for one in self.handled if one >= lowest}
        new = number >= self.lowest and number not in self.handled
        if new:
            self.handled.add(number)
        while self.lowest in self.handled:
            self.handled.remove(self.lowest)
            self.lowest += 1
        return new


class Courier:
    """The courier of a node; systems send through `send` what must not get lost."""

    def __init__(self, node: Node, *, timeout: float = 1.0, tries: int = 6) -> None:
        self.node = node
        self.tries = tries
        """How often a message sent to one node directly is tried before it is given up."""
        self.timeout = timeout
        """Seconds until a packet is first sent again, unless round trips are found to take about as long."""
        self.repeated = 0
        """Packets sent again."""
        self.given_up = 0
        self.round_trip = 0.0
        """Seconds that answers of all nodes take on average of late."""
        self._incarnation = 0.0
        self._outgoing: dict[Address, _Outgoing] = {}
        self._incoming: dict[Address, _Incoming] = {}
        self._held: dict[int, Message] = {}
        self._holds = 0
        self._failure_handlers: list[Callable[[Address, Message], None]] = []
        self._ring: Ring | None = None
        node.handle(Packet, self._packet)
        node.handle(Ack, self._ack)
        node.at_alarm("courier again", self._again)
        node.at_alarm("courier held", self._release)
        node.at_alarm("courier suspicion", self._trust)
        node.at_start(self._begin)

    def send(self, to: Address, message: Message) -> None:
        """Have a message handled by a node once, trying again until it says so."""
        self._send(to, message, is_hop=False)

    @property
    def idle(self) -> bool:
        """Whether all that was sent has been acknowledged, or given up."""
        return not any(outgoing.waiting for outgoing in self._outgoing.values())

    def on_failure(self, handler: Callable[[Address, Message], None]) -> None:
        """Have this called with the receiver and the message whenever one sent directly is given up."""
        self._failure_handlers.append(handler)

    def carry(self, ring: Ring) -> None:
        """Carry the messages of a ring from now on: they are routed around a hop that does not answer."""
        self._ring = ring
        ring.carried_by(partial(self._send, is_hop=True), self._hold)

    # Sending.

    def _send(self, to: Address, message: Message, is_hop: bool) -> None:
        outgoing = self._outgoing.setdefault(to, _Outgoing())
        outgoing.numbered += 1
        outgoing.waiting[outgoing.numbered] = _Waiting(message, is_hop)
        self._try(to, outgoing.numbered)

    def _try(self, to: Address, number: int) -> None:
        outgoing = self._outgoing[to]
        waiting = outgoing.waiting[number]
        waiting.tries += 1
        after = self._patience(outgoing)
        if not waiting.is_hop:
            after = max(after, self.timeout * 2.0 ** (waiting.tries - 1))
        self.node.send(to, Packet(self._incarnation, number, outgoing.lowest, waiting.message, self.node.now))
        self.node.wake_after(after, "courier again", (to, number))

    def _patience(self, outgoing: _Outgoing) -> float:
        """Seconds to wait for an answer: twice what answers take, within bounds.

        Measurements that are too old do not count: the node may have become faster, or have failed.
        """
        recent = self.node.now - outgoing.measured < SUSPICION
        usual = max(outgoing.round_trip, self.round_trip) if recent else self.round_trip
        return min(max(self.timeout, 2 * usual), MOST_PATIENCE * self.timeout)

    def _again(self, about: tuple[Address, int]) -> None:
        to, number = about
        waiting = self._outgoing[to].waiting.get(number)
        if waiting is None:
            return
        if waiting.tries < (HOP_TRIES if waiting.is_hop else self.tries):
            self.repeated += 1
            self._try(to, number)
        else:
            self._give_up(to, number, waiting)

    def _give_up(self, to: Address, number: int, waiting: _Waiting) -> None:
        del self._outgoing[to].waiting[number]
        self.given_up += 1
        if self._ring is not None:
            self._ring.suspect(to)
            self.node.wake_after(SUSPICION, "courier suspicion", to)
        if waiting.is_hop:
            self.node.dispatch(waiting.message, self.node.address)
        else:
            for handler in self._failure_handlers:
                handler(to, waiting.message)

    def _trust(self, address: Address) -> None:
        if self._ring is not None:
            self._ring.trust(address)

    # Receiving.

    def _packet(self, packet: Packet, sender: Address) -> None:
        incarnation, number, lowest, message, tried = packet
        self.node.send(sender, Ack(incarnation, number, tried))
        self._trust(sender)
        incoming = self._incoming.get(sender)
        if incoming is None or incarnation > incoming.incarnation:
            incoming = self._incoming[sender] = _Incoming(incarnation)
        if incarnation == incoming.incarnation and incoming.take(number, lowest):
            self.node.dispatch(message, sender)

    def _ack(self, ack: Ack, sender: Address) -> None:
        self._trust(sender)
        if ack.incarnation == self._incarnation and sender in self._outgoing:
            outgoing = self._outgoing[sender]
            outgoing.waiting.pop(ack.number, None)
            took = self.node.now - ack.tried
            outgoing.round_trip = max(took, (1 - DECAY) * outgoing.round_trip + DECAY * took)
            outgoing.measured = self.node.now
            self.round_trip += DECAY * (took - self.round_trip)

    # Keeping.

    def _hold(self, message: Message) -> None:
        self._holds += 1
        self._held[self._holds] = message
        self.node.wake_after(PAUSE, "courier held", self._holds)

    def _release(self, number: int) -> None:
        self.node.dispatch(self._held.pop(number), self.node.address)

    def _begin(self) -> None:
        """Begin an incarnation, or take up what was under way when the node stopped."""
        if not self._outgoing and not self._incoming:
            self._incarnation = self.node.now
        if self._ring is not None:
            for address in sorted(self._ring.suspected):
                self._ring.trust(address)
        for to, outgoing in self._outgoing.items():
            for number in outgoing.waiting:
                self.node.wake_after(self.timeout, "courier again", (to, number))
        for number in self._held:
            self.node.wake_after(PAUSE, "courier held", number)

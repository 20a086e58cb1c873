"""The connection manager of a node (003, Figure 5.3): one connection to each other node.

Rules:

- What one node sends to another arrives once and in the order in which it was sent. All promises of the query
  network about streams rest on this, and on numbers that are kept from end to end.
- A message is sent again until it is acknowledged. A connection never gives up by itself: whether a node is
  removed is decided by the registry (`registry_failover`).
- A message of a node to itself is handled at once and costs nothing.
- A message that is soon out of date is offered: it is not sent to a node that does not answer at present, so
  that nothing piles up.
"""

from __future__ import annotations

from distributary.overlay.courier import Ack, Courier, Packet
from distributary.overlay.node import Address, Message, Node

UNLIMITED = 1 << 60
"""How often a message is tried: until it is acknowledged."""
SILENT = 3
"""A node that did not acknowledge a message sent so often does not answer at present."""
MOST_DOUBLINGS = 4
"""The interval between tries doubles so often, and then stays."""


class Connections(Courier):
    """A courier that keeps the order, and never gives up.

    >>> node = Node(7)
    >>> connections = Connections(node)
    >>> node.handle(str, lambda message, sender: node.deliver(message))
    >>> node.receive(Packet(0.0, 2, 1, "second"), 3, now=1.0)
    [Send(to=3, message=Ack(incarnation=0.0, number=2, tried=0.0))]
    >>> [effect.item for effect in node.receive(Packet(0.0, 1, 1, "first"), 3, now=1.1)[1:]]
    ['first', 'second']
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node, tries=UNLIMITED)
        self._next: dict[Address, int] = {}
        """The number of the packet to handle next, of each sender."""
        self._early: dict[Address, dict[int, Message]] = {}
        """Messages of each sender that came before one that was sent earlier."""
        self.removed: set[Address] = set()
        """Nodes that are neither sent anything nor listened to any more."""

    def send(self, to: Address, message: Message) -> None:
        """Send a message that must arrive, unless the receiver has been removed."""
        if to == self.node.address:
            self.node.dispatch(message, to)
        elif to not in self.removed:
            super().send(to, message)

    def offer(self, to: Address, message: Message) -> None:
        """Send a message that is of no use later, unless the receiver does not answer at present."""
        outgoing = self._outgoing.get(to)
        if outgoing is None or next((one.tries for one in outgoing.waiting.values()), 0) < SILENT:
            self.send(to, message)

    def remove(self, node: Address) -> None:
        """Neither send a node anything nor listen to it from now on."""
        self.removed.add(node)
        self._outgoing.pop(node, None)

    def _again(self, about: tuple[Address, int]) -> None:
        to, number = about
        if to in self.removed:
            return
        waiting = self._outgoing[to].waiting.get(number)
        if waiting is not None:
            waiting.tries = min(waiting.tries, MOST_DOUBLINGS)
        super()._again(about)

    def _packet(self, packet: Packet, sender: Address) -> None:
        if sender in self.removed:
            return
        self.node.send(sender, Ack(packet.incarnation, packet.number, packet.tried))
        early = self._early.setdefault(sender, {})
        if packet.number >= self._next.setdefault(sender, 1):
            early[packet.number] = packet.message
        while (due := self._next[sender]) in early:
            self._next[sender] = due + 1
            self.node.dispatch(early.pop(due), sender)

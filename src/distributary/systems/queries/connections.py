"""The connections of a node: one to each other node, whatever number of trees they share.

Rules:

- What one node sends to another arrives once and in the order in which it was sent. All that the query
  network promises about streams rests on this, and on numbers that are kept from end to end.
- A message is sent again until it is acknowledged. The one who waits does not give up: whether a node is gone
  is not decided here.
- What a node has to say to itself is handled at once and costs nothing.
- What is soon out of date is offered: a node that does not answer is not sent it, so that nothing piles up.
"""

from __future__ import annotations

from distributary.overlay.courier import Ack, Courier, Packet
from distributary.overlay.node import Address, Message, Node

SILENT = 3
"""A node that did not acknowledge a message sent so often does not answer for the time being."""
MOST_DOUBLINGS = 4
"""Messages are sent again at intervals that double so often, and then at the longest."""


class Connections(Courier):
    """The connection manager of a node: a courier that keeps the order.

    >>> node = Node(7)
    >>> connections = Connections(node)
    >>> node.handle(str, lambda message, sender: node.deliver(message))
    >>> node.receive(Packet(0.0, 2, 1, "second"), 3, now=1.0)
    [Send(to=3, message=Ack(life=0.0, number=2, tried=0.0))]
    >>> [effect.item for effect in node.receive(Packet(0.0, 1, 1, "first"), 3, now=1.1)[1:]]
    ['first', 'second']
    """

    def __init__(self, node: Node, *, timeout: float = 1.0) -> None:
        super().__init__(node, timeout=timeout, tries=1 << 60)
        self._next: dict[Address, int] = {}
        """The number of the packet to handle next, of each sender."""
        self._early: dict[Address, dict[int, Message]] = {}
        self.gone: set[Address] = set()
        """Nodes that are neither sent anything nor listened to any more."""

    @property
    def peers(self) -> tuple[Address, ...]:
        """The nodes that this one has a connection with."""
        return tuple(sorted({*self._outgoing, *self._next}))

    def send(self, to: Address, message: Message) -> None:
        if to == self.node.address:
            self.node.dispatch(message, to)
        elif to not in self.gone:
            super().send(to, message)

    def offer(self, to: Address, message: Message) -> None:
        """Send what is of no use later, unless the receiver does not answer."""
        outgoing = self._outgoing.get(to)
        if outgoing is None or next((one.tries for one in outgoing.waiting.values()), 0) < SILENT:
            self.send(to, message)

    def drop(self, node: Address) -> None:
        """Have nothing more to do with a node."""
        self.gone.add(node)
        self._outgoing.pop(node, None)

    def _again(self, about: tuple[Address, int]) -> None:
        to, number = about
        if to in self.gone:
            return
        waiting = self._outgoing[to].waiting.get(number)
        if waiting is not None:
            waiting.tries = min(waiting.tries, MOST_DOUBLINGS)
        super()._again(about)

    def _packet(self, packet: Packet, sender: Address) -> None:
        if sender in self.gone:
            return
        self.node.send(sender, Ack(packet.life, packet.number, packet.tried))
        early = self._early.setdefault(sender, {})
        due = self._next.setdefault(sender, 1)
        if packet.number < due or packet.number in early:
            self.suppressed += 1
            return
        early[packet.number] = packet.message
        while (due := self._next[sender]) in early:
            self._next[sender] = due + 1
            self.node.dispatch(early.pop(due), sender)

"""What nodes ask of the root, which decides who may be whose child.

Rules:

- Only requests of the root's own term are answered; who knows another term is told of this one.
- Nodes that wait for a parent are told when somebody may have room: soon after a node has come, moved, left
  or fallen silent. Each is told once, and says so if it still waits. What the next root does not know of them
  they make up for by asking from time to time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from distributary.overlay.node import Address
from distributary.overlay.tree import messages
from distributary.overlay.tree.state import TreeState

ROOM_DELAY = 2.0
"""Seconds after a change of the tree in which its nodes hear what it means for them."""


class RootRole:
    """What a node does with such requests if it is the root, and forwards if it is not."""

    def __init__(self, state: TreeState, learn: Callable[[messages.RootTerm, Address], None]) -> None:
        self._node, self._post, self._root = state.node, state.post, state.root
        self._learn = learn
        self.move_listeners: list[Callable[[Address], None]] = []
        """Called, at the root, with every node that has changed its parent."""
        self._silent: set[Address] = set()
        """At the root: children that fell silent, who may have found another root."""
        self._waiting: set[Address] = set()
        """At the root: nodes that wait for a parent."""
        self._node.at_alarm("tree room", self._tell_waiting)

    def remind(self, others: Iterable[Address]) -> None:
        """Remind children that fell silent, and others, that this node is the root; forget them if it is not.

        Whoever knows of a later root answers.
        """
        if self._root.term is None or not self._root.is_root:
            self._silent.clear()
            return
        for address in sorted({*self._silent, *others} - {self._node.address}):
            self._node.send(address, messages.RootAnnouncement(self._root.term))

    def child_failed(self, address: Address, link: int) -> None:
        """Tell the root, which may be this node, that a child has fallen silent."""
        self._silent.add(address)
        self._root.send(messages.ChildTimeout(address, self._node.address, link))

    # What others ask of the root.

    def request_parent(self, message: messages.ParentRequest, sender: Address) -> None:
        """Grant, deny or offer parents to a node of the same term."""
        node, stamp, term = message.node, message.stamp, message.term
        registry, present = self._root.registry, self._root.term
        if registry is None or present is None:
            self._root.forward(message)
        elif node == self._node.address:
            return
        elif term != present:
            if term is not None:
                self._learn(term, sender)
            self._post(node, messages.RootAnnouncement(self._root.term or present))
        elif message.offers:
            parents = registry.offers(message)
            if parents is not None:
                self._post(node, messages.ParentOffers(stamp, parents, present))
        else:
            decision = registry.request(message)
            if isinstance(decision, str):
                self._post(node, messages.ParentDenial(stamp, decision, present))
            elif decision is not None:
                self._post(node, messages.ParentGrant(stamp, decision, present))

    def place_awaited(self, message: messages.PlaceWait, sender: Address) -> None:
        """A node waits for a parent."""
        if self._root.is_root:
            self._waiting.add(message.node)

    def _note_room(self) -> None:
        """The tree has changed: somebody may have room for those who wait."""
        if self._waiting:
            self._node.wake_after(ROOM_DELAY, "tree room")

    def _tell_waiting(self, about: object) -> None:
        waiting, self._waiting = sorted(self._waiting), set()
        for node in waiting if self._root.is_root else ():
            self._post(node, messages.RoomNotice())

    def parent_confirmed(self, message: messages.ParentConfirmation, sender: Address) -> None:
        """A node has changed to the parent that it was granted."""
        if self._root.registry is not None:
            self._root.registry.taken(message.node, message.stamp)
            self._silent.discard(message.node)
            for listener in self.move_listeners:
                listener(message.node)
            self._note_room()

    def child_timed_out(self, message: messages.ChildTimeout, sender: Address) -> None:
        """A parent has not heard of a child for long."""
        if self._root.registry is not None:
            self._root.registry.missed(message.node, message.by, message.link)
            self._note_room()

    def departed(self, message: messages.TreeDeparture, sender: Address) -> None:
        """A node is about to leave."""
        if self._root.registry is not None:
            self._root.registry.left(message.node)
            self._silent.discard(message.node)
            self._waiting.discard(message.node)
            self._note_room()

"""Who a node takes for the root, and how it sends to the root.

Rules:

- The latest term that a node has heard of counts (`RootRole.learn`).
- A request for a parent waits here while no root is known; publications and requests for a part of the log
  are sent again by whoever sent them. A node that was the root, or
  knows a later one, forwards such messages when they still come to it, `MOST_HOPS` times at most.
"""

from __future__ import annotations

from collections.abc import Callable

from distributary.overlay.node import Address, Message, Node
from distributary.overlay.tree.messages import (
    LogRequest,
    ParentRequest,
    Publication,
    PublishRequest,
    RootTerm,
)
from distributary.overlay.tree.registry import ParentRegistry

MOST_HOPS = 8
"""How often a message to the root is forwarded by nodes that are not the root."""


class RootContact:
    """The root as one node knows it."""

    def __init__(self, node: Node, post: Callable[[Address, Message], None]) -> None:
        self._node, self._post = node, post
        self.term: RootTerm | None = None
        """The latest term heard of."""
        self.registry: ParentRegistry | None = None
        """Every node's possible parents, if this node is the root."""
        self._unsent: list[Message] = []

    @property
    def is_root(self) -> bool:
        """Whether this node is the root, which it may not be yet although the term names it."""
        return self.registry is not None

    @property
    def address(self) -> Address | None:
        """The root's address; None if it is not known, or if the term names this node."""
        named = None if self.term is None else self.term.root
        return None if named == self._node.address else named

    def send(self, message: Message) -> None:
        """Send a message to the root, which may be this node itself."""
        root = self.address
        if self.is_root:
            self._node.dispatch(message, self._node.address)
        elif root is not None:
            self._post(root, message)
        elif isinstance(message, PublishRequest | ParentRequest):
            self._unsent.append(message)

    def forward(self, message: PublishRequest | Publication | ParentRequest | LogRequest) -> None:
        """Send on what came here in the belief that this node is the root."""
        if message.hops < MOST_HOPS:
            self.send(message._replace(hops=message.hops + 1))

    def send_waiting(self) -> None:
        """Try again with what has waited for a root."""
        unsent, self._unsent = self._unsent, []
        for message in unsent:
            self.send(message)

    def undeliverable(self, to: Address, message: Message) -> None:
        """Keep a publication that the courier could not bring to anybody."""
        if isinstance(message, PublishRequest):
            self._unsent.append(message._replace(hops=0))

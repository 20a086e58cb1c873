"""Who a node of a tree takes for the root, and how it speaks to it.

Rules:

- Of two roots the later one, by epoch and number, is believed; whoever believes in an earlier one is told.
- What must go to the root waits where none is known. A node that was the root, or knows of a later one, sends
  on what still comes to it, so many hops at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributary.overlay.node import Address, Message
from distributary.overlay.tree.messages import ParentRequest, PublishRequest, RootAnnouncement, RootTerm

if TYPE_CHECKING:
    from distributary.overlay.tree.tree import TreeNode

MOST_HOPS = 8
"""How often a message to the root is sent on by nodes that were the root, or know of a later one."""


class Belief:
    """The root as one node knows it."""

    def __init__(self, tree: TreeNode) -> None:
        self.tree = tree
        self.reign: RootTerm | None = None
        self._unsent: list[Message] = []
        """What must go to the root and waits until that is known."""
        tree.node.handle(RootAnnouncement, self._reigned)

    @property
    def root(self) -> Address | None:
        """The root, unless that is not known, or was this node itself until it stepped down."""
        known = self.reign is not None and self.reign.root != self.tree.address
        return self.reign.root if known and self.reign is not None else None

    def to_root(self, message: Message) -> None:
        """Send to the root as it is known here, or hear it if that is this node."""
        root = self.root
        if self.tree.is_root:
            self.tree.node.dispatch(message, self.tree.address)
        elif root is not None:
            self.tree.post(root, message)
        elif isinstance(message, PublishRequest | ParentRequest):
            self._unsent.append(message)

    def send_on(self, message: PublishRequest | ParentRequest) -> None:
        if message.hops < MOST_HOPS:
            self.to_root(message._replace(hops=message.hops + 1))

    def send_unsent(self) -> None:
        """Try again with what has waited for a root."""
        unsent, self._unsent = self._unsent, []
        for message in unsent:
            self.to_root(message)

    def given_up(self, to: Address, message: Message) -> None:
        """The courier could not bring a message to anybody."""
        if isinstance(message, PublishRequest):
            self._unsent.append(message._replace(hops=0))

    def believe(self, reign: RootTerm) -> None:
        if self.reign is None or reign > self.reign:
            self.reign = reign
            if self.tree.is_root:
                self.tree.rootship.step_down()
            self.proclaim()
            self.tree.upward.ask_again()
            self.send_unsent()

    def proclaim(self) -> None:
        """Tell the children who is the root now."""
        if self.reign is not None:
            for address in self.tree.children:
                self.tree.post(address, RootAnnouncement(self.reign))

    def hear_of(self, reign: RootTerm, sender: Address) -> None:
        """Believe in a later root, or tell who believes in an earlier one."""
        self.believe(reign)
        if self.reign is not None and reign < self.reign:
            self.tree.post(sender, RootAnnouncement(self.reign))

    def _reigned(self, message: RootAnnouncement, sender: Address) -> None:
        self.hear_of(message.reign, sender)

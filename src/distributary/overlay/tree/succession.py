"""Replacing a root of a tree that is gone for good.

Rules:

- The root tells its children of each other. When more than half of them have long not heard of it, the one
  with the lowest address becomes the root. With a root of one child, that child decides alone.
- That begins a new epoch: numbers start again, and events that only the lost root had are lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributary.overlay.node import Address
from distributary.overlay.tree.messages import RootAnnouncement, RootTerm, RootTimeout

if TYPE_CHECKING:
    from distributary.overlay.tree.tree import TreeNode


class Succession:
    """A child of the root, on the watch for it."""

    def __init__(self, tree: TreeNode) -> None:
        self.tree = tree
        self.heirs: tuple[Address, ...] = ()
        """All children of the root, if this is one of them."""
        self._missing: dict[Address, float] = {}
        """Others of them that have long not heard of it, and when they said so."""
        tree.node.handle(RootTimeout, self._root_missed)

    def watch(self, beat: float) -> None:
        """Tell the other children of the root that it is gone; become the root if it is one's turn."""
        tree = self.tree
        silent = tree.node.now - tree.upward.heard
        if not self.heirs or silent <= tree.shape.succession * beat:
            return
        if tree.reign is None or tree.parent != tree.reign.root:
            return
        for heir in self._others:
            tree.node.send(heir, RootTimeout(tree.reign))
        agreed = [one for one, when in self._missing.items() if tree.node.now - when < 3 * beat]
        if 2 * (len(agreed) + 1) > len(self.heirs) and tree.address < min(agreed, default=tree.address + 1):
            self._ascend()

    @property
    def _others(self) -> list[Address]:
        return [heir for heir in self.heirs if heir != self.tree.address]

    def _root_missed(self, message: RootTimeout, sender: Address) -> None:
        if message.reign == self.tree.reign and sender in self.heirs:
            self._missing[sender] = self.tree.node.now

    def _ascend(self) -> None:
        tree = self.tree
        tree.upward.abandon()
        reign = tree.belief.reign = RootTerm(tree.node.now, 0, tree.address)
        tree.upward.unlink()
        for heir in self._others:
            tree.post(heir, RootAnnouncement(reign))
        self.heirs = ()
        tree.events.forget_gap()
        tree.rootship.ascend()

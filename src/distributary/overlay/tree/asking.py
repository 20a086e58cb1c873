"""What a node of a tree asks of its parent, and what it has been granted.

Rules:

- A node's interest is what its own clients and its children ask for. It tells its parent when that changes,
  by the difference; the whole, when an answer is late.
- A parent grants an interest once its own parent has granted what covers it; from a number on, then,
  everything that matches comes. The root grants everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributary.overlay.node import Address
from distributary.overlay.tree.interest import Interest, InterestSummary
from distributary.overlay.tree.messages import AttachRequest, InterestChange, InterestGrant

if TYPE_CHECKING:
    from distributary.overlay.tree.tree import TreeNode


class Asking:
    """The interest of a node, on its way up."""

    def __init__(self, tree: TreeNode) -> None:
        self.tree = tree
        self.summary = InterestSummary(tree.shape.most_profiles)
        self.interest = Interest()
        self.version = 0
        self.granted = -1
        """The latest version of the interest that the parent has granted."""
        self.since = 0
        """Above this number all that the granted version asks for has come, or will."""
        self._told = 0.0
        tree.node.handle(InterestGrant, self._granted_by)

    def settled(self) -> None:
        """Be granted nothing, which is all that was asked for."""
        self.granted = 0

    def nothing_granted(self) -> None:
        self.granted = -1

    def reconsider(self) -> None:
        """Tell the parent if what is asked for here has changed."""
        tree, upward = self.tree, self.tree.upward
        before, interest = self.interest, self.summary.interest
        if tree.is_root or interest == before:
            return
        self.interest = interest
        self.version += 1
        tree.stream.retain(interest)
        self._told = tree.node.now
        change = interest.differs_from(before)
        if upward.parent is not None and upward.linked:
            tree.post(upward.parent, InterestChange(upward.link, self.version, *change))
        if upward.move is not None and upward.move.to is not None:
            # What the old parent grants meanwhile the new one must have granted too before one goes there.
            upward.move.granted = None
            tree.post(upward.move.to, InterestChange(upward.move.stamp, self.version, *change))

    def adopted(self, link: int) -> AttachRequest:
        """The whole interest, for the parent at the end of that link."""
        return AttachRequest(link, self.version, self.interest)

    def is_late(self, seconds: float) -> bool:
        """Whether the parent has not granted in time what it was told."""
        return self.granted < self.version and self.tree.node.now - self._told > seconds

    def tell_again(self) -> None:
        """Tell the parent the whole interest: a change of it may have been lost, or overtaken by a later."""
        self._told = self.tree.node.now
        if self.tree.parent is not None:
            self.tree.post(self.tree.parent, self.adopted(self.tree.link))

    def _granted_by(self, message: InterestGrant, sender: Address) -> None:
        tree, upward = self.tree, self.tree.upward
        tree.belief.believe(message.reign)
        if tree.is_root or message.epoch < tree.stream.epoch:
            return
        if upward.hears(sender, message.link):
            upward.above, upward.heard = message.above, tree.node.now
            self.grant_holds(message)
            tree.events.drain()
        elif upward.awaits(sender, message.link) and message.version == self.version:
            upward.granted(message)

    def grant_holds(self, granted: InterestGrant) -> None:
        stream = self.tree.stream
        if granted.epoch > stream.epoch:
            self._enter(granted)
        if granted.version <= self.granted:
            return
        self.granted = granted.version
        self.since = max(self.since, granted.since)
        if granted.version == self.version:
            stream.ask(self.interest, max(granted.since, stream.position))
        self.tree.downward.grant_all()

    def _enter(self, granted: InterestGrant) -> None:
        """A new epoch has come: begin where the parent does."""
        self.tree.events.enter(granted.epoch, granted.start)
        self.granted, self.since = -1, 0
        self.tree.downward.restart()

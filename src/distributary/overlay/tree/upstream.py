"""What a node asks of its parent (its interest), and what it has been granted.

Rules:

- A node's interest is what its own clients and its children ask for. It tells its parent when that changes,
  by the difference; the whole, when a grant is late.
- A parent grants an interest once its own parent has granted what covers it; from a number on, then,
  everything that matches comes. The root grants everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from distributary.overlay.tree.interest import Form, Interest, InterestSummary
from distributary.overlay.tree.messages import AttachRequest, InterestChange
from distributary.overlay.tree.state import TreeState

NOT_GRANTED = -1
"""Below every version of an interest."""


class UpstreamInterest:
    """The interest of a node and its subtree, told upwards."""

    def __init__(self, state: TreeState) -> None:
        self._node, self._post = state.node, state.post
        self._root, self._link, self._log = state.root, state.link, state.log
        self._summary = InterestSummary(state.settings.most_profiles)
        self.interest = Interest()
        self.version = 0
        self.granted = NOT_GRANTED
        """The latest version of the interest that the parent has granted."""
        self.since = 0
        """Above this number all that the granted version asks for has come, or will."""
        self._told = 0.0
        self._awaited: list[tuple[int, Callable[[], None]]] = []

    def count(self, added: tuple[Form, ...], removed: tuple[Form, ...]) -> None:
        """Have so many more and fewer profiles asked for; equal ones are counted."""
        for form in added:
            self._summary.add(form)
        for form in removed:
            self._summary.remove(form)

    def update(self) -> None:
        """Tell the parent, and the one that is to be, if the interest has changed."""
        link, before, interest = self._link, self.interest, self._summary.interest
        if self._root.is_root or interest == before:
            return
        self.interest = interest
        self.version += 1
        self._log.retain(interest)
        self._told = self._node.now
        added_and_removed = interest.differs_from(before)
        if link.parent is not None and link.attached:
            self._post(link.parent, InterestChange(link.stamp, self.version, *added_and_removed))
        change = link.change
        if change is not None and change.new_parent is not None:
            # What the old parent grants meanwhile the new one must have granted too before one goes there.
            change.advance(InterestChange)
            change.grant = None
            self._post(change.new_parent, InterestChange(change.stamp, self.version, *added_and_removed))

    def when_granted(self, granted: Callable[[], None]) -> None:
        """Call this when all that is asked for now is granted, at once if it is."""
        self._awaited.append((self.version, granted))
        self.tell_granted()

    def tell_granted(self) -> None:
        """Tell those who wait for a grant that has come; the root has everything."""
        reached = math.inf if self._root.is_root else self.granted
        told = [granted for version, granted in self._awaited if version <= reached]
        self._awaited = [each for each in self._awaited if each[0] > reached]
        for granted in told:
            granted()

    def attach_request(self, stamp: int, *, chosen: bool = False) -> AttachRequest:
        """The whole interest, for the parent at the end of the link with this stamp."""
        return AttachRequest(stamp, self.version, self.interest, chosen)

    def is_late(self, seconds: float) -> bool:
        """Whether the parent has not granted in time what it was told."""
        return self.granted < self.version and self._node.now - self._told > seconds

    def tell_again(self) -> None:
        """Tell the parent the whole interest: a change of it may have been lost, or come out of order."""
        self._told = self._node.now
        if self._link.parent is not None:
            self._post(self._link.parent, self.attach_request(self._link.stamp))

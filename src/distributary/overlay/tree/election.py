"""Replacing a root that has failed: its children elect another.

Rules:

- The root tells its children of each other. When more than half of them have not heard of it for long, the
  one with the lowest address becomes the root. With a root of one child, that child decides alone.
- That begins a new epoch: numbers start again, and events that only the lost root had are lost.
"""

from __future__ import annotations

from distributary.overlay.node import Address
from distributary.overlay.tree.messages import RootTimeout
from distributary.overlay.tree.root import RootRole
from distributary.overlay.tree.state import TreeState


class RootElection:
    """A child of the root, watching whether the root is alive."""

    def __init__(self, state: TreeState, role: RootRole) -> None:
        self._node, self._settings = state.node, state.settings
        self._root, self._link, self._role = state.root, state.link, role
        self._timeouts: dict[Address, float] = {}
        """Other children of the root that have not heard of it for long, and when they said so."""

    def check(self, interval: float) -> None:
        """Tell the other children that the root is silent; become the root if enough agree."""
        link, term, me, now = self._link, self._root.term, self._node.address, self._node.now
        if not link.root_children or now - link.heard <= self._settings.election * interval:
            return
        if term is None or link.parent != term.root:
            return
        others = [one for one in link.root_children if one != me]
        for other in others:
            self._node.send(other, RootTimeout(term))
        agreed = [one for one, when in self._timeouts.items() if now - when < 3 * interval]
        majority = 2 * (len(agreed) + 1) > len(link.root_children)
        if majority and me < min(agreed, default=me + 1):
            self._role.be_elected(others)

    def timed_out(self, message: RootTimeout, sender: Address) -> None:
        """Another child of the same root has not heard of it for long."""
        if message.term == self._root.term and sender in self._link.root_children:
            self._timeouts[sender] = self._node.now

"""Carrying out rewrites of a live tree: at the root, one change of parent after the other.

Rules:

- A rewrite is several changes of parent. Each is ordered when the register allows it, which forbids loops at
  every step. Going down the tree as it will be, the topmost change that is left is always allowed, so a
  rewrite comes to its end in some order, unless something fails.
- While a rewrite is under way the nodes it touches are locked: no other rewrite that touches them is begun.
- Within a rewrite the fanout does not apply: the tree keeps it before and after, not always on the way.
- A rewrite that has not come to its end in time is given up as it is: a tree, whatever was done of it. Where
  that leaves a node with too many children, one of those is sent elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from distributary.overlay.node import Address
from distributary.overlay.tree.node import TreeNode
from distributary.systems.tree.messages import ParentOrder, RewriteProposal


@dataclass
class _Work:
    """A rewrite under way."""

    rewrite: RewriteProposal
    since: float
    left: dict[Address, Address]
    ordered: set[Address]


class RewriteExecutor:
    """The rewrites that the root has granted."""

    def __init__(self, tree: TreeNode, patience: float) -> None:
        self.tree = tree
        self.patience = patience
        """Seconds until a rewrite is given up."""
        self.done = 0
        """Rewrites that came to their end."""
        self.changes = 0
        """Changes of parent that were made for them."""
        self.given_up = 0
        self._under_way: list[_Work] = []
        self._thinned = 0.0
        """When somebody was last sent elsewhere."""
        tree.on_move(self._taken)

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    @property
    def locked(self) -> frozenset[Address]:
        """The nodes that rewrites under way touch."""
        return frozenset(address for work in self._under_way for address in work.rewrite.touched)

    def begin(self, rewrite: RewriteProposal) -> bool:
        """Begin a rewrite, unless the tree is not what it was named for, or another touches the same."""
        registry = self.tree.root.registry
        if registry is None or rewrite.touched & self.locked:
            return False
        if any(registry.parent(node) != parent for node, parent in rewrite.before):
            return False
        work = _Work(rewrite, self.tree.node.now, dict(rewrite.changes), set())
        self._under_way.append(work)
        registry.permitted.update(work.left)
        self._order(work)
        return True

    def _order(self, work: _Work) -> None:
        """Order the changes that are allowed now."""
        registry = self.tree.root.registry
        if registry is None:
            return
        for node, parent in work.left.items():
            if node not in work.ordered and not registry.why_not(node, parent):
                work.ordered.add(node)
                self.tree.post(node, ParentOrder(parent))

    def _taken(self, node: Address) -> None:
        registry = self.tree.root.registry
        if registry is None:
            return
        for work in list(self._under_way):
            if node in work.left and registry.parent(node) == work.left[node]:
                del work.left[node]
                registry.permitted.pop(node, None)
                self.changes += 1
            if work.left:
                self._order(work)
            else:
                self._under_way.remove(work)
                self.done += 1

    def check(self) -> None:
        """Give up what takes too long, and mend what that left."""
        registry = self.tree.root.registry
        if registry is None:
            self._under_way.clear()
            return
        for work in list(self._under_way):
            if self.tree.node.now - work.since > self.patience:
                self._under_way.remove(work)
                self.given_up += 1
                for node in work.left:
                    registry.permitted.pop(node, None)
        # Whoever is sent elsewhere needs time to go.
        if not self._under_way and self.tree.node.now - self._thinned > self.patience / 4:
            self._thin_out(registry.crowded().values())

    def _thin_out(self, rows: Iterable[list[Address]]) -> None:
        """Send one child of each node that has too many elsewhere."""
        for children in rows:
            self._thinned = self.tree.node.now
            self.tree.post(children[-1], ParentOrder(None))

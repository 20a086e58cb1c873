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

from dataclasses import dataclass, field

from distributary.overlay.node import Address
from distributary.overlay.tree.node import TreeNode
from distributary.systems.tree.messages import ParentOrder, RewriteProposal


@dataclass
class _Execution:
    """A rewrite under way."""

    rewrite: RewriteProposal
    since: float
    left: dict[Address, Address]
    """The changes of parent that have not come about."""
    ordered: set[Address] = field(default_factory=set)


class RewriteExecutor:
    """The rewrites that the root has granted."""

    def __init__(self, tree: TreeNode, patience: float) -> None:
        self.patience = patience
        """Seconds until a rewrite is given up."""
        self.done = 0
        """Rewrites that came to their end."""
        self.changes = 0
        """Changes of parent that were made for them."""
        self.given_up = 0
        """Rewrites that did not come to their end in time."""
        self._tree, self._node = tree, tree.node
        self._under_way: list[_Execution] = []
        self._redirected = 0.0
        """When a child of a crowded node was last sent elsewhere."""
        tree.on_move(self._moved)

    @property
    def busy(self) -> bool:
        """Whether a rewrite is under way."""
        return bool(self._under_way)

    @property
    def locked(self) -> frozenset[Address]:
        """The nodes that rewrites under way touch."""
        return frozenset(address for one in self._under_way for address in one.rewrite.touched)

    def begin(self, rewrite: RewriteProposal) -> bool:
        """Begin a rewrite, unless the tree is not what it was proposed for, or another touches the same."""
        registry = self._tree.root.registry
        if registry is None or rewrite.touched & self.locked:
            return False
        if any(registry.parent(node) != parent for node, parent in rewrite.before):
            return False
        execution = _Execution(rewrite, self._node.now, dict(rewrite.changes))
        self._under_way.append(execution)
        registry.permitted.update(execution.left)
        self._order(execution)
        return True

    def _order(self, execution: _Execution) -> None:
        """Order the changes that are allowed now."""
        registry = self._tree.root.registry
        for node, parent in execution.left.items():
            if registry is not None and node not in execution.ordered and not registry.why_not(node, parent):
                execution.ordered.add(node)
                self._tree.post(node, ParentOrder(parent))

    def _moved(self, node: Address) -> None:
        registry = self._tree.root.registry
        if registry is None:
            return
        for execution in list(self._under_way):
            if node in execution.left and registry.parent(node) == execution.left[node]:
                del execution.left[node]
                registry.permitted.pop(node, None)
                self.changes += 1
            if execution.left:
                self._order(execution)
            else:
                self._under_way.remove(execution)
                self.done += 1

    def check(self) -> None:
        """Give up what takes too long, and send a child of each crowded node elsewhere."""
        registry, now = self._tree.root.registry, self._node.now
        if registry is None:
            self._under_way.clear()
            return
        for execution in list(self._under_way):
            if now - execution.since > self.patience:
                self._under_way.remove(execution)
                self.given_up += 1
                for node in execution.left:
                    registry.permitted.pop(node, None)
        # Whoever is sent elsewhere needs time to go.
        if not self._under_way and now - self._redirected > self.patience / 4:
            for children in registry.crowded().values():
                self._redirected = now
                self._tree.post(children[-1], ParentOrder(None))

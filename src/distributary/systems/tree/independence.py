"""Which rewrites of a live tree may be carried out together, so that each is worth what it is worth alone.

The seed takes rewrites that touch different nodes (Definition 5). That is not enough: of two such rewrites
one may move nodes out of a subtree whose size makes the other worth while, and both together may leave the
tree worse than it was. What a rewrite *reaches* are the subtrees in which anybody's cost may change: those
right below the lowest node above all that it touches, or that node's own if it is touched itself.

Rules, for rewrites that touch different nodes:

- Where costs add up over the tree, and a node's cost is its own or a sum over its path: one of two rewrites
  touches nothing that the other reaches. What the one moves, it then moves in one piece with all of the
  other inside it or outside: no cost changes but by the sum of both.
- Where a node's cost is another, or the path is constrained: neither reaches what the other does.
- VARIANCE and STD fall by more than both where neither reaches what the other does and both change the sum
  of all costs in the same direction (for a goal that makes them large: in opposite ones), since the square of
  that sum is taken off. So each says by how much it changes the sum.
- All others are carried out alone: of MIN and MAX no two that help reach different nodes, and for a PRODUCT
  or an average over nodes that may lose their cost it is not known what two are worth.

Cost: the paths of the nodes that two rewrites touch.
"""

from __future__ import annotations

from collections.abc import Callable

from distributary.overlay.node import Address
from distributary.plan.goal.expression import GoalFunction
from distributary.systems.tree.cost_model import CostModel
from distributary.systems.tree.messages import RewriteProposal


class RewriteIndependence:
    """Decides which rewrites go together, in the tree that they were proposed for."""

    def __init__(self, model: CostModel, root: Address, parent: Callable[[Address], Address | None]) -> None:
        self._model, self._root, self._parent = model, root, parent
        function = model.goal.cost.function
        self._spreads = function in (GoalFunction.VARIANCE, GoalFunction.STD) and not model.children
        counts_change = bool(model.children) and function is not GoalFunction.SUM
        self._adds = model.additive and not counts_change
        self._nests = self._adds and model.adds_up and not model.children

    def together(self, one: RewriteProposal, other: RewriteProposal) -> bool:
        """Whether two rewrites may be carried out together."""
        if one.touched & other.touched or not (self._adds or self._spreads):
            return False
        reached, touched = (self._reached(one), self._reached(other)), (one.touched, other.touched)
        if reached[0] is None or reached[1] is None:
            return False
        if self._nests:
            inside, outside = self._meets(touched[0], reached[1]), self._meets(touched[1], reached[0])
            return not (inside and outside)
        if self._meets(reached[0], reached[1]) or self._meets(reached[1], reached[0]):
            return False
        return self._adds or self._model.goal.sign * one.shift * other.shift >= 0

    def _path(self, node: Address) -> list[Address] | None:
        """The nodes from the root down to this one; None while one of them changes its parent."""
        path = [node]
        while path[-1] != self._root:
            above = self._parent(path[-1])
            if above is None or above in path:
                return None
            path.append(above)
        return path[::-1]

    def _reached(self, rewrite: RewriteProposal) -> frozenset[Address] | None:
        """The tops of the subtrees in which costs may change; None if they are not known now."""
        paths = [path for node in rewrite.touched if (path := self._path(node)) is not None]
        if len(paths) < len(rewrite.touched):
            return None
        common = 0
        while all(len(path) > common and path[common] == paths[0][common] for path in paths):
            common += 1
        top = paths[0][common - 1]
        if self._model.children:  # its parent aggregates over it
            return frozenset((paths[0][max(common - 2, 0)],))
        if top in rewrite.touched:
            return frozenset((top,))
        return frozenset(path[common] for path in paths)

    def _meets(self, nodes: frozenset[Address], tops: frozenset[Address]) -> bool:
        """Whether one of the nodes is in one of the subtrees."""
        return any(tops & set(self._path(node) or ()) for node in nodes)

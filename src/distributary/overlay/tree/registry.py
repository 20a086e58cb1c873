"""The root's register of who may be whose child: the reason why a tree has no loops.

Rules:

- A node changes its parent only with the root's permission, and asks for one permission at a time; by asking
  again it forgoes what it was allowed before. With each request it says who its parent is now.
- The register holds for each node its possible parents: the one it stated and the one it was allowed. It is
  told when the change is done; then only the new one is left.
- A node X may go to Q only when every way up from Q by possible parents leads to the root, through nodes that
  the register knows, and none of them through X.

Why there are no loops: the parent that a known node really has is among its possible ones, at every time, so
it is enough that possible parents never make a loop. A permission for X to go to Q makes none, since X is on
no way up from Q. What a node states when it is heard of first is its real parent, as it has been all along; a
loop closed by that would have been a real one before. A register that begins empty, because the root has lost
its state, knows nobody: ways up that it does not know to the end count for nothing until their nodes asked.

- A node has so many children at most, by possible parents. A child that it misses counts no more, until that
  asks again. A change that is part of a larger one may have been permitted whatever the number (`permitted`):
  two nodes that are full can swap their children.

Cost: a way up for each request; memory of one entry for each node of the tree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from random import Random

from distributary.overlay.node import Address
from distributary.overlay.tree.messages import ParentRequest, RegistryEntry


class ParentRegistry:
    """Who may be whose child.

    >>> registry = ParentRegistry(root=1, fanout=2, random=Random(1))
    >>> for node, parent in ((2, 1), (3, 2)):
    ...     _ = registry.request(ParentRequest(node, stamp=1, term=None, current=None, wanted=parent))
    ...     registry.taken(node, stamp=1)
    >>> registry.request(ParentRequest(2, stamp=2, term=None, current=1, wanted=3))
    '3 is below 2'
    >>> registry.request(ParentRequest(3, stamp=2, term=None, current=2, wanted=1))
    1
    """

    def __init__(self, root: Address, fanout: int | None, random: Random) -> None:
        self.root = root
        self.fanout = fanout
        self._random = random
        self._known: dict[Address, RegistryEntry] = {}
        self._children: dict[Address, set[Address]] = {}
        self._missed: dict[Address, set[Address]] = {}
        """Nodes that have fallen silent, and the parents who said so."""
        self.permitted: dict[Address, Address] = {}
        """Changes, by node and new parent, to which the fanout does not apply."""

    @property
    def known(self) -> tuple[RegistryEntry, ...]:
        """Everything that is known, to be handed over."""
        return tuple(self._known.values())

    @property
    def present(self) -> int:
        """How many nodes there are beside the root, without those that have fallen silent."""
        return len(self._known.keys() - self._missed.keys())

    def learn(self, known: Iterable[RegistryEntry]) -> None:
        """Take over what another root knew."""
        for each in known:
            if each.node != self.root:
                self._put(each)

    def request(self, request: ParentRequest) -> Address | str | None:
        """Decide on a request for a parent, or for any at random.

        Returns the parent that the node may take, or the reason why it may not have the one it wanted; None
        if a later request of the node came before.
        """
        node, stamp, _, current, wanted, avoid, link, *_ = request
        if not self._state(request):
            return None
        if wanted is not None and (reason := self.why_not(node, wanted)):
            return reason
        parent = next(self._able(node, avoid), None) if wanted is None else wanted
        if parent is None:
            return "nobody can take another child"
        possible = (parent,) if current is None else (current, parent)
        self._put(RegistryEntry(node, stamp, tuple(dict.fromkeys(possible)), link))
        return parent

    def offers(self, request: ParentRequest) -> tuple[Address, ...] | None:
        """Parents that a node may have, for it to choose from; it is granted none of them yet."""
        if not self._state(request):
            return None
        return tuple(sorted(islice(self._able(request.node, request.avoid), request.offers)))

    def _state(self, request: ParentRequest) -> bool:
        """Note the parent that a node has as its only possible one; False if a later request came before."""
        node, stamp, _, current, _, _, link, *_ = request
        known = self._known.get(node)
        if known is not None and known.stamp > stamp:
            return False
        self._missed.pop(node, None)
        self._put(RegistryEntry(node, stamp, () if current is None else (current,), link))
        return True

    def taken(self, node: Address, stamp: int) -> None:
        """A node has taken the parent it was allowed with this request."""
        known = self._known.get(node)
        if known is not None and known.stamp == stamp and known.parents:
            self._put(known._replace(parents=known.parents[-1:], link=stamp))

    def missed(self, node: Address, by: Address, link: int) -> None:
        """A node has fallen silent, says the parent to which it came with this request."""
        known = self._known.get(node)
        if known is not None and link in (known.link, known.stamp):
            self._missed.setdefault(node, set()).add(by)

    def left(self, node: Address) -> None:
        """A node has left: no other node may take it for a parent any more."""
        known = self._known.pop(node, None)
        for parent in known.parents if known is not None else ():
            self._children[parent].discard(node)
        self._missed.pop(node, None)

    def why_not(self, node: Address, wanted: Address) -> str:
        """Why a node may not have another for its parent; an empty text if it may."""
        if wanted == node:
            return f"{node} cannot be its own parent"
        full = self.fanout is not None and self._counted(wanted, node) >= self.fanout
        if full and self.permitted.get(node) != wanted:
            return f"{wanted} has {self.fanout} children already"
        seen: set[Address] = set()
        ahead = [wanted]
        while ahead:
            one = ahead.pop()
            if one == node:
                return f"{wanted} is below {node}"
            if one == self.root or one in seen:
                continue
            seen.add(one)
            known = self._known.get(one)
            if known is None or not known.parents:
                return f"the way up from {wanted} is not known"
            ahead += known.parents
        return ""

    def parent(self, node: Address) -> Address | None:
        """The one parent that a node can have now; None while it changes, or is not known."""
        known = self._known.get(node)
        return known.parents[0] if known is not None and len(known.parents) == 1 else None

    def crowded(self) -> dict[Address, list[Address]]:
        """Nodes that have too many children, and these."""
        if self.fanout is None:
            return {}
        return {
            parent: sorted(children)
            for parent, children in self._children.items()
            if len(children) > self.fanout and self._counted(parent, -1) > self.fanout
        }

    def _counted(self, parent: Address, without: Address) -> int:
        """How many children a node has or may get, apart from one and from those it misses."""
        children = self._children.get(parent, ())
        return sum(one != without and parent not in self._missed.get(one, ()) for one in children)

    def _able(self, node: Address, avoid: Collection[Address]) -> Iterator[Address]:
        """The parents that a node may have, in random order; those to avoid at the end."""
        candidates = [self.root, *(one for one in self._known if one != node and one not in self._missed)]
        self._random.shuffle(candidates)
        candidates.sort(key=lambda one: one in avoid)
        return (one for one in candidates if not self.why_not(node, one))

    def _put(self, known: RegistryEntry) -> None:
        before = self._known.get(known.node)
        for parent in before.parents if before is not None else ():
            self._children[parent].discard(known.node)
        self._known[known.node] = known
        for parent in known.parents:
            self._children.setdefault(parent, set()).add(known.node)

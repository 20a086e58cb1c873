"""Rewrites of a tree: the local rules, and the directed ones (section 4.3).

Rules of this file:

- A rule is data: which arguments it can take around a site, and a script that carries it out on a `TreeEdit`.
- A local rule stays within its unit: the owner, its parent, and so many levels below (Table 4.2). A directed
  rule takes any site outside the unit.
- What a rule comes to is a `TreeRewrite`: the sites that get another parent. Arguments that would change
  nothing are not offered.
- Our own rules take two sites. What they do with them (`RewriteShape`) and which pairs they take
  (`PairRelation`) is all there is to say of them (`PairRule`): `bulk` weighs them by that alone.

An application adds a rule by writing a script and listing it:

    >>> def adopt(edit, site):                       # a site takes in all its siblings
    ...     for sibling in edit.children(edit.parent(site)):
    ...         if sibling != site:
    ...             edit.demote(sibling, site)
    >>> children = lambda tree, owner: ((child,) for child in tree.children[owner])
    >>> TreeRule("adoption", 2, children, adopt).rewrite(Tree((-1, 0, 0, 0)), (2,)).changes
    {1: 2, 3: 2}

Cost: a rewrite costs as much as the children it moves; a unit offers at most the square of its sites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations, permutations
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.plan.trees.tree import NO_PARENT, Tree

Arguments = tuple[int, ...]


class TreeEdit:
    """A tree under reconstruction: reads like a tree, and remembers who got another parent."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._parents: dict[int, int] = {}
        self._children: dict[int, list[int]] = {}

    def parent(self, site: int) -> int:
        """A site's parent as it is by now."""
        return self._parents.get(site, self.tree.parents[site])

    def children(self, site: int) -> tuple[int, ...]:
        """A site's children as they are by now."""
        changed = self._children.get(site)
        return self.tree.children[site] if changed is None else tuple(changed)

    def promote(self, site: int) -> None:
        """Move a site, with its subtree, under its grandparent."""
        parent = self.parent(site)
        if parent == NO_PARENT or self.parent(parent) == NO_PARENT:
            raise DistributaryError(f"site {site} has no grandparent to be promoted to")
        self._put(site, self.parent(parent))

    def demote(self, site: int, sibling: int) -> None:
        """Move a site, with its subtree, under one of its siblings."""
        if site == sibling or self.parent(site) != self.parent(sibling):
            raise DistributaryError(f"site {site} is demoted under a sibling, and {sibling} is none")
        self._put(site, sibling)

    def move(self, site: int, parent: int) -> None:
        """Move a site, with its subtree, under any site outside that subtree."""
        above = parent
        while above != NO_PARENT:
            if above == site:
                raise DistributaryError(f"site {site} cannot be moved under {parent}, which is below it")
            above = self.parent(above)
        self._put(site, parent)

    def swap(self, one: int, other: int) -> None:
        """Let two sites change places: each gets the other's parent and children."""
        if NO_PARENT in (self.parent(one), self.parent(other)):
            raise DistributaryError("the root keeps its place")
        renamed = {one: other, other: one}
        moving = {one, other, *self.children(one), *self.children(other)}
        target = {site: self.parent(renamed.get(site, site)) for site in moving}
        for site, parent in sorted(target.items()):
            self._put(site, renamed.get(parent, parent))

    def hand_children(self, one: int, other: int) -> None:
        """Move all children of one site under another site outside its subtree."""
        for child in self.children(one):
            self.move(child, other)

    def exchange_children(self, one: int, other: int) -> None:
        """Let two sites, neither below the other, exchange their children."""
        of_other = self.children(other)
        self.hand_children(one, other)
        for child in of_other:
            self.move(child, one)

    def changes(self) -> dict[int, int]:
        """Who has another parent than in the beginning."""
        before = self.tree.parents
        return {site: parent for site, parent in sorted(self._parents.items()) if before[site] != parent}

    def _put(self, site: int, parent: int) -> None:
        before = self.parent(site)
        for owner in (before, parent):
            if owner not in self._children:
                self._children[owner] = list(self.tree.children[owner])
        self._children[before].remove(site)
        self._children[parent].append(site)
        self._parents[site] = parent


@dataclass(frozen=True)
class TreeRewrite:
    """One change of a tree: the rule, what it was applied to, and who gets which parent."""

    rule: str
    arguments: Arguments
    changes: Mapping[int, int]

    def touched(self, tree: Tree) -> set[int]:
        """The sites whose parent or children change (Definition 5's set)."""
        return {*self.changes, *self.changes.values(), *(tree.parents[site] for site in self.changes)}


class RewriteShape(IntEnum):
    """What a rule does with its arguments `one` and `other`."""

    MOVE = 0
    """One gets under other, with all below it."""
    HAND = 1
    """One hands its children to other."""
    SWAP = 2
    """The two change places."""
    EXCHANGE = 3
    """The two exchange their children."""


class PairRelation(IntEnum):
    """Which pairs a rule takes."""

    RISE = 0
    """Other is so many levels above one."""
    SWAP_UP = 1
    """One is so many levels above other, and not the root."""
    BESIDE = 2
    """Other is so many levels below a sibling of one."""
    SIBLINGS = 3
    """Two siblings, at least one with children, the first with the smaller number."""
    ELSEWHERE = 4
    """Other is outside one's subtree and not its parent."""
    PARTNERS = 5
    """Neither is the root, they are out of each other's units, and not leaves side by side."""


class PairRule(NamedTuple):
    """What a rule does with two sites, and which pairs it takes: those so many levels apart."""

    shape: RewriteShape
    relation: PairRelation
    apart: int = 0

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The same as plain numbers."""
        return int(self.shape), int(self.relation), self.apart

    def pairs(self, tree: Tree, owner: int) -> Iterator[Arguments]:
        """The pairs in the unit of a site; for a directed rule, those whose first it is.

        A site that hands its children on must have some.
        """
        pairs = PAIRS[self.relation](tree, owner, self.apart)
        return (pair for pair in pairs if self.shape is not RewriteShape.HAND or tree.children[pair[0]])


@dataclass(frozen=True)
class TreeRule:
    """What may be done around a site.

    `levels` is the size of the unit it needs, 0 for a directed rule. Rules of ours say by `pair` what they
    come to.
    """

    name: str
    levels: int
    arguments: Callable[[Tree, int], Iterable[Arguments]]
    script: Callable[..., None]
    pair: PairRule | None = None

    @property
    def directed(self) -> bool:
        """Whether it reaches beyond a unit."""
        return self.levels == 0

    def rewrite(self, tree: Tree, arguments: Arguments) -> TreeRewrite:
        """Carry the script out."""
        edit = TreeEdit(tree)
        self.script(edit, *arguments)
        return TreeRewrite(self.name, arguments, edit.changes())


# Where a rule can be applied


def descendants(tree: Tree, site: int, levels: int) -> list[int]:
    """Those exactly so many levels below the site."""
    row = [site]
    for _ in range(levels):
        row = [child for parent in row for child in tree.children[parent]]
    return row


def unit(tree: Tree, owner: int, levels: int = 3) -> set[int]:
    """The owner's optimisation unit: its parent, itself and so many levels less one below (Figure 4.2)."""
    members = {site for depth in range(levels) for site in descendants(tree, owner, depth)}
    return members | {tree.parents[owner]} - {NO_PARENT}


def _rising(tree: Tree, owner: int, levels: int) -> Iterator[Arguments]:
    return ((site, owner) for site in descendants(tree, owner, levels))


def _swapping(tree: Tree, owner: int, levels: int) -> Iterator[Arguments]:
    return ((owner, site) for site in descendants(tree, owner, levels) if owner != tree.root)


def _beside(tree: Tree, owner: int, levels: int) -> Iterator[Arguments]:
    for site, sibling in permutations(tree.children[owner], 2):
        yield from ((site, target) for target in descendants(tree, sibling, levels))


def _siblings(tree: Tree, owner: int, levels: int) -> Iterator[Arguments]:
    pairs = combinations(tree.children[owner], 2)
    return (pair for pair in pairs if tree.children[pair[0]] or tree.children[pair[1]])


def _elsewhere(tree: Tree, site: int, levels: int) -> Iterator[Arguments]:
    near = unit(tree, site)
    for other in range(len(tree.parents)):
        if other not in near and not tree.below(other, site):
            yield site, other


def _partners(tree: Tree, site: int, levels: int) -> Iterator[Arguments]:
    if site == tree.root:
        return
    near = unit(tree, site) | {tree.root, tree.parents[tree.parents[site]]}
    for other in range(len(tree.parents)):
        alike = tree.parents[site] == tree.parents[other] and not tree.children[site] + tree.children[other]
        if other not in near and not alike:
            yield site, other


PAIRS: Mapping[PairRelation, Callable[[Tree, int, int], Iterator[Arguments]]] = {
    PairRelation.RISE: _rising,
    PairRelation.SWAP_UP: _swapping,
    PairRelation.BESIDE: _beside,
    PairRelation.SIBLINGS: _siblings,
    PairRelation.ELSEWHERE: _elsewhere,
    PairRelation.PARTNERS: _partners,
}


# The rules

SCRIPTS: Mapping[RewriteShape, Callable[[TreeEdit, int, int], None]] = {
    RewriteShape.MOVE: TreeEdit.move,
    RewriteShape.HAND: TreeEdit.hand_children,
    RewriteShape.SWAP: TreeEdit.swap,
    RewriteShape.EXCHANGE: TreeEdit.exchange_children,
}


def _rule(name: str, levels: int, shape: str, relation: str, apart: int = 0) -> TreeRule:
    pair = PairRule(RewriteShape[shape], PairRelation[relation], apart)
    return TreeRule(name, levels, pair.pairs, SCRIPTS[pair.shape], pair)


LOCAL: Sequence[TreeRule] = (
    _rule("child demotion", 3, "MOVE", "BESIDE"),
    _rule("child promotion", 3, "MOVE", "RISE", 2),
    _rule("subtree promotion", 3, "HAND", "RISE", 1),
    _rule("parent-child swap", 3, "SWAP", "SWAP_UP", 1),
    _rule("subtree migration", 3, "HAND", "BESIDE"),
    _rule("sibling swap", 3, "EXCHANGE", "SIBLINGS"),
)
"""The rules of a unit of three levels (Table 4.2)."""

CHILD_PROMOTION, SUBTREE_PROMOTION, PARENT_CHILD_SWAP = LOCAL[1:4]

FOUR_LEVELS: Sequence[TreeRule] = (
    _rule("promote subtree 3 levels up", 4, "HAND", "RISE", 2),
    _rule("demote child 3 levels down", 4, "MOVE", "BESIDE", 1),
    _rule("swap grandparent-child", 4, "SWAP", "SWAP_UP", 2),
    _rule("demote subtree 3 levels down", 4, "HAND", "BESIDE", 2),
)
"""What a unit of four levels adds (section 4.6.3)."""

FIVE_LEVELS: Sequence[TreeRule] = (
    _rule("promote subtree 4 levels up", 5, "HAND", "RISE", 3),
    _rule("promote node 4 levels up", 5, "MOVE", "RISE", 3),
    _rule("demote child 4 levels down", 5, "MOVE", "BESIDE", 2),
    _rule("swap parent-grand-grandchild", 5, "SWAP", "SWAP_UP", 3),
    _rule("demote subtree 4 levels down", 5, "HAND", "BESIDE", 3),
)
"""What a unit of five levels adds (section 4.6.3)."""

NODE_SWAP = _rule("node swap", 0, "SWAP", "PARTNERS")

DIRECTED: Sequence[TreeRule] = (
    _rule("child move", 0, "MOVE", "ELSEWHERE"),
    _rule("subtree move", 0, "HAND", "ELSEWHERE"),
    NODE_SWAP,
)
"""The rules that reach beyond a unit (section 4.3.2)."""

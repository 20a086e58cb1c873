"""Rewrites of a tree: the primitive rules, composites made of them, and the directed rules (section 4.3).

Rules of this file:

- A rule is data: which arguments it can take around a site, and a script that carries it out on a `TreeEdit`.
  A script may only promote and demote (and call other scripts); directed rules may also move and swap.
- A local rule stays within its unit: the owner, its parent, and so many levels below. Names of sites in a
  script are those of the unit before it began (as in Table 4.2).
- What a rule comes to is a `TreeRewrite`: the sites that get another parent. Arguments that would change
  nothing are not offered.
- Our own rules take two sites and say, beside their script, what they come to (`RewriteShape`) and which
  pairs they take (`RuleReach`): `bulk` weighs them by that alone.

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
from itertools import permutations
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
        return self._parents.get(site, self.tree.parents[site])

    def children(self, site: int) -> tuple[int, ...]:
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
    """What a rule comes to, whatever its script does on the way, for its arguments `one` and `other`."""

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


class RuleReach(NamedTuple):
    """Which pairs of sites a rule takes; `with_children` if one must have some."""

    relation: PairRelation
    levels: int = 0
    with_children: bool = False

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The same as plain numbers."""
        return int(self.relation), self.levels, int(self.with_children)


@dataclass(frozen=True)
class TreeRule:
    """What may be done around a site.

    `levels` is the size of the unit it needs, 0 for a directed rule. A rule with a shape and a reach takes
    two arguments and is weighed by those.
    """

    name: str
    levels: int
    arguments: Callable[[Tree, int], Iterable[Arguments]]
    script: Callable[..., None]
    shape: RewriteShape | None = None
    reach: RuleReach | None = None

    @property
    def single(self) -> bool:
        """Whether it comes to moving its first argument under its second."""
        return self.shape is RewriteShape.MOVE

    @property
    def directed(self) -> bool:
        return self.levels == 0

    def rewrite(self, tree: Tree, arguments: Arguments) -> TreeRewrite:
        """Carry the script out."""
        bench = TreeEdit(tree)
        self.script(bench, *arguments)
        return TreeRewrite(self.name, arguments, bench.changes())

    def rewrites(self, tree: Tree, owner: int) -> Iterator[TreeRewrite]:
        """Everything this rule can do around the site."""
        for arguments in self.arguments(tree, owner):
            if self.single:
                yield TreeRewrite(self.name, arguments, {arguments[0]: arguments[1]})
            else:
                yield self.rewrite(tree, arguments)


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


def _risers(levels: int) -> Callable[[Tree, int], Iterator[Arguments]]:
    """Sites so many levels below, and the owner they rise to."""
    return lambda tree, owner: ((site, owner) for site in descendants(tree, owner, levels))


def _parents_at(levels: int) -> Callable[[Tree, int], Iterator[Arguments]]:
    """Sites so many levels below that have children, and the owner that these rise to."""
    return lambda tree, owner: (
        (site, owner) for site in descendants(tree, owner, levels) if tree.children[site]
    )


def _swaps(levels: int) -> Callable[[Tree, int], Iterator[Arguments]]:
    def arguments(tree: Tree, owner: int) -> Iterator[Arguments]:
        if tree.parents[owner] != NO_PARENT:
            yield from ((owner, site) for site in descendants(tree, owner, levels))

    return arguments


def _beside(levels: int, with_children: bool) -> Callable[[Tree, int], Iterator[Arguments]]:
    """A child of the owner, and a site so many levels below one of its siblings."""

    def arguments(tree: Tree, owner: int) -> Iterator[Arguments]:
        for site, sibling in permutations(tree.children[owner], 2):
            if tree.children[site] or not with_children:
                yield from ((site, target) for target in descendants(tree, sibling, levels))

    return arguments


def _sibling_swaps(tree: Tree, owner: int) -> Iterator[Arguments]:
    for one, other in permutations(tree.children[owner], 2):
        if one < other and (tree.children[one] or tree.children[other]):
            yield one, other


def _elsewhere(with_children: bool) -> Callable[[Tree, int], Iterator[Arguments]]:
    """The site, and each one outside its unit and its subtree."""

    def arguments(tree: Tree, site: int) -> Iterator[Arguments]:
        if (tree.parents[site] == NO_PARENT and not with_children) or (
            with_children and not tree.children[site]
        ):
            return
        near = unit(tree, site)
        for other in range(len(tree.parents)):
            if other not in near and not tree.below(other, site):
                yield site, other

    return arguments


def _partners(tree: Tree, site: int) -> Iterator[Arguments]:
    if tree.parents[site] == NO_PARENT:
        return
    near = unit(tree, site) | {tree.root, tree.parents[tree.parents[site]]}
    for other in range(len(tree.parents)):
        alike = tree.parents[site] == tree.parents[other] and not tree.children[site] + tree.children[other]
        if other not in near and not alike:
            yield site, other


# Scripts


def raise_site(bench: TreeEdit, site: int, to: int) -> None:
    """Promote a site until it is under the one named."""
    while bench.parent(site) != to:
        bench.promote(site)


def sink_site(bench: TreeEdit, site: int, under: int) -> None:
    """Demote a site, level by level, until it is under the one named."""
    way = [under]
    while bench.parent(way[-1]) != bench.parent(site):
        way.append(bench.parent(way[-1]))
    for step in reversed(way):
        bench.demote(site, step)


def raise_subtree(bench: TreeEdit, site: int, to: int) -> None:
    """Promote a site's children until they are under the one named."""
    for child in bench.children(site):
        raise_site(bench, child, to)


def swap_parent_and_child(bench: TreeEdit, site: int, child: int) -> None:
    others = [other for other in bench.children(site) if other != child]
    grandchildren = bench.children(child)
    bench.promote(child)
    bench.demote(site, child)
    for other in others:
        bench.promote(other)
    for grandchild in grandchildren:
        bench.demote(grandchild, site)


def swap_along_path(bench: TreeEdit, ancestor: int, site: int) -> None:
    """Let a site and one above it change places, by swaps of neighbours up the path and down again."""
    between = []
    above = bench.parent(site)
    while above != ancestor:
        between.append(above)
        above = bench.parent(above)
    for middle in between:
        swap_parent_and_child(bench, middle, site)
    swap_parent_and_child(bench, ancestor, site)
    for middle in reversed(between):
        swap_parent_and_child(bench, ancestor, middle)


def migrate_subtree(bench: TreeEdit, site: int, to: int) -> None:
    """Hand a site's children to its sibling, or to one below the sibling."""
    for child in bench.children(site):
        bench.promote(child)
        sink_site(bench, child, to)


def swap_siblings(bench: TreeEdit, one: int, other: int) -> None:
    of_one, of_other = bench.children(one), bench.children(other)
    for site, target in [(child, other) for child in of_one] + [(child, one) for child in of_other]:
        bench.promote(site)
        bench.demote(site, target)


def move_subtree(bench: TreeEdit, site: int, to: int) -> None:
    for child in bench.children(site):
        bench.move(child, to)


# The rules


def _move(name: str, levels: int, reach: RuleReach) -> TreeRule:
    """A site moves, with all below it."""
    if reach.relation is PairRelation.RISE:
        return TreeRule(name, levels, _risers(reach.levels), raise_site, RewriteShape.MOVE, reach)
    return TreeRule(
        name, levels, _beside(reach.levels, with_children=False), sink_site, RewriteShape.MOVE, reach
    )


def _hand(name: str, levels: int, reach: RuleReach) -> TreeRule:
    """A site hands its children on."""
    if reach.relation is PairRelation.RISE:
        return TreeRule(name, levels, _parents_at(reach.levels), raise_subtree, RewriteShape.HAND, reach)
    return TreeRule(
        name, levels, _beside(reach.levels, with_children=True), migrate_subtree, RewriteShape.HAND, reach
    )


def _swap(name: str, levels: int, apart: int) -> TreeRule:
    """A site and one above it change places."""
    return TreeRule(
        name,
        levels,
        _swaps(apart),
        swap_along_path,
        RewriteShape.SWAP,
        RuleReach(PairRelation.SWAP_UP, apart),
    )


CHILD_DEMOTION = _move("child demotion", 3, RuleReach(PairRelation.BESIDE, 0))
CHILD_PROMOTION = _move("child promotion", 3, RuleReach(PairRelation.RISE, 2))
SUBTREE_PROMOTION = _hand("subtree promotion", 3, RuleReach(PairRelation.RISE, 1, True))
PARENT_CHILD_SWAP = _swap("parent-child swap", 3, 1)
SUBTREE_MIGRATION = _hand("subtree migration", 3, RuleReach(PairRelation.BESIDE, 0, True))
SIBLING_SWAP = TreeRule(
    "sibling swap", 3, _sibling_swaps, swap_siblings, RewriteShape.EXCHANGE, RuleReach(PairRelation.SIBLINGS)
)

LOCAL: Sequence[TreeRule] = (
    CHILD_DEMOTION,
    CHILD_PROMOTION,
    SUBTREE_PROMOTION,
    PARENT_CHILD_SWAP,
    SUBTREE_MIGRATION,
    SIBLING_SWAP,
)
"""The rules of a unit of three levels (Table 4.2)."""

FOUR_LEVELS: Sequence[TreeRule] = (
    _hand("promote subtree 3 levels up", 4, RuleReach(PairRelation.RISE, 2, True)),
    _move("demote child 3 levels down", 4, RuleReach(PairRelation.BESIDE, 1)),
    _swap("swap grandparent-child", 4, 2),
    _hand("demote subtree 3 levels down", 4, RuleReach(PairRelation.BESIDE, 2, True)),
)
"""What a unit of four levels adds (section 4.6.3)."""

FIVE_LEVELS: Sequence[TreeRule] = (
    _hand("promote subtree 4 levels up", 5, RuleReach(PairRelation.RISE, 3, True)),
    _move("promote node 4 levels up", 5, RuleReach(PairRelation.RISE, 3)),
    _move("demote child 4 levels down", 5, RuleReach(PairRelation.BESIDE, 2)),
    _swap("swap parent-grand-grandchild", 5, 3),
    _hand("demote subtree 4 levels down", 5, RuleReach(PairRelation.BESIDE, 3, True)),
)
"""What a unit of five levels adds (section 4.6.3)."""

CHILD_MOVE = TreeRule(
    "child move",
    0,
    _elsewhere(with_children=False),
    TreeEdit.move,
    RewriteShape.MOVE,
    RuleReach(PairRelation.ELSEWHERE),
)
SUBTREE_MOVE = TreeRule(
    "subtree move",
    0,
    _elsewhere(with_children=True),
    move_subtree,
    RewriteShape.HAND,
    RuleReach(PairRelation.ELSEWHERE, 0, True),
)
NODE_SWAP = TreeRule(
    "node swap", 0, _partners, TreeEdit.swap, RewriteShape.SWAP, RuleReach(PairRelation.PARTNERS)
)

DIRECTED: Sequence[TreeRule] = (CHILD_MOVE, SUBTREE_MOVE, NODE_SWAP)
"""The rules that reach beyond a unit (section 4.3.2)."""

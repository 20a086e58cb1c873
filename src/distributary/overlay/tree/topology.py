"""The first shape of a tree (flat, random, or each node where it is best off), and what must be true of any.

A plan may start from any of them (003, section 3.1). Nodes that come later ask the root for a parent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

from distributary.errors import DistributaryError
from distributary.overlay.node import Address
from distributary.overlay.ring.invariants import cycles
from distributary.overlay.tree.messages import RegistryEntry, RootTerm
from distributary.overlay.tree.node import TreeNode

Parents = Mapping[Address, Address]
"""The parent of every node but the root; a node comes after its parent."""


def balanced_parents(nodes: Sequence[Address], fanout: int | None) -> dict[Address, Address]:
    """A tree as flat as the fanout allows, filled from the root down; the first is the root.

    >>> balanced_parents([1, 2, 3, 4, 5], fanout=2)
    {2: 1, 3: 1, 4: 2, 5: 2}
    """
    return _one_by_one(nodes, fanout, lambda node, able: able[0])


def random_parents(nodes: Sequence[Address], fanout: int | None, random: Random) -> dict[Address, Address]:
    """A tree of nodes that come one by one and take any parent that has room; the first is the root.

    >>> random_parents([1, 2, 3, 4], fanout=1, random=Random(1))
    {2: 1, 3: 2, 4: 3}
    """
    return _one_by_one(nodes, fanout, lambda node, able: random.choice(able))


def best_effort_parents(
    nodes: Sequence[Address], fanout: int | None, latency: Callable[[Address, Address], float]
) -> dict[Address, Address]:
    """A tree of nodes that come one by one and take the parent by which the root is nearest.

    >>> best_effort_parents([0, 10, 11, 30], fanout=2, latency=lambda one, other: abs(one - other) + 1)
    {10: 0, 11: 0, 30: 10}
    """
    away = {nodes[0]: 0.0} if nodes else {}

    def nearest(node: Address, able: list[Address]) -> Address:
        parent = min(able, key=lambda one: (away[one] + latency(one, node), one))
        away[node] = away[parent] + latency(parent, node)
        return parent

    return _one_by_one(nodes, fanout, nearest)


def _one_by_one(
    nodes: Sequence[Address], fanout: int | None, choose: Callable[[Address, list[Address]], Address]
) -> dict[Address, Address]:
    if fanout is not None and fanout < 1:
        raise DistributaryError(f"a fanout of {fanout} lets nobody have a child; give 1 or more")
    parents: dict[Address, Address] = {}
    children: Counter[Address] = Counter()
    able = list(nodes[:1])
    for node in nodes[1:]:
        parents[node] = parent = choose(node, able)
        children[parent] += 1
        if children[parent] == fanout:
            able.remove(parent)
        able.append(node)
    return parents


def settle(trees: Iterable[TreeNode], parents: Parents) -> None:
    """Put nodes that have not started into a tree at rest; the one that is the root knows everybody."""
    by_address = {tree.address: tree for tree in trees}
    root = next((tree.root for tree in by_address.values() if tree.is_root), None)
    if root is None or root.registry is None or parents.keys() != by_address.keys() - {root.registry.root}:
        raise DistributaryError("a tree has one root, and a parent for every other node")
    for tree in by_address.values():
        tree.settle(RootTerm(0.0, 0, root.registry.root))
    for node, parent in parents.items():
        by_address[node].attach(by_address[parent])
    root.registry.learn(RegistryEntry(node, 1, (parent,), 1) for node, parent in parents.items())


def loops(trees: Iterable[TreeNode]) -> list[str]:
    """What must never be: parents that lead back to where one began. Give all nodes, up or not."""
    return [f"a loop: {cycle}" for cycle in cycles({tree.address: tree.parent for tree in trees})]


def unsettled(trees: Iterable[TreeNode]) -> list[str]:
    """What must not be when all is at rest: several roots or none, nodes on their own, too many children."""
    all_trees = list(trees)
    by_address = {tree.address: tree for tree in all_trees}
    roots = [tree.address for tree in all_trees if tree.is_root]
    wrong = loops(all_trees)
    if len(roots) != 1:
        wrong.append(f"{len(roots)} roots: {roots}")
    for tree in all_trees:
        parent = None if tree.parent is None else by_address.get(tree.parent)
        if not tree.is_root and (parent is None or tree.address not in parent.children):
            wrong.append(f"{tree.address} has no parent that knows it: {tree.parent}")
        elif not tree.at_rest:
            wrong.append(f"{tree.address} is not at rest")
        fanout = tree.settings.fanout
        if fanout is not None and len(tree.children) > fanout:
            wrong.append(f"{tree.address} has {len(tree.children)} children, more than {fanout}")
    return wrong

"""Trees that are in use are restructured by the rules of dissemination trees (003, Table 4.2), one at a time.

Rules:

- Whoever keeps a tree (the registry those of sources, an operator's host that of its stream) applies the rule
  that gains most, if it gains at least `MARGIN` of the cost. What a tree costs follows from the preference by
  which parents are chosen: the time that its links take, or that of all ways from the root, or how unevenly
  children are spread. No rule gives a node more children than the fanout allows.
- The swap of a parent and its child is left out: while not all have heard of it, each would be above the
  other. A promotion and a demotion come to the same, one after the other.
- The next rule waits until all whose parent has changed have said that they know. So at any moment the nodes'
  parents, old or new, make a tree.

Cost: the rules of all members, times the members.
"""

from __future__ import annotations

from collections.abc import Mapping

from distributary.overlay.node import Address
from distributary.plan.queries.spreading import ParentPreference
from distributary.plan.trees.rules import LOCAL, PARENT_CHILD_SWAP
from distributary.plan.trees.tree import NO_PARENT, Tree
from distributary.systems.queries.source_trees import ParentChoice, SourceTree

RULES = tuple(rule for rule in LOCAL if rule is not PARENT_CHILD_SWAP)
MARGIN = 0.05
"""The share of a tree's cost that a change must gain."""


def tree_cost(tree: SourceTree, choice: ParentChoice) -> float:
    """What a tree costs, by the preference for parents."""
    links = choice.links
    match choice.prefer:
        case ParentPreference.NEAREST:
            return sum(links.latency(parent, node) for node, parent in tree.parents.items())
        case ParentPreference.SHORTEST_PATH:
            return sum(choice.path_latency(tree, node) for node in tree.parents)
        case ParentPreference.FEWEST_CHILDREN:
            return float(sum(tree.children(node) ** 2 for node in tree.members))


def best_change(tree: SourceTree, choice: ParentChoice) -> dict[Address, Address]:
    """Members and the parents that they should have instead; empty if no rule gains enough.

    >>> from distributary.systems.queries.links import LinkEstimate, LinkTable
    >>> near, far = LinkEstimate(1.0), LinkEstimate(5.0)
    >>> links = LinkTable({(1, 2): near, (2, 3): near, (1, 3): far})
    >>> best_change(SourceTree(1, {2: 1, 3: 1}), ParentChoice(links, fanout=2))
    {3: 2}
    """
    if tree.unsettled:
        return {}
    nodes = [tree.root, *tree.parents]
    numbers = {node: number for number, node in enumerate(nodes)}
    shape = Tree((NO_PARENT, *(numbers[tree.parents[node]] for node in nodes[1:])))
    least = (1 - MARGIN) * tree_cost(tree, choice)
    best: dict[Address, Address] = {}
    for rule in RULES:
        for owner in range(len(nodes)):
            for arguments in rule.arguments(shape, owner):
                changes = rule.rewrite(shape, arguments).changes
                named = {nodes[node]: nodes[parent] for node, parent in changes.items()}
                after = SourceTree(tree.root, {**tree.parents, **named})
                if named and _keeps_fanout(after, named, choice.fanout):
                    cost = tree_cost(after, choice)
                    if cost < least:
                        least, best = cost, named
    return best


def _keeps_fanout(tree: SourceTree, changes: Mapping[Address, Address], fanout: int) -> bool:
    return all(tree.children(parent) <= fanout for parent in changes.values())


def restructure(tree: SourceTree, choice: ParentChoice) -> list[Address]:
    """Change a tree by the best rule, if one gains enough; returns the members whose way has changed."""
    changes = best_change(tree, choice)
    tree.parents.update(changes)
    tree.unsettled.update(changes)
    return list(dict.fromkeys(node for one in changes for node in (one, *tree.below(one))))

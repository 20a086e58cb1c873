"""What each rule does to a tree, and that it does no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.plan.trees.rules import (
    DIRECTED,
    FIVE_LEVELS,
    FOUR_LEVELS,
    LOCAL,
    NODE_SWAP,
    PARENT_CHILD_SWAP,
    RewriteShape,
    TreeEdit,
    TreeRule,
    unit,
)
from distributary.plan.trees.tree import NO_PARENT, Tree
from plan.trees.trees import rewrites_of, trees

EVERY_RULE = [*LOCAL, *FOUR_LEVELS, *FIVE_LEVELS, *DIRECTED]

UNIT = Tree((NO_PARENT, 0, 1, 1, 2, 2, 3, 4, 6))
"""0 is the parent of 1, the owner; 2 and 3 its children; 4, 5 under 2, 6 under 3; 7 under 4, 8 under 6."""


def rule_named(name: str) -> TreeRule:
    return next(rule for rule in EVERY_RULE if rule.name == name)


@pytest.mark.parametrize(
    ("name", "arguments", "changes"),
    [
        ("child demotion", (3, 2), {3: 2}),
        ("child promotion", (4, 1), {4: 1}),
        ("subtree promotion", (2, 1), {4: 1, 5: 1}),
        ("parent-child swap", (1, 2), {1: 2, 2: 0, 3: 2, 4: 1, 5: 1}),
        ("subtree migration", (2, 3), {4: 3, 5: 3}),
        ("sibling swap", (2, 3), {4: 3, 5: 3, 6: 2}),
        ("promote subtree 3 levels up", (4, 1), {7: 1}),
        ("demote child 3 levels down", (3, 4), {3: 4}),
        ("swap grandparent-child", (1, 4), {1: 2, 2: 4, 3: 4, 4: 0, 7: 1}),
        ("demote subtree 3 levels down", (3, 7), {6: 7}),
        ("promote node 4 levels up", (7, 1), {7: 1}),
        ("demote child 4 levels down", (3, 7), {3: 7}),
        ("child move", (7, 3), {7: 3}),
        ("subtree move", (2, 6), {4: 6, 5: 6}),
        ("node swap", (4, 8), {4: 6, 8: 2, 7: 8}),
    ],
)
def test_what_a_rule_does(name: str, arguments: tuple[int, ...], changes: dict[int, int]) -> None:
    assert rule_named(name).rewrite(UNIT, arguments).changes == changes


DEEP = Tree((NO_PARENT, 0, 1, 1, 2, 4, 5, 3, 7))
"""0 over 1, the owner; under it 2, 4, 5, 6 in a row, and 3, 7, 8 in a row."""


@pytest.mark.parametrize(
    ("name", "arguments", "changes"),
    [
        ("promote subtree 4 levels up", (5, 1), {6: 1}),
        ("swap parent-grand-grandchild", (1, 5), {1: 4, 2: 5, 3: 5, 5: 0, 6: 1}),
        ("demote subtree 4 levels down", (3, 6), {7: 6}),
    ],
)
def test_what_the_deepest_rules_do(name: str, arguments: tuple[int, ...], changes: dict[int, int]) -> None:
    rule = rule_named(name)
    assert arguments in list(rule.arguments(DEEP, 1))
    assert rule.rewrite(DEEP, arguments).changes == changes


@given(trees(largest=12))
def test_every_rewrite_is_a_tree_with_the_same_root_and_changes_something(tree: Tree) -> None:
    for rule in EVERY_RULE:
        for owner in range(len(tree.parents)):
            for rewrite in rewrites_of(rule, tree, owner):
                changed = tree.changed(rewrite.changes)
                assert changed.root == tree.root
                assert changed != tree


@given(trees(largest=10), st.data())
def test_a_changed_tree_is_what_its_parents_say_or_is_refused(tree: Tree, data: st.DataObject) -> None:
    count = len(tree.parents)
    some = st.dictionaries(st.integers(0, count - 1), st.integers(-1, count - 1), max_size=4)
    changes = data.draw(some)
    parents = tuple(changes.get(site, parent) for site, parent in enumerate(tree.parents))
    try:
        whole = Tree(parents)
    except DistributaryError:
        with pytest.raises(DistributaryError):
            tree.changed(changes)
        return
    changed = tree.changed(changes)
    assert changed == whole
    assert (changed.root, changed.children, changed.order) == (whole.root, whole.children, whole.order)


@given(trees(largest=12))
def test_a_single_rule_moves_its_first_argument_under_its_second(tree: Tree) -> None:
    for rule in EVERY_RULE:
        if rule.pair is not None and rule.pair.shape is RewriteShape.MOVE:
            for owner in range(len(tree.parents)):
                for rewrite in rewrites_of(rule, tree, owner):
                    site, parent = rewrite.arguments
                    assert rewrite.changes == {site: parent}


@given(trees(largest=12))
def test_a_local_rule_leaves_all_outside_its_unit_alone(tree: Tree) -> None:
    for rule in EVERY_RULE:
        if not rule.directed:
            for owner in range(len(tree.parents)):
                # The last level keeps its children; a rule that hands them on reaches one level deeper.
                members = unit(tree, owner, rule.levels + 1)
                for rewrite in rewrites_of(rule, tree, owner):
                    assert rewrite.touched(tree) <= members


@given(trees(largest=12))
def test_swaps_exchange_two_places_and_nothing_else(tree: Tree) -> None:
    swaps = [rule for rule in EVERY_RULE if rule is PARENT_CHILD_SWAP or rule.name.startswith("swap")]
    for rule in [*swaps, NODE_SWAP]:
        for owner in range(len(tree.parents)):
            for rewrite in rewrites_of(rule, tree, owner):
                one, other = rewrite.arguments
                renamed = {one: other, other: one}
                expected = [0] * len(tree.parents)
                for site, parent in enumerate(tree.parents):
                    expected[renamed.get(site, site)] = renamed.get(parent, parent)
                assert tree.changed(rewrite.changes).parents == tuple(expected)


def test_directed_rules_reach_beyond_the_unit_only() -> None:
    for rule in DIRECTED:
        for site in range(len(UNIT.parents)):
            for rewrite in rewrites_of(rule, UNIT, site):
                assert rewrite.arguments[1] not in unit(UNIT, site)


def test_an_edit_refuses_what_is_no_promotion_demotion_or_move() -> None:
    edit = TreeEdit(UNIT)
    with pytest.raises(DistributaryError, match="no grandparent"):
        edit.promote(1)
    with pytest.raises(DistributaryError, match="is none"):
        edit.demote(4, 6)
    with pytest.raises(DistributaryError, match="below it"):
        edit.move(2, 7)
    with pytest.raises(DistributaryError, match="keeps its place"):
        edit.swap(0, 7)

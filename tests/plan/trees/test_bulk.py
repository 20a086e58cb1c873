"""Weighing in bulk: the same pairs as the rules offer, each worth what it is worth alone."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.plan.trees.benefit import Problem, TreeEstimate
from distributary.plan.trees.bulk import Layout, cost_after, owner_of, read
from distributary.plan.trees.bulk_walk import apply, draw
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.optimiser import HYBRID, NEGLIGIBLE, candidates, weigh
from distributary.plan.trees.rules import DIRECTED, FIVE_LEVELS, FOUR_LEVELS, LOCAL, TreeRule
from distributary.plan.trees.tree import Sites, Tree, random_tree
from plan.trees.trees import exact_sites, plane_sites, rewrites_of, trees

EVERY_RULE = [*LOCAL, *FOUR_LEVELS, *FIVE_LEVELS, *DIRECTED]
SYSTEM = ["SUM", "AVERAGE", "MIN", "MAX", "VARIANCE", "STD"]
NODE = ["SUM", "MIN", "MAX"]


def estimate_of(system: str, node: str, members: str, sites: Sites, tree: Tree) -> TreeEstimate:
    text = f"minimise aggregate({system}, aggregate({node}, link latency, PATH), {members})"
    return Problem(parse_goal(text), sites).at(tree)


def layout_in(estimate: TreeEstimate) -> Layout:
    layout = estimate.layout
    assert layout is not None
    return layout


def numbers_of(rule: TreeRule) -> tuple[int, int, int]:
    assert rule.pair is not None
    return rule.pair.numbers


@settings(max_examples=30)
@given(tree=trees(smallest=3, largest=12))
def test_a_rule_takes_the_pairs_that_the_rule_offers_around_their_owners(tree: Tree) -> None:
    count = len(tree.parents)
    sites = layout_in(estimate_of("SUM", "SUM", "BROKERS", exact_sites(count, 1), tree)).sites
    for rule in EVERY_RULE:
        offered = {(owner, *pair) for owner in range(count) for pair in rule.arguments(tree, owner)}
        numbers = numbers_of(rule)
        taken = {
            (owner, one, other)
            for one in range(count)
            for other in range(count)
            if (owner := owner_of(sites, numbers, one, other)) >= 0
        }
        assert offered == taken, rule.name


@pytest.mark.parametrize("system", SYSTEM)
@pytest.mark.parametrize("node", NODE)
@settings(max_examples=4)
@given(
    tree=trees(smallest=3),
    seed=st.integers(0, 10**6),
    members=st.sampled_from(["BROKERS", "CLIENTS", "BROKERS|CLIENTS"]),
)
def test_a_shape_costs_what_the_rules_changes_cost(
    system: str, node: str, tree: Tree, seed: int, members: str
) -> None:
    sites = exact_sites(len(tree.parents), seed)
    clients = [(site + seed) % 3 + (site == tree.root) for site in range(len(tree.parents))]
    clients[(tree.root + 1) % len(clients)] += 1
    estimate = estimate_of(system, node, members, Sites(**{**vars(sites), "clients": clients}), tree)
    layout = layout_in(estimate)
    assert read(layout) == pytest.approx(float(estimate.cost), rel=1e-9, abs=1e-9)
    for rule in EVERY_RULE:
        for owner in range(len(tree.parents)):
            for rewrite in rewrites_of(rule, tree, owner):
                one, other = rewrite.arguments
                alone = float(estimate.system.cost_after(rewrite.changes))
                assert cost_after(layout, numbers_of(rule)[0], one, other) == pytest.approx(
                    alone, rel=1e-9, abs=1e-6
                ), rewrite


@pytest.mark.parametrize(
    "goal", ["minimise aggregate(MAX", "maximise aggregate(MIN", "minimise aggregate(SUM"]
)
def test_what_helps_comes_best_first_and_nothing_is_left_out(goal: str) -> None:
    random = Random(3)
    text = f"{goal}, aggregate(SUM, link latency, PATH), BROKERS)"
    estimate = Problem(parse_goal(text), plane_sites(20, random)).at(random_tree(20, random))
    found, looked_at = weigh(estimate, HYBRID)
    ranked = [(-item.benefit, item.rewrite.rule, item.rewrite.arguments) for item in found]
    assert ranked == sorted(ranked)
    offered = list(candidates(estimate, HYBRID))
    assert looked_at == len(offered)
    least = NEGLIGIBLE * abs(float(estimate.cost))
    helping = {
        (rule.name, arguments)
        for rule, arguments in offered
        if estimate.benefit(rule.rewrite(estimate.tree, arguments).changes) > least
    }
    assert {(rule, arguments) for _, rule, arguments in ranked} == helping
    assert len(helping) == len(ranked) > 1


def test_a_rule_of_ones_own_is_weighed_among_the_others() -> None:
    random = Random(4)
    goal = parse_goal("minimise aggregate(SUM, aggregate(SUM, link latency, PATH), BROKERS)")
    estimate = Problem(goal, plane_sites(12, random)).at(random_tree(12, random))
    own = TreeRule("own promotion", 3, LOCAL[1].arguments, LOCAL[1].script)
    found, _ = weigh(estimate, [*LOCAL, own])
    items = list(found)
    assert [item.benefit for item in items] == sorted((item.benefit for item in items), reverse=True)
    names = [item.rewrite.rule for item in items]
    assert names.count("own promotion") == names.count("child promotion") > 0


@settings(max_examples=30)
@given(tree=trees(smallest=3, largest=12))
def test_a_shape_is_applied_as_the_rule_changes_the_tree(tree: Tree) -> None:
    count = len(tree.parents)
    estimate = estimate_of("SUM", "SUM", "BROKERS", exact_sites(count, 1), tree)
    layout = layout_in(estimate)
    for rule in EVERY_RULE:
        for owner in range(count):
            for rewrite in rewrites_of(rule, tree, owner):
                apply(layout.sites, layout.places, numbers_of(rule)[0], *rewrite.arguments)
                assert tuple(layout.sites["parent"]) == tree.changed(rewrite.changes).parents, rewrite
                layout.sites["parent"] = tree.parents


def test_every_pair_that_a_rule_takes_is_drawn_at_times() -> None:
    tree = Tree((-1, 0, 1, 1, 2, 3, 4, 5, 6, 0))
    layout = layout_in(estimate_of("SUM", "SUM", "BROKERS", exact_sites(10, 1), tree))
    random = np.random.default_rng(1)
    for rule in EVERY_RULE:
        offered = {pair for owner in range(10) for pair in rule.arguments(tree, owner)}
        drawn = {draw(layout.sites, layout.places, numbers_of(rule), random) for _ in range(1000)}
        assert offered <= drawn, rule.name

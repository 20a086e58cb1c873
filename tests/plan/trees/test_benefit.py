"""Benefits are exactly what measuring the whole tree again shows: every rule, every aggregation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.plan.goal import Place
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import aggregated, system_cost, violations
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.incremental import IncrementalCost
from distributary.plan.trees.metrics import Metric, Reads
from distributary.plan.trees.path_cost import TreePathCost, is_path_cost
from distributary.plan.trees.rules import DIRECTED, FIVE_LEVELS, FOUR_LEVELS, LOCAL
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree
from plan.trees.trees import exact_sites, rewrites_of, trees

EVERY_RULE = [*LOCAL, *FOUR_LEVELS, *FIVE_LEVELS, *DIRECTED]

SYSTEM = ["SUM", "AVERAGE", "MIN", "MAX", "VARIANCE", "STD", "PRODUCT"]
MEMBERS = ["BROKERS", "CLIENTS", "BROKERS|CLIENTS"]
PATHS = [f"aggregate({function}, link latency, PATH)" for function in ("SUM", "MIN", "MAX")]
OTHERS = [
    "aggregate(AVERAGE, link latency, PATH)",
    "aggregate(SUM, link latency + cpu, PATH)",
    "aggregate(SUM, incoming rate, CHILDREN)",
    "aggregate(MAX, link latency, CHILDREN)",
    "aggregate(AVERAGE, link bandwidth * incoming rate, CHILDREN)",
    "superfluous data",
    "cpu",
    "aggregate(SUM, link latency, PATH) * aggregate(MIN, link bandwidth, PATH)",
    "aggregate(SUM, link latency, PATH) / (fanout + 1) - incoming rate",
    "toll",
]
TOLL = Metric(
    "toll", Place.NODE, Reads.ANYTHING, lambda sites, tree, site: Fraction(tree.depth[site] + max(tree.depth))
)


def same(one: object, other: object) -> bool:
    """Equal; a square root and a value without bounds are floats, and compared as such."""
    if isinstance(one, float) or isinstance(other, float):
        return one == other or math.isclose(float(one), float(other), rel_tol=1e-12)  # type: ignore[arg-type]
    return one == other


def check_every_rewrite(text: str, tree: Tree, sites: Sites, expect_dependence: bool) -> int:
    goal = parse_goal(text, {"toll": TOLL})
    assert is_path_cost(goal.cost) == expect_dependence
    estimate = Problem(goal, sites).at(tree)
    assert isinstance(estimate.system, TreePathCost if expect_dependence else IncrementalCost)
    assert same(estimate.cost, system_cost(goal.cost, sites, tree))
    count = 0
    for rule in EVERY_RULE:
        for owner in range(len(tree.parents)):
            for rewrite in rewrites_of(rule, tree, owner):
                recomputed = system_cost(goal.cost, sites, tree.changed(rewrite.changes))
                assert same(estimate.system.cost_after(rewrite.changes), recomputed), rewrite
                count += 1
    return count


@pytest.mark.parametrize("system", SYSTEM)
@pytest.mark.parametrize("node", PATHS)
@settings(max_examples=6)
@given(tree=trees(smallest=3), seed=st.integers(0, 10**6), members=st.sampled_from(MEMBERS))
def test_dependence_sets_give_what_recomputation_gives(
    system: str, node: str, tree: Tree, seed: int, members: str
) -> None:
    sites = exact_sites(len(tree.parents), seed)
    sites = Sites(**{**vars(sites), "clients": [count + 1 for count in sites.clients]})
    check_every_rewrite(f"minimise aggregate({system}, {node}, {members})", tree, sites, True)


@pytest.mark.parametrize("system", SYSTEM)
@pytest.mark.parametrize("node", PATHS)
@settings(max_examples=8)
@given(tree=trees(smallest=3), seed=st.integers(0, 10**6), members=st.sampled_from(MEMBERS))
def test_all_moves_at_once_are_worth_what_each_is_alone(
    system: str, node: str, tree: Tree, seed: int, members: str
) -> None:
    sites = exact_sites(len(tree.parents), seed)
    sites = Sites(**{**vars(sites), "clients": [count + 1 for count in sites.clients]})
    goal = parse_goal(f"minimise aggregate({system}, {node}, {members})")
    estimate = Problem(goal, sites).at(tree)
    for site in range(len(tree.parents)):
        parents = np.array([other for other in range(len(tree.parents)) if not tree.below(other, site)])
        if site != tree.root:
            alone = [float(estimate.benefit({site: parent})) for parent in parents.tolist()]
            assert list(estimate.move_benefits(site, parents)) == pytest.approx(alone, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("node", OTHERS)
@settings(max_examples=8)
@given(
    tree=trees(smallest=3, largest=7),
    seed=st.integers(0, 10**6),
    system=st.sampled_from(SYSTEM[:-1]),
    members=st.sampled_from(MEMBERS),
)
def test_walking_gives_what_recomputation_gives(
    node: str, tree: Tree, seed: int, system: str, members: str
) -> None:
    sites = exact_sites(len(tree.parents), seed)
    sites = Sites(**{**vars(sites), "clients": [count + 1 for count in sites.clients]})
    check_every_rewrite(f"minimise aggregate({system}, {node}, {members})", tree, sites, False)


def test_a_deep_tree_offers_every_rule() -> None:
    """The properties above would say nothing about a rule that no tree offers."""
    parents = (NO_PARENT, 0, 1, 1, 2, 2, 3, 4, 6, 7, 8, 9)
    tree = Tree(parents)
    for rule in EVERY_RULE:
        assert any(True for owner in range(12) for _ in rewrites_of(rule, tree, owner)), rule.name
    sites = exact_sites(12, 1)
    for node in PATHS:
        for system in SYSTEM:
            goal = f"minimise aggregate({system}, {node}, BROKERS)"
            assert check_every_rewrite(goal, tree, sites, True) > 100


@settings(max_examples=8)
@given(tree=trees(smallest=4), seed=st.integers(0, 10**6))
def test_sites_without_clients_do_not_count(tree: Tree, seed: int) -> None:
    count = len(tree.parents)
    clients = [0 if site == tree.root else site % 2 for site in range(count)]
    sites = Sites(**{**vars(exact_sites(count, seed)), "clients": clients})
    for system in ("MIN", "MAX", "SUM"):
        for node in PATHS:
            check_every_rewrite(f"minimise aggregate({system}, {node}, CLIENTS)", tree, sites, True)


def test_a_benefit_is_positive_where_the_goal_comes_nearer() -> None:
    sites = Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]], bandwidth=[[0, 5, 1], [5, 0, 4], [1, 4, 0]])
    star = Tree((NO_PARENT, 0, 0))
    wide = parse_goal("maximise aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS)")
    assert Problem(wide, sites).at(star).benefit({2: 1}) == 3
    narrow = parse_goal("minimise aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS)")
    assert Problem(narrow, sites).at(star).benefit({2: 1}) == -3


@pytest.mark.parametrize("far", [150, 150.5, Fraction(301, 2)])
def test_a_product_beyond_what_a_float_holds_is_infinite_whatever_numbers_it_is_of(far: float) -> None:
    sites = Sites([[0, 100, far], [100, 0, 3], [far, 3, 0]], clients=[0, 200, 200])
    goal = parse_goal("minimise aggregate(PRODUCT, aggregate(SUM, link latency, PATH), CLIENTS)")
    problem, star = Problem(goal, sites), Tree((NO_PARENT, 0, 0))
    assert problem.at(star).cost == problem.at(star).system.cost_after({2: 1}) == math.inf
    assert aggregated(goal.cost.function, [-far, far, 2], [201, 200, 1]) == -math.inf
    assert aggregated(goal.cost.function, [far, 0, 2.5], [400, 1, 1]) == 0
    assert aggregated(goal.cost.function, [far, 2, None], [1, 3, 5]) == 8 * far


CONSTRAINTS = [
    "subject to fanout <= 2",
    "subject to aggregate(SUM, link latency, PATH) < 20",
    "subject to aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS) <= 18",
    "subject to aggregate(AVERAGE, fanout, BROKERS) != 1",
    "subject to aggregate(MIN, link bandwidth, PATH) >= 3",
]


@settings(max_examples=25)
@given(tree=trees(smallest=3, largest=8), seed=st.integers(0, 10**6), text=st.sampled_from(CONSTRAINTS))
def test_from_a_tree_that_keeps_the_constraints_exactly_the_trees_that_keep_them_are_legal(
    tree: Tree, seed: int, text: str
) -> None:
    sites = exact_sites(len(tree.parents), seed)
    goal = parse_goal(f"minimise aggregate(SUM, cpu, BROKERS)\n{text}")
    estimate = Problem(goal, sites).at(tree)
    if violations(goal, sites, tree):
        return
    for rule in EVERY_RULE:
        for owner in range(len(tree.parents)):
            for rewrite in rewrites_of(rule, tree, owner):
                broken = violations(goal, sites, tree.changed(rewrite.changes))
                assert estimate.legal(rewrite.changes) == (not broken)


def test_a_tree_that_breaks_a_constraint_can_be_mended_step_by_step() -> None:
    goal = parse_goal("minimise aggregate(SUM, cpu, BROKERS)\nsubject to fanout <= 1")
    estimate = Problem(goal, exact_sites(5, 1)).at(Tree((NO_PARENT, 0, 0, 0, 0)))
    assert estimate.legal({4: 1})
    deeper = Problem(goal, exact_sites(5, 1)).at(Tree((NO_PARENT, 0, 0, 0, 1)))
    assert not deeper.legal({3: 1})

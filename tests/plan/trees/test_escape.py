"""The default optimiser: optima where climbing stops, fewer rewrites, and constraints kept."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.cost import system_cost, violations
from distributary.plan.trees.escape import Effort, Excess, improve, outsiders
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.optimiser import climb
from distributary.plan.trees.tree import Sites, Tree, random_tree
from plan.trees.trees import exact_sites, exhaustive, optimum, plane_sites, trees

LARGEST = "minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)"
WIDEST = "maximise aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS)"
BEST_PATHS = [
    f"{direction} aggregate({system}, aggregate({node}, link latency, PATH), BROKERS)"
    for system in ("SUM", "AVERAGE", "MIN", "MAX", "PRODUCT")
    for direction, node in (("minimise", "SUM"), ("maximise", "MIN"), ("minimise", "MAX"))
]
OTHERS = [
    "minimise aggregate(VARIANCE, aggregate(SUM, link latency, PATH), BROKERS)",
    "minimise aggregate(AVERAGE, aggregate(SUM, incoming rate, CHILDREN), BROKERS)",
    "minimise aggregate(SUM, superfluous data, BROKERS)",
    "minimise aggregate(MAX, aggregate(SUM, link latency + cpu, PATH), BROKERS)",
    f"{LARGEST}\nsubject to fanout <= 2",
    f"{WIDEST}\nsubject to fanout <= 2",
]


def detours(count: int, random: Random) -> Sites:
    """Sites where the direct way is often not the shortest, as in real networks."""
    sites = plane_sites(count, random)
    latency = [list(row) for row in sites.latency]
    for one in range(count):
        for other in range(one):
            latency[one][other] = latency[other][one] = 2 + latency[one][other] * random.lognormvariate(
                0.2, 0.6
            )
    return Sites(latency=latency, bandwidth=sites.bandwidth)


@pytest.mark.parametrize("text", BEST_PATHS)
@settings(max_examples=5, deadline=None)
@given(tree=trees(smallest=3, largest=14), seed=st.integers(0, 10**6))
def test_where_best_paths_exist_the_optimum_is_reached_with_fewer_moves_than_sites(
    text: str, tree: Tree, seed: int
) -> None:
    problem = Problem(parse_goal(text), exact_sites(len(tree.parents), seed))
    found = improve(problem, tree)
    best = problem.at(optimum(problem, tree.root)).cost
    assert found.cost == best == system_cost(problem.goal.cost, problem.sites, found.tree)
    assert len(found.rewrites) < len(tree.parents)
    check_the_way(found.start, found.tree, [rewrite.changes for rewrite in found.rewrites])


def check_the_way(start: Tree, end: Tree, changes: list[dict[int, int]]) -> None:
    """The moves, one after the other, lead from tree to tree (each would be refused otherwise)."""
    tree = start
    for change in changes:
        tree = tree.changed(change)
    assert tree == end


def connections(found: TreeClimb) -> int:
    """How often a site had to connect to another parent."""
    return sum(len(rewrite.changes) for rewrite in found.rewrites)


@pytest.mark.parametrize("text", [LARGEST, WIDEST])
def test_it_escapes_where_the_climb_stops_and_rewrites_less(text: str) -> None:
    stopped = 0
    for seed in range(3):
        random = Random(seed)
        problem = Problem(parse_goal(text), detours(30, random))
        tree = random_tree(30, random)
        climbed, found = climb(problem, tree), improve(problem, tree)
        best = float(problem.at(optimum(problem)).cost)
        stopped += abs(float(climbed.cost) - best) > 0.01 * best
        assert float(found.cost) == pytest.approx(best)
        assert connections(found) < connections(climbed)
    assert stopped


@pytest.mark.parametrize("seed", range(2))
def test_largest_latency_of_a_hundred_sites_is_optimal(seed: int) -> None:
    random = Random(seed)
    problem = Problem(parse_goal(LARGEST), detours(100, random))
    found = improve(problem, random_tree(100, random))
    assert float(found.cost) == pytest.approx(float(problem.at(optimum(problem)).cost))


@pytest.mark.parametrize("text", OTHERS)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_elsewhere_it_is_never_worse_than_before_legal_and_the_same_every_time(text: str, seed: int) -> None:
    problem = Problem(parse_goal(text), exact_sites(8, seed))
    tree = random_tree(8, Random(seed), fanout=2)
    effort = Effort(patience=5, rounds=30, restarts=1)
    found = improve(problem, tree, seed, effort)
    sign = problem.goal.sign
    assert sign * found.cost <= sign * problem.at(tree).cost
    assert found.cost == system_cost(problem.goal.cost, problem.sites, found.tree)
    assert not violations(problem.goal, problem.sites, found.tree)
    check_the_way(found.start, found.tree, [rewrite.changes for rewrite in found.rewrites])
    assert found == improve(problem, tree, seed, effort)


@pytest.mark.parametrize("text", OTHERS)
def test_elsewhere_it_comes_close_to_the_best_of_all_trees_of_five_sites(text: str) -> None:
    sign = parse_goal(text).sign
    close = []
    for seed in range(3):
        problem = Problem(parse_goal(text), exact_sites(5, seed))
        effort = Effort(patience=6, restarts=8)
        found = improve(problem, random_tree(5, Random(seed), fanout=2), effort=effort)
        best = problem.at(exhaustive(problem)).cost
        close.append(sign * float(found.cost - best) <= 0.05 * abs(float(best)) + 1e-9)
    assert sum(close) >= 2


@pytest.mark.parametrize("text", [LARGEST, WIDEST])
def test_under_a_fanout_limit_it_does_better_than_the_climb(text: str) -> None:
    random = Random(2)
    problem = Problem(parse_goal(text + "\nsubject to fanout <= 4"), detours(30, random))
    tree = random_tree(30, random, fanout=4)
    climbed, found = climb(problem, tree), improve(problem, tree)
    assert problem.goal.sign * found.cost < problem.goal.sign * climbed.cost
    assert connections(found) < connections(climbed)
    assert not violations(problem.goal, problem.sites, found.tree)


@given(
    tree=trees(smallest=3),
    seed=st.integers(0, 10**6),
    bar=st.integers(1, 40),
    node=st.sampled_from(["SUM", "MIN", "MAX"]),
)
def test_the_excess_a_move_removes_is_what_recomputation_shows(
    tree: Tree, seed: int, bar: int, node: str
) -> None:
    text = f"minimise aggregate(MAX, aggregate({node}, link latency, PATH), BROKERS)"
    problem = Problem(parse_goal(text), exact_sites(len(tree.parents), seed))

    def excess_of(shape: Tree) -> float:
        costs = problem.at(shape).costs
        return sum(max(0.0, float(cost) - bar) for cost in costs if cost is not None)

    moves = problem.at(tree).moves
    assert moves is not None
    excess = Excess(moves, 1, float(bar))
    for site in excess.sites:
        parents = outsiders(tree, np.array(tree.order), site)
        for parent, gain in zip(parents.tolist(), excess.gains(site, parents).tolist(), strict=True):
            assert gain == pytest.approx(excess_of(tree) - excess_of(tree.changed({site: parent})))

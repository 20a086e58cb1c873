"""Trees to start from: what each promises."""

from __future__ import annotations

from random import Random

import pytest

from distributary.errors import DistributaryError
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import violations
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.starts import (
    best_effort,
    fanout_limit,
    minimum_spanning_tree,
    nearest_first,
    usual_trees,
)
from distributary.plan.trees.tree import random_tree
from plan.trees.trees import every_tree, plane_sites

LARGEST = "minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)"
WIDEST = "maximise aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS)"


def test_the_minimum_spanning_tree_has_the_least_latency_of_all_trees() -> None:
    sites = plane_sites(6, Random(4))
    problem = Problem(parse_goal("minimise aggregate(SUM, link latency, BROKERS)"), sites)
    least = min(float(problem.at(tree).cost) for tree in every_tree(6, 2))
    assert float(problem.at(minimum_spanning_tree(sites, 2)).cost) == pytest.approx(least)


@pytest.mark.parametrize("text", [LARGEST, WIDEST])
def test_best_effort_is_better_than_random_and_keeps_a_fanout_limit(text: str) -> None:
    goal = parse_goal(text + "\nsubject to fanout <= 3")
    problem = Problem(goal, plane_sites(30, Random(4)))
    tree = best_effort(problem, Random(1))
    assert max(map(len, tree.children)) <= 3
    other = random_tree(30, Random(1), fanout=3)
    assert max(map(len, other.children)) <= 3
    assert goal.sign * problem.at(tree).cost < goal.sign * problem.at(other).cost


@pytest.mark.parametrize(
    ("constraint", "limit"),
    [("fanout <= 3", 3), ("fanout < 3", 2), ("fanout < 2.5", 2), ("fanout >= 1", None), ("cpu <= 3", None)],
)
def test_the_fanout_limit_is_read_from_the_constraints(constraint: str, limit: int | None) -> None:
    assert fanout_limit(parse_goal(f"{LARGEST}\nsubject to {constraint}")) == limit


def test_the_usual_trees_have_the_root_that_was_asked_for() -> None:
    problem = Problem(parse_goal(LARGEST), plane_sites(8, Random(4)))
    assert {tree.root for tree in usual_trees(problem, 3, 1).values()} == {3}


def test_a_tree_without_children_is_refused() -> None:
    with pytest.raises(DistributaryError, match="at most 0 children"):
        random_tree(3, Random(1), fanout=0)


def test_nearest_first_leaves_room_near_the_root_for_those_who_need_it() -> None:
    random = Random(3)
    goal = "minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)\nsubject to fanout <= 3"
    problem = Problem(parse_goal(goal), plane_sites(40, random))
    tree = nearest_first(problem)
    assert not violations(problem.goal, problem.sites, tree)
    costs = [float(problem.at(best_effort(problem, Random(seed))).cost) for seed in range(5)]
    assert float(problem.at(tree).cost) < min(costs)

"""Best paths are as good as the best of all trees."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import system_cost
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.optimum import best_paths, has_best_paths
from plan.trees.trees import every_tree, exact_sites, exhaustive

GOALS = [
    f"{direction} aggregate({system}, aggregate({node}, link latency, PATH), BROKERS)"
    for system in ("SUM", "AVERAGE", "MIN", "MAX", "PRODUCT")
    for direction, node in (("minimise", "SUM"), ("maximise", "MIN"), ("minimise", "MAX"))
]


@pytest.mark.parametrize("text", GOALS)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6), root=st.integers(0, 4))
def test_best_paths_are_the_best_of_all_trees(text: str, seed: int, root: int) -> None:
    problem = Problem(parse_goal(text), exact_sites(5, seed))
    tree, costs, order = best_paths(problem, root)
    best = exhaustive(problem, root)
    sites, cost = problem.sites, problem.goal.cost
    assert system_cost(cost, sites, tree) == system_cost(cost, sites, best)
    assert sorted(order) == list(range(5))
    assert [float(value) for value in problem.at(tree).costs if value is not None] == [
        value for site, value in enumerate(costs) if site != root
    ]


def test_there_are_as_many_trees_as_cayley_says() -> None:
    assert len(set(every_tree(6, 2))) == 6**4


@pytest.mark.parametrize(
    "text",
    [
        "minimise aggregate(VARIANCE, aggregate(SUM, link latency, PATH), BROKERS)",
        "minimise aggregate(SUM, aggregate(SUM, link latency, PATH), BROKERS)\nsubject to fanout <= 2",
        "maximise aggregate(SUM, aggregate(SUM, link latency, PATH), BROKERS)",
        "minimise aggregate(SUM, aggregate(SUM, link latency - 5, PATH), BROKERS)",
    ],
)
def test_a_goal_without_best_paths_is_refused(text: str) -> None:
    problem = Problem(parse_goal(text), exact_sites(5, 3))
    assert not has_best_paths(problem)
    with pytest.raises(DistributaryError, match="best for every site"):
        best_paths(problem)

"""Trees that break constraints are made legal, and what cannot be met is named."""

from __future__ import annotations

from random import Random

import pytest

from distributary.errors import DistributaryError
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import violations
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.mending import breach, mended
from distributary.plan.trees.tree import Sites, random_tree, star
from plan.trees.trees import plane_sites

GOAL = "minimise aggregate(SUM, link latency, BROKERS)\n"


@pytest.mark.parametrize(
    "constraint",
    [
        "subject to fanout <= 2",
        "subject to fanout != 3",
        "subject to aggregate(SUM, link latency, PATH) <= 150",
        "subject to aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS) < 160",
    ],
)
def test_a_tree_that_breaks_a_constraint_is_made_legal(constraint: str) -> None:
    problem = Problem(parse_goal(GOAL + constraint), plane_sites(12, Random(2)))
    for tree in (star(12), random_tree(12, Random(1))):
        after = mended(problem, tree)
        assert not violations(problem.goal, problem.sites, after)
        assert breach(problem, after) == 0
        assert (after == tree) == (not violations(problem.goal, problem.sites, tree))


def test_the_constraint_that_cannot_be_met_is_named() -> None:
    text = GOAL + "subject to fanout <= 5\nsubject to aggregate(SUM, link latency, PATH) < 1"
    problem = Problem(parse_goal(text), plane_sites(6, Random(2)))
    with pytest.raises(
        DistributaryError, match=r"can keep the constraint aggregate\(SUM, .*\) < 1: for \d at best"
    ):
        mended(problem, star(6))


def test_constraints_that_hold_alone_and_not_together_are_told_apart() -> None:
    sites = Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]])
    text = GOAL + "subject to fanout <= 1\nsubject to aggregate(SUM, link latency, PATH) < 8.5"
    assert mended(Problem(parse_goal(text), sites), star(3)).parents == (-1, 0, 1)
    text = GOAL + "subject to fanout != 1\nsubject to aggregate(SUM, link latency, PATH) < 8.5"
    with pytest.raises(DistributaryError, match="together with the others, though it can be kept by itself"):
        mended(Problem(parse_goal(text), sites), star(3))

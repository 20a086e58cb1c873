"""Constraints that no tree keeps are told by proof, and the proof is never wrong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import violations
from distributary.plan.trees.feasibility import impossible
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.mending import Breaches, breach
from distributary.plan.trees.tree import Tree
from plan.trees.trees import every_tree, exact_sites, trees

GOAL = "minimise aggregate(SUM, cpu, BROKERS)"
TOLD = [
    "aggregate(SUM, link latency, PATH) <=",
    "aggregate(MAX, link latency, PATH) <",
    "aggregate(MIN, link bandwidth, PATH) >=",
    "aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS) <=",
    "aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS) >",
    "fanout <=",
    "fanout >=",
]
"""Of these one constraint is told to be impossible exactly when it is."""

LEFT_OPEN = [
    "link latency <=",
    "link bandwidth >",
    "aggregate(SUM, link latency, PATH) >=",
    "aggregate(VARIANCE, aggregate(SUM, link latency, PATH), BROKERS) <",
    "aggregate(SUM, incoming rate, CHILDREN) <",
]


@pytest.mark.parametrize("constraint", [*TOLD, *LEFT_OPEN])
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6), threshold=st.integers(0, 14))
def test_what_is_told_to_be_impossible_is(constraint: str, seed: int, threshold: int) -> None:
    problem = Problem(parse_goal(f"{GOAL}\nsubject to {constraint} {threshold}"), exact_sites(4, seed))
    kept = any(not violations(problem.goal, problem.sites, tree) for tree in every_tree(4))
    told = impossible(problem, 0)
    assert not (kept and told), told
    if constraint in TOLD:
        assert kept == (told is None)


def test_the_impossible_one_of_several_is_named_with_its_site_and_path() -> None:
    text = f"{GOAL}; subject to fanout <= 2; subject to aggregate(SUM, link latency, PATH) < 0.5"
    told = impossible(Problem(parse_goal(text), exact_sites(5, 3)), 0)
    assert told is not None
    assert told.startswith("aggregate(SUM, link latency, PATH) < 0.5: for ")
    assert "at best it is" in told


CONSTRAINTS = [
    "fanout <= 1; subject to aggregate(SUM, link latency, PATH) < 9",
    "aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS) <= 8; subject to fanout != 2",
    "aggregate(SUM, incoming rate, CHILDREN) <= 9",
]


@settings(max_examples=15, deadline=None)
@given(tree=trees(smallest=3, largest=7), seed=st.integers(0, 10**6), text=st.sampled_from(CONSTRAINTS))
def test_the_breach_after_a_move_is_that_of_the_moved_tree(tree: Tree, seed: int, text: str) -> None:
    problem = Problem(parse_goal(f"{GOAL}; subject to {text}"), exact_sites(len(tree.parents), seed))
    now = Breaches(problem, tree)
    assert (now.total == 0) == (not violations(problem.goal, problem.sites, tree))
    for site in range(len(tree.parents)):
        for parent in range(len(tree.parents)):
            if site != tree.root and not tree.below(parent, site):
                moved = tree.changed({site: parent})
                assert now.after({site: parent}) == pytest.approx(breach(problem, moved), abs=1e-9)

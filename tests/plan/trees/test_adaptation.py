"""A tree under drifting conditions: it follows what lasts, and does not swing with what does not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from distributary.errors import DistributaryError
from distributary.plan.trees.adaptation import Patience, TreeAdaptation
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import violations
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree, random_tree
from plan.trees.trees import optimum, plane_sites

GOALS = [
    "minimise aggregate(AVERAGE, aggregate(SUM, link latency, PATH), BROKERS)",
    "minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)",
    "maximise aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS)",
]
EAGER = Patience(margin=0.0, smoothing=1.0, rest=0)


def noisy(sites: Sites, random: Random, share: float) -> Sites:
    """Every link a little better or worse."""

    def shaken(matrix: list[list[float]]) -> list[list[float]]:
        return [[value * random.uniform(1 - share, 1 + share) for value in row] for row in matrix]

    return replace(sites, latency=shaken(sites.latency), bandwidth=shaken(sites.bandwidth))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", GOALS)
def test_noise_below_the_margin_never_changes_a_settled_tree(text: str) -> None:
    sites = plane_sites(15, Random(1))
    start = random_tree(15, Random(2))
    patient = TreeAdaptation(parse_goal(text), start, Patience(margin=0.2))
    eager = TreeAdaptation(parse_goal(text), start, EAGER)
    patient.period(sites)
    eager.period(sites)
    settled = patient.tree
    random = Random(3)
    swings = 0
    for _ in range(30):
        measured = noisy(sites, random, 0.08)
        assert patient.period(measured) is None
        swings += eager.period(measured) is not None
    assert patient.tree == settled
    assert swings > 10  # without reluctance the same noise keeps the tree busy


@pytest.mark.parametrize("text", GOALS)
def test_a_change_that_lasts_is_followed_and_then_there_is_rest(text: str) -> None:
    goal = parse_goal(text)
    sites = plane_sites(15, Random(1))
    keeper = TreeAdaptation(goal, random_tree(15, Random(2)), Patience(margin=0.1))
    keeper.period(sites)
    for _ in range(3):
        keeper.period(sites)
    used = {(parent, site) for site, parent in enumerate(keeper.tree.parents) if parent != NO_PARENT}

    def spoilt(matrix: list[list[float]], factor: float) -> list[list[float]]:
        return [
            [value * factor if (row, column) in used else value for column, value in enumerate(values)]
            for row, values in enumerate(matrix)
        ]

    changed = replace(sites, latency=spoilt(sites.latency, 4), bandwidth=spoilt(sites.bandwidth, 0.25))  # type: ignore[arg-type]
    changes = [keeper.period(changed) is not None for _ in range(40)]
    assert any(changes)
    assert not any(changes[20:])
    problem = Problem(goal, changed)
    best = float(problem.at(optimum(problem)).cost)
    assert abs(float(problem.at(keeper.tree).cost) - best) <= 0.12 * best


def test_conditions_that_alternate_do_not_make_the_tree_alternate() -> None:
    fast, slow = 10.0, 14.0
    first = Sites(latency=[[0, 5, 5, fast], [5, 0, 9, 5], [5, 9, 0, 9], [fast, 5, 9, 0]])
    second = Sites(latency=[[0, 5, 5, slow], [5, 0, 9, 9], [5, 9, 0, 5], [slow, 9, 5, 0]])
    goal = parse_goal(GOALS[1])
    keeper = TreeAdaptation(goal, Tree((NO_PARENT, 0, 0, 0)))
    eager = TreeAdaptation(goal, Tree((NO_PARENT, 0, 0, 0)), EAGER)
    swings = [(keeper.period(now) is not None, eager.period(now) is not None) for now in [first, second] * 20]
    assert sum(one for one, _ in swings[4:]) == 0
    assert sum(other for _, other in swings[4:]) > 10


def test_a_tree_rests_after_a_change() -> None:
    goal = parse_goal(GOALS[1])
    keeper = TreeAdaptation(goal, Tree((NO_PARENT, 0, 0)), Patience(margin=0.0, smoothing=1.0, rest=2))
    one = Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]])
    other = Sites(latency=[[0, 9, 5], [9, 0, 3], [5, 3, 0]])
    changes = [keeper.period(now) is not None for now in (one, other, other, other)]
    assert changes == [True, False, False, True]


def test_a_broken_constraint_is_mended_whatever_the_margin() -> None:
    goal = parse_goal(GOALS[0] + "\nsubject to fanout <= 2")
    sites = plane_sites(6, Random(1))
    keeper = TreeAdaptation(goal, Tree((NO_PARENT, 0, 0, 0, 0, 0)), Patience(margin=0.5, rest=0))
    keeper.period(sites)
    assert not violations(goal, sites, keeper.tree)


def test_patience_out_of_range_is_refused() -> None:
    for wrong in ({"margin": -1.0}, {"smoothing": 0.0}, {"rest": -1}):
        with pytest.raises(DistributaryError, match="at least 0"):
            Patience(**wrong)  # type: ignore[arg-type]

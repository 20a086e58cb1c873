"""The seed's climb: it ends where no rule helps, keeps the constraints, and looks only where it matters."""

from __future__ import annotations

from random import Random

import pytest

from distributary.errors import DistributaryError
from distributary.plan.trees.annealing import Schedule, anneal
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import system_cost, violations
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.optimiser import HYBRID, climb, critical_sites, weigh
from distributary.plan.trees.rules import LOCAL, TreeEdit, TreeRule
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree, random_tree, star
from plan.trees.trees import exact_sites, exhaustive, optimum, plane_sites

AVERAGE = "minimise aggregate(AVERAGE, aggregate(SUM, link latency, PATH), BROKERS)"
LARGEST = "minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)"
WIDEST = "maximise aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS)"
VARIANCE = "minimise aggregate(VARIANCE, aggregate(SUM, link latency, PATH), BROKERS)"
REDUNDANT = "minimise aggregate(SUM, superfluous data, BROKERS)"
ALL_WIDE = "maximise aggregate(SUM, aggregate(MIN, link bandwidth, PATH), BROKERS|CLIENTS)"
ALIKE = "minimise aggregate(VARIANCE, aggregate(MIN, link bandwidth, PATH), BROKERS)"


@pytest.mark.parametrize("text", [AVERAGE, ALL_WIDE, LARGEST, WIDEST, VARIANCE, ALIKE, REDUNDANT])
def test_every_step_is_better_by_recomputation_and_at_the_end_no_legal_rewrite_is(text: str) -> None:
    sites = exact_sites(10, 5)
    problem = Problem(parse_goal(text + "\nsubject to fanout <= 4"), sites)
    tree = random_tree(10, Random(3), fanout=4)
    found = climb(problem, tree)
    sign = problem.goal.sign
    for step in found.steps:
        assert system_cost(problem.goal.cost, sites, tree) == step.before
        for rewrite in step.rewrites:
            tree = tree.changed(rewrite.changes)
        assert system_cost(problem.goal.cost, sites, tree) == step.after
        assert sign * step.after < sign * step.before
        assert not violations(problem.goal, sites, tree)
    assert tree == found.tree
    estimate = problem.at(tree)
    assert not [item for item in weigh(estimate, HYBRID)[0] if estimate.legal(item.rewrite.changes)]


def test_a_rule_of_the_user_is_weighed_and_applied_like_any_other() -> None:
    def adopt(edit: TreeEdit, site: int) -> None:
        for sibling in edit.children(edit.parent(site)):
            if sibling != site:
                edit.demote(sibling, site)

    rule = TreeRule("adoption", 2, lambda tree, owner: ((child,) for child in tree.children[owner]), adopt)
    sites = Sites(latency=[[0, 1, 9, 9], [1, 0, 2, 7], [9, 2, 0, 2], [9, 7, 2, 0]])
    problem = Problem(parse_goal(LARGEST), sites)
    found = climb(problem, star(4), [rule])
    assert [rewrite.arguments for rewrite in found.rewrites] == [(1,), (2,)]
    assert found.tree.parents == (NO_PARENT, 0, 1, 2)
    assert [step.after for step in found.steps] == [8, 5]
    assert climb(problem, star(4), [*HYBRID, rule]).cost == 5


@pytest.mark.parametrize("seed", range(3))
def test_average_latency_comes_within_one_in_a_hundred_of_the_shortest_paths(seed: int) -> None:
    random = Random(seed)
    problem = Problem(parse_goal(AVERAGE), plane_sites(30, random))
    found = climb(problem, random_tree(30, random), LOCAL)
    assert found.cost <= 1.01 * problem.at(optimum(problem)).cost
    assert len(found.rewrites) <= 30


def test_redundant_data_goes_to_nothing_by_local_rules_and_not_without_promotion() -> None:
    sites = exact_sites(12, 8)
    problem = Problem(parse_goal(REDUNDANT), sites)
    tree = random_tree(12, Random(1))
    assert climb(problem, tree, LOCAL).cost == 0
    without = [rule for rule in LOCAL if "promotion" not in rule.name]
    assert climb(problem, tree, without).cost > 0


def test_only_sites_with_the_systems_cost_are_critical_for_a_bottleneck() -> None:
    sites = Sites(latency=[[0, 5, 9, 4], [5, 0, 3, 4], [9, 3, 0, 4], [4, 4, 4, 0]])
    tree = Tree((NO_PARENT, 0, 0, 0))
    assert critical_sites(Problem(parse_goal(LARGEST), sites).at(tree)) == [2]
    assert critical_sites(Problem(parse_goal(AVERAGE), sites).at(tree)) == [0, 1, 2, 3]


def test_periods_bound_a_climb() -> None:
    problem = Problem(parse_goal(AVERAGE), exact_sites(12, 2))
    assert len(climb(problem, random_tree(12, Random(2)), periods=2).steps) == 2


def test_a_combined_metric_is_climbed_like_any_other() -> None:
    text = """minimise aggregate(AVERAGE, bandwidth * delay, BROKERS)
    bandwidth = aggregate(MIN, link bandwidth, PATH)
    delay = aggregate(SUM, link latency, PATH)"""
    goal = parse_goal(text)
    problem = Problem(goal, exact_sites(7, 4))
    tree = random_tree(7, Random(4))
    assert climb(problem, tree).cost < problem.at(tree).cost


# Annealing


@pytest.mark.parametrize("text", [LARGEST, WIDEST])
def test_annealing_finds_the_best_of_a_few_sites_and_repeats_itself(text: str) -> None:
    problem = Problem(parse_goal(text), exact_sites(5, 6))
    tree = random_tree(5, Random(1), fanout=2)
    brief = Schedule(tries=8, frozen=0.5, patience=3)
    found = anneal(problem, tree, Random(9), schedule=brief)
    assert found.cost == problem.at(exhaustive(problem)).cost
    assert found.considered > found.applied > 100
    assert found == anneal(problem, tree, Random(9), schedule=brief)


def test_annealing_without_a_temperature_is_a_climb_at_random() -> None:
    problem = Problem(parse_goal(AVERAGE), plane_sites(20, Random(2)))
    found = anneal(problem, random_tree(20, Random(2)), Random(3), schedule=Schedule(start=1e-9))
    assert found.cost <= 1.01 * problem.at(optimum(problem)).cost


@pytest.mark.parametrize("text", [LARGEST + "\nsubject to fanout <= 2", REDUNDANT])
def test_annealing_refuses_constraints_and_goals_that_are_not_along_the_path(text: str) -> None:
    with pytest.raises(DistributaryError, match="annealing takes goals along the path"):
        anneal(Problem(parse_goal(text), exact_sites(5, 6)), star(5), Random(9))


def test_annealing_has_the_seeds_parameters() -> None:
    assert Schedule() == Schedule(start=2.0, tries=64, cooling=0.95, frozen=0.001, patience=10)

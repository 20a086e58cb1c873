"""Rewrites that are carried out together are worth as much as one by one, or at least leave nothing worse."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.plan.goal.expression import Goal
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import violations
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.optimiser import HYBRID
from distributary.plan.trees.tree import Sites, Tree, random_tree
from distributary.systems.tree.cost_model import CostModel
from distributary.systems.tree.independence import RewriteIndependence
from distributary.systems.tree.messages import RewriteProposal
from systems.tree.test_goals import CONSTRAINTS, OWN, priced_sites, random_goal

COSTS = {
    "summed latency": "aggregate(SUM, link latency, PATH)",
    "narrowest link": "aggregate(MIN, link bandwidth, PATH)",
    "latency and processing": "aggregate(SUM, link latency + cpu, PATH)",
    "superfluous data": "superfluous data",
    "product": "aggregate(SUM, toll, PATH) * rent",
    "over children": "aggregate(MAX, fanout, CHILDREN) + toll",
}


def proposals(problem: Problem, tree: Tree, random: Random, *, helpful: bool) -> list[RewriteProposal]:
    """Rewrites that the rules allow, in any order; if asked, those alone that help and keep constraints."""
    estimate, found = problem.at(tree), []
    total = sum_of_costs(problem, tree)
    for rule in HYBRID:
        for site in range(len(tree.parents)):
            for arguments in rule.arguments(tree, site):
                changes = rule.rewrite(tree, arguments).changes
                benefit = float(estimate.benefit(changes))
                if changes and (not helpful or (benefit > 1e-9 and estimate.legal(changes))):
                    before = tuple((each, tree.parents[each]) for each in changes)
                    shift = sum_of_costs(problem, tree.changed(changes)) - total
                    sides = (rule.name, arguments, tuple(changes.items()), before)
                    found.append(RewriteProposal(1, benefit, *sides, shift))
    random.shuffle(found)
    return found


def sum_of_costs(problem: Problem, tree: Tree) -> float:
    estimate = problem.at(tree)
    rows = zip(estimate.costs, estimate.system.weights, strict=True)
    return sum(float(cost) * times for cost, times in rows if cost is not None)


def chosen(goal: Goal, tree: Tree, offered: list[RewriteProposal]) -> list[RewriteProposal]:
    """As many as may be carried out together."""
    independence = RewriteIndependence(CostModel(goal), tree.root, lambda site: tree.parents[site])
    together: list[RewriteProposal] = []
    for each in offered:
        if all(independence.together(each, other) for other in together):
            together.append(each)
    return together


def both(tree: Tree, rewrites: list[RewriteProposal]) -> Tree:
    return tree.changed({site: parent for each in rewrites for site, parent in each.changes})


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000), st.sampled_from(sorted(COSTS)), st.sampled_from(["SUM", "AVERAGE"]))
def test_where_costs_add_up_they_are_worth_what_they_are_worth_alone(
    seed: int, name: str, function: str
) -> None:
    """Those that help and those that do not."""
    random = Random(seed)
    goal = parse_goal(f"minimise aggregate({function}, {COSTS[name]}, BROKERS)", OWN)
    problem, tree = Problem(goal, priced_sites(12, random)), random_tree(12, random)
    together = chosen(goal, tree, proposals(problem, tree, random, helpful=False))
    worth = float(problem.at(tree).cost - problem.at(both(tree, together)).cost)
    assert worth == pytest.approx(sum(each.benefit for each in together), abs=1e-6)


@pytest.mark.parametrize("direction", ["minimise", "maximise"])
@pytest.mark.parametrize("name", ["summed latency", "narrowest link", "product"])
def test_variances_change_by_no_less_than_by_all_of_them_alone(name: str, direction: str) -> None:
    goal = parse_goal(f"{direction} aggregate(VARIANCE, {COSTS[name]}, BROKERS)", OWN)
    several = 0
    for seed in range(12):
        random = Random(seed)
        problem, tree = Problem(goal, priced_sites(12, random)), random_tree(12, random)
        together = chosen(goal, tree, proposals(problem, tree, random, helpful=True))
        worth = goal.sign * float(problem.at(tree).cost - problem.at(both(tree, together)).cost)
        assert worth >= sum(each.benefit for each in together) - 1e-6
        several += len(together) > 1
    assert several


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000), st.booleans())
def test_whatever_the_goal_those_that_help_leave_nothing_worse_together(seed: int, constrained: bool) -> None:
    random = Random(seed)
    limit = f"\nsubject to {random.choice(CONSTRAINTS)}" if constrained else ""
    goal = parse_goal(random_goal(random) + limit, OWN)
    sites: Sites = priced_sites(14, random)
    problem, tree = Problem(goal, sites), random_tree(14, random)
    together = chosen(goal, tree, proposals(problem, tree, random, helpful=True))
    after = both(tree, together)
    before = float(problem.at(tree).cost)
    assert goal.sign * (float(problem.at(after).cost) - before) <= 1e-7 * max(1.0, abs(before))
    assert violations(goal, sites, tree) or not violations(goal, sites, after)

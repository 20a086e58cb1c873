"""Trees and queries improved together."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Goal
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.cost import placement_cost, query_violations
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.joint import TreeProblem, improve_both, improve_trees
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.placement import Placement
from plan.queries.networks import exact_placement, small

BANDWIDTH = parse_query_goal(
    "out = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate\n"
    "minimise aggregate(SUM, out, BROKERS)"
)
LATENCY = parse_query_goal(
    "minimise aggregate(AVERAGE, aggregate(SUM, aggregate(SUM, latency, UPSTREAM OPERATORS), "
    "QUERY OPERATORS), QUERIES)"
)
LIMITED = (
    "minimise aggregate(SUM, incoming rate, BROKERS)\nsubject to node load <= {}\nsubject to fanout <= 9"
)
LOAD = parse_query_goal("minimise aggregate(MAX, node load, BROKERS)")


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([BANDWIDTH, LATENCY]))
def test_what_a_move_in_a_tree_is_worth_is_what_measuring_anew_shows(seed: int, goal: Goal) -> None:
    placement = exact_placement(seed)
    number = Random(seed).randrange(len(placement.network.trees))
    tree = placement.network.trees[number]
    site = Random(seed).choice(tree.order[1:])
    found = TreeProblem(PlacementEstimate(goal, placement), number).benefits(tree, site)
    now = placement_cost(goal.cost, placement)
    for parent, benefit in enumerate(found):
        if tree.below(parent, site):
            assert benefit == -np.inf
            continue
        network = placement.network.with_tree(number, tree.changed({site: parent}))
        after = placement_cost(goal.cost, Placement(placement.workload, network, placement.hosts))
        assert benefit == pytest.approx(float(now - after), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("goal", "limit"), [(BANDWIDTH, 4), (LATENCY, 9)])
def test_trees_and_queries_together_are_better_than_either_alone(goal: Goal, limit: int) -> None:
    """Where sites have limits: without any, stars or roots are best for one of the two alone."""
    placement = small(30, 16)
    goal = replace(goal, constraints=parse_query_goal(LIMITED.format(limit)).constraints)
    both = improve_both(goal, placement)
    cost = float(placement_cost(goal.cost, both))
    assert cost < climb(goal, placement).cost
    assert cost < placement_cost(goal.cost, improve_trees(goal, placement))
    assert len(query_violations(goal, both)) <= len(query_violations(goal, placement))


def test_a_goal_for_which_trees_cannot_be_weighed_is_refused() -> None:
    with pytest.raises(DistributaryError, match="sums of nodes' rates"):
        improve_trees(LOAD, small())

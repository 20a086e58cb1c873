"""Goals of every kind on live trees: what the root takes the tree to cost, and what rounds of rewrites do."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.plan.goal import Place
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import system_cost, violations
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.metrics import Metric, Reads, measured
from distributary.plan.trees.optimiser import HYBRID, climb
from distributary.plan.trees.rules import DIRECTED, LOCAL
from distributary.plan.trees.tree import Sites, random_tree
from distributary.systems.tree.settings import Gauges, OptimisationSettings
from systems.tree.worlds import LiveWorld, random_sites

OWN = {"toll": measured("toll", Place.LINK), "rent": measured("rent", Place.NODE)}
METRICS = (
    *("link latency", "link bandwidth", "incoming rate", "superfluous data", "toll"),
    *("fanout", "cpu", "rent"),
)
NODE_FUNCTIONS = ("SUM", "MIN", "MAX", "AVERAGE")
FUNCTIONS = (*NODE_FUNCTIONS, "PRODUCT", "VARIANCE", "STD")
CONSTRAINTS = (
    *("fanout <= 3", "cpu <= 60", "toll < 40", "rent + toll * fanout <= 90", "fanout != 2"),
    *("aggregate(SUM, link latency, PATH) <= 300", "aggregate(SUM, toll, PATH) + rent <= 90"),
    *("aggregate(MIN, link bandwidth, PATH) > 5", "aggregate(AVERAGE, toll, PATH) <= 30"),
)


def local_cost(random: Random) -> str:
    one, other = random.choice(METRICS), random.choice(METRICS)
    forms = (one, one, one, f"({one} + {other})", f"({one} * {other})", f"({one} / link bandwidth - 3)")
    return random.choice(forms)


def node_cost(random: Random) -> str:
    kind = random.randrange(7)
    if kind < 2:
        return local_cost(random)
    if kind < 5:
        scope = "PATH" if kind < 4 else "CHILDREN"
        return f"aggregate({random.choice(NODE_FUNCTIONS)}, {local_cost(random)}, {scope})"
    return f"{node_cost(random)} {random.choice('+-*')} {node_cost(random)}"


def random_goal(random: Random) -> str:
    direction, function = random.choice(("minimise", "maximise")), random.choice(FUNCTIONS)
    members = random.choice(("BROKERS", "CLIENTS", "BROKERS|CLIENTS"))
    return f"{direction} aggregate({function}, {node_cost(random)}, {members})"


def priced_sites(nodes: int, random: Random) -> Sites:
    """Sites with tolls on links, which differ by direction, and rents."""
    tolls = [
        [float(one != other and random.randint(1, 60)) for other in range(nodes)] for one in range(nodes)
    ]
    rents = [float(random.randint(1, 20)) for _ in range(nodes)]
    return replace(random_sites(nodes, random), link_metrics={"toll": tolls}, site_metrics={"rent": rents})


@settings(max_examples=60)
@given(st.integers(0, 100_000))
def test_the_root_takes_the_tree_to_cost_what_the_planner_finds_that_it_does(seed: int) -> None:
    random = Random(seed)
    goal = parse_goal(random_goal(random), OWN)
    sites, shape = priced_sites(8, random), random_tree(8, random)
    world = LiveWorld(goal, sites, shape, period=1000.0)
    world.run(30)
    expected = float(system_cost(goal.cost, sites, shape))
    assert world.optimisers()[0].cost() == pytest.approx(expected, nan_ok=True)


def assert_rounds_improve(seed: int, *, constrained: bool, nodes: int = 7, **more: Any) -> None:
    """Optimise for a random goal until nobody proposes anything, and compare every round with the planner."""
    random = Random(seed)
    text, rules = random_goal(random), random.choice([LOCAL, HYBRID, DIRECTED])
    if constrained:
        text += f"\nsubject to {random.choice(CONSTRAINTS)}"
    goal, sites, start = parse_goal(text, OWN), priced_sites(nodes, random), random_tree(nodes, random)
    problem, sign = Problem(goal, sites), parse_goal(text, OWN).sign
    world = LiveWorld(goal, sites, start, rules=tuple(rules), period=40.0, **more)
    root, shape = world.optimisers()[0], start
    for _ in range(100):
        world.run(world.period)
        before, cost = float(problem.at(shape).cost), float(problem.at(world.shape()).cost)
        assert sign * (cost - before) <= 1e-7 * max(1.0, abs(before)), text
        kept = not violations(goal, sites, shape)
        assert not (kept and violations(goal, sites, world.shape())), text
        shape = world.shape()
        if root.quiet >= 2:
            break
    else:
        raise AssertionError(f"it goes on and on: {text}")
    assert root.cost() == pytest.approx(float(problem.at(shape).cost)), text
    assert not climb(problem, shape, rules).steps, text


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 100_000), st.booleans(), st.booleans())
def test_no_round_makes_it_worse_and_it_ends_where_no_rewrite_helps(
    seed: int, constrained: bool, concurrent: bool
) -> None:
    assert_rounds_improve(seed, constrained=constrained, concurrent=concurrent)


@pytest.mark.chaos
@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("seed", range(150))
def test_many_goals_are_followed_to_where_no_rewrite_helps(seed: int, constrained: bool) -> None:
    assert_rounds_improve(seed, constrained=constrained)
    assert_rounds_improve(seed, constrained=constrained, concurrent=True, nodes=11)


def test_tolls_are_paid_where_they_are_asked_for() -> None:
    """The gauge is asked for links between brokers by their addresses; it ends where no rewrite helps."""
    random = Random(4)
    sites, start = priced_sites(9, random), random_tree(9, random)
    tolls = sites.link_metrics["toll"]
    in_plan = Metric(
        "toll", Place.LINK, Reads.PARENT, lambda sites, tree, site: tolls[tree.parents[site]][site]
    )
    goal = parse_goal("minimise aggregate(SUM, toll, BROKERS)", {"toll": in_plan})
    world = LiveWorld(goal, sites, start)
    reached = world.converge()
    problem = Problem(goal, sites)
    assert problem.at(reached).cost == climb(problem, start).cost < problem.at(start).cost
    assert not climb(problem, reached).steps
    assert world.optimisers()[0].cost() == problem.at(reached).cost


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("minimise aggregate(SUM, toll, BROKERS)", r"links\['toll'\]"),
        ("minimise aggregate(MAX, rent + cpu, BROKERS)", r"nodes\['rent'\] and processing"),
        ("maximise aggregate(MIN, link bandwidth, BROKERS)", "bandwidth"),
        ("minimise aggregate(SUM, fanout, BROKERS)\nsubject to toll <= 3", r"links\['toll'\]"),
    ],
)
def test_what_no_gauge_measures_is_refused_at_once(text: str, missing: str) -> None:
    with pytest.raises(DistributaryError, match=f"no gauge for: give Gauges {missing}"):
        OptimisationSettings(parse_goal(text, OWN), gauges=Gauges(links={"rent": lambda one, other: 1.0}))


@pytest.mark.parametrize("reads", [Reads.CHILDREN, Reads.SUBTREE, Reads.ANYTHING])
def test_a_metric_of_more_than_a_link_or_a_node_is_for_the_planner_alone(reads: Reads) -> None:
    crowd = Metric("crowd", Place.NODE, reads, lambda sites, tree, site: len(tree.children[site]) ** 2)
    goal = parse_goal("minimise aggregate(SUM, crowd, BROKERS)", {"crowd": crowd})
    with pytest.raises(DistributaryError, match="measures 'crowd' on a link or at a node by itself"):
        OptimisationSettings(goal, gauges=Gauges(nodes={"crowd": lambda node: 1.0}))

"""The cost language: the seed's examples, both ways round, and what its errors say."""

from __future__ import annotations

from fractions import Fraction

import pytest

from distributary.errors import DistributaryError, InputError
from distributary.plan.goal.expression import (
    Combination,
    Constraint,
    Direction,
    Goal,
    GoalAggregate,
    GoalFunction,
    GoalMembers,
    Place,
    Scope,
    SystemCost,
)
from distributary.plan.goal.text import goal_text
from distributary.plan.trees.cost import node_costs, system_cost, violations
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.metrics import BUILT_IN, Metric, Reads
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree

LATENCY = BUILT_IN["link latency"]
BANDWIDTH = BUILT_IN["link bandwidth"]
PATH_LATENCY = GoalAggregate(GoalFunction.SUM, LATENCY, Scope.PATH)
PATH_BANDWIDTH = GoalAggregate(GoalFunction.MIN, BANDWIDTH, Scope.PATH)

AVERAGE_LATENCY = """
system cost = aggregate (AVERAGE, path latency, BROKERS)
path latency= aggregate (SUM, link latency, PATH)
"""
BOTTLENECK = """
system cost = aggregate (MIN, bandwidth, BROKERS)
bandwidth = aggregate (MIN, link bandwidth, PATH)
"""
REDUNDANT = """
system cost = aggregate (SUM, superfluous data, BROKERS)
superfluous data = (extraIncoming(), PARENT)
"""
BANDWIDTH_DELAY = """
system cost = aggregate (AVERAGE, node cost, BROKERS)
node cost = path latency × bandwidth
path latency = aggregate (SUM, link latency, PATH)
bandwidth = aggregate (MIN, link bandwidth, PATH)
"""

SITES = Sites(
    latency=[[0, 10, 40, 90], [10, 0, 20, 50], [40, 20, 0, 5], [90, 50, 5, 0]],
    bandwidth=[[0, 8, 3, 2], [8, 0, 6, 4], [3, 6, 0, 9], [2, 4, 9, 0]],
    clients=[0, 2, 0, 1],
    processing=[1, 2, 3, 4],
    interest=[0b00, 0b01, 0b11, 0b10],
    rates=[100, 7],
)
CHAIN = Tree((NO_PARENT, 0, 1, 2))


@pytest.mark.parametrize(
    ("text", "cost", "direction", "value"),
    [
        (AVERAGE_LATENCY, SystemCost(GoalFunction.AVERAGE, PATH_LATENCY), "minimise", Fraction(75, 3)),
        (BOTTLENECK, SystemCost(GoalFunction.MIN, PATH_BANDWIDTH), "maximise", 6),
        (REDUNDANT, SystemCost(GoalFunction.SUM, BUILT_IN["superfluous data"]), "minimise", 7),
        (
            BANDWIDTH_DELAY,
            SystemCost(GoalFunction.AVERAGE, Combination("*", PATH_LATENCY, PATH_BANDWIDTH)),
            "minimise",
            Fraction(10 * 8 + 30 * 6 + 35 * 6, 3),
        ),
    ],
)
def test_the_examples_of_section_4_2(text: str, cost: SystemCost, direction: str, value: Fraction) -> None:
    goal = parse_goal(text)
    assert goal == Goal(cost, Direction(direction))
    assert system_cost(goal.cost, SITES, CHAIN) == value
    assert parse_goal(goal_text(goal)) == goal


def test_constraints_in_both_forms_and_with_every_operator() -> None:
    text = """
    maximise aggregate(MIN, bandwidth, BROKERS|CLIENTS)   # the slowest of all
    bandwidth = aggregate(MIN, link bandwidth, PATH)
    subject to fanout <= 6; constraint (path latency, <, 300)
    path latency = aggregate(SUM, link latency + cpu,
                             PATH)
    constraint(aggregate(MAX, path latency, CLIENTS), ≤, 2.5e2)
    subject to cpu > -1
    subject to bandwidth ≥ 1
    subject to fanout ≠ 3
    """
    goal = parse_goal(text)
    assert goal.cost.members is GoalMembers.BOTH
    assert [constraint.comparison for constraint in goal.constraints] == ["<=", "<", "<=", ">", ">=", "!="]
    assert [constraint.threshold for constraint in goal.constraints] == [6, 300, 250.0, -1, 1, 3]
    assert isinstance(goal.constraints[2].metric, SystemCost)
    assert parse_goal(goal_text(goal)) == goal


def test_a_function_of_the_user_is_a_metric() -> None:
    hops = Metric("toll", Place.LINK, Reads.PARENT, lambda sites, tree, site: site * 2)
    goal = parse_goal("minimise aggregate(SUM, aggregate(MAX, toll, PATH), BROKERS)", {"toll": hops})
    assert system_cost(goal.cost, SITES, CHAIN) == 2 + 4 + 6


def test_clients_count_with_their_brokers_cost() -> None:
    goal = parse_goal("minimise aggregate(SUM, aggregate(SUM, link latency, PATH), CLIENTS)")
    assert system_cost(goal.cost, SITES, CHAIN) == 2 * 10 + 35


def test_children_are_aggregated_on_the_links_to_them() -> None:
    goal = parse_goal("minimise aggregate(AVERAGE, aggregate(SUM, incoming rate, CHILDREN), BROKERS)")
    assert node_costs(goal.cost.value, SITES, CHAIN) == [107, 107, 7, 0]


def test_every_system_function() -> None:
    values = {"MIN": 10, "MAX": 35, "SUM": 75, "AVERAGE": 25, "PRODUCT": 10500, "VARIANCE": 175}
    for name, value in values.items():
        goal = parse_goal(f"minimise aggregate({name}, aggregate(SUM, link latency, PATH), BROKERS)")
        assert system_cost(goal.cost, SITES, CHAIN) == value
    goal = parse_goal("minimise aggregate(STD, aggregate(SUM, link latency, PATH), BROKERS)")
    assert system_cost(goal.cost, SITES, CHAIN) == pytest.approx(175**0.5)


def test_violations_name_the_constraint_the_site_and_the_value() -> None:
    goal = parse_goal(AVERAGE_LATENCY + "\nsubject to path latency <= 30")
    assert violations(goal, SITES, CHAIN) == ["aggregate(SUM, link latency, PATH) <= 30: at 3 it is 35"]


@pytest.mark.parametrize(
    ("text", "reason", "position"),
    [
        ("minimise aggregate(AVERAGE latency, BROKERS)", "expected `,`", 27),
        ("minimise aggregate(MEAN, fanout, BROKERS)", "expected one of MIN MAX SUM", 19),
        ("minimise aggregate(SUM, fanout, TREES)", "expected PATH, CHILDREN, BROKERS or CLIENTS", 32),
        ("minimise aggregate(SUM, link latncy, BROKERS)", "did you mean 'link latency'?", 24),
        ("minimise aggregate(SUM, fanout, PATH)", "expected aggregate(FUNCTION, node cost, BROKERS)", 9),
        ("minimise aggregate(SUM, aggregate(STD, cpu, PATH), BROKERS)", "take MIN, MAX, SUM or AVERAGE", 34),
        ("a = b; b = a; minimise aggregate(SUM, a, BROKERS)", "is defined by itself", 11),
        ("a = cpu; a = fanout; minimise aggregate(SUM, a, BROKERS)", "defined twice", 9),
        ("subject to fanout <= 6", "no goal", 0),
        ("minimise aggregate(SUM, cpu, BROKERS) now", "expected the end of the statement", 38),
        ("minimise aggregate(SUM, cpu, BROKERS); subject to fanout = 6", "expected one of <", 57),
        ("minimise aggregate(SUM, cpu, BROKERS); subject to fanout <= six", "expected a number", 60),
        ("minimise aggregate(SUM, (cpu, LINK), BROKERS)", "measured on a NODE", 30),
        ("minimise aggregate(SUM, cpu, BROKERS", "expected `)`", 36),
        ("minimise ?", "unexpected character '?'", 9),
        ("cpu", "expected `minimise ...`", 0),
        (
            "minimise aggregate(SUM, aggregate(SUM, aggregate(SUM, cpu, PATH), PATH), BROKERS)",
            "not another aggregate",
            39,
        ),
    ],
)
def test_errors_tell_what_was_expected_and_where(text: str, reason: str, position: int) -> None:
    with pytest.raises(InputError) as caught:
        parse_goal(text)
    assert reason in str(caught.value)
    assert caught.value.position == position


def test_objects_refuse_what_the_language_refuses() -> None:
    with pytest.raises(DistributaryError, match="take MIN, MAX, SUM or AVERAGE"):
        GoalAggregate(GoalFunction.VARIANCE, LATENCY, Scope.PATH)
    with pytest.raises(DistributaryError, match="not another aggregate"):
        GoalAggregate(GoalFunction.SUM, PATH_LATENCY, Scope.PATH)
    with pytest.raises(DistributaryError, match="no comparison"):
        Constraint(PATH_LATENCY, "=", 3)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("minimise aggregate(SUM, link bandwidth, BROKERS)", "bandwidth"),
        ("minimise aggregate(SUM, incoming rate, BROKERS)", "interest"),
        ("minimise aggregate(SUM, cpu, BROKERS)", "processing"),
        ("minimise aggregate(SUM, fanout, CLIENTS)", "clients"),
    ],
)
def test_a_goal_that_needs_what_was_not_given_says_so(text: str, missing: str) -> None:
    with pytest.raises(DistributaryError, match=missing):
        system_cost(parse_goal(text).cost, Sites(latency=SITES.latency), CHAIN)


def test_what_is_no_tree_is_refused() -> None:
    for parents, reason in [((0, 0), "one root"), ((-1, 2, 1), "cannot be reached"), ((-1, 7), "no site 7")]:
        with pytest.raises(DistributaryError, match=reason):
            Tree(parents)

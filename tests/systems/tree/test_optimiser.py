"""The tree that optimises itself: as well as the planner that knows everything, and no event the worse."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from distributary.errors import DistributaryError
from distributary.overlay.tree.topology import unsettled
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.cost import system_cost, violations
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.optimiser import HYBRID, climb
from distributary.plan.trees.rules import DIRECTED, FIVE_LEVELS, FOUR_LEVELS, LOCAL, TreeRule
from distributary.plan.trees.starts import best_effort
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree, random_tree
from distributary.systems.tree.cost_model import CostModel
from distributary.systems.tree.messages import OPTIMISATION, STATISTICS, UPKEEP
from distributary.systems.tree.settings import OptimisationSettings
from systems.tree.worlds import LiveWorld, World, random_sites

GOALS = {
    "total latency": "minimise aggregate(SUM, aggregate(SUM, link latency, PATH), BROKERS)",
    "average latency": "minimise aggregate(AVERAGE, aggregate(SUM, link latency, PATH), BROKERS|CLIENTS)",
    "maximum latency": "minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)",
    "bandwidth bottleneck": "maximise aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS)",
    "average bandwidth": "maximise aggregate(AVERAGE, aggregate(MIN, link bandwidth, PATH), BROKERS)",
    "variance of latency": "minimise aggregate(VARIANCE, aggregate(SUM, link latency, PATH), BROKERS)",
    "variance of bandwidth": "minimise aggregate(VARIANCE, aggregate(MIN, link bandwidth, PATH), BROKERS)",
    "superfluous data": "minimise aggregate(SUM, superfluous data, BROKERS)",
    "latency and processing": "minimise aggregate(SUM, aggregate(SUM, link latency + cpu, PATH), BROKERS)",
    "bandwidth-delay product": """minimise aggregate(AVERAGE,
        aggregate(SUM, link latency, PATH) * aggregate(MIN, link bandwidth, PATH), BROKERS)""",
    "outgoing data": "minimise aggregate(SUM, aggregate(SUM, incoming rate, CHILDREN), BROKERS)",
}


def planned_and_live(
    name: str, rules: tuple[TreeRule, ...], seed: int, nodes: int = 9, constraint: str = "", **more: Any
) -> tuple[TreeClimb, LiveWorld, Tree]:
    random = Random(seed)
    goal = parse_goal(GOALS[name] + constraint)
    sites = random_sites(nodes, random)
    start = random_tree(nodes, random, fanout=3 if constraint else None)
    world = LiveWorld(goal, sites, start, rules=rules, **more)
    # Where rates are measured, more traffic would change them.
    reached = world.converge(traffic=not CostModel(goal).needs_streams)
    return climb(Problem(goal, sites), start, rules), world, reached


def assert_same(planned: TreeClimb, world: LiveWorld, reached: Tree, name: str) -> None:
    cost = parse_goal(GOALS[name]).cost
    assert float(system_cost(cost, world.sites, reached)) == pytest.approx(float(planned.cost))
    assert reached == planned.tree
    assert world.optimisers()[0].executor.done == len(planned.rewrites)
    assert world.got() == world.expected
    assert unsettled(world.trees()) == []


LOCAL_RULES, ALL_RULES = tuple(LOCAL), tuple(HYBRID)


USUAL = ["total latency", "maximum latency", "bandwidth bottleneck", "superfluous data"]


@pytest.mark.parametrize("name", [*USUAL, "variance of latency", "latency and processing"])
def test_local_rules_bring_it_where_they_bring_the_planner(name: str) -> None:
    assert_same(*planned_and_live(name, LOCAL_RULES, seed=2), name)


@pytest.mark.parametrize("name", USUAL)
def test_with_directed_rules_too_it_makes_the_same_rewrites_as_the_planner(name: str) -> None:
    assert_same(*planned_and_live(name, ALL_RULES, seed=1), name)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    "rules", [LOCAL_RULES, ALL_RULES, tuple(DIRECTED), (*LOCAL, *FOUR_LEVELS, *FIVE_LEVELS)]
)
@pytest.mark.parametrize("name", GOALS)
def test_every_rewrite_is_worth_as_much_as_the_best_the_planner_finds(
    name: str, rules: tuple[TreeRule, ...], seed: int
) -> None:
    """Which of several that are worth the same is taken may hang on rounding; nothing else may.

    A period is long enough for news to go down the longest path and from there to everybody.
    """
    _, world, reached = planned_and_live(name, rules, seed=100 + seed, nodes=11, period=60.0)
    problem = Problem(parse_goal(GOALS[name]), world.sites)
    shapes = [shape for shape, after in pairwise([*world.shapes, None]) if shape != after]
    for before, after in pairwise(shapes):
        sign, now = problem.goal.sign, float(problem.at(before).cost)
        best = sign * (now - float(climb(problem, before, rules, periods=1).cost))
        worth = sign * (now - float(problem.at(after).cost))
        # Of costs that aggregate over children brokers know too little to leave anybody out: they find more.
        assert worth == pytest.approx(best, rel=1e-6) or (worth > best and name == "outgoing data")
    assert shapes[-1] == reached
    assert not climb(problem, reached, rules).steps
    assert world.got() == world.expected
    assert unsettled(world.trees()) == []


# Constraints, and choosing a parent


def test_constraints_hold_at_every_period_and_the_planner_does_no_better() -> None:
    name, constraint = "total latency", "\nsubject to fanout <= 3"
    planned, world, reached = planned_and_live(name, LOCAL_RULES, seed=7, constraint=constraint, fanout=3)
    assert_same(planned, world, reached, name)
    assert violations(parse_goal(GOALS[name] + constraint), world.sites, reached) == []
    assert planned.rewrites


@pytest.mark.parametrize("name", ["total latency", "bandwidth bottleneck"])
def test_who_comes_later_takes_the_parent_that_gives_it_the_best_cost_of_its_own(name: str) -> None:
    """One after the other, as the planner does when it lets sites join in that order."""
    random = Random(3)
    goal = parse_goal(GOALS[name] + "\nsubject to fanout <= 2")
    sites = random_sites(8, random)
    more = {"period": 1000.0, "best_effort": True}
    world = LiveWorld(goal, part(sites, 1), Tree((NO_PARENT,)), fanout=2, everywhere=sites, **more)
    for site in range(1, 8):
        world.deployment.add(site + 1)
        world.run(10)
    assert world.shape() == best_effort(Problem(goal, sites), InOrder(), root=0)
    assert unsettled(world.trees()) == []


class InOrder(Random):
    """Lets sites join in their order."""

    def shuffle(self, x: Any) -> None:
        pass


def part(sites: Sites, count: int) -> Sites:
    rows = [row[:count] for row in sites.latency[:count]]
    return Sites(latency=rows, interest=sites.interest[:count], rates=sites.rates)


def test_who_loses_its_parent_takes_the_best_that_is_left() -> None:
    latency = [[0.0, 10, 90, 30], [10, 0, 20, 90], [90, 20, 0, 25], [30, 90, 25, 0]]
    sites = Sites(latency=latency, bandwidth=latency, interest=[0] * 4, rates=[0] * 8, processing=[0.0] * 4)
    world = LiveWorld(
        parse_goal(GOALS["total latency"]),
        sites,
        Tree((NO_PARENT, 0, 1, 0)),
        period=1000.0,
        best_effort=True,
        robust=True,
        heartbeat=1.0,
    )
    world.run(10)
    world.deployment.crash(2)
    world.run(20)
    assert world.broker(3).tree.parent == 4, "by way of 4 it is 55 ms to the root, directly 90"


# Several rewrites at once


def test_rewrites_that_touch_different_nodes_are_carried_out_together() -> None:
    """It ends where no rewrite helps."""
    goal = parse_goal(GOALS["total latency"])
    random = Random(5)
    sites = random_sites(16, random)
    start = random_tree(16, random)
    world = LiveWorld(goal, sites, start, rules=LOCAL_RULES, concurrent=True)
    reached = world.converge()
    problem = Problem(goal, sites)
    assert not climb(problem, reached, LOCAL).rewrites
    periods = world.simulator.now // 25 - 2
    assert world.optimisers()[0].executor.done > periods, "in some there were several"
    assert world.got() == world.expected


# Statistics


def kinds(world: World, *groups: tuple[type, ...]) -> list[int]:
    """Bytes sent of these kinds."""
    traffic = world.deployment.metrics.by_kind()
    return [
        sum(traffic[kind.__name__].bytes for kind in group if kind.__name__ in traffic) for group in groups
    ]


@pytest.mark.parametrize("apart", [0.0, 1000.0])
def test_only_those_that_matter_hear_of_others_and_only_of_better_ones(apart: float) -> None:
    """Whether clocks agree or are that many seconds apart from node to node."""
    goal = parse_goal(GOALS["maximum latency"])
    random = Random(2)
    sites, start = random_sites(10, random), random_tree(10, random)
    world = LiveWorld(goal, sites, start, period=1000.0)
    for number, address in enumerate(world.deployment.members):
        world.simulator.set_clock(address, forward=number * apart)
    world.run(90)  # until what was heard while nobody knew the maximum is forgotten
    costs = {each.tree.address: each.statistics.values for each in world.optimisers()}
    worst = max(costs, key=lambda node: [value or 0.0 for value in costs[node] or ()])
    for optimiser in world.optimisers():
        heard = set(optimiser.broadcast.better())
        if optimiser.tree.address == worst:
            assert heard == costs.keys() - {worst}
        elif not optimiser.tree.children and optimiser.tree.address != worst:
            assert heard == set(), "a leaf that does not matter passes nothing on either"


def test_upkeep_statistics_and_optimisation_are_told_apart_by_kind() -> None:
    random = Random(2)
    sites, start = random_sites(10, random), random_tree(10, random)
    traffic = {}
    for name in ("total latency", "bandwidth bottleneck", "superfluous data"):
        world = LiveWorld(parse_goal(GOALS[name]), sites, start, rules=LOCAL_RULES)
        world.deployment.metrics.sizes = True
        world.run(100)
        traffic[name] = kinds(world, UPKEEP, STATISTICS, OPTIMISATION)
    assert all(optimisation > 0 for _, _, optimisation in traffic.values())
    assert all(statistics == 0 for _, statistics, _ in traffic.values()), "local rules need none"
    assert traffic["superfluous data"][0] < traffic["total latency"][0] / 5
    assert traffic["bandwidth bottleneck"][2] < traffic["total latency"][2]


def test_approximation_saves_most_of_the_broadcasts() -> None:
    goal = parse_goal(GOALS["variance of latency"])
    random = Random(4)
    sites, start = random_sites(10, random), random_tree(10, random)
    sent, costs = [], []
    for approximate in (None, 1.0):
        world = LiveWorld(goal, sites, start, rules=LOCAL_RULES, approximate=approximate)
        world.deployment.metrics.sizes = True
        world.run(120)
        sent += kinds(world, STATISTICS)
        costs.append(float(system_cost(goal.cost, sites, world.shape())))
        assert world.got() == world.expected
    assert sent[1] < 0.6 * sent[0]
    assert max(costs) < float(system_cost(goal.cost, sites, start))


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("aggregate(SUM, fanout, BROKERS) <= 3", "only where each node can"),
        ("aggregate(MAX, fanout, BROKERS) >= 3", "only where each node can"),
        ("aggregate(MAX, fanout, CLIENTS) <= 3", "only where each node can"),
        ("aggregate(SUM, link bandwidth, CHILDREN) <= 3", "only where each child can"),
        ("aggregate(MAX, cpu, CHILDREN) <= 3", "only where each child can"),
    ],
)
def test_goals_that_no_broker_could_follow_are_refused(limit: str, why: str) -> None:
    with pytest.raises(DistributaryError, match=why):
        CostModel(parse_goal(f"{GOALS['total latency']}\nsubject to {limit}"))


def test_periods_must_leave_time_for_statistics() -> None:
    with pytest.raises(DistributaryError, match="longer than a maintenance period"):
        OptimisationSettings(parse_goal(GOALS["total latency"]), statistics=5, period=4, window=1)
    with pytest.raises(DistributaryError, match="at least 1"):
        OptimisationSettings(parse_goal(GOALS["total latency"]), approximate=0.5)

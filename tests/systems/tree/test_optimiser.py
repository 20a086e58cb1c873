"""The tree that optimises itself: as well as the planner that knows everything, and no event the worse."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from distributary.errors import DistributaryError
from distributary.model import Event, Subscription
from distributary.overlay.tree.topology import unsettled
from distributary.plan.goal.expression import Goal
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.cost import system_cost, violations
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.optimiser import HYBRID, climb
from distributary.plan.trees.rules import DIRECTED, FIVE_LEVELS, FOUR_LEVELS, LOCAL, TreeRule
from distributary.plan.trees.starts import best_effort
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree, random_tree
from distributary.sim.latency import MatrixLatency
from distributary.systems.tree.cost_model import CostModel
from distributary.systems.tree.messages import OPTIMISATION, STATISTICS, UPKEEP
from distributary.systems.tree.settings import Gauges, OptimisationSettings
from systems.tree.worlds import World

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
TOPICS = "ABCDEFGH"


def random_sites(nodes: int, random: Random) -> Sites:
    """Sites whose measurements come out in the simulation to the last digit, and are added without rounding.

    So of rewrites that are worth the same, all take the same.
    """

    def matrix(low: int, high: int) -> list[list[float]]:
        rows = [[0.0] * nodes for _ in range(nodes)]
        for one in range(nodes):
            for other in range(one):
                rows[one][other] = rows[other][one] = float(random.randint(low, high))
        return rows

    latency, bandwidth = matrix(5, 200), matrix(1, 100)
    interest = [random.randrange(1, 1 << len(TOPICS)) & random.randrange(1 << 8) for _ in range(nodes)]
    return Sites(
        latency=latency,
        bandwidth=bandwidth,
        clients=[each.bit_count() for each in interest],
        processing=[random.randint(1, 30) for _ in range(nodes)],
        interest=interest,
        rates=[random.randint(1, 5) for _ in TOPICS],
    )


class LiveWorld(World):
    """A live tree over sites: node 1 stands at site 0, and so on. Clients ask for topics."""

    def __init__(
        self,
        goal: Goal,
        sites: Sites,
        start: Tree,
        *,
        rules: Any = HYBRID,
        fanout: int | None = None,
        everywhere: Sites | None = None,
        robust: bool = False,
        heartbeat: float | None = None,
        **more: Any,
    ) -> None:
        self.sites = sites
        everywhere = everywhere or sites
        count = everywhere.count
        gauges = Gauges(
            bandwidth=lambda parent, child: float(everywhere.bandwidth[parent - 1][child - 1]),
            processing=lambda node: float(everywhere.processing[node - 1]),
            window=None,
        )
        given = {"statistics": 1.0, "period": 25.0, "window": 6.0, "most_heard": None, **more}
        self.period = float(given["period"])
        names = [str(site) for site in range(count)]
        places = {site + 1: name for site, name in enumerate(names)}
        super().__init__(
            sites.count,
            1,
            network=MatrixLatency(names, everywhere.latency, seed=1, places=places),  # type: ignore[arg-type]
            parents={site + 1: start.parents[site] + 1 for site in start.order[1:]},
            optimising=OptimisationSettings(goal, rules=rules, gauges=gauges, **given),
            fanout=fanout,
            heartbeat=heartbeat,
            robust=robust,
            watch=False,
        )
        for site, interest in enumerate(sites.interest):
            for number, topic in enumerate(TOPICS):
                if interest >> number & 1:
                    name = f"s{site}{topic}"
                    self.deployment.subscribe(Subscription(name, name, topic=topic), at=site + 1)
        self.run(3)
        for topic, rate in zip(TOPICS, sites.rates, strict=True):
            for number in range(int(rate)):
                self.publish(Event(f"{topic}{number}", topic))

    def converge(self, *, traffic: bool = True) -> Tree:
        """Run until two periods have passed in which nobody had anything to name."""
        root = self.optimisers()[0]
        self.shapes = [self.shape()]
        for period in range(300):
            for number in range(5):
                if traffic:
                    self.publish(Event(f"{period}.{number}", self.random.choice(TOPICS)))
                self.run(self.period / 5)
            self.shapes.append(self.shape())
            if root.quiet >= 2:
                return self.shape()
        raise AssertionError("it goes on and on")

    def shape(self) -> Tree:
        return Tree(tuple(NO_PARENT if tree.is_root else (tree.parent or 0) - 1 for tree in self.trees()))


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


def test_only_those_that_matter_hear_of_others_and_only_of_better_ones() -> None:
    goal = parse_goal(GOALS["maximum latency"])
    random = Random(2)
    sites, start = random_sites(10, random), random_tree(10, random)
    world = LiveWorld(goal, sites, start, period=1000.0)
    world.run(90)  # until what was heard while nobody knew the maximum is forgotten
    costs = {each.tree.address: each.statistics.values for each in world.optimisers()}
    worst = max(costs, key=lambda node: costs[node] or ())
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
    ("text", "why"),
    [
        ("minimise aggregate(MAX, fanout, BROKERS)", "sums or averages"),
        (
            "minimise aggregate(SUM, aggregate(AVERAGE, link latency, PATH), BROKERS)",
            "no averages over the path",
        ),
        (GOALS["total latency"] + "\nsubject to aggregate(MAX, fanout, BROKERS) <= 3", "only on nodes"),
    ],
)
def test_goals_that_no_broker_could_follow_are_refused(text: str, why: str) -> None:
    with pytest.raises(DistributaryError, match=why):
        CostModel(parse_goal(text))


def test_periods_must_leave_time_for_statistics() -> None:
    with pytest.raises(DistributaryError, match="longer than a maintenance period"):
        OptimisationSettings(parse_goal(GOALS["total latency"]), statistics=5, period=4, window=1)
    with pytest.raises(DistributaryError, match="at least 1"):
        OptimisationSettings(parse_goal(GOALS["total latency"]), approximate=0.5)

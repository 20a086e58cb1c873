"""Constraints hold for who joins: it takes only a place that keeps them, and waits while there is none."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from distributary.overlay.tree.topology import loops, unsettled
from distributary.plan.goal.expression import Goal, SystemCost
from distributary.plan.trees.cost import node_costs, system_cost
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree
from systems.tree.test_goals import OWN, priced_sites
from systems.tree.worlds import LiveWorld

LATENCY = "minimise aggregate(SUM, aggregate(SUM, link latency, PATH), BROKERS)"
LIMITS = (
    "aggregate(SUM, link latency, PATH) <= 150",
    "aggregate(SUM, link latency + cpu, PATH) <= 220",
    "aggregate(MIN, link bandwidth, PATH) >= 30",
    "cpu <= 70",
    "fanout <= 2",
    "toll <= 30",
    "aggregate(SUM, toll, PATH) + rent <= 60",
    "aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS) <= 150",
    "aggregate(MAX, link latency + toll, CHILDREN) <= 90",
)


class GrowingWorld(LiveWorld):
    """A tree over the first of some sites, which the others join."""

    def __init__(self, goal: Goal, sites: Sites, start: Tree, **more: Any) -> None:
        count = len(start.parents)
        given = {"period": 1000.0, "tree": {"retry": 5.0}, **more}
        first = Sites([row[:count] for row in sites.latency[:count]], interest=[0] * count, rates=[0] * 8)
        super().__init__(goal, first, start, everywhere=sites, **given)
        self.goal = goal
        self.everywhere = sites

    def join(self, site: int) -> None:
        self.deployment.add(site + 1)

    def waiting(self) -> set[int]:
        return {tree.address - 1 for tree in self.trees(up=True) if tree.waiting}

    def placed(self) -> dict[int, int]:
        """The parents of those that are in the tree."""
        attached = [tree for tree in self.trees(up=True) if tree.is_root or tree.link.attached]
        return {tree.address - 1: NO_PARENT if tree.is_root else (tree.parent or 0) - 1 for tree in attached}

    def broken(self) -> list[str]:
        """Which constraints those that are in the tree do not keep."""
        placed = self.placed()
        numbers = {site: number for number, site in enumerate(placed)}
        tree = Tree(tuple(numbers.get(parent, NO_PARENT) for parent in placed.values()))
        sites, order = self.everywhere, list(placed)
        known = Sites(
            [[sites.latency[one][other] for other in order] for one in order],
            [[sites.bandwidth[one][other] for other in order] for one in order],
            processing=[sites.processing[one] for one in order],
            clients=[0] * len(order),
            link_metrics={"toll": [[sites.link_metrics["toll"][a][b] for b in order] for a in order]},
            site_metrics={"rent": [sites.site_metrics["rent"][one] for one in order]},
        )
        found = []
        for each in self.goal.constraints:
            if isinstance(each.metric, SystemCost):
                costs = [system_cost(each.metric, known, tree)] if len(order) > 1 else []
            else:
                costs = node_costs(each.metric, known, tree)
            found += [
                f"{order[number]}: {value}"
                for number, value in enumerate(costs)
                if value is not None and not each.holds(value)
            ]
        return found


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("best_effort", [False, True])
@pytest.mark.parametrize("limit", LIMITS)
def test_who_joins_keeps_the_constraints_or_waits(limit: str, best_effort: bool, at_once: bool) -> None:
    random = Random(3)
    goal = parse_goal(f"{LATENCY}\nsubject to {limit}", OWN)
    world = GrowingWorld(goal, priced_sites(10, random), Tree((NO_PARENT,)), best_effort=best_effort)
    for site in range(1, 10):
        world.join(site)
        world.run(0.0 if at_once else 12.0)
    world.run(60)
    assert world.broken() == []
    assert world.placed().keys() | world.waiting() == set(range(10))
    assert len(world.placed()) > 3, "the limit leaves room for some"


def two_ways(far: float = 200.0) -> Sites:
    """Three sites: the last is far from the first, and near the second."""
    latency = [[0.0, 20.0, far], [20.0, 0.0, 20.0], [far, 20.0, 0.0]]
    zeros = [[0.0] * 3 for _ in range(3)]
    return Sites(
        latency,
        zeros,
        processing=[1.0] * 3,
        link_metrics={"toll": zeros},
        site_metrics={"rent": [0.0] * 3},
    )


@pytest.mark.parametrize("best_effort", [False, True])
def test_who_finds_no_place_is_told_and_joins_when_there_is_one(best_effort: bool) -> None:
    goal = parse_goal(f"{LATENCY}\nsubject to aggregate(SUM, link latency, PATH) <= 100")
    world = GrowingWorld(goal, two_ways(), Tree((NO_PARENT,)), best_effort=best_effort)
    world.join(2)
    world.run(30)
    newcomer = world.broker(3).tree
    assert newcomer.parent is None
    assert "no parent under which the constraints are kept" in newcomer.waiting
    world.join(1)
    world.run(30)
    assert (newcomer.parent, newcomer.waiting) == (2, "")
    assert unsettled(world.trees()) == []


def one_at_most(sites: Sites, start: Tree, **more: Any) -> GrowingWorld:
    """A tree whose nodes have one child at most, and where who waits asks again after hours."""
    limits = "subject to aggregate(SUM, link latency, PATH) <= 100\nsubject to fanout <= 1"
    goal = parse_goal(f"{LATENCY}\n{limits}")
    return GrowingWorld(goal, sites, start, tree={"retry": 10_000.0}, **more)


def test_who_waits_asks_again_when_the_tree_has_a_new_member() -> None:
    world = one_at_most(two_ways(), Tree((NO_PARENT,)))
    world.join(2)
    world.run(30)
    newcomer = world.broker(3).tree
    assert newcomer.waiting
    world.join(1)
    world.run(30)
    assert (newcomer.parent, newcomer.waiting) == (2, "")


@pytest.mark.parametrize("how", ["leave", "crash"])
def test_who_waits_asks_again_when_another_has_gone(how: str) -> None:
    """Sites 1 and 2 are near the root and far from each other, and the root takes one of them."""
    far, near = 200.0, 20.0
    latency = [[0.0, near, near], [near, 0.0, far], [near, far, 0.0]]
    world = one_at_most(replace(two_ways(), latency=latency), Tree((NO_PARENT,)), robust=True, heartbeat=1.0)
    world.join(1)
    world.run(20)
    world.join(2)
    world.run(20)
    newcomer = world.broker(3).tree
    assert newcomer.waiting
    told = world.deployment.metrics.by_kind().get("RoomNotice")
    getattr(world.deployment, how)(2)
    world.run(60)
    assert (newcomer.parent, newcomer.waiting) == (1, "")
    after = world.deployment.metrics.by_kind()["RoomNotice"]
    assert after.messages - (told.messages if told else 0) == 1, "who has a place is told no more"


def test_who_is_offered_nothing_that_fits_asks_for_others_at_once() -> None:
    """All but one of the nodes are far away, and they are offered one by one."""
    latency = [[0.0 if one == other else 20.0 for other in range(8)] for one in range(8)]
    for one in range(8):
        latency[one][7] = latency[7][one] = 0.0 if one == 7 else 20.0 if one == 3 else 200.0
    zeros = [[0.0] * 8] * 8
    sites = Sites(latency, zeros, link_metrics={"toll": zeros}, site_metrics={"rent": [0.0] * 8})
    goal = parse_goal(f"{LATENCY}\nsubject to aggregate(SUM, link latency, PATH) <= 100")
    start = Tree((NO_PARENT, *[0] * 6))
    world = GrowingWorld(goal, sites, start, tree={"retry": 1000.0, "offers": 1})
    world.run(10)
    for tree in world.trees()[1:]:  # so that the root knows of them
        world.simulator.call(tree.address, lambda tree=tree: tree.change_parent(None), ("change", "any"))
    world.run(10)
    world.join(7)
    world.run(20)
    assert world.broker(8).tree.parent == 4


def test_a_child_whose_parent_leaves_waits_rather_than_break_its_limit() -> None:
    goal = parse_goal(f"{LATENCY}\nsubject to aggregate(SUM, link latency, PATH) <= 100")
    world = GrowingWorld(goal, two_ways(), Tree((NO_PARENT, 0, 1)), robust=True, heartbeat=1.0)
    world.run(10)
    world.deployment.leave(2)
    world.run(60)
    orphan = world.broker(3).tree
    assert 2 not in world.deployment.members, "the parent does not wait for it"
    assert orphan.waiting
    assert not orphan.link.attached


def test_who_waits_sends_its_children_away() -> None:
    """When the second fails, the third has no place but below the fourth, its child, which has another."""
    far, near = 200.0, 20.0
    latency = [[0.0, near, far, near], [near, 0.0, near, far], [far, near, 0.0, near], [near, far, near, 0.0]]
    zeros = [[0.0] * 4] * 4
    own = {"link_metrics": {"toll": zeros}, "site_metrics": {"rent": [0.0] * 4}}
    sites = Sites(latency, zeros, processing=[0.0] * 4, **own)  # type: ignore[arg-type]
    goal = parse_goal(f"{LATENCY}\nsubject to aggregate(SUM, link latency, PATH) <= 70")
    world = GrowingWorld(goal, sites, Tree((NO_PARENT, 0, 1, 2)), robust=True, heartbeat=1.0)
    world.run(10)
    world.deployment.crash(2)
    world.run(60)
    assert world.placed() == {0: NO_PARENT, 2: 3, 3: 0}
    assert world.broken() == []


@pytest.mark.parametrize("seed", [0, 3, 7, 9])
@pytest.mark.parametrize("best_effort", [False, True])
def test_constraints_are_kept_while_nodes_come_and_go(seed: int, best_effort: bool) -> None:
    random = Random(seed)
    goal = parse_goal(
        f"{LATENCY}\nsubject to aggregate(SUM, link latency, PATH) <= 250\nsubject to cpu <= 80", OWN
    )
    more = {"best_effort": best_effort, "period": 30.0, "robust": True, "heartbeat": 1.0}
    world = GrowingWorld(goal, priced_sites(24, random), Tree((NO_PARENT,)), **more)
    for site in range(1, 24):
        world.join(site)
        world.run(random.choice([0.0, 3.0, 10.0]))
        there = [one for one in world.deployment.up() if one != 1]
        if random.random() < 0.4 and len(there) > 4:
            leaver = random.choice(there)
            (world.deployment.leave if random.random() < 0.5 else world.deployment.crash)(leaver)
    world.run(240)
    assert loops(world.trees(up=True)) == []
    assert world.broken() == []
    assert world.placed().keys() | world.waiting() == {address - 1 for address in world.deployment.up()}
    assert len(world.placed()) > 8


def test_who_breaks_a_limit_by_what_has_changed_above_it_finds_another_parent() -> None:
    """The optimiser has no reason to change anything: all trees have as many links."""
    text = "minimise aggregate(SUM, fanout, BROKERS)\nsubject to aggregate(SUM, toll, PATH) <= 60"
    goal = parse_goal(text, OWN)
    tolls = [[0.0, 10.0, 40.0], [10.0, 0.0, 10.0], [40.0, 10.0, 0.0]]
    sites = replace(two_ways(), link_metrics={"toll": tolls})
    world = GrowingWorld(goal, sites, Tree((NO_PARENT, 0, 1)), period=30.0)
    world.run(20)
    assert world.placed() == {0: NO_PARENT, 1: 0, 2: 1}
    tolls[0][1] = 70.0
    world.run(200)
    assert world.placed() == {0: NO_PARENT, 1: 2, 2: 0}
    assert world.broken() == []

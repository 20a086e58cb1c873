"""The planner's problem as a live network tells it: what runs, what it reads, and what that comes to."""

from __future__ import annotations

import pytest

from distributary.flow import Catalogue, Item, QueryBuilder, Source
from distributary.plan.query.goal_text import parse_query_goal
from distributary.plan.query.graph import WHOLE, Part
from distributary.plan.query.placement import Placement
from distributary.plan.tree import Sites
from distributary.systems.flow_optimising import Optimising
from distributary.systems.flow_situation import situation_of
from systems.flow_worlds import REGISTRY, World

TRAFFIC = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
TRADES = Source(
    "trades", {"symbol": "text", "size": "integer", "at": "integer"}, time="at", topic="trades", lateness=0
)
SECONDS = 30


def observed(catalogue: Catalogue, at: dict[str, int]) -> World:
    """A network that measures and, as no change brings ten times the cost, changes nothing by itself."""
    world = World(5, 1, optimising=Optimising(TRAFFIC, period=5.0, window=1.0, margin=10.0))
    world.register(catalogue, at)
    return world


def feed(world: World, seconds: int = SECONDS) -> dict[str, list[Item]]:
    """Four trades a second; of ten, sizes are 0 to 9."""
    items = []
    for moment in range(4 * seconds):
        attributes = {"symbol": "ab"[moment % 2], "size": moment % 10, "at": moment * 250}
        items.append(Item(f"t{moment}", moment * 250, attributes))
        world.feed("trades", items[-1])
        world.run(0.25)
    return {"trades": items}


def placement_of(world: World) -> Placement:
    """The planner's problem, with a second between any two sites."""
    broker = world.broker(REGISTRY)
    assert broker.registry is not None
    assert broker.optimiser is not None
    situation = situation_of(broker.registry, 0, broker.optimiser._measurements)
    assert situation is not None
    count = range(len(situation.sites))
    return situation.placement(Sites([[float(one != other) for other in count] for one in count]))


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_a_division_into_any_number_of_parts_is_the_planners_too(parts: int) -> None:
    build = QueryBuilder("q")
    build.count("many", "trades", window="1 second", group_by=["symbol"])
    world = observed(Catalogue([TRADES], [build.query()]), {"trades": 1, "q": 4})
    host = world.broker(4)
    world.simulator.call(4, lambda: host.partition("q.many", parts, to=range(1, parts + 1)))
    world.run(10)
    placement = placement_of(world)
    replicas = [one for one in placement.workload.operators if one.part is Part.REPLICA]
    assert [one.name for one in replicas] == [f"q.many/{number}" for number in range(1, parts + 1)]
    assert {one.share for one in replicas} == {WHOLE // parts}
    hosts = dict(zip((one.name for one in placement.workload.operators), placement.hosts, strict=True))
    assert [hosts[one.name] for one in replicas] == list(range(parts))

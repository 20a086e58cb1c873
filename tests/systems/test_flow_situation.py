"""The planner's problem as a live network tells it: what runs, what it reads, and what that comes to."""

from __future__ import annotations

import pytest

from distributary.flow import Catalogue, Item, QueryBuilder, Source
from distributary.plan.query.benefit import Standing
from distributary.plan.query.goal_text import parse_query_goal
from distributary.plan.query.graph import WHOLE, Part
from distributary.plan.query.placement import Placement
from distributary.plan.tree import Sites
from distributary.systems.flow_optimising import Optimising
from distributary.systems.flow_situation import situation_of
from systems.flow_worlds import REGISTRY, World, expect_equal

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


def test_a_filter_is_sent_what_passes_it_and_gains_nothing_by_moving() -> None:
    build = QueryBuilder("q")
    build.filter("large", "trades", where="size > 7")
    world = observed(Catalogue([TRADES], [build.query()]), {"trades": 1, "q": 4})
    feed(world)
    placement = placement_of(world)
    workload = placement.workload
    assert workload.operators[0].selectivity == pytest.approx(0.2, rel=0.15)
    assert placement.input_rate(0) == pytest.approx(float(workload.output_rate(0)), rel=0.01)
    # Its work is an item in and an item out for each that passes: those of 4 a second whose size is 8 or 9.
    assert placement.load(0) == pytest.approx(2 * 0.2 * 4, rel=0.15)
    worth = Standing(TRAFFIC, placement).benefits(0, range(placement.network.sites.count))
    assert max(worth) <= 0.01 * Standing(TRAFFIC, placement).cost


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


def test_replicas_of_a_filter_behind_a_union_are_sent_what_passes_them() -> None:
    build = QueryBuilder("q")
    both = build.union("both", "trades", "quotes")
    build.filter("large", both, where="size > 7")
    quotes = Source("quotes", TRADES.schema.attributes, time="at", topic="quotes", lateness=0)
    catalogue = Catalogue([TRADES, quotes], [build.query()])
    world = observed(catalogue, {"trades": 1, "quotes": 2, "q": 4})
    host = world.broker(4)
    world.simulator.call(4, lambda: host.replicate("q.large", to=[4, 5]))
    world.run(10)
    fed = feed(world)
    for source in ("trades", "quotes"):
        world.end(source)
    world.run(30)
    expect_equal(world, catalogue, {**fed, "quotes": []})
    passing = len([item for item in fed["trades"] if item.attributes["size"] > 7])
    assert len(world.taken["q.large/1", 0, "trades"]) == passing > 0

"""The planner's problem as a live network tells it: what runs, what it reads, and what that comes to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from distributary.flow import Catalogue, Item, Query, QueryBuilder, Source
from distributary.plan.goal.expression import Goal
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.blocks import SUPER
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.graph import WHOLE, SplitRole
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.rules import MIGRATIONS, PARTITION
from distributary.systems.queries.settings import QueryOptimiserSettings
from distributary.systems.queries.snapshot import RateEstimates, planning_snapshot
from systems.queries.worlds import REGISTRY, World, expect_equal

TRAFFIC = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
TRADES = Source(
    "trades", {"symbol": "text", "size": "integer", "at": "integer"}, time="at", topic="trades", lateness=0
)
SECONDS = 30


def observed(catalogue: Catalogue, at: dict[str, int]) -> World:
    """A network that changes nothing by itself."""
    world = World(5, 1)
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
    """The planner's problem by what was measured so far."""
    registry = world.broker(REGISTRY).registry_link.local_registry
    assert registry is not None
    estimates = RateEstimates(memory=1.0)
    for broker in world.brokers:
        report = broker.measure()
        for counted in report.sources:
            estimates.add_source(counted)
        for counted in report.operators:
            estimates.add_operator(counted, divided=False)
    situation = planning_snapshot(registry, 0, estimates)
    assert situation is not None
    return situation.placement()


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
    worth = PlacementEstimate(TRAFFIC, placement).benefits(0, range(placement.network.sites.count))
    assert max(worth) <= 0.01 * PlacementEstimate(TRAFFIC, placement).cost


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_a_division_into_any_number_of_parts_is_the_planners_too(parts: int) -> None:
    build = QueryBuilder("q")
    build.count("many", "trades", window="1 second", group_by=["symbol"])
    world = observed(Catalogue([TRADES], [build.query()]), {"trades": 1, "q": 4})
    host = world.broker(4)
    world.simulator.call(4, lambda: host.partition("q.many", parts, to=range(1, parts + 1)))
    world.run(10)
    placement = placement_of(world)
    replicas = [one for one in placement.workload.operators if one.part is SplitRole.REPLICA]
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


# Super-operators


def grouped(name: str, unit: bool = True) -> Query:
    """Large trades and how many there are of each symbol, in one unit; and only the many."""
    build = QueryBuilder(name)
    large = build.filter("large", "trades", where="size > 7")
    many = build.count("many", large, window="1 second", group_by=["symbol"])
    build.filter("often", many, where="count >= 1")
    if unit:
        build.unit("counted", "large", "many")
    return build.query()


def test_a_super_operator_is_one_operator_with_the_name_its_last_member_runs_by() -> None:
    world = observed(Catalogue([TRADES], [grouped("q")]), {"trades": 1, "q": 4})
    feed(world)
    workload = placement_of(world).workload
    assert [one.name for one in workload.operators] == ["q.many", "q.often", "q"]
    whole = workload.operators[0]
    assert (whole.kind, whole.final, whole.inputs) == (SUPER, "", (0,))
    assert whole.wanted == pytest.approx(0.2, rel=0.15)
    world.simulator.call(4, lambda: world.broker(4).move("q.many", 2))
    world.run(10)
    placement = placement_of(world)
    assert placement.hosts[0] == 1
    assert dict(world.operators()) == {"q.large": 2, "q.many": 2, "q.often": 4}


def test_a_super_operator_that_another_query_reads_inside_stays_where_it_is() -> None:
    world = observed(Catalogue([TRADES], [grouped("q")]), {"trades": 1, "q": 4})
    reader = QueryBuilder("r")
    reader.filter("large", "trades", where="size > 7")
    world.register_queries(Catalogue([TRADES], [reader.query()]), {"r": 3})
    feed(world)
    operators = placement_of(world).workload.operators
    assert {one.name: one.pinned for one in operators} == {
        "q.large": 3,
        "q.many": 3,
        "q.often": None,
        "q": 3,
        "r": 2,
    }


WHOLE_SITUATION = parse_query_goal("minimise aggregate(SUM, incoming rate + fanout / 1000, BROKERS)")
"""A goal that is weighed with the whole situation."""


@pytest.mark.parametrize("goal", [TRAFFIC, WHOLE_SITUATION])
def test_a_network_that_optimises_itself_moves_super_operators_as_a_whole(goal: Goal) -> None:
    catalogue = Catalogue([TRADES], [grouped("q")])
    world = World(
        6, 3, optimising=QueryOptimiserSettings(goal, period=4.0, window=0.5, rules=(*MIGRATIONS, PARTITION))
    )
    asked: list[str] = []
    for broker in world.brokers:
        move = broker.reconfiguration.move

        def watched(operator: str, to: int, move: Callable[[str, int], None] = move) -> None:
            asked.append(operator)
            move(operator, to)

        broker.reconfiguration.move = watched  # type: ignore[method-assign]
    world.register(catalogue, {"trades": 1, "q": 6})
    fed = feed(world, 40)
    world.end("trades")
    world.run(30)
    expect_equal(world, catalogue, fed)
    assert "q.many" in asked
    assert "q.large" not in asked
    hosts = dict(world.operators())
    assert hosts["q.large"] == hosts["q.many"]

"""Operators cost processing time: what comes meanwhile waits, and what was measured is what they took."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from distributary.flow import Catalogue, Item, QueryBuilder, Source
from distributary.overlay.node import Address
from distributary.sim.faults import Injection
from distributary.sim.processor import SimulatedProcessor
from distributary.systems.queries.messages import OperatorSpec, TrafficCounts
from distributary.systems.queries.node_model import MeasurementReport
from distributary.systems.queries.processing import TimedProcessor
from flow.random_queries import random_catalogue, random_streams
from systems.queries.test_reconfiguration import random_faults
from systems.queries.worlds import World, expect_equal, run_through

TRADES = Source(
    "trades", {"symbol": "text", "size": "integer", "at": "integer"}, time="at", topic="trades", lateness=0
)


def chain() -> Catalogue:
    """A filter that all items pass, and a copy."""
    build = QueryBuilder("q")
    large = build.filter("all", "trades", where="size >= 0")
    build.copy("again", large, {"size": "twice"})
    return Catalogue([TRADES], [build.query()])


def slow(nodes: int, speed: float, **cycles: float) -> dict[Address, SimulatedProcessor]:
    return {node: SimulatedProcessor(speed, cycles) for node in range(1, nodes + 1)}


def feed(world: World, count: int, each: float) -> dict[str, list[Item]]:
    """So many trades, one every so many seconds."""
    items = []
    for number in range(count):
        attributes = {"symbol": "a", "size": number, "at": number * 100}
        items.append(Item(f"t{number}", number * 100, attributes))
        world.feed("trades", items[-1])
        world.run(each)
    return {"trades": items}


def delivered_at(world: World) -> list[float]:
    return [one.time for one in world.simulator.delivered]


def test_an_item_takes_the_time_that_its_work_takes() -> None:
    world = World(1, 1, processors=slow(1, 10.0, filter=2.0, copy=3.0))
    world.register(chain())
    began = world.simulator.now
    feed(world, 1, each=5.0)
    assert delivered_at(world) == [pytest.approx(began + 0.5)]


def test_items_wait_for_those_before_them() -> None:
    world = World(1, 1, processors=slow(1, 10.0, filter=2.0, copy=3.0))
    catalogue = chain()
    world.register(catalogue)
    began = world.simulator.now
    fed = feed(world, 20, each=0.0)
    assert world.broker(1).engine.queue.backlog == 20
    world.run(60)
    assert delivered_at(world)[-1] == pytest.approx(began + 20 * 0.5)
    expect_equal(world, catalogue, fed)


def measured(world: World, node: Address) -> tuple[TrafficCounts, ...]:
    """What a node has measured of its operators since it was last asked."""
    found: list[MeasurementReport] = []
    world.simulator.call(node, lambda: found.append(world.broker(node).measure()))
    return found[0].operators


def test_measured_work_is_that_of_the_items_whatever_the_speed() -> None:
    for speed in (20.0, 200.0):
        world = World(1, 1, processors=slow(1, speed, filter=2.0, copy=3.0))
        world.register(chain())
        measured(world, 1)
        feed(world, 40, each=0.5)
        counts = {one.name: one.work / one.seconds for one in measured(world, 1)}
        assert counts["q.all"] == pytest.approx(2 * 2.0, rel=0.1)
        assert counts["q.again"] == pytest.approx(2 * 3.0, rel=0.1)


def test_work_is_measured_in_full_where_a_processor_does_not_keep_up() -> None:
    world = World(2, 1, processors={2: SimulatedProcessor(5.0, {"filter": 4.0})})
    build = QueryBuilder("q")
    build.filter("all", "trades", where="size >= 0")
    world.register(Catalogue([TRADES], [build.query()]), {"trades": 1, "q": 2})
    measured(world, 2)
    feed(world, 80, each=0.25)
    assert world.broker(2).engine.queue.backlog > 40
    (counts,) = measured(world, 2)
    assert counts.work / counts.seconds == pytest.approx(4 * 4.0, rel=0.1), "four items a second arrive"
    assert counts.items_out / counts.seconds == pytest.approx(4.0, rel=0.1)


def test_what_waits_when_an_operator_moves_is_processed_where_it_goes() -> None:
    world = World(3, 2, processors={2: SimulatedProcessor(1.0)})
    catalogue = chain()
    world.register(catalogue, {"trades": 1, "q": 2})
    fed = feed(world, 50, each=0.05)
    assert world.broker(2).engine.queue.backlog > 30
    for name in ("q.all", "q.again"):
        world.simulator.call(2, lambda name=name: world.broker(2).move(name, 3))  # type: ignore[misc]
    world.run(5)
    expect_equal(world, catalogue, fed)


def test_a_union_is_not_replicated_while_what_it_gave_waits_behind_it() -> None:
    build = QueryBuilder("q")
    both = build.union("both", "trades", "quotes")
    build.filter("all", both, where="size >= 0")
    quotes = Source("quotes", TRADES.schema.attributes, time="at", topic="quotes", lateness=0)
    catalogue = Catalogue([TRADES, quotes], [build.query()])
    world = World(2, 3, processors={1: SimulatedProcessor(1.0, {"union": 0.0})})
    world.register(catalogue, {"trades": 1, "quotes": 1, "q": 1})
    assert world.broker(1).reconfiguration.can_replicate("q.all")
    fed = feed(world, 10, each=0.0)
    assert not world.broker(1).reconfiguration.can_replicate("q.all")
    world.end("trades")
    world.end("quotes")
    world.run(30)
    expect_equal(world, catalogue, {**fed, "quotes": []})


def slow_at_random(seed: int, faults: bool) -> int:
    """Random queries at slow nodes while operators move and are divided; returns the longest backlog."""
    random = Random(f"{seed}/slow")
    nodes = random.randint(2, 6)
    catalogue = random_catalogue(random)
    processors = {node: SimulatedProcessor(random.choice([5.0, 20.0, 100.0])) for node in range(1, nodes)}
    world = World(nodes + 1, seed, processors=processors)
    world.register(catalogue)
    items = random_streams(random)
    if faults:
        fired = Injection(world.population, random_faults(random, world, world.simulator.now)).fired
    longest = 0
    run = world.run

    def watched(seconds: float) -> None:
        nonlocal longest
        run(seconds)
        longest = max(longest, *(broker.engine.queue.backlog for broker in world.brokers))

    world.run = watched  # type: ignore[method-assign]
    run_through(world, catalogue, items, changes=0.2)
    if faults:
        assert fired["loss"]
    expect_equal(world, catalogue, items)
    return longest


@pytest.mark.parametrize("faults", [False, True])
def test_answers_are_exact_at_slow_nodes_amid_changes(faults: bool) -> None:
    assert max(slow_at_random(seed, faults) for seed in range(6)) > 5


@pytest.mark.chaos
@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("seed", range(100, 200))
def test_answers_are_exact_at_slow_nodes_amid_changes_on_many_seeds(seed: int, faults: bool) -> None:
    slow_at_random(seed, faults)


def test_a_node_that_stops_goes_on_with_what_waited() -> None:
    world = World(2, 4, processors={2: SimulatedProcessor(2.0)})
    catalogue = chain()
    world.register(catalogue, {"trades": 1, "q": 2})
    fed = feed(world, 20, each=0.1)
    world.population.crash(2)
    world.run(5)
    world.simulator.restart(2)
    world.run(60)
    expect_equal(world, catalogue, fed)


def test_a_live_processor_reads_its_clock() -> None:
    ticks = iter([0.0, 0.5, 10.0, 10.25])
    processor = TimedProcessor(lambda: next(ticks))
    build = QueryBuilder("q")
    build.filter("all", "trades", where="size >= 0")
    operation = build.query().operators[0].operation
    spec = OperatorSpec("q.all", operation, ("trades",), (TRADES.schema,))
    assert processor.speed == 2_000_000.0
    assert processor.seconds_until(spec, 3) == 0.0
    assert processor.run(spec, 3, list) == ([], 500_000.0)
    assert World(1, 1).broker(1).engine.queue.processor.speed == inf

"""Items that operators publish under topics of their own, in the network."""

from __future__ import annotations

import pytest

from distributary.flow import Catalogue, Item, Query, QueryBuilder, Source, interpret
from distributary.model import Event, Subscription
from systems.queries.worlds import World, expect_equal

SCHEMA = {"symbol": "text", "size": "integer", "topic": "text", "at": "integer"}
TRADES = Source("trades", SCHEMA, time="at", topic="trades/*/#", lateness=15)
LARGE = Source("large", SCHEMA, time="at", topic="trades/*/large", derived=True)


def publishing() -> Query:
    build = QueryBuilder("busy")
    build.publish(build.filter("chosen", TRADES, where="size > 3"), "{topic}/large/{symbol}")
    return build.query()


def reading() -> Query:
    build = QueryBuilder("reading")
    build.count("counted", LARGE, window="10 ms", group_by=["topic"])
    return build.query()


CATALOGUE = Catalogue([TRADES, LARGE], [publishing(), reading()])


def trades(count: int) -> dict[str, list[Item]]:
    return {
        "trades": [
            Item(
                f"t{at}", at, {"symbol": "ab"[at % 2], "size": at % 10, "topic": f"trades/{at % 3}", "at": at}
            )
            for at in range(count)
        ]
    }


def feed(world: World, items: dict[str, list[Item]]) -> None:
    for item in items["trades"]:
        attributes = {name: value for name, value in item.attributes.items() if name != "topic"}
        world.publish("trades", Event(item.id, item.attributes["topic"], attributes))
        world.run(0.05)
    world.end("trades")
    world.run(100)


@pytest.mark.parametrize("seed", range(4))
def test_readers_of_topics_get_the_interpreters_answer_while_operators_move_and_are_divided(
    seed: int,
) -> None:
    items = trades(60)
    world = World(5, seed)
    world.register(CATALOGUE)
    for item in items["trades"]:
        attributes = {name: value for name, value in item.attributes.items() if name != "topic"}
        world.publish("trades", Event(item.id, item.attributes["topic"], attributes))
        world.change()
        world.run(0.3)
    world.end("trades")
    world.run(400)
    expect_equal(world, CATALOGUE, items)
    assert any(name.startswith("reading.#large") for name, _ in world.operators())
    assert interpret(CATALOGUE, items).streams["reading.counted"]


def test_a_subscription_sees_the_topic_of_each_item() -> None:
    world = World(4, 1)
    world.register(CATALOGUE)
    wanted = {
        "deep": Subscription("deep", "ann", topic="trades/1/large/a"),
        "all": Subscription("all", "ann", topic="trades/*/large", where="size > 8"),
        "own": Subscription("own", "ann", where="topic = 'trades/2/large/b' and id <> 't5'"),
        "other": Subscription("other", "ann", topic="busy"),
    }
    for at, subscription in enumerate(wanted.values(), 1):
        world.simulator.call(at, lambda at=at, one=subscription: world.broker(at).subscribe(one))
    world.run(5)
    items = trades(40)
    feed(world, items)
    events = [
        CATALOGUE.streams["busy.chosen"].event(item)
        for item in interpret(CATALOGUE, items).streams["busy.chosen"]
    ]
    found = {
        name: sorted(d.event.id for d in world.deliveries() if name in d.subscriptions) for name in wanted
    }
    assert found["deep"] == sorted(event.id for event in events if event.topic == "trades/1/large/a")
    assert found["all"] == sorted(event.id for event in events if event.attributes["size"] > 8)
    assert found["own"] == sorted(
        event.id for event in events if event.topic == "trades/2/large/b" and event.id != "t5"
    )
    assert all(found[name] for name in ("deep", "all", "own"))
    assert found["other"] == []


def test_a_query_that_publishes_into_what_others_read_already_is_refused() -> None:
    world = World(3, 2)
    world.register(Catalogue([TRADES, LARGE], [reading()]))
    world.simulator.call(2, lambda: world.broker(2).register_query(publishing()))
    world.run(5)
    assert world.broker(2).refused["busy"] == (
        "it would publish under topics of a source that reading.counted reads already; "
        "register it before the queries that read what it publishes"
    )


def test_a_loop_is_refused_with_its_path() -> None:
    world = World(3, 3)
    world.register(CATALOGUE)
    build = QueryBuilder("back")
    build.publish(build.filter("again", LARGE, where="size > 5"), "trades/{topic[2]}")
    world.simulator.call(2, lambda: world.broker(2).register_query(build.query()))
    world.run(5)
    assert "topic 'trades/{topic[2]}' -> source 'trades' -> busy.chosen ->" in world.broker(2).refused["back"]
    feed(world, items := trades(30))
    expect_equal(world, CATALOGUE, items)


def test_what_was_withdrawn_is_published_as_long_as_it_is_read_and_then_forgotten() -> None:
    world = World(3, 4)
    world.register(CATALOGUE, {"busy": 1, "reading": 2})
    world.simulator.call(1, lambda: world.broker(1).unregister_query("busy"))
    world.run(5)
    feed(world, items := trades(30))
    expect_equal(world, CATALOGUE, items, queries=["reading"])
    world.simulator.call(2, lambda: world.broker(2).unregister_query("reading"))
    world.run(20)
    registry = world.broker(1).registry_link.local_registry
    assert registry is not None
    assert (registry.queries, registry.runs, registry.specs) == ({}, {}, {})
    assert world.operators() == []

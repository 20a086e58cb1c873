"""Subscriptions to streams of queries: replaced, made again, withdrawn, and several of one subscriber."""

from __future__ import annotations

from functools import partial

import pytest

from distributary.errors import DistributaryError
from distributary.filters.where.filter import WhereFilter
from distributary.flow import Catalogue, interpret
from distributary.model import Delivery, Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address, Node
from distributary.systems.queries.broker import FlowBroker
from systems.queries.test_network import TRADES, busy, trades
from systems.queries.worlds import World

ANN = SubscriptionKey("ann", "s1")


def told(deliveries: list[Delivery]) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Whom deliveries are for, of which stream and item, and the subscriptions that they name."""
    found = [
        (each.subscriber, str(each.event.topic), each.event.id, each.subscriptions) for each in deliveries
    ]
    return sorted(found)


class Scene:
    """A source at node 2, two queries that filter it at node 3; clients subscribe at nodes 1 and 4."""

    def __init__(self) -> None:
        self.world = World(4, 3)
        queries = [busy().query(), busy("other", 2).query()]
        at = {"trades": 2, "busy": 3, "other": 3}
        self.world.register(Catalogue([TRADES], queries), at=at)
        self.published = 0

    def subscribe(self, topic: str, at: Address = 4) -> None:
        self.ask(Subscription("s1", "ann", topic=topic), at=at)

    def ask(self, *asked: Subscription, at: Address = 4) -> None:
        for one in asked:
            self.world.simulator.call(at, partial(self.world.broker(at).subscribe, one))

    def unsubscribe(self, at: Address = 4) -> None:
        self.world.simulator.call(at, partial(self.world.broker(at).unsubscribe, ANN))

    def publish(self) -> list[tuple[str, str]]:
        """Publish trades of sizes 1 and 8; the topics and ids of what the subscriber gets of them."""
        return sorted((str(each.event.topic), each.event.id) for each in self.deliveries())

    def deliveries(self) -> list[Delivery]:
        """Publish trades of sizes 1 and 8; what is delivered of them."""
        before = len(self.world.deliveries())
        for size in (1, 8):
            self.published += 1
            trade = {"symbol": "a", "size": size, "at": self.published}
            self.world.publish("trades", Event(f"t{self.published}", "trades", trade))
        self.world.run(5)
        return self.world.deliveries()[before:]


@pytest.mark.parametrize("pause", [0.0, 0.05, 5.0])
def test_a_subscription_with_the_same_key_takes_the_place_of_the_first(pause: float) -> None:
    scene = Scene()
    scene.subscribe("busy/large")
    scene.world.run(pause)
    scene.subscribe("other/large")
    scene.world.run(5)
    assert scene.publish() == [("other/large", "t2")]
    scene.unsubscribe()
    scene.world.run(5)
    assert scene.publish() == []


def test_so_does_one_at_another_node() -> None:
    scene = Scene()
    scene.subscribe("busy/large", at=4)
    scene.world.run(5)
    scene.subscribe("busy/large", at=1)
    scene.world.run(5)
    assert scene.publish() == [("busy/large", "t2")]
    delivered = scene.world.simulator.delivered
    assert [one.address for one in delivered if isinstance(one.item, Delivery)] == [1]


@pytest.mark.parametrize("pause", [0.0, 0.05, 5.0])
def test_one_that_is_withdrawn_may_be_made_again_before_that_is_confirmed(pause: float) -> None:
    scene = Scene()
    scene.subscribe("busy/large")
    scene.world.run(pause)
    scene.unsubscribe()
    scene.subscribe("other/large")
    scene.world.run(5)
    assert scene.publish() == [("other/large", "t2")]


def test_the_same_one_once_more_brings_nothing_a_second_time() -> None:
    scene = Scene()
    scene.subscribe("busy/large")
    scene.world.run(5)
    assert scene.publish() == [("busy/large", "t2")]
    scene.subscribe("busy/large")
    assert scene.publish() == [("busy/large", "t4")]
    assert scene.publish() == [("busy/large", "t6")]


@pytest.mark.parametrize("more", [{"path": "/a"}, {"change": {"size": 1}}, {"more": {"colour": "red"}}])
def test_filters_that_items_have_nothing_for_are_refused(more: dict[str, object]) -> None:
    broker = FlowBroker(Node(1), registry=1)
    with pytest.raises(DistributaryError, match="topic and where only"):
        broker.subscribe(Subscription("s1", "ann", topic="busy", **more))  # type: ignore[arg-type]


def test_an_item_is_delivered_once_however_many_subscriptions_of_a_subscriber_want_it() -> None:
    scene = Scene()
    wanted = [
        Subscription("s1", "ann", topic="busy/large"),
        Subscription("s2", "ann", topic="busy", where="size > 5"),
        Subscription("s3", "ann", where="size < 5"),
        Subscription("s4", "ann", topic="busy", where="topic = 'busy/large' and id <> 't1'"),
    ]
    scene.ask(*wanted, Subscription("s1", "bob", topic="busy/large"))
    scene.world.run(5)
    assert told(scene.deliveries()) == [
        ("ann", "busy/large", "t2", ("s1", "s2", "s4")),
        ("bob", "busy/large", "t2", ("s1",)),
    ]
    scene.unsubscribe()
    scene.world.run(5)
    assert told(scene.deliveries())[0] == ("ann", "busy/large", "t4", ("s2", "s4"))


def test_streams_of_two_names_are_two_streams_though_one_operator_computes_both() -> None:
    scene = Scene()
    queries = [busy().query(), busy("other", 2).query(), busy("same").query()]
    scene.world.register_queries(Catalogue([TRADES], queries[2:]), at={"same": 2})
    assert "same.large" not in dict(scene.world.operators())
    scene.ask(Subscription("s1", "ann", where="size > 7"), Subscription("s2", "ann", topic="same"))
    scene.world.run(5)
    assert told(scene.deliveries()) == [
        ("ann", "busy/large", "t2", ("s1",)),
        ("ann", "other/large", "t2", ("s1",)),
        ("ann", "same/large", "t2", ("s1", "s2")),
    ]


@pytest.mark.parametrize("seed", range(6))
def test_every_delivery_names_all_subscriptions_while_operators_move_and_are_divided(seed: int) -> None:
    """Among them one that begins in the midst of it: it is named for what is published once it is granted."""
    world = World(5, seed)
    catalogue, items = Catalogue([TRADES], [busy(least=2).query()]), trades(80)
    world.register(catalogue, at={"trades": 1, "busy": 2})
    wanted = {
        "all": Subscription("all", "ann", topic="busy/large"),
        "large": Subscription("large", "ann", topic="busy", where="size >= 5"),
        "a": Subscription("a", "ann", topic="busy/*", where="symbol = 'a'"),
    }
    late = Subscription("late", "ann", topic="busy/large", where="size <> 3")
    broker = world.broker(4)
    for one in wanted.values():
        world.simulator.call(4, partial(broker.subscribe, one))
    world.run(5)
    for number, item in enumerate(items["trades"]):
        if number in (30, 40):
            world.run(10)
        if number == 30:
            world.simulator.call(4, partial(broker.subscribe, late))
        world.feed("trades", item)
        world.change()
        world.run(world.random.choice([0.0, 0.01, 0.05, 0.3]))
    world.end("trades")
    world.run(400)
    assert world.disorder() == []
    found = {each.event.id: each for each in world.deliveries() if each.event.topic == "busy/large"}
    assert len(found) == len([each for each in world.deliveries() if each.event.topic == "busy/large"])
    expected = interpret(catalogue, items).streams["busy.large"]
    assert found.keys() == {item.id for item in expected}
    for item in expected:
        event, named = found[item.id].event, set(found[item.id].subscriptions)
        asked = {name for name, one in wanted.items() if one.where is None or holds(one.where, event)}
        assert named - {"late"} == asked, item
        if not 30 <= item.time < 40:
            assert ("late" in named) == (item.time >= 40 and holds("size <> 3", event)), item


def holds(condition: str, event: Event) -> bool:
    return WhereFilter.parse(condition).matches(event)

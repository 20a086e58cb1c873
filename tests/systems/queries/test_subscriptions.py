"""Subscriptions to streams of queries: replaced, made again, withdrawn and made at once."""

from __future__ import annotations

from functools import partial

import pytest

from distributary.errors import DistributaryError
from distributary.flow import Catalogue
from distributary.model import Delivery, Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address, Node
from distributary.systems.queries.broker import FlowBroker
from systems.queries.test_network import TRADES, busy
from systems.queries.worlds import World

ANN = SubscriptionKey("ann", "s1")


class Scene:
    """A source at node 2, two queries that filter it at node 3; clients subscribe at nodes 1 and 4."""

    def __init__(self) -> None:
        self.world = World(4, 3)
        queries = [busy().query(), busy("other", 2).query()]
        at = {"trades": 2, "busy": 3, "other": 3}
        self.world.register(Catalogue([TRADES], queries), at=at)
        self.published = 0

    def subscribe(self, topic: str, at: Address = 4) -> None:
        asked = Subscription("s1", "ann", topic=topic)
        self.world.simulator.call(at, partial(self.world.broker(at).subscribe, asked))

    def unsubscribe(self, at: Address = 4) -> None:
        self.world.simulator.call(at, partial(self.world.broker(at).unsubscribe, ANN))

    def publish(self) -> list[tuple[str, str]]:
        """Publish trades of sizes 1 and 8; the topics and ids of what the subscriber gets of them."""
        before = len(self.world.deliveries())
        for size in (1, 8):
            self.published += 1
            trade = {"symbol": "a", "size": size, "at": self.published}
            self.world.publish("trades", Event(f"t{self.published}", "trades", trade))
        self.world.run(5)
        found = self.world.deliveries()[before:]
        return sorted((str(each.event.topic), each.event.id) for each in found)


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

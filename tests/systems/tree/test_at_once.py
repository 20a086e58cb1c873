"""A root that is alone and has no disk publishes at once what others pass on, and says who is given what."""

from __future__ import annotations

from random import Random

import pytest

from distributary.model import Delivery, Event, Subscription
from distributary.overlay.node import Deliver, Effect, Node
from distributary.overlay.tree.interest import Interest
from distributary.overlay.tree.messages import AttachRequest
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.state import TreeSettings
from distributary.systems.tree.broker import TreeBroker

TOPICS = ("a", "a/b", "c")


def root() -> TreeBroker:
    broker = TreeBroker(TreeNode(Node(1), TreeSettings(heartbeat=1.0), is_root=True))
    broker.node.start(0.0)
    return broker


def delivered(effects: list[Effect]) -> list[Delivery]:
    return [item for effect in effects if isinstance(effect, Deliver) for item in effect.items]


def asked(broker: TreeBroker, subscription: Subscription) -> None:
    broker.node.call(lambda: broker.subscribe(subscription), 0.0)


def some_subscription(random: Random, number: int) -> Subscription:
    where = random.choice([None, None, "price > 5", "flag = true", "flag = true or price > 5"])
    return Subscription(f"s{number}", random.choice("xyz"), topic=random.choice(TOPICS), where=where)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_published_at_once_is_delivered_and_logged_as_otherwise(seed: int) -> None:
    random = Random(seed)
    usual, quick = root(), root()
    for number in range(60):
        if random.random() < 0.2:
            subscription = some_subscription(random, number)
            asked(usual, subscription)
            asked(quick, subscription)
            continue
        events = [
            Event(f"e{random.randrange(100)}", random.choice(TOPICS), {"price": random.randrange(9)})
            for _ in range(random.randrange(4))
        ]

        def publish(events: list[Event] = events) -> None:
            if not quick.publish_at_once(events):
                quick.publish_all(events)

        expected = usual.node.call(lambda events=events: usual.publish_all(events), 0.0)  # type: ignore[misc]
        assert delivered(quick.node.call(publish, 0.0)) == delivered(expected)
    assert quick.tree.log.position == usual.tree.log.position > 0
    assert quick.tree.log.all_after(0) == usual.tree.log.all_after(0)


def test_an_event_that_was_published_before_is_not_published_at_once() -> None:
    broker = root()
    assert broker.publish_at_once([Event("e1", "a")])
    assert not broker.publish_at_once([Event("e2", "a"), Event("e1", "a")])
    assert not broker.publish_at_once([Event("e3", "a"), Event("e3", "a")])
    assert not broker.publish_at_once([])
    assert broker.tree.log.position == 1


def test_a_root_with_a_child_is_not_alone() -> None:
    broker = root()
    assert broker.audience("a", "flag") == ()
    request = AttachRequest(1, 1, Interest())
    broker.node.receive(request, 2, 0.0)
    assert not broker.publish_at_once([Event("e1", "a")])
    assert broker.audience("a", "flag") is None


@pytest.mark.parametrize("seed", range(20))
def test_those_who_are_said_to_be_given_an_event_are(seed: int) -> None:
    random, broker = Random(seed), root()
    said = 0
    for number in range(40):
        if random.random() < 0.05:
            asked(broker, some_subscription(random, number))
        elif random.random() < 0.2:
            asked(broker, Subscription(f"s{number}", random.choice("xyz"), topic=random.choice(TOPICS)))
        event = Event(f"e{number}", random.choice(TOPICS), {"price": random.randrange(9)})
        audience = broker.audience(event.topic or "", "flag")
        found = delivered(broker.node.call(lambda event=event: broker.publish(event), 0.0))  # type: ignore[misc]
        if audience is not None:
            said += 1
            assert audience == tuple((each.subscriber, each.subscriptions) for each in found)
    assert said

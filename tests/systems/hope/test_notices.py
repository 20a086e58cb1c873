"""Which notices are worth asking for a document: those that trying the filters one by one lets pass."""

from __future__ import annotations

from random import Random

import pytest

from distributary.filters.kinds import parse_filters
from distributary.filters.where.filter import WhereFilter
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.node import Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.ring import Ring, settle
from distributary.systems.hope.addressing import Addressing
from distributary.systems.hope.kbpp import Kbpp
from distributary.systems.hope.notices import SEEN_WITHOUT_DOCUMENT, NoticeInterests
from distributary.systems.interests import FEW


def asked_for(random: Random, number: int) -> Subscription:
    topic = random.choice([None, "quotes/A", "news"])
    where = f"price > {random.randrange(40)}" if topic is None or random.random() < 0.7 else None
    path = random.choice(["/a/b", "//c"])
    if random.random() < 0.05:
        topic = where = None
    return Subscription(f"s{number}", "ann", topic=topic, where=where, path=path)


@pytest.mark.parametrize("seed", range(5))
def test_a_notice_may_be_wanted_when_the_filters_without_document_let_it_pass(seed: int) -> None:
    random = Random(seed)
    interests = NoticeInterests()
    kept: dict[SubscriptionKey, Subscription] = {}
    answers = []
    for step in range(150):
        asked = asked_for(random, random.randrange(3 * FEW))
        if asked.key in kept and random.random() < 0.4:
            interests.remove(asked.key)
            del kept[asked.key]
        else:
            interests.put(asked.key, parse_filters(asked))
            kept[asked.key] = asked
        topic = random.choice([None, "quotes/A", "news/1", "other"])
        event = Event(f"e{step}", topic, {"price": random.randrange(12)})
        expected = any(
            all(
                filter.matches(event)
                for kind, filter in parse_filters(each).items()
                if kind in SEEN_WITHOUT_DOCUMENT
            )
            for each in kept.values()
        )
        assert interests.may_want(event) == expected
        answers.append(expected)
    assert any(answers)
    assert not all(answers)


def test_many_subscriptions_at_a_home_are_not_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring(Node(3), Circle(32))
    settle([ring])
    broker = Kbpp(ring, Addressing(dimension=4))
    broker.node.start(now=0.0)
    asked = [Subscription(f"s{each}", "ann", where=f"price > {each + 8}", path="/a") for each in range(50)]
    for each in asked:
        broker.node.call(lambda each=each: broker.subscribe(each), 0.0)  # type: ignore[misc]
    tried: list[Event] = []
    whole = WhereFilter.matches

    def counted(self: WhereFilter, event: Event) -> bool:
        tried.append(event)
        return whole(self, event)

    monkeypatch.setattr(WhereFilter, "matches", counted)
    assert not broker.documents._may_want(Event("e1", attributes={"price": 3}))
    assert broker.documents._may_want(Event("e2", attributes={"price": 9}))
    assert not tried
    for each in asked:
        broker.node.call(lambda each=each: broker.unsubscribe(each.key), 1.0)  # type: ignore[misc]
    assert not broker.documents._may_want(Event("e3", attributes={"price": 99}))

"""A home decides: exactly what the filters say, once for each event and subscriber."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest

from distributary.errors import FilterError, UnknownSubscriptionError
from distributary.matching.matcher import Matcher
from distributary.model import Delivery, Event, Offset, Subscription, SubscriptionKey
from distributary.overlay.node import Deliver, Effect, Node
from distributary.systems.home import Home
from properties.examples import examples

S1 = SubscriptionKey("ann", "s1")


def offered(home: Home, event: Event) -> list[Delivery]:
    effects = home.node.call(lambda: home.offer(event), now=0.0)
    assert all(isinstance(effect, Deliver) for effect in effects)
    return [effect.item for effect in effects if isinstance(effect, Deliver)]


def accepted(home: Home, event: Event, *keys: SubscriptionKey) -> list[Delivery]:
    effects = home.node.call(lambda: home.accept(event, keys), now=0.0)
    return [effect.item for effect in effects if isinstance(effect, Deliver)]


def some_subscription(random: Random, number: int) -> Subscription:
    filters: dict[str, object] = {"where": f"price > {random.randrange(10)}"}
    if random.random() < 0.5:
        filters["topic"] = random.choice(["quotes", "quotes/A", "news/*/x"])
    if random.random() < 0.5:
        filters["change"] = {"price": random.randrange(4)}
    return Subscription(f"s{number}", f"client{random.randrange(3)}", **filters)  # type: ignore[arg-type]


def some_event(random: Random, number: int) -> Event:
    topic = random.choice([None, "quotes/A", "quotes/B", "news/1/x"])
    price = random.choice([None, "high", random.randrange(12), random.uniform(0, 12), float("inf")])
    return Event(f"e{number}", topic, {"price": price})


@pytest.mark.parametrize("seed", range(20))
def test_offers_give_what_the_matcher_gives_with_its_memory(seed: int) -> None:
    random = Random(seed)
    home, matcher = Home(Node(1)), Matcher()
    for number in range(60 + 10 * seed):  # few subscriptions for low seeds, a crowd for high ones
        if random.random() < 0.3:
            subscription = some_subscription(random, number)
            home.add(subscription)
            matcher.add(subscription)
        elif random.random() < 0.1 and len(home):
            gone = random.choice(list(home.subscriptions))
            assert home.remove(gone).key == gone
            matcher.remove(gone.id)
        event = some_event(random, number)
        found = offered(home, event)
        assert sorted(name for each in found for name in each.subscriptions) == matcher.match(event)
        subscribers = [each.subscriber for each in found]
        assert subscribers == sorted(set(subscribers))


def test_an_event_is_delivered_once_to_a_subscriber_however_often_it_comes() -> None:
    home = Home(Node(1))
    home.add(Subscription("s1", "ann", where="a > 1"))
    home.add(Subscription("s2", "ann", where="a > 2"))
    home.add(Subscription("s3", "bob", where="a > 1"))
    event = Event("e1", attributes={"a": 3})
    assert offered(home, event) == [Delivery(event, "ann", ("s1", "s2")), Delivery(event, "bob", ("s3",))]
    assert offered(home, event) == []


def test_events_of_other_sources_and_subscriptions_of_other_subscribers_may_have_the_same_ids() -> None:
    home = Home(Node(1))
    home.add(Subscription("s1", "ann", where="a > 1"))
    home.add(Subscription("s1", "bob", where="a > 2"))
    first, second = (Event("e1", attributes={"source": source, "a": 3}) for source in ("x", "y"))
    assert offered(home, first) == [Delivery(first, "ann", ("s1",)), Delivery(first, "bob", ("s1",))]
    assert offered(home, second) == [Delivery(second, "ann", ("s1",)), Delivery(second, "bob", ("s1",))]
    home.remove(S1)
    assert offered(home, Event("e2", attributes={"a": 3})) != []


def test_a_repeated_event_does_not_move_a_tolerance_twice() -> None:
    home = Home(Node(1))
    home.add(Subscription("s1", "ann", change={"a": 1}))
    assert offered(home, Event("e1", attributes={"a": 0}))
    assert offered(home, Event("e2", attributes={"a": 2}))
    assert not offered(home, Event("e1", attributes={"a": 0}))
    assert not offered(home, Event("e3", attributes={"a": 3})), "one from 2, three from 0"


def test_what_a_rendezvous_found_is_accepted_once_and_only_if_the_filters_agree() -> None:
    home = Home(Node(1))
    home.add(Subscription("s1", "ann", where="a > 1", change={"a": 100}))
    home.add(Subscription("s2", "ann", where="a > 2"))
    home.add(Subscription("s3", "bob", where="a > 9"))
    event = Event("e1", attributes={"a": 3})
    assert accepted(home, event, S1, SubscriptionKey("bob", "s3"), SubscriptionKey("ann", "left")) == [
        Delivery(event, "ann", ("s1",))
    ]
    assert accepted(home, event, S1) == []
    assert accepted(home, event, SubscriptionKey("ann", "s2")) == [], "ann has it"
    assert accepted(home, Event("e2", attributes={"a": 3}), S1) != [], "the rendezvous measures the change"


def test_an_offer_reaches_those_whom_no_rendezvous_served() -> None:
    home = Home(Node(1))
    home.add(Subscription("s1", "ann", where="a > 1"))
    home.add(Subscription("s2", "bob", where="a > 1"))
    event = Event("e1", attributes={"a": 3})
    assert accepted(home, event, S1) == [Delivery(event, "ann", ("s1",))]
    assert offered(home, event) == [Delivery(event, "bob", ("s2",))]


def test_the_same_subscription_again_keeps_its_memory_and_a_changed_one_starts_afresh() -> None:
    home = Home(Node(1))
    subscription = Subscription("s1", "ann", change={"a": 5})
    home.add(subscription)
    assert offered(home, Event("e1", attributes={"a": 0}))
    home.add(Subscription("s1", "ann", change={"a": 5}))
    assert not offered(home, Event("e2", attributes={"a": 1}))
    home.add(Subscription("s1", "ann", change={"a": 4}))
    assert offered(home, Event("e3", attributes={"a": 1}))


def test_only_so_many_events_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.systems.home.REMEMBERED", 2)
    home = Home(Node(1))
    home.add(Subscription("s1", "ann", where="a = 1"))
    events = [Event(f"e{number}", attributes={"a": 1}) for number in range(3)]
    assert all(offered(home, event) for event in events)
    assert not offered(home, events[2])
    assert not offered(home, events[1])
    assert offered(home, events[0])


def test_what_cannot_be_read_or_is_not_there_is_refused() -> None:
    home = Home(Node(1))
    with pytest.raises(FilterError):
        home.add(Subscription("s1", "ann", where="a >"))
    assert S1 not in home
    with pytest.raises(UnknownSubscriptionError, match="no subscription 's1' of 'ann'"):
        home.remove(S1)


def per_subscriber(effects: list[Effect]) -> dict[str, list[Delivery]]:
    given: dict[str, list[Delivery]] = {}
    for effect in effects:
        assert isinstance(effect, Deliver)
        for delivery in effect.items:
            given.setdefault(delivery.subscriber, []).append(delivery)
    return given


def random_subscription(random: Random, number: int) -> Subscription:
    topic = random.choice(["A", "A/B", "B", "C/B"])
    filters: dict[str, Any] = {"topic": topic}
    form = random.random()
    if form < 0.3:
        filters["where"] = f"a > {random.randint(0, 9)}"
    elif form < 0.5:
        filters["change"] = {"a": random.randint(1, 4)}
    return Subscription(f"s{number}", random.choice(["ann", "bob", "cleo"]), **filters)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("seed", range(examples(40)))
def test_events_that_come_together_are_delivered_as_one_by_one(seed: int, plain: bool) -> None:
    random = Random(f"together {seed}")
    one, together = Home(Node(1)), Home(Node(1))
    numbers = 0
    topics, published = ["A", "A/B", "B", "C/B", "D"], []
    for step in range(12):
        for number in range(random.randint(0, 8)):
            subscription = random_subscription(random, 10 * step + number)
            if plain:
                subscription = replace(subscription, where=None, change=None)
            one.add(subscription)
            together.add(subscription)
        for key in random.sample(sorted(one.subscriptions), min(2, len(one))):
            assert one.remove(key) == together.remove(key)
        batch = []
        for _ in range(random.choice([1, 2, 5, 20])):
            numbers += random.randint(1, 3)
            event = Event(f"e{numbers}", random.choice(topics), {"a": random.randint(0, 9)})
            if published and random.random() < 0.05:
                event = random.choice(published)
            published.append(event)
            batch.append((numbers, event))
        for number, event in batch[:2]:
            if random.random() < 0.1 and len(one):
                keys = random.sample(sorted(one.subscriptions), 1)
                again = [
                    home.node.call(partial(home.give, event, keys, Offset(1.0, number)), 0.0)
                    for home in (one, together)
                ]
                assert again[0] == again[1]
        singly = [
            effect
            for number, event in batch
            for effect in one.node.call(partial(one.offer, event, Offset(1.0, number)), 0.0)
        ]
        effects = together.node.call(partial(together.offer_all, *zip(*batch, strict=True), 1.0), 0.0)
        assert per_subscriber(effects) == per_subscriber(singly)
        assert all(together.was_offered(event.key) for _, event in batch)

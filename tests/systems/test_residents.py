"""Many residents are given what each would be given alone, with the values that they came with."""

from __future__ import annotations

from random import Random

import pytest

from distributary.model import Event, Subscription, SubscriptionKey
from distributary.systems.interests import FEW
from distributary.systems.residents import Resident, Residents, by_subscriber

TOPICS = (None, "quotes/A", "quotes/B")


def some_resident(random: Random, number: int) -> Resident:
    change = {name: random.randrange(5) for name in random.sample(["price", "size"], random.randrange(3))}
    filters = {"topic": random.choice([None, "quotes"]), "where": f"price > {random.randrange(4)}"}
    last = {
        topic: {name: float(random.randrange(12)) for name in ("price", "size") if random.random() < 0.6}
        for topic in TOPICS
        if change and random.random() < 0.5
    }
    known = {
        topic: {name: value for name, value in of.items() if name in change} for topic, of in last.items()
    }
    subscription = Subscription(f"s{number}", random.choice("ab"), **filters, change=change or None)  # type: ignore[arg-type]
    return Resident(subscription, {topic: values for topic, values in known.items() if values})


@pytest.mark.parametrize("seed", range(30))
def test_values_given_elsewhere_count_and_are_given_back(seed: int) -> None:
    random = Random(seed)
    residents, alone = Residents(), dict[SubscriptionKey, Resident]()
    for number in range(FEW + 60):
        if random.random() < 0.5:
            resident = some_resident(random, random.randrange(60))
            key = resident.subscription.key
            if key in alone:
                residents.remove(key)
            residents.put(resident.subscription, resident.last)
            alone[key] = resident
        elif alone and random.random() < 0.2:
            gone = random.choice(list(alone))
            residents.remove(gone)
            del alone[gone]
        values = {name: random.randrange(12) for name in ("price", "size") if random.random() < 0.9}
        event = Event(f"e{number}", random.choice(TOPICS), values)
        firing = [key for key, resident in alone.items() if resident.fires(event)]
        assert sorted(residents.firing(event)) == sorted(firing)
    assert dict(remembered(residents)) == {key: resident.last for key, resident in alone.items()}


@pytest.mark.parametrize("many", [False, True])
def test_a_tolerance_starts_from_values_that_were_given_elsewhere(many: bool) -> None:
    residents = Residents()
    for number in range(FEW + 5 if many else 1):
        residents.put(Subscription(f"s{number}", "ann", where="price > 0", change={"price": 5}))
    first = SubscriptionKey("ann", "s0")

    def fires(price: float, topic: str = "quotes/A") -> bool:
        return first in residents.firing(Event("e", topic, {"price": price}))

    residents.start_from(first, {}, {"quotes/A": {"price": 10.0}, "quotes/B": {"price": 1.0}})
    assert [fires(price) for price in (12, 16, 18)] == [False, True, False]
    residents.start_from(first, {"quotes/A": {"price": 16.0}}, {"quotes/A": {"price": 20.0}})
    assert [fires(price) for price in (18, 24, 26)] == [False, False, True]
    residents.start_from(first, {"quotes/A": {"price": 16.0}}, {"quotes/A": {"price": 40.0}})
    assert [fires(price) for price in (28, 40)] == [False, True]  # something else was delivered meanwhile
    assert [fires(price, "quotes/B") for price in (5, 7)] == [False, True]
    residents.start_from(SubscriptionKey("bob", "gone"), {}, {"quotes/A": {"price": 1.0}})


def remembered(residents: Residents) -> list[tuple[SubscriptionKey, object]]:
    return [(subscription.key, last) for subscription, last in residents.remembered()]


@pytest.mark.parametrize("seed", range(20))
def test_who_wants_a_topic_is_known_anew_after_every_change(seed: int) -> None:
    random = Random(seed)
    residents, alone = Residents(), dict[SubscriptionKey, Resident]()
    for number in range(2 * FEW):
        key = SubscriptionKey(random.choice("ab"), f"s{random.randrange(2 * FEW)}")
        if key in alone:
            residents.remove(key)
            del alone[key]
        else:
            where = "price > 3" if random.random() < 0.05 else None
            subscription = Subscription(
                key.id, key.subscriber, topic=random.choice(["quotes", "quotes/A"]), where=where
            )
            residents.put(subscription)
            alone[key] = Resident(subscription)
        events = [Event(f"{number}-{topic}", topic, {"price": 4}) for topic in TOPICS]
        wanting = [by_subscriber(key for key in alone if alone[key].fires(event)) for event in events]
        assert residents.wanted(events) == wanting

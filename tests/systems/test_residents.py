"""Many residents are given what each would be given alone, with the values that they came with."""

from __future__ import annotations

from random import Random

import pytest

from distributary.model import Event, Subscription, SubscriptionKey
from distributary.systems.interests import FEW
from distributary.systems.residents import Resident, Residents

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


def remembered(residents: Residents) -> list[tuple[SubscriptionKey, object]]:
    return [(subscription.key, last) for subscription, last in residents.remembered()]

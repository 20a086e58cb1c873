"""Many residents are given what each would be given alone, with the values that they came with."""

from __future__ import annotations

from random import Random

import pytest

from distributary.model import Event, Subscription, SubscriptionKey
from distributary.systems.interests import FEW
from distributary.systems.kernel_use import KERNELS
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


PATTERNS = ["A", "A/B", "A/*/C", "A/B/#", "mqtt:#", "mqtt:+/B", "mqtt:/A", "mqtt:/A/#", "mqtt:A//B", "mqtt:/"]
PATTERNS += ["mqtt:$x/#", "mqtt:A/+", "mqtt://#", "/A/B"]
SOME = [None, "A", "/A", "A/B", "/A/B", "A//B", "/", "//", "$x", "$x/A", "A/B/C", "/A/B/C", "B/B", "A/D/C"]


@pytest.mark.parametrize("seed", range(10))
def test_without_kernels_many_are_given_what_each_would_be_given_alone(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KERNELS, "withheld", True)
    random = Random(seed)
    residents, alone = Residents(), dict[SubscriptionKey, Resident]()
    for _ in range(6 * FEW):
        key = SubscriptionKey("ann", f"s{random.randrange(3 * FEW)}")
        if key in alone and random.random() < 0.5:
            residents.remove(key)
            del alone[key]
        else:
            topic = random.choice([None, *PATTERNS])
            where = "a > 0" if topic is None or random.random() < 0.3 else None
            subscription = Subscription(key.id, "ann", topic=topic, where=where)
            residents.put(subscription)
            alone[key] = Resident(subscription)
        event = Event("e", random.choice(SOME), {"a": random.randrange(2)})
        assert sorted(residents.firing(event)) == sorted(key for key in alone if alone[key].fires(event))


def test_without_kernels_a_device_s_event_is_asked_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KERNELS, "withheld", True)
    residents, asked = Residents(), list[str]()
    for number in range(1_000):
        residents.put(Subscription("s", f"device-{number}", topic=f"mqtt:devices/{number}"))
    residents.put(Subscription("s", "all", topic="mqtt:devices/#"))
    usual = Resident.passes
    monkeypatch.setattr(
        Resident,
        "passes",
        lambda resident, event: asked.append(resident.subscription.subscriber) or usual(resident, event),
    )
    [wanted] = residents.wanted([Event("e", "devices/7")])
    assert wanted == (("all", ("s",)), ("device-7", ("s",)))
    assert sorted(asked) == ["all", "device-7"]

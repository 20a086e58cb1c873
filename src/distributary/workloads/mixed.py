"""Quotes, sensor readings and RSS documents in one stream, and subscriptions of every kind to them.

Of eight events four are quotes, three are readings and one is a news item with an RSS document. The first
subscriptions are those of a few people with names and plain wishes, which make output readable; the rest are
drawn from the forms of `market` and `sensors`, and whole topics beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from distributary.model import Event, Subscription
from distributary.workloads import market, quotes, sensors

ROUND = "qrqrqrqn"
"""Which events follow each other: quotes, readings, news."""

PEOPLE = (
    {"subscriber": "ann", "topic": "quotes/NYSE", "where": "price between 90 and 110"},
    {"subscriber": "bob", "topic": "quotes", "change": {"price": 2.0}},
    {"subscriber": "cleo", "path": "/rss/channel/item[author='Eleni' and urgency >= 4]/title"},
    {"subscriber": "dan", "topic": "news/*/#", "where": "urgency = 5 or sector in ('banks', 'energy')"},
    {"subscriber": "eve", "where": "volume > 40000 and not price < 100 and symbol like 'AA%'"},
    {"subscriber": "fay", "topic": "mqtt:news/+", "path": "//item[not(author)]"},
    {"subscriber": "gus", "topic": "sensors/athens/*/temperature"},
    {"subscriber": "hana", "topic": "sensors", "where": "quantity = 'co2'", "change": {"value": 60}},
    {"subscriber": "ann", "topic": "quotes", "change": {"volume": 40000}},
)
"""What people with names ask for; ann asks twice and still gets an event once."""


def subscriptions(count: int, *, seed: int) -> Iterator[Subscription]:
    """People with names first, then traders and keepers of rooms."""
    random = Random(f"mixed subscriptions {seed}")
    for number, wish in enumerate(PEOPLE[:count]):
        yield Subscription.from_record({"id": f"p{number}", **wish})
    seen = list(quotes.events(400, seed=seed))
    readings = list(sensors.events(400, seed=seed))
    people = max(1, count // 8)
    for number in range(count - len(PEOPLE)):
        subscription_id, person = f"s{number}", random.randrange(people)
        if random.random() < 0.6:
            trade = random.choices((_stock, *market.FORMS), (10, *market.WEIGHTS))[0]
            yield trade(random, random.choice(seen), subscription_id, f"trader-{person}")
        else:
            watch = random.choices(sensors.FORMS, sensors.WEIGHTS)[0]
            yield watch(random, random.choice(readings), subscription_id, f"keeper-{person}")


def events(count: int, *, seed: int) -> Iterator[Event]:
    """Quotes and readings by turns, and a news item every now and then.

    >>> [event.id for event in events(8, seed=1)]
    ['q0', 'r0', 'q1', 'r1', 'q2', 'r2', 'q3', 'n7']
    """
    random = Random(f"mixed events {seed}")
    traded = quotes.events(count, seed=seed)
    measured = sensors.events(count, seed=seed)
    for number in range(count):
        match ROUND[number % len(ROUND)]:
            case "q":
                quote = next(traded)
                yield quote
            case "r":
                yield next(measured)
            case _:
                yield market.news(random, f"n{number}", quote)


def _stock(random: Random, quote: Event, subscription_id: str, subscriber: str) -> Subscription:
    """Everything about a stock."""
    return Subscription(subscription_id, subscriber, topic=quote.topic)

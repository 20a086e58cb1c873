"""Quotes, sensor readings and RSS documents in one stream, and subscriptions of every kind to them.

Of eight events four are quotes, three are readings and one is a news item with an RSS document. The first
subscriptions are those of a few people with names and simple wishes, which make output readable; the rest are
drawn from the forms of `market` and `sensors`, and whole topics beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from distributary.model import Event, Subscription
from distributary.workloads import market, quotes, sensors

ROUND = "qrqrqrqn"
"""The order of events: q for a quote, r for a reading, n for news."""

PEOPLE = (
    *market.PEOPLE[:-1],
    {"subscriber": "gus", "topic": "sensors/athens/*/temperature"},
    {"subscriber": "hana", "topic": "sensors", "where": "quantity = 'co2'", "change": {"value": 60}},
    {"subscriber": "ann", "topic": "quotes", "change": {"volume": 40000}},
)
"""The subscriptions of people with names; ann has two and still gets an event once."""


def subscriptions(count: int, *, seed: int) -> Iterator[Subscription]:
    """The people with names first, then traders and people who look after rooms."""
    random = Random(f"mixed subscriptions {seed}")
    yield from market.named_people(PEOPLE[:count])
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
    """Quotes and readings in turn, and every eighth event a news item.

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

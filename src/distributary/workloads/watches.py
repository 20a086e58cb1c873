"""Quotes that every system can route, and people who watch them in every way at once.

One workload for all systems side by side. An event is a minute quote (`quotes`) with its topic, its
attributes and an XML document that says the same. A subscription names a stock by topic and by path, a band
of prices by condition, and a tolerance on the price, so a system that meets events by topics, by values, by
structure or by tolerances finds something to go by in each of them, and all must deliver the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from distributary.model import Event, Subscription
from distributary.workloads import quotes

WATCHERS_EACH = 2
"""Subscriptions of one subscriber, on average."""


def events(count: int, *, seed: int) -> Iterator[Event]:
    """Quotes with documents.

    >>> next(events(1, seed=1)).document
    '<quotes><NYSE><AAA price="119.0"/></NYSE></quotes>'
    """
    for quote in quotes.events(count, seed=seed):
        exchange, symbol = quote.attributes["exchange"], quote.attributes["symbol"]
        element = f'<{symbol} price="{quote.attributes["price"]}"/>'
        yield replace(quote, document=f"<quotes><{exchange}>{element}</{exchange}></quotes>")


def subscriptions(count: int, *, seed: int) -> Iterator[Subscription]:
    """People who watch one stock each while its price is in a band, and want to hear when it has moved.

    >>> next(subscriptions(1, seed=1)).where
    'price between 116.6 and 122.1'
    """
    random = Random(f"watches {seed}")
    traded = quotes.stocks(seed=seed)
    for number in range(count):
        stock = random.choice(traded)
        middle = stock.cents + random.randint(-50, 50)
        width = random.randint(20, 400)
        yield Subscription(
            f"w{number}",
            f"watcher{random.randrange(max(1, count // WATCHERS_EACH))}",
            topic=stock.topic,
            where=f"price between {max(1, middle - width) / 100} and {(middle + width) / 100}",
            path=f"/quotes/{stock.exchange}/{stock.symbol}",
            change={"price": random.randint(0, 20) / 100},
        )

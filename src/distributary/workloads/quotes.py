"""Stock quotes by the minute, and subscribers who want to hear of a price when it has moved.

Resembles the data of section 5 of the dynamic-filter paper: 30 stocks, one quote a minute, some calm and
some lively, with tolerances that are spread evenly or, by a Pareto distribution, mostly small. Prices are
random walks in whole cents, so that moves of exactly a tolerance occur, as they do in real quotes. Steps are
sums of whole random numbers; no machine's floating-point library has a say in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

from distributary.model import Event, Subscription
from distributary.workloads.options import require

Distribution = Literal["uniform", "pareto"]

EXCHANGES = ("NYSE", "NASDAQ", "AMEX")
STOCKS = 30
"""As many as in section 5 of the paper."""
PARETO_SHAPE = 1.0


@dataclass(slots=True)
class Stock:
    """One stock and where its random walk stands, in cents."""

    symbol: str
    exchange: str
    cents: int
    volatility: int
    """The largest part of a step; a minute's step is the sum of four parts."""

    @property
    def topic(self) -> str:
        """The topic of its quotes."""
        return f"quotes/{self.exchange}/{self.symbol}"

    def tick(self, random: Random) -> dict[str, float | int | str]:
        """One minute further: the attributes of its quote. A price never falls below one unit of currency."""
        opened = self.cents
        step = sum(random.randint(-self.volatility, self.volatility) for _ in range(4))
        self.cents = max(100, opened + step)
        high = max(opened, self.cents) + random.randint(0, self.volatility)
        low = max(1, min(opened, self.cents) - random.randint(0, self.volatility))
        return {
            "symbol": self.symbol,
            "exchange": self.exchange,
            "price": self.cents / 100,
            "high": high / 100,
            "low": low / 100,
            "volume": 100 * random.randint(1, 500),
        }


def stocks(count: int = STOCKS, *, seed: int) -> list[Stock]:
    """Stocks at their opening prices, from calm ones to lively ones.

    >>> [(stock.topic, stock.volatility) for stock in stocks(2, seed=1)]
    [('quotes/NYSE/AAA', 1), ('quotes/NASDAQ/AAB', 2)]
    """
    random = Random(f"stocks {seed}")
    return [
        Stock(symbol_of(at), EXCHANGES[at % len(EXCHANGES)], random.randint(500, 15000), 1 + at % 10)
        for at in range(count)
    ]


def events(count: int, *, seed: int, stock_count: int = STOCKS) -> Iterator[Event]:
    """Quotes minute by minute, every stock once a minute.

    >>> next(events(1, seed=1)).topic
    'quotes/NYSE/AAA'
    """
    random = Random(f"quotes {seed}")
    require("stock_count", stock_count, 1)
    traded = stocks(stock_count, seed=seed)
    for number in range(count):
        stock = traded[number % stock_count]
        yield Event(f"q{number}", stock.topic, stock.tick(random))


def subscriptions(
    count: int,
    *,
    seed: int,
    stock_count: int = STOCKS,
    tolerances: Distribution = "uniform",
    sources: Distribution = "uniform",
    maximum: float = 0.64,
) -> Iterator[Subscription]:
    """Subscribers to one stock each, with a tolerance on its price of whole cents up to `maximum`.

    `tolerances` and `sources` say how tolerances and stocks are chosen: with "pareto" most tolerances are
    small, and most subscribers follow the calm stocks.

    >>> next(subscriptions(1, seed=1)).filters()
    {'topic': 'quotes/NYSE/AAJ', 'change': {'price': 0.43}}
    """
    random = Random(f"subscriptions {seed}")
    require("stock_count", stock_count, 1)
    require("maximum", maximum, 0, 1e9)
    topics = [stock.topic for stock in sorted(stocks(stock_count, seed=seed), key=lambda s: s.volatility)]
    cents = max(1, round(100 * maximum))
    for number in range(count):
        topic = topics[chosen(random, stock_count, sources) - 1]
        tolerance = chosen(random, cents, tolerances) / 100
        yield Subscription(f"s{number}", f"subscriber{number}", topic=topic, change={"price": tolerance})


def chosen(random: Random, maximum: int, distribution: Distribution) -> int:
    """A whole number from 1 to `maximum`."""
    if distribution == "uniform":
        return random.randint(1, maximum)
    return min(maximum, int(random.paretovariate(PARETO_SHAPE)))


def symbol_of(number: int) -> str:
    """AAA, AAB, AAC and so on."""
    letters = ""
    for _ in range(3):
        number, letter = divmod(number, 26)
        letters = chr(ord("A") + letter) + letters
    return letters

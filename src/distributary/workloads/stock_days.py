"""The stock application of section 5 of the dynamic-filter paper, on generated quotes.

The paper took 30 stocks by the minute, from 11 November 2002 to 12 September 2003, made every day of every
stock a data source of its own, 5,453 in all, and sorted these into 10 groups by their standard deviation.
Its quotes are not available. Here is a pool of as many stock-days, with what matters of them: whole values
(cents), a minute apart, calm and lively ones, minutes in which nothing moves.

A run picks some sources, and subscribers that come back at random intervals with another subscription: the
tolerance and the group of its source are drawn evenly, or by a Pareto distribution that prefers small
tolerances and calm groups. What the paper leaves open, decided here: sources are picked evenly from the
groups, and it is subscribers who prefer some groups; subscriptions stay.

Only whole random numbers are drawn for prices, so they are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.model import Event, Subscription
from distributary.workloads.quotes import Distribution, chosen, symbol_of

STOCKS, DAYS, POOL = 30, 209, 5453
"""Stocks, trading days between the paper's dates, and for how many pairs of these the paper had data."""
MINUTES = 390
"""The length of a trading day."""
GROUPS = 10
APART = 3.0
"""The least seconds between a subscription and a value of its source: longer than messages take."""
CALM_MINUTES = 3
"""In one minute of so many there is no trade, and the price stays."""


class StockDay(NamedTuple):
    """One day of one stock: a data source."""

    stock: int
    day: int
    group: int
    """From 0, the calmest, to 9."""
    prices: NDArray[np.int64]
    """In cents, one a minute."""

    @property
    def topic(self) -> str:
        """The topic of its prices."""
        return f"quotes/{symbol_of(self.stock)}/{self.day}"


class StockQuote(NamedTuple):
    """A price that a source publishes at a time."""

    time: float
    """Seconds from the start."""
    source: int
    event: Event


class StockRequest(NamedTuple):
    """A subscription that a subscriber makes at a time."""

    time: float
    subscriber: int
    subscription: Subscription


@dataclass(frozen=True)
class StockTrace:
    """The publications and subscriptions of a run, in the order of time."""

    publications: Sequence[StockQuote]
    requests: Sequence[StockRequest]

    @property
    def sources(self) -> int:
        """How many sources there are."""
        return 1 + max((each.source for each in self.publications), default=-1)

    @property
    def subscribers(self) -> int:
        """How many subscribers there are."""
        return 1 + max((each.subscriber for each in self.requests), default=-1)


@lru_cache(maxsize=4)
def stock_days(seed: int, count: int = POOL) -> tuple[StockDay, ...]:
    """The pool, from the calmest stock-day to the liveliest.

    >>> pool = stock_days(1, 500)
    >>> len(pool), pool[0].group, pool[-1].group, len(pool[0].prices)
    (500, 0, 9, 390)
    """
    random = np.random.Generator(np.random.PCG64(seed))
    days = random.permutation(STOCKS * DAYS)[:count]
    liveliness = random.integers(1, 9, size=STOCKS)
    drawn = [_prices(random, int(liveliness[at % STOCKS])) for at in days.tolist()]
    order = sorted(range(len(drawn)), key=lambda at: (_spread(drawn[at]), at))
    return tuple(
        StockDay(int(days[at]) % STOCKS, int(days[at]) // STOCKS, place * GROUPS // len(order), drawn[at])
        for place, at in enumerate(order)
    )


def trace(
    *,
    seed: int,
    tolerances: Distribution = "uniform",
    groups: Distribution = "uniform",
    maximum: int = 64,
    sources: int = 200,
    subscribers: int = 200,
    minutes: int = 240,
    every_minutes: float = 10.0,
) -> StockTrace:
    """A run as in section 5.1: sources publish every minute, subscribers subscribe every ten on average.

    The pool of stock-days is always the same, as in runs on one set of real data.

    >>> short = trace(seed=1, sources=10, subscribers=5, minutes=3)
    >>> len(short.publications), short.sources
    (30, 10)
    """
    random = Random(f"stock application {seed}")
    picked = _picked(random, stock_days(1), sources)
    offsets = [60 * random.random() for _ in picked]
    published = sorted(
        StockQuote(60.0 * minute + offsets[number], number, _quote(source, number, minute))
        for number, source in enumerate(picked)
        for minute in range(minutes)
    )
    by_group: dict[int, list[int]] = {}
    for number, source in enumerate(picked):
        by_group.setdefault(source.group, []).append(number)
    ranked = [by_group[group] for group in sorted(by_group)]
    requests = []
    for subscriber, time in arrivals(random, subscribers, every_minutes, 60 * minutes):
        number = random.choice(ranked[chosen(random, len(ranked), groups) - 1])
        tolerance = chosen(random, maximum, tolerances)
        requests.append((_apart(time, offsets[number]), subscriber, picked[number].topic, tolerance))
    return StockTrace(published, requests_of(requests))


def arrivals(
    random: Random, subscribers: int, every_minutes: float, end: float
) -> Iterator[tuple[int, float]]:
    """When each subscriber subscribes: Poisson arrivals of that mean interval until `end` seconds."""
    for subscriber in range(subscribers):
        time = random.expovariate(1 / (60 * every_minutes))
        while time < end:
            yield subscriber, time
            time += random.expovariate(1 / (60 * every_minutes))


def requests_of(wishes: Iterable[tuple[float, int, str, float]]) -> list[StockRequest]:
    """Subscriptions from times, subscribers, topics and tolerances, numbered in the order of time."""
    return [
        StockRequest(
            time,
            subscriber,
            Subscription(
                f"s{number}", f"subscriber{subscriber}", topic=f"{topic}/#", change={"price": tolerance}
            ),
        )
        for number, (time, subscriber, topic, tolerance) in enumerate(sorted(wishes))
    ]


def _apart(time: float, offset: float) -> float:
    """Move a time away from a source's values, so that no value races with the subscription."""
    until = (offset - time + APART) % 60
    return time + until if until < 2 * APART else time


def _picked(random: Random, pool: Sequence[StockDay], count: int) -> list[StockDay]:
    """Random sources, the same number from each group."""
    groups: list[list[StockDay]] = [[] for _ in range(GROUPS)]
    for each in pool:
        groups[each.group].append(each)
    for group in groups:
        random.shuffle(group)
    return [groups[number % GROUPS][number // GROUPS] for number in range(count)]


def _quote(source: StockDay, number: int, minute: int) -> Event:
    price = int(source.prices[minute % len(source.prices)])
    return Event(f"q{number}.{minute}", source.topic, {"price": price})


def _prices(random: np.random.Generator, liveliness: int) -> NDArray[np.int64]:
    """A random walk; days of one stock differ in how far it goes in a minute."""
    largest = max(1, liveliness * int(random.integers(1, 5)) // 2)
    steps = random.integers(-largest, largest + 1, size=(2, MINUTES)).sum(axis=0)
    steps[random.integers(0, CALM_MINUTES, size=MINUTES) == 0] = 0
    opening = int(random.integers(1000, 10000))
    prices: NDArray[np.int64] = np.maximum(100, opening + np.cumsum(steps))
    return prices


def _spread(prices: NDArray[np.int64]) -> int:
    """The variance, times the square of the number of values: a whole number."""
    return int(len(prices) * (prices * prices).sum() - prices.sum() ** 2)

"""The workload of quotes: prices in cents on random walks, and tolerances as asked for."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from statistics import pstdev

from distributary.workloads.quotes import events, stocks, subscriptions


def test_the_same_seed_gives_the_same_quotes_and_another_seed_others() -> None:
    assert list(events(100, seed=1)) == list(events(100, seed=1)) != list(events(100, seed=2))
    assert (
        list(subscriptions(50, seed=1)) == list(subscriptions(50, seed=1)) != list(subscriptions(50, seed=2))
    )


def test_every_stock_is_quoted_once_a_minute_in_cents() -> None:
    made = list(events(90, seed=3))
    topics = [stock.topic for stock in stocks(seed=3)]
    assert [event.topic for event in made] == topics * 3
    assert len(set(topics)) == 30
    for event in made:
        quote = event.attributes
        assert event.topic == f"quotes/{quote['exchange']}/{quote['symbol']}"
        assert 0 < quote["low"] <= quote["price"] <= quote["high"]  # type: ignore[operator]
        assert all(round(quote[name], 2) == quote[name] for name in ("low", "price", "high"))  # type: ignore[arg-type]


def test_lively_stocks_move_more_than_calm_ones() -> None:
    prices = defaultdict(list)
    for event in events(30 * 300, seed=4):
        prices[event.topic].append(event.attributes["price"])
    spread = {
        topic: pstdev([after - before for before, after in pairwise(walk)]) for topic, walk in prices.items()
    }
    made = stocks(seed=4)
    assert spread[made[9].topic] > 5 * spread[made[0].topic]


def test_tolerances_and_sources_follow_the_distribution_asked_for() -> None:
    even = [s.change["price"] for s in subscriptions(2000, seed=5, maximum=0.64) if s.change]
    skew = [
        s.change["price"] for s in subscriptions(2000, seed=5, maximum=0.64, tolerances="pareto") if s.change
    ]
    assert max(even) <= 0.64
    assert max(skew) <= 0.64
    assert 0.3 < sum(even) / 2000 < 0.35
    assert sum(c <= 0.02 for c in skew) > 1000
    followed = [s.topic for s in subscriptions(2000, seed=5, sources="pareto")]
    assert max(map(followed.count, set(followed))) > 800

"""Rules over orders: equalities on skewed texts and numbers together with ranges, three to five in each rule.

An order has a country, a category, a brand, a device, a customer segment, a price, a quantity and a risk.
Popular values are popular with rules and with orders alike (weights fall as 1 / rank). A rule asks for
one to three of the discrete attributes by value and bounds one or two of the others, three to five of them
in all. Of 100,000 rules about ten want an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distributary.model import Event, Subscription

VALUES = {"country": 60, "category": 400, "brand": 2_000, "device": 6, "segment": 50}
"""The discrete attributes and how many values each has; segments are whole numbers, all others texts."""
RANGES = {"price": 1_000.0, "quantity": 100.0, "risk": 1.0}
"""The attributes with an order and the upper end of their uniform values; quantities are whole numbers."""
WIDTH = 0.04
"""The share of the domain that a range spans."""

CHUNK = 10_000


class Draw(NamedTuple):
    """Some thousands of rules: -1 for a discrete attribute, NaN for a range, that a rule leaves open."""

    values: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def subscriptions(count: int, *, seed: int) -> Iterator[Subscription]:
    """Rules as subscriptions.

    >>> next(subscriptions(1, seed=5)).where[:55]
    "country = 'country-0001' and category = 'category-0002'"
    """
    number = 0
    for draw in draws(count, seed=seed):
        for values, lows, highs in zip(
            draw.values.tolist(), draw.low.tolist(), draw.high.tolist(), strict=True
        ):
            conditions = [
                f"{name} = {_literal(name, value)}"
                for name, value in zip(VALUES, values, strict=True)
                if value >= 0
            ]
            conditions.extend(
                f"{name} between {_bound(name, low)} and {_bound(name, high)}"
                for name, low, high in zip(RANGES, lows, highs, strict=True)
                if low == low
            )
            yield Subscription(f"r{number}", f"u{number % 1000}", where=" and ".join(conditions))
            number += 1


def draws(count: int, *, seed: int) -> Iterator[Draw]:
    """The same rules as arrays, some thousands at a time."""
    random = np.random.default_rng([seed, 0])
    for start in range(0, count, CHUNK):
        size = min(CHUNK, count - start)
        equalities = random.integers(1, 4, CHUNK)
        ranges = np.where(equalities == 1, 2, random.integers(1, 3, CHUNK))
        values = _discrete(random, CHUNK)
        values[_ranks(random, CHUNK, len(VALUES)) >= equalities[:, None]] = -1
        low = random.random((CHUNK, len(RANGES))) * (1 - WIDTH)
        low[_ranks(random, CHUNK, len(RANGES)) >= ranges[:, None]] = np.nan
        ends = np.array(list(RANGES.values()))
        low, high = low * ends, (low + WIDTH) * ends
        whole = list(RANGES).index("quantity")
        low[:, whole], high[:, whole] = np.floor(low[:, whole]), np.floor(high[:, whole])
        yield Draw(values[:size], low[:size], high[:size])


def events(count: int, *, seed: int) -> Iterator[Event]:
    """Orders with every attribute."""
    columns = table(count, seed=seed).to_pydict()
    ids = columns.pop("id")
    for number, event_id in enumerate(ids):
        yield Event(event_id, attributes={name: column[number] for name, column in columns.items()})


def table(count: int, *, seed: int) -> Any:
    """The same orders as an Arrow table."""
    random = np.random.default_rng([seed, 1])
    discrete = _discrete(random, count)
    columns: dict[str, Any] = {"id": [f"o{number}" for number in range(count)]}
    for place, name in enumerate(VALUES):
        chosen = discrete[:, place]
        columns[name] = chosen if name == "segment" else _texts(name)[chosen]
    for name, end in RANGES.items():
        values = random.random(count) * end
        columns[name] = np.floor(values).astype(np.int64) if name == "quantity" else values
    return pa.table(columns)


def _discrete(random: np.random.Generator, count: int) -> NDArray[np.int64]:
    """A value of each discrete attribute, the k-th with a weight of 1 / (k + 1)."""
    columns = []
    for size in VALUES.values():
        weights = np.cumsum(1.0 / np.arange(1, size + 1))
        columns.append(np.searchsorted(weights, random.random(count) * weights[-1], "right"))
    return np.stack(columns, axis=1)


def _ranks(random: np.random.Generator, count: int, size: int) -> NDArray[np.int64]:
    """Rows of the numbers below `size`, each in random order."""
    return np.argsort(random.random((count, size)), axis=1)


def _texts(name: str) -> NDArray[Any]:
    return np.array([f"{name}-{number:04}" for number in range(VALUES[name])])


def _literal(name: str, value: int) -> str:
    return str(value) if name == "segment" else f"'{name}-{value:04}'"


def _bound(name: str, bound: float) -> str:
    return str(int(bound)) if name == "quantity" else repr(bound)

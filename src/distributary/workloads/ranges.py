"""Ranges over uniform numbers: each subscription bounds some of the attributes, every event has them all.

The shape on which engines for range conditions are usually compared: of ten attributes with values between
0 and 1, each subscription constrains four to an interval of a fifth of the domain, so that about 16 of
10,000 subscriptions want an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distributary.model import Event, Subscription
from distributary.workloads.options import require

ATTRIBUTES = 10
CONSTRAINED = 4
WIDTH = 0.2

CHUNK = 10_000


def subscriptions(
    count: int,
    *,
    seed: int,
    attributes: int = ATTRIBUTES,
    constrained: int = CONSTRAINED,
    width: float = WIDTH,
) -> Iterator[Subscription]:
    """Subscriptions that bound `constrained` attributes each, chosen and placed uniformly.

    >>> next(subscriptions(1, seed=1, attributes=2, constrained=1)).where
    'a0 >= 0.2881093554334752 and a0 <= 0.4881093554334752'
    """
    number = 0
    for chosen, low, high in bounds(
        count, seed=seed, attributes=attributes, constrained=constrained, width=width
    ):
        for names, lows, highs in zip(chosen.tolist(), low.tolist(), high.tolist(), strict=True):
            where = " and ".join(
                f"a{name} >= {least!r} and a{name} <= {most!r}"
                for name, least, most in zip(names, lows, highs, strict=True)
            )
            yield Subscription(f"s{number}", f"u{number % 1000}", where=where)
            number += 1


def bounds(
    count: int,
    *,
    seed: int,
    attributes: int = ATTRIBUTES,
    constrained: int = CONSTRAINED,
    width: float = WIDTH,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]]:
    """The same subscriptions as arrays, some thousands at a time: attributes, lower and upper bounds."""
    require("attributes", attributes, 1)
    require("constrained", constrained, 1, attributes)
    require("width", width, 0, 1)
    random = np.random.default_rng([seed, 0])
    for start in range(0, count, CHUNK):
        size = min(CHUNK, count - start)
        chosen = np.sort(np.argsort(random.random((CHUNK, attributes)), axis=1)[:, :constrained], axis=1)
        low = random.random((CHUNK, constrained)) * (1 - width)
        yield chosen[:size], low[:size], (low + width)[:size]


def events(count: int, *, seed: int, attributes: int = ATTRIBUTES) -> Iterator[Event]:
    """Events with every attribute, uniform between 0 and 1."""
    for number, row in enumerate(_values(count, seed, attributes).tolist()):
        yield Event(f"e{number}", attributes={f"a{name}": value for name, value in enumerate(row)})


def table(count: int, *, seed: int, attributes: int = ATTRIBUTES) -> Any:
    """The same events as an Arrow table."""
    values = _values(count, seed, attributes)
    ids = [f"e{number}" for number in range(count)]
    return pa.table({"id": ids} | {f"a{name}": values[:, name] for name in range(attributes)})


def _values(count: int, seed: int, attributes: int) -> NDArray[np.float64]:
    require("attributes", attributes, 1)
    return np.random.default_rng([seed, 1]).random((count, attributes))

"""What tolerances cost when values walk at random, computed: how often a value moves by more than c.

The paper names a random walk as a starting point for such an analysis (section 6). A value moves by whole
numbers, independently each time. A filter of width w lets pass the first value that is further than w from
the one that it let pass last, and begins anew there. So the values that pass are again a random walk: its
moves are where the one before leaves the range from -w to w. Applied level by level this gives the rates of
MFD, which are exact, as are those of SF with a single level.

The number of visits at each place before the range is left solves a system of 2 w + 1 linear equations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from distributary.errors import DistributaryError

Moves = Mapping[int, float]
"""The probability of each move from a value to the next."""


@dataclass(frozen=True)
class Crossing:
    """How a random walk leaves the range of a filter."""

    values: float
    """How many values that takes on average."""
    moves: Moves
    """Where it is then, from where it began."""


def crossing(moves: Moves, width: float) -> Crossing:
    """How a walk with these moves gets further than `width` from where it is; DistributaryError if it cannot.

    >>> one = crossing({-1: 0.5, 1: 0.5}, 2)
    >>> round(one.values, 9), {move: round(share, 9) for move, share in sorted(one.moves.items())}
    (9.0, {-3: 0.5, 3: 0.5})
    """
    if abs(sum(moves.values()) - 1) > 1e-9 or min(moves.values()) < 0:
        raise DistributaryError(f"probabilities are at least 0 and add up to 1, not so {dict(moves)}")
    if not any(move and share for move, share in moves.items()):
        raise DistributaryError("a value that never moves leaves no range")
    furthest = int(width)
    places = range(-furthest, furthest + 1)
    stays = np.eye(len(places))
    for at, place in enumerate(places):
        for move, share in moves.items():
            if abs(place + move) <= furthest:
                stays[place + move + furthest, at] -= share
    start = np.zeros(len(places))
    start[furthest] = 1.0
    visits = np.linalg.solve(stays, start)
    left: Counter[int] = Counter()
    for place, often in zip(places, visits.tolist(), strict=True):
        for move, share in moves.items():
            if share and abs(place + move) > furthest:
                left[place + move] += often * share
    return Crossing(float(visits.sum()), dict(left))


def passing_rates(moves: Moves, widths: Iterable[float]) -> list[float]:
    """For each level of sub-filters of these widths, the lowest first, the share of values that pass it.

    With one width, the share of values that SF delivers for that tolerance.

    >>> [round(rate, 6) for rate in passing_rates({-1: 0.5, 1: 0.5}, [1, 4])]
    [0.25, 0.027778]
    """
    rates, rate = [], 1.0
    for width in widths:
        left = crossing(moves, width)
        rate, moves = rate / left.values, left.moves
        rates.append(rate)
    return rates

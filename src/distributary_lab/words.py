"""What the documents' words mean in numbers: one table for the whole lab, and nothing else judges.

A document says that two things are equal, that one is near another, that a cost is flat. Each word has one
number here, chosen before any row was looked at, and every check goes by it: no check has a threshold of its
own (`tests/lab/test_rules.py` reads the checks' source). What a document gives as a bound ("under 20 B/s") is
taken as it stands, and needs no word.

| words | here |
|---|---|
| equal, identical, the same, optimal, reaches the optimum | `equal`: the ratio is within `EQUAL` |
| near, close, almost | `near`: the ratio is within `NEAR` |
| about so much, as a number that the document gives | `as_given`: the ratio is within `GIVEN` |
| as low as so much, only so much | `as_low_as`: at most `GIVEN` times the document's number |
| saves so many per cent | `saves_as_given`: what is left is as given |
| comparable, level | `comparable`: the ratio is within `COMPARABLE` |
| flat, constant, independent, no marked difference, levels off | `flat`: most by least is within `FLAT` |
| slightly, mildly, a little more | `slightly`: more, and by at most `SLIGHT` |
| much, drastically, significantly less | `much_less`: by at least `MUCH` |
| an order of magnitude; orders of magnitude | `ORDER`; `orders_of_magnitude`: by at least `ORDERS` |
| rises, falls, the more the less | `rises`, `falls`: at every step |
| tapers, eases off | `tapers`: grows by a smaller factor at every step |
| linear | `linear`: a power law whose exponent is within `EXPONENT` of one, that fits by `FIT` |
| linear, beyond a fixed cost | `by_a_line`: grows, and a line fits by `FIT` |
| logarithmic, exponential | `logarithmic`, `exponential`: grows, and fits by `FIT` |
| at most, in most cases | `mostly`: in more than half |
| nothing, all | within `ROUNDING` |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import log
from statistics import correlation, linear_regression

EQUAL = 1.02
NEAR = 1.1
GIVEN = 1.5
COMPARABLE = 2.0
FLAT = 1.25
SLIGHT = 1.5
MUCH = 2.0
ORDER = 10.0
ORDERS = 100.0
EXPONENT = 0.2
FIT = 0.9
"""A share of the variance that a shape explains."""
ROUNDING = 1e-6

Series = Sequence[float] | Mapping[int, float] | Mapping[float, float]


def _within(one: float, other: float, times: float) -> bool:
    """Whether two costs are within a factor of each other; of a cost of 0, only 0 is."""
    low, high = sorted((one, other))
    return high <= times * low or high - low <= ROUNDING


def equal(one: float, other: float) -> bool:
    """Equal, identical, optimal.

    >>> equal(100, 101), equal(100, 103), equal(0.0, 0.0)
    (True, False, True)
    """
    return _within(one, other, EQUAL)


def near(one: float, other: float) -> bool:
    """Near, close to, almost.

    >>> near(100, 109), near(100, 111)
    (True, False)
    """
    return _within(one, other, NEAR)


def as_given(ours: float, paper: float) -> bool:
    """As the number that the document gives.

    >>> as_given(75, 100), as_given(60, 100)
    (True, False)
    """
    return _within(ours, paper, GIVEN)


def as_low_as(cost: float, paper: float) -> bool:
    """A cost that the document calls low: no more than it gives, or as given.

    >>> as_low_as(20, 100), as_low_as(140, 100), as_low_as(160, 100)
    (True, True, False)
    """
    return cost <= GIVEN * paper


def saves_as_given(saved: float, paper: float) -> bool:
    """A share saved that is as the document's: what is left is at most as given.

    >>> saves_as_given(0.975, 0.98), saves_as_given(0.9, 0.98)
    (True, False)
    """
    return as_low_as(1 - saved, 1 - paper)


def comparable(one: float, other: float) -> bool:
    """Comparable, level.

    >>> comparable(10, 19), comparable(10, 21)
    (True, False)
    """
    return _within(one, other, COMPARABLE)


def no_worse(cost: float, other: float) -> bool:
    """A cost that is below another, or equal.

    >>> no_worse(90, 100), no_worse(101, 100), no_worse(103, 100)
    (True, True, False)
    """
    return cost <= other or equal(cost, other)


def flat(values: Series) -> bool:
    """Flat, constant, independent of what is varied.

    >>> flat([10, 12, 11]), flat([10, 13])
    (True, False)
    """
    found = _values(values)
    return _within(min(found), max(found), FLAT)


def slightly(more: float, less: float) -> bool:
    """More, but only slightly.

    >>> slightly(13, 10), slightly(10, 10), slightly(16, 10)
    (True, False, False)
    """
    return less < more <= SLIGHT * less


def much_less(less: float, more: float) -> bool:
    """Much, drastically, significantly less.

    >>> much_less(4, 10), much_less(6, 10)
    (True, False)
    """
    return MUCH * less <= more and less < more


def orders_of_magnitude(less: float, more: float) -> bool:
    """Less by orders of magnitude.

    >>> orders_of_magnitude(1, 150), orders_of_magnitude(1, 50)
    (True, False)
    """
    return ORDERS * less <= more and less < more


def rises(values: Series) -> bool:
    """More at every step.

    >>> rises([1, 2, 3]), rises([1, 3, 2]), rises([1, 1])
    (True, False, False)
    """
    return all(one < other for one, other in pairwise(_values(values)))


def falls(values: Series) -> bool:
    """Less at every step.

    >>> falls([3, 2, 1]), falls([3, 3])
    (True, False)
    """
    return all(one > other for one, other in pairwise(_values(values)))


def tapers(values: Series) -> bool:
    """Grows less and less, by factors.

    >>> tapers([1, 4, 8, 9]), tapers([1, 2, 4, 8]), tapers([9, 8, 4])
    (True, False, False)
    """
    found = _values(values)
    return (
        min(found) > 0
        and rises(found)
        and falls([other / one for one, other in pairwise(found)])
        and len(found) > 2
    )


def mostly(found: Iterable[bool]) -> bool:
    """In more than half of the cases.

    >>> mostly([True, True, False]), mostly([True, False])
    (True, False)
    """
    cases = list(found)
    return 2 * sum(cases) > len(cases)


def exponent(values: Mapping[int, float] | Mapping[float, float]) -> float:
    """The power of x by which a series grows: 1 is linear, 2 quadratic.

    >>> round(exponent({1: 3.0, 2: 6.0, 4: 12.0}), 6), round(exponent({1: 1.0, 10: 100.0}), 6)
    (1.0, 2.0)
    """
    return linear_regression(_logarithms(values), _logarithms(values.values())).slope


def linear(values: Mapping[int, float] | Mapping[float, float]) -> bool:
    """In proportion to x.

    >>> linear({1: 1.0, 2: 2.1, 4: 4.0}), linear({1: 1.0, 2: 4.0, 4: 16.0}), linear({1: 0.0, 2: 1.0})
    (True, False, False)
    """
    if min(values.values()) <= 0:
        return False
    fits = _share(_logarithms(values), _logarithms(values.values()))
    return abs(exponent(values) - 1) <= EXPONENT and fits >= FIT


def by_a_line(values: Mapping[int, float] | Mapping[float, float]) -> bool:
    """Grows by as much for every step of x, from wherever it begins.

    >>> by_a_line({1: 101.0, 2: 102.0, 4: 104.0}), by_a_line({1: 1.0, 2: 1.0, 4: 9.0, 8: 1.0})
    (True, False)
    """
    return _grows_by(list(values), list(values.values()))


def logarithmic(values: Mapping[int, float] | Mapping[float, float]) -> bool:
    """Grows as the logarithm of x.

    >>> logarithmic({16: 4.1, 64: 5.9, 256: 8.0}), logarithmic({16: 1.0, 64: 1.0, 256: 9.0})
    (True, False)
    """
    return _grows_by(_logarithms(values), list(values.values()))


def exponential(values: Mapping[int, float] | Mapping[float, float]) -> bool:
    """Grows by the same factor for the same step of x.

    >>> exponential({1: 2.0, 2: 4.1, 3: 8.0}), exponential({1: 8.0, 2: 4.0, 3: 2.0}), exponential({1: 0.0})
    (True, False, False)
    """
    return min(values.values()) > 0 and _grows_by(list(values), _logarithms(values.values()))


def _values(values: Series) -> list[float]:
    return list(values.values() if isinstance(values, Mapping) else values)


def _logarithms(values: Iterable[float]) -> list[float]:
    return [log(value) for value in values]


def _grows_by(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether a line that rises explains nearly all of how the other differs."""
    return linear_regression(one, other).slope > 0 and _share(one, other) >= FIT


def _share(one: Sequence[float], other: Sequence[float]) -> float:
    """The share of the variance that a line explains; none where nothing varies."""
    return correlation(one, other) ** 2 if len(set(other)) > 1 else 0.0

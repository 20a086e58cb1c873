"""A guess, from its form and its ranges, at the share of events that a condition lets pass.

Nothing is known of the events yet when a subscription is registered, so the numbers are rules of thumb:
equality is rare, a bound is common, a range that is narrow beside its bounds is rare, parts are independent.
They decide which of a subscription's filters is searched, and so how fast matching is, never what matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from distributary.filters.where import expression as tree
from distributary.filters.where.expression import And, Blank, Expression, Not, Or

EQUAL = 0.05
BOUND = 0.4
RARE, EVEN = 0.3, 0.5
LEAST = 0.001
LARGE = 1e300
"""Of ranges with greater numbers nothing is guessed: whole numbers may be greater than any double."""


def guess(expression: Expression) -> float:
    """The share of events for which it is true, between 0 and 1.

    >>> from distributary.filters.where.filter import WhereFilter
    >>> WhereFilter.parse("a = 1 and b > 2").selectivity < WhereFilter.parse("a > 1 or b > 2").selectivity
    True
    """
    match expression:
        case And(parts):
            return max(LEAST, prod(map(guess, parts)))
        case Or(parts):
            return min(1.0, sum(map(guess, parts)))
        case Not(part):
            return 1.0 - min(guess(part), 1.0 - LEAST)
        case tree.Compare(_, operator, _) | tree.CompareAttributes(_, operator, _):
            return {"=": EQUAL, "<>": 1.0 - EQUAL}.get(operator, BOUND)
        case tree.Between():
            return BOUND * BOUND
        case tree.In(_, literals):
            return min(EVEN, EQUAL * len(literals))
        case tree.Like() | tree.IsNull():
            return RARE
        case tree.TruthConstant(truth):
            return 1.0 if truth else LEAST
        case _:
            return EVEN


def spans(expression: Expression) -> tuple[tuple[int, int], ...]:
    """The blanks of a template that are the lower and the upper bound of one attribute, each range once."""
    lows: dict[object, int] = {}
    highs: dict[object, int] = {}
    for part in expression.parts if isinstance(expression, And) else (expression,):
        match part:
            case tree.Compare(attribute, ">" | ">=", Blank(index)):
                lows[attribute] = index
            case tree.Compare(attribute, "<" | "<=", Blank(index)):
                highs[attribute] = index
            case tree.Between(attribute, Blank(low), Blank(high)):
                lows[attribute], highs[attribute] = low, high
    return tuple((low, highs[attribute]) for attribute, low in lows.items() if attribute in highs)


def narrowed(share: float, ranges: Sequence[tuple[int, int]], values: Sequence[Any]) -> float:
    """A share for each of the ranges, given by the places of their bounds, that is as narrow as it is.

    >>> narrowed(0.16, [(0, 1)], [100, 101]) < narrowed(0.16, [(0, 1)], [100, 150]) < 0.16
    True
    """
    for low, high in ranges:
        bounds = values[low], values[high]
        if {type(bound) for bound in bounds} <= {int, float} and 0 < (size := max(map(abs, bounds))) < LARGE:
            share *= min(1.0, max(bounds[1] - bounds[0], 0) / size)
    return max(LEAST, share) if ranges else share

"""A guess, from its form alone, at the share of events that a condition lets pass.

Nothing is known of the events yet when a subscription is registered, so the numbers are rules of thumb:
equality is rare, a bound is common, parts are independent. They decide which of a subscription's filters
is searched, and so how fast matching is, never what matches.
"""

from __future__ import annotations

from math import prod

from distributary.filters.where import expression as tree
from distributary.filters.where.expression import And, Expression, Not, Or

EQUAL = 0.05
BOUND = 0.4
RARE, EVEN = 0.3, 0.5
LEAST = 0.001


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

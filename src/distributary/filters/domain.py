"""Sets of attribute values: what a condition says about one attribute, in a form that indexes can use.

A `Domain` is the set of values of one attribute for which a condition is *true* (not false and not
unknown). Every condition on a single attribute but a general LIKE is one domain, whatever mix of
comparisons, BETWEEN, IN, AND, OR and NOT it was written with. A `Conjunction` holds one domain for each
attribute it constrains, and a condition in disjunctive form is a list of conjunctions.

Ranges are disjoint and ascending, with no two that touch. Numbers are ordered as numbers, texts by code
point (which is the byte order of their UTF-8).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Numbers between two bounds; equality is a range whose bounds are equal and closed."""

    low: int | float = -inf
    high: int | float = inf
    low_open: bool = False
    high_open: bool = False


@dataclass(frozen=True, slots=True)
class TextRange:
    """Texts between two bounds; a prefix is such a range too. `high` None means no upper bound."""

    low: str = ""
    high: str | None = None
    low_open: bool = False
    high_open: bool = False


@dataclass(frozen=True, slots=True)
class Domain:
    """The values of one attribute for which a condition is true.

    `null` says whether a missing value is in it, `other` whether a value that is neither number, text nor
    boolean is (both can only come from IS NULL and IS NOT NULL).
    """

    numbers: tuple[NumberRange, ...] = ()
    texts: tuple[TextRange, ...] = ()
    booleans: tuple[bool, ...] = ()
    null: bool = False
    other: bool = False


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Domains by attribute, ascending by name, that must all contain the event's value.

    With `residual`, the domains are necessary but not sufficient: some part of the condition (a general
    LIKE, a comparison of two attributes) is in no domain, and the whole condition must be evaluated for
    an event that passes them. The domains may then even be empty.
    """

    domains: tuple[tuple[str, Domain], ...]
    residual: bool = False

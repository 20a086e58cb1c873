"""And, Or and Not: what conditions on attributes and predicates of paths are put together with.

Both trees (`where.expression`, `path.pattern`) have leaves of their own and these three above them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

P_co = TypeVar("P_co", covariant=True)


@dataclass(frozen=True, slots=True)
class And(Generic[P_co]):
    """Every part holds."""

    parts: tuple[P_co, ...]


@dataclass(frozen=True, slots=True)
class Or(Generic[P_co]):
    """At least one part holds."""

    parts: tuple[P_co, ...]


@dataclass(frozen=True, slots=True)
class Not(Generic[P_co]):
    """The part does not hold."""

    part: P_co

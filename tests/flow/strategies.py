"""The random queries and streams of `random_queries` as strategies of Hypothesis."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from distributary.flow import Catalogue, Item
from flow.random_queries import (
    KINDS,
    LATENESS,
    RANDOMS,
    SOURCES,
    Step,
    random_arrivals,
    random_catalogue,
    random_streams,
)
from flow.random_queries import events_of as events

__all__ = ["KINDS", "LATENESS", "SOURCES", "arrivals", "catalogues", "events", "streams"]


def catalogues(
    kinds: Sequence[str] = KINDS, max_operators: int = 5, queries: int = 2
) -> st.SearchStrategy[Catalogue]:
    """Valid queries of these kinds of operators over `SOURCES`."""
    return RANDOMS.map(lambda rng: random_catalogue(rng, kinds, max_operators, queries))


def streams(max_items: int = 20, span: int = 60) -> st.SearchStrategy[dict[str, list[Item]]]:
    """Items for every source."""
    return RANDOMS.map(lambda rng: random_streams(rng, max_items, span))


def arrivals(items: dict[str, list[Item]], lateness: int = LATENESS) -> st.SearchStrategy[list[Step]]:
    """An order in which none of the items is late, with watermarks among them."""
    return RANDOMS.map(lambda rng: random_arrivals(rng, items, lateness))

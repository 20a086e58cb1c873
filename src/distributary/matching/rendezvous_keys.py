"""The keys of a subscription: what an event must have, certainly, to match it.

A rendezvous plan files a subscription under one of its keys and leads every event that has the key there.
Three kinds of key can be read off the filters:

- *topic*: the levels before the first wildcard, as the fingerprint of each prefix;
- *values*: for an attribute that the condition confines, spans on a line that holds all values;
- *labels*: element and attribute names without which the path selects nothing.

Rules:

- A fingerprint stands for its text, also where two texts share one (see `rendezvous_fingerprints`).
- The line of an attribute has two sides: numbers (a boolean is 0 or 1 there), then texts, each at its
  fingerprint. An event's value is one place on one side; a missing value, NaN or a list is on neither.
- Whole numbers beyond 2^53 are rounded, as in event batches. Rounding keeps order, so a value inside a span
  stays inside when all are rounded. For the same reason open bounds are taken as closed.
- A key may be looser than the filter, never tighter.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import inf
from typing import Any, NamedTuple
from zlib import crc32

from distributary.filters.change import number_of
from distributary.filters.domain import Domain
from distributary.filters.filter import Filter
from distributary.filters.path import PathFilter
from distributary.filters.topic import TopicFilter
from distributary.filters.where import WhereFilter
from distributary.matching.rendezvous_fingerprints import fingerprint
from distributary.matching.signature import guaranteed_items

MAX_LEVELS = 16
"""Levels of a topic that can tell one part from another."""

NUMBERS, TEXTS = 0, 1
"""The sides of an attribute's line."""


class Span(NamedTuple):
    """A stretch of one side of an attribute's line, both ends included."""

    side: int
    low: float
    high: float


class Keys:
    """The keys of one subscription, each kind worked out when asked for."""

    def __init__(self, filters: Mapping[str, Filter]) -> None:
        self._filters = filters
        self.single = "change" in filters
        """Whether it must live in one part alone: what a tolerance remembers cannot be divided."""

    @cached_property
    def topic(self) -> tuple[int, ...]:
        """The fingerprint of every prefix of fixed levels, the shortest first; empty when there is none."""
        filter = self._filters.get("topic")
        if not isinstance(filter, TopicFilter):
            return ()
        found = []
        separator = b""
        state = 0
        for level in filter.fixed[:MAX_LEVELS]:
            state = crc32(separator + level.encode(), state)
            found.append(state)
            separator = b"/"
        return tuple(found)

    @cached_property
    def values(self) -> dict[str, tuple[Span, ...]]:
        """By attribute, the spans outside of which no value matches."""
        filter = self._filters.get("where")
        if not isinstance(filter, WhereFilter):
            return {}
        return {
            name: spans_of(domain)
            for name, domain in filter.confines.items()
            if not domain.null and not domain.other
        }

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names that a document must have, sorted."""
        filter = self._filters.get("path")
        if not isinstance(filter, PathFilter):
            return ()
        return tuple(sorted(item for item in guaranteed_items(filter) if isinstance(item, str)))

    def to_record(self) -> list[Any]:
        """All that is known, for JSON."""
        return [self.topic, self.values, self.labels, self.single]

    @classmethod
    def from_record(cls, record: list[Any]) -> Keys:
        keys = cls({})
        topic, values, labels, keys.single = record
        # A cached property is a plain attribute once it is set.
        keys.__dict__["topic"] = tuple(topic)
        keys.__dict__["values"] = {
            name: tuple([Span(*span) for span in spans]) for name, spans in values.items()
        }
        keys.__dict__["labels"] = tuple(labels)
        return keys


def spans_of(domain: Domain) -> tuple[Span, ...]:
    """The spans that hold every value of the domain, missing values and the like aside.

    Texts keep no order on their side, so that a range of texts is all of that side.

    >>> from distributary.filters.where import WhereFilter
    >>> spans_of(WhereFilter.parse("a between 1 and 2 or a = true").confines["a"])
    (Span(side=0, low=1.0, high=2.0), Span(side=0, low=1.0, high=1.0))
    """
    spans = [Span(NUMBERS, _rounded(r.low), _rounded(r.high)) for r in domain.numbers]
    spans += [Span(NUMBERS, float(truth), float(truth)) for truth in domain.booleans]
    for texts in domain.texts:
        if texts.low == texts.high and not texts.low_open and not texts.high_open:
            place = float(fingerprint(texts.low))
            spans.append(Span(TEXTS, place, place))
        else:
            spans.append(Span(TEXTS, -inf, inf))
    return tuple(spans)


def _rounded(bound: int | float) -> float:
    if bound.__class__ is float:
        return bound
    rounded = number_of(bound)
    assert rounded is not None, "the bounds of a domain are numbers"
    return rounded

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
from math import inf
from typing import Any
from zlib import crc32

from distributary.filters.change import number_of
from distributary.filters.filter import Filter
from distributary.filters.path.filter import PathFilter
from distributary.filters.topic import TopicFilter
from distributary.filters.where.domain import Domain
from distributary.filters.where.filter import WhereFilter
from distributary.matching.rendezvous.fingerprints import fingerprint

MAX_LEVELS = 16
"""Levels of a topic that can tell one part from another."""

NUMBERS, TEXTS = 0, 1
"""The sides of an attribute's line."""


Span = tuple[int, float, float]
"""A stretch of an attribute's line: the side, the lowest and the highest place, both included."""


class Keys:
    """The keys of one subscription, each kind worked out when asked for."""

    __slots__ = ("_filters", "_labels", "_topic", "_values", "single")

    def __init__(self, filters: Mapping[str, Filter]) -> None:
        self._filters = filters
        self._topic: tuple[int, ...] | None = None
        self._values: dict[str, tuple[Span, ...]] | None = None
        self._labels: tuple[str, ...] | None = None
        self.single = "change" in filters
        """Whether it must live in one part alone: what a tolerance remembers cannot be divided."""

    @property
    def topic(self) -> tuple[int, ...]:
        """The fingerprint of every prefix of fixed levels, the shortest first; empty when there is none."""
        if self._topic is None:
            filter = self._filters.get("topic")
            self._topic = prefixes(filter.fixed) if isinstance(filter, TopicFilter) else ()
        return self._topic

    @property
    def values(self) -> dict[str, tuple[Span, ...]]:
        """By attribute, the spans outside of which no value matches."""
        if self._values is None:
            filter = self._filters.get("where")
            confined = filter.confines if isinstance(filter, WhereFilter) else {}
            self._values = {
                name: spans_of(domain)
                for name, domain in confined.items()
                if not domain.null and not domain.other
            }
        return self._values

    @property
    def labels(self) -> tuple[str, ...]:
        """The names that a document must have."""
        if self._labels is None:
            filter = self._filters.get("path")
            self._labels = filter.certain_labels if isinstance(filter, PathFilter) else ()
        return self._labels

    def to_record(self) -> list[Any]:
        """All that is known, for JSON."""
        return [self.topic, self.values, self.labels, self.single]

    @classmethod
    def from_record(cls, record: list[Any]) -> Keys:
        keys = cls({})
        topic, values, labels, keys.single = record
        keys._topic, keys._labels = tuple(topic), tuple(labels)
        keys._values = {
            name: tuple([(side, low, high) for side, low, high in spans]) for name, spans in values.items()
        }
        return keys


def prefixes(levels: tuple[str, ...]) -> tuple[int, ...]:
    """The fingerprints of the first level, of the first two, and so on, as far as they can matter."""
    state = crc32(levels[0].encode()) if levels else 0
    found = [state] if levels else []
    for level in levels[1:MAX_LEVELS]:
        state = crc32(b"/" + level.encode(), state)
        found.append(state)
    return tuple(found)


def spans_of(domain: Domain) -> tuple[Span, ...]:
    """The spans that hold every value of the domain, missing values and the like aside.

    Texts keep no order on their side, so that a range of texts is all of that side.

    >>> from distributary.filters.where.filter import WhereFilter
    >>> spans_of(WhereFilter.parse("a between 1 and 2 or a = true").confines["a"])
    ((0, 1.0, 2.0), (0, 1.0, 1.0))
    """
    spans: list[Span] = [(NUMBERS, _rounded(r.low), _rounded(r.high)) for r in domain.numbers]
    if domain.booleans:
        spans += [(NUMBERS, float(truth), float(truth)) for truth in domain.booleans]
    for texts in domain.texts:
        if texts.low == texts.high and not texts.low_open and not texts.high_open:
            place = float(fingerprint(texts.low))
            spans.append((TEXTS, place, place))
        else:
            spans.append((TEXTS, -inf, inf))
    return tuple(spans)


def _rounded(bound: int | float) -> float:
    if bound.__class__ is float:
        return bound
    rounded = number_of(bound)
    assert rounded is not None, "the bounds of a domain are numbers"
    return rounded

"""The keys of a subscription: what an event must have, certainly, to match it.

A rendezvous plan files a subscription under one of its keys and leads every event that has the key there.
Three kinds of key can be read off the filters:

- *topic*: the levels before the first wildcard, as the fingerprint of each prefix;
- *values*: for an attribute that the condition confines, spans on a line that holds all values;
- *labels*: element and attribute names without which the path selects nothing.

Rules:

- A fingerprint is the CRC-32 of a text, the same in Python and in kernels. Texts that share one are the same
  to a plan, which must be harmless wherever fingerprints are used. A CRC is computed byte by byte, so the
  fingerprints of all prefixes of a topic cost one pass over it.
- The line of an attribute has two sides: numbers (a boolean is 0 or 1 there, times are as in event batches),
  then texts, each at its fingerprint. An operation is an attribute too, unless it depends on the clock. An
  event's value is one place on one side; a missing value, NaN or a list is on neither.
- Whole numbers beyond 2^53 are rounded, as in event batches. Rounding keeps order, so a value inside a span
  stays inside when all are rounded. For the same reason open bounds are taken as closed.
- A key may be looser than the filter, never tighter.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import inf
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from distributary.filters.change import number_of
from distributary.filters.filter import Filter
from distributary.filters.path.filter import PathFilter
from distributary.filters.topic import TopicFilter
from distributary.filters.where.domain import Domain
from distributary.filters.where.filter import WhereFilter
from distributary.kernel import Bytes, kernel, sealed

MAX_LEVELS = 16
"""Levels of a topic that can tell one part from another."""

NUMBERS, TEXTS = 0, 1
"""The sides of an attribute's line."""

Span = tuple[int, float, float]
"""A stretch of an attribute's line: the side, the lowest and the highest place, both included."""

TIME_SLACK = 512.0
"""What is added to spans of times on either side, more than their rounding to doubles."""
MIXER = 0x9E3779B1
MASK = 0xFFFFFFFF
EMPTY = np.uint32(MASK)
"""The state of a fingerprint in a kernel before the first byte."""
BYTE = np.uint32(255)
SHIFT = np.uint32(8)

CRC_TABLE = sealed(np.array([crc32(bytes([255 - byte])) ^ 0xFF000000 for byte in range(256)], np.uint32))
"""The table of CRC-32, read off the CRCs of single bytes."""


class SubscriptionKeys:
    """The keys of one subscription, each kind worked out when it is first asked for."""

    def __init__(self, filters: Mapping[str, Filter]) -> None:
        self._filters = filters
        self.single = "change" in filters
        """Whether it must live in one part alone: what a tolerance remembers cannot be divided."""

    @cached_property
    def topic(self) -> tuple[int, ...]:
        """The fingerprint of every prefix of fixed levels, the shortest first; empty when there is none."""
        filter = self._filters.get("topic")
        return _prefixes(filter.fixed) if isinstance(filter, TopicFilter) else ()

    @cached_property
    def values(self) -> dict[str, tuple[Span, ...]]:
        """By attribute, the spans outside of which no value matches."""
        filter = self._filters.get("where")
        confined = filter.confines if isinstance(filter, WhereFilter) else {}
        return {
            name: spans_of(domain)
            for name, domain in confined.items()
            if not domain.null and not domain.other and "now()" not in name
        }

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names that a document must have."""
        filter = self._filters.get("path")
        return filter.certain_labels if isinstance(filter, PathFilter) else ()

    def to_record(self) -> list[Any]:
        """All keys, for JSON."""
        return [self.topic, self.values, self.labels, self.single]

    @classmethod
    def from_record(cls, record: list[Any]) -> SubscriptionKeys:
        """The keys that `to_record` gave, as JSON gives them back."""
        keys = cls({})
        topic, values, labels, keys.single = record
        keys.topic, keys.labels = tuple(topic), tuple(labels)
        keys.values = {
            name: tuple([(side, low, high) for side, low, high in spans]) for name, spans in values.items()
        }
        return keys


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
    for unit, ranges in ((1000, domain.instants), (1000, domain.durations), (1, domain.times)):
        spans += [(NUMBERS, r.low / unit - TIME_SLACK, r.high / unit + TIME_SLACK) for r in ranges]
    for texts in domain.texts:
        if texts.low == texts.high and not texts.low_open and not texts.high_open:
            place = float(fingerprint(texts.low))
            spans.append((TEXTS, place, place))
        else:
            spans.append((TEXTS, -inf, inf))
    return tuple(spans)


def fingerprint(text: str) -> int:
    """The CRC-32 of the text in UTF-8."""
    return crc32(text.encode())


def spread(fingerprint: int, count: int) -> int:
    """A number below `count` for a fingerprint; a CRC alone is too regular for similar texts.

    >>> 0 <= spread(fingerprint("s1"), 10) < 10
    True
    """
    return (((fingerprint * MIXER) & MASK) * count) >> 32


spread_in_kernel = kernel(spread)


@kernel
def extended(state: Any, byte: Any, table: NDArray[np.uint32]) -> Any:
    """The state of a fingerprint after one more byte; `table` is `CRC_TABLE`."""
    return table[(state ^ np.uint32(byte)) & BYTE] ^ (state >> SHIFT)


@kernel
def finished(state: Any) -> Any:
    """The fingerprint of the bytes that led to this state."""
    return np.int64(state ^ EMPTY)


@kernel
def text_fingerprint(data: Bytes, start: int, end: int, table: NDArray[np.uint32]) -> Any:
    """`fingerprint` of `data[start:end]`, for kernels."""
    state = EMPTY
    for at in range(start, end):
        state = extended(state, data[at], table)
    return finished(state)


def _prefixes(levels: tuple[str, ...]) -> tuple[int, ...]:
    """The fingerprints of the first level, of the first two, and so on, as far as they can matter."""
    found: list[int] = []
    for level in levels[:MAX_LEVELS]:
        found.append(crc32(b"/" + level.encode(), found[-1]) if found else fingerprint(level))
    return tuple(found)


def _rounded(bound: int | float) -> float:
    if bound.__class__ is float:
        return bound
    rounded = number_of(bound)
    assert rounded is not None, "the bounds of a domain are numbers"
    return rounded

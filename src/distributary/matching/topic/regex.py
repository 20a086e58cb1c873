"""The regular-expression algorithm: every filter is tried on every topic (section III.B of the topic paper).

A filter becomes one compiled regular expression: values are escaped, a wildcard is any number of characters
other than `/`, and the end is that of the topic (closed) or of a level (open). A filter in our syntax
passes over a leading slash. Filters with the same text share one expression. No flag is needed for line
breaks within values: neither `[^/]` nor `\\Z` treats them
apart.

Match: O(n) evaluations for n distinct filters, each linear in the topic. Add and remove: O(1) beside the
compilation of the expression. Memory: O(n).
"""

from __future__ import annotations

import re
from typing import ClassVar

from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.matching.topic.index import TopicIndex


class TopicRegex(TopicIndex):
    """The regular-expression matcher of the topic paper.

    >>> index = TopicRegex()
    >>> index.add(7, TopicFilter.parse("Streams/Sensor/*/Pressure"))
    >>> index.destinations("Streams/Sensor/Fluid/Pressure")
    [7]
    """

    name: ClassVar[str] = "regex"

    def __init__(self) -> None:
        super().__init__()
        self._expressions: dict[str, tuple[re.Pattern[str], set[int]]] = {}

    def insert(self, slot: int, filter: TopicFilter) -> None:
        """Compile the expression, unless an equal filter has it already."""
        known = self._expressions.get(filter.text)
        if known is None:
            known = self._expressions[filter.text] = (re.compile(expression(filter)), set())
        known[1].add(slot)

    def discard(self, slot: int, filter: TopicFilter) -> None:
        """Take the slot off its expression, and drop one that no slot needs."""
        _, slots = self._expressions[filter.text]
        slots.discard(slot)
        if not slots:
            del self._expressions[filter.text]

    def destinations(self, topic: str) -> list[int]:
        """Try every expression."""
        found: list[int] = []
        for pattern, slots in self._expressions.values():
            if pattern.match(topic):
                found.extend(slots)
        return found

    def structure(self) -> object:
        """The expressions with their slots."""
        return self._expressions


def expression(filter: TopicFilter) -> str:
    r"""The regular expression that matches, from its start, each topic the filter matches.

    >>> print(expression(TopicFilter.parse("A/*/C")))
    /?A/[^/]*/C(?:/|\Z)
    """
    levels = "/".join("[^/]*" if level == WILDCARD else re.escape(level) for level in filter.levels)
    start = "/?" if not filter.mqtt else r"(?!\$)" if filter.levels[0] == WILDCARD else ""
    return start + levels + (r"(?:/|\Z)" if filter.open else r"\Z")

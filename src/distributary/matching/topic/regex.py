"""The regular-expression algorithm: every filter is tried on every topic (section III.B of the topic paper).

A filter becomes one compiled regular expression: values are escaped, a wildcard is any number of characters
other than `/`, and the end is that of the topic (closed) or of a level (open). A filter in our syntax
passes over a leading slash. Filters with the same text share one expression. No flag is needed for line
breaks within values: neither `[^/]` nor `\\Z` treats them
apart.

A stream fragment goes to a destination once, so the paper does not evaluate the expressions of destinations
that are found already: `subscribers` does that for who asks for subscribers alone. `destinations` has to say
which subscriptions match, so it tries them all.

Match: O(n) evaluations for n distinct filters, each linear in the topic; of subscribers, one that
matches for each who is found, and all of the others'. Add and remove: O(1) beside the
compilation of the expression. Memory: O(n).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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

    def subscribers(self, topic: str, slots_of: Mapping[str, Iterable[int]]) -> list[str]:
        """Who wants a topic, given the slots of each subscriber; one who is found is not tried again.

        >>> index = TopicRegex()
        >>> index.add_many([0, 1, 2], map(TopicFilter.parse, ["A/B", "A", "X"]))
        >>> index.subscribers("A/B", {"ann": [0, 1], "bob": [2]})
        ['ann']
        """
        tried: dict[str, bool] = {}

        def matches(text: str) -> bool:
            if text not in tried:
                tried[text] = self._expressions[text][0].match(topic) is not None
            return tried[text]

        return [who for who, slots in slots_of.items() if any(matches(self._texts[slot]) for slot in slots)]

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

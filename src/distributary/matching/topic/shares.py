"""A better guess at the share of events that a topic filter lets pass: from what others ask for.

A filter's own guess knows only how many levels it has. Where many subscriptions have topics and conditions,
their topics say more: topics are published about as often as they are asked for, so that the share of filters
which begin as this one does stands for the share of events. It decides which filter is searched, never what
matches.
"""

from __future__ import annotations

from collections import Counter

from distributary.filters.topic import TopicFilter

FEWEST = 100
"""So many filters must have been seen before they say anything."""
MOST_BEGINNINGS = 1 << 18
"""Beginnings of topics that are counted; then counting starts anew."""


class TopicShares:
    """Counts how topic filters begin.

    >>> shares = TopicShares()
    >>> for number in range(200):
    ...     share = shares.add(TopicFilter.parse(f"plant/{number % 50}"))
    >>> share, shares.add(TopicFilter.parse("plant"))
    (0.02, 0.3)
    """

    def __init__(self) -> None:
        self._count = 0
        self._beginnings: Counter[int] = Counter()
        """By the hash of first levels, how many filters begin with them: two that share one do no harm."""

    def add(self, filter: TopicFilter) -> float:
        """Count a filter; returns the share of events that it is guessed to let pass."""
        if len(self._beginnings) > MOST_BEGINNINGS:
            self._count = 0
            self._beginnings.clear()
        fixed, beginnings = filter.fixed, self._beginnings
        self._count += 1
        for length in range(1, len(fixed) + 1):
            beginnings[hash(fixed[:length])] += 1
        if self._count < FEWEST or not fixed:
            return filter.selectivity
        return min(filter.selectivity, beginnings[hash(fixed)] / self._count)

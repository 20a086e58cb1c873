"""The hashing algorithm: construct the filters that would match, and look them up.

Section III.C and Figures 2 and 3 of the topic paper.

- The subscription dictionary is keyed by the constraint: the levels joined by `/`, the wildcard as a level
  that no value equals (`WILDCARD`). Open and closed filters have a dictionary each. Constraints in MQTT's
  syntax have first levels of their own (`labels_of`), because they see other levels of a topic than ours.
- Per first level, an array counts wildcards: `counts[i]` is the number of subscriptions with a wildcard at
  level i (from 2 on) and `counts[1]`, where the paper's filters can have none, the number of subscriptions.
  At zero the array is reclaimed. It is as long as the deepest filter it has counted, so that levels of an
  event beyond that construct nothing.
- An event extends each candidate with its own value and, where a wildcard has been counted, with the
  wildcard (FINERRECURSION; here level by level, so that no depth exhausts the stack).
- A filter whose first level is a wildcard (MQTT) is counted under the wildcard, as one more first level.
- The paper bounds the depth (maxAttributeDepth): the candidates double with each level that carries a
  wildcard. Candidates here have at most `max_depth` levels too. The paper has no deeper subscriptions; here
  they are entered under their first `max_depth` levels, and where those are found, compared themselves.

Match: O(2^w) lookups for w levels up to `max_depth` that carry wildcards, independent of the number of
filters up to that depth; a deeper filter costs a comparison where its first levels match. Add and remove:
O(m) for m levels. Memory: O(n) whatever the depth, beside the text of each constraint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.matching.topic.index import TopicIndex, labels_of, labels_seen

SUBSCRIPTIONS = 1
"""Where a wildcard-counts array keeps the number of subscriptions. Index 0 is unused, as in the paper."""

MAX_DEPTH = 10
"""How many levels a candidate has at most: as many as the deepest subscriptions of the paper (IV.B.2)."""


class TopicHash(TopicIndex):
    """The hashing matcher of the topic paper.

    >>> index = TopicHash()
    >>> index.add(7, TopicFilter.parse("Streams/Sensor/*/Pressure"))
    >>> index.destinations("Streams/Sensor/Fluid/Pressure")
    [7]
    >>> index.wildcard_counts("Streams")
    (0, 1, 0, 1, 0)
    """

    name: ClassVar[str] = "hash"

    def __init__(self, max_depth: int = MAX_DEPTH) -> None:
        super().__init__()
        self._max_depth = max_depth
        self._open: dict[str, set[int]] = {}
        self._closed: dict[str, set[int]] = {}
        self._deeper: dict[str, set[int]] = {}
        """The slots of filters beyond `max_depth`, by the constraint that their first levels make."""
        self._counts: dict[str, list[int]] = {}

    def wildcard_counts(self, first: str) -> tuple[int, ...] | None:
        """The wildcard-counts array of a first level; None when nothing is subscribed there."""
        counts = self._counts.get(first)
        return None if counts is None else tuple(counts)

    def insert(self, slot: int, filter: TopicFilter) -> None:
        """Count the wildcards, and enter the constraint into the dictionary."""
        dictionary, levels = self._entry(filter)
        counts = self._counts.setdefault(levels[0], [0, 0])
        counts.extend([0] * (len(levels) + 1 - len(counts)))
        self._count(counts, levels, 1)
        dictionary.setdefault("/".join(levels), set()).add(slot)

    def discard(self, slot: int, filter: TopicFilter) -> None:
        """Undo `insert`; what is empty then is removed."""
        dictionary, levels = self._entry(filter)
        counts = self._counts[levels[0]]
        self._count(counts, levels, -1)
        if not counts[SUBSCRIPTIONS]:
            del self._counts[levels[0]]
        constraint = "/".join(levels)
        dictionary[constraint].discard(slot)
        if not dictionary[constraint]:
            del dictionary[constraint]

    def destinations(self, topic: str) -> list[int]:
        """Construct the constraints that would match, level by level, and look them up."""
        found: list[int] = []
        for firsts, values in labels_seen(topic):
            for depth, candidates in self._constructed(firsts, values):
                for constraint in self._open.keys() & candidates:
                    found.extend(self._open[constraint])
                if depth == len(values):
                    for constraint in self._closed.keys() & candidates:
                        found.extend(self._closed[constraint])
                elif depth == self._max_depth:
                    for constraint in self._deeper.keys() & candidates:
                        slots = self._deeper[constraint]
                        found.extend(slot for slot in slots if self.filter(slot).matches_topic(topic))
        return found

    def candidates(self, topic: str) -> set[str]:
        """The constraints that a topic constructs, with `*` for the wildcard; those of MQTT's begin with `/`.

        >>> index = TopicHash()
        >>> index.add(1, TopicFilter.parse("A/*"))
        >>> sorted(index.candidates("A/B/C"))
        ['A', 'A/*', 'A/B']
        """
        return {
            candidate.replace(WILDCARD, "*")
            for firsts, values in labels_seen(topic)
            for _, candidates in self._constructed(firsts, values)
            for candidate in candidates
        }

    def structure(self) -> object:
        """The dictionaries and the wildcard counts."""
        return (self._open, self._closed, self._deeper, self._counts)

    def _entry(self, filter: TopicFilter) -> tuple[dict[str, set[int]], tuple[str, ...]]:
        """The dictionary that a filter belongs to, and the levels of its constraint there."""
        levels = labels_of(filter)
        if len(levels) > self._max_depth:
            return self._deeper, levels[: self._max_depth]
        return (self._open if filter.open else self._closed), levels

    def _constructed(self, firsts: tuple[str, ...], values: list[str]) -> Iterator[tuple[int, list[str]]]:
        """The candidates of each depth, from the first level down."""
        for first in firsts:
            counts = self._counts.get(first)
            if counts is None:
                continue
            candidates = [first]
            yield 1, candidates
            for depth in range(2, min(len(values) + 1, len(counts))):
                value = "/" + values[depth - 1]
                finer = [coarser + value for coarser in candidates]
                if counts[depth]:
                    finer += [coarser + "/" + WILDCARD for coarser in candidates]
                candidates = finer
                yield depth, candidates

    @staticmethod
    def _count(counts: list[int], levels: tuple[str, ...], change: int) -> None:
        counts[SUBSCRIPTIONS] += change
        for at in range(1, len(levels)):
            if levels[at] == WILDCARD:
                counts[at + 1] += change

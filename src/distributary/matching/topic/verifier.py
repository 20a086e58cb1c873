"""Topic filters that are asked only about pairs another kind's index has found.

Nothing is compiled: the canonical text of a filter is compared with the bytes of the topic. Each pair costs
time linear in the shorter of the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from distributary.filters.topic import TopicFilter
from distributary.kernel import Bytes, Flags, Ints, Longs, kernel, read_table, sealed, sealed_table
from distributary.matching.batch import EventBatch
from distributary.matching.bound import array_at
from distributary.matching.columns import Strings
from distributary.matching.gathering import Gatherer, TextGatherer
from distributary.matching.index import Arrays
from distributary.matching.layers import (
    OWN_ARRAYS,
    TEXTS,
    CompiledSegment,
    Verifier,
    is_at_home,
    live_slots,
)
from distributary.matching.memory import prefetch
from distributary.matching.single import SingleEvent
from distributary.matching.topic.text import FilterTexts, agrees

FETCHED = 64
"""Pairs whose filters are fetched before the first of them is checked."""


class TopicVerifier(Verifier[TopicFilter]):
    """Does this row's topic pass that slot's filter?"""

    filter_class: ClassVar[type[Any]] = TopicFilter

    def gatherer(self) -> TextGatherer[TopicFilter]:
        """The texts are kept by the layers."""
        return TextGatherer()

    def compile_gathered(self, gathered: Gatherer[TopicFilter]) -> Arrays:
        """Nothing."""
        return {}

    def searched(self, segment: CompiledSegment) -> Iterable[tuple[NDArray[Any], DTypeLike]]:
        """The texts of the filters."""
        return zip(read_table(FilterTexts, segment.readable, TEXTS), (np.uint8, np.int64), strict=True)

    def passing_in(self, number: int, segment: CompiledSegment, single: SingleEvent, slots: Ints) -> Ints:
        """Compare each text with the event's topic."""
        if single.topic is None:
            elsewhere: Ints = slots[self.homes_of(slots) != number]
            return elsewhere
        bound = self.bound(segment)
        return slots[: _keep(number, bound.words, single.topic, slots)]

    def check(self, segment: CompiledSegment, batch: EventBatch, rows: Ints, positions: Ints) -> Flags:
        """Compare each pair's text with its topic."""
        if batch.topics is None:
            return np.zeros(len(rows), np.bool_)
        texts = read_table(FilterTexts, segment.readable, TEXTS)
        return _check(sealed_table(batch.topics), texts, sealed(rows), sealed(positions))


@kernel
def _keep(number: int, words: Longs, topic: Bytes, slots: Ints) -> int:
    """Move the slots that a topic passes, and those at home elsewhere, to the front; how many they are."""
    live = live_slots(words)
    texts = FilterTexts(array_at(words, OWN_ARRAYS, np.uint8), array_at(words, OWN_ARRAYS + 1, np.int64))
    for slot in slots:
        prefetch(live.home, slot)
        prefetch(live.place, slot)
    for slot in slots:
        if is_at_home(live, number, slot):
            prefetch(texts.offsets, live.place[slot])
    for slot in slots:
        if is_at_home(live, number, slot):
            prefetch(texts.bytes, texts.offsets[live.place[slot]])
    kept = 0
    for slot in slots:
        if not is_at_home(live, number, slot) or agrees(texts, live.place[slot], topic, 0, len(topic)):
            slots[kept] = slot
            kept += 1
    return kept


@kernel
def _check(topics: Strings, texts: FilterTexts, rows: Ints, positions: Ints) -> Flags:
    """For each pair whether the row's topic passes the filter; filters are fetched before, in lots."""
    passed = np.zeros(len(rows), np.bool_)
    for first in range(0, len(rows), FETCHED):
        last = min(first + FETCHED, len(rows))
        for pair in range(first, last):
            prefetch(texts.offsets, positions[pair])
        for pair in range(first, last):
            prefetch(texts.bytes, texts.offsets[positions[pair]])
        for pair in range(first, last):
            row = rows[pair]
            if topics.valid[row]:
                start, end = topics.starts[row], topics.ends[row]
                passed[pair] = agrees(texts, positions[pair], topics.data, start, end)
    return passed

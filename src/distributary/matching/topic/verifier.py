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

    def verify_in(
        self, number: int, segment: CompiledSegment, batch: EventBatch, rows: Ints, slots: Ints, passed: Flags
    ) -> None:
        """Compare each pair's text with its topic."""
        if batch.topics is None:
            passed[self.homes_of(slots) == number] = False
            return
        topics = sealed_table(batch.topics)
        _verify(number, self.bound(segment).words, topics, sealed(rows), sealed(slots), passed)


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
def _verify(number: int, words: Longs, topics: Strings, rows: Ints, slots: Ints, passed: Flags) -> None:
    """Clear the flags of the pairs at home in that segment whose topic does not pass the filter.

    What is read of the filters is fetched before, in lots of pairs.
    """
    live = live_slots(words)
    texts = FilterTexts(array_at(words, OWN_ARRAYS, np.uint8), array_at(words, OWN_ARRAYS + 1, np.int64))
    for first in range(0, len(rows), FETCHED):
        last = min(first + FETCHED, len(rows))
        for pair in range(first, last):
            prefetch(live.home, slots[pair])
            prefetch(live.place, slots[pair])
        for pair in range(first, last):
            if is_at_home(live, number, slots[pair]):
                prefetch(texts.offsets, live.place[slots[pair]])
        for pair in range(first, last):
            if is_at_home(live, number, slots[pair]):
                prefetch(texts.bytes, texts.offsets[live.place[slots[pair]]])
        for pair in range(first, last):
            if is_at_home(live, number, slots[pair]):
                row, place = rows[pair], live.place[slots[pair]]
                start, end = topics.starts[row], topics.ends[row]
                passed[pair] = topics.valid[row] and agrees(texts, place, topics.data, start, end)

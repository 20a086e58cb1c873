"""Every short pattern of either syntax on every short topic: what a filter, an index and the verifier say.

Levels are empty, plain, or begin with `$`, so that all that sets the two syntaxes apart is here: the leading
slash, empty levels anywhere, a wildcard on each of them. The oracle is that of the properties.
"""

from __future__ import annotations

from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest

from distributary.filters.topic import TopicFilter
from distributary.matching.batch import EventBatch
from distributary.matching.engines import SEARCHED
from distributary.matching.index import Index
from distributary.matching.topic.shapes import TopicShapes
from distributary.matching.topic.verifier import TopicVerifier
from distributary.model import Event
from properties import oracle_topic

DEPTH = 3
TOPICS = [
    "/".join(levels)
    for depth in range(1, DEPTH + 1)
    for levels in product(["", "A", "$S"], repeat=depth)
    if any(levels) or depth > 1
]
TOPICS += ["mqtt:A", "/mqtt:A", "//mqtt:A", "mqtt:A/", "/mqtt:A/A"]
EVENTS = [Event(str(number), topic=topic) for number, topic in enumerate(TOPICS)]


def patterns() -> list[str]:
    """All of up to three levels that can be written."""
    found = []
    for depth, end in product(range(1, DEPTH + 1), ("", "/#")):
        for first, *rest in product(["A", "$S", "*"], repeat=depth):
            if first != "*":
                found += [start + "/".join([first, *rest]) + end for start in ("", "/")]
        for levels in product(["", "A", "$S", "+"], repeat=depth):
            found.append("mqtt:" + "/".join(levels) + end)
    return [pattern for pattern in found if pattern not in ("mqtt:", "mqtt:+/#")]


PATTERNS = patterns()
PATTERNS += [
    "/mqtt:A",
    "/mqtt:A/#",
    "/mqtt:A/*",
    "/mqtt:A/*/#",
]  # ours, by their slash
FILTERS = [TopicFilter.parse(pattern) for pattern in PATTERNS]
WANTED = [
    [slot for slot, pattern in enumerate(PATTERNS) if oracle_topic.matches(pattern, topic)]
    for topic in TOPICS
]
PAIRS = {(row, slot) for row, slots in enumerate(WANTED) for slot in slots}


class WithoutBloom(TopicShapes):
    """One key for everything, so that the texts alone decide."""

    key_bits: ClassVar[int] = 0


def test_the_patterns_are_told_apart_by_the_topics() -> None:
    assert len(PATTERNS) > 200
    assert all(0 < len(slots) < len(PATTERNS) for slots in WANTED)


def test_a_filter_matches_as_its_text_says() -> None:
    found = {
        (row, slot)
        for row, event in enumerate(EVENTS)
        for slot, filter in enumerate(FILTERS)
        if filter.matches(event)
    }
    assert found == PAIRS


@pytest.mark.parametrize("engine", [*SEARCHED["topic"], WithoutBloom])
def test_an_index_of_all_patterns_finds_each(engine: type[Index[Any]]) -> None:
    index = engine()
    index.add_many(range(len(FILTERS)), FILTERS)
    assert [index.match(event) for event in EVENTS] == WANTED


@pytest.mark.parametrize("engine", SEARCHED["topic"])
def test_an_index_of_one_pattern_finds_it(engine: type[Index[Any]]) -> None:
    """Alone, for an index may look for few patterns in another way than for many."""
    for slot, filter in enumerate(FILTERS):
        index = engine()
        index.add(slot, filter)
        rows, _ = index.match_batch(EventBatch.from_events(EVENTS))
        assert sorted(rows.tolist()) == [row for row, slots in enumerate(WANTED) if slot in slots], filter


def test_the_verifier_says_the_same_of_each_pair() -> None:
    verifier = TopicVerifier()
    verifier.add_many(range(len(FILTERS)), FILTERS)
    rows, slots = np.divmod(np.arange(len(EVENTS) * len(FILTERS), dtype=np.int32), np.int32(len(FILTERS)))
    passed = verifier.verify(EventBatch.from_events(EVENTS), rows, slots)
    found = set(zip(rows[passed].tolist(), slots[passed].tolist(), strict=True))
    assert found == PAIRS

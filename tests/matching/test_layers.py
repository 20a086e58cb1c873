"""Layers: what is compiled when, and that dead filters never speak."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from distributary.filters.topic import TopicFilter
from distributary.matching import layers
from distributary.matching.batch import EventBatch
from distributary.matching.topic.shapes import TopicShapes
from distributary.matching.topic.verifier import TopicVerifier
from distributary.model import Event

EVENT = Event("e", topic="A/B")
MATCHING, OTHER = TopicFilter.parse("A/B"), TopicFilter.parse("A/C")


def sizes(index: layers.Layers[Any]) -> list[int]:
    return [len(segment) for _, segment in index.segments()]


def test_additions_wait_until_somebody_asks() -> None:
    index = TopicShapes()
    index.add_many(range(10), [MATCHING] * 10)
    assert len(index) == 10
    assert index.match(EVENT) == list(range(10))
    assert sizes(index) == [10]


def test_small_segments_are_merged_into_larger_ones() -> None:
    index = TopicShapes()
    for slot in range(64):
        index.add(slot, MATCHING)
        index.match(EVENT)
    assert sum(sizes(index)) == 64
    assert len(sizes(index)) <= 7, "at most one segment of each power of two"
    assert index.match(EVENT) == list(range(64))


def test_large_segments_are_left_alone_until_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "SETTLED", 8)
    index = TopicShapes()
    for start in (0, 6, 12):
        index.add_many(range(start, start + 6), [MATCHING] * 6)
        index.match(EVENT)
    assert sizes(index) == [6, 6, 6]
    index.compact()
    assert sizes(index) == [18]
    assert index.match(EVENT) == list(range(18))


def test_a_segment_with_more_dead_than_live_is_compiled_again() -> None:
    index = TopicShapes()
    index.add_many(range(10), [MATCHING] * 10)
    index.match(EVENT)
    for slot in range(6):
        index.remove(slot)
    assert sizes(index) == [4]
    assert index.match(EVENT) == [6, 7, 8, 9]


def test_a_slot_used_again_speaks_with_its_new_filter_only() -> None:
    index = TopicShapes()
    index.add_many(range(10), [MATCHING] * 10)
    index.match(EVENT)
    index.remove(3)
    index.add(3, OTHER)
    assert index.match(EVENT) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert index.filter(3) == OTHER
    index.remove(3)
    with pytest.raises(KeyError):
        index.filter(3)


def test_removing_everything_leaves_an_index_that_works() -> None:
    index = TopicShapes()
    index.add(0, MATCHING)
    index.match(EVENT)
    index.remove(0)
    assert index.match(EVENT) == []
    assert type(index).open(index.freeze()).match(EVENT) == []
    index.add(0, MATCHING)
    assert index.match(EVENT) == [0]


@pytest.mark.parametrize("taken", [0, 5])
def test_a_taken_slot_and_an_empty_one_are_told(taken: int) -> None:
    index = TopicShapes()
    index.add(taken, MATCHING)
    with pytest.raises(ValueError, match="taken"):
        index.add(taken, OTHER)
    for absent in (taken + 1, 10_000):
        with pytest.raises(KeyError):
            index.remove(absent)


def test_a_verifier_lets_pass_whatever_it_holds_no_filter_for() -> None:
    verifier = TopicVerifier()
    verifier.add_many([1, 2], [MATCHING, OTHER])
    batch = EventBatch.from_events([EVENT])
    slots = np.array([0, 1, 2, 5000], np.int32)
    assert verifier.verify(batch, np.zeros(4, np.int32), slots).tolist() == [True, True, False, True]
    verifier.add(0, OTHER)
    verifier.remove(2)
    assert verifier.verify(batch, np.zeros(4, np.int32), slots).tolist() == [False, True, True, True]
    assert verifier.verify(batch, np.zeros(0, np.int32), slots[:0]).tolist() == []

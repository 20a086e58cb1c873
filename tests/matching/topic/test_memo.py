"""The memory of a topic index: never another answer, whatever is forgotten, crowded out or in vain."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.filters.topic import TopicFilter
from distributary.matching.batch import EventBatch
from distributary.matching.columns import Strings
from distributary.matching.index import Pairs
from distributary.matching.topic import memo as topic_memo
from distributary.matching.topic.memo import MOST, TopicMemo
from distributary.matching.topic.shapes import REMEMBERED, TopicShapes
from distributary.model import Event


class Remembering(TopicShapes):
    """Asks its memory about batches of any size."""

    few: ClassVar[int] = 0


TOPICS = ["", "A", "B", "A/B", "12345678", "12345678/9", "x" * 40, "x" * 39 + "y"]


def strings(texts: list[str | None]) -> Strings:
    found = Strings.from_texts(texts)
    assert found is not None
    return found


def answer(memo: TopicMemo, texts: list[str | None], takers: dict[str, list[int]]) -> list[tuple[int, int]]:
    """What is recalled and, for the rest, what `takers` say, which is learned."""
    topics = strings(texts)
    recalled = memo.recall(topics)
    assert recalled is not None
    unknown = np.flatnonzero(recalled.unknown).tolist()
    fresh = [(row, taker) for row in unknown for taker in takers[texts[row] or ""]]
    rows, slots = np.array(fresh, np.int32).reshape(-1, 2).T
    memo.learn(topics, recalled, Pairs(rows, slots))
    known = zip(recalled.pairs.rows.tolist(), recalled.pairs.slots.tolist(), strict=True)
    return sorted([*known, *fresh])


@given(
    st.lists(st.lists(st.sampled_from([None, *TOPICS]), min_size=1, max_size=12), max_size=8),
    st.sampled_from([1, 2, 64]),
    st.sampled_from([64, 200, 4096]),
    st.integers(0, 3),
)
def test_what_is_recalled_is_what_was_learned(
    batches: list[list[str | None]], lines: int, room: int, seed: int
) -> None:
    random = Random(seed)
    takers = {topic: random.sample(range(100), random.choice([0, 1, 3, MOST, MOST + 1])) for topic in TOPICS}
    memo = TopicMemo(lines, room)
    for texts in batches:
        if any(text is not None for text in texts):
            wanted = [
                (row, taker) for row, text in enumerate(texts) if text is not None for taker in takers[text]
            ]
            assert answer(memo, texts, takers) == sorted(wanted)


def test_a_topic_that_was_learned_is_not_searched_again() -> None:
    memo = TopicMemo()
    answer(memo, ["A", "B"], {"A": [7], "B": []})
    recalled = memo.recall(strings(["B", "A", "C", None]))
    assert recalled is not None
    assert recalled.unknown.tolist() == [False, False, True, False]
    assert (recalled.pairs.rows.tolist(), recalled.pairs.slots.tolist()) == ([1], [7])


def test_topics_that_do_not_come_back_are_not_looked_up_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_memo, "TRIED", 8)
    monkeypatch.setattr(topic_memo, "PAUSE", 8)
    memo = TopicMemo()
    for number in range(2):
        assert memo.recall(strings([f"{number}/{row}" for row in range(4)])) is not None
    assert [memo.recall(strings(["A"] * 4)) is None for _ in range(3)] == [True, True, False]


def test_an_index_answers_for_repeated_topics_as_it_did_before_and_after_changes() -> None:
    index = Remembering()
    patterns = [f"A/{number}/*" for number in range(REMEMBERED)]
    index.add_many(range(len(patterns)), map(TopicFilter.parse, patterns))
    events = [Event(str(row), topic=f"A/{row % 7}/x") for row in range(20)]
    batch = EventBatch.from_events(events)
    wanted = [(row, row % 7) for row in range(20)]
    for _ in range(3):
        rows, slots = index.match_batch(batch)
        assert sorted(zip(rows.tolist(), slots.tolist(), strict=True)) == wanted
    index.remove(3)
    index.add(5000, TopicFilter.parse("A/4"))
    rows, slots = index.match_batch(batch)
    changed = [pair for pair in wanted if pair[1] != 3] + [(row, 5000) for row in range(20) if row % 7 == 4]
    assert sorted(zip(rows.tolist(), slots.tolist(), strict=True)) == sorted(changed)


def test_who_finds_the_memory_in_use_searches_without_it() -> None:
    index = Remembering()
    index.add_many(range(REMEMBERED), (TopicFilter.parse(f"A/{number}") for number in range(REMEMBERED)))
    batch = EventBatch.from_events([Event("e", topic="A/5/x")])
    assert index.match_batch(batch).slots.tolist() == [5]
    ((_, segment),) = index.segments()
    with segment.memo.free:
        assert index.match_batch(batch).slots.tolist() == [5]
    assert segment.memo.free.acquire(blocking=False)

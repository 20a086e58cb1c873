"""The topic verifier: pairs that another index found."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa

from distributary.filters.topic import TopicFilter
from distributary.matching.batch import EventBatch
from distributary.matching.topic.verifier import TopicVerifier
from distributary.model import Event


def pairs(*given: int) -> np.ndarray:
    return np.array(given, np.int32)


def test_each_pair_is_answered_for_its_own_row_and_slot() -> None:
    verifier = TopicVerifier()
    verifier.add_many([3, 5], map(TopicFilter.parse, ["A/*/C", "mqtt:+/B"]))
    batch = EventBatch.from_events([Event("1", topic="A/B/C"), Event("2", topic="A/B"), Event("3")])
    passed = verifier.verify(batch, pairs(0, 0, 1, 1, 2, 2), pairs(3, 5, 3, 5, 3, 5))
    assert passed.tolist() == [True, False, False, True, False, False]


def test_a_slot_without_topic_filter_lets_all_pass() -> None:
    verifier = TopicVerifier()
    verifier.add(1, TopicFilter.parse("A"))
    batch = EventBatch.from_events([Event("1", topic="B")])
    assert verifier.verify(batch, pairs(0, 0, 0), pairs(0, 1, 99)).tolist() == [True, False, True]


def test_many_pairs_are_answered_as_each_filter_would_wherever_its_slot_has_moved() -> None:
    random = Random(7)
    texts = ["A", "A/B", "A/*/x", "AB/*", "AB/CD/x", "B/E", "mqtt:+/B/x", "mqtt:#", "mqtt:AB/+"]
    held: dict[int, TopicFilter] = {}
    verifier = TopicVerifier()
    for slots in (range(40), range(30, 45), range(35, 38)):  # three segments; the later ones take slots over
        for slot in slots:
            if slot in held:
                verifier.remove(slot)
            held[slot] = TopicFilter.parse(random.choice(texts))
            verifier.add(slot, held[slot])
        assert list(verifier.segments())
    assert len(list(verifier.segments())) == 3
    topics = [None, *(f"{first}/{second}/x" for first in ("A", "AB", "B") for second in ("B", "CD", "E"))]
    events = [Event(str(number), topic=topic) for number, topic in enumerate(topics)]
    asked = [(random.randrange(len(events)), random.randrange(60)) for _ in range(500)]
    rows, slots = (pairs(*each) for each in zip(*asked, strict=True))
    passed = verifier.verify(EventBatch.from_events(events), rows, slots)
    expected = [slot not in held or held[slot].matches(events[row]) for row, slot in asked]
    assert passed.tolist() == expected


def test_a_batch_without_topics_passes_no_topic_filter() -> None:
    verifier = TopicVerifier()
    verifier.add(0, TopicFilter.parse("A"))
    batch = EventBatch.from_table(pa.table({"id": ["1"]}))
    assert verifier.verify(batch, pairs(0), pairs(0)).tolist() == [False]


def test_nothing_is_stored_beside_the_texts() -> None:
    verifier = TopicVerifier()
    verifier.add(0, TopicFilter.parse("A"))
    (segment,) = (segment for _, segment in verifier.segments())
    assert segment.arrays == {}

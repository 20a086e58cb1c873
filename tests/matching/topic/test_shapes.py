"""Our topic index: shapes, collisions, duplicates and many shapes, against the tree."""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np
import pytest

from distributary.filters.topic import TopicFilter
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.index import Arrays
from distributary.matching.topic.shapes import LEAST_HITS, TopicShapes
from distributary.matching.topic.tree import TopicTree
from distributary.matching.topic.trie import CHECKED
from distributary.model import MAX_TOPIC_LEVELS, Event
from distributary.workloads import topics


class Colliding(TopicShapes):
    """Keys of three bits."""

    key_bits: ClassVar[int] = 3


class Many(TopicShapes):
    """Searches for each batch, however small, as for a large one."""

    few: ClassVar[int] = 0


def shapes(*patterns: str, kind: type[TopicShapes] = TopicShapes) -> TopicShapes:
    index = kind()
    index.add_many(range(len(patterns)), map(TopicFilter.parse, patterns))
    return index


def compiled(index: TopicShapes) -> Arrays:
    index.compact()
    (segment,) = (segment for _, segment in index.segments())
    return segment.arrays


@pytest.mark.parametrize("kind", [TopicShapes, Colliding, Many])
@pytest.mark.parametrize("drawn", [None, 300])
def test_the_papers_workload_and_many_shapes_are_answered_as_by_the_tree(
    kind: type[TopicShapes], drawn: int | None
) -> None:
    subscriptions = topics.subscriptions(3_000, seed=3, levels=8, values=3, wildcards=2, shapes=drawn)
    patterns = [subscription.topic or "" for subscription in subscriptions]
    index, tree = shapes(*patterns, kind=kind), TopicTree()
    tree.add_many(range(len(patterns)), map(TopicFilter.parse, patterns))
    events = list(topics.events(60, seed=4, levels=8, values=3))
    rows, slots = index.match_batch(EventBatch.from_events(events))
    pairs = sorted(zip(rows.tolist(), slots.tolist(), strict=True))
    assert pairs == [(row, slot) for row, event in enumerate(events) for slot in tree.match(event)]
    assert pairs


def test_forced_collisions_do_collide() -> None:
    patterns = [f"A/{number}" for number in range(50)]
    arrays = compiled(shapes(*patterns, kind=Colliding))
    assert np.diff(arrays["buckets"]).max() == 50
    assert len(np.unique(arrays["marks"])) <= 8


def test_equal_filters_are_one_entry() -> None:
    arrays = compiled(shapes("A/*", "B", "A/*", "/A/*", "A/*/#"))
    assert len(arrays["marks"]) == 3
    assert sorted(np.diff(arrays["members"]).tolist()) == [1, 1, 3]


def test_many_equal_filters_are_all_found() -> None:
    index = shapes(*["A/*"] * 5_000)
    assert index.match(Event("e", topic="A/B")) == list(range(5_000))


@pytest.mark.parametrize("kind", [TopicShapes, Many])
def test_rows_with_more_hits_than_there_is_room_for_are_answered_in_full(kind: type[TopicShapes]) -> None:
    levels = [["A"], *[[f"{number}", "*"] for number in range(11)]]
    patterns = ["/".join(pattern) for pattern in itertools.product(*levels)]
    assert len(patterns) > LEAST_HITS
    hit = "/".join(level[0] for level in levels)
    events = [Event(str(number), topic=topic) for number, topic in enumerate([hit, "B", hit, hit])]
    rows, slots = shapes(*patterns, kind=kind).match_batch(EventBatch.from_events(events))
    found = sorted(zip(rows.tolist(), slots.tolist(), strict=True))
    assert found == [(row, slot) for row in (0, 2, 3) for slot in range(len(patterns))]


@pytest.mark.parametrize("kind", [TopicShapes, Many])
def test_what_was_removed_or_replaced_is_found_no_more(kind: type[TopicShapes]) -> None:
    index = shapes(*["A"] * 6, kind=kind)
    batch = EventBatch.from_events([Event("e", topic="A"), Event("f", topic="A/B")])
    assert index.match_batch(batch).slots.tolist() == [0, 1, 2, 3, 4, 5] * 2
    index.remove(2)
    index.remove(4)
    index.add(4, TopicFilter.parse("A/B"))
    rows, slots = index.match_batch(batch)
    found = sorted(zip(rows.tolist(), slots.tolist(), strict=True))
    assert found == [(0, 0), (0, 1), (0, 3), (0, 5), (1, 0), (1, 1), (1, 3), (1, 4), (1, 5)]


def test_prefixes_are_known_only_where_shapes_are_many() -> None:
    few = [subscription.topic or "" for subscription in topics.subscriptions(500, seed=5)]
    many = [subscription.topic or "" for subscription in topics.subscriptions(500, seed=5, shapes=100)]
    assert not np.any(compiled(shapes(*few))["flags"] & CHECKED)
    assert np.any(compiled(shapes(*many))["flags"] & CHECKED)


def test_an_event_deeper_than_every_filter_finds_them_all() -> None:
    index = shapes("A", "A/B", "A/B/#", "A/*/C")
    assert index.match(Event("e", topic="A/B/C/D/E/F")) == [0, 1, 3]


def test_a_batch_without_topics_or_rows_finds_nothing() -> None:
    index = shapes("A")
    assert len(index.match_batch(EventBatch.from_events([])).rows) == 0
    assert len(index.match_batch(EventBatch.from_events([Event("e")])).rows) == 0
    assert len(TopicShapes().match_batch(EventBatch.from_events([Event("e", topic="A")])).rows) == 0


def test_the_syntaxes_have_shapes_of_their_own() -> None:
    arrays = compiled(shapes("A/*", "mqtt:A/+/#"))
    assert len(arrays["marks"]) == len(set(arrays["marks"].tolist())) == 2
    assert arrays["ends"].tolist() == [5, 3, 3, 5, 5], "two trees under one root"


def test_a_topic_with_a_leading_slash_is_seen_both_ways() -> None:
    index = shapes("A/*", "mqtt:A/+", "mqtt:/A/+", "mqtt:+/+/#", "mqtt:/#")
    assert index.match(Event("e", topic="/A/B")) == [0, 2, 3, 4]
    assert index.match(Event("e", topic="A/B")) == [0, 1, 3]


def test_a_very_deep_filter_is_compiled_and_found() -> None:
    deep = "/".join(["A", *["*", "B"] * (MAX_TOPIC_LEVELS // 2 - 1)])
    index = shapes(deep, "A")
    assert index.match(Event("e", topic=deep)) == [0, 1]


def test_opening_builds_nothing() -> None:
    index = shapes("A/*", "B/C/#")
    arrays = index.freeze()
    opened = TopicShapes.open(arrays)
    (segment,) = (segment for _, segment in opened.segments())
    assert all(array is arrays[f"compiled.{name}"] for name, array in segment.arrays.items())
    assert frozen.unpack_texts(segment.texts) == ["A/*", "B/C/#"]

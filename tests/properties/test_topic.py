"""Topic filters and every topic index against the oracle."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import FilterError
from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.matching.batch import EventBatch
from distributary.matching.engines import SEARCHED
from distributary.matching.index import Index
from distributary.matching.topic.shapes import TopicShapes
from distributary.matching.topic.verifier import TopicVerifier
from distributary.model import Event
from properties import oracle_topic
from properties.examples import examples
from properties.interleaving import check_against_oracle, steps

filters = st.one_of(oracle_topic.patterns, oracle_topic.near_patterns).map(TopicFilter.parse)
topics = st.one_of(oracle_topic.topics, oracle_topic.near_topics)


class Colliding(TopicShapes):
    """Keys of one bit: nearly every lookup meets the wrong filters first."""

    key_bits: ClassVar[int] = 1


class Indistinguishable(TopicShapes):
    """One key for everything."""

    key_bits: ClassVar[int] = 0


class Many(TopicShapes):
    """Searches for each batch, however small, as for a large one."""

    few: ClassVar[int] = 0


class ManyColliding(Many):
    """The same with keys of one bit."""

    key_bits: ClassVar[int] = 1


ENGINES: list[type[Index[Any]]] = [*SEARCHED["topic"], Colliding, Indistinguishable, Many, ManyColliding]


@pytest.mark.parametrize("engine", ENGINES)
@given(taken=steps(filters), events=oracle_topic.events())
@settings(max_examples=examples(60), deadline=None)
def test_every_index_answers_as_the_oracle_does(
    engine: type[Index[Any]], taken: list[tuple[str, Any]], events: list[Event]
) -> None:
    check_against_oracle(engine(), taken, events, oracle_topic.wants)


@pytest.mark.parametrize("kind", [TopicShapes, Many])
@given(patterns=st.lists(oracle_topic.patterns, min_size=30, max_size=120), topics=oracle_topic.events(20))
@settings(max_examples=examples(40), deadline=None)
def test_shapes_are_right_when_there_are_many(
    kind: type[TopicShapes], patterns: list[str], topics: list[Event]
) -> None:
    index = kind()
    index.add_many(range(len(patterns)), map(TopicFilter.parse, patterns))
    rows, slots = index.match_batch(EventBatch.from_events(topics))
    expected = {
        (row, slot)
        for row, event in enumerate(topics)
        for slot, pattern in enumerate(patterns)
        if event.topic is not None and oracle_topic.matches(pattern, event.topic)
    }
    pairs = list(zip(rows.tolist(), slots.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected


@given(patterns=st.lists(oracle_topic.patterns, min_size=1, max_size=8), events=oracle_topic.events())
@settings(max_examples=examples(60), deadline=None)
def test_the_verifier_answers_as_the_oracle_does(patterns: list[str], events: list[Event]) -> None:
    verifier = TopicVerifier()
    verifier.add_many(range(len(patterns)), map(TopicFilter.parse, patterns))
    rows = np.repeat(np.arange(len(events), dtype=np.int32), len(patterns))
    slots = np.tile(np.arange(len(patterns), dtype=np.int32), len(events))
    passed = verifier.verify(EventBatch.from_events(events), rows, slots)
    for row, slot, answer in zip(rows.tolist(), slots.tolist(), passed.tolist(), strict=True):
        topic = events[row].topic
        assert answer == (topic is not None and oracle_topic.matches(patterns[slot], topic))


@given(pattern=oracle_topic.patterns, topic=topics)
@settings(max_examples=examples(150))
def test_a_filter_matches_as_its_text_says(pattern: str, topic: str) -> None:
    expected = oracle_topic.matches(pattern, topic)
    assert TopicFilter.parse(pattern).matches(Event("e", topic=topic)) == expected


@given(pattern=oracle_topic.patterns, topic=topics)
@settings(max_examples=examples(100))
def test_the_canonical_text_reads_back_as_the_same_filter(pattern: str, topic: str) -> None:
    filter = TopicFilter.parse(pattern)
    again = TopicFilter.parse(filter.text)
    assert again == filter
    assert hash(again) == hash(filter)
    for name in ("levels", "open", "mqtt", "text"):
        assert getattr(again, name) == getattr(filter, name)
    assert oracle_topic.matches(filter.text, topic) == oracle_topic.matches(pattern, topic)


@given(one=filters, other=filters)
@settings(max_examples=examples(150))
def test_filters_are_equal_when_their_syntax_levels_and_ends_are(
    one: TopicFilter, other: TopicFilter
) -> None:
    same = (one.levels, one.open, one.mqtt) == (other.levels, other.open, other.mqtt)
    assert (one == other) == same


@given(one=filters, other=filters, topic=topics)
@settings(max_examples=examples(250))
def test_what_is_covered_is_matched(one: TopicFilter, other: TopicFilter, topic: str) -> None:
    event = Event("e", topic=topic)
    if one.covers(other) and oracle_topic.wants(other, event):
        assert oracle_topic.wants(one, event)


@given(one=filters, other=filters)
@settings(max_examples=examples(250))
def test_what_is_not_covered_has_a_topic_that_shows_it(one: TopicFilter, other: TopicFilter) -> None:
    def filled(start: str, deeper: int) -> str:
        levels = ["fresh" if level == WILDCARD else level for level in other.levels]
        return start + "/".join(levels + ["Z"] * deeper)

    witnesses = [topic for start in ("", "/") for deeper in (0, 1) if (topic := filled(start, deeper))]
    witnessed = any(
        oracle_topic.matches(other.text, topic) and not oracle_topic.matches(one.text, topic)
        for topic in witnesses
    )
    assert one.covers(other) == (not witnessed)


@given(one=filters, other=filters, topic=topics)
@settings(max_examples=examples(250))
def test_a_merge_matches_what_either_does(one: TopicFilter, other: TopicFilter, topic: str) -> None:
    merged = one.merge(other)
    event = Event("e", topic=topic)
    if merged is None:
        assert not start_alike(one, other)
        return
    assert merged.covers(one)
    assert merged.covers(other)
    assert TopicFilter.parse(merged.text) == merged == other.merge(one)
    if oracle_topic.wants(one, event) or oracle_topic.wants(other, event):
        assert oracle_topic.wants(merged, event)


def start_alike(one: TopicFilter, other: TopicFilter) -> bool:
    """Whether both name the same first level, as at least one of them sees it."""
    if one.mqtt and other.mqtt:
        return one.levels[0] == other.levels[0] != WILDCARD
    return one.bare[:1] == other.bare[:1] != (WILDCARD,)


@given(
    given=st.one_of(st.text(), st.text(alphabet="aé/*#+$:mqt\ud800", max_size=12), st.integers(), st.none())
)
@settings(max_examples=examples(250))
def test_any_input_is_a_filter_or_a_filter_error(given: Any) -> None:
    for text in (given, f"mqtt:{given}", f"A/{given}"):
        refused = None
        try:
            filter = TopicFilter.parse(text)
        except FilterError as error:
            refused = error
        if refused is None:
            assert TopicFilter.parse(filter.text) == filter
        else:
            assert refused.field == "topic"
            assert refused.position is None or 0 <= refused.position <= len(text)

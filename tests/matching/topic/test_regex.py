"""The regular-expression algorithm: escaping, ends, and sharing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.filters.topic import TopicFilter
from distributary.matching.topic.regex import TopicRegex
from distributary.model import Event


def regex(*patterns: str) -> TopicRegex:
    index = TopicRegex()
    index.add_many(range(len(patterns)), map(TopicFilter.parse, patterns))
    return index


@pytest.mark.parametrize("value", ["a.b", "(", "[x]", "a|b", "\\Z", "a+", "^", "x{2}", "a\nb", "é"])
def test_signs_of_regular_expressions_are_ordinary_values(value: str) -> None:
    index = regex(value, f"{value}/#")
    assert index.match(Event("e", topic=value)) == [0, 1]
    assert index.match(Event("e", topic=f"{value}/C")) == [0]
    assert index.match(Event("e", topic="other")) == []


def test_a_line_break_is_neither_an_end_nor_a_barrier() -> None:
    index = regex("A/*/C", "A/#", "A/*/#", "A")
    assert index.match(Event("e", topic="A/b\nb/C")) == [0, 3]
    assert index.match(Event("e", topic="A\n")) == []
    assert index.match(Event("e", topic="A/\n")) == [2, 3]


def test_equal_filters_share_one_expression_until_the_last_leaves() -> None:
    index = regex("A/*", "/A/*")
    assert len(index._expressions) == 1
    index.remove(0)
    assert index.match(Event("e", topic="A/B")) == [1]
    index.remove(1)
    assert index._expressions == {}


class CountedPattern:
    """A compiled expression that counts how often it is tried."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern
        self.tried = 0

    def match(self, topic: str) -> re.Match[str] | None:
        self.tried += 1
        return self.pattern.match(topic)


def test_who_is_found_is_not_tried_again() -> None:
    index = regex("A", "A/B", "A/*", "X", "A/B/#")
    counted = [CountedPattern(pattern) for pattern, _ in index._expressions.values()]
    entries = zip(index._expressions, counted, range(5), strict=True)
    index._expressions.update({text: (pattern, {slot}) for text, pattern, slot in entries})
    held = {"ann": [0, 1], "bob": [2, 4], "eve": [3]}
    assert index.subscribers("A/B", held) == ["ann", "bob"]
    assert [each.tried for each in counted] == [1, 0, 1, 1, 0]


def test_an_expression_that_several_hold_is_tried_once() -> None:
    index = regex("A/B", "A/B")
    ((text, (pattern, slots)),) = index._expressions.items()
    counted = CountedPattern(pattern)
    index._expressions.update({text: (counted, slots)})
    assert index.subscribers("X", {"ann": [0], "bob": [1]}) == []
    assert counted.tried == 1


@given(
    st.lists(st.tuples(st.sampled_from(["A", "A/B", "A/*/C", "A/B/#", "X"]), st.sampled_from("abc"))),
    st.sampled_from(["A", "A/B", "A/B/C", "A/X/C", "Y"]),
)
def test_subscribers_are_those_of_the_filters_that_match(held: list[tuple[str, str]], topic: str) -> None:
    index = regex(*(pattern for pattern, _ in held))
    slots_of = {who: [slot for slot, (_, holder) in enumerate(held) if holder == who] for who in "abc"}
    wanted = set(index.destinations(topic))
    assert index.subscribers(topic, slots_of) == [who for who in "abc" if wanted & set(slots_of[who])]

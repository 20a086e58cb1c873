"""The regular-expression algorithm: escaping, ends, and sharing."""

from __future__ import annotations

import pytest

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

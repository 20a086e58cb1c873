"""Topics that items are published under: how they are made, and which they can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import InputError
from distributary.filters.topic import TopicFilter
from distributary.flow import Schema
from distributary.flow.language.topics import ANY_TOPIC, TopicRange, TopicTemplate
from distributary.model import MAX_TOPIC_BYTES, Event

SCHEMA = Schema(
    {
        "topic": "text",
        "name": "text",
        "size": "integer",
        "hot": "boolean",
        "price": "number",
        "at": "integer",
    },
    time="at",
)
ITEM = {"topic": "/A/B", "name": "x", "size": -3, "hot": True, "price": 1.5, "at": 1}


@pytest.mark.parametrize(
    ("template", "topic"),
    [
        ("alerts/high", "alerts/high"),
        ("/alerts/{name}", "alerts/x"),
        ("{size}/{hot}", "-3/true"),
        ("{topic}/more", "A/B/more"),
        ("{topic[2]}/{topic[1]}", "B/A"),
        ("a/{topic[3]}", None),
    ],
)
def test_items_fill_levels_in(template: str, topic: str | None) -> None:
    assert TopicTemplate.parse(template).topic(ITEM) == topic


@pytest.mark.parametrize("value", [None, "", "x/y", "/x", "x" * (MAX_TOPIC_BYTES - 1)])
def test_what_is_no_level_leaves_an_item_without_a_topic(value: str | None) -> None:
    assert TopicTemplate.parse("a/{name}").topic({**ITEM, "name": value}) is None


@pytest.mark.parametrize("template", ["", "a//b", "a/*", "a/#", "x{name}", "{name", "{}", "{topic[0]}", 7])
def test_what_is_no_template_is_refused(template: object) -> None:
    with pytest.raises(InputError, match="publish"):
        TopicTemplate.parse(template)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("a/{nome}", "no attribute 'nome'; there are topic, name, size, hot, price, at"),
        ("a/{price}", "'price' is of type number, which cannot be a level"),
        ("a/{size[1]}", "'size' is of type integer, which cannot be levels"),
    ],
)
def test_attributes_that_cannot_be_levels_are_told(template: str, reason: str) -> None:
    with pytest.raises(InputError, match="publish") as caught:
        TopicTemplate.parse(template).check(SCHEMA)
    assert reason in str(caught.value)


names = st.sampled_from("ab")
levels = st.one_of(names, st.sampled_from(["{topic}", "{name}", "{topic[2]}"]))
templates = st.lists(levels, min_size=1, max_size=4).map("/".join)
values = st.one_of(st.none(), st.sampled_from(["", "a", "b", "a/b"]))
topics = st.builds(
    lambda slash, given: slash + "/".join(given), st.sampled_from(["", "/"]), st.lists(names, min_size=1)
)
patterns = st.builds(
    lambda first, rest, end: "/".join([first, *rest]) + end,
    names,
    st.lists(st.sampled_from("ab*"), max_size=4),
    st.sampled_from(["", "/#"]),
)
mqtt_patterns = patterns.map(lambda pattern: "mqtt:" + pattern.replace("*", "+"))
either = st.one_of(patterns, mqtt_patterns)


@given(templates, either, either, topics, values)
def test_a_topic_that_a_pattern_matches_is_in_a_range_that_overlaps_it(
    template: str, source: str, reader: str, topic: str, name: str | None
) -> None:
    if not TopicFilter.parse(source).matches(Event("e", topic)):
        source = topic if topic.startswith("mqtt:") else topic.removeprefix("/")
    made = TopicTemplate.parse(template)
    published = made.topic({"topic": topic, "name": name})
    if published is not None and TopicFilter.parse(reader).matches(Event("e", published)):
        for of_topic in (TopicRange.of(source), TopicRange.of(None)):
            assert any(each.overlaps(reader) for each in made.ranges([of_topic]))


def test_topics_that_are_extended_do_not_match_the_pattern_that_ends_before() -> None:
    template = TopicTemplate.parse("{topic}/large")
    (extended,) = template.ranges([TopicRange.of("trades/*/#")])
    assert not extended.overlaps("trades/*/#")
    assert not extended.overlaps("trades/*/large/*")
    assert extended.overlaps("trades/*/large/#")
    assert template.ranges([ANY_TOPIC])[0].overlaps("anything/at/all")
    assert not template.ranges([ANY_TOPIC])[0].overlaps("anything/#")

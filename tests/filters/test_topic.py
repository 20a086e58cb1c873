"""Topic filters: what each syntax says, what is refused and where."""

from __future__ import annotations

from typing import Any

import pytest

from distributary.errors import FilterError
from distributary.filters.topic import TopicFilter
from distributary.model import MAX_TOPIC_BYTES, MAX_TOPIC_LEVELS, Event


def matched(pattern: str, *topics: str) -> list[str]:
    filter = TopicFilter.parse(pattern)
    return [topic for topic in topics if filter.matches(Event("e", topic=topic))]


def test_a_wildcard_stands_for_one_level_as_in_the_paper() -> None:
    topics = [
        "Streams/Sensor/Fluid/Pressure",
        "Streams/Sensor/Atmospheric/Pressure",
        "Streams/Sensor/Fluid/Temperature",
        "Streams/Sensor/Pressure",
        "Streams/Sensor/Fluid/Deep/Pressure",
    ]
    assert matched("Streams/Sensor/*/Pressure", *topics) == topics[:2]


def test_a_pattern_matches_its_depth_and_all_deeper() -> None:
    assert matched("A/B", "A", "A/B", "A/B/C", "A/B/C/D", "A/BC") == ["A/B", "A/B/C", "A/B/C/D"]


def test_a_last_hash_closes_the_pattern() -> None:
    assert matched("A/B/#", "A", "A/B", "A/B/C", "A/B/#") == ["A/B"]


def test_mqtt_gives_the_hash_the_opposite_meaning() -> None:
    assert matched("mqtt:A/B/#", "A", "A/B", "A/B/C") == ["A/B", "A/B/C"]
    assert matched("mqtt:A/B", "A", "A/B", "A/B/C") == ["A/B"]


def test_mqtt_allows_a_wildcard_first_but_keeps_it_off_system_topics() -> None:
    assert matched("mqtt:+/B", "A/B", "$SYS/B", "A/C") == ["A/B"]
    assert matched("mqtt:$SYS/B", "$SYS/B") == ["$SYS/B"]


def test_wildcard_signs_in_events_are_ordinary_values() -> None:
    assert matched("A/*", "A/*", "A/#", "A/+", "A") == ["A/*", "A/#", "A/+"]
    assert matched("mqtt:A/*", "A/*", "A/B") == ["A/*"]
    assert matched("A/+", "A/+", "A/B") == ["A/+"]


def test_an_event_without_topic_passes_no_topic_filter() -> None:
    assert not TopicFilter.parse("A").matches(Event("e"))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("/A/B", "A/B"),
        ("/A/*/#", "A/*/#"),
        ("/mqtt:A/B", "/mqtt:A/B"),
        ("mqtt:A/+/B/#", "mqtt:A/+/B/#"),
        ("mqtt:/A", "mqtt:/A"),
        ("mqtt:A/*/+", "mqtt:A/*/+"),
        ("mqtt:/#", "mqtt:/#"),
        ("mqtt:a//", "mqtt:a//"),
        ("mqtt:mqtt:A/B/#", "mqtt:mqtt:A/B/#"),
    ],
)
def test_the_canonical_text_keeps_the_syntax_and_drops_only_our_leading_slash(given: str, text: str) -> None:
    assert TopicFilter.parse(given).text == text
    assert TopicFilter.parse(text).text == text


def test_our_patterns_do_not_see_a_leading_slash() -> None:
    topics = ["A/B", "/A/B", "//A/B", "/A/B/C", "A", "/A"]
    assert matched("A/B", *topics) == matched("/A/B", *topics) == ["A/B", "/A/B", "/A/B/C"]
    assert matched("/A/B/#", *topics) == ["A/B", "/A/B"]


def test_empty_levels_of_a_topic_are_levels() -> None:
    topics = ["A/B", "A//B", "A/", "A", "A//"]
    assert matched("A/B", *topics) == ["A/B"]
    assert matched("A/*", *topics) == ["A/B", "A//B", "A/", "A//"]
    assert matched("A/*/B", *topics) == ["A//B"]
    assert matched("A/*/#", *topics) == ["A/B", "A/"]
    assert matched("A/#", *topics) == ["A"]


@pytest.mark.parametrize(
    ("given", "position"),
    [
        ("", 0),
        ("/", 1),
        ("A//B", 2),
        ("A/", 2),
        ("//A", 1),
        ("A//#", 2),
        ("*", 0),
        ("/*/A", 1),
        ("#", 0),
        ("/#", 1),
        ("A/foo*", 5),
        ("A/a#b", 3),
        ("A/#/B", 2),
        ("A/**", 2),
        ("A/\ud800", 2),
        ("mqtt:", 5),
        ("mqtt:A\0/B", 6),
        ("mqtt:$share/group/A/#", 5),
        ("mqtt:A/b+", 8),
        ("mqtt:A/#/B", 7),
        ("mqtt:A/#b", 7),
        (5, None),
        (["A"], None),
    ],
)
def test_a_malformed_pattern_is_refused_where_it_is_wrong(given: Any, position: int | None) -> None:
    with pytest.raises(FilterError) as refused:
        TopicFilter.parse(given)
    assert refused.value.field == "topic"
    assert refused.value.position == position


def test_a_merge_of_different_first_levels_is_no_filter() -> None:
    assert TopicFilter.parse("A/B").merge(TopicFilter.parse("B/B")) is None


def test_a_merge_keeps_the_levels_that_agree() -> None:
    merged = TopicFilter.parse("A/B/C/#").merge(TopicFilter.parse("A/D/C/#"))
    assert merged == TopicFilter.parse("A/*/C/#")
    assert TopicFilter.parse("A/B/C/#").merge(TopicFilter.parse("A/B")) == TopicFilter.parse("A/B")


@pytest.mark.parametrize("written", ["mqtt:#", "mqtt:+/#"])
def test_the_pattern_for_every_topic_matches_all_but_those_that_begin_with_a_dollar(written: str) -> None:
    everything = TopicFilter.parse(written)
    assert everything == TopicFilter.parse(everything.text) == TopicFilter.parse("mqtt:#")
    assert everything.asks_for_all == "every topic but those that begin with $"
    assert TopicFilter.parse("mqtt:+").asks_for_all is TopicFilter.parse("mqtt:+/+/#").asks_for_all is None
    topics = ["A", "/", "/A", "A//B", "/$SYS", "A/$x", "#", "+"]
    assert matched(written, *topics, "$SYS", "$SYS/A") == topics
    assert not everything.matches(Event("e"))
    for covered in ("A", "A/*/#", "mqtt:+", "mqtt:+/A/#", "mqtt:/#", "mqtt:#"):
        assert everything.covers(TopicFilter.parse(covered)), covered
    for other in ("$SYS", "mqtt:$SYS/#"):
        assert not everything.covers(TopicFilter.parse(other)), other
        assert everything.merge(TopicFilter.parse(other)) is None
    assert not TopicFilter.parse("mqtt:+").covers(everything)


def test_a_merge_with_a_first_wildcard_may_become_the_pattern_for_every_topic() -> None:
    assert TopicFilter.parse("mqtt:+").merge(TopicFilter.parse("A/B")) == TopicFilter.parse("mqtt:#")


def test_a_pattern_of_very_many_levels_is_read_and_matched() -> None:
    deep = "/".join(["A"] * MAX_TOPIC_LEVELS)
    wild = "/".join(["A", *["*"] * (MAX_TOPIC_LEVELS - 1)])
    assert matched(deep, deep, "A") == [deep]
    assert matched(wild, deep, "A") == [deep]


@pytest.mark.parametrize("syntax", ["", "/", "mqtt:"])
def test_a_pattern_beyond_a_limit_is_refused(syntax: str) -> None:
    assert TopicFilter.parse(syntax + "A" * MAX_TOPIC_BYTES)
    for given in (
        "A" * (MAX_TOPIC_BYTES + 1),
        "é" * (MAX_TOPIC_BYTES // 2 + 1),
        "A/" * MAX_TOPIC_LEVELS + "A",
    ):
        with pytest.raises(FilterError, match="are allowed"):
            TopicFilter.parse(syntax + given)


def test_a_merge_that_would_exceed_a_limit_is_no_filter() -> None:
    long = "A" * (MAX_TOPIC_BYTES - 2)
    assert TopicFilter.parse(f"mqtt:{long}/B").merge(TopicFilter.parse(f"mqtt:{long}/")) is not None
    assert TopicFilter.parse(f"mqtt:{long}").merge(TopicFilter.parse(f"mqtt:{long}/B")) is not None
    assert TopicFilter.parse(f"mqtt:{long}A").merge(TopicFilter.parse(f"mqtt:{long}A/")) is None


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ("A/B", "mqtt:A/C", "A/*"),
        ("A/B/#", "mqtt:/A/B", "A/B/#"),
        ("A/B", "mqtt:+/B", "mqtt:+/+/#"),
        ("A/B", "mqtt:/+/B", None),
        ("A", "mqtt:/#", None),
        ("A", "mqtt:B", None),
        ("$S/B", "mqtt:+/B", None),
        ("mqtt:/A", "mqtt:A", None),
        ("mqtt:/A", "mqtt:/B", "mqtt:/+"),
        ("mqtt:+/A", "mqtt:/A", "mqtt:+/A"),
        ("mqtt:/A/#", "mqtt:/#", "mqtt:/#"),
    ],
)
def test_patterns_of_both_syntaxes_merge_into_what_can_say_both(
    one: str, other: str, merged: str | None
) -> None:
    found = TopicFilter.parse(one).merge(TopicFilter.parse(other))
    assert found == (None if merged is None else TopicFilter.parse(merged))


@pytest.mark.parametrize(
    ("one", "other", "covers"),
    [
        ("A", "mqtt:A/#", True),
        ("A", "mqtt:/A/+", True),
        ("A", "mqtt://A", False),
        ("mqtt:A/#", "A", False),
        ("mqtt:+/+/#", "A/B", True),
        ("mqtt:+/+/#", "A", False),
        ("mqtt:+/A", "mqtt:/A", True),
        ("mqtt:/+/#", "mqtt:/#", True),
    ],
)
def test_a_pattern_of_one_syntax_may_cover_one_of_the_other(one: str, other: str, covers: bool) -> None:
    assert TopicFilter.parse(one).covers(TopicFilter.parse(other)) == covers

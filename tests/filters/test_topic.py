"""Topic filters: what each syntax says, what is refused and where."""

from __future__ import annotations

from typing import Any

import pytest

from distributary.errors import FilterError
from distributary.filters.topic import TopicFilter
from distributary.model import Event


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
        ("mqtt:A/+/B/#", "A/*/B"),
        ("mqtt:A/+", "A/*/#"),
        ("mqtt:/A", "A/#"),
        ("mqtt:+/A", "mqtt:+/A"),
        ("mqtt:A/*/+", "mqtt:A/*/+"),
        ("mqtt:A/x*/#", "mqtt:A/x*/#"),
        ("/mqtt:A/B", "/mqtt:A/B"),
        ("mqtt:mqtt:A/B/#", "/mqtt:A/B"),
    ],
)
def test_the_canonical_text_is_ours_whenever_ours_can_say_it(given: str, text: str) -> None:
    assert TopicFilter.parse(given).text == text


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
        ("mqtt:A//B", 7),
        ("mqtt:A/b+", 8),
        ("mqtt:A/#/B", 7),
        ("mqtt:A/#b", 7),
        ("mqtt:#", None),
        ("mqtt:+/#", None),
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


def test_a_merge_that_would_match_everything_is_no_filter() -> None:
    assert TopicFilter.parse("mqtt:+").merge(TopicFilter.parse("A/B")) is None


def test_a_pattern_of_very_many_levels_is_read_and_matched() -> None:
    deep = "/".join(["A"] * 100_000)
    wild = "/".join(["A", *["*"] * 99_999])
    assert matched(deep, deep, "A") == [deep]
    assert matched(wild, deep, "A") == [deep]

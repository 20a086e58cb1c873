"""Topic patterns evaluated one by one, from their text, in the most literal way."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from distributary.model import Event


def wants(filter: Any, event: Event) -> bool:
    """The oracle for a filter: by its canonical text."""
    return event.topic is not None and matches(filter.text, event.topic)


def matches(pattern: str, topic: str) -> bool:
    """Whether a pattern, as a user may write it, matches a topic as it came.

    MQTT's sees every slash of the topic. Ours does not see one at the start, of itself or of the topic.
    """
    if pattern[:5] == "mqtt:":
        if pattern[5] in "+#" and topic[0] == "$":
            return False
        return _mqtt(pattern[5:].split("/"), topic.split("/"))
    pattern = pattern[1:] if pattern[0] == "/" else pattern
    topic = topic[1:] if topic[0] == "/" else topic
    return _ours(pattern.split("/"), topic.split("/"))


def _ours(pattern: list[str], values: list[str]) -> bool:
    while pattern:
        if pattern == ["#"]:
            return values == []
        if not values or pattern[0] not in ("*", values[0]):
            return False
        pattern, values = pattern[1:], values[1:]
    return True


def _mqtt(pattern: list[str], values: list[str]) -> bool:
    while pattern:
        if pattern == ["#"]:
            return True
        if not values or pattern[0] not in ("+", values[0]):
            return False
        pattern, values = pattern[1:], values[1:]
    return values == []


VALUES = [
    "A",
    "B",
    "AB",
    "é",
    "*",
    "#",
    "+",
    "$S",
    "a\nb",
    "mqtt:A",
    "\n",
    "A\n",
    "\0",
    "*A",
    "A#",
    "A longer value",
    "A longer velvet",
]
"""Few enough to meet each other often, and every one that could be mistaken for something else."""

topics = (
    st.lists(
        st.one_of(st.sampled_from(VALUES), st.sampled_from(["A", "B", "$S", "", ""])), min_size=1, max_size=6
    )
    .map("/".join)
    .filter(bool)
)
"""Topics of events, with empty levels at the start, at the end and between."""


def events(size: int = 6) -> st.SearchStrategy[list[Event]]:
    """Events with topics, and some without."""
    topic = st.one_of(topics, topics, topics, st.none())
    return st.lists(topic, max_size=size).map(
        lambda given: [Event(str(number), topic=topic) for number, topic in enumerate(given)]
    )


def _ours_with(values: list[str]) -> st.SearchStrategy[str]:
    value = st.sampled_from([value for value in values if not set(value) & set("*#")])
    return st.builds(
        lambda start, first, rest, end: start + "/".join([first, *rest]) + end,
        st.sampled_from(["", "", "/"]),
        value,
        st.lists(st.one_of(value, value, st.just("*")), max_size=4),
        st.sampled_from(["", "/#"]),
    ).filter(lambda text: text[:5] != "mqtt:")


def _mqtt_with(values: list[str]) -> st.SearchStrategy[str]:
    value = st.sampled_from([value for value in values if not set(value) & set("+#\0")])
    level = st.one_of(value, value, st.sampled_from(["+", "", "$S"]))
    some = st.builds(
        lambda levels, end: "mqtt:" + "/".join(levels) + end,
        st.lists(level, min_size=1, max_size=5),
        st.sampled_from(["", "/#"]),
    ).filter(lambda text: text != "mqtt:")
    return st.one_of(*[some] * 7, st.sampled_from(["mqtt:#", "mqtt:+/#"]))


ours = _ours_with(VALUES)
mqtt = _mqtt_with(VALUES)
patterns = st.one_of(ours, ours, mqtt)
"""Patterns in both syntaxes, all of them well-formed."""

near_patterns = st.one_of(_ours_with(["A", "B"]), _mqtt_with(["A", "B"]))
"""Patterns of few values, which often have something to do with each other."""
near_topics = (
    st.lists(st.sampled_from(["A", "B", "", "$S"]), min_size=1, max_size=4).map("/".join).filter(bool)
)

"""Topic patterns evaluated one by one, from their text, in the most literal way."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from distributary.model import Event


def wants(filter: Any, event: Event) -> bool:
    """The oracle for a filter: by its canonical text."""
    return event.topic is not None and matches(filter.text, event.topic)


def matches(pattern: str, topic: str) -> bool:
    """Whether a pattern, as a user may write it, matches a topic."""
    values = topic.split("/")
    if pattern[:5] == "mqtt:":
        rest = pattern[5:]
        rest = rest[1:] if rest[:1] == "/" else rest
        if rest[0] == "+" and topic[0] == "$":
            return False
        return _mqtt(rest.split("/"), values)
    rest = pattern[1:] if pattern[:1] == "/" else pattern
    return _ours(rest.split("/"), values)


def _ours(pattern: list[str], values: list[str]) -> bool:
    if not pattern:
        return True
    if pattern == ["#"]:
        return values == []
    if not values:
        return False
    return pattern[0] in ("*", values[0]) and _ours(pattern[1:], values[1:])


def _mqtt(pattern: list[str], values: list[str]) -> bool:
    if not pattern:
        return values == []
    if pattern == ["#"]:
        return True
    if not values:
        return False
    return pattern[0] in ("+", values[0]) and _mqtt(pattern[1:], values[1:])


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

topics = st.lists(st.sampled_from(VALUES), min_size=1, max_size=6).map("/".join)


def events(size: int = 6) -> st.SearchStrategy[list[Event]]:
    """Events with topics, and some without."""
    topic = st.one_of(topics, topics, topics, st.none())
    return st.lists(topic, max_size=size).map(
        lambda given: [Event(str(number), topic=topic) for number, topic in enumerate(given)]
    )


def _pattern(forbidden: str, wildcard: str, prefix: str) -> st.SearchStrategy[str]:
    value = st.sampled_from([value for value in VALUES if not set(value) & set(forbidden)])
    level = st.one_of(value, value, st.just(wildcard))
    first = level if wildcard == "+" else value
    rest = st.lists(level, max_size=4)
    return st.builds(
        lambda start, first, rest, end: prefix + start + "/".join([first, *rest]) + end,
        st.sampled_from(["", "", "/"]),
        first,
        rest,
        st.sampled_from(["", "/#"]),
    )


ours = _pattern("*#", "*", "").filter(lambda text: not text.startswith("mqtt:"))
mqtt = _pattern("+#", "+", "mqtt:").filter(lambda text: text not in ("mqtt:+/#", "mqtt:/+/#"))
patterns = st.one_of(ours, ours, mqtt)
"""Patterns in both syntaxes, all of them well-formed."""

"""Topic matching as MQTT has it: the examples of section 4.7 of MQTT 5.0, and what brokers' own tests ask.

Every case is asked of the filter itself and of every topic index.
"""

from __future__ import annotations

from typing import Any

import pytest

from distributary.errors import FilterError
from distributary.filters.topic import TopicFilter
from distributary.matching.engines import SEARCHED
from distributary.matching.index import Index
from distributary.model import Event

MATCHED = {
    # Section 4.7.1.2, the multi-level wildcard: it stands for its parent too.
    "sport/tennis/player1/#": {
        "sport/tennis/player1": True,
        "sport/tennis/player1/ranking": True,
        "sport/tennis/player1/score/wimbledon": True,
        "sport/tennis/player1/": True,
        "sport/tennis/player2": False,
        "/sport/tennis/player1": False,
    },
    "sport/#": {"sport": True, "sport/": True, "sports": False},
    # Section 4.7.1.3, the single-level wildcard: an empty level is a level.
    "sport/tennis/+": {"sport/tennis/player1": True, "sport/tennis/player1/ranking": False},
    "sport/+": {"sport": False, "sport/": True, "sport/x": True, "sport//": False},
    "+": {"finance": True, "/finance": False, "finance/": False, "$SYS": False},
    "+/+": {"/finance": True, "finance/": True, "/": True, "finance": False, "//": False},
    "/+": {"/finance": True, "finance": False, "/": True, "/finance/": False, "/$SYS": True},
    "+/tennis/#": {"sport/tennis": True, "/tennis/x": True, "tennis": False, "$sport/tennis": False},
    # Section 4.7.2: a leading wildcard does not stand for a first level that begins with `$`.
    "+/monitor/Clients": {"$SYS/monitor/Clients": False, "SYS/monitor/Clients": True},
    "$SYS/#": {"$SYS": True, "$SYS/monitor/Clients": True, "SYS": False, "/$SYS": False},
    "$SYS/monitor/+": {"$SYS/monitor/Clients": True, "$SYS/monitor": False},
    # Section 4.7.3: upper and lower case, blanks and slashes at either end tell topics apart.
    "ACCOUNTS": {"ACCOUNTS": True, "Accounts": False},
    "Accounts payable": {"Accounts payable": True, "Accounts": False},
    "/finance": {"/finance": True, "finance": False, "/finance/": False},
    "finance/": {"finance/": True, "finance": False, "finance//": False},
    "/": {"/": True, "//": False, "x": False, "/x": False},
    # What the tests of brokers and clients ask beyond that.
    "/foo/#": {"/foo/bar": True, "/foo": True, "foo/bar": False, "//foo": False},
    "+/foo": {"/foo": True, "bar/foo": True, "foo": False},
    "/#": {"/foo/bar": True, "/": True, "//": True, "foo/bar": False, "foo/": False},
    "a//b": {"a//b": True, "a/b": False, "a/x/b": False},
    "foo//+": {"foo//bar": True, "foo//": True, "foo/bar": False, "foo/x/bar": False},
    "foo/+/+/baz": {"foo///baz": True, "foo//baz": False},
    "foo/bar/+": {"foo/bar/": True, "foo/bar": False},
    "foo/+/#": {"foo/bar/baz": True, "foo/bar": True, "foo/": True, "foo": False, "fo2/bar/baz": False},
    "A/B/+/#": {"A/B/B/C": True, "A/B": False},
    "$BOB/bar": {"$BOB/bar": True, "$SYS/bar": False},
    "//#": {"//": True, "/": True, "//x": True, "/x": False},
}
"""By filter: topics, and whether it matches each of them."""
# The filter `//#` has two empty levels, so the topic of two empty levels, `/`, is its parent.

CASES = [(filter, topic, wanted) for filter, topics in MATCHED.items() for topic, wanted in topics.items()]


@pytest.mark.parametrize(("filter", "topic", "wanted"), CASES)
def test_a_filter_matches_as_mqtt_says(filter: str, topic: str, wanted: bool) -> None:
    assert TopicFilter.parse(f"mqtt:{filter}").matches(Event("e", topic=topic)) == wanted


@pytest.mark.parametrize("engine", SEARCHED["topic"])
def test_every_index_matches_as_mqtt_says(engine: type[Index[Any]]) -> None:
    index = engine()
    slots = {filter: slot for slot, filter in enumerate(MATCHED)}
    for filter, slot in slots.items():
        index.add(slot, TopicFilter.parse(f"mqtt:{filter}"))
    for filter, topic, wanted in CASES:
        assert (slots[filter] in index.match(Event("e", topic=topic))) == wanted, (filter, topic)


@pytest.mark.parametrize(
    ("filter", "position"),
    [
        ("", 0),
        ("sport/tennis#", 12),
        ("sport/tennis/#/ranking", 13),
        ("#/sport", 0),
        ("sport+", 5),
        ("+sport", 0),
        ("sp+rt/x", 2),
        ("sport/++", 6),
        ("sport/##", 6),
        ("sport/+#", 6),
        ("sport/\0", 6),
        ("a//#/", 3),
        ("$share/group/sport/#", 0),
    ],
)
def test_what_mqtt_forbids_is_refused_with_its_place(filter: str, position: int) -> None:
    with pytest.raises(FilterError) as refused:
        TopicFilter.parse(f"mqtt:{filter}")
    assert refused.value.field == "topic"
    assert refused.value.position == len("mqtt:") + position


@pytest.mark.parametrize("filter", ["$share", "$shared/x", "share/x", "/$share/x"])
def test_only_what_starts_as_a_shared_subscription_is_one(filter: str) -> None:
    assert TopicFilter.parse(f"mqtt:{filter}").text == f"mqtt:{filter}"

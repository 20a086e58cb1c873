"""The mapping of data items to segments of a ring."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import DistributaryError, FilterError
from distributary.filters.topic import TopicFilter
from distributary.matching.change.decomposition import LogicalNode, logical_node
from distributary.model import Event
from distributary.overlay.ring.circle import Circle
from distributary.systems.state_aware.segments import Segments

CIRCLE = Circle(20)
SEGMENTS = Segments.spanning(CIRCLE, nodes=8, of=100)


@given(st.floats(0, 1e300))
def test_places_lie_in_the_segment(tolerance: float) -> None:
    assert CIRCLE.clockwise(SEGMENTS.start("A/B/C"), SEGMENTS.place("A/B/C", tolerance)) < SEGMENTS.length


@pytest.mark.parametrize("scale", [64.0**-2, 1 / 64, 1, 64.0])
def test_tolerances_of_any_size_are_spread_over_the_segment(scale: float) -> None:
    places = {SEGMENTS.place("A/B/C", scale * tolerance) for tolerance in range(2, 64)}
    assert len(places) == 62
    assert places == {SEGMENTS.place("A/B/C", tolerance) for tolerance in range(2, 64)}


@given(st.floats(1, 64), st.floats(1, 64))
def test_places_are_in_the_order_of_tolerances_up_to_the_maximum(one: float, other: float) -> None:
    start = SEGMENTS.start("A/B/C")
    low, high = (CIRCLE.clockwise(start, SEGMENTS.place("A/B/C", c)) for c in sorted((one, other)))
    assert 0 <= low <= high < SEGMENTS.length


@given(st.integers(1, 64))
def test_a_logical_node_lies_in_the_stretch_of_its_level(units: int) -> None:
    logical = logical_node(units)
    first, length = SEGMENTS.level_stretch("A/B/C", logical.level)
    assert CIRCLE.clockwise(first, SEGMENTS.logical_place("A/B/C", logical)) < length


def test_levels_follow_one_another_within_the_segment() -> None:
    start = SEGMENTS.start("A/B/C")
    places = [
        CIRCLE.clockwise(start, SEGMENTS.logical_place("A/B/C", LogicalNode(level, digit)))
        for level in range(1, SEGMENTS.levels + 1)
        for digit in (1, 2, 3)
    ]
    assert places == sorted(places)
    assert len(set(places)) == 9
    assert places[-1] < SEGMENTS.length
    assert [SEGMENTS.leader_place("A/B/C", level) for level in (1, 2, 3)] == [
        CIRCLE.add(start, places[at]) for at in (2, 5, 8)
    ]


def test_a_tolerance_beyond_the_last_level_is_kept_on_the_last_level() -> None:
    beyond = logical_node(4**5 - 1)
    assert beyond.level == 5
    assert SEGMENTS.logical_place("A", beyond) == SEGMENTS.leader_place("A", 3)


@pytest.mark.parametrize(
    "pattern", ["quotes/NYSE", "quotes/*/OTE", "quotes/NYSE/*", "quotes/*/#", "mqtt:a/+/b"]
)
def test_a_pattern_that_reaches_into_several_items_is_refused(pattern: str) -> None:
    with pytest.raises(FilterError, match="several data items"):
        SEGMENTS.item_for({"topic": TopicFilter.parse(pattern)})


def test_a_subscription_without_a_topic_is_refused() -> None:
    with pytest.raises(FilterError, match="names one data item"):
        SEGMENTS.item_for({})


LEVEL = st.sampled_from(["A", "B", "*"])


@given(
    st.lists(LEVEL, min_size=1, max_size=5),
    st.booleans(),
    st.lists(st.sampled_from(["A", "B"]), min_size=1, max_size=5),
)
def test_whatever_a_pattern_matches_belongs_to_its_item(
    levels: list[str], closed: bool, topic: list[str]
) -> None:
    pattern = TopicFilter.parse("/".join(["A", *levels[1:], *(["#"] if closed else [])]))
    event = Event("e", topic="/".join(topic))
    try:
        item = SEGMENTS.item_for({"topic": pattern})
    except FilterError:
        return
    if pattern.matches(event):
        assert SEGMENTS.item_of(event) == item


@pytest.mark.parametrize("changes", [{"length": 0}, {"length": 1 << 21}, {"depth": 0}, {"maximum": 1}])
def test_a_mapping_that_makes_no_sense_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(DistributaryError):
        Segments(**{"circle": CIRCLE, "length": 16, **changes})

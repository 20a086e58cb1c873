"""The hashing algorithm: wildcard counts and the construction of candidates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.filters.topic import TopicFilter
from distributary.matching.topic.hash import MAX_DEPTH, TopicHash
from distributary.model import Event


def hashed(*patterns: str) -> TopicHash:
    index = TopicHash()
    index.add_many(range(len(patterns)), map(TopicFilter.parse, patterns))
    return index


def test_candidates_carry_wildcards_where_they_have_been_counted() -> None:
    """The paper's A/B/C/D with wildcards at the second and third level, by its pseudo-code (Figure 3)."""
    index = hashed("A/*/C/D", "A/B/*/D")
    assert index.wildcard_counts("A") == (0, 2, 1, 1, 0)
    assert index.candidates("A/B/C/D") == {
        *("A", "A/B", "A/*"),
        *("A/B/C", "A/*/C", "A/B/*", "A/*/*"),
        *("A/B/C/D", "A/*/C/D", "A/B/*/D", "A/*/*/D"),
    }


def test_without_wildcards_an_event_constructs_one_candidate_a_level() -> None:
    assert hashed("A/B/C", "B/*/D").candidates("A/X/Y") == {"A", "A/X", "A/X/Y"}


def test_levels_beyond_the_deepest_filter_construct_nothing() -> None:
    index = hashed("A/*")
    assert index.candidates("A/B/C/D/E") == {"A", "A/B", "A/*"}
    assert index.match(Event("e", topic="A/B/C/D/E")) == [0]


def test_a_first_level_nobody_asked_for_constructs_nothing() -> None:
    assert hashed("A/*").candidates("B/C") == set()


def test_counts_are_reclaimed_with_the_last_subscription() -> None:
    index = hashed("A/*", "A/*", "A/B/*", "C")
    assert index.wildcard_counts("A") == (0, 3, 2, 1)
    index.remove(0)
    index.remove(2)
    assert index.wildcard_counts("A") == (0, 1, 1, 0)
    index.remove(1)
    assert index.wildcard_counts("A") is None
    assert index.wildcard_counts("C") == (0, 1)
    index.remove(3)
    assert index.structure() == ({}, {}, {}, {})


def test_removal_leaves_equal_and_related_filters_alone() -> None:
    index = hashed("A/*/C", "A/*/C", "A/*/C/#", "A/B/C")
    index.remove(0)
    assert index.match(Event("e", topic="A/B/C")) == [1, 2, 3]
    index.remove(3)
    assert index.match(Event("e", topic="A/B/C")) == [1, 2]


def test_a_value_that_reads_like_a_wildcard_is_none() -> None:
    index = hashed("A/*", "mqtt:A/*/#", "A/B")
    assert index.match(Event("e", topic="A/*")) == [0, 1]
    assert index.match(Event("e", topic="A/B")) == [0, 2]


def test_an_event_constructs_no_more_candidates_than_the_depth_allows() -> None:
    """Each level but the first carries a wildcard in one of 19 filters of depth 20: 2^19 without a bound."""
    deep = ["/".join("*" if at == wild else "a" for at in range(20)) for wild in range(1, 20)]
    index = hashed(*deep)
    topic = "/".join("a" * 20)
    assert len(index.candidates(topic)) == 2**MAX_DEPTH - 1
    assert index.match(Event("e", topic=topic)) == list(range(19))
    index.remove(18)
    assert index.match(Event("e", topic=topic.replace("a/a/a", "a/b/a", 1))) == [0]
    for slot in range(18):
        index.remove(slot)
    assert index.structure() == ({}, {}, {}, {})


levels = st.lists(st.sampled_from("ab"), min_size=1, max_size=6)
patterns = st.builds(
    lambda first, rest, end, mqtt: (
        "mqtt:" + "/".join([first, *rest]).replace("*", "+") + end if mqtt else "/".join([first, *rest]) + end
    ),
    st.sampled_from("ab"),
    st.lists(st.sampled_from("ab*"), max_size=5),
    st.sampled_from(["", "/#"]),
    st.booleans(),
)


@given(st.integers(1, 4), st.lists(patterns, max_size=12), st.lists(levels, max_size=6))
def test_every_bound_on_the_depth_gives_the_same_matches(
    max_depth: int, given: list[str], topics: list[list[str]]
) -> None:
    filters = [TopicFilter.parse(pattern) for pattern in given]
    index = TopicHash(max_depth)
    index.add_many(range(len(filters)), filters)
    for values in topics:
        event = Event("e", topic="/".join(values))
        assert index.match(event) == [slot for slot, one in enumerate(filters) if one.matches(event)]

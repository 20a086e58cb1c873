"""Rendezvous plans: an event and a subscription that matches it meet in exactly one part, always."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary import Event, Subscription
from distributary.filters.kinds import parse_filters
from distributary.matching.batch import EventBatch
from distributary.matching.rendezvous.census import SubscriptionCensus
from distributary.matching.rendezvous.plan import Rendezvous
from properties import oracle_path, oracle_topic, oracle_where
from properties.examples import examples
from properties.oracle import passes
from properties.test_matcher import CONDITIONS, DOCUMENTS, PATHS, TOPICS, VALUES

FILTERS: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.one_of(st.sampled_from(TOPICS), oracle_topic.patterns),
    "where": st.one_of(
        st.sampled_from(CONDITIONS),
        oracle_where.conditions(3),
        st.builds("{} = {}".format, st.sampled_from("ab"), st.integers(0, 4)),
        st.builds("{} between {} and {}".format, st.sampled_from("ab"), st.integers(0, 4), st.integers(2, 9)),
    ),
    "path": st.one_of(st.sampled_from(PATHS), oracle_path.short_paths()),
    "change": st.dictionaries(st.sampled_from("ab"), st.sampled_from([0, 1]), min_size=1),
}


@st.composite
def subscriptions(draw: st.DrawFn) -> Subscription:
    kinds = draw(st.sets(st.sampled_from(sorted(FILTERS)), min_size=1, max_size=3))
    filters = {kind: draw(FILTERS[kind]) for kind in sorted(kinds)}
    return Subscription(f"s{draw(st.integers(0, 10**6))}", "ann", **filters)


@st.composite
def events(draw: st.DrawFn) -> Event:
    plain = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(VALUES))
    return Event(
        "e",
        draw(st.one_of(st.sampled_from(["A", "A/B", "A/B/C", "B/B", None]), oracle_topic.topics)),
        draw(st.one_of(plain, oracle_where.attribute_maps())),
        draw(st.sampled_from([None, *DOCUMENTS])),
    )


@st.composite
def plans(draw: st.DrawFn, wanted: list[Subscription]) -> Rendezvous:
    """A plan from some of the subscriptions, others, or none, for parts of any size."""
    counted = [one for one in wanted if draw(st.booleans())] * draw(st.integers(1, 4))
    counted += draw(st.lists(subscriptions(), max_size=8))
    first, second = SubscriptionCensus(), SubscriptionCensus(seed=1)
    for number, one in enumerate(counted):
        (first, second)[number % 2].add(parse_filters(one))
    first.merge(SubscriptionCensus.from_bytes(second.to_bytes()))
    capacity, weight = draw(st.integers(1, 6)), draw(st.sampled_from([0.5, 1.0, 3.0]))
    return Rendezvous.plan(first, capacity=capacity, weight=weight)


@settings(max_examples=examples(100))
@given(
    st.data(), st.lists(subscriptions(), min_size=1, max_size=12), st.lists(events(), min_size=1, max_size=6)
)
def test_an_event_meets_each_subscription_that_matches_it_exactly_once(
    data: st.DataObject, wanted: list[Subscription], given_events: list[Event]
) -> None:
    check_meetings(data.draw(plans(wanted)), wanted, given_events)


def check_meetings(plan: Rendezvous, wanted: list[Subscription], given_events: list[Event]) -> None:
    visited = visits(plan, given_events)
    for one in wanted:
        lives = plan.parts_of(parse_filters(one), one.id)
        assert lives == sorted(set(lives))
        assert lives
        assert 0 <= lives[0] <= lives[-1] < plan.parts
        assert len(lives) == 1 or one.change is None
        for row, event in enumerate(given_events):
            if passes(one, event):
                assert len(visited[row] & set(lives)) == 1


@settings(max_examples=examples(60))
@given(st.data(), st.lists(subscriptions(), max_size=12), st.lists(events(), max_size=6))
def test_a_plan_read_back_gives_the_same_answers(
    data: st.DataObject, wanted: list[Subscription], given_events: list[Event]
) -> None:
    plan = data.draw(plans(wanted))
    read = Rendezvous.from_json(plan.to_json())
    assert read == plan
    assert visits(read, given_events) == visits(plan, given_events)
    for one in wanted:
        filters = parse_filters(one)
        assert read.parts_of(filters, one.id) == plan.parts_of(filters, one.id)


# Few keys and many subscriptions, so that nearly every event finds its match behind a cut, a divided topic
# or a name, which mixed subscriptions seldom do.

numbers = st.sampled_from([-1, 0, 1, 2, 3, 4, 5, 2.5, 2**53, 2**53 + 1, -0.0])
literals = st.one_of(numbers.map(repr), st.sampled_from(["'x'", "'y'", "''", "true", "false"]))
dense_conditions = st.one_of(
    st.builds("a = {}".format, literals),
    st.builds("a {} {}".format, st.sampled_from(["<", "<=", ">", ">="]), literals),
    st.builds("a between {} and {}".format, numbers, numbers),
    st.builds("a in ({}, {}, {})".format, literals, literals, literals),
    st.builds("a between {} and {} or a = {}".format, numbers, numbers, literals),
    st.builds("a = {} or b = {}".format, literals, literals),
    st.builds("a is null or a = {}".format, literals),
)
dense_values = st.one_of(numbers, st.sampled_from(["x", "y", "z", "", True, False, None, float("inf")]))
levels = st.lists(st.sampled_from(["A", "B", "AB"]), min_size=1, max_size=4)
dense_patterns = st.builds(
    lambda first, rest, end: "/".join([first, *rest]) + end,
    st.sampled_from(["A", "B", "AB"]),
    st.lists(st.sampled_from(["A", "B", "AB", "*"]), max_size=3),
    st.sampled_from(["", "/#"]),
)
dense_paths = st.builds(
    "//{}[{}]".format,
    st.sampled_from("ab"),
    st.sampled_from(["c", "d", "c or d", "not(c)", "c and d", "@k", "c = 1 or @k", ".//d", "not(c or d)"]),
)
dense_documents = st.builds(
    "<{0}{1}>{2}{3}</{0}>".format,
    st.sampled_from("ab"),
    st.sampled_from(["", " k='1'"]),
    st.sampled_from(["", "<c>1</c>"]),
    st.sampled_from(["", "<d/>", "<b><d/></b>"]),
)
DENSE = {
    "where": (
        dense_conditions,
        st.builds(lambda a, b: {"attributes": {"a": a, "b": b}}, dense_values, dense_values),
    ),
    "topic": (dense_patterns, levels.map(lambda given: {"topic": "/".join(given)})),
    "topic of either syntax": (
        oracle_topic.near_patterns,
        oracle_topic.near_topics.map(lambda given: {"topic": given}),
    ),
    "path": (dense_paths, dense_documents.map(lambda text: {"document": text})),
}


@pytest.mark.parametrize("kind", sorted(DENSE))
@settings(max_examples=examples(75))
@given(data=st.data())
def test_filters_of_one_kind_meet_their_events_exactly_once(kind: str, data: st.DataObject) -> None:
    filters, contents = DENSE[kind]
    given_filters = data.draw(st.lists(filters, min_size=4, max_size=25))
    tolerance = data.draw(st.sampled_from([None, None, {"a": 1.0}]))
    wanted = [
        Subscription(f"s{number}", "ann", **{kind.split()[0]: text}, change=tolerance)
        for number, text in enumerate(given_filters)
    ]
    census = SubscriptionCensus()
    for one in wanted[data.draw(st.integers(0, 3)) :]:
        census.add(parse_filters(one))
    plan = Rendezvous.plan(census, capacity=data.draw(st.integers(1, 5)))
    given_events = [Event("e", **given_) for given_ in data.draw(st.lists(contents, min_size=1, max_size=8))]
    check_meetings(plan, wanted, given_events)


def visits(plan: Rendezvous, given_events: list[Event]) -> list[set[int]]:
    """The parts that each event visits; the pairs must be distinct, in range and in order."""
    rows, parts = plan.route(EventBatch.from_events(given_events))
    codes = rows.astype(np.int64) * plan.parts + parts
    assert (np.diff(codes) > 0).all()
    assert ((parts >= 0) & (parts < plan.parts)).all()
    return [set(parts[rows == row].tolist()) for row in range(len(given_events))]

"""What grants leave of subscriptions, against the filters evaluated one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.edge.access.grants import GrantSet, grant_profile
from distributary.edge.access.identity import AccessError
from distributary.edge.access.narrowing import MOST_PARTS, narrowed_parts, part_of, topics_both
from distributary.filters.profile import Profile
from distributary.filters.topic import TopicFilter
from distributary.matching.matcher import Matcher
from distributary.model import Event, Subscription
from properties import oracle_path, oracle_topic, oracle_where
from properties.examples import examples
from properties.oracle import MatcherOracle, passes
from properties.test_matcher import CONDITIONS, DOCUMENTS, PATHS, TOPICS, VALUES, events

EVERY_TOPIC = ["mqtt:#", "mqtt:$SYS/#", "$SYS", "/A", "mqtt:/+/B", "mqtt:/#", "A/+", "mqtt:+"]
TOPICS_OF_EVENTS = [
    "A",
    "/A",
    "A/B",
    "/A/B",
    "B",
    "B/B",
    "$SYS",
    "/$SYS",
    "$SYS/B",
    "A/+",
    "//",
    "/",
    "A//B",
    "A/B/C",
]


@st.composite
def grants(draw: st.DrawFn) -> dict[str, str]:
    given_ = {
        "topic": st.sampled_from(TOPICS + EVERY_TOPIC),
        "where": st.sampled_from([*CONDITIONS, "true"]),
        "path": st.sampled_from(PATHS),
    }
    kinds = draw(st.sets(st.sampled_from(sorted(given_)), min_size=1))
    return {kind: draw(given_[kind]) for kind in sorted(kinds)}


@st.composite
def asked(draw: st.DrawFn) -> Subscription:
    filters: dict[str, Any] = dict(draw(grants()))
    if draw(st.booleans()):
        filters["change"] = {draw(st.sampled_from("ab")): draw(st.sampled_from([0, 1]))}
    return Subscription("s1", "ann", **filters)


@st.composite
def happening(draw: st.DrawFn) -> Event:
    event = draw(events())
    topic = draw(st.sampled_from([None, *TOPICS_OF_EVENTS]))
    return Event(event.id, topic, event.attributes, event.document)


@settings(max_examples=examples(150), deadline=None)
@given(asked(), st.lists(grants(), max_size=4), st.lists(happening(), min_size=1, max_size=12))
def test_parts_let_pass_what_the_subscription_and_a_grant_let_pass(
    wanted: Subscription, granted: list[dict[str, str]], came: list[Event]
) -> None:
    oracles = [Subscription("g", "g", **each) for each in granted]  # type: ignore[arg-type]
    try:
        parts = narrowed_parts(wanted, [grant_profile(each, "ann") for each in granted])
    except AccessError as error:
        if "none of your grants" in str(error):
            for event in came:
                assert not (passes(wanted, event) and any(passes(each, event) for each in oracles))
        return
    assert len(parts) <= MOST_PARTS
    assert {part_of(part.id) for part in parts} == {"s1"}
    assert len({part.id for part in parts}) == len(parts)
    matcher, oracle = Matcher(parts), MatcherOracle()
    oracle.add(wanted)
    for event in came:
        allowed = any(passes(each, event) for each in oracles)
        delivered = bool(matcher.match(event))
        assert delivered == (allowed and bool(oracle.match(event)))


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(TOPICS + EVERY_TOPIC), st.sampled_from(TOPICS + EVERY_TOPIC))
def test_two_topics_become_the_patterns_that_match_what_both_match(one: str, other: str) -> None:
    try:
        both = topics_both(TopicFilter.parse(one), TopicFilter.parse(other))
    except AccessError:
        assert "A/+" in (one, other)  # a value that MQTT cannot write
        return
    for topic in TOPICS_OF_EVENTS:
        wanted = oracle_topic.matches(one, topic) and oracle_topic.matches(other, topic)
        assert any(each.matches_topic(topic) for each in both) == wanted, (one, other, topic, both)


@pytest.mark.parametrize("one", PATHS)
def test_two_paths_become_one_that_selects_something_where_both_do(one: str) -> None:
    for other in PATHS:
        (part,) = narrowed_parts(Subscription("s", "s", path=one), [grant_profile({"path": other}, "ann")])
        for document in DOCUMENTS:
            wanted = oracle_path.wants(one, document) and oracle_path.wants(other, document)
            assert Profile.of(part).matches(Event("e", document=document)) == wanted, (one, other, document)


@pytest.mark.parametrize("one", CONDITIONS)
def test_two_conditions_become_one_that_holds_where_both_do(one: str) -> None:
    chosen = random.Random(one)
    for other in CONDITIONS:
        try:
            parts = narrowed_parts(
                Subscription("s", "s", where=one), [grant_profile({"where": other}, "ann")]
            )
        except AccessError:
            parts = ()
        for _ in range(40):
            attributes = {name: chosen.choice(VALUES) for name in "abcd"}
            wanted = all(bool(oracle_where.wants(each, attributes)) for each in (one, other))
            event = Event("e", attributes=attributes)
            assert any(Profile.of(part).matches(event) for part in parts) == wanted, (one, other, attributes)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(grants(), max_size=4), st.lists(happening(), max_size=12))
def test_a_set_of_grants_allows_what_one_of_them_lets_pass(
    granted: list[dict[str, str]], came: list[Event]
) -> None:
    held = GrantSet(grant_profile(each, "ann") for each in granted)
    oracles = [Subscription("g", "g", **each) for each in granted]  # type: ignore[arg-type]
    for event in [*came, *came]:
        assert held.allow(event) == any(passes(each, event) for each in oracles)


def test_more_topics_than_are_remembered_are_answered_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.edge.access.grants.TOPICS", 3)
    held = GrantSet([grant_profile({"topic": "A"}, "ann")])
    chosen = random.Random(3)
    for _ in range(100):
        topic = f"{chosen.choice('AB')}/{chosen.randrange(5)}"
        assert held.allow(Event("e", topic)) == topic.startswith("A")


def test_a_subscription_that_a_grant_covers_is_left_as_it_is() -> None:
    wanted = Subscription("s1", "ann", topic="A/B", where="a>1", change={"a": 1})
    assert narrowed_parts(wanted, [grant_profile({"topic": "A"}, "ann")]) == (wanted,)


def test_grants_that_differ_in_their_condition_make_one_subscription() -> None:
    granted = [Profile.of(Subscription("g", "g", topic="A", where=f"tenant = '{name}'")) for name in "ab"]
    (part,) = narrowed_parts(Subscription("s1", "ann", topic="A/B"), granted)
    assert (part.topic, part.where) == ("A/B", "tenant = 'a' or tenant = 'b'")


def test_a_tolerance_over_parts_that_share_a_topic_is_refused() -> None:
    granted = [
        Profile.of(Subscription("g", "g", where="a = 1")),
        Profile.of(Subscription("g", "g", path="//a")),
    ]
    with pytest.raises(AccessError, match="tolerance"):
        narrowed_parts(Subscription("s1", "ann", topic="A", change={"a": 1}), granted)


def test_too_many_parts_are_refused() -> None:
    granted = [Profile.of(Subscription("g", "g", topic=f"A{number}")) for number in range(MOST_PARTS + 1)]
    with pytest.raises(AccessError, match="17 parts"):
        narrowed_parts(Subscription("s1", "ann", where="a = 1"), granted)


@pytest.mark.parametrize("user", ["ann", "a b", "{user}"])
def test_a_user_s_own_level_is_their_name(user: str) -> None:
    grant = grant_profile({"topic": "mqtt:devices/{user}/+"}, user)
    assert grant.matches(Event("e", f"devices/{user}/on"))
    assert not grant.matches(Event("e", "devices/bob/on"))

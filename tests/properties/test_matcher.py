"""Matcher against brute force: all filter kinds together, after any interleaving of changes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary import Event, Matcher, Subscription
from distributary.filters.profile import Profile
from distributary.matching import pair_naming
from distributary.matching.batch import EventBatch
from properties.examples import examples
from properties.oracle import MatcherOracle, passes

TOPICS = [
    "A",
    "A/B",
    "A/*",
    "A/B/#",
    "B",
    "mqtt:+/B",
    "mqtt:A/#",
    "A/*/C",
    "mqtt:A/+",
    "B/*/#",
    "mqtt:/A/#",
    "mqtt:+/+",
]
CONDITIONS = [
    "a > 1",
    "a>1.0",
    "b <= 2 or a = 1",
    "a between 1 and 3 and c = 'x'",
    "c in ('x', 'yy', 'z') and not b = 2",
    "c like 'y%'",
    "c like '%y'",
    "a < b",
    "not (a > 1 and b > 1)",
    "a is null",
    "a is not null and c <> 'x'",
    "d",
    "not d or a >= 9007199254740993",
    "a > 3 and a < 2",
    " and ".join(f"(a = {n} or b = {n} or c = '{n}')" for n in range(6)),
]
PATHS = [
    "//a",
    "/a/b",
    "b[c]",
    "/a[b/c = 2]/d",
    "//b[@k]",
    "a//c",
    "/a/*[not(c)]",
    "c[. > 1]",
    "//@k | /b",
    "d/text()",
]
DOCUMENTS = [
    "<a/>",
    "<a><b/></a>",
    "<a><b><c>2</c></b><d>x</d></a>",
    "<b k='1'><c>1</c></b>",
    "<r><a><x><c>5</c></x></a><b k=''/></r>",
    "<d>t</d>",
]
VALUES = [None, 0, 1, 2, 2.5, 3, 4, True, False, "x", "yy", "z", 9007199254740993, float("nan"), ("x",)]


@st.composite
def subscriptions(draw: st.DrawFn) -> Subscription:
    """Any mix of filters that is not empty; few distinct ones, so that slots are shared.

    The filters of each kind come from a list, because what is tried here is their interplay: each kind by
    itself is tried on random filters elsewhere.
    """
    given: dict[str, st.SearchStrategy[Any]] = {
        "topic": st.sampled_from(TOPICS),
        "where": st.sampled_from(CONDITIONS),
        "path": st.sampled_from(PATHS),
        "change": st.dictionaries(st.sampled_from("ab"), st.sampled_from([0, 0.5, 1, 3]), min_size=1),
    }
    kinds = draw(st.sets(st.sampled_from(sorted(given)), min_size=1))
    filters = {kind: draw(given[kind]) for kind in sorted(kinds)}
    return Subscription(f"s{draw(st.integers(0, 9))}", draw(st.sampled_from(["ann", "bob"])), **filters)


@st.composite
def events(draw: st.DrawFn) -> Event:
    return Event(
        f"e{draw(st.integers(0, 99))}",
        draw(st.sampled_from(["A", "B", "A/B", "A/B/C", "B/B", "A/C", None])),
        draw(st.dictionaries(st.sampled_from("abcd"), st.sampled_from(VALUES))),
        draw(st.sampled_from([None, None, *DOCUMENTS])),
    )


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), subscriptions()),
        st.tuples(st.just("add"), subscriptions()),
        st.tuples(st.just("remove"), st.integers(0, 9).map(lambda number: f"s{number}")),
        st.tuples(st.just("match"), events()),
        st.tuples(st.sampled_from(["batch", "columns"]), st.lists(events(), max_size=4)),
        st.tuples(st.sampled_from(["compact", "reopen"]), st.none()),
    ),
    max_size=20,
)


@settings(max_examples=examples(75))
@given(steps)
def test_matcher_answers_as_brute_force_does_after_any_changes(taken: list[tuple[str, Any]]) -> None:
    matcher, oracle = Matcher(), MatcherOracle()
    serials: dict[str, int] = {}
    met: set[int] = set()
    with tempfile.TemporaryDirectory() as directory:
        for number, (what, given_) in enumerate(taken):
            if what == "add" and given_.id not in oracle.held:
                matcher.add(given_)
                oracle.add(given_)
                serials[given_.id] = matcher.serial(given_.id)
                assert serials[given_.id] not in met
                met.add(serials[given_.id])
            elif what == "remove" and given_ in oracle.held:
                matcher.remove(given_)
                oracle.remove(given_)
                del serials[given_]
            elif what == "match":
                check_explanations(matcher, oracle, given_)
                assert matcher.match(given_) == oracle.match(given_)
            elif what == "batch":
                check_batch(matcher, oracle, given_)
            elif what == "columns":
                check_columns(matcher, oracle, given_)
            elif what == "compact":
                matcher.compact()
            elif what == "reopen":
                matcher.freeze(Path(directory) / str(number))
                matcher = Matcher.open(Path(directory) / str(number))
            for subscription_id in ("s0", "s5", *oracle.held):
                assert (subscription_id in matcher) == (subscription_id in oracle.held)
            assert {one: matcher.serial(one) for one in serials} == serials
            assert matcher.ids() == sorted(oracle.held)
            assert len(matcher) == len(oracle.held)
        del matcher


def check_explanations(matcher: Matcher, oracle: MatcherOracle, event: Event) -> None:
    for subscription_id in oracle.held:
        explanation = matcher.explain(event, subscription_id)
        assert explanation.matches == oracle.wants(event, subscription_id)
        assert str(explanation)


def check_batch(matcher: Matcher, oracle: MatcherOracle, events: list[Event]) -> None:
    expected = [
        {"event_id": event.id, "subscription_id": found} for event in events for found in oracle.match(event)
    ]
    assert matcher.match_batch(events).to_pylist() == expected


def check_columns(matcher: Matcher, oracle: MatcherOracle, events: list[Event]) -> None:
    expected = [
        (row, found, oracle.held[found].subscriber)
        for row, event in enumerate(events)
        for found in oracle.match(event)
    ]
    # As few matches are named, and as many are.
    with patch.object(pair_naming, "MOST", pair_naming.MOST if len(events) % 2 else 0):
        found = matcher.matches(EventBatch.from_events(events))
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected
    codes = found.rows, found.subscription_codes, found.subscriber_codes
    assert list(zip(*(column.tolist() for column in codes), strict=True)) == expected


@settings(max_examples=examples(50))
@given(st.lists(subscriptions(), max_size=8, unique_by=lambda one: one.id), st.lists(events(), max_size=5))
def test_without_tolerances_everything_that_passes_the_other_filters_matches(
    held: list[Subscription], given_events: list[Event]
) -> None:
    matcher = Matcher(held)
    expected = [
        {"event_id": event.id, "subscription_id": one.id}
        for event in given_events
        for one in sorted(held, key=lambda one: one.id)
        if passes(one, event)
    ]
    for _ in range(2):
        assert matcher.match_batch(given_events, tolerances="ignore").to_pylist() == expected


@settings(max_examples=examples(60))
@given(
    st.sampled_from(["tree", "hash", "regex", "scan"]),
    st.sampled_from(["counting", "scan"]),
    st.sampled_from(["bloom", "automaton", "scan"]),
    st.lists(subscriptions(), max_size=8, unique_by=lambda one: one.id),
    st.lists(events(), max_size=5),
)
def test_every_choice_of_engines_gives_the_same_answers(
    topic: str, where: str, path: str, held: list[Subscription], given_events: list[Event]
) -> None:
    chosen = Matcher(held, engines={"topic": topic, "where": where, "path": path, "change": "sf"})
    assert chosen.match_batch(given_events).equals(Matcher(held).match_batch(given_events))


@settings(max_examples=examples(75))
@given(subscriptions(), subscriptions(), st.lists(events(), min_size=1, max_size=6))
def test_a_profile_covers_and_merges_soundly(
    first: Subscription, second: Subscription, given_events: list[Event]
) -> None:
    """Checked on whole streams, because what a tolerance delivers depends on what came before."""
    one, other = Profile.of(first), Profile.of(second)
    delivered = [deliveries(profile_of, given_events) for profile_of in (first, second)]
    if one.covers(other):
        assert delivered[1] <= delivered[0]
    merged = one.merge(other)
    if merged.filters:
        texts: dict[str, Any] = {kind: filter.text for kind, filter in merged.filters.items()}
        if "change" in texts:
            texts["change"] = dict(merged.filters["change"].tolerances)  # type: ignore[attr-defined]
        assert delivered[0] | delivered[1] <= deliveries(Subscription("m", "m", **texts), given_events)


def deliveries(subscription: Subscription, events: list[Event]) -> set[int]:
    """Which of the events one subscription gets, by brute force."""
    oracle = MatcherOracle()
    oracle.add(subscription)
    return {position for position, event in enumerate(events) if oracle.match(event)}

"""The matches of a small batch are named by one kernel, and as those of any other are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from distributary import Event, Matcher, Subscription
from distributary.matching import pair_naming
from distributary.matching.batch import EventBatch

EVENTS = [Event(f"e{number}", attributes={"a": number, "x": number}) for number in (3, 0, 7, -1, 7)]


def subscriber_of(number: int) -> str:
    return f"u{number % 5}"


def held(count: int) -> list[Subscription]:
    """Ids that sort otherwise than their numbers; of four subscriptions, two share a slot."""
    return [
        Subscription(f"s{-number}", subscriber_of(number), where=f"a > {number - number % 4 // 3}")
        for number in range(count)
    ]


def check(matcher: Matcher) -> None:
    """Compare the columns with what each event finds by itself."""
    matcher.forget()
    expected = [
        (row, found, matcher.subscriber(found))
        for row, event in enumerate(EVENTS)
        for found in matcher.match(event)
    ]
    matcher.forget()
    found = matcher.matches(EventBatch.from_events(EVENTS))
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected
    codes = found.rows, found.subscription_codes, found.subscriber_codes
    assert list(zip(*(column.tolist() for column in codes), strict=True)) == expected
    for column in codes[1:]:
        assert sorted(column.dictionary.tolist()) == sorted(set(column.tolist()))
    matcher.forget()
    written = matcher.match_batch(EVENTS)
    matcher.forget()
    coded = matcher.match_batch(EVENTS, dictionaries=True)
    assert all(isinstance(column.type, pa.DictionaryType) for column in coded.columns)
    assert coded.to_pylist() == written.to_pylist()


@pytest.mark.parametrize("most", [0, pair_naming.MOST])
@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 9, 2000])
def test_matches_are_those_of_each_event_alone_after_changes(
    count: int, opened: bool, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_naming, "MOST", most)
    matcher = Matcher(held(count))
    if opened:
        matcher.freeze(tmp_path / "frozen")
        matcher = Matcher.open(tmp_path / "frozen")
    check(matcher)
    changes = [
        lambda: matcher.add(Subscription("late", "a new subscriber", where="a > 2")),
        lambda: matcher.add(Subscription("shared", "ann", where="a > 2")),
        lambda: matcher.add(Subscription("tolerant", "ann", where="a > 2", change={"x": 1})),
        lambda: matcher.remove("late"),
        lambda: matcher.add(Subscription("again" * 9, "one more", where="a > 5")),
        lambda: matcher.remove("tolerant"),
        matcher.compact,
        lambda: matcher.remove("shared"),
    ]
    for change in changes:
        change()
        check(matcher)


def test_a_base_of_ids_may_have_subscribers_that_are_not_in_theirs() -> None:
    matcher = Matcher(held(9))
    check(matcher)
    for number in range(5):
        matcher.add(Subscription(f"t{number}", f"new {number}", where=f"a > {number}"))
    matcher._registry.names.settle()
    check(matcher)


@pytest.mark.parametrize("most", [1, 5, 6])
def test_more_pairs_than_one_kernel_names(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher(held(9))
    named = matcher._registry.named(matcher._combinations.passed(EventBatch.from_events(EVENTS[:1])), 1)
    assert named is not None
    monkeypatch.setattr(pair_naming, "MOST", most)
    check(matcher)


def test_a_slot_with_very_many_subscriptions_takes_the_longer_way() -> None:
    matcher = Matcher(Subscription(f"s{number}", "ann", where="a > 2") for number in range(500))
    batch = EventBatch.from_events(EVENTS[:1])
    assert matcher._registry.named(matcher._combinations.passed(batch), 1) is None
    check(matcher)


@pytest.mark.parametrize("most", [0, pair_naming.MOST])
def test_matches_stay_as_they_were_when_subscriptions_change(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_naming, "MOST", most)
    matcher = Matcher([Subscription("s1", "ann", where="a > 2"), Subscription("s2", "bob", where="a > 3")])
    found = matcher.matches(EventBatch.from_events([Event("e", attributes={"a": 5})]))
    for old, new in (("s1", "t1"), ("s2", "t2")):
        matcher.remove(old)
        matcher.add(Subscription(new, f"the owner of {new}", where="a > 0"))
    matcher.compact()
    assert found.subscriptions.to_pylist() == ["s1", "s2"]
    assert found.subscribers.to_pylist() == ["ann", "bob"]
    assert found.subscriber_codes.to_pylist() == ["ann", "bob"]


def test_an_event_id_that_comes_twice_is_once_in_a_dictionary() -> None:
    matcher = Matcher([Subscription("s1", "ann", where="a > 2")])
    table = pa.table({"id": ["e1", "e2", "e1", None], "a": [3, 0, 4, 5]})
    found = matcher.match_batch(table, dictionaries=True, rejected=[])
    assert found["event_id"].to_pylist() == ["e1", "e1"]
    assert found["event_id"].chunk(0).dictionary.to_pylist() == ["e1", "e2"]

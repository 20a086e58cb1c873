"""The matches of a small batch are named by one kernel, and as those of any other are."""

from __future__ import annotations

from pathlib import Path

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
    columns = (column.tolist() for column in matcher.matches(EventBatch.from_events(EVENTS)))
    assert list(zip(*columns, strict=True)) == expected


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 9, 2000])
def test_matches_are_those_of_each_event_alone_after_changes(
    count: int, opened: bool, tmp_path: Path
) -> None:
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

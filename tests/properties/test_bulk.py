"""Building in bulk against adding one by one: answers, explanations, refusals, serials, freezing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary import Event, Matcher, Subscription, model
from distributary.errors import FilterError, InputError
from distributary.filters import kinds
from distributary.filters.filter import Filter
from distributary.matching import bulk
from distributary.matching.matcher import RejectedInput
from properties.examples import examples
from properties.oracle import MatcherOracle
from properties.test_matcher import CONDITIONS, PATHS, TOPICS, events

BAD = {
    "topic": ["A//B", "*/A", "", "mqtt:", "#"],
    "where": ["a >", "a = 'x", "a == 1", "", "a > 1 b", "a > 1e9999 ;"],
    "path": ["/a[", "", "a[2", "//"],
    "change": [{"a": -1}, {}, {"a": "x"}, {1: 2}, {"a": float("nan")}],
}
TOLERANCES: list[Any] = [{"a": 0.5}, {"b": 1}, {"a": 0.0, "b": 3}, {"a": True}, '{"a": 2}', {"ä": 1.0}]
NARROW = [f"a > {low} and a < {low + 2}.50" for low in range(4)] + [
    f"c = '{text}' and b <= 2" for text in "xyz"
]


class OddLength(Filter):
    """A kind that an application adds: whether the topic has an odd number of characters."""

    kind: ClassVar[str] = "odd"
    __slots__ = ("_given",)

    def __init__(self, given: bool) -> None:
        self._given = given

    @classmethod
    def parse(cls, given: Any) -> OddLength:
        if given not in (True, False, "True", "False"):
            raise FilterError("must be true or false", field="odd")
        return cls(str(given) == "True")

    @property
    def text(self) -> str:
        return str(self._given)

    def matches(self, event: Event) -> bool:
        return (len(event.topic or "") % 2 == 1) == self._given

    def covers(self, other: OddLength) -> bool:
        return self.text == other.text

    def merge(self, other: OddLength) -> OddLength | None:
        return self if self.text == other.text else None

    @property
    def slow(self) -> str | None:
        return "it is counted" if self._given else None


@pytest.fixture(autouse=True)
def small_lots_and_malformed_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lots of three, an application's kind, and no check when a subscription is made but when it is added."""
    monkeypatch.setattr(bulk, "LOT", 3)
    monkeypatch.setattr(bulk, "FEW", 0)
    monkeypatch.setattr(model, "_subscription_checks", [])
    monkeypatch.setitem(kinds._added, "odd", OddLength)


@st.composite
def subscriptions(draw: st.DrawFn) -> Subscription:
    """Any mix of filters, some of them malformed, under few ids."""
    given: dict[str, list[Any]] = {
        "topic": [*TOPICS, *TOPICS, *BAD["topic"]],
        "where": [*CONDITIONS, *NARROW, "a < b", "c like '%y'", "b < a", *BAD["where"]],
        "path": [*PATHS, *PATHS, *BAD["path"]],
        "change": [*TOLERANCES, *BAD["change"]],
    }
    some = draw(st.sets(st.sampled_from(sorted(given)), min_size=1, max_size=3))
    filters = {kind: draw(st.sampled_from(given[kind])) for kind in sorted(some)}
    more = draw(
        st.sampled_from([{}, {}, {}, {"odd": True}, {"odd": True}, {"odd": False}, {"odd": 7}, {"even": 1}])
    )
    names = st.sampled_from(["ann", "bob", "ä"])
    return Subscription(f"s{draw(st.integers(0, 12))}", draw(names), **filters, more=more)


def one_by_one(
    given_: list[Subscription], serials: list[int] | None, rejected: list[RejectedInput]
) -> tuple[Matcher, MatcherOracle]:
    matcher, oracle = Matcher(), MatcherOracle()
    for position, subscription in enumerate(given_):
        try:
            matcher.add(subscription, serial=None if serials is None else serials[position])
        except InputError as error:
            rejected.append(RejectedInput(position, subscription.id, error))
        else:
            oracle.add(subscription)
    return matcher, oracle


def told(rejected: list[RejectedInput]) -> list[tuple[Any, ...]]:
    return [(each.position, each.id, type(each.error), str(each.error)) for each in rejected]


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(subscriptions(), max_size=14),
    st.none() | st.integers(-5, 5),
    st.lists(events(), max_size=5),
    st.lists(st.tuples(st.booleans(), subscriptions()), max_size=6),
)
def test_building_in_bulk_is_adding_one_by_one(
    given_: list[Subscription],
    first_serial: int | None,
    given_events: list[Event],
    changes: list[tuple[bool, Subscription]],
) -> None:
    serials = None if first_serial is None else [first_serial + 3 * at for at in range(len(given_))]
    expected: list[RejectedInput] = []
    plain, _ = one_by_one(given_, serials, expected)
    rejected: list[RejectedInput] = []
    built = Matcher(given_, serials=serials, rejected=rejected)
    assert told(rejected) == told(expected)
    check_alike(built, plain, given_events)
    for is_removal, subscription in changes:
        if is_removal and subscription.id in plain:
            built.remove(subscription.id)
            plain.remove(subscription.id)
        elif not is_removal:
            outcomes = []
            for matcher in (built, plain):
                try:
                    matcher.add(subscription)
                    outcomes.append("")
                except InputError as error:
                    outcomes.append(str(error))
            assert outcomes[0] == outcomes[1]
    check_alike(built, plain, given_events)
    with tempfile.TemporaryDirectory() as directory:
        for name, matcher in (("built", built), ("plain", plain)):
            matcher.freeze(Path(directory) / name)
        opened = [Matcher.open(Path(directory) / name) for name in ("built", "plain")]
        check_alike(*opened, given_events)
        del opened


def check_alike(built: Matcher, plain: Matcher, given_events: list[Event]) -> None:
    assert len(built) == len(plain)
    assert built.ids() == plain.ids()
    assert dict(built.slow) == dict(plain.slow)
    assert list(built.slow) == list(plain.slow)
    assert built.size().slots == plain.size().slots
    assert built.has_tolerances == plain.has_tolerances
    for subscription_id in plain.ids():
        assert built.serial(subscription_id) == plain.serial(subscription_id)
        assert built.subscriber(subscription_id) == plain.subscriber(subscription_id)
        for event in given_events[:2]:
            assert str(built.explain(event, subscription_id)) == str(plain.explain(event, subscription_id))
    assert built.match_batch(given_events).equals(plain.match_batch(given_events))
    for event in given_events:
        assert built.match(event) == plain.match(event)
    topics = sorted({event.topic for event in given_events}, key=str)
    assert built.recall(topics) == plain.recall(topics)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        subscriptions().filter(lambda one: not one.more and not isinstance(one.change, str)), max_size=12
    ),
    st.lists(events(), max_size=5),
)
def test_what_is_built_in_bulk_answers_as_brute_force_does(
    given_: list[Subscription], given_events: list[Event]
) -> None:
    _, oracle = one_by_one(given_, None, [])
    built = Matcher(given_, rejected=[])
    for event in given_events:
        assert built.match(event) == oracle.match(event)


@pytest.mark.parametrize("place", [0, 2, 3, 7])
def test_the_first_malformed_one_is_raised_if_nobody_takes_it(place: int) -> None:
    given_ = [Subscription(f"s{number}", "ann", topic="A") for number in range(9)]
    given_[place] = Subscription("bad", "ann", where="a >")
    given_[8] = Subscription("s1", "ann", topic="B")
    with pytest.raises(FilterError, match="where"):
        Matcher(given_)


def test_what_came_before_a_failure_is_told_of_first() -> None:
    def broken() -> Iterator[Subscription]:
        yield Subscription("s1", "ann", topic="A")
        yield Subscription("s1", "ann", topic="B")
        raise OSError("the file is gone")

    with pytest.raises(InputError, match="registered already"):
        Matcher(broken())
    rejected: list[RejectedInput] = []
    with pytest.raises(OSError, match="the file is gone"):
        Matcher(broken(), rejected=rejected)
    assert [each.position for each in rejected] == [1]


def test_a_serial_of_more_than_64_bits_is_refused() -> None:
    given_ = [Subscription(f"s{number}", "ann", topic="A") for number in range(5)]
    with pytest.raises(ValueError, match="64 bits"):
        Matcher(given_, serials=[1, 2, 3, 4, 2**63])
    with pytest.raises(ValueError, match="zip"):
        Matcher(given_, serials=[1, 2, 3, 4])
    assert Matcher(given_, serials=[1, 2, 3, 4, 2**63 - 1]).serial("s4") == 2**63 - 1


def test_few_are_added_one_by_one_and_many_in_bulk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "FEW", 2)
    registered: list[int] = []

    class Noting(bulk.BulkRegistration):
        def register(self, lot: list[Subscription], serials: list[int] | None) -> None:
            registered.append(len(lot))
            super().register(lot, serials)

    monkeypatch.setattr(bulk, "BulkRegistration", Noting)
    given_ = [Subscription(f"s{number}", "ann", topic="A") for number in range(5)]
    assert len(Matcher(given_[:2])) == 2
    assert registered == []
    assert len(Matcher(given_)) == 5
    assert registered == [3, 2]

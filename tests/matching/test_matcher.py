"""Matcher by example: live changes, sharing, explanations, frozen copies, filter kinds of one's own."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from distributary import Event, FilterError, InputError, Matcher, Subscription
from distributary.errors import DistributaryError, RegisteredAlreadyError, UnknownSubscriptionError
from distributary.filters import kinds
from distributary.filters.filter import Filter
from distributary.matching import bulk
from distributary.matching.batch import EventBatch
from distributary.matching.matcher import RejectedInput

MOMENT = datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
QUOTE = Event("e1", topic="quotes/NYSE/OTE", attributes={"symbol": "OTE", "price": 8.4, "at": MOMENT})


def subscription(name: str, **filters: Any) -> Subscription:
    return Subscription(name, "ann", **filters)


def test_the_example_of_two_subscriptions_and_an_event() -> None:
    """Figures 1 and 2 of the paper on attribute subscriptions."""
    event = Event(
        "event 1",
        attributes={"Exchange": "NYSE", "Symbol": "OTE", "Price": 8.40, "High": 8.80, "Low": 8.22},
    )
    matcher = Matcher(
        [
            subscription("1", where="Exchange = 'NYSE' and Symbol = 'OTE' and Price < 8.70 and Price > 8.30"),
            subscription("2", where="Symbol = 'OTE' and Price = 8.20 and Low < 8.05"),
        ]
    )
    assert matcher.match(event) == ["1"]


def test_a_change_takes_effect_with_the_next_event_and_disturbs_nobody() -> None:
    matcher = Matcher([subscription("s1", topic="quotes"), subscription("s2", topic="quotes")])
    assert matcher.match(QUOTE) == ["s1", "s2"]
    matcher.remove("s1")
    assert matcher.match(QUOTE) == ["s2"]
    matcher.add(subscription("s1", topic="weather"))
    matcher.add(subscription("s3", where="price > 8"))
    assert matcher.match(QUOTE) == ["s2", "s3"]


@pytest.mark.parametrize("few", [bulk.FEW, 0], ids=["one by one", "in bulk"])
@pytest.mark.parametrize("everything", [{"where": "true"}, {"change": {"n": 0}}])
def test_what_asks_for_everything_is_found_until_it_is_removed(
    everything: dict[str, Any], few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "FEW", few)
    numbers = count()

    def answers(matcher: Matcher, price: float) -> list[str]:
        """What matches an event alone, and another one in a batch: `n` is never the same."""
        alone, other = (Event("e", attributes={"n": next(numbers), "price": price}) for _ in range(2))
        found: list[str] = matcher.match_batch([other])["subscription_id"].to_pylist()
        assert matcher.match(alone) == found
        return found

    matcher = Matcher([subscription("all", **everything), subscription("some", where="price > 8")])
    assert answers(matcher, 7) == ["all"]
    assert answers(matcher, 8.5) == ["all", "some"]
    matcher.freeze(tmp_path / "frozen")
    opened = Matcher.open(tmp_path / "frozen")
    assert answers(opened, 7) == ["all"]
    for one in (matcher, opened):
        one.remove("all")
        assert answers(one, 8.5) == ["some"]
        one.add(subscription("other", where="price > 9"))  # in the place of the one that was removed
        assert answers(one, 8.5) == ["some"]
        one.add(subscription("again", **everything))
        assert answers(one, 7) == ["again"]


def test_subscriptions_with_the_same_filters_share_a_slot() -> None:
    same = [subscription(f"s{number}", topic="quotes", where="price>8.0") for number in range(100)]
    matcher = Matcher([*same, subscription("t", topic="quotes", where="price  >  8.0")])
    assert (matcher.size().subscriptions, matcher.size().slots) == (101, 1)
    assert len(matcher.match(QUOTE)) == 101


@pytest.mark.parametrize("rows", [1, 2, 64, 65])
def test_a_batch_is_told_of_everybody_in_a_slot(rows: int) -> None:
    held = [Subscription(f"s{number}", "ann", where=f"a > {number % 5}") for number in range(40)]
    matcher = Matcher(held)
    events = [Event(f"e{row}", attributes={"a": row % 7}) for row in range(rows)]
    expected = [
        {"event_id": event.id, "subscription_id": each.id}
        for event in events
        for each in sorted(held, key=lambda subscription: subscription.id)
        if event.attributes["a"] > int(each.id[1:]) % 5
    ]
    assert matcher.match_batch(events).to_pylist() == expected


def test_a_tolerance_of_one_subscriber_survives_the_removal_of_another() -> None:
    matcher = Matcher([subscription(name, topic="quotes", change={"price": 1}) for name in ("s1", "s2")])
    assert matcher.match(QUOTE) == ["s1", "s2"]
    matcher.remove("s1")
    matcher.add(subscription("s1", topic="quotes", change={"price": 1}))
    assert matcher.match(QUOTE) == ["s1"]
    matcher.forget()
    assert matcher.match(QUOTE) == ["s1", "s2"]


def test_an_id_is_registered_once() -> None:
    matcher = Matcher([subscription("s1", topic="quotes")])
    with pytest.raises(InputError, match="registered already"):
        matcher.add(subscription("s1", topic="weather"))
    assert matcher.match(QUOTE) == ["s1"]


def test_of_a_long_id_that_is_taken_a_part_is_shown_and_the_error_can_be_sent() -> None:
    with pytest.raises(RegisteredAlreadyError) as caught:
        Matcher([subscription("a", topic="A"), subscription("x" * 5000, topic="A")] * 2)
    assert (str(caught.value), caught.value.kept) == ("id: 'a' is registered already; remove it first", 0)
    error = RegisteredAlreadyError("x" * 5000, 1)
    assert len(str(error)) < 200
    sent = pickle.loads(pickle.dumps(error))
    assert (str(sent), sent.kept, sent.field) == (str(error), 1, "id")


@pytest.mark.parametrize("few", [bulk.FEW, 0], ids=["one by one", "in bulk"])
def test_a_record_in_place_of_a_subscription_or_an_event_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(bulk, "FEW", few)
    record: Any = {"id": "s1", "subscriber": "ann", "topic": "A"}
    matcher = Matcher([Subscription.from_record(record)])
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("Subscription", lambda: Matcher([record])),
        ("Subscription", lambda: matcher.add(record)),
        ("Event", lambda: matcher.match(record)),
        ("Event", lambda: matcher.match_batch([record])),
    ]
    for kind, call in calls:
        with pytest.raises(TypeError, match=f"{kind} is needed, not a dict: .* {kind}.from_record"):
            call()
    assert matcher.match(Event("e1", topic="A")) == ["s1"]


def test_engines_of_a_filter_kind_that_there_is_not_are_refused() -> None:
    with pytest.raises(DistributaryError, match="no filter kind 'topc'; known are topic, where"):
        Matcher(engines={"topc": "tree"})


def test_removing_or_explaining_what_is_not_there_says_so() -> None:
    matcher = Matcher()
    with pytest.raises(UnknownSubscriptionError, match="no subscription 's1' is registered"):
        matcher.remove("s1")
    with pytest.raises(UnknownSubscriptionError):
        matcher.explain(QUOTE, "s1")


def test_a_malformed_subscription_leaves_nothing_behind() -> None:
    matcher = Matcher()
    with pytest.raises(FilterError, match="path"):
        matcher.add(subscription("s1", topic="quotes", path="///"))
    assert len(matcher) == 0
    assert matcher.match(QUOTE) == []


def test_malformed_subscriptions_are_noted_when_a_list_is_given() -> None:
    rejected: list[RejectedInput] = []
    given = [subscription("s1", topic="A"), subscription("s1", topic="B"), subscription("s2", topic="quotes")]
    assert Matcher(given, rejected=rejected).match(QUOTE) == ["s2"]
    assert [(one.position, one.id, one.error.field) for one in rejected] == [(1, "s1", "id")]


def test_a_subscription_with_a_filter_that_is_none_cannot_be_made() -> None:
    for filters in ({"topic": "A//B"}, {"where": "price >"}, {"path": "/a["}, {"change": {"price": -1}}):
        with pytest.raises(FilterError) as caught:
            subscription("s1", **filters)
        assert caught.value.field == next(iter(filters))


def test_malformed_events_raise_or_are_noted_and_the_rest_is_matched() -> None:
    matcher = Matcher([subscription("s1", topic="A"), subscription("s2", where="x = 1")])
    table = pa.table(
        {
            "id": ["e1", "e2", "e3"],
            "topic": ["", "A", "A"],
            "document": [None, "<a>", "<a/>"],
            "x": [1, 1, 1],
        }
    )
    with pytest.raises(InputError, match="an empty topic"):
        matcher.match_batch(table)
    rejected: list[RejectedInput] = []
    matches = matcher.match_batch(table, rejected=rejected)
    assert matches.to_pylist() == [
        {"event_id": "e3", "subscription_id": "s1"},
        {"event_id": "e3", "subscription_id": "s2"},
    ]
    assert [(one.position, one.id, one.error.field) for one in rejected] == [
        (0, "e1", "topic"),
        (1, "e2", "document"),
    ]
    with pytest.raises(InputError, match="document"):
        matcher.match(Event("e2", topic="A", document="<a>"))


def test_columns_may_have_other_names_and_be_nested() -> None:
    matcher = Matcher([subscription("s1", topic="A", where="wind.speed > 3")])
    table = pa.table({"key": [7, 8], "subject": ["A", "A"], "wind": [{"speed": 5.0}, {"speed": 1.0}]})
    assert matcher.match_batch(table, id="key", topic="subject").to_pylist() == [
        {"event_id": 7, "subscription_id": "s1"}
    ]


def test_a_table_without_the_id_column_is_refused() -> None:
    with pytest.raises(InputError, match="no column 'id'"):
        Matcher().match_batch(pa.table({"x": [1]}))


def test_an_event_is_delivered_once_to_a_subscriber() -> None:
    matcher = Matcher(
        [
            Subscription("s1", "ann", topic="quotes"),
            Subscription("s2", "ann", where="price > 8"),
            Subscription("s3", "bob", topic="quotes"),
        ]
    )
    deliveries = [(one.subscriber, one.subscriptions) for one in matcher.deliveries(QUOTE)]
    assert deliveries == [("ann", ("s1", "s2")), ("bob", ("s3",))]


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"topic": "quotes/ASE"}, "level 2 of 'quotes/NYSE/OTE' is 'NYSE', not 'ASE'"),
        ({"topic": "quotes/NYSE/#"}, "'quotes/NYSE/OTE' is deeper than 2 levels"),
        ({"topic": "quotes/*/*/*"}, "'quotes/NYSE/OTE' ends before level 4"),
        ({"where": "symbol = 'OTE' and price > 9"}, "price > 9 is false (price is 8.4)"),
        ({"where": "volume > 9"}, "volume > 9 is unknown (no volume)"),
        ({"where": "symbol > 9"}, "symbol > 9 is unknown (symbol is 'OTE')"),
        ({"where": "id = 'e2' and topic like 'x%'"}, "id = 'e2' is false (id is 'e1')"),
        ({"where": "now() < timestamp '2000-01-01'"}, "is false"),
        ({"where": "at > timestamp '2027-01-01'"}, "(at is timestamp '2026-06-01 12:30:00')"),
        ({"path": "/rss"}, "the event has no document"),
        ({"change": {"volume": 1}}, "volume is not a number in this event"),
    ],
)
def test_an_explanation_names_the_filter_that_failed_and_why(filters: dict[str, Any], said: str) -> None:
    explanation = Matcher([subscription("s1", **filters)]).explain(QUOTE, "s1")
    assert not explanation.matches
    assert [reason.kind for reason in explanation.failed] == list(filters)
    assert said in str(explanation)


def test_explaining_a_tolerance_does_not_advance_it() -> None:
    matcher = Matcher([subscription("s1", topic="quotes", change={"price": 1})])
    for _ in range(2):
        assert matcher.explain(QUOTE, "s1").matches
    assert matcher.match(QUOTE) == ["s1"]
    explanation = matcher.explain(QUOTE, "s1")
    assert not explanation.matches
    assert "0 from the last delivered 8.4: not more than 1" in str(explanation)


def test_a_frozen_matcher_opens_as_it_was_and_stays_live(tmp_path: Path) -> None:
    matcher = Matcher(
        [
            subscription("s1", topic="quotes", where="price > 8"),
            subscription("s2", topic="quotes", change={"price": 1}),
            subscription("s3", topic="gone"),
        ]
    )
    assert matcher.match(QUOTE) == ["s1", "s2"]
    matcher.remove("s3")
    matcher.freeze(tmp_path / "frozen")
    opened = Matcher.open(tmp_path / "frozen")
    assert opened.match(QUOTE) == ["s1"], "the tolerance remembers what was delivered"
    opened.add(subscription("s3", where="symbol = 'OTE'"))
    opened.remove("s1")
    assert opened.match(QUOTE) == ["s3"]
    assert opened.ids() == ["s2", "s3"]
    assert Matcher.open(tmp_path / "frozen").ids() == ["s1", "s2"], "the files were not written to"


def test_freezing_needs_an_empty_directory_and_opening_a_complete_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DistributaryError, match="not empty"):
        Matcher().freeze(tmp_path)
    with pytest.raises(DistributaryError, match="no frozen index"):
        Matcher.open(tmp_path)


def test_a_filter_kind_of_ones_own_works_alone_and_beside_others(tmp_path: Path) -> None:
    class LongId(Filter):
        kind: ClassVar[str] = "id_longer_than"

        def __init__(self, length: int) -> None:
            self.length = length

        @classmethod
        def parse(cls, given: Any) -> LongId:
            try:
                return cls(int(given))
            except (TypeError, ValueError):
                raise FilterError("give a number", field=cls.kind) from None

        @property
        def text(self) -> str:
            return str(self.length)

        def matches(self, event: Event) -> bool:
            return len(event.id) > self.length

        def covers(self, other: LongId) -> bool:
            return self.length <= other.length

        def merge(self, other: LongId) -> LongId:
            return min(self, other, key=lambda one: one.length)

    kinds.register(LongId)
    try:
        matcher = Matcher(
            [
                subscription("s1", more={"id_longer_than": 1}),
                subscription("s2", more={"id_longer_than": 5}, topic="quotes"),
                subscription("s3", more={"id_longer_than": 1}, topic="quotes"),
            ]
        )
        assert matcher.match(QUOTE) == ["s1", "s3"]
        matcher.freeze(tmp_path / "frozen")
        assert Matcher.open(tmp_path / "frozen").match(QUOTE) == ["s1", "s3"]
        assert "id_longer_than 5: does not hold" in str(matcher.explain(QUOTE, "s2"))
        with pytest.raises(FilterError, match="give a number"):
            matcher.add(subscription("s4", more={"id_longer_than": "x"}))
    finally:
        del kinds._added["id_longer_than"]
    with pytest.raises(DistributaryError, match="not registered"):
        Matcher.open(tmp_path / "frozen")


@pytest.mark.parametrize("taken", ["id", "topic", "change"])
def test_a_filter_kind_cannot_take_a_known_name(taken: str) -> None:
    with pytest.raises(DistributaryError, match="is taken"):
        kinds.register(type("Taken", (Filter,), {"kind": taken}))


def test_many_live_changes_keep_the_order_of_ids_right() -> None:
    """More changes than are ranked one by one, so that the order is made anew in between."""
    matcher = Matcher([subscription(f"m{number}", topic="quotes") for number in range(50)])
    names = [f"m{number}" for number in range(50)]
    for number in range(5000):
        name = f"{'abz'[number % 3]}{number}"
        matcher.add(subscription(name, topic="quotes"))
        names.append(name)
        if number % 7 == 0:
            matcher.remove(names.pop(0))
        if number % 500 == 0:
            assert matcher.match(QUOTE) == sorted(names)
    assert matcher.match(QUOTE) == sorted(names)


def test_serials_are_given_or_counted_and_never_used_twice(tmp_path: Path) -> None:
    matcher = Matcher([subscription("s1", topic="A"), subscription("s2", topic="A")], serials=[-3, 2**62])
    matcher.add(subscription("s3", topic="A"))
    matcher.remove("s3")
    matcher.freeze(tmp_path / "frozen")
    opened = Matcher.open(tmp_path / "frozen")
    opened.add(subscription("s3", topic="A"))
    assert [opened.serial(one) for one in ("s1", "s2", "s3")] == [-3, 2**62, 2**62 + 2]
    with pytest.raises(ValueError, match="64 bits"):
        opened.add(subscription("s4", topic="A"), serial=2**63)
    with pytest.raises(UnknownSubscriptionError):
        opened.serial("s4")


@pytest.mark.parametrize("plain", range(6))
@pytest.mark.parametrize("tolerant", range(6))
def test_numbers_are_matched_as_ids_are_tolerances_included(plain: int, tolerant: int) -> None:
    wanted = [subscription(f"p{one}", topic="A", where=f"x > {one % 2}") for one in range(plain)]
    wanted += [subscription(f"t{one}", topic="A", change={"x": one}) for one in range(tolerant)]
    by_id, by_number = Matcher(wanted), Matcher(wanted)
    ids = {by_number.number(one.id): one.id for one in wanted}
    for value in (1, 3, 3, 8):
        event = Event("e", topic="A", attributes={"x": value})
        assert sorted(ids[number] for number in by_number.match_numbers(event)) == by_id.match(event)
    assert by_number.match_numbers(Event("e", topic="B")) == []


def test_a_number_is_used_again_when_its_subscription_is_gone() -> None:
    matcher = Matcher([subscription("s1", topic="A"), subscription("s2", topic="A")])
    free = matcher.number("s1")
    matcher.remove("s1")
    matcher.add(subscription("s3", topic="B"))
    assert matcher.number("s3") == free
    assert matcher.match_numbers(Event("e", topic="B")) == [free]
    assert matcher.match_numbers(Event("e", topic="A")) == [matcher.number("s2")]


def test_each_subscription_needs_a_serial_when_serials_are_given() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Matcher([subscription("s1", topic="A")], serials=[])


def test_a_memory_that_was_cut_or_overwritten_is_restored_or_refused_and_never_breaks() -> None:
    matcher = Matcher([subscription(name, change={"price": 1, "größe": 2}) for name in ("s1", "s2")])
    matcher.match(Event("e", topic="A", attributes={"price": 5, "größe": 1}))
    (memory,) = matcher.recall(["A"])
    assert memory is not None
    cut = [memory[:length] for length in range(len(memory))]
    flipped = [memory[:at] + b"\xff" + memory[at + 1 :] for at in range(len(memory))]
    refused = 0
    for damaged in (*cut, *flipped):
        matcher.forget()
        try:
            matcher.restore(["A"], [damaged])
        except DistributaryError:
            refused += 1
    assert refused > len(memory), "most cuts and every length that does not fit are noticed"


def test_a_memory_is_restored_only_to_the_registration_it_was_of() -> None:
    matcher = Matcher([subscription(name, change={"price": 1}) for name in ("s1", "s2", "s3")])
    assert matcher.match(QUOTE) == ["s1", "s2", "s3"]
    topics = ["quotes/NYSE/OTE", None, "other"]
    memories = matcher.recall(topics)
    assert [memory is None for memory in memories] == [False, True, True]
    assert matcher.recall(["/quotes/NYSE/OTE"]) == [None], "a leading slash makes another topic"
    serial = matcher.serial("s3")
    for name in ("s1", "s3"):
        matcher.remove(name)
    matcher.add(subscription("s1", change={"price": 1}))
    matcher.add(subscription("s3", change={"volume": 1}), serial=serial)
    matcher.forget()
    matcher.restore(topics, memories)
    assert matcher.match(QUOTE) == ["s1"], "s2 remembers, and s3 watches something else"


def test_memories_that_fit_no_topic_or_were_not_recalled_are_refused() -> None:
    matcher = Matcher([subscription("s1", change={"price": 1})])
    with pytest.raises(ValueError, match="each topic once"):
        matcher.restore(["A", "A"], [None, None])
    with pytest.raises(ValueError, match="one memory for each"):
        matcher.restore(["A"], [])
    with pytest.raises(DistributaryError, match="not written by"):
        matcher.restore(["A"], [b"?"])


def test_an_engine_whose_memory_is_shared_says_that_it_cannot_be_moved() -> None:
    matcher = Matcher([subscription("s1", change={"price": 1})], engines={"change": "mfd"})
    with pytest.raises(DistributaryError, match="'thresholds' or 'sf'"):
        matcher.recall(["A"])
    with pytest.raises(DistributaryError, match="'thresholds' or 'sf'"):
        matcher.restore(["A"], [None])


def test_a_malformed_event_is_not_tolerant() -> None:
    matcher = Matcher([subscription("s1", change={"price": 1})])
    table = pa.table({"id": ["e1", None], "price": [1, 1]})
    assert matcher.tolerant_rows(EventBatch.from_table(table)).tolist() == [True, False]
    assert Matcher().tolerant_rows(EventBatch.from_table(table)).tolist() == [False, False]


def test_a_crowd_at_one_topic_remembers_through_bytes() -> None:
    """More members than are kept without a tree, with tolerances that part them."""
    held = [subscription(f"s{n:05}", topic="quotes", change={"price": n / 1000}) for n in range(3000)]
    prices = [10.0, 10.7, 9.1, 12.5, 11.9, 10.0]
    whole = Matcher(held)
    expected = [whole.match(Event("e", "quotes", {"price": price})) for price in prices]
    memory: bytes | None = None
    for price, wanted in zip(prices, expected, strict=True):
        matcher = Matcher(held)
        matcher.restore(["quotes"], [memory])
        assert matcher.match(Event("e", "quotes", {"price": price})) == wanted
        (memory,) = matcher.recall(["quotes"])

"""An event alone is answered as it is in a batch, at the borders between the two ways as well."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from distributary import Event, Matcher, Subscription
from distributary.errors import InputError
from distributary.filters.path.filter import PathFilter
from distributary.filters.where.filter import WhereFilter
from distributary.matching import naming
from distributary.matching.batch import EventBatch
from distributary.matching.bound import BoundArrays
from distributary.matching.naming import FEW, SHORT
from distributary.matching.path.verifier import PathVerifier
from distributary.matching.single import SingleEvent
from distributary.matching.topic import shapes
from distributary.matching.where import bitsets, single

CONDITIONS = (
    "a = 1",
    "a > 0.5 and b < 2",
    "a in (1, 2, 3) or b = 1",
    "a = 1 or a + b > 2 or b = 5",
    "a < b",
    "wind is not null",
    "wind.speed > 3 and wind is not null",
    "wind = 'strong'",
    "not a > 0.5",
    "a <> 1",
    "a is distinct from 1",
    "id = 'e1' or id = 'e2'",
    "topic is null",
    "topic like 'A/%' and id <> 'e3'",
    "name = 'ann' or name > 'm'",
    "lower(name) = 'ann'",
    "price >= 1.00000000000000000001",
    "price < 1.5",
    "price > 1.00000000000000000001",
    "price = 1.00000000000000000001",
    "price < 1.00000000000000000002 or price > 2",
    "price = 0.100000000000000060",
    "price > 0.100000000000000060 and price < 1",
    "price >= 900719925474099954",
    "price between 1.00000000000000000002 and 1.00000000000000000003",
    "at > timestamp '2026-01-01 00:00:00'",
    "flag",
    "not flag or a is null",
    "a is null and b is null",
    "name like '%n'",
    "name like '%n' and name like 'a%'",
    "name like '%n' and name like '%x%'",
    "a >= 0 and name like '%n' and a <> b",
    "a > 9007199254740992",
    " and ".join(f"(a < {number} or b < {number} or name = 'ann')" for number in range(2, 14)),
)
EVENTS = (
    Event("e1"),
    Event("e2", "A/B", {"a": 1, "b": 1.0}),
    Event("e3", "A/B", {"a": -0.0, "b": 2, "name": "ann", "flag": True}),
    Event("e4", attributes={"wind.speed": 4, "name": "Ann"}),
    Event("e5", attributes={"wind.speed": None, "name": "zoë", "flag": False}),
    Event("e6", attributes={"price": Decimal("1.00000000000000000001")}),
    Event("e7", attributes={"price": Decimal("1.0")}),
    Event("e8", attributes={"at": datetime(2026, 5, 1), "a": float("nan")}),
    Event("e9", attributes={"a": 2**53 + 1, "b": 10**400}),
    Event("e10", attributes={"a": np.float32(0.75), "b": np.int64(1), "name": np.str_("ann")}),
    Event("e11", attributes={"a": (1, 2), "id": "e1", "topic": "A/C"}),
    Event("e12", attributes={"at": np.datetime64("NaT"), "topic.depth": 2, "wind": "strong"}),
    Event("e13", "A", {"wind": "strong", "wind.speed": 5, "topic.depth": 1, "id.x": 2}),
    Event("e14", attributes={"wind.speed": 5, "wind": "strong", "price": Decimal("1.00000000000000000002")}),
    Event("e16", attributes={"price": Decimal("0.1000000000000000675")}),
    Event("e17", attributes={"price": Decimal(900719925474099954)}),
    Event("e15", attributes={"price": Decimal("1.00000000000000000003"), "topic.depth": 1, "id.x": 2}),
)


def subscriptions(topic: str | None = None) -> list[Subscription]:
    return [
        Subscription(f"s{number}", "ann", topic, condition) for number, condition in enumerate(CONDITIONS)
    ]


def in_batch(matcher: Matcher, event: Event) -> list[str]:
    ids: list[str] = matcher.match_batch([event])["subscription_id"].to_pylist()
    return ids


@pytest.mark.parametrize("topic", [None, "mqtt:A/#", "A"])
def test_every_kind_of_value_is_answered_as_in_a_batch(topic: str | None) -> None:
    matcher = Matcher(subscriptions(topic))
    for event in EVENTS:
        assert matcher.match(event) == in_batch(matcher, event), event


@pytest.mark.parametrize("rows", [1, 2, 31, 32, 33, 64, 65, bitsets.FEW_ROWS, bitsets.FEW_ROWS + 1])
def test_columns_of_any_length_are_searched_as_conditions_are_evaluated(rows: int) -> None:
    columns: dict[str, list[Any]] = {
        "a": [1.0, -0.0, 0.0, float("nan"), None, 2.5, float("inf")],
        "b": [1, 0, None, 2**53 - 1, 2**53, -5, 2**62],
        "wind": [b"x", None, b"", b"y", b"", None, b"z"],
        "name": ["ann", None, "zoë", "", "m", "n", "Ann"],
        "flag": [True, False, None, True, False, True, None],
    }
    table = pa.table(
        {"id": [f"e{row}" for row in range(rows)], "key": [row % 40 for row in range(rows)]}
        | {name: [values[row % 7] for row in range(rows)] for name, values in columns.items()}
    )
    asked = (
        *("a = 0", "a is not null", "a is null", "a >= 1 and a < 3", "b > 1", "b is not null", "b = 0"),
        *("wind is not null", "wind is null", "name >= 'm'", "name is null", "flag", "flag is null"),
    )
    # The key holds for one row in 40, so that no condition is evaluated for all rows.
    conditions = [WhereFilter.parse(f"key = {key} and {also}") for key in range(40) for also in asked]
    index = bitsets.WhereBitsets()
    index.add_many(range(len(conditions)), conditions)
    events = [Event(record.pop("id"), attributes=record) for record in table.to_pylist()]
    expected = {
        (row, slot)
        for row, event in enumerate(events)
        for slot, condition in enumerate(conditions)
        if condition.matches(event)
    }
    found = index.match_batch(EventBatch.from_table(table))
    assert set(zip(found.rows.tolist(), found.slots.tolist(), strict=True)) == expected
    assert {(row, slot) for row, event in enumerate(events) for slot in index.match(event)} == expected


@pytest.mark.parametrize("names", [0, single.MOST_NAMES - 3, single.MOST_NAMES])
def test_events_of_one_shape_are_answered_each_by_its_values(
    names: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single, "MOST_SHAPES", 2)
    texts = ["a > 1", "a = 10", "b = 'x'", "b >= 'y'", "c", "not c", "a is not null", "b is null"]
    matcher = Matcher(Subscription(f"s{at}", "ann", where=text) for at, text in enumerate(texts))
    more = {f"other {number}": number for number in range(names)}
    shapes: list[dict[str, list[Any]]] = [
        {"a": [0, 2, 10, 10**400, -(10**400), 2]},
        {"a": [0.0, 10.0, float("nan"), float("inf"), -0.0, 3.5]},
        {"b": ["x", "", "yy", "\u00fc", "x", "z"], "a": [1, 10, 10**400, 2, 3, 4]},
        {"c": [True, False] * 3, "unknown": [None] * 6},
        {"a": [True, False, None, "10", Decimal("10"), (10,)]},
    ]
    for shape in (*shapes, *shapes):
        for values in zip(*shape.values(), strict=True):
            event = Event("e", attributes={**dict(zip(shape, values, strict=True)), **more})
            assert matcher.match(event) == in_batch(matcher, event)


def test_answers_follow_changes_that_move_arrays_and_names(tmp_path: Path) -> None:
    matcher = Matcher(subscriptions()[:3])
    event = EVENTS[1]
    assert matcher.match(event) == ["s0", "s1", "s2"]
    matcher.remove("s0")
    # The same number and slot, under another name.
    matcher.add(Subscription("other", "ann", where="a = 1"))
    assert matcher.match(event) == ["other", "s1", "s2"]
    # More slots than the tables had room for when they were bound.
    for number in range(300):
        matcher.add(Subscription(f"t{number}", "ann", where=f"b = 1 and a < {number}"))
        if number % 100 == 0:
            assert matcher.match(event) == in_batch(matcher, event)
    assert matcher.match(event) == in_batch(matcher, event)
    matcher.freeze(tmp_path / "frozen")
    opened = Matcher.open(tmp_path / "frozen")
    opened.remove("t299")
    assert opened.match(event) == in_batch(opened, event)
    assert len(opened.match(event)) == len(matcher.match(event)) - 1


def test_answers_follow_when_only_the_numbers_or_only_the_slots_outgrow_their_tables() -> None:
    event = Event("e", attributes={"a": 1})
    alike = Matcher([Subscription("s", "ann", where="a = 1")])
    for number in range(200):  # all in one slot
        assert len(alike.match(event)) == number + 1
        alike.add(Subscription(f"s{number}", "ann", where="a = 1"))
    held = Matcher(Subscription(f"s{number}", "ann", where="a = 2") for number in range(2000))
    for number in range(100):  # there is room for an eighth more numbers, and for 64 slots
        held.add(Subscription(f"t{number}", "ann", where=f"a > {-number}"))
        assert len(held.match(event)) == number + 1


def test_a_removal_is_seen_after_the_table_of_slots_was_replaced_by_a_larger_one() -> None:
    index = bitsets.WhereBitsets()
    index.add_many(range(1000), [WhereFilter.parse(f"a >= {number}") for number in range(1000)])
    event = Event("e", attributes={"a": 1})
    assert index.match(event) == [0, 1]
    index.add_many(range(1000, 1100), [WhereFilter.parse(f"a >= {number}") for number in range(1000, 1100)])
    assert index.match(event) == [0, 1]
    index.remove(0)
    assert index.match(event) == [1]


@pytest.mark.parametrize(
    "count", [FEW - 1, FEW, FEW + 1, SHORT, SHORT + 1, shapes.FEW_HITS + 1, bitsets.FEW + 1]
)
def test_more_answers_than_there_is_room_for_at_first(count: int) -> None:
    event = Event("e", "A/B", {"a": 5, "b": 9})
    by_topic = [Subscription(f"t{number}", "ann", "A/B", f"a <> {-1 - number}") for number in range(count)]
    by_condition = [Subscription(f"w{number}", "ann", where=f"a > {-number}") for number in range(count)]
    uncertain = [
        Subscription(f"u{number}", "ann", where=f"a > {-number} and a <> b or a = 5")
        for number in range(count)
    ]
    undecided = [
        Subscription(f"v{number}", "ann", where=f"a > {-number} and a < b") for number in range(count)
    ]
    alike = [Subscription(f"l{number}", "ann", "A") for number in range(count)]
    for held in (by_topic, by_condition, uncertain, undecided, alike):
        matcher = Matcher(held)
        assert matcher.match(event) == sorted(each.id for each in held)


@pytest.mark.parametrize("prefix", ["s", "sß"])
def test_many_ids_come_sorted_whatever_letters_they_have_and_after_changes(prefix: str) -> None:
    matcher = Matcher(Subscription(f"{prefix}{number}", "ann", "A") for number in range(4 * FEW))
    event = Event("e", "A")
    assert matcher.match(event) == matcher.ids()
    matcher.remove(f"{prefix}7")
    matcher.add(Subscription("ä", "ann", "A"))
    assert matcher.match(event) == matcher.ids()


@pytest.mark.parametrize("count", [1, 2, FEW, FEW + 1, SHORT - 1, SHORT, SHORT + 1, 2 * SHORT])
@pytest.mark.parametrize("many", [naming.MANY, 0])
def test_ids_follow_when_slots_are_shared_given_up_and_used_again(
    many: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(naming, "MANY", many)  # with 0, keys are made after some calls
    monkeypatch.setattr(naming, "UNKEYED", 2)
    matcher = Matcher(Subscription(f"s{-number}", "ann", where=f"a > {-number}") for number in range(count))
    event = Event("e", attributes={"a": 1, "x": 0})
    assert matcher.match(event) == matcher.ids()
    changes = [
        lambda: matcher.add(Subscription("shared", "ann", where="a > 0")),
        lambda: matcher.add(Subscription("tolerant", "ann", where="a > 0", change={"x": 1})),
        lambda: matcher.remove("s0"),
        lambda: matcher.remove("shared"),
        lambda: matcher.add(Subscription("s0 again" * 9, "ann", where="a > 0.5")),
        lambda: matcher.remove("tolerant"),
        lambda: matcher.add(Subscription("0", "ann", where="a > 0")),
        matcher.compact,
        lambda: matcher.add(Subscription("".join(map(chr, range(32))), "ann", where="a > 0.25")),
        matcher.compact,
    ]
    for change in changes:
        change()
        matcher.forget()
        assert matcher.match(event) == matcher.ids()


@pytest.mark.parametrize("count", [1, 2, 4, SHORT - 1, SHORT, SHORT + 1, 2 * SHORT])
def test_ids_with_and_without_a_tolerance_come_sorted_together(count: int) -> None:
    held = [
        Subscription(f"s{-number}", "ann", where=f"a > {-number}", change={"x": 1} if number % 3 else None)
        for number in range(count)
    ]
    matcher = Matcher(held)
    event = Event("e", attributes={"a": 1, "x": 0})
    assert matcher.match(event) == matcher.ids()
    assert matcher.match(event) == sorted(each.id for each in held if not each.change)


def test_a_tolerance_takes_note_of_an_event_alone_as_of_one_in_a_batch() -> None:
    held = [
        Subscription("c", "ann", "A", change={"x": 1}),
        Subscription("d", "ann", "A", change={"x": 3, "y": 0}),
        Subscription("e", "ann", "A"),
    ]
    held += [Subscription(f"m{number}", "ann", "A", change={"x": number / 900}) for number in range(1500)]
    values = [{"x": 1}, {"x": 1.5, "y": Decimal("2")}, {"x": True}, {"x": 5}, {"x": "5"}, {"y": 2.0}, {}]
    alone, batches = Matcher(held), Matcher(held)
    for topic in ("A", "A/B"):
        for attributes in values:
            event = Event("e", topic, attributes)
            assert alone.match(event) == in_batch(batches, event)
    alone.add(Subscription("late", "ann", "A", change={"x": 0}))
    batches.add(Subscription("late", "ann", "A", change={"x": 0}))
    event = Event("e", "A", {"x": 5.5})
    assert alone.match(event) == in_batch(batches, event)
    assert alone.recall(["A"]) == batches.recall(["A"])


def test_a_malformed_document_is_refused_whoever_is_subscribed() -> None:
    matcher = Matcher([Subscription("s", "ann", "A")])
    event = Event("e", "A", document="<a><b></a>")
    with pytest.raises(InputError) as alone:
        matcher.match(event)
    with pytest.raises(InputError) as batch:
        matcher.match_batch([event])
    assert str(alone.value) == str(batch.value)


def test_threads_may_ask_at_once() -> None:
    matcher = Matcher(subscriptions())
    expected = [matcher.match(event) for event in EVENTS]
    with ThreadPoolExecutor(4) as threads:
        for answers in threads.map(lambda _: [matcher.match(event) for event in EVENTS], range(40)):
            assert answers == expected


@pytest.mark.parametrize("array", [np.zeros(3, np.int64), np.zeros(6, np.int32)[::2]])
def test_an_array_of_another_type_or_with_gaps_is_not_bound(array: NDArray[Any]) -> None:
    with pytest.raises(TypeError, match="int32"):
        BoundArrays([(array, np.int32)])


def test_nothing_left_to_verify_in_one_segment_is_no_error_in_the_next() -> None:
    matcher = Matcher()
    event = Event("e", "quotes/0", document="<a/>")
    for number in range(6):  # each is verified in a segment of its own, which is compiled when it is asked
        matcher.add(Subscription(str(number), "ann", topic=f"quotes/{number}", path="/b"))
        assert matcher.match(event) == []


def test_no_batch_is_made_of_an_event_for_candidates_that_a_verifier_does_not_hold() -> None:
    verifier = PathVerifier()
    verifier.add(7, PathFilter.parse("/a"))
    alone = SingleEvent(Event("e", document="<b/>"))
    assert verifier.passing(alone, np.array([3, 100], np.int32)).tolist() == [3, 100]
    assert alone._batch is None
    assert verifier.passing(alone, np.array([3, 7], np.int32)).tolist() == [3]

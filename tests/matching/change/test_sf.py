"""The paper's worked example of plain tolerances, on every exact engine, and the edges of the interface."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from distributary.filters.change import ChangeFilter
from distributary.matching.batch import EventBatch
from distributary.matching.change.index import ChangeIndex
from distributary.matching.change.sf import ChangeSF
from distributary.matching.change.thresholds import ChangeThresholds
from distributary.model import Event

STREAM = [10, 16, 21, 25, 30, 25, 19, 13, 8]

exact = pytest.mark.parametrize("engine", [ChangeSF, ChangeThresholds])


def price(value: object, topic: str | None = None) -> Event:
    return Event("e", topic, {"price": value})  # type: ignore[dict-item]


@exact
def test_figure_6_value_by_value(engine: type[ChangeIndex]) -> None:
    index = engine()
    index.add(1, ChangeFilter.parse({"price": 5}))
    index.add(2, ChangeFilter.parse({"price": 10}))
    fired = [index.match(price(value)) for value in STREAM]
    assert [value for value, slots in zip(STREAM, fired, strict=True) if 1 in slots] == [10, 16, 25, 19, 13]
    assert [value for value, slots in zip(STREAM, fired, strict=True) if 2 in slots] == [10, 21, 8]


@exact
def test_a_batch_advances_row_by_row(engine: type[ChangeIndex]) -> None:
    index = engine()
    index.add(2, ChangeFilter.parse({"price": 10}))
    table = pa.table({"id": [str(at) for at in range(len(STREAM))], "price": STREAM})
    fired = index.match_batch(EventBatch.from_table(table))
    assert fired.rows.tolist() == [0, 2, 8]
    assert fired.slots.tolist() == [2, 2, 2]


@exact
def test_each_topic_has_its_own_first_event(engine: type[ChangeIndex]) -> None:
    index = engine()
    index.add(0, ChangeFilter.parse({"price": 1}))
    fired = [index.match(price(5, topic)) for topic in ("A", "B", None, "/A", "A")]
    assert fired == [[0], [0], [0], [0], []]


@exact
def test_an_event_without_the_attribute_is_not_a_first(engine: type[ChangeIndex]) -> None:
    index = engine()
    index.add(0, ChangeFilter.parse({"price": 1}))
    assert [index.match(price(value)) for value in (None, "7", True, float("nan"), 7)] == [
        [],
        [],
        [],
        [],
        [0],
    ]


@exact
def test_one_attribute_that_moved_recentres_all_that_are_carried(engine: type[ChangeIndex]) -> None:
    index = engine()
    index.add(0, ChangeFilter.parse({"price": 5, "high": 5}))
    index.match(Event("1", None, {"price": 0, "high": 0}))
    assert index.match(Event("2", None, {"price": 9, "high": 4})) == [0]
    assert index.last(0, None) == {"price": 9, "high": 4}
    assert index.match(Event("3", None, {"high": 9})) == []
    assert index.match(Event("4", None, {"high": 10})) == [0]
    assert index.last(0, None) == {"price": 9, "high": 10}


@exact
def test_a_slot_added_later_or_used_again_starts_afresh(engine: type[ChangeIndex]) -> None:
    index = engine()
    for slot in range(20):
        index.add(slot, ChangeFilter.parse({"price": 5}))
    assert len(index.match(price(10))) == 20
    index.remove(3)
    index.add(3, ChangeFilter.parse({"price": 5}))
    index.add(77, ChangeFilter.parse({"price": 5}))
    assert index.match(price(12)) == [3, 77]
    assert index.match(price(16)) == [slot for slot in range(20) if slot != 3]


@exact
def test_groups_advance_apart(engine: type[ChangeIndex]) -> None:
    index = engine()
    index.add(0, ChangeFilter.parse({"price": 5}), 4)
    index.add(1, ChangeFilter.parse({"price": 5}), 2)
    batch = EventBatch.from_events([price(10), price(11), price(17)])
    rows, groups = np.array([0, 1, 1, 2], np.int32), np.array([4, 2, 1000, 2], np.int32)
    assert index.match_batch(batch).rows.tolist() == []
    fired = index.fire(batch, rows, groups)
    assert list(zip(fired.rows.tolist(), fired.slots.tolist(), strict=True)) == [(0, 0), (1, 1), (2, 1)]


@exact
def test_malformed_rows_are_not_shown(engine: type[ChangeIndex]) -> None:
    index = engine()
    index.add(0, ChangeFilter.parse({"price": 5}))
    table = pa.table({"id": ["1", "2"], "topic": ["", "A/B"], "price": [1.0, 2.0]})
    assert index.match_batch(EventBatch.from_table(table)).rows.tolist() == [1]
    assert index.last(0, None) == {}


@exact
def test_peeking_explains_and_changes_nothing(engine: type[ChangeIndex]) -> None:
    index = engine()
    index.add(0, ChangeFilter.parse({"price": 5, "high": 1}))
    first = index.peek(price(10), 0)
    assert first.fires
    assert str(first) == (
        "high is not a number in this event; price is 10, and none was delivered yet for this topic"
    )
    assert index.match(price(10)) == [0]
    near, far = index.peek(price(15), 0), index.peek(price(15.5), 0)
    assert not near.fires
    assert near.moves[1].distance == 5
    assert str(near.moves[1]) == "price is 15, which is 5 from the last delivered 10: not more than 5"
    assert far.fires
    assert str(far.moves[1]) == "price is 15.5, which is 5.5 from the last delivered 10: more than 5"
    assert index.match(price(15)) == []


@exact
def test_slots_are_taken_once_and_unknown_slots_are_key_errors(engine: type[ChangeIndex]) -> None:
    index = engine()
    index.add(0, ChangeFilter.parse({"price": 5}))
    with pytest.raises(ValueError, match="slot 0 is taken"):
        index.add(0, ChangeFilter.parse({"price": 6}))
    for unknown in (1, 10_000, -1):
        with pytest.raises(KeyError):
            index.remove(unknown)
        with pytest.raises(KeyError):
            index.filter(unknown)
        with pytest.raises(KeyError):
            index.last(unknown, None)
    index.remove(0)
    with pytest.raises(KeyError):
        index.remove(0)
    assert list(index.slots()) == []


@exact
def test_empty_indexes_and_batches_answer_nothing(engine: type[ChangeIndex]) -> None:
    index = engine()
    assert index.match(price(1)) == []
    index.add(0, ChangeFilter.parse({"price": 5}))
    assert index.match_batch(EventBatch.from_events([])).rows.tolist() == []
    assert engine.open(engine().freeze()).match(price(1)) == []

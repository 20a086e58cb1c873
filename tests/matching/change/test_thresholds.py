"""Thresholds against SF: groups large enough for trees of several levels, and very many groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from distributary.filters.change import ChangeFilter
from distributary.matching.batch import EventBatch
from distributary.matching.change import thresholds
from distributary.matching.change.cells import FAN
from distributary.matching.change.index import ChangeIndex
from distributary.matching.change.memory import LastValues
from distributary.matching.change.sf import ChangeSF
from distributary.matching.change.thresholds import ChangeThresholds
from distributary.matching.single import SingleEvent
from distributary.model import Event


def quotes(random: np.random.Generator, count: int, topics: int, step: float) -> EventBatch:
    """Random walks on a grid of cents, so that moves of exactly a tolerance are common."""
    price = np.round(50 + np.cumsum(random.choice([-1.0, 0.0, 1.0], count) * step), 2)
    high = np.where(random.random(count) < 0.3, np.nan, np.round(price + random.random(count), 2))
    return EventBatch.from_table(
        pa.table(
            {
                "id": [str(row) for row in range(count)],
                "topic": [f"T/{topic}" for topic in random.integers(0, topics, count)],
                "price": price,
                "high": high,
            }
        )
    )


def some_filter(random: np.random.Generator) -> ChangeFilter:
    tolerances = {"price": round(float(random.pareto(1.0)), 2)}
    if random.random() < 0.2:
        tolerances["high"] = round(float(random.random() * 3), 2)
    if random.random() < 0.1:
        del tolerances["price"]
        tolerances["low" if random.random() < 0.3 else "high"] = 0.0
    return ChangeFilter.parse(tolerances)


def both_fire(one: ChangeIndex, other: ChangeIndex, batch: EventBatch) -> int:
    found = [
        sorted(zip(*(part.tolist() for part in index.match_batch(batch)), strict=True))
        for index in (one, other)
    ]
    assert found[0] == found[1]
    return len(found[0])


@pytest.mark.parametrize(("members", "step"), [(FAN + 1, 0.5), (FAN**2 + 3, 0.01), (FAN**3 + 100, 0.2)])
def test_large_groups_fire_as_in_sf_while_members_come_and_go(members: int, step: float) -> None:
    random = np.random.default_rng(members)
    engines: list[ChangeIndex] = [ChangeThresholds(), ChangeSF()]
    for slot in range(members):
        filter = some_filter(random)
        for index in engines:
            index.add(slot, filter)
    fired = 0
    free = members
    for turn in range(6):
        fired += both_fire(*engines, quotes(random, 40, 3, step))
        leaving = random.choice(list(engines[1].slots()), members // 10, replace=False).tolist()
        coming = {free + at: some_filter(random) for at in range(members // 12 + 1)} | {
            leaving[0]: some_filter(random)
        }
        free += len(coming)
        for index in engines:
            for slot in leaving:
                index.remove(slot)
            for slot, filter in coming.items():
                index.add(slot, filter)
        if turn == 3:
            engines[0].compact()
        if turn == 4:
            engines = [type(index).open(index.freeze()) for index in engines]
    assert fired > members


@pytest.mark.parametrize("little_room", [thresholds.LITTLE_ROOM, 8])
def test_events_alone_fire_as_in_sf_while_members_and_topics_come(
    monkeypatch: pytest.MonkeyPatch, little_room: int
) -> None:
    monkeypatch.setattr(thresholds, "LITTLE_ROOM", little_room)
    random = np.random.default_rng(little_room)
    engines: list[ChangeIndex] = [ChangeThresholds(), ChangeSF()]
    fired = 0
    for turn in range(300):
        coming = {40 * turn + at: some_filter(random) for at in range(turn % 3 if turn else 40)}
        for index in engines:
            for slot, filter in coming.items():
                index.add(slot, filter, slot % 3)
        price = round(float(random.normal(50, 2)), 2)
        single = SingleEvent(
            Event("e", f"T/{random.integers(0, 1 + turn // 4)}", {"price": price, "high": 9})
        )
        groups = np.flatnonzero(random.random(3) < 0.7).astype(np.int32)
        found = [sorted(index.fire_single(single, groups).tolist()) for index in engines]
        assert found[0] == found[1]
        fired += len(found[0])
    assert fired > 300


def test_either_exact_engine_continues_what_the_other_recalls() -> None:
    random = np.random.default_rng(5)
    index, other, again = ChangeThresholds(), ChangeSF(), ChangeThresholds()
    for slot in range(300):
        filter = some_filter(random)
        for engine in (index, other, again):
            engine.add(slot, filter, slot % 2)
    shown = quotes(random, 50, 3, 0.1)
    index.match_batch(shown)
    assert shown.topics is not None
    topics = sorted({str(shown.topics.text(row)) for row in range(shown.rows)})
    other.restore(topics, index.recall(topics))
    again.restore(topics, other.recall(topics))
    following = quotes(np.random.default_rng(6), 50, 3, 0.1)
    assert both_fire(index, other, following) > 0
    again.match_batch(following)
    assert both_fire(again, other, quotes(random, 9, 3, 0.1)) > 0


def test_what_is_forgotten_makes_room_for_what_comes() -> None:
    """Forgetting and restoring, topic after topic, as one who keeps the memory elsewhere does."""
    index, kept = ChangeThresholds(), ChangeThresholds()
    for slot in range(200):
        for engine in (index, kept):
            engine.add(slot, ChangeFilter.parse({"price": slot / 10}))
    memories: dict[str, LastValues] = {}
    for number in range(60):
        topic = f"t{number % 20}"
        index.forget()
        if topic in memories:
            index.restore([topic], memories[topic])
        event = Event("e", topic, {"price": number})
        assert index.match(event) == kept.match(event)
        memories[topic] = index.recall([topic])
        assert not len(index.recall(["t-", None]).values)
    assert index.memory() < kept.memory()


def test_many_groups_of_one_have_a_memory_each() -> None:
    count = 5000
    index = ChangeThresholds()
    index.add_many(
        range(count), [ChangeFilter.parse({"price": slot % 7}) for slot in range(count)], range(count)
    )
    events = [Event("1", "A", {"price": 0}), Event("2", "B", {"price": 3}), Event("3", "A", {"price": 3})]
    rows = np.repeat(np.arange(3, dtype=np.int32), count)
    groups = np.tile(np.arange(count, dtype=np.int32), 3)
    fired = index.fire(EventBatch.from_events(events), rows, groups)
    assert np.bincount(fired.rows).tolist() == [count, count, sum(slot % 7 < 3 for slot in range(count))]
    assert index.memory() < 500 * count


def test_memory_is_given_back_when_members_leave() -> None:
    index = ChangeThresholds()
    for turn in range(40):
        slots = range(turn * 100, turn * 100 + 100)
        index.add_many(slots, [ChangeFilter.parse({"price": 1})] * 100, slots)
        rows = np.zeros(100, np.int32)
        index.fire(EventBatch.from_events([Event("e", "A", {"price": 1})]), rows, np.array(slots, np.int32))
        for slot in slots:
            index.remove(slot)
    index.compact()
    assert index.memory() < 200_000
    assert len(index) == 0

"""Thinning queries out: what is left are true answers, and all of those whose units survive."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.flow import Catalogue, Item, QueryBuilder, Source, interpret
from distributary.flow.thinning import (
    ShareSchedule,
    ThinningUnit,
    UnthinnableError,
    survives,
    thinning_unit,
)
from flow.random_queries import random_catalogue, random_streams

SCHEMA = {"symbol": "text", "venue": "text", "size": "integer", "at": "integer"}
TRADES = Source("trades", SCHEMA, time="at", topic="trades")
QUOTES = Source("quotes", {"name": "text", "bid": "integer", "at": "integer"}, time="at", topic="quotes")


def unit_of(catalogue: Catalogue, query: str) -> ThinningUnit:
    return thinning_unit(catalogue.shared(), catalogue.outputs(query))


def unit_of_query(build: QueryBuilder) -> ThinningUnit:
    catalogue = Catalogue([TRADES, QUOTES], [build.query()])
    catalogue.check()
    return unit_of(catalogue, build.query().name)


def random_schedule(random: Random, items: dict[str, list[Item]]) -> ShareSchedule:
    """A schedule that changes some times among those of the items."""
    times = sorted(item.time for found in items.values() for item in found) or [0]
    changes = sorted(random.choices(range(times[0] - 5, times[-1] + 5), k=random.randint(1, 4)))
    schedule = ShareSchedule()
    for since in changes:
        schedule.change(since, random.choice([0.0, 0.2, 0.5, 0.8, 1.0]))
    return schedule


def thinned(unit: ThinningUnit, schedule: ShareSchedule, stream: str, items: list[Item]) -> list[Item]:
    """The items of a source, without those that a unit which is left out loses."""
    whole = unit.piece or 1
    found = []
    for item in items:
        first = item.time // whole * whole
        if survives(unit.text(stream, item), schedule.least(first, first + whole - 1), seed=3):
            found.append(item)
    return found


def check_random_queries(random: Random) -> dict[str, int]:
    """Thin the sources of random queries; returns how many queries had which kind of unit, and were cut."""
    catalogue = random_catalogue(random, max_operators=4)
    items = random_streams(random, max_items=40)
    full = interpret(catalogue, items).streams
    sharing = catalogue.shared()
    seen = {"pieces": 0, "groups": 0, "keyed pieces": 0, "refused": 0, "partial": 0}
    for query in catalogue.queries:
        try:
            unit = unit_of(catalogue, query)
        except UnthinnableError:
            seen["refused"] += 1
            continue
        schedule = random_schedule(random, items)
        sources = {
            name: thinned(unit, schedule, name, found) if name in unit.keys else []
            for name, found in items.items()
        }
        cut = interpret(catalogue, sources).streams
        makers = {stream: one.name for one in sharing.operators for stream in one.streams}
        for output in catalogue.outputs(query):
            maker = makers[sharing.streams[output]]

            def stays(item: Item, maker: str = maker) -> bool:
                share = schedule.least(*unit.reach(item.time))  # noqa: B023
                return survives(unit.text(maker, item), share, seed=3)  # noqa: B023

            expected = [item for item in full[output] if stays(item)]
            assert [item for item in cut[output] if stays(item)] == expected, (output, unit)
            if 0 < len(expected) < len(full[output]):
                seen["partial"] += 1
        kind = "groups" if unit.piece is None else "keyed pieces" if any(unit.keys.values()) else "pieces"
        seen[kind] += 1
    return seen


def test_what_survives_of_random_queries_is_what_the_interpreter_gives() -> None:
    totals: dict[str, int] = {}
    for seed in range(400):
        for name, count in check_random_queries(Random(f"{seed}/thinning")).items():
            totals[name] = totals.get(name, 0) + count
    assert min(totals.values()) >= 20, totals


@settings(max_examples=100)
@given(st.text(), st.floats(0, 1), st.floats(0, 1), st.integers(0, 9))
def test_what_survives_at_a_share_survives_at_every_larger_one(
    text: str, one: float, other: float, seed: int
) -> None:
    low, high = sorted((one, other))
    assert survives(text, low, seed) <= survives(text, high, seed)
    assert survives(text, 1.0, seed)
    assert not survives(text, 0.0, seed)


def test_about_the_share_survives_and_another_seed_takes_others() -> None:
    for share in (0.1, 0.5, 0.9):
        kept = [{n for n in range(4000) if survives(f"unit {n}", share, seed)} for seed in (1, 2)]
        assert all(abs(len(each) / 4000 - share) < 0.03 for each in kept)
        assert kept[0] != kept[1]


def test_units_of_windows_are_their_least_common_multiple_and_the_groups_that_all_have() -> None:
    build = QueryBuilder("q")
    first = build.count("first", "trades", "4 seconds", ["symbol", "size"])
    renamed = build.rename("renamed", first, {"symbol": "name"})
    build.count("second", renamed, "6 seconds", ["name"], name="groups")
    unit = unit_of_query(build)
    assert (unit.piece, unit.back, unit.ahead) == (12_000, 0, 0)
    assert unit.keys["trades"] == unit.keys["q.first"] == ("symbol",)
    assert unit.keys["q.second"] == ("name",)
    assert unit.reach(13_000) == (12_000, 23_999)


def test_a_query_without_memory_is_thinned_by_single_events() -> None:
    build = QueryBuilder("q")
    build.filter("large", "trades", where="size > 3")
    unit = unit_of_query(build)
    assert unit.piece == 1
    assert unit.keys["trades"] == ("symbol", "venue", "size", "at")


def test_units_of_a_join_are_its_keys_on_both_sides() -> None:
    build = QueryBuilder("q")
    joined = build.join("pairs", "trades", "quotes", on={"symbol": "name"}, within="2 seconds", prefix="q_")
    build.count("moving", joined, "10 seconds every 5 seconds", ["symbol"])
    unit = unit_of_query(build)
    assert unit.piece is None
    assert (unit.keys["trades"], unit.keys["quotes"]) == (("symbol",), ("name",))
    assert unit.reach(100_000) == (100_000 - 9_999 - 2_000, 102_000)


def test_an_item_has_one_unit_or_the_attribute_tells_none_apart() -> None:
    build = QueryBuilder("q")
    build.join("pairs", "trades", "trades", on={"symbol": "venue"}, within="2 seconds", prefix="o_")
    with pytest.raises(UnthinnableError, match="joins or has windows that overlap"):
        unit_of_query(build)


@pytest.mark.parametrize(
    ("window", "reason"),
    [("5 items", "q.n has windows by number"), ("4 seconds every 2 seconds", "q.n joins or has windows")],
)
def test_queries_whose_answers_hang_together_are_refused(window: str, reason: str) -> None:
    build = QueryBuilder("q")
    build.count("n", "trades", window)
    with pytest.raises(UnthinnableError, match=reason):
        unit_of_query(build)


def test_a_query_that_reads_what_others_publish_is_refused() -> None:
    build, reader = QueryBuilder("q"), QueryBuilder("r")
    build.filter("large", "trades", where="size > 3")
    build.publish("large", "stages/large")
    stages = Source("stages", {"size": "integer", "at": "integer"}, time="at", topic="stages", derived=True)
    reader.filter("all", "stages", where="size > 5")
    catalogue = Catalogue([TRADES, stages], [build.query(), reader.query()])
    catalogue.check()
    assert unit_of(catalogue, "q").piece == 1
    with pytest.raises(UnthinnableError, match="publish into a source"):
        unit_of(catalogue, "r")


def test_a_schedule_forgets_what_nobody_asks_about() -> None:
    schedule = ShareSchedule()
    for since, share in ((10, 0.5), (20, 0.2), (30, 1.0)):
        schedule.change(since, share)
    before = [schedule.least(first, 40) for first in range(20, 40)]
    schedule.forget_before(20)
    assert [schedule.least(first, 40) for first in range(20, 40)] == before
    assert schedule.share == 1.0


def test_of_two_changes_at_one_time_the_later_one_counts() -> None:
    schedule = ShareSchedule()
    schedule.change(10, 0.5)
    schedule.change(10, 0.8)
    assert (schedule.least(0, 20), schedule.least(10, 20), schedule.least(0, 9)) == (0.8, 0.8, 1.0)

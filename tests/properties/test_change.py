"""Tolerance engines against plain dictionaries, after any interleaving of changes and events."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.filters.change import ChangeFilter
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.change.index import ChangeIndex
from distributary.matching.change.mfd import ChangeMFD
from distributary.matching.engines import CHANGE
from distributary.model import Event
from properties.examples import examples
from properties.oracle_change import ChainOracle, ChangeOracle, carried

EXACT: list[type[ChangeIndex]] = [engine for engine in CHANGE if engine is not ChangeMFD]

SLOTS = st.integers(0, 40)
GROUPS = st.sampled_from([0, 0, 1, 7])
TENTHS = st.integers(-12, 12).flatmap(
    lambda n: st.sampled_from([n * 0.1, n / 10, n * 0.1 + 0.2, 0.3 - n * 0.1])
)
EXTREME = st.sampled_from(
    [math.inf, -math.inf, 1.7e308, -1.7e308, 5e-324, -0.0, 2**53 + 1, 10**400, -(10**400)]
)
NUMBERS = TENTHS | TENTHS | st.integers(-3, 3) | EXTREME
VALUES = NUMBERS | NUMBERS | NUMBERS | st.sampled_from([None, True, "1", math.nan, (1,)])
TOLERANCE = (
    st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.5, 1.0, 3.0])
    | st.sampled_from([5e-324, 1e308, 1.7e308])
    | st.floats(0, 2)
)
TOLERANCES = st.dictionaries(
    st.sampled_from(["price", "price", "high", "low"]), TOLERANCE, min_size=1, max_size=3
)
EVENTS = st.builds(
    Event,
    st.just("e"),
    st.sampled_from([None, "A/B", "A/B", "A/C", "é"]),
    st.dictionaries(st.sampled_from(["price", "high", "low", "other"]), VALUES, max_size=3),
)
SHOWN = st.lists(st.tuples(EVENTS, st.sets(st.sampled_from([0, 1, 7, 9]))), max_size=6)
STEP = st.one_of(
    st.tuples(st.just("add"), st.tuples(SLOTS, TOLERANCES, GROUPS)),
    st.tuples(st.just("add many"), st.tuples(st.lists(st.tuples(SLOTS, TOLERANCES), max_size=40), GROUPS)),
    st.tuples(st.just("remove"), SLOTS),
    st.tuples(st.just("remove many"), st.sets(SLOTS)),
    st.tuples(st.just("fire"), SHOWN),
    st.tuples(st.just("fire"), SHOWN),
    st.tuples(st.just("match"), EVENTS),
    st.tuples(st.sampled_from(["compact", "reopen", "forget"]), st.none()),
)


def reopened(index: ChangeIndex) -> ChangeIndex:
    with tempfile.TemporaryDirectory() as directory:
        frozen.write(Path(directory) / "index", index.freeze(), {})
        arrays = frozen.read(Path(directory) / "index")
        return type(index).open(arrays)


def shown(index: ChangeIndex, events: list[Event], pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    rows = np.array([row for row, _ in pairs], np.int32)
    groups = np.array([group for _, group in pairs], np.int32)
    fired = index.fire(EventBatch.from_events(events), rows, groups)
    assert fired.rows.dtype == fired.slots.dtype == np.int32
    assert (np.diff(fired.rows) >= 0).all()
    return sorted(zip(fired.rows.tolist(), fired.slots.tolist(), strict=True))


def take(index: ChangeIndex, oracle: Any, what: str, given_step: Any) -> ChangeIndex:
    """Take one step on both, compare what fires, and return the index to go on with."""
    if what == "add":
        slot, tolerances, group = given_step
        if slot not in oracle.held:
            index.add(slot, ChangeFilter.parse(tolerances), group)
            oracle.add(slot, tolerances, group)
    elif what == "add many":
        wanted, group = {slot: t for slot, t in given_step[0] if slot not in oracle.held}, given_step[1]
        index.add_many(wanted, map(ChangeFilter.parse, wanted.values()), [group] * len(wanted))
        for slot, tolerances in wanted.items():
            oracle.add(slot, tolerances, group)
    elif what in ("remove", "remove many"):
        for slot in {given_step} if what == "remove" else given_step:
            if slot in oracle.held:
                index.remove(slot)
                oracle.remove(slot)
    elif what == "fire":
        events = [event for event, _ in given_step]
        pairs = [(row, group) for row, (_, groups) in enumerate(given_step) for group in sorted(groups)]
        expected = [(row, slot) for row, group in pairs for slot in oracle.fire(events[row], group)]
        assert shown(index, events, pairs) == sorted(expected)
    elif what == "match":
        assert index.match(given_step) == oracle.fire(given_step)
    elif what == "reopen":
        index = reopened(index)
    elif what == "compact":
        index.compact()
    elif what == "forget":
        index.forget()
        oracle.forget()
    return index


def check_contents(index: ChangeIndex, oracle: Any) -> None:
    assert len(index) == len(oracle.held)
    assert {slot: index.filter(slot) for slot in index.slots()} == {
        slot: ChangeFilter.parse(tolerances) for slot, (_, tolerances) in oracle.held.items()
    }
    assert index.memory() >= 0


@pytest.mark.parametrize("engine", EXACT)
@settings(max_examples=examples(60), deadline=None)
@given(steps=st.lists(STEP, max_size=25), probe=EVENTS)
def test_exact_engines_fire_as_the_oracle_does(
    engine: type[ChangeIndex], steps: list[tuple[str, Any]], probe: Event
) -> None:
    index: ChangeIndex = engine()
    oracle = ChangeOracle()
    for what, given_step in steps:
        index = take(index, oracle, what, given_step)
        check_contents(index, oracle)
    for slot in oracle.held:
        peek = index.peek(probe, slot)
        assert peek.fires == oracle.would_fire(probe, slot)
        assert index.last(slot, probe.topic) == oracle.sent[slot].get(probe.topic, {})
        assert str(peek)


@settings(max_examples=examples(75), deadline=None)
@given(TOLERANCES, TOLERANCES, st.lists(EVENTS, max_size=20))
def test_covers_and_merges_let_pass_what_they_promise(
    first: dict[str, float], second: dict[str, float], events: list[Event]
) -> None:
    one, two = ChangeFilter.parse(first), ChangeFilter.parse(second)
    oracle = ChangeOracle()
    oracle.add(0, first)
    oracle.add(1, second)
    oracle.add(2, dict(one.merge(two).tolerances))
    for event in events:
        fired = oracle.fire(event)
        assert 2 in fired or not fired
        if one.covers(two):
            assert 0 in fired or 1 not in fired
        assert all(one.matches(event) for slot in fired if slot == 0)


MFD_NUMBERS = st.integers(-40, 40) | TENTHS | st.sampled_from([math.inf, -math.inf, 1e17])
MFD_EVENTS = st.builds(
    Event,
    st.just("e"),
    st.sampled_from([None, "A/B", "A/B", "A/C"]),
    st.dictionaries(st.sampled_from(["price", "high"]), MFD_NUMBERS | st.just("1"), max_size=2),
)
MFD_SHOWN = st.lists(st.tuples(MFD_EVENTS, st.sets(st.sampled_from([0, 1, 9]))), max_size=8)
MFD_TOLERANCES = st.dictionaries(
    st.sampled_from(["price", "price", "high"]),
    st.integers(0, 70) | st.sampled_from([0.3, 0.1 + 0.2, 2.1, 5.5]) | st.floats(0, 70),
    min_size=1,
    max_size=2,
)
MFD_STEP = st.one_of(
    st.tuples(st.just("add"), st.tuples(st.integers(0, 8), MFD_TOLERANCES, st.sampled_from([0, 0, 1]))),
    st.tuples(st.just("add"), st.tuples(st.integers(0, 8), MFD_TOLERANCES, st.sampled_from([0, 0, 1]))),
    st.tuples(st.just("remove"), st.integers(0, 8)),
    st.tuples(st.just("fire"), MFD_SHOWN),
    st.tuples(st.just("fire"), MFD_SHOWN),
    st.tuples(st.just("match"), MFD_EVENTS),
    st.tuples(st.sampled_from(["compact", "reopen", "forget"]), st.none()),
)


@settings(max_examples=examples(100), deadline=None)
@given(unit=st.sampled_from([1.0, 0.1, 0.5, 3.0]), steps=st.lists(MFD_STEP, max_size=25), probe=MFD_EVENTS)
def test_multi_level_filters_fire_as_nested_chains_do(
    unit: float, steps: list[tuple[str, Any]], probe: Event
) -> None:
    index: ChangeIndex = ChangeMFD(unit)
    oracle = ChainOracle(unit)
    for what, given_step in steps:
        index = take(index, oracle, what, given_step)
        check_contents(index, oracle)
    for slot in oracle.held:
        assert index.peek(probe, slot).fires == oracle.would_fire(probe, slot)
        sent = oracle.sent[slot].items()
        expected = {name: value for (topic, name), value in sent if topic == probe.topic}
        assert index.last(slot, probe.topic) == expected


@settings(max_examples=examples(100), deadline=None)
@given(unit=st.sampled_from([1.0, 0.1, 0.01, 3.0]), steps=st.lists(MFD_STEP, max_size=40))
def test_multi_level_filters_never_drift_beyond_the_tolerance(
    unit: float, steps: list[tuple[str, Any]]
) -> None:
    """Whatever the others do: the value last delivered is within the tolerance of the latest one."""
    index = ChangeMFD(unit)
    held: dict[int, tuple[dict[str, float], int]] = {}
    for what, given_step in steps:
        if what == "add" and given_step[0] not in held:
            slot, tolerances, group = given_step
            index.add(slot, ChangeFilter.parse(tolerances), group)
            held[slot] = (tolerances, group)
        elif what == "remove" and given_step in held:
            index.remove(given_step)
            del held[given_step]
        elif what == "fire":
            for event, groups in given_step:
                shown(index, [event], [(0, group) for group in sorted(groups)])
                for slot, (tolerances, group) in held.items():
                    if group in groups:
                        check_bound(index, slot, tolerances, event)


def check_bound(index: ChangeMFD, slot: int, tolerances: dict[str, float], event: Event) -> None:
    last = index.last(slot, event.topic)
    for name, tolerance in tolerances.items():
        value = carried(event, name)
        if value is not None and value != last[name]:
            assert abs(value - last[name]) <= tolerance

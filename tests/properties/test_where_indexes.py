"""Every where index and the where verifier against the oracle, whichever way a condition is found."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.filters.where.filter import WhereFilter
from distributary.matching.batch import EventBatch
from distributary.matching.engines import SEARCHED
from distributary.matching.index import Index
from distributary.matching.where.bitsets import WhereBitsets
from distributary.matching.where.verifier import WhereVerifier
from distributary.model import Event
from properties.examples import examples
from properties.interleaving import check_against_oracle, steps
from properties.oracle_where import attribute_maps, conditions, wants


class BlockByBlock(WhereBitsets):
    """Even a few rows are searched as many are."""

    few_rows: ClassVar[int] = 0


class Keyed(BlockByBlock):
    """Whatever has an equality is found by it."""

    keyed_below: ClassVar[float] = 1.0


class Grouped(BlockByBlock):
    """Everything is found through bitsets over all its attributes."""

    keyed_below: ClassVar[float] = 0.0
    worth_a_group: ClassVar[float] = 0.0


class Merged(BlockByBlock):
    """Everything is found through the bitsets of one attribute."""

    keyed_below: ClassVar[float] = 0.0
    worth_a_group: ClassVar[float] = 1e9


class GroupedRowByRow(Grouped):
    """The same, where a few rows are searched row by row."""

    few_rows: ClassVar[int] = 3


class KeyedRowByRow(Keyed):
    """The same, where a few rows are searched row by row."""

    few_rows: ClassVar[int] = 100


COMPILED: list[type[Index[Any]]] = [WhereBitsets, Keyed, Grouped, Merged, GroupedRowByRow, KeyedRowByRow]
ENGINES = [*SEARCHED["where"], *COMPILED[1:]]


def wanted(filter: WhereFilter, event: Event) -> bool:
    return wants(filter.text, event.attributes) is True


MOST = "1.7976931348623157e+308"
"""The largest double."""
filters = conditions().map(WhereFilter.parse)
events = st.lists(attribute_maps(), max_size=5).map(
    lambda maps: [Event(f"e{number}", attributes=attributes) for number, attributes in enumerate(maps)]
)


@pytest.mark.parametrize("engine", ENGINES)
@given(taken=steps(filters), events=events)
@example(
    taken=[("add", (0, WhereFilter.parse("a = 0 or true"))), ("add", (1, WhereFilter.parse(f"a = {MOST}")))],
    events=[Event("e0", attributes={"a": float(MOST)}), Event("e1", attributes={"a": inf})],
)
@settings(max_examples=examples(40), deadline=None)
def test_every_index_answers_as_the_oracle_does(
    engine: type[Index[Any]], taken: list[tuple[str, Any]], events: list[Event]
) -> None:
    check_against_oracle(engine(), taken, events, wanted)


@pytest.mark.parametrize("engine", COMPILED)
@given(data=st.data())
@settings(max_examples=examples(12), deadline=None)
def test_many_conditions_at_once(engine: type[Index[Any]], data: st.DataObject) -> None:
    names = [f"n{number}" for number in range(12)]
    bound = st.integers(-4, 4)
    leaf = st.one_of(
        st.tuples(st.sampled_from(names), bound).map(lambda given: f"{given[0]} = {given[1]}"),
        st.tuples(st.sampled_from(names), bound, bound).map(
            lambda given: f"{given[0]} between {min(given[1:])} and {max(given[1:])}"
        ),
        st.tuples(st.sampled_from(names), bound).map(
            lambda given: f"{given[0]} in ({given[1]}, 't{given[1]}')"
        ),
    )
    texts = data.draw(
        st.lists(st.lists(leaf, min_size=1, max_size=10).map(" and ".join), min_size=20, max_size=80)
    )
    value = st.one_of(bound, bound, bound.map(lambda number: f"t{number}"))
    maps = data.draw(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(names, value)), max_size=12))
    held = [WhereFilter.parse(text) for text in texts]
    index = engine()
    index.add_many(range(len(held)), held)
    asked = [Event(f"e{number}", attributes=attributes) for number, attributes in enumerate(maps)]
    rows, slots = index.match_batch(EventBatch.from_events(asked))
    expected = [
        (row, slot)
        for row, event in enumerate(asked)
        for slot, filter in enumerate(held)
        if wanted(filter, event)
    ]
    assert sorted(zip(rows.tolist(), slots.tolist(), strict=True)) == expected
    assert [(row, slot) for row, event in enumerate(asked) for slot in index.match(event)] == expected


@given(held=st.lists(filters, min_size=1, max_size=12), events=events, reopened=st.booleans())
@settings(max_examples=examples(80), deadline=None)
def test_the_verifier_answers_as_the_oracle_does(
    held: list[WhereFilter], events: list[Event], reopened: bool
) -> None:
    verifier = WhereVerifier()
    verifier.add_many(range(0, 2 * len(held), 2), held)
    if reopened:
        verifier = WhereVerifier.open(verifier.freeze())
    rows = np.repeat(np.arange(len(events), dtype=np.int32), 2 * len(held))
    slots = np.tile(np.arange(2 * len(held), dtype=np.int32), len(events))
    passed = verifier.verify(EventBatch.from_events(events), rows, slots)
    assert passed.tolist() == [
        slot % 2 == 1 or wanted(held[slot // 2], events[row])
        for row, slot in zip(rows.tolist(), slots.tolist(), strict=True)
    ]

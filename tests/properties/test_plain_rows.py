"""A few rows of an Arrow table are read from its buffers: any type, nulls and slices, against the oracle."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.filters.where.filter import WhereFilter
from distributary.matching.batch import EventBatch
from distributary.matching.where.bitsets import WhereBitsets
from distributary.matching.where.plain_rows import plain_columns
from properties.examples import examples
from properties.oracle_where import NAMES, conditions, wants

COLUMNS = sorted({name.strip('"') for name in NAMES if "." not in name})


class Grouped(WhereBitsets):
    """Everything is found through bitsets over all its attributes."""

    keyed_below: ClassVar[float] = 0.0
    worth_a_group: ClassVar[float] = 0.0


class Keyed(WhereBitsets):
    """Whatever has an equality is found by it."""

    keyed_below: ClassVar[float] = 1.0


def whole(bits: int, signed: bool) -> st.SearchStrategy[int]:
    """Integers of so many bits, those near the bounds of conditions among them."""
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    near = st.integers(max(least, -3), 7)
    large = st.integers(2**53 - 2, 2**53 + 2) if bits == 64 else near
    return st.one_of(near, large, st.sampled_from([least, most]))


TYPED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **{pa.type_for_alias(f"int{bits}"): whole(bits, True) for bits in (8, 16, 32, 64)},
    **{pa.type_for_alias(f"uint{bits}"): whole(bits, False) for bits in (8, 16, 32, 64)},
    pa.float64(): st.one_of(st.floats(), st.integers(-3, 7).map(float), st.just(-0.0)),
    pa.float32(): st.one_of(st.floats(width=32), st.integers(-3, 7).map(float)),
    pa.bool_(): st.booleans(),
    pa.string(): st.one_of(st.sampled_from(["", "a", "ab", "b"]), st.text(max_size=3)),
    pa.large_string(): st.one_of(st.sampled_from(["", "a", "ab", "b"]), st.text(max_size=3)),
}
PLAIN = list(TYPED)
OTHERS = [pa.float16(), pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.int64())]
TYPED |= {
    pa.float16(): st.integers(-3, 7).map(float),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["", "a", "ab"]),
    pa.list_(pa.int64()): st.lists(st.integers(-3, 7), max_size=2),
}


@st.composite
def tables(draw: st.DrawFn, types: list[pa.DataType]) -> pa.Table | pa.RecordBatch:
    """A part of a table with some of the columns, each of any of these types, with or without nulls."""
    rows = draw(st.integers(1, 12))
    columns = {"id": pa.array([f"e{row}" for row in range(rows)])}
    for name in draw(st.lists(st.sampled_from(COLUMNS), unique=True, min_size=1)):
        kind = draw(st.sampled_from(types))
        value = TYPED[kind] | st.none() if draw(st.booleans()) else TYPED[kind]
        columns[name] = pa.array(draw(st.lists(value, min_size=rows, max_size=rows)), kind)
    first = draw(st.integers(0, rows - 1))
    # Those of a batch keep their offsets in its buffers, those of a table are copied.
    made = draw(st.sampled_from([pa.table, pa.record_batch]))(columns)
    return made.slice(first, draw(st.integers(1, rows)))


@pytest.mark.parametrize("engine", [WhereBitsets, Grouped, Keyed])
@given(
    table=tables(PLAIN) | tables([*PLAIN, *OTHERS]),
    texts=st.lists(conditions(), min_size=1, max_size=12),
)
@settings(max_examples=examples(60), deadline=None)
def test_a_few_rows_of_a_table_are_matched_as_the_oracle_does(
    engine: type[WhereBitsets], table: pa.Table | pa.RecordBatch, texts: list[str]
) -> None:
    index = engine()
    filters = [WhereFilter.parse(text) for text in texts]
    index.add_many(range(len(filters)), filters)
    rows, slots = index.match_batch(EventBatch.from_table(table))
    records = [{name: record[name] for name in record if name != "id"} for record in table.to_pylist()]
    expected = [
        (row, slot)
        for row, record in enumerate(records)
        for slot, filter in enumerate(filters)
        if wants(filter.text, record) is True
    ]
    assert sorted(zip(rows.tolist(), slots.tolist(), strict=True)) == expected


@given(table=tables(PLAIN))
@settings(max_examples=examples(20), deadline=None)
def test_these_columns_are_plain(table: pa.Table | pa.RecordBatch) -> None:
    numbers = {name: number for number, name in enumerate(COLUMNS)}
    assert plain_columns(numbers, EventBatch.from_table(table)) is not None


@pytest.mark.parametrize("kind", OTHERS)
def test_others_are_not(kind: pa.DataType) -> None:
    table = pa.table({"id": ["e"], "x": pa.array([None], kind)})
    assert plain_columns({"x": 0}, EventBatch.from_table(table)) is None


@pytest.mark.parametrize("name", ["id", "topic"])
def test_the_events_own_id_and_topic_are_not(name: str) -> None:
    table = pa.table({"id": ["e"], "topic": ["A"], "x": [1]})
    assert plain_columns({name: 0}, EventBatch.from_table(table)) is None


def test_an_object_is_not_plain_though_a_column_has_its_name() -> None:
    table = pa.table({"id": ["e"], "wind": [1], "wind.speed": [2]})
    batch = EventBatch.from_table(table)
    assert plain_columns({"wind": 0}, batch) is None
    assert plain_columns({"wind.speed": 0}, batch) is not None

"""Columns made of whole lists at once hold what each of their values comes to by itself."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from distributary.matching.columns import NUMBER, AttributeColumn, form_of, number_of_value, tag_of

LARGE = [2**53 - 1, 2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1, 2**63, 2**64, 2**1100]
"""What doubles, 64 bits and the largest double just hold or do not."""

integers = st.one_of(
    st.integers(-5, 5), st.integers(), st.sampled_from(LARGE), st.sampled_from([-each for each in LARGE])
)


@given(st.lists(st.none() | integers, min_size=1, max_size=8))
def test_a_column_of_integers_holds_each_of_them(values: list[int | None]) -> None:
    column = AttributeColumn.from_values(values)
    assert column.tags.tolist() == [tag_of(value) for value in values]
    assert column.numbers.tolist() == [number_of_value(value) for value in values]
    assert [column.value(row) for row in range(len(values))] == values
    assert column.forms is not None
    numbers = [row for row in range(len(values)) if column.tags[row] == NUMBER]
    assert column.forms[numbers].tolist() == [form_of(values[row]) for row in numbers]
    assert column.strings is None
    assert column.hard is None


@given(st.lists(st.none() | st.floats(), min_size=1, max_size=8))
def test_a_column_of_doubles_holds_each_of_them(values: list[float | None]) -> None:
    column = AttributeColumn.from_values(values)
    assert column.tags.tolist() == [tag_of(value) for value in values]
    assert column.numbers.tolist() == [number_of_value(value) for value in values]


@given(st.lists(st.none() | st.text(max_size=4), min_size=1, max_size=8), st.integers(0, 7))
def test_columns_give_all_texts_at_once(values: list[str | None], first: int) -> None:
    assert AttributeColumn.from_values(values).values() == values
    for kind in (pa.string(), pa.large_string()):
        part = AttributeColumn.from_arrow(pa.array(values, kind).slice(first))
        assert part.values() == values[first:] == [part.value(row) for row in range(len(part.tags))]


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8), st.integers(0, 7))
def test_columns_give_all_integers_at_once(values: list[int | None], first: int) -> None:
    assert AttributeColumn.from_values(values).values() == values
    part = AttributeColumn.from_arrow(pa.array(values, pa.int64()).slice(first))
    assert part.values() == values[first:] == [part.value(row) for row in range(len(part.tags))]

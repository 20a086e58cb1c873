"""Reading tolerances, and what can be said of them without their history."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import FilterError
from distributary.filters.change import ChangeFilter, number_of
from distributary.model import Event

TOLERANCES = st.floats(0, allow_nan=False, allow_infinity=False) | st.integers(0, 10**20)
NAMES = st.text(st.characters(codec="utf-8"), max_size=4)
GIVEN = st.dictionaries(NAMES, TOLERANCES, min_size=1, max_size=4)


@given(GIVEN)
def test_canonical_text_reads_back_as_the_same_filter(given_tolerances: dict[str, float]) -> None:
    filter = ChangeFilter.parse(given_tolerances)
    again = ChangeFilter.parse(filter.text)
    assert again == filter
    assert hash(again) == hash(filter)
    assert (
        again.tolerances
        == filter.tolerances
        == tuple(sorted((n, float(c)) for n, c in given_tolerances.items()))
    )


@given(GIVEN)
def test_any_spelling_of_the_same_tolerances_gives_the_same_text(tolerances: dict[str, float]) -> None:
    reordered = dict(reversed(tolerances.items()))
    spelt = json.dumps(reordered, indent=2)
    assert ChangeFilter.parse(spelt) == ChangeFilter.parse(reordered) == ChangeFilter.parse(tolerances)


def test_the_text_has_sorted_names_and_shortest_numbers() -> None:
    assert ChangeFilter.parse({"price": 0.1 + 0.2, "high": 5.0, "é": -0.0}).text == (
        '{"high":5,"price":0.30000000000000004,"é":0}'
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"price": -1},
        {"price": -5e-324},
        {"price": math.nan},
        {"price": math.inf},
        {"price": 10**400},
        {"price": 10**5000},
        {"price": True},
        {"price": "5"},
        {"price": None},
        {"price": [1]},
        {"price": {"high": 1}},
        {5: 1},
        {None: 1},
        {10**5000: 1},
        {"\ud800": 1},
        None,
        5,
        ["price", 5],
        "",
        "price",
        "5",
        "[]",
        "{}",
        '{"price": }',
        '{"price": 1} x',
        '{"price": NaN}',
        '{"price": Infinity}',
        '{"price": -1}',
        '{"price": 1e999}',
        '{"price": 1, "price": 1}',
        '{"price": {"high": 1}}',
        '{"price": {}}',
        '{"\\ud800": 1}',
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"price": ' + "9" * 10_000 + "}",
    ],
)
def test_what_is_not_a_set_of_tolerances_is_refused(wrong: Any) -> None:
    with pytest.raises(FilterError) as caught:
        ChangeFilter.parse(wrong)
    assert caught.value.field == "change"
    assert str(caught.value).startswith("change: ")


@given(
    st.text(max_size=30)
    | st.text('{}[]":,.0123456789eE-+ atrufnl\\', max_size=30)
    | st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=3), st.lists).map(json.dumps)
)
def test_any_text_gives_a_filter_or_a_filter_error(text: str) -> None:
    try:
        filter = ChangeFilter.parse(text)
    except FilterError:
        return
    assert ChangeFilter.parse(filter.text) == filter


def test_a_syntax_error_says_where() -> None:
    with pytest.raises(FilterError) as caught:
        ChangeFilter.parse('{"price": 1,,}')
    assert caught.value.position == 12


def test_filters_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ChangeFilter.parse({"price": 1}).tolerances = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"price": 1}, True),
        ({"price": math.inf}, True),
        ({"price": 10**400}, True),
        ({"high": 0.5, "price": "1"}, True),
        ({"price": "1"}, False),
        ({"price": True}, False),
        ({"price": math.nan}, False),
        ({"price": None}, False),
        ({"price": (1,)}, False),
        ({"low": 1}, False),
        ({}, False),
    ],
)
def test_an_event_can_pass_only_with_a_number_for_a_named_attribute(
    attributes: dict[str, Any], expected: bool
) -> None:
    assert ChangeFilter.parse({"price": 1, "high": 2}).matches(Event("e", attributes=attributes)) is expected


def test_whole_numbers_out_of_range_count_as_infinite() -> None:
    assert number_of(-(10**400)) == -math.inf


def test_covering_needs_tolerance_zero_on_all_the_other_watches() -> None:
    def parsed(**tolerances: float) -> ChangeFilter:
        return ChangeFilter.parse(tolerances)

    assert parsed(price=5).covers(parsed(price=5))
    assert not parsed(price=5).covers(parsed(price=10))
    assert not parsed(price=10).covers(parsed(price=5))
    assert parsed(price=0).covers(parsed(price=5))
    assert not parsed(price=0).covers(parsed(price=5, high=1))
    assert parsed(price=0, high=0).covers(parsed(high=1))
    assert parsed(price=0, high=7).covers(parsed(price=1))
    assert not parsed(price=0, high=7).covers(parsed(high=7))


def test_merging_keeps_a_cover_or_drops_all_tolerances() -> None:
    five, ten, high = (ChangeFilter.parse(given) for given in ({"price": 5}, {"price": 10}, {"high": 1}))
    assert five.merge(five) == five
    assert five.merge(ten) == ChangeFilter.parse({"price": 0})
    assert five.merge(high) == ChangeFilter.parse({"price": 0, "high": 0})
    assert ChangeFilter.parse({"price": 0, "high": 7}).merge(ten) == ChangeFilter.parse(
        {"price": 0, "high": 7}
    )

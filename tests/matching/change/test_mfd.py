"""The paper's worked examples of decomposed tolerances, and the life of proxies."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.filters.change import ChangeFilter
from distributary.matching.change.decomposition import (
    LogicalNode,
    chain_of,
    leading_unit,
    logical_node,
    parts_of,
)
from distributary.matching.change.mfd import ChangeMFD
from distributary.model import Event

STREAM = [10, 16, 21, 25, 30, 25, 19, 13, 8]


def price(value: float, topic: str | None = None) -> Event:
    return Event("e", topic, {"price": value})


def tolerance(c: float) -> ChangeFilter:
    return ChangeFilter.parse({"price": c})


def delivered(index: ChangeMFD, slot: int, stream: list[int]) -> list[int]:
    return [value for value in stream if slot in index.match(price(value))]


def test_figure_7_value_by_value() -> None:
    """The figure splits 10 into 4 + 6, which no base-4 digits give: two plain filters in a row do."""
    lower, upper = ChangeMFD(unit=100), ChangeMFD(unit=100)
    lower.add(0, tolerance(4))
    upper.add(0, tolerance(6))
    passed = delivered(lower, 0, STREAM)
    assert passed == [10, 16, 21, 30, 25, 19, 13, 8]
    assert delivered(upper, 0, passed) == [10, 21, 30, 19, 8]


def test_a_chain_passes_values_from_level_to_level() -> None:
    """10 is 22 in base 4: a filter of 2, then one of 8 that sees only what the first lets pass."""
    index = ChangeMFD()
    index.add(0, tolerance(10))
    assert delivered(index, 0, STREAM) == [10, 21, 30, 19, 8]


def test_21_is_111_and_34_is_202_in_base_4() -> None:
    assert parts_of(21) == [1, 4, 16]
    assert parts_of(34) == [2, 32]
    assert ChangeMFD().chain(21) == [(1, 1), (5, 4), (21, 16)]
    assert ChangeMFD().chain(34.9) == [(2, 2), (34, 32)]
    assert ChangeMFD(unit=0.5).chain(17) == [(2, 1), (34, 16)]


@given(st.floats(0, 1e300), st.integers(1, 5))
def test_leading_digits_split_a_tolerance_of_any_size(c: float, digits: int) -> None:
    unit = leading_unit(c, digits)
    *_, (units, _) = chain = chain_of(unit, c)
    if not units:
        assert c < 1e-300
        return
    assert len(chain) <= digits
    assert units % 4
    assert units < 4**digits
    kept = sum(Fraction(width) for _, width in chain)
    assert Fraction(c) * (1 - Fraction(1, 4 ** (digits - 1))) <= kept <= c
    if c < 1e290:
        assert leading_unit(4**8 * c, digits) == 4**8 * unit


@given(st.integers(1, 63))
def test_leading_digits_of_whole_tolerances_are_those_of_the_paper(c: int) -> None:
    chain = chain_of(leading_unit(c, 3), c)
    assert [width for _, width in chain] == parts_of(c)
    assert logical_node(chain[-1][0]) == logical_node(c)


def test_logical_nodes_are_numbered_by_level_then_digit() -> None:
    nodes = {units: logical_node(units) for units in range(1, 64)}
    assert nodes[21] == LogicalNode(3, 1)
    assert nodes[34] == LogicalNode(2, 2)
    assert {node.index for node in nodes.values()} == set(range(9))
    assert [nodes[units].index for units in (1, 2, 3, 16, 5, 9, 63)] == [0, 1, 2, 0, 3, 4, 8]
    with pytest.raises(ValueError, match="at least 1"):
        logical_node(0)


def test_proxies_are_shared_replaced_and_dropped_with_the_last_that_needs_them() -> None:
    index = ChangeMFD()
    index.add(0, tolerance(21))
    assert index.filters_of("price") == [(1, 0), (5, 0), (21, 1)]
    index.add(1, tolerance(5))
    assert index.filters_of("price") == [(1, 0), (5, 1), (21, 1)]
    index.add(2, tolerance(37))
    assert index.filters_of("price") == [(1, 0), (5, 1), (21, 1), (37, 1)]
    index.remove(1)
    assert index.filters_of("price") == [(1, 0), (5, 0), (21, 1), (37, 1)]
    index.remove(0)
    assert index.filters_of("price") == [(1, 0), (5, 0), (37, 1)]
    index.remove(2)
    assert index.filters_of("price") == []


def test_a_proxy_keeps_its_state_when_it_becomes_real_and_back() -> None:
    alone, disturbed = ChangeMFD(), ChangeMFD()
    for index in (alone, disturbed):
        index.add(0, tolerance(21))
    stream = [0, 2, 4, 9, 15, 22, 23, 30, 44, 20]
    found = []
    for at, value in enumerate(stream):
        if at == 3:
            disturbed.add(1, tolerance(5))
        if at == 7:
            disturbed.remove(1)
        found.append(0 in disturbed.match(price(value)))
    assert found == [alone.match(price(value)) == [0] for value in stream]


def test_what_stops_at_the_lowest_level_is_not_shown_to_the_others() -> None:
    index = ChangeMFD()
    for slot in range(63):
        index.add(slot, tolerance(slot + 1))
    index.match(price(100))
    assert index.evaluated == 0
    index.match(price(100.5))
    assert index.evaluated == 9  # 1, 2, 3, 10, 20, 30, 100, 200 and 300 in base 4
    index.match(price(101.5))
    assert index.evaluated == 9 + 9 + 6  # only 001 lets it pass, to 011, 021, 031, 101, 201 and 301


def test_tolerances_below_one_unit_are_plain_filters() -> None:
    index = ChangeMFD()
    index.add(0, tolerance(0))
    index.add(1, tolerance(0.5))
    assert index.filters_of("price") == [(0, 1), (0, 1)]
    assert [index.match(price(value)) for value in (1, 1, 1.5, 1.6)] == [[0, 1], [], [0], [0, 1]]


def test_units_are_rounded_down_so_that_widths_never_exceed_the_tolerance() -> None:
    index = ChangeMFD(unit=0.1)
    assert index.chain(0.3)[-1][0] == 2  # 3 * 0.1 is more than 0.3 in float64
    assert index.chain(0.30000000000000004)[-1][0] == 3
    assert index.chain(1.4000000000000001)[-1][0] == 13  # of 14, the widths 0.2 and 1.2000000000000002
    assert ChangeMFD().chain(1e308)[-1][0] == 4**26 - 1


@pytest.mark.parametrize("unit", [0, -1, float("nan"), float("inf")])
def test_the_unit_must_be_a_positive_number(unit: float) -> None:
    with pytest.raises(ValueError, match="unit"):
        ChangeMFD(unit)


def test_peeking_says_where_a_value_stops() -> None:
    index = ChangeMFD()
    index.add(0, tolerance(5))
    assert index.peek(price(10), 0).fires
    index.match(price(10))
    peek = index.peek(price(11), 0)
    assert not peek.fires
    assert str(peek) == (
        "price is 11, which is 1 from the last delivered 10: not more than 4; "
        "price stops at the sub-filter of 1 below"
    )
    assert index.peek(price(15), 0).fires
    assert index.match(price(15)) == [0]

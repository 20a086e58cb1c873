"""What a vertex tells its neighbours, against working it out from all that is known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.systems.hope.table import FilterTable, aggregate, least_demanding

DIMENSION = 4
PAIRS = [filter for filter in range(32) if filter.bit_count() == 2]
"""Filters of which none is less demanding than another."""
filters = st.one_of(st.integers(0, 31), st.sampled_from(PAIRS))
sources = st.integers(0, DIMENSION)
actions = st.lists(st.tuples(st.booleans(), filters, sources), max_size=40)
vertices = st.integers(0, (1 << DIMENSION) - 1)


def lets_pass(told: frozenset[int], event: int) -> bool:
    return any(not filter & ~event for filter in told)


def carry_out(table: FilterTable, steps: list[tuple[bool, int, int]]) -> set[tuple[int, int]]:
    """Add, and remove what is known or now and then what is not; return what is known in the end."""
    known: set[tuple[int, int]] = set()
    for adds, filter, source in steps:
        if adds:
            table.add(filter, source)
            known.add((filter, source))
        else:
            if known and filter:
                filter, source = sorted(known)[filter % len(known)]
            table.remove(filter, source)
            known.discard((filter, source))
    return known


@given(vertices, actions)
def test_neighbours_are_told_the_least_demanding_filters_of_the_sources_above(
    vertex: int, steps: list[tuple[bool, int, int]]
) -> None:
    table = FilterTable(DIMENSION, vertex)
    known = carry_out(table, steps)
    for bit in table.open_bits:
        assert table.told(bit) == least_demanding(filter for filter, source in known if source > bit)
    assert len(table) == len({filter for filter, _ in known})
    for source in range(DIMENSION + 1):
        assert table.of(source) == {filter for filter, its in known if its == source}


def test_a_filter_stays_covered_when_one_of_two_that_cover_it_is_removed() -> None:
    table = FilterTable(DIMENSION, vertex=0)
    for filter in (0b001, 0b011, 0b111):
        table.add(filter, DIMENSION)
    table.remove(0b011, DIMENSION)
    assert table.told(0) == {0b001}


@given(vertices, actions, filters, st.integers(-1, DIMENSION - 1))
def test_an_event_goes_to_every_source_above_that_asks_for_no_bit_it_lacks(
    vertex: int, steps: list[tuple[bool, int, int]], event: int, above: int
) -> None:
    table = FilterTable(DIMENSION, vertex)
    known = carry_out(table, steps)
    expected = {source for filter, source in known if source > above and not filter & ~event}
    assert table.matching(event, above) == sum(1 << source for source in expected)


@given(vertices, actions, st.integers(1, 3))
def test_what_is_told_within_a_budget_loses_no_event(
    vertex: int, steps: list[tuple[bool, int, int]], budget: int
) -> None:
    table = FilterTable(DIMENSION, vertex, budget)
    known = carry_out(table, steps)
    for bit in table.open_bits:
        told = table.told(bit)
        assert len(told) <= budget
        wanted = frozenset(filter for filter, source in known if source > bit)
        assert all(lets_pass(told, event) for event in range(32) if lets_pass(wanted, event))


@given(st.sets(st.sampled_from(PAIRS), min_size=4), st.integers(2, 3))
def test_merged_filters_let_pass_whatever_one_of_them_did(asked: set[int], budget: int) -> None:
    told = aggregate(asked, budget)
    assert len(told) <= budget
    assert all(lets_pass(told, filter) for filter in asked)


@given(st.sets(filters, min_size=1))
def test_one_aggregated_filter_asks_for_the_bits_that_all_ask_for(asked: set[int]) -> None:
    common = -1
    for filter in asked:
        common &= filter
    assert aggregate(asked, budget=1) == {common}


@given(st.sets(filters))
def test_without_a_budget_nothing_is_merged(asked: set[int]) -> None:
    assert aggregate(asked, None) == asked

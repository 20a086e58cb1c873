"""The counting match on the paper's own example, and the lists it counts in."""

from __future__ import annotations

import pytest

from distributary.filters.where.filter import WhereFilter
from distributary.matching.where.bitsets import WhereBitsets
from distributary.matching.where.counting import WhereCounting
from distributary.model import Event

# Triantafillou & Aekaterinidis, Figures 1 and 2.
EVENT = Event(
    "event 1", attributes={"Exchange": "NYSE", "Symbol": "OTE", "Price": 8.40, "High": 8.80, "Low": 8.22}
)
FIRST = WhereFilter.parse("Exchange = 'NYSE' and Symbol = 'OTE' and Price < 8.70 and Price > 8.30")
SECOND = WhereFilter.parse("Symbol = 'OTE' and Price = 8.20 and Low < 8.05")


@pytest.fixture
def index() -> WhereCounting:
    index = WhereCounting()
    index.add_many([1, 2], [FIRST, SECOND])
    return index


@pytest.mark.parametrize("engine", [WhereCounting, WhereBitsets])
def test_the_papers_event_matches_its_first_subscription_alone(engine):
    index = engine()
    index.add_many([1, 2], [FIRST, SECOND])
    assert index.match(EVENT) == [1]


def test_the_lists_of_the_papers_event(index):
    """Section 3.2 also finds subscription 2 in the list of Low, but 8.22 is not below Figure 2's 8.05."""
    assert index.lists(EVENT) == {"Exchange": [1], "Symbol": [1, 2], "Price": [1], "Low": []}


def test_found_in_two_of_three_lists_is_no_match(index):
    """The counts of section 3.2, with a Low for which its list of Low is right."""
    lower = Event("lower", attributes={**EVENT.attributes, "Low": 8.01})
    lists = index.lists(lower)
    assert [sum(slot in found for found in lists.values()) for slot in (1, 2)] == [3, 2]
    assert index.match(lower) == [1]


def test_two_constraints_on_one_attribute_count_once(index):
    index.add(3, WhereFilter.parse("Price > 8 and Price < 9 and Price <> 8.5"))
    assert index.match(EVENT) == [1, 3]


def test_a_conjunction_takes_the_place_of_one_that_was_removed(index):
    index.remove(2)
    index.add(4, WhereFilter.parse("Low < 9"))
    index.add(5, WhereFilter.parse("High < 9 or Low < 9"))
    assert index.match(EVENT) == [1, 4, 5]
    assert index.match(Event("none", attributes={"Symbol": "OTE"})) == []


def test_ranges_that_rounding_joins_are_one_entry_of_a_list():
    index = WhereCounting()
    index.add(1, WhereFilter.parse(f"a <> {2**53 + 1} and b = 1"))
    assert index.match(Event("e", attributes={"a": 2**53, "b": 1})) == [1]
    assert index.match(Event("e", attributes={"a": 2**53 + 1, "b": 1})) == []


def test_memory_grows_with_what_is_held(index):
    before = index.memory()
    index.add_many(range(10, 200), [WhereFilter.parse(f"a > {number}") for number in range(190)])
    assert index.match(Event("e", attributes={"a": 2})) == [10, 11]
    assert index.memory() > before

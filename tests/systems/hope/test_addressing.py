"""Addresses from structure: an event's covers that of every subscription that wants it."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import DistributaryError, DocumentError
from distributary.filters.kinds import parse_filters
from distributary.matching.path.signature import SIGNATURE_LAYOUT
from distributary.model import Event, Subscription
from distributary.overlay.hypercube import covers
from distributary.systems.hope.addressing import Addressing, fitting_dimension
from distributary.systems.hope.tags import TagAddressing
from distributary.workloads import documents

EVENTS = list(documents.events(30, seed=1, size=300))
FILTERS = [parse_filters(each) for each in documents.subscriptions(100, seed=2)]


@cache
def matches() -> list[tuple[Event, dict[str, Any]]]:
    """Events, each with the filters of a subscription that wants it."""
    return [(event, filters) for filters in FILTERS for event in EVENTS if filters["path"].matches(event)]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 16), st.sampled_from([0, 7, 128, 1024]), st.integers(1, 3))
def test_an_event_covers_key_and_filter_of_whatever_matches_it(
    dimension: int, length: int, hashes: int
) -> None:
    addressing = Addressing(dimension, length, hashes)
    assert len(matches()) > 50
    for event, filters in matches():
        has, asks = addressing.of_event(event), addressing.of_filters(filters)
        assert covers(has.key, asks.key)
        assert covers(has.filter, asks.filter)


@pytest.mark.parametrize("hashes", [1, 3])
def test_an_item_sets_one_bit_of_a_key_and_as_many_of_a_filter_as_asked_for(hashes: int) -> None:
    address = Addressing(64, 4096, hashes, value_bits=0).of_items(["a"])
    assert (address.key.bit_count(), address.filter.bit_count()) == (1, hashes)


def test_structures_differ_in_keys_and_more_so_in_filters() -> None:
    addressing = Addressing(12, 1024)
    addresses = [addressing.of_filters(each) for each in FILTERS]
    keys, filters = {each.key for each in addresses}, {each.filter for each in addresses}
    assert 25 < len(keys) < len(filters)


def test_who_changes_the_bits_of_signatures_raises_their_layout() -> None:
    """Nodes with the same layout work together, so they must find the same addresses."""
    event = Event("e", document="<r k='7'><a>7</a><b>x</b><c><d>\u00e9</d></c></r>", attributes={"x/y": 8.5})
    addresses = [addressing(8, 32, 2, 32).of_event(event) for addressing in (Addressing, TagAddressing)]
    found = [(each.key, f"{each.filter:x}") for each in addresses]
    assert (SIGNATURE_LAYOUT, found) == (2, [(238, "421d960e85e166f8"), (32, "20040020000400")])


TEXTS = [
    *("7", " 7\n", "07.0", "-0", "0", "x", "", "1e3", "&#233;"),
    *("y" * 64, "y" * 65, " " * 70 + "7", "7" * 70),
]
LITERALS = ["7", "0", "'7'", "''", "'x'", f"'{'y' * 64}'", f"'{'y' * 65}'", "7" * 70, "'\u00e9'", "1000"]
COMPARISONS = [
    "//a[. = {}]",
    "/r/a[b = {}]",
    "/r/*[. = {}]",
    "/r[a/@k = {} or b = {}]",
    "/r[not(a = {})]",
    "/r[a = {} and not(b = {})]",
    "//a[text() = {}]",
    "/r/a[b = {}] | /r[@k = {}]",
    "/r[. = {}]",
    "/r[a != {}]",
    "/r[{} = a]",
]


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_values_never_hide_a_document_from_a_path_that_selects_it(comparison: str) -> None:
    addressing = Addressing(6, 64, value_bits=4096)
    asked = [
        parse_filters(Subscription("s", "u", path=comparison.format(one, two)))
        for one, two in product(LITERALS, ["7", "'x'"])
    ]
    selected = 0
    for text, more in product(TEXTS, ["", "7"]):
        document = f"<r k='{text}'><a k='{text}'>{text}<b>{text}</b></a><b>{more}</b><a>{text}{more}</a></r>"
        event = Event("e", document=document)
        has = addressing.of_event(event)
        for filters in asked:
            if filters["path"].matches(event):
                assert covers(has.filter, addressing.of_filters(filters).filter)
                selected += 1
    assert selected


@pytest.mark.parametrize(
    ("path", "passes"),
    [
        ("/bib/book[price = 7]", True),
        ("/bib/book[price = 8]", False),
        ("/bib/book[@id = 'x']", True),
        ("/bib/book[@id = 'z']", False),
        ("/bib/book[price = 8 or @id = 'z']", True),
        ("/bib/book[price = 7 and @id = 'z']", False),
        ("/bib/book[not(price = 7)]", True),
        ("//price[. = 8]", False),
        ("/bib/book[price > 8]", True),
    ],
)
def test_an_event_without_a_value_that_is_asked_for_is_refused_by_its_filter(path: str, passes: bool) -> None:
    """What `or` and `not` ask for is known to the home alone."""
    addressing = Addressing(value_bits=4096)
    event = Event("e", document="<bib><book id='x'><price>7.0</price></book></bib>")
    asks = addressing.of_filters(parse_filters(Subscription("s", "u", path=path)))
    assert covers(addressing.of_event(event).filter, asks.filter) is passes


def test_values_fill_none_of_the_bits_of_the_structure() -> None:
    addressing = Addressing(8, 64, value_bits=16)
    few, many = (
        addressing.of_event(Event("e", document=f"<r>{''.join(f'<a>{n}</a>' for n in range(1, size))}</r>"))
        for size in (2, 200)
    )
    assert few.key == many.key
    assert few.filter & (1 << 64) - 1 == many.filter & (1 << 64) - 1
    assert many.filter >> 64 == (1 << 16) - 1


def test_comparisons_other_than_equality_do_not_change_an_address() -> None:
    addressing = Addressing()
    plain, valued, wild = (
        addressing.of_filters(parse_filters(Subscription("s", "u", path=path)))
        for path in ("/bib/book[price]", "/bib/book[price > 5]", "/bib/*[price > 5]")
    )
    assert plain == valued
    assert wild != plain
    assert covers(plain.filter, wild.filter)
    assert covers(plain.key, wild.key)


def test_what_has_no_structure_is_at_zero() -> None:
    addressing = Addressing()
    assert addressing.of_event(Event("e", topic="A")) == (0, 0)
    assert addressing.of_filters(parse_filters(Subscription("s", "u", topic="A"))) == (0, 0)


def test_an_event_whose_document_cannot_be_read_has_no_address() -> None:
    with pytest.raises(DocumentError):
        Addressing().of_event(Event("e", document="<a>"))


def test_impossible_addressing_is_refused() -> None:
    with pytest.raises(DistributaryError, match="at least 1 bit"):
        Addressing(dimension=0)


@pytest.mark.parametrize(("nodes", "dimension"), [(1, 1), (2, 1), (3, 2), (16, 4), (17, 5), (4096, 12)])
def test_there_are_at_least_as_many_vertices_as_nodes(nodes: int, dimension: int) -> None:
    assert fitting_dimension(nodes) == dimension

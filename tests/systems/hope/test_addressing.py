"""Addresses from structure: an event's covers that of every subscription that wants it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import DistributaryError, DocumentError
from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription
from distributary.overlay.hypercube import covers
from distributary.systems.hope.addressing import Addressing, fitting_dimension
from distributary.workloads import documents

EVENTS = list(documents.events(30, seed=1, size=300))
FILTERS = [parse_filters(each) for each in documents.subscriptions(100, seed=2)]
MATCHES = [(event, filters) for filters in FILTERS for event in EVENTS if filters["path"].matches(event)]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 16), st.sampled_from([0, 7, 128, 1024]), st.integers(1, 3))
def test_an_event_covers_key_and_filter_of_whatever_matches_it(
    dimension: int, length: int, hashes: int
) -> None:
    addressing = Addressing(dimension, length, hashes)
    assert len(MATCHES) > 50
    for event, filters in MATCHES:
        has, asks = addressing.of_event(event), addressing.of_filters(filters)
        assert covers(has.key, asks.key)
        assert covers(has.filter, asks.filter)


def test_structures_differ_in_keys_and_more_so_in_filters() -> None:
    addressing = Addressing(12, 1024)
    addresses = [addressing.of_filters(each) for each in FILTERS]
    keys, filters = {each.key for each in addresses}, {each.filter for each in addresses}
    assert 25 < len(keys) < len(filters)


def test_values_do_not_change_an_address() -> None:
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

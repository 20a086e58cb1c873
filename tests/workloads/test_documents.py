"""The workload of XML documents: the counts of Table 3.1, sizes, and distinct paths."""

from __future__ import annotations

import pytest

from distributary.filters.document import parse_document
from distributary.filters.path import PathFilter
from distributary.workloads.documents import TYPES, events, subscriptions

TABLE_3_1 = {
    "SigmodRecord": (11, 1),
    "actors": (9, 0),
    "bib": (13, 1),
    "club": (13, 0),
    "department": (18, 0),
    "movies": (12, 0),
    "personal": (15, 1),
    "profile": (18, 0),
    "quote": (12, 0),
}


def test_the_types_have_as_many_elements_and_attributes_as_table_3_1_gives() -> None:
    counted = {}
    for kind in TYPES:
        attributes = sum(label.startswith("@") for label in kind.labels())
        counted[kind.name] = (len(kind.labels()) - attributes, attributes)
    assert counted == TABLE_3_1


def test_documents_have_about_the_size_asked_for_and_only_labels_of_their_type() -> None:
    by_root = {kind.root: kind for kind in TYPES}
    met = set()
    for event in events(60, seed=3, size=5_000):
        assert event.document is not None
        assert 5_000 <= len(event.document) <= 6_500
        document = parse_document(event.document)
        assert set(document.labels) <= by_root[document.labels[0]].labels()
        met.add(document.labels[0])
    assert met == set(by_root)


def test_paths_are_distinct_filters_with_what_was_asked_for() -> None:
    paths = [each.path for each in subscriptions(2_000, seed=4)]
    assert len({PathFilter.parse(path).text for path in paths}) == 2_000
    plain = [
        each.path or "" for each in subscriptions(50, seed=4, valued=0, branching=0, wildcard=0, descendant=0)
    ]
    assert not any(set(path) & set("[*=<>") or "//" in path for path in plain)


def test_more_distinct_paths_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="distinct"):
        list(subscriptions(5_000, seed=4, valued=0, branching=0, wildcard=0, descendant=0))


def test_the_same_seed_gives_the_same_workload() -> None:
    assert list(events(3, seed=1, size=500)) == list(events(3, seed=1, size=500))
    assert list(subscriptions(30, seed=1)) == list(subscriptions(30, seed=1))
    assert list(subscriptions(30, seed=1)) != list(subscriptions(30, seed=2))

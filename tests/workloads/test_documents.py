"""The workloads of XML documents: the counts of Table 3.1, grammars, sizes, and paths in a style."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from statistics import median
from string import ascii_letters
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from distributary.errors import DistributaryError
from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import PathFilter
from distributary.workloads import xml_collection
from distributary.workloads.documents import events, subscriptions
from distributary.workloads.xml_types import TYPES, DocumentType

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


def deepest(path: str) -> int:
    """The steps of the longest way down a path of child steps, those in branches included."""
    depth = most = 0
    opened: list[int] = []
    for before, sign in zip("/" + path, path, strict=False):
        if sign == "[":
            opened.append(depth)
        elif sign == "]":
            depth = opened.pop()
        elif sign == "/" or before in "[(" or before == " ":
            # Inside a branch its first step has no slash before it, and each alternative starts anew.
            depth = depth + 1 if sign == "/" else opened[-1] + 1
        most = max(most, depth)
    return most


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
    with pytest.raises(DistributaryError, match="distinct"):
        list(subscriptions(5_000, seed=4, valued=0, branching=0, wildcard=0, descendant=0))
    made = list(subscriptions(300, seed=4, valued=0, branching=0, wildcard=0, descendant=0, distinct=False))
    assert len(made) == len({each.id for each in made}) == 300 > len({each.path for each in made})


def declarations(kind: DocumentType) -> Iterator[str]:
    """The lines of a document type definition that says what the type's grammar says."""
    for element in (*kind.content, *sorted(kind.labels() - set(kind.content))):
        if element.startswith("@"):
            continue
        parts = kind.content.get(element, "").split()
        children = ", ".join(part for part in parts if not part.startswith("@"))
        yield f"<!ELEMENT {element} ({children or '#PCDATA'})>"
        for part in parts:
            if part.startswith("@"):
                presence = "#IMPLIED" if part.endswith("?") else "#REQUIRED"
                yield f"<!ATTLIST {element} {part[1:].rstrip('?')} CDATA {presence}>"


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_documents_follow_the_grammar_of_their_type(kind: DocumentType) -> None:
    grammar = etree.DTD(StringIO("\n".join(declarations(kind))))
    for event in events(20, seed=5, size=800, spread=1.0, types=[kind]):
        assert grammar.validate(etree.fromstring(event.document or "")), grammar.error_log


def test_with_a_spread_sizes_differ_around_the_median() -> None:
    sizes = sorted(len(event.document or "") for event in events(301, seed=6, size=3_000, spread=0.7))
    assert 2_500 < median(sizes) < 4_000
    assert sizes[0] < 1_500
    assert sizes[-1] > 9_000


@given(depth=st.integers(1, 8), branching=st.floats(0, 1), seed=st.integers(0, 1_000))
def test_no_path_is_deeper_than_asked_for_branches_included(depth: int, branching: float, seed: int) -> None:
    for made in subscriptions(
        20, seed=seed, depth=depth, branching=branching, descendant=0, valued=0, distinct=False
    ):
        assert deepest(made.path or "") <= depth


def test_wildcards_descendants_and_connectives_come_as_often_as_asked_for() -> None:
    def made(**style: float) -> list[str]:
        plain = {"wildcard": 0.0, "descendant": 0.0, "branching": 0.0, "connectives": 0.0, "valued": 0.0}
        chosen: dict[str, Any] = plain | style
        return [each.path or "" for each in subscriptions(400, seed=7, distinct=False, **chosen)]

    def share(paths: list[str], of: str) -> float:
        steps = sum(path.count("/") - path.count("//") for path in paths)
        return sum(path.count(of) for path in paths) / steps

    assert not any(set(path) & set("*[") or "//" in path for path in made())
    assert 0.2 < share(made(descendant=0.3), "//") < 0.4
    assert 0.15 < share(made(wildcard=0.3), "*") < 0.4
    twigs = made(branching=1.0)
    assert all("[" in path for path in twigs)
    assert not any(" or " in path or " and " in path or "not(" in path for path in twigs)
    assert all(
        "not(" in path or " or " in path or " and " in path for path in made(branching=1, connectives=1)
    )


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"wildcard": 1.5}, {"valued": -0.1}])
def test_a_style_that_cannot_be_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(DistributaryError, match=next(iter(wrong))):
        next(subscriptions(1, seed=1, **wrong))


def test_the_collection_has_twigs_of_child_steps_alone_and_documents_of_all_types() -> None:
    for made in xml_collection.subscriptions(300, seed=8):
        assert set(made.path or "") <= set("/[]@") | set(ascii_letters)
        assert "//" not in (made.path or "")
    roots = {parse_document(event.document or "").labels[0] for event in xml_collection.events(100, seed=8)}
    assert roots == {kind.root for kind in TYPES}
    assert xml_collection.DOCUMENTS == 3_680


def test_the_same_seed_gives_the_same_workload() -> None:
    assert list(events(3, seed=1, size=500)) == list(events(3, seed=1, size=500))
    assert list(subscriptions(30, seed=1)) == list(subscriptions(30, seed=1))
    assert list(subscriptions(30, seed=1)) != list(subscriptions(30, seed=2))

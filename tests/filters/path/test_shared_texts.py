"""Functions of texts that many nodes look at: exact, and twice the document is twice the work."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from lxml import etree

from distributary.filters.path import scalars
from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import PathFilter, selects
from distributary.filters.path.numbered import NumberedNodes

PREDICATES = (
    "contains(.., '$')",
    "contains(., /r/@k)",
    "contains(parent::*/.., '$')",
    "contains(.., ../@k)",
    "contains(../@k, ../..)",
    "starts-with(.., .)",
    "starts-with(/r, ..)",
    "substring-after(., ..) = 'x'",
    "substring(., string-length(/r)) = '$'",
    "sum(../b) = 0.5",
    "sum(../../*/b) = 0.5",
    "sum(/r/*) = 0.5",
    "string-length(..) = 0.5",
    "normalize-space(../..) = '$'",
    "number(..) = count(c)",
    "string(..) < count(c)",
    "substring(., string(..)) = '$'",
    ".. + count(c) = 0.5",
    "../b = /r/@k",
    "../b < /r/@k",
    "/r/@k > ../../*/b",
    ". = ../../@k",
    ". != ../c",
    "../b > 1 + count(../c)",
)
SHAPES = ("<r k='0'>{}</r>", "<r k='0'><g>{}</g></r>")


def characters(function: str, text: str, *others: str) -> int:
    """How many characters a function of texts looks at, at most."""
    if function == "translate":
        return len(text) + sum(map(len, others))
    if function == "starts-with":
        return min(len(text), len(others[0]))
    # A text that is longer than the one it is looked for in needs no look at either.
    return len(text) if not others or len(others[0]) <= len(text) else 0


def work_on(path: str, text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many characters of texts are made, searched and read as numbers when a path meets a document."""
    path_filter, document = PathFilter.parse(path), parse_document(text)
    of_strings, value, number = scalars._of_strings, NumberedNodes.value, scalars.number
    work = 0

    def counted(amount: int) -> None:
        nonlocal work
        work += amount + 1

    def counted_strings(function: str, *texts: str) -> Any:
        counted(characters(function, *texts))
        return of_strings(function, *texts)

    def counted_value(nodes: NumberedNodes, node: int) -> str:
        found = value(nodes, node)
        counted(len(found))
        return found

    def counted_number(text: str) -> float:
        counted(len(text))
        return number(text)

    with monkeypatch.context() as patched:
        patched.setattr(NumberedNodes, "value", counted_value)
        patched.setattr(scalars, "_of_strings", counted_strings)
        patched.setattr(scalars, "number", counted_number)
        selects(path_filter, document)
    return work


@pytest.mark.parametrize(("predicate", "within"), product(PREDICATES, SHAPES))
def test_twice_the_document_is_twice_the_work(
    predicate: str, within: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (within.format("".join(f"<b>7{at}</b>" for at in range(1, count))) for count in (200, 400))
    path = f"//b[{predicate}]"
    work = work_on(path, few, monkeypatch)
    assert work > 200
    assert work_on(path, many, monkeypatch) <= 2.5 * work


DOCUMENTS = (
    "<r k='2'><g k='1'><b>1</b><b>2</b></g><g><b>12</b><c>2</c></g></r>",
    "<r k='x'><g k='x'><b>x</b></g><b k='$'>$x</b></r>",
    "<r k='7'><b>0.5</b></r>",
    "<r k=''><b/><g><b k='1'><c/>3</b></g></r>",
    "<r k='0'><g><b k='0'>0</b><b>3</b><c>0</c></g></r>",
)


@pytest.mark.parametrize("predicate", PREDICATES)
def test_what_nodes_share_is_as_lxml_has_it(predicate: str) -> None:
    for text in DOCUMENTS:
        for path in (f"//b[{predicate}]", f"//b[not({predicate})]", f"//*[{predicate}]"):
            expected = bool(etree.fromstring(text).getroottree().xpath(path))
            assert selects(PathFilter.parse(path), parse_document(text)) == expected, (path, text)


@pytest.mark.parametrize("axis", ["following", "preceding-sibling", "ancestor", "descendant"])
@pytest.mark.parametrize("path", ["//a[string({} = 'x') = 'true']", "//a[({} = 'x') = true()]"])
def test_a_comparison_with_nodes_anywhere_may_be_a_value(axis: str, path: str) -> None:
    path = path.format(f"{axis}::b")
    answers = set()
    for text in ("<r><a/><b>x</b></r>", "<r><b>x</b><a/></r>", "<b>x<a/></b>", "<a><c><b>x</b></c></a>"):
        expected = bool(etree.fromstring(text).getroottree().xpath(path))
        assert selects(PathFilter.parse(path), parse_document(text)) == expected, (path, text)
        answers.add(expected)
    assert answers == {True, False}

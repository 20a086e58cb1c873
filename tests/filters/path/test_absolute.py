"""Comparisons of near nodes with what an absolute path selects, against lxml."""

from __future__ import annotations

from itertools import product

import pytest
from lxml import etree

from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import PathFilter, selects

DOCUMENTS = [
    "<r>"
    + "".join(f"<a>{value}</a>" for value in first)
    + "".join(f"<b>{value}</b>" for value in second)
    + "</r>"
    for first, second in (
        (("1",), ("1",)),
        (("1",), ("2",)),
        (("2",), ("1",)),
        (("1", "2"), ("1",)),
        (("1",), ("1", "2")),
        (("x",), ("x",)),
        (("x",), ("1", "x")),
        (("1",), ("x",)),
        (("1.0",), ("1",)),
        (("1", "x"), ("0", "3")),
        (("1",), ()),
        ((), ("1",)),
        (("",), ("",)),
    )
]
RELATIONS = ("=", "!=", "<", "<=", ">", ">=")
SIDES = (
    ("a", "//b"),
    ("//b", "a"),
    ("//a", "//b"),
    ("string(a)", "//b"),
    ("//b", "number(a)"),
    ("count(//a)", "b"),
)


@pytest.mark.parametrize("sides", SIDES)
def test_every_relation_compares_as_lxml_does(sides: tuple[str, str]) -> None:
    answers = set()
    for text, relation in product(DOCUMENTS, RELATIONS):
        path = f"/r[{sides[0]} {relation} {sides[1]}]"
        expected = bool(etree.fromstring(text).xpath(path))
        assert selects(PathFilter.parse(path), parse_document(text)) == expected, (path, text)
        answers.add((relation, expected))
    assert len(answers) == 2 * len(RELATIONS)


@pytest.mark.parametrize(
    "path", ["//*[contains(//a, 'x')]", "//a[sum(//b) > 1]", "//b[count(//a) = 2][. = 1]"]
)
def test_what_depends_on_no_node_is_the_same_for_all(path: str) -> None:
    for text in DOCUMENTS:
        expected = bool(etree.fromstring(text).xpath(path))
        assert selects(PathFilter.parse(path), parse_document(text)) == expected, (path, text)

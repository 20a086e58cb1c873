"""The picture of a node's neighbourhood shows every node once, with its role and its link."""

from __future__ import annotations

from lxml import etree

from distributary.edge.console.picture import neighbourhood
from distributary.live.links import LinkState

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawn: str) -> list[str]:
    return [text.text for text in etree.fromstring(drawn).iter("text")]


def test_every_neighbour_is_drawn_once_with_its_role() -> None:
    place = {"overlay": "tree", "parent": 5, "children": [6, 7], "root": 5}
    links = [LinkState(address, True, 0.002, 0) for address in (5, 6, 7, 9)]
    drawn = neighbourhood("hall", place, links, {5: "up:1", 6: "left:1", 7: "right:1", 9: "aside:1"})
    told = texts(drawn)
    assert drawn.count("<rect") == 5
    assert [told.count(name) for name in ("hall", "up:1", "left:1", "right:1", "aside:1")] == [1] * 5
    assert [told.count(role) for role in ("root", "child", "linked", "this node")] == [1, 2, 1, 1]
    assert told.count("2.0 ms") == 4


def test_names_cannot_break_the_picture() -> None:
    drawn = neighbourhood("<script>&", {"parent": None, "children": [7]}, [], {7: '"><x>'})
    assert "<script>" in texts(drawn)[0] + texts(drawn)[1]
    assert "<script>" not in drawn

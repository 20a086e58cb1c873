"""What a picture of a plan shows: its texts and dots with the room that they take, and its groups by name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from distributary.plan.pictures.free_places import LabelBox, text_box
from distributary.plan.pictures.lettering import SIZE

SVG = "{http://www.w3.org/2000/svg}"
Point = tuple[float, float]


@dataclass(frozen=True)
class Shape:
    """A text or a dot, and the corners of the box around it."""

    told: str
    corners: Sequence[Point]

    @property
    def left(self) -> float:
        return min(x for x, _ in self.corners)

    @property
    def right(self) -> float:
        return max(x for x, _ in self.corners)

    def overlaps(self, other: Shape) -> bool:
        """Whether no straight line parts the two (the separating axis theorem)."""
        for one, another in ((self, other), (other, self)):
            for (x, y), (a, b) in zip(one.corners, [*one.corners[1:], one.corners[0]], strict=True):
                across = (b - y, x - a)
                own, theirs = (
                    [across[0] * point[0] + across[1] * point[1] for point in shape.corners]
                    for shape in (one, another)
                )
                slack = 1e-6 + 0.05 * math.hypot(*across)  # places are written with one digit
                if max(own) <= min(theirs) + slack or max(theirs) <= min(own) + slack:
                    return False
        return True


def shapes(picture: str) -> list[Shape]:
    """All texts and all dots."""
    return [_shape(element, x, y) for element, x, y in _elements(ElementTree.fromstring(picture), 0, 0)]


def overlapping(picture: str) -> list[tuple[str, str]]:
    """The pairs of texts, or of a text and a dot, that lie on each other."""
    found = []
    beside: list[Shape] = []  # what reaches as far to the right as the next one begins
    for one in sorted(shapes(picture), key=lambda shape: shape.left):
        beside = [other for other in beside if other.right > one.left]
        found += [
            (one.told, other.told)
            for other in beside
            if (one.told != DOT or other.told != DOT) and one.overlaps(other)
        ]
        beside.append(one)
    return found


def beyond(picture: str) -> list[str]:
    """The texts that the picture cuts off."""
    root = ElementTree.fromstring(picture)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    return [
        shape.told
        for shape in shapes(picture)
        if not all(0 <= x <= width and 0 <= y <= height for x, y in shape.corners)
    ]


def group(picture: str, name: str) -> ElementTree.Element:
    """The part of a picture that is called so: `legend`, `before` or `planned`."""
    found = ElementTree.fromstring(picture).find(f"{SVG}g[@class='{name}']")
    assert found is not None, f"there is no {name}"
    return found


def words(picture: str, name: str) -> list[str]:
    """The texts of such a part."""
    return [element.text or "" for element in group(picture, name).iter(f"{SVG}text")]


def notes(picture: str, name: str) -> list[str]:
    """What is shown where the pointer rests."""
    return [element.text or "" for element in group(picture, name).iter(f"{SVG}title")]


DOT = "a dot"


def _elements(
    element: ElementTree.Element, x: float, y: float
) -> Iterator[tuple[ElementTree.Element, float, float]]:
    if element.tag in (f"{SVG}text", f"{SVG}circle"):
        yield element, x, y
    moved = re.fullmatch(r"translate\(([-\d.]+) ([-\d.]+)\)", element.attrib.get("transform", ""))
    if moved:
        x, y = x + float(moved[1]), y + float(moved[2])
    for child in element:
        yield from _elements(child, x, y)


def _shape(element: ElementTree.Element, x: float, y: float) -> Shape:
    given = element.attrib
    if element.tag == f"{SVG}circle":
        middle, radius = (float(given["cx"]) + x, float(given["cy"]) + y), float(given["r"])
        left, top = middle[0] - radius, middle[1] - radius
        return Shape(DOT, _corners(LabelBox(left, top, left + 2 * radius, top + 2 * radius)))
    at = float(given["x"]) + x, float(given["y"]) + y
    told = element.text or ""
    anchor, size = given.get("text-anchor", "start"), float(given.get("font-size", SIZE))
    corners = _corners(text_box(*at, told, anchor, size, bold="font-weight" in given))
    turned = re.match(r"rotate\(([-\d.]+) ", given.get("transform", ""))
    return Shape(told, [_turned(corner, at, float(turned[1])) for corner in corners] if turned else corners)


def _corners(box: LabelBox) -> list[Point]:
    return [(box.left, box.top), (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom)]


def _turned(point: Point, about: Point, degrees: float) -> Point:
    angle = math.radians(degrees)
    x, y = point[0] - about[0], point[1] - about[1]
    return (
        about[0] + x * math.cos(angle) - y * math.sin(angle),
        about[1] + x * math.sin(angle) + y * math.cos(angle),
    )

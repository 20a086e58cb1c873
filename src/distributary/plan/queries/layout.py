"""Where the sites of a placement go in its picture, and the curves between them.

Sites stand on two arcs of an ellipse, half of them on either side, in the order of their direction in the
space of latencies; a site's texts run outwards from it. Each has a share of the height of its side that holds
its texts, so that no text meets another. Curves bend towards the middle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributary.plan.pictures.lettering import shortened, text_width

LINE, GAP, LONGEST, APART = 15.0, 12.0, 250.0, 14.0
"""In pixels: a line of text, between two sites, a text at most, and from a site to its texts."""
LEAST_RADIUS, MOST_RADIUS, FLATTEST = 170.0, 600.0, 0.2
"""Pixels from the middle to the sides, and the share of these, squared, that is left at top and bottom."""


@dataclass(frozen=True)
class SiteLine:
    """A line of text at a site."""

    whole: str
    text: str
    """The same, shortened if it is too long."""
    colour: str
    bold: bool = False

    @classmethod
    def of(cls, whole: str, colour: str, *, bold: bool = False) -> SiteLine:
        """A line that is not too long."""
        return cls(whole, shortened(whole, LONGEST, bold=bold), colour, bold)


@dataclass(frozen=True)
class SiteBox:
    """A site in the picture, with its lines of text."""

    site: int
    lines: Sequence[SiteLine]

    @property
    def height(self) -> float:
        """Of its share of a side."""
        return LINE * len(self.lines) + GAP

    @property
    def width(self) -> float:
        """Of its longest line."""
        return max(text_width(line.text, bold=line.bold) for line in self.lines)


@dataclass(frozen=True)
class PlacedLine:
    """A line of text, and where it begins or ends."""

    line: SiteLine
    x: float
    y: float
    anchor: str


@dataclass(frozen=True)
class Curve:
    """A curve from one point to another, drawn towards a third.

    >>> curve = Curve((0, 0), (10, 10), (20, 0))
    >>> curve.way, curve.point(0.5)
    ('M0.0 0.0Q10.0 10.0 20.0 0.0', (10.0, 5.0))
    """

    begin: tuple[float, float]
    bend: tuple[float, float]
    end: tuple[float, float]

    @property
    def way(self) -> str:
        """As SVG writes it."""
        return (
            f"M{self.begin[0]:.1f} {self.begin[1]:.1f}"
            f"Q{self.bend[0]:.1f} {self.bend[1]:.1f} {self.end[0]:.1f} {self.end[1]:.1f}"
        )

    def point(self, share: float) -> tuple[float, float]:
        """The point after a share of the way."""
        first, second, third = (1 - share) ** 2, 2 * share * (1 - share), share**2
        x, y = (
            first * one + second * other + third * last
            for one, other, last in zip(self.begin, self.bend, self.end, strict=True)
        )
        return x, y

    def arrow(self, share: float, width: float) -> str:
        """An arrowhead after a share of the way, for a line of a width; its class is to be filled in."""
        (x, y), (to_x, to_y) = self.point(share - 0.01), self.point(share)
        angle = math.degrees(math.atan2(to_y - y, to_x - x))
        size = 4 + 0.9 * width
        points = f"{size:.1f},0 {-size * 0.7:.1f},{size:.1f} {-size * 0.7:.1f},{-size:.1f}"
        place = f"translate({to_x:.1f} {to_y:.1f}) rotate({angle:.1f})"
        return f'<polygon points="{points}" transform="{place}" class="{{}}"/>'


@dataclass(frozen=True)
class PlacementLayout:
    """Where everything goes."""

    width: float
    height: float
    middle: tuple[float, float]
    places: Mapping[int, tuple[float, float]]
    texts: Sequence[PlacedLine]

    def curve(self, begin: int, end: int) -> Curve:
        """The way of the link from one site to another; links that go both ways part a little."""
        (x, y), (to_x, to_y) = self.places[begin], self.places[end]
        bend = ((x + to_x) / 2 + self.middle[0]) / 2, ((y + to_y) / 2 + self.middle[1]) / 2
        aside = (to_y - y) * 0.06, (x - to_x) * 0.06
        return Curve((x, y), (bend[0] + aside[0], bend[1] + aside[1]), (to_x, to_y))


def around(boxes: Sequence[SiteBox], points: Any) -> PlacementLayout:
    """Sites with their texts on both sides; `points` are their places in the space of latencies."""
    ordered = sorted(boxes, key=lambda box: (math.atan2(*map(float, _direction(points[box.site]))), box.site))
    left, right = ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :][::-1]
    tall = max(sum(box.height for box in side) for side in (left, right))
    radius = max(LEAST_RADIUS, min(tall / 2.5, MOST_RADIUS))
    wide = [max((box.width for box in side), default=0.0) + APART for side in (left, right)]
    middle = (wide[0] + radius, tall / 2)
    places: dict[int, tuple[float, float]] = {}
    texts: list[PlacedLine] = []
    for sign, side in ((-1, left), (1, right)):
        below = (tall - sum(box.height for box in side)) / 2
        for box in side:
            y = below + box.height / 2
            bulge = math.sqrt(max(FLATTEST, 1 - ((y - middle[1]) / (tall / 2 + 1)) ** 2))
            places[box.site] = x, _ = middle[0] + sign * radius * bulge, y
            first = y - LINE * (len(box.lines) - 1) / 2 + 4
            anchor = "end" if sign < 0 else "start"
            texts += [
                PlacedLine(line, x + sign * APART, first + LINE * number, anchor)
                for number, line in enumerate(box.lines)
            ]
            below += box.height
    return PlacementLayout(sum(wide) + 2 * radius, tall, middle, places, texts)


def _direction(point: Any) -> tuple[Any, Any]:
    """The first two coordinates; 0 where the space has fewer."""
    return (point[0], point[1]) if len(point) > 1 else (point[0], 0.0)

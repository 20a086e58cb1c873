"""The neighbourhood of a node, drawn as SVG: its parent above, its children below, others beside.

Colours are those of the page's text (`currentColor`), so that the picture reads on light and on dark ground.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from distributary.live.links import LinkState

WIDTH = 360
ROW = 90
BOX_WIDTH, BOX_HEIGHT = 112, 40
IN_A_ROW = 3
LONGEST = 16
"""Characters of a name that fit."""


def neighbourhood(
    name: str, place: Mapping[str, Any], links: Sequence[LinkState], names: Mapping[int, str]
) -> str:
    """The picture of a node called `name` at its place; other nodes are known by `names`.

    >>> neighbourhood("hall", {"parent": None, "children": [7]}, [], {7: "10.0.0.7:7001"}).count("<rect")
    2
    """
    states = {link.address: link for link in links}
    above = [place[key] for key in ("parent", "predecessor") if place.get(key) is not None]
    below = list(place.get("children") or ())
    below += [place[key] for key in ("successor",) if place.get(key) is not None]
    beside = [link.address for link in links if link.address not in {*above, *below}]
    rows = [above, [None], *_rows(below), *_rows(beside)]
    rows = [row for row in rows if row]
    own = rows.index([None])
    shapes = []
    for depth, row in enumerate(rows):
        for column, address in enumerate(row):
            x, y = _centre(column, len(row), depth)
            if address is not None:
                shapes.append(_line(_centre(0, 1, own), (x, y), states.get(address), address in beside))
    for depth, row in enumerate(rows):
        for column, address in enumerate(row):
            told = name if address is None else names.get(address, f"…{address % 10**6:06d}")
            shapes.append(_box(_centre(column, len(row), depth), told, address, place))
    height = ROW * len(rows)
    title = f"<title>{escape(name)} and the nodes that it talks to</title>"
    return f'<svg viewBox="0 0 {WIDTH} {height}" width="100%" role="img">{title}{"".join(shapes)}</svg>'


def _rows(addresses: list[int]) -> list[list[int | None]]:
    return [list(addresses[at : at + IN_A_ROW]) for at in range(0, len(addresses), IN_A_ROW)]


def _centre(column: int, columns: int, depth: int) -> tuple[float, float]:
    return WIDTH * (column + 0.5) / columns, ROW * (depth + 0.5)


def _line(begin: tuple[float, float], end: tuple[float, float], link: LinkState | None, weak: bool) -> str:
    """A line between two nodes, with its round trip; dashed where the overlay has none."""
    dashes = ' stroke-dasharray="4 4"' if weak or link is None or not link.linked else ""
    (x1, y1), (x2, y2) = begin, end
    half = BOX_HEIGHT / 2 if y2 > y1 else -BOX_HEIGHT / 2
    y1, y2 = y1 + half, y2 - half
    drawn = (
        f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="currentColor" '
        f'stroke-opacity="0.5"{dashes}/>'
    )
    if link is None or link.round_trip is None:
        return drawn
    told = f"{1000 * link.round_trip:.1f} ms" + (f", {link.unsent:,} B wait" if link.unsent else "")
    at = f'x="{(x1 + 2 * x2) / 3:.0f}" y="{(y1 + y2) / 2:.0f}"'
    return drawn + f'<text {at} font-size="10" text-anchor="middle" fill="currentColor">{told}</text>'


def _box(centre: tuple[float, float], name: str, address: int | None, place: Mapping[str, Any]) -> str:
    x, y = centre[0] - BOX_WIDTH / 2, centre[1] - BOX_HEIGHT / 2
    if address is None:
        role = "root" if place.get("overlay") == "tree" and place.get("parent") is None else "this node"
        fill, lines = 'fill="#1976d2" stroke="none"', (name[:LONGEST], role)
        colour = "white"
    else:
        role = "root" if place.get("root") == address else _role(address, place)
        fill, lines = 'fill="none" stroke="currentColor"', (name[-LONGEST:], role)
        colour = "currentColor"
    rows = "".join(
        f'<text x="{centre[0]:.0f}" y="{centre[1] + offset}" font-size="12" text-anchor="middle" '
        f'fill="{colour}">{escape(line)}</text>'
        for line, offset in zip(lines, (-3, 12), strict=True)
    )
    return f'<rect x="{x:.0f}" y="{y:.0f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" {fill}/>{rows}'


def _role(address: int, place: Mapping[str, Any]) -> str:
    for name in ("parent", "predecessor", "successor"):
        if place.get(name) == address:
            return name
    return "child" if address in (place.get("children") or ()) else "linked"

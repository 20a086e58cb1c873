"""Draws docs/rooms.svg from the table of rooms: `python tests/house/picture.py`.

A room stands above all rooms it may import from. A line goes to each of those that is not already reached
through another line, so that the picture stays readable; `distributary_lab` and `cli`, which may import
everything, stand on top without lines.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from house.rooms import EVERYTHING, ROOMS, TOP

PICTURE = TOP / "docs" / "rooms.svg"
WIDTH, HEIGHT, STEP, RISE = 184, 46, 210, 88
HIDDEN = {"distributary"}
"""The package's own `__init__`: it only passes names on."""


def levels() -> list[list[str]]:
    """The rooms in rows: a room is one row above the highest that it may import from."""
    row: dict[str, int] = {}

    def row_of(name: str) -> int:
        if name not in row:
            row[name] = 1 + max(map(row_of, ROOMS[name].imports), default=-1)
        return row[name]

    inner = [name for name in ROOMS if ROOMS[name].imports != EVERYTHING and name not in HIDDEN]
    for name in inner:
        row_of(name)
    rows = [[name for name in inner if row[name] == level] for level in range(max(row.values()) + 1)]
    return [*rows, [name for name in ROOMS if ROOMS[name].imports == EVERYTHING]]


def lines() -> list[tuple[str, str]]:
    """Pairs of a room and one it may import from, without those that follow from others."""
    direct = {name: set(room.imports) - {"*"} for name, room in ROOMS.items() if name not in HIDDEN}

    def below(name: str) -> set[str]:
        return set().union(*(direct[each] | below(each) for each in direct[name]))

    return [(name, each) for name in direct for each in sorted(direct[name] - below(name))]


def picture() -> str:
    """The picture as SVG."""
    rows = levels()
    across = round(max(room.column for room in ROOMS.values()) * STEP + WIDTH + 20)
    down = len(rows) * RISE + 10
    place = {
        name: (10 + ROOMS[name].column * STEP, down - (level + 1) * RISE + 30)
        for level, row in enumerate(rows)
        for name in row
    }
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across} {down}" '
        f'width="{across}" height="{down}" font-family="sans-serif" font-size="12">',
        f'<rect width="{across}" height="{down}" fill="white"/>',
    ]
    for upper, lower in lines():
        (x1, y1), (x2, y2) = place[upper], place[lower]
        parts.append(
            f'<path d="M{x1 + WIDTH / 2:.0f} {y1 + HEIGHT:.0f} C{x1 + WIDTH / 2:.0f} {y1 + HEIGHT + 28:.0f} '
            f'{x2 + WIDTH / 2:.0f} {y2 - 28:.0f} {x2 + WIDTH / 2:.0f} {y2:.0f}" fill="none" stroke="#89a"/>'
        )
    for name, (x, y) in place.items():
        outer = ROOMS[name].imports == EVERYTHING
        middle = x + WIDTH / 2
        parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
            f'fill="{"#f3efe2" if outer else "#e8f0f8"}" stroke="#456"/>'
            f'<text x="{middle:.0f}" y="{y + 19:.0f}" text-anchor="middle" font-weight="bold">{name}</text>'
            f'<text x="{middle:.0f}" y="{y + 36:.0f}" text-anchor="middle" fill="#345">'
            f"{escape(ROOMS[name].about)}</text>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture())

"""A tree to look at: as text and as an SVG picture.

A picture of up to some hundred leaves grows from the root at the left, with a line of text for every leaf;
larger ones grow from the middle in rings, so that a thousand sites are still seen at once. Links that are new
in the plan and sites whose cost is the system's own stand out.

Cost: linear in the sites.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate

from distributary.plan.goal.expression import Number
from distributary.plan.svg import svg_page
from distributary.plan.trees.tree import Sites, Tree

MOST_LEAVES = 120
"""In a picture that grows to the right."""

ROW, CHARACTER, GAP, MARGIN, HEAD = 20, 7, 60, 30, 60
"""In pixels: a leaf's height, a letter's width, between two levels, around the picture, and its title."""

ARC, RING = 11, 150
"""In pixels: between two leaves on the outermost ring, and between two rings at least."""

LINK, NEW_LINK, ROOT, SITE, WORST = "#aab", "#e08214", "#222", "#369", "#c22"


def shown(cost: Number | None) -> str:
    """A cost as people read it.

    >>> shown(12.34567), shown(None)
    ('12.35', '')
    """
    return "" if cost is None else f"{float(cost):.4g}"


def tree_text(tree: Tree, sites: Sites, costs: Sequence[Number | None]) -> str:
    """Every site under its parent, with its cost.

    >>> print(tree_text(Tree((-1, 0, 0, 1)), Sites(latency=[[0] * 4] * 4, names="abcd"), [None, 5, 9, 7]))
    a
    ├── b  5
    │   └── d  7
    └── c  9
    """
    lines = []
    waiting: list[tuple[int, str, str]] = [(tree.root, "", "")]
    while waiting:
        site, before, below = waiting.pop()
        lines.append(f"{before}{sites.name(site)}  {shown(costs[site])}".rstrip())
        children = tree.children[site]
        for child in reversed(children):
            last = child == children[-1]
            branch, rest = ("└── ", "    ") if last else ("├── ", "│   ")
            waiting.append((child, below + branch, below + rest))
    return "\n".join(lines)


@dataclass(frozen=True)
class Label:
    """Where a site's text begins and which way it runs."""

    x: float
    y: float
    turned: float = 0.0
    anchor: str = "start"


@dataclass(frozen=True)
class Picture:
    """Where everything goes."""

    width: float
    height: float
    places: Sequence[tuple[float, float]]
    labels: Sequence[Label]
    exits: Sequence[float]
    """How far to the right of each site its links begin, to leave room for its text; nothing: in its middle,
    and straight."""


def tree_svg(
    tree: Tree,
    sites: Sites,
    costs: Sequence[Number | None],
    title: str,
    new: Collection[int] = (),
    worst: Number | None = None,
) -> str:
    """A picture; `new` are the sites whose link is new, `worst` the cost of those to stand out."""
    texts = [f"{sites.name(site)}  {shown(costs[site])}".strip() for site in range(len(tree.parents))]
    leaves = sum(not children for children in tree.children)
    picture = _to_the_right(tree, texts, title) if leaves <= MOST_LEAVES else _in_rings(tree, texts)
    lines = [
        f'<text x="{MARGIN}" y="44"><tspan fill="{NEW_LINK}">new link</tspan> · '
        f'<tspan fill="{WORST}">site with the system\'s cost</tspan></text>'
    ]
    lines.extend(_link(picture, tree, site, site in new) for site in tree.order[1:])
    for site in tree.order:
        stands_out = worst is not None and costs[site] == worst
        colour = ROOT if site == tree.root else WORST if stands_out else SITE
        lines.extend(_site(picture, site, texts[site], colour, bool(tree.children[site])))
    return svg_page(picture.width, picture.height, MARGIN, title, lines)


def _link(picture: Picture, tree: Tree, site: int, new: bool) -> str:
    (x, y), (up_x, up_y) = picture.places[site], picture.places[tree.parents[site]]
    if picture.exits:
        up_x += picture.exits[tree.parents[site]]
    middle = (x + up_x) / 2
    way = f"M{up_x:.1f} {up_y:.1f}"
    bend = f"C{middle:.1f} {up_y:.1f} {middle:.1f} {y:.1f}" if picture.exits else "L"
    way += f"{bend} {x:.1f} {y:.1f}"
    style = f'stroke="{NEW_LINK}" stroke-width="2"' if new else f'stroke="{LINK}"'
    return f'<path d="{way}" fill="none" {style}/>'


def _site(picture: Picture, site: int, text: str, colour: str, inner: bool) -> list[str]:
    """A dot and its text; where there may be links behind the text, it has a white edge."""
    (x, y), label = picture.places[site], picture.labels[site]
    turn = f' transform="rotate({label.turned:.1f} {label.x:.1f} {label.y:.1f})"' if label.turned else ""
    begins = f'<text x="{label.x:.1f}" y="{label.y + 4:.1f}" text-anchor="{label.anchor}"{turn}'
    behind = inner and not picture.exits
    halo = [f'{begins} fill="#fff" stroke="#fff" stroke-width="4">{escape(text)}</text>'] if behind else []
    return [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>',
        *halo,
        f'{begins} fill="{colour}">{escape(text)}</text>',
    ]


def _spread(tree: Tree) -> list[float]:
    """A place for every leaf in the tree's order; every parent in the middle of its children."""
    across = [0.0] * len(tree.parents)
    for place, leaf in enumerate(site for site in tree.order if not tree.children[site]):
        across[leaf] = place
    for site in reversed(tree.order):
        children = tree.children[site]
        if children:
            across[site] = (across[children[0]] + across[children[-1]]) / 2
    return across


def _to_the_right(tree: Tree, texts: Sequence[str], title: str) -> Picture:
    """The root at the left; each level as wide as its longest text."""
    across = _spread(tree)
    widest = [0] * (max(tree.depth) + 1)
    for depth, text in zip(tree.depth, texts, strict=True):
        widest[depth] = max(widest[depth], len(text))
    widths = (CHARACTER * letters + GAP for letters in widest)
    starts = list(accumulate(widths, initial=float(MARGIN)))
    places = [
        (starts[depth], HEAD + MARGIN + ROW * place) for place, depth in zip(across, tree.depth, strict=True)
    ]
    labels = [Label(x + 8, y) for x, y in places]
    exits = [12.0 + CHARACTER * len(text) for text in texts]
    width = max(starts[-1], MARGIN * 2 + 8.5 * len(title))
    return Picture(width, HEAD + 2 * MARGIN + ROW * (max(across) + 1), places, labels, exits)


def _in_rings(tree: Tree, texts: Sequence[str]) -> Picture:
    """The root in the middle, a ring a level, every leaf with its share of the circle."""
    across = _spread(tree)
    leaves = max(across) + 1
    levels = max(max(tree.depth), 1)
    ring = max(RING, ARC * leaves / (2 * math.pi * levels))
    room = MARGIN + CHARACTER * max(map(len, texts))
    middle = ring * levels + room
    places, labels = [], []
    for site in range(len(tree.parents)):
        angle = 2 * math.pi * across[site] / leaves
        radius = ring * tree.depth[site]
        x, y = middle + radius * math.cos(angle), HEAD + middle + radius * math.sin(angle)
        places.append((x, y))
        left = math.cos(angle) < 0  # texts there are turned round, so that none stands on its head
        turned = math.degrees(angle) + (180 if left else 0)
        beyond = (x + 8 * math.cos(angle), y + 8 * math.sin(angle))
        labels.append(Label(*beyond, turned, "end" if left else "start"))
    return Picture(2 * middle, HEAD + 2 * middle, places, labels, ())

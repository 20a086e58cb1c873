"""A tree to look at: as text and as an SVG picture.

Cost: linear in the sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from distributary.plan.tree import Number, Sites, Tree

WIDTH, HEIGHT, MARGIN = 90, 80, 40
"""Between leaves, between levels, and around the picture, in pixels."""


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


def tree_svg(tree: Tree, sites: Sites, costs: Sequence[Number | None], title: str) -> str:
    """A picture: the root above, every parent over the middle of its children."""
    across = [0.0] * len(tree.parents)
    leaves = 0
    for site in tree.order:
        if not tree.children[site]:
            across[site] = leaves
            leaves += 1
    for site in reversed(tree.order):
        children = tree.children[site]
        if children:
            across[site] = (across[children[0]] + across[children[-1]]) / 2
    place = [
        (MARGIN + WIDTH * (x + 0.5), MARGIN + HEIGHT * (depth + 0.5))
        for x, depth in zip(across, tree.depth, strict=True)
    ]
    width, height = 2 * MARGIN + WIDTH * leaves, 2 * MARGIN + HEIGHT * (max(tree.depth) + 1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12" text-anchor="middle"><title>{escape(title)}</title>'
    ]
    for site in tree.order[1:]:
        (x, y), (up_x, up_y) = place[site], place[tree.parents[site]]
        lines.append(f'<line x1="{up_x:.1f}" y1="{up_y:.1f}" x2="{x:.1f}" y2="{y:.1f}" stroke="#888"/>')
    for site in tree.order:
        x, y = place[site]
        fill = "#c33" if site == tree.root else "#369"
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{fill}"/>')
        lines.append(f'<text x="{x:.1f}" y="{y - 10:.1f}">{escape(sites.name(site))}</text>')
        lines.append(f'<text x="{x:.1f}" y="{y + 20:.1f}" fill="#666">{shown(costs[site])}</text>')
    return "\n".join([*lines, "</svg>", ""])

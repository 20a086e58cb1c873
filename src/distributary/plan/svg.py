"""The frame of every picture that the planner draws."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def svg_page(width: float, height: float, margin: float, title: str, lines: Iterable[str]) -> str:
    """An SVG picture of these elements, on white, with its title at the top."""
    size = f'width="{width:.0f}" height="{height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:.0f} {height:.0f}" '
            'font-family="sans-serif" font-size="12">',
            f"<title>{escape(title)}</title>",
            f'<rect {size} fill="#fff"/>',
            f'<text x="{margin}" y="24" font-size="14" font-weight="bold">{escape(title)}</text>',
            *lines,
            "</svg>\n",
        ]
    )

"""The page of every picture that the planner draws: title, legend, and one plan or two.

Plans to compare stand below each other where that is not too tall, and beside each other otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from distributary.plan.pictures.colours import style
from distributary.plan.pictures.lettering import SIZE, shortened, text_width, wrapped
from distributary.plan.pictures.scales import RateScale

MARGIN, LINE, GAP = 24.0, 18.0, 32.0
"""In pixels: around the picture, a line of text, between two plans or two entries of the legend."""
LEAST_WIDTH = 720.0
TITLE_SIZE, HEADING_SIZE = 15.0, 13.0
TALLEST = 1000.0
"""Two plans that are taller together stand beside each other."""


def text(
    x: float,
    y: float,
    content: str,
    classes: str = "",
    *,
    anchor: str = "start",
    size: float = SIZE,
    bold: bool = False,
    turned: float = 0.0,
) -> str:
    """A line of text; turned about its point."""
    look = f' class="{classes}"' if classes else ""
    look += f' text-anchor="{anchor}"' if anchor != "start" else ""
    look += f' font-size="{size:g}"' if size != SIZE else ""
    look += ' font-weight="bold"' if bold else ""
    look += f' transform="rotate({turned:.1f} {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{look}>{escape(content)}</text>'


def dot(x: float, y: float, classes: str, radius: float = 4.0) -> str:
    """A site."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{classes}"/>'


def line(way: str, classes: str, width: float = 1.0, more: str = "") -> str:
    """A line along a way, as SVG writes ways."""
    return f'<path d="{way}" class="{classes}" stroke-width="{width:.1f}"{more}/>'


def explained(note: str, elements: Iterable[str], classes: str = "") -> str:
    """Elements that show a note where the pointer rests on them."""
    look = f' class="{classes}"' if classes else ""
    return f"<g{look}><title>{escape(note)}</title>{''.join(elements)}</g>"


@dataclass(frozen=True)
class LegendEntry:
    """What a sample of the picture means; a note has no sample."""

    meaning: str
    sample: str = ""
    """Elements around the point (0, 0), from which they reach so far to the right."""
    width: float = 0.0


@dataclass(frozen=True)
class PlanPanel:
    """A plan that is drawn, with its upper left corner at (0, 0)."""

    name: str
    heading: str
    width: float
    height: float
    elements: Sequence[str]


def rate_legend(scale: RateScale) -> list[LegendEntry]:
    """What the widths of lines mean."""
    samples = scale.samples()
    if not samples:
        return [LegendEntry("rates are not known: all links are equally wide")]
    return [
        LegendEntry(
            f"{'a link that carries ' if number == 0 else ''}{told}",
            line("M0 0H30", "link", scale.width(rate)),
            30,
        )
        for number, (rate, told) in enumerate(samples)
    ]


def picture_page(title: str, panels: Sequence[PlanPanel], legend: Sequence[LegendEntry]) -> str:
    """The picture as SVG."""
    beside = sum(panel.height + GAP for panel in panels) > TALLEST
    widths = [panel.width for panel in panels]
    across = sum(widths) + GAP * (len(panels) - 1) if beside else max(widths)
    inside = max(LEAST_WIDTH, across)
    parts, y = [], MARGIN
    for words in wrapped(title, inside, TITLE_SIZE, bold=True):
        y += 20
        parts.append(text(MARGIN, y - 6, words, size=TITLE_SIZE, bold=True))
    y += 6
    told, tall = _legend(legend, inside)
    parts.append(f'<g class="legend" transform="translate({MARGIN:g} {y:g})">{told}</g>')
    x, y = MARGIN, y + tall + 14
    for panel in panels:
        words = shortened(panel.heading, panel.width, HEADING_SIZE, bold=True)
        heading = text(0, 14, words, size=HEADING_SIZE, bold=True)
        inner = "\n".join(panel.elements)
        parts.append(f'<g class="{panel.name}" transform="translate({x:.1f} {y:.1f})">{heading}')
        parts.append(f'<g transform="translate(0 {LINE + 8:g})">\n{inner}\n</g></g>')
        if beside:
            x += panel.width + GAP
        else:
            y += panel.height + LINE + GAP
    if beside:
        y += max(panel.height for panel in panels) + LINE + GAP
    width, height = inside + 2 * MARGIN, y
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="{SIZE:g}">',
            f"<title>{escape(title)}</title>",
            style(),
            *parts,
            "</svg>\n",
        ]
    )


def _legend(entries: Sequence[LegendEntry], width: float) -> tuple[str, float]:
    """The entries in lines that fit into a width, and how tall they are together."""
    parts: list[str] = []
    x, y = 0.0, LINE / 2
    for entry in entries:
        indent = entry.width + 8 if entry.sample else 0.0
        lines = wrapped(entry.meaning, width - indent)
        needed = indent + max(text_width(each) for each in lines)
        if x and (x + needed > width or len(lines) > 1):
            x, y = 0.0, y + LINE
        if entry.sample:
            parts.append(f'<g transform="translate({x:.1f} {y:.1f})">{entry.sample}</g>')
        for number, words in enumerate(lines):
            parts.append(text(x + indent, y + 4 + LINE * number, words, "quiet"))
        y += LINE * (len(lines) - 1)
        x = width if len(lines) > 1 else x + needed + GAP / 2
    return "\n".join(parts), y + LINE / 2 if entries else 0.0

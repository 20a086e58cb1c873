"""Plots of rows as SVG that fits into a page, light or dark.

Text and axes take the colour of the page's text (`currentColor`). Lines differ in colour, marker and dash, so
that they can be told apart without colour.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Mapping
from html import escape
from statistics import fmean
from typing import TYPE_CHECKING, Any

from distributary.errors import DistributaryError
from distributary_lab.experiment import Plot, Rows, Value
from distributary_lab.rows import in_order, number, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#3b82c4", "#e07b39", "#2f9e6e", "#c2528b", "#8a6fd1", "#b59a24", "#3aa6b9", "#9a6b4f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":")
INK = "#010203"
"""Stands for the colour of the page's text until the SVG is written."""

FILE_INK = "#1d2126"

SIZE = (7.2, 3.7)
MOST_TICKS = 7
MOST_MARKERS = 20
"""On a line; on one with more points, some go without."""

Spread = tuple[float, float, float]
"""Least, mean and most of the repetitions."""


def svg(plot: Plot, rows: Rows, salt: str) -> str:
    """The plot as an SVG element; `salt` keeps its ids apart from those of other plots on the page."""
    return _inline(_drawn(plot, rows, salt, transparent=True), plot.title)


def svg_file(plot: Plot, rows: Rows, salt: str) -> str:
    """The plot as a file of its own: dark on white, for pictures cannot take the page's colours."""
    return _named(_drawn(plot, rows, salt, transparent=False).replace(INK, FILE_INK), plot.title)


def _drawn(plot: Plot, rows: Rows, salt: str, *, transparent: bool) -> str:
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise DistributaryError(
            "plots need matplotlib, which is not installed: pip install 'distributary[lab]'"
        ) from error
    from matplotlib.figure import Figure

    style: Any = {**_STYLE, "svg.hashsalt": salt}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=SIZE, layout="constrained")
        draw(plot, rows, figure.subplots())
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=transparent, metadata={"Date": None})
    return stream.getvalue()


def draw(plot: Plot, rows: Rows, axes: Axes) -> None:
    """Draw a plot on axes of matplotlib's."""
    lines = series(plot, rows)
    if plot.kind == "bars":
        _bars(lines, axes)
    else:
        _lines(plot, lines, axes)
    if plot.paper:
        bars = list(dict.fromkeys(x for line in lines.values() for x in line)) if plot.kind == "bars" else []
        at: dict[Any, float] = {
            bars.index(x) if bars else x: y for x, y in plot.paper.items() if not bars or x in bars
        }
        look: Any = {"color": INK, "linestyle": "", "marker": "x", "markersize": 7, "zorder": 3}
        axes.plot(list(at), list(at.values()), label="the paper", **look)
    for name, height in plot.reference.items():
        axes.axhline(height, color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
        place: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate(name, (0.01, height), (0, 3), **place, fontsize="small")
    _scale_y(plot.log_y, axes)
    if not plot.log_y and all(low >= 0 for line in lines.values() for low, _, _ in line.values()):
        axes.set_ylim(bottom=0)
    axes.set_xlabel(plot.x_label or _words(plot.x))
    axes.set_ylabel(plot.y_label or _words(_columns(plot.y)[0]))
    axes.grid(axis="y", alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)
    if len(lines) > 1 or plot.paper:
        axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5))


def series(plot: Plot, rows: Rows) -> dict[str, dict[Value, Spread]]:
    """By the name of a line, its values by x, in the order of x.

    >>> series(Plot("", x="n", y="hops"), [{"n": 1, "hops": 2}, {"n": 1, "hops": 4}])
    {'hops': {1: (2.0, 3.0, 4.0)}}
    """
    groups: defaultdict[str, defaultdict[Value, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(select(rows, **plot.where), key=lambda row: _rank(plot, row)):
        for column in _columns(plot.y):
            if column in row and plot.x in row:
                groups[_name(plot, row, column)][row[plot.x]].append(number(row, column))
    return {
        name: {x: (min(values), fmean(values), max(values)) for x, values in in_order(line)}
        for name, line in groups.items()
    }


def _rank(plot: Plot, row: Mapping[str, Value]) -> list[tuple[int, float]]:
    """Lines that a number tells apart come in its order; others as the rows have them."""
    values = [row.get(column) for column in _columns(plot.series)]
    return [(0, 0.0) if value is None or isinstance(value, str) else (1, float(value)) for value in values]


def _name(plot: Plot, row: Mapping[str, Value], column: str) -> str:
    parts = []
    for by in _columns(plot.series):
        value = row.get(by, "")
        parts.append(value if isinstance(value, str) else f"{value:,} {_words(by)}")
    if len(_columns(plot.y)) > 1 or not parts:
        parts.append(_words(column))
    return ", ".join(parts)


def _lines(plot: Plot, lines: Mapping[str, Mapping[Value, Spread]], axes: Axes) -> None:
    for count, (name, line) in enumerate(lines.items()):
        colour = COLOURS[count % len(COLOURS)]
        xs: list[Any] = list(line)
        means = [mean for _, mean, _ in line.values()]
        dash = DASHES[(count + count // len(COLOURS)) % len(DASHES)]  # the next of a colour has another
        marker = MARKERS[count % len(MARKERS)]
        look: Any = {"color": colour, "linestyle": dash, "marker": marker, "markersize": 5}
        axes.plot(xs, means, markevery=-(-len(xs) // MOST_MARKERS), label=name, **look)
        lows, highs = [low for low, _, _ in line.values()], [high for _, _, high in line.values()]
        if lows != highs:
            axes.fill_between(xs, lows, highs, color=colour, alpha=0.18, linewidth=0)
    _scale_x(plot, sorted({x for line in lines.values() for x in line if not isinstance(x, str)}), axes)


def _scale_y(logarithmic: bool, axes: Axes) -> None:
    """Numbers are written out; between powers of ten only where there are few of those."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    plain = FuncFormatter(lambda y, _: _written(y))
    if logarithmic:
        axes.set_yscale("log")
        least, most = axes.get_ylim()
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.yaxis.set_minor_formatter(plain if most < least * 100 else NullFormatter())
    axes.yaxis.set_major_formatter(plain)


def _scale_x(plot: Plot, xs: list[Any], axes: Axes) -> None:
    """Numbers are written out; on a logarithmic axis the measured ones are, where they fit."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    if not xs:
        return
    if plot.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(xs[:: -(-len(xs) // MOST_TICKS)])
        axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _written(x)))


def _bars(lines: Mapping[str, Mapping[Value, Spread]], axes: Axes) -> None:
    places = list(dict.fromkeys(x for line in lines.values() for x in line))
    width = 0.8 / max(len(lines), 1)
    for count, (name, line) in enumerate(lines.items()):
        at = [places.index(x) + (count - (len(lines) - 1) / 2) * width for x in line]
        means = [mean for _, mean, _ in line.values()]
        ends = [
            [mean - low for low, mean, _ in line.values()],
            [high - mean for _, mean, high in line.values()],
        ]
        spread = ends if any(map(any, ends)) else None
        colour, hatch = COLOURS[count % len(COLOURS)], ("", "//", "..", "xx", "\\\\")[count % 5]
        look: Any = {"color": colour, "hatch": hatch, "ecolor": INK, "edgecolor": "white", "linewidth": 0}
        axes.bar(at, means, width * 0.92, yerr=spread, label=name, **look)
    axes.set_xticks(
        range(len(places)), [place if isinstance(place, str) else f"{place:,}" for place in places]
    )


def _written(number: float) -> str:
    """A number on an axis.

    >>> _written(0.25), _written(1_000_000)
    ('0.25', '1,000,000')
    """
    return f"{number:,.0f}" if abs(number) >= 1e5 else f"{number:,g}"


def _columns(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _words(column: str) -> str:
    return column.replace("_", " ")


def _inline(text: str, title: str) -> str:
    """An SVG document as an element of a page: no prologue, and the page's colour."""
    element = text[text.index("<svg") :].replace(INK, "currentColor")
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    # Only ids that something refers to are kept: those are salted, the others would come twice on a page.
    used = set(re.findall(r"#([\w.-]+)", element))
    element = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", element)
    return _named(element, title)


def _named(text: str, title: str) -> str:
    """With a name for screen readers."""
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text, in the font of the page
    "font.family": "sans-serif",
    "font.size": 10,
    "hatch.linewidth": 0.6,
    "axes.unicode_minus": True,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "legend.labelcolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color", "grid.color"), INK),
}

"""The colours of pictures by class, for light and for dark backgrounds.

Rules: a picture paints no background, so that it has that of the page around it. Every colour is given for
both backgrounds and stands out from them; the legend shows those that say something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

PAPER = ("#ffffff", "#0d1117")
"""The edge of texts that may lie on lines."""

FILLS: Mapping[str, tuple[str, str]] = {
    "ink": ("#1f2328", "#e6edf3"),
    "quiet": ("#57606a", "#9aa7b4"),
    "site": ("#2463a8", "#79b8ff"),
    "worst": ("#c0262d", "#ff7b72"),
    "moved": ("#a84300", "#ffa657"),
}
"""Light and dark, of texts, dots and arrowheads."""

STROKES: Mapping[str, tuple[str, str]] = {
    "link": ("#8c99a8", "#66727f"),
    "new": ("#d9730d", "#ffa657"),
    "grid": ("#dfe3e8", "#2b323b"),
}
"""The same of lines."""

DELAYS = (("#5aa9dd", "#a5d8ff"), ("#3a78c9", "#5fa8f5"), ("#6b4fc0", "#a78bfa"), ("#a3216f", "#f472b6"))
"""The same of lines by their delay, the shortest first."""


def style() -> str:
    """The style sheet of a picture."""
    fills = {**FILLS, **{f"head{step}": pair for step, pair in enumerate(DELAYS)}}
    strokes = {**STROKES, **{f"delay{step}": pair for step, pair in enumerate(DELAYS)}}

    def rules(background: int) -> Iterator[str]:
        yield f"text{{fill:{FILLS['ink'][background]}}}"
        yield f".halo{{stroke:{PAPER[background]}}}"
        yield from (f".{name}{{fill:{pair[background]}}}" for name, pair in fills.items())
        yield from (f".{name}{{stroke:{pair[background]}}}" for name, pair in strokes.items())

    return "\n".join(
        [
            "<style>",
            "svg{color-scheme:light dark}",
            "path{fill:none}",
            ".halo{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}",
            *rules(0),
            "@media (prefers-color-scheme:dark){",
            *rules(1),
            "}",
            "</style>",
        ]
    )

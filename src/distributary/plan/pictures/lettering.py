"""How much room a text takes at most, in pixels, whichever usual font shows it.

Rules: a viewer chooses the font, so widths are upper bounds: those of the bold letters of DejaVu Sans and
Verdana, the widest of the usual fonts without serifs, rounded up by classes of letters. What is kept apart by
these widths is apart everywhere.
"""

from __future__ import annotations

import unicodedata

SIZE = 12.0
"""Of letters, if nothing else is said."""

ASCENT, DESCENT = 0.93, 0.24
"""How far letters reach above and below their line, in sizes."""

NARROW = frozenset(" !'(),-./:;IJ[\\]fijlrt|")
WIDE = frozenset("ABCDEFGHKLNOPQRSTUVXYZw&+<=>#^~")
WIDEST = frozenset("mMW%@")
NARROW_WIDTH, USUAL_WIDTH, WIDE_WIDTH, WIDEST_WIDTH, PICTOGRAPH_WIDTH = 0.42, 0.66, 0.85, 1.15, 1.4
"""In sizes. Usual are ASCII letters of no other class, widest those of other alphabets as well; a pictograph
takes the room of two letters."""

BOLD = 1.18
"""How much wider bold letters are."""

ELLIPSIS = "…"


def text_width(text: str, size: float = SIZE, *, bold: bool = False) -> float:
    """The most pixels that a text takes.

    >>> round(text_width("tokyo"), 1), text_width("")
    (36.7, 0.0)
    """
    return sum(map(_letter_width, text)) * size * (BOLD if bold else 1.0)


def _letter_width(letter: str) -> float:
    if letter in NARROW:
        return NARROW_WIDTH
    if letter in WIDE:
        return WIDE_WIDTH
    if letter.isascii():
        return WIDEST_WIDTH if letter in WIDEST else USUAL_WIDTH
    if unicodedata.combining(letter):
        return 0.0
    return PICTOGRAPH_WIDTH if unicodedata.east_asian_width(letter) in "WF" else WIDEST_WIDTH


def shortened(text: str, width: float, size: float = SIZE, *, bold: bool = False) -> str:
    """The text if it fits into so many pixels; otherwise its beginning, and three dots.

    >>> shortened("san-francisco", 60), shortened("tokyo", 60), shortened("tokyo", 5)
    ('san-fr…', 'tokyo', '')
    """
    if text_width(text, size, bold=bold) <= width:
        return text
    left = width - text_width(ELLIPSIS, size, bold=bold)
    kept = 0
    for letter in text:
        left -= text_width(letter, size, bold=bold)
        if left < 0:
            break
        kept += 1
    return text[:kept].rstrip() + ELLIPSIS if kept else ""


def wrapped(text: str, width: float, size: float = SIZE, *, bold: bool = False) -> list[str]:
    """The text in lines that fit into so many pixels; a word that is wider than that is shortened.

    >>> wrapped("the delay from the root", 90)
    ['the delay', 'from the root']
    """
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(shortened(word, width, size, bold=bold))
    return lines

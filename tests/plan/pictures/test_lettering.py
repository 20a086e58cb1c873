"""How wide texts are taken to be, against a font."""

from __future__ import annotations

import string

import pytest

from distributary.plan.pictures.lettering import shortened, text_width, wrapped

LETTERS = string.printable.strip() + " " + "äöüßéèñçÆŁžαβγΩЖЩЮфы§€→²…"


@pytest.mark.parametrize("bold", [False, True])
def test_no_letter_of_a_wide_font_is_wider_than_it_is_taken_to_be(bold: bool) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font

    font = FT2Font(f"{get_data_path()}/fonts/ttf/DejaVuSans{'-Bold' if bold else ''}.ttf")
    font.set_size(100, 72)
    advances = {letter: font.load_char(ord(letter)).linearHoriAdvance / 65536 for letter in LETTERS}
    assert {
        letter: advance
        for letter, advance in advances.items()
        if advance > text_width(letter, 100, bold=bold)
    } == {}


@pytest.mark.parametrize("width", [5, 20, 60, 200])
def test_what_is_shortened_or_wrapped_fits(width: float) -> None:
    text = "a-name-that-is-long WWWW and some more words"
    assert text_width(shortened(text, width)) <= width
    assert all(text_width(line) <= width for line in wrapped(text, width))

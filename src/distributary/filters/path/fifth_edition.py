"""Names of XML 1.0's fifth edition, for Expat, which knows the names of the fourth alone.

The fifth edition allows nearly every letter and sign in names, such as `<😀/>`. A text that Expat refuses is
read again with a stand-in for each such character: an ideograph that Expat does allow and that the text
neither has nor refers to. The stand-ins replace their characters wherever these stand, in names and in values
alike, and are replaced by them again in what was read. That is a renaming of characters, one for one, so
what is read is exact and every position stays the same.

Cost: linear in the text, and one trial of Expat for each character that was never met before.
"""

from __future__ import annotations

import re
from functools import lru_cache
from xml.parsers import expat

NAME_START = (
    r"A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f"
    r"\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
"""The characters that a name may begin with, the colon aside: production 4 of the fifth edition."""
NAME_INSIDE = r"\u00b7\u0300-\u036f\u203f\u2040"
"""Those beyond ASCII that it may have later: production 4a."""

starts_name = re.compile(f"[{NAME_START}]").match
"""Whether a name may begin as a text does."""

_START_STAND_INS = range(0x4E00, 0x9FA6)
_INSIDE_STAND_INS = range(0x0300, 0x0346)
"""Characters of the fourth edition: ideographs, and signs that combine with the letter before them."""

_beyond_ascii = re.compile("[^\0-\x7f]")
_may_start = re.compile(f"[{NAME_START}]").fullmatch
_may_be_inside = re.compile(f"[{NAME_INSIDE}]").fullmatch
_character_references = re.compile(r"&#(?:x([0-9a-fA-F]{1,8})|([0-9]{1,8}));").findall


def stand_ins(text: str) -> dict[int, int] | None:
    """What to put in the place of characters that Expat refuses in names, for `str.translate`.

    Empty when there is nothing to replace; None when there are more such characters than stand-ins.

    >>> {chr(character) for character in stand_ins("<😀>π</😀>")}
    {'😀'}
    """
    found = sorted(set(_beyond_ascii.findall(text)))
    starts = [each for each in found if _may_start(each) and not _is_read(each)]
    inside = [each for each in found if _may_be_inside(each) and not _is_read("a" + each)]
    if not starts and not inside:
        return {}
    taken = {ord(each) for each in found}
    for hexadecimal, decimal in _character_references(text):
        taken.add(int(hexadecimal, 16) if hexadecimal else int(decimal))
    chosen: dict[int, int] = {}
    for wanted, offered in ((starts, _START_STAND_INS), (inside, _INSIDE_STAND_INS)):
        free = (each for each in offered if each not in taken)
        chosen.update(zip(map(ord, wanted), free, strict=False))
    return chosen if len(chosen) == len(starts) + len(inside) else None


@lru_cache(maxsize=1 << 16)
def _is_read(name: str) -> bool:
    """Whether Expat takes it for a name."""
    if ord(name[-1]) > 0xFFFF:
        return False
    try:
        expat.ParserCreate("utf-8").Parse(f"<{name}/>".encode(), True)
    except expat.ExpatError:
        return False
    return True

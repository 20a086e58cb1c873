"""Numbers and strings as XPath 1.0 reads and writes them."""

from __future__ import annotations

import re
from decimal import Decimal
from math import nan

NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*")


def number(text: str) -> float:
    """XPath 1.0's `number()` of a string: plain decimal digits with an optional minus; else NaN.

    >>> number(" -12.50 "), number("1e3")
    (-12.5, nan)
    """
    found = NUMBER.fullmatch(text)
    return float(found[1]) if found else nan


def literal_text(literal: str | float) -> str:
    """A literal as XPath 1.0 writes it, which knows no exponents and cannot hold both kinds of quote."""
    if isinstance(literal, str):
        return f'"{literal}"' if '"' not in literal else f"'{literal}'"
    written = repr(literal)
    if "e" in written:
        written = format(Decimal(written), "f")
    return written.removesuffix(".0")

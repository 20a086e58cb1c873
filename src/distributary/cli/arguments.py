"""Types of arguments: each takes what makes sense, and says of anything else what would be right."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

LONGEST = 18
"""Digits of a whole number: more than anybody can mean, and less than 64 bits hold."""


def whole(least: int) -> Callable[[str], int]:
    """A whole number of at least so much; `,` and `_` may group its digits.

    >>> whole(1)("10_000")
    10000
    """

    def read(text: str) -> int:
        bare = text.replace("_", "").replace(",", "")
        digits = bare.removeprefix("-")
        if digits.isascii() and digits.isdecimal() and len(digits) <= LONGEST and int(bare) >= least:
            return int(bare)
        raise argparse.ArgumentTypeError(f"takes a whole number of at least {least}, not {text!r}")

    return read


def seconds(text: str) -> float:
    """A time in seconds, more than none."""
    value = finite(text)
    if value is None or value <= 0:
        raise argparse.ArgumentTypeError(f"takes a number of seconds above 0, such as 2.5, not {text!r}")
    return value


def grace(text: str) -> float:
    """A time in seconds, which may be none."""
    value = finite(text)
    if value is None or value < 0:
        raise argparse.ArgumentTypeError(f"takes a number of seconds of at least 0, not {text!r}")
    return value


def factor(text: str) -> float:
    """A number above 0 that something is multiplied with."""
    value = finite(text)
    if value is None or value <= 0:
        raise argparse.ArgumentTypeError(f"takes a number above 0, such as 1.5, not {text!r}")
    return value


def setting(text: str) -> tuple[str, str]:
    """A setting: KEY=VALUE.

    >>> setting("refresh=30")
    ('refresh', '30')
    """
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise argparse.ArgumentTypeError(f"takes KEY=VALUE, such as refresh=30, not {text!r}")
    return name, value


def tolerance(text: str) -> tuple[str, float]:
    """A tolerance on an attribute: NAME=NUMBER.

    >>> tolerance("price=0.05")
    ('price', 0.05)
    """
    name, _, number = text.rpartition("=")
    value = finite(number)
    if not name or value is None or value < 0:
        raise argparse.ArgumentTypeError(
            f"takes NAME=NUMBER with a number of at least 0, such as price=0.05, not {text!r}"
        )
    return name, value


def engine(text: str) -> tuple[str, str]:
    """The algorithm for a filter kind: KIND=NAME."""
    from distributary.errors import DistributaryError
    from distributary.filters.kinds import kinds
    from distributary.matching.engines import change_class, index_class

    kind, _, name = text.partition("=")
    if not name or kind not in kinds():
        known = ", ".join(kinds())
        raise argparse.ArgumentTypeError(
            f"takes KIND=NAME, such as topic=tree, with one of the kinds {known}, not {text!r}"
        )
    try:
        if kind == "change":
            change_class(name)
        else:
            index_class(kind, name)
    except DistributaryError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return kind, name


def finite(text: str) -> float | None:
    """The number that a text is; None when it is none, or not finite."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None

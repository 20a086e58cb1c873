"""Conditions cut into shapes and literals, very many texts at once.

`filters.where.condition` says what a shape is: the text with a mark in place of each literal. Here a kernel
cuts the plain texts, which are by far the most, and leaves all others to that module:

- A plain text is ASCII, without names in quotes, and not so long that its shape is not remembered.
- Its numbers are whole or have a fraction, of 15 digits at most, without zeros in front or an exponent.
  They follow white space or a sign of comparison, a parenthesis or a comma. Such a number is the
  quotient of two whole numbers that doubles hold exactly, so that one division gives the nearest double;
  and its digits, without zeros at the end of a fraction, are its canonical text.
- Its texts in quotes have no quote inside.

What is plain is cut exactly as `condition` cuts it. Cost: O(bytes).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.filters.where.condition import CACHED_LENGTH
from distributary.filters.where.like import MAX_PATTERN
from distributary.filters.where.tokens import NUMBER_MARK, TEXT_MARK
from distributary.kernel import Bytes, Flags, Floats, Ints, Longs, inlined, kernel, sealed

NUMBER, TEXT = np.uint8(ord(NUMBER_MARK)), np.uint8(ord(TEXT_MARK))
"""The marks of a literal in a shape."""

DIGITS = 15
"""Decimals of so many digits are all different doubles, and whole numbers of so many are doubles."""
LONGEST = 16
"""A number of more characters is not plain."""
SMALL_ZEROS = 4
"""A fraction with so many zeros behind the point is written with an exponent."""

QUOTE, DOUBLE_QUOTE, MINUS, POINT, ZERO, NINE, SPACE, UNDERLINE, LAST = map(np.uint8, b"'\"-.09 _~")
POWERS: Floats = np.array([10.0**digits for digits in range(LONGEST)])


class CutTexts(NamedTuple):
    """Texts cut: the literals of text i are those numbered `first[i]` to `first[i + 1]`.

    The shape of text i is `shapes[offsets[i]:offsets[i + 1]]`. A text that is not plain has neither.
    """

    plain: Flags
    offsets: Longs
    shapes: Bytes
    first: Ints
    values: Floats
    """Of each literal that is a number."""
    starts: Longs
    """Where the canonical text of each literal begins and ends in the bytes that were cut."""
    ends: Longs


def cut(data: Bytes, starts: Longs, ends: Longs) -> CutTexts:
    """Cut each text `data[start:end]`."""
    count, size = len(starts), int((ends - starts).sum())
    plain = np.zeros(count, np.bool_)
    offsets, first = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int32)
    shapes = np.empty(size, np.uint8)
    room = size // 2 + 2  # between two literals stands a character at least
    values, literal_starts, literal_ends = np.empty(room), np.empty(room, np.int64), np.empty(room, np.int64)
    _cut(
        sealed(data),
        sealed(starts),
        sealed(ends),
        plain,
        offsets,
        shapes,
        first,
        values,
        literal_starts,
        literal_ends,
    )
    used = slice(int(first[-1]))
    return CutTexts(
        plain,
        offsets,
        shapes[: offsets[-1]],
        first,
        values[used].copy(),
        literal_starts[used].copy(),
        literal_ends[used].copy(),
    )


@kernel
def _cut(
    data: Bytes,
    starts: Longs,
    ends: Longs,
    plain: Flags,
    offsets: Longs,
    shapes: Bytes,
    first: Ints,
    values: Floats,
    literal_starts: Longs,
    literal_ends: Longs,
) -> None:
    """Cut text by text; what was written of a text that turns out not to be plain is written over.

    One loop over the characters, with a branch for each kind of token: longer than most functions, but
    each step reads and moves the same three places.
    """
    shaped, literals = 0, 0
    for text in range(len(starts)):
        at, end = starts[text], ends[text]
        is_plain = end - at <= CACHED_LENGTH
        while at < end and is_plain:
            byte = data[at]
            if _is_letter(byte):
                while at < end and _is_word(data[at]):
                    shapes[shaped] = data[at]
                    shaped += 1
                    at += 1
            elif byte == QUOTE:
                stop = _closing_quote(data, at, end)
                is_plain = stop > 0
                if is_plain:
                    literal_starts[literals], literal_ends[literals] = at, stop
                    literals += 1
                    shapes[shaped] = TEXT
                    shaped += 1
                    at = stop
            elif ZERO <= byte <= NINE or byte == MINUS:
                is_plain = at == starts[text] or _may_precede(data[at - 1])
                if is_plain:
                    stop, canonical, value = _number(data, at, end)
                    is_plain = stop > 0
                    literal_starts[literals], literal_ends[literals] = at, canonical
                    values[literals] = value
                    literals += 1
                    shapes[shaped] = NUMBER
                    shaped += 1
                    at = stop
            else:
                is_plain = _is_plain_sign(byte)
                if byte == POINT:  # between two parts of a name, of which the second is looked at next
                    within = starts[text] < at < end - 1
                    is_plain = within and _is_word(data[at - 1]) and _is_letter(data[at + 1])
                shapes[shaped] = byte
                shaped += 1
                at += 1
        plain[text] = is_plain
        if not is_plain:
            shaped, literals = offsets[text], first[text]
        offsets[text + 1], first[text + 1] = shaped, literals


@inlined
def _is_letter(byte: Any) -> Any:
    return ord("a") <= byte <= ord("z") or ord("A") <= byte <= ord("Z") or byte == UNDERLINE


@inlined
def _is_word(byte: Any) -> Any:
    return _is_letter(byte) or ZERO <= byte <= NINE


@inlined
def _may_precede(byte: Any) -> Any:
    """Whether a number that follows this character is one, whatever else stands there."""
    return byte == SPACE or byte == ord("(") or byte == ord(",") or ord("<") <= byte <= ord(">")


@inlined
def _is_plain_sign(byte: Any) -> Any:
    """Whether the character stands for itself and nothing but ASCII that is seen, or white space."""
    white = byte == SPACE or byte == ord("\n") or byte == ord("\t")
    return white or (SPACE < byte <= LAST and byte != DOUBLE_QUOTE)


@inlined
def _closing_quote(data: Bytes, start: int, end: int) -> int:
    """Behind the quote that closes the one at the start; -1 when the text in between is not plain."""
    at = start + 1
    while at < end and data[at] != QUOTE and SPACE <= data[at] <= LAST:
        at += 1
    doubled = at + 1 < end and data[at + 1] == QUOTE
    if at >= end or data[at] != QUOTE or doubled or at + 1 - start > MAX_PATTERN:
        return -1
    return at + 1


@inlined
def _number(data: Bytes, start: int, end: int) -> tuple[int, int, float]:
    """Behind the number at the start, behind its canonical text, and its value; -1 when it is not plain."""
    negative = data[start] == MINUS
    at = start + negative
    begin, digits = at, np.int64(0)
    while at < end and ZERO <= data[at] <= NINE and at - start <= LONGEST:
        digits = digits * 10 + np.int64(data[at] - ZERO)
        at += 1
    whole = at - begin
    canonical, fraction = at, 0
    if at < end and data[at] == POINT:
        at += 1
        canonical = at + 1  # one digit is written in any case
        while at < end and ZERO <= data[at] <= NINE and at - start <= LONGEST:
            digits = digits * 10 + np.int64(data[at] - ZERO)
            at += 1
            fraction += 1
            if data[at - 1] != ZERO:
                canonical = at
    has_point = at > begin + whole
    followed = at < end and (_is_word(data[at]) or data[at] == POINT or data[at] > LAST)
    zeros = whole == 1 and data[begin] == ZERO
    bad = followed or whole == 0 or at - start > LONGEST or whole + fraction > DIGITS
    bad |= whole > 1 and data[begin] == ZERO
    bad |= has_point and fraction == 0
    bad |= negative and digits == 0
    value = np.float64(digits)
    if fraction:
        value = value / POWERS[fraction]
        bad |= zeros and digits != 0 and value < 10.0**-SMALL_ZEROS
    if bad:
        return -1, -1, 0.0
    return at, canonical, -value if negative else value

"""Kernels for the texts of JSON lines: found, checked to be UTF-8, and rid of their escapes where they stand.

A text without escapes is read eight bytes at a time. An escape takes more bytes than the character it stands
for, so what follows it is moved to the left, in place. None of the kernels looks for the end of the data: a
line ends with a newline, which no text holds, and PADDING follows the last one.
"""

from __future__ import annotations

import numpy as np

from distributary.kernel import Bytes, kernel
from distributary.matching.memory import load_word, lowest_bit

PADDING = 16
"""Newlines behind a block: the last line needs one, and bytes are read eight at a time."""

LEFT = -1
"""What a step says when the line is not plain."""

ONES = 0x0101010101010101
HIGH = 0x8080808080808080
QUOTES = 0x2222222222222222
BACKSLASHES = 0x5C5C5C5C5C5C5C5C
SPACES = 0x2020202020202020


@kernel
def read_text(data: Bytes, at: int) -> tuple[int, int]:
    """Read a text up to its quote: behind the quote, or LEFT, and where the text ends without its escapes."""
    while True:
        word = load_word(data, at)
        quote, back = word ^ np.uint64(QUOTES), word ^ np.uint64(BACKSLASHES)
        special = (quote - np.uint64(ONES)) & ~quote
        special |= (back - np.uint64(ONES)) & ~back
        special |= (word - np.uint64(SPACES)) & ~word
        special = (special | word) & np.uint64(HIGH)
        if special == 0:
            at += 8
            continue
        at += int(lowest_bit(special) >> np.uint64(3))
        byte = data[at]
        if byte == 34:
            return at + 1, at
        if byte < 32:
            return LEFT, 0
        if byte == 92:
            return _escaped(data, at)
        size = character_size(data, at)
        if size == 0:
            return LEFT, 0
        at += size


@kernel
def _escaped(data: Bytes, at: int) -> tuple[int, int]:
    """`_text` from the first escape on: what follows is moved to where it belongs without escapes."""
    to = at
    while data[at] != 34:
        byte = data[at]
        if byte < 32:
            return LEFT, 0
        if byte == 92:
            at, to = _escape(data, at + 1, to)
            if at < 0:
                return LEFT, 0
            continue
        size = character_size(data, at) if byte >= 128 else 1
        if size == 0:
            return LEFT, 0
        for _ in range(size):
            data[to] = data[at]
            to += 1
            at += 1
    return at + 1, to


@kernel
def _escape(data: Bytes, at: int, to: int) -> tuple[int, int]:
    """Write the character of the escape whose letter is at `at`: behind both, or LEFT."""
    letter = data[at]
    if letter == 117:  # u
        return _unicode_escape(data, at + 1, to)
    if letter == 34 or letter == 92 or letter == 47:
        data[to] = letter
    elif letter == 98:
        data[to] = 8
    elif letter == 102:
        data[to] = 12
    elif letter == 110:
        data[to] = 10
    elif letter == 114:
        data[to] = 13
    elif letter == 116:
        data[to] = 9
    else:
        return LEFT, 0
    return at + 1, to + 1


@kernel
def _unicode_escape(data: Bytes, at: int, to: int) -> tuple[int, int]:
    """`_escape` of four hexadecimal digits, or of two times four that are a surrogate pair."""
    code = _hexadecimal(data, at)
    at += 4
    if 0xD800 <= code < 0xDC00 and data[at] == 92 and data[at + 1] == 117:
        low = _hexadecimal(data, at + 2)
        if not 0xDC00 <= low < 0xE000:
            return LEFT, 0
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        at += 6
    if code < 0 or 0xD800 <= code < 0xE000:
        return LEFT, 0
    if code < 0x80:
        data[to] = code
        return at, to + 1
    if code < 0x800:
        data[to] = 0xC0 | (code >> 6)
        to += 1
    else:
        if code < 0x10000:
            data[to] = 0xE0 | (code >> 12)
        else:
            data[to] = 0xF0 | (code >> 18)
            to += 1
            data[to] = 0x80 | ((code >> 12) & 0x3F)
        to += 1
        data[to] = 0x80 | ((code >> 6) & 0x3F)
        to += 1
    data[to] = 0x80 | (code & 0x3F)
    return at, to + 1


@kernel
def _hexadecimal(data: Bytes, at: int) -> int:
    """The number of four hexadecimal digits, or LEFT."""
    code = 0
    for step in range(4):
        digit = int(data[at + step])
        if 48 <= digit <= 57:
            digit -= 48
        elif 65 <= digit <= 70 or 97 <= digit <= 102:
            digit = (digit | 32) - 87
        else:
            return LEFT
        code = 16 * code + digit
    return code


@kernel
def character_size(data: Bytes, at: int) -> int:
    """How many bytes the character at `at`, which is not ASCII, has in UTF-8; 0 when that is no UTF-8."""
    byte, second = data[at], data[at + 1]
    if byte < 0xC2 or byte > 0xF4 or second & 0xC0 != 0x80:
        return 0
    if byte < 0xE0:
        return 2
    if data[at + 2] & 0xC0 != 0x80:
        return 0
    if byte < 0xF0:
        # Neither written with more bytes than it takes, nor half of a surrogate pair.
        return 0 if (byte == 0xE0 and second < 0xA0) or (byte == 0xED and second >= 0xA0) else 3
    if data[at + 3] & 0xC0 != 0x80:
        return 0
    return 0 if (byte == 0xF0 and second < 0x90) or (byte == 0xF4 and second >= 0x90) else 4

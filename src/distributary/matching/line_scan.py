"""The kernel that reads plain lines of JSON: from bytes to tokens, one for each value of an event.

It takes only what it can prove plain: one object in UTF-8 with an id, texts, numbers, true, false, null and
objects of these, no name twice, all far within the bounds of the exact reader (`distributary.json_text`).
Every other line is *left* to that reader, whatever is the matter with it. So the two cannot differ in what
they refuse, nor in what they say of it.

A name that comes twice in one line, nested or dotted, has one code (`line_keys`), and the line is left. Texts
stay where they are in the block, and escapes are replaced there (`line_texts`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distributary.kernel import Bytes, Flags, Floats, Ints, Longs, inlined, kernel
from distributary.matching.line_keys import FULL, Keys, find_name
from distributary.matching.line_texts import LEFT, read_text
from distributary.model import MAX_TOPIC_LEVELS

ID, TOPIC, DOCUMENT = range(3)
"""The codes of an event's own fields; `Keys` start with them."""

NOTHING, WHOLE, DOUBLE, LONG, TEXT, TRUE, FALSE, EMPTY = range(8)
"""What a token holds. LONG is a number that its text alone tells exactly, EMPTY an object without values."""

LONGEST_LINE = 1 << 18
LONGEST_NUMBER = 64
DEEPEST = 8
MOST_NAMES = 1 << 20
"""Lines, numbers and nesting beyond these are left; so are lines with more bytes of dotted names."""

EXACT_WHOLE = 1 << 53
EXACT_POWER = 22
POWERS = np.array([float(10**power) for power in range(EXACT_POWER + 1)])
"""A whole number up to the first, times or by a power of ten up to the second, is rounded once: exactly."""

SAFE_POWER = 290
"""Numbers between 10 to minus this and 10 to this are doubles, neither infinite nor rounded to zero."""

MOST_DIGITS = 18
"""So many digits a whole number of 64 bits can always have."""


class Tokens(NamedTuple):
    """The values of a batch, in the order in which they stand there."""

    rows: Ints
    """Which of the lines that are not blank."""
    codes: Ints
    kinds: Bytes
    firsts: Longs
    """A whole number itself; of a text and of a LONG number where it starts."""
    lasts: Longs
    """Where the text ends."""
    numbers: Floats


class Lines(NamedTuple):
    """The lines of a batch that are not blank."""

    starts: Longs
    ends: Longs
    """Behind the last byte of the line, its newline not counted."""
    numbers: Ints
    """Which line of the batch it is, from 0, blank ones counted."""
    plain: Flags
    """Whether it has tokens; False when it is left."""


@kernel
def scan(data: Bytes, raw: Bytes, at: int, tokens: Tokens, lines: Lines, keys: Keys, done: Longs) -> int:
    """Read lines from `at` on until the block ends or `lines` is full; gives the place of the next line.

    `raw` is the block as it came, `data` a copy of it with PADDING, in which escapes are replaced. `done`
    holds how many lines, lines that are not blank, and tokens there are; the scan goes on from there. It
    stops before a line when the keys have no room: then the place is negative, counted from -1 down.
    """
    parents = np.empty(DEEPEST + 1, np.int64)
    end = len(raw)
    number, row, count = done[0], done[1], done[2]
    while at < end and row < len(lines.starts):
        start = at
        while data[at] == 32 or (9 <= data[at] <= 13 and data[at] != 10):
            at += 1
        if data[at] != 10:
            at = _line(data, start, tokens, keys, parents, row, count)
            if at == FULL:
                done[0], done[1], done[2] = number, row, count
                return -1 - start
            plain = at >= 0 and at - start <= LONGEST_LINE
            if plain:
                count = keys.counts[2]
            else:
                at = start
                while at < end and raw[at] != 10:
                    at += 1
            lines.starts[row] = start
            lines.ends[row] = min(at, end)
            lines.numbers[row] = number
            lines.plain[row] = plain
            row += 1
        number += 1
        at += 1
    done[0], done[1], done[2] = number, row, count
    return min(at, end)


@kernel
def _line(data: Bytes, at: int, tokens: Tokens, keys: Keys, parents: Longs, row: int, count: int) -> int:
    """Read one line into tokens from `count` on; where it ends, or LEFT, or FULL.

    How many tokens there are then is `keys.counts[2]`: only when the line is plain.
    """
    # One long kernel: these are the signs of one grammar, and each step needs the same places.
    serial = keys.counts[1] + 1
    keys.counts[1] = serial
    at = _blanks(data, at)
    if data[at] != 123:  # {
        return LEFT
    at = _blanks(data, at + 1)
    depth, names, opened = 0, 0, True
    filled = 0  # So many of the objects that are open, the outer ones, hold something that is not null.
    parents[0] = -1
    while True:
        # Here a name begins, or the object that was just opened ends.
        if data[at] == 34:
            start = at + 1
            parent = parents[depth]
            at, code = find_name(data, start, parent, keys)
            if at < 0:
                return at
            names += keys.ends[code] - (keys.ends[code - 1] if code else 0)
            if keys.seen[code] == serial or names > MOST_NAMES:
                return LEFT
            keys.seen[code] = serial
            at = _blanks(data, at + 1)
            if data[at] != 58:  # :
                return LEFT
            at = _blanks(data, at + 1)
            if data[at] == 123:
                if depth == DEEPEST or code <= DOCUMENT:
                    return LEFT
                depth += 1
                parents[depth] = code
                at = _blanks(data, at + 1)
                opened = True
                continue
            begin = at
            at = _value(data, begin, tokens, count)
            if at < 0 or (code <= DOCUMENT and not _is_fit(data, begin, code, tokens, count)):
                return LEFT
            tokens.rows[count] = row
            tokens.codes[count] = code
            if tokens.kinds[count] != NOTHING:
                filled = depth
            count += 1
        elif data[at] != 125 or not opened:
            return LEFT
        # A value has ended: another name follows, or the ends of objects.
        at = _blanks(data, at)
        while data[at] == 125 and depth >= 0:
            if depth > filled:
                tokens.rows[count], tokens.codes[count] = row, parents[depth]
                tokens.kinds[count], tokens.numbers[count] = EMPTY, 0.0
                count += 1
            depth -= 1
            filled = max(depth, 0)  # an object is not null, whatever it holds
            at = _blanks(data, at + 1)
        if depth < 0:
            break
        if data[at] != 44:  # ,
            return LEFT
        at = _blanks(data, at + 1)
        opened = False
    keys.counts[2] = count
    return at if data[at] == 10 and keys.seen[ID] == serial else LEFT


@inlined
def _blanks(data: Bytes, at: int) -> int:
    """Pass over the space between two signs of JSON; the newline ends the line."""
    while data[at] == 32 or data[at] == 9 or data[at] == 13:
        at += 1
    return at


@inlined
def _is_fit(data: Bytes, begin: int, code: int, tokens: Tokens, count: int) -> bool:
    """Whether an event's id, topic or document is plain; the exact reader says what is wrong with others."""
    kind = tokens.kinds[count]
    if code == ID and kind == WHOLE:  # its text is the id, but for -0, which is 0
        tokens.kinds[count], tokens.firsts[count] = TEXT, begin
        return not (data[begin] == 45 and data[begin + 1] == 48)
    length = tokens.lasts[count] - tokens.firsts[count]
    if code == ID:
        return bool(kind == TEXT and length > 0)
    if code == TOPIC and kind == TEXT:
        return bool(0 < length < MAX_TOPIC_LEVELS)
    return kind in (TEXT, NOTHING)


@kernel
def _value(data: Bytes, at: int, tokens: Tokens, count: int) -> int:
    """Read a text, number, true, false or null into a token; where it ends, or LEFT."""
    byte = data[at]
    tokens.numbers[count] = 0.0
    if byte == 34:
        tokens.kinds[count] = TEXT
        tokens.firsts[count] = at + 1
        at, last = read_text(data, at + 1)
        tokens.lasts[count] = last
        return at
    if byte == 45 or 48 <= byte <= 57:
        return _number(data, at, tokens, count)
    if byte == 116 and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101:
        tokens.kinds[count] = TRUE
        tokens.numbers[count] = 1.0
        return at + 4
    if byte == 110 and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108:
        tokens.kinds[count] = NOTHING
        return at + 4
    if (
        byte == 102
        and data[at + 1] == 97
        and data[at + 2] == 108
        and data[at + 3] == 115
        and data[at + 4] == 101
    ):
        tokens.kinds[count] = FALSE
        return at + 5
    return LEFT


@kernel
def _number(data: Bytes, at: int, tokens: Tokens, count: int) -> int:
    """Read a number into a token; where it ends, or LEFT."""
    start = at
    negative = data[at] == 45
    if negative:
        at += 1
    # The digits without the point are a whole number, to be multiplied by a power of ten.
    digits, power, whole = 0, 0, np.int64(0)
    first = at
    while 48 <= data[at] <= 57:
        digits += digits > 0 or data[at] != 48
        if digits <= MOST_DIGITS:
            whole = whole * 10 + (data[at] - 48)
        at += 1
    if at == first or (data[first] == 48 and at > first + 1):
        return LEFT
    is_whole = True
    if data[at] == 46:
        is_whole = False
        at += 1
        first = at
        while 48 <= data[at] <= 57:
            digits += digits > 0 or data[at] != 48
            if digits <= MOST_DIGITS:
                whole = whole * 10 + (data[at] - 48)
            at += 1
        power = first - at
        if at == first:
            return LEFT
    if data[at] == 101 or data[at] == 69:  # e E
        is_whole = False
        at += 1
        down = data[at] == 45
        if down or data[at] == 43:
            at += 1
        first = at
        exponent = 0
        while 48 <= data[at] <= 57:
            exponent = min(10 * exponent + (data[at] - 48), 10_000)
            at += 1
        if at == first:
            return LEFT
        power += -exponent if down else exponent
    if at - start > LONGEST_NUMBER or (is_whole and digits > MOST_DIGITS):
        return LEFT
    tokens.firsts[count], tokens.lasts[count] = start, at
    if is_whole:
        tokens.kinds[count] = WHOLE
        tokens.firsts[count] = -whole if negative else whole
        tokens.numbers[count] = tokens.firsts[count]
    elif digits <= MOST_DIGITS and whole <= EXACT_WHOLE and -EXACT_POWER <= power <= EXACT_POWER:
        tokens.kinds[count] = DOUBLE
        number = whole * POWERS[power] if power >= 0 else whole / POWERS[-power]
        tokens.numbers[count] = -number if negative else number
    elif digits and -SAFE_POWER < digits + power < SAFE_POWER:
        tokens.kinds[count] = LONG
    else:
        return LEFT
    return at

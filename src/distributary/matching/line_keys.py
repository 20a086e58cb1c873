"""The names of a JSON line's values, each with a code: kernels over a hash table that widens as names come.

A name is found under its dotted form, whether it was nested (`{"wind": {"speed": 3}}`) or written so: both
have one code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distributary.kernel import Bytes, Ints, Longs, Words, inlined, kernel, same_text
from distributary.matching.line_texts import LEFT, character_size

FULL = -2
"""What a step says when the table of keys has no room; LEFT when the line is not plain."""

LONGEST_NAME = 256
"""Lines with longer dotted names, in bytes, are left."""

PRIME = 0x100000001B3
BASIS = 0xCBF29CE484222325
"""FNV-1a, as in `kernel.hash_bytes`; here a hash goes on where that of the names above has ended."""


class Keys(NamedTuple):
    """The dotted names that were met, by code, and a hash table that finds them."""

    table: Ints
    """The code plus one at the place of a hash; 0 where there is none. A power of two, half empty."""
    hashes: Words
    ends: Longs
    """Where the name of each code ends in `data`; it starts where that before ends."""
    data: Bytes
    seen: Longs
    """The last line, by its serial, in which each code was met."""
    counts: Longs
    """How many codes there are, how many lines were begun, and how many tokens there were after the last."""


@kernel
def find_name(data: Bytes, at: int, parent: int, keys: Keys) -> tuple[int, int]:
    """The end of a name, and its code below the parent's; LEFT or FULL for the end."""
    start = at
    code = np.uint64(BASIS)
    above = 0
    if parent >= 0:
        above = keys.ends[parent] - (keys.ends[parent - 1] if parent else 0) + 1
        code = (keys.hashes[parent] ^ np.uint64(46)) * np.uint64(PRIME)
    while data[at] != 34:
        byte = data[at]
        if byte == 92 or byte < 32:
            return LEFT, 0
        size = 1
        if byte >= 128:
            size = character_size(data, at)
            if size == 0:
                return LEFT, 0
        for _ in range(size):
            code = (code ^ np.uint64(data[at])) * np.uint64(PRIME)
            at += 1
    length = above + at - start
    if length > LONGEST_NAME:
        return LEFT, 0
    mask = len(keys.table) - 1
    place = _place(code, mask)
    while keys.table[place] != 0:
        found = keys.table[place] - 1
        if keys.hashes[found] == code and _is_called(data, start, at, parent, above, keys, found):
            return at, found
        place = (place + 1) & mask
    return _new_name(data, start, at, parent, above, keys, place, code)


@inlined
def _place(code: np.uint64, mask: int) -> int:
    """Where a hash belongs in the table."""
    return int(code ^ (code >> np.uint64(32))) & mask


@kernel
def fill_table(keys: Keys) -> None:
    """Enter all names into the table, which is empty."""
    mask = len(keys.table) - 1
    for code in range(keys.counts[0]):
        place = _place(keys.hashes[code], mask)
        while keys.table[place] != 0:
            place = (place + 1) & mask
        keys.table[place] = code + 1


@kernel
def _is_called(data: Bytes, start: int, end: int, parent: int, above: int, keys: Keys, code: int) -> bool:
    """Whether a code's name is that of the parent, a dot, and these bytes."""
    begin = keys.ends[code - 1] if code else 0
    if keys.ends[code] - begin != above + end - start:
        return False
    if above:
        upper = keys.ends[parent - 1] if parent else 0
        dot = begin + above - 1
        if keys.data[dot] != 46 or not same_text(keys.data, begin, dot, keys.data, upper, keys.ends[parent]):
            return False
    return same_text(keys.data, begin + above, keys.ends[code], data, start, end)


@kernel
def _new_name(
    data: Bytes, start: int, end: int, parent: int, above: int, keys: Keys, place: int, code: np.uint64
) -> tuple[int, int]:
    """Give a name the next code, if there is room."""
    new = keys.counts[0]
    begin = keys.ends[new - 1] if new else 0
    if new >= len(keys.ends) or begin + LONGEST_NAME > len(keys.data):
        return FULL, 0
    to = begin
    if above:
        upper = keys.ends[parent - 1] if parent else 0
        for step in range(above - 1):
            keys.data[to + step] = keys.data[upper + step]
        keys.data[to + above - 1] = 46
        to += above
    for step in range(end - start):
        keys.data[to + step] = data[start + step]
    keys.ends[new] = to + end - start
    keys.hashes[new] = code
    keys.seen[new] = 0
    keys.table[place] = new + 1
    keys.counts[0] = new + 1
    return end, new

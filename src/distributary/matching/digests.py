"""Digests of very many texts at once, each made of pieces that lie in different buffers.

Kernels join the pieces of all texts in one buffer and digest each there, so that no text is made in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from distributary.kernel import Bytes, Ints, Longs, Words, kernel, sealed, sealed_table
from distributary.matching.blake2b import BLOCK, STATE, digest


class PieceColumn(NamedTuple):
    """A piece of each text, by row: `data[offsets[code]:offsets[code + 1]]`, behind a prefix of its own.

    A row whose code is negative has no such piece.
    """

    prefix: Bytes
    codes: Ints
    offsets: Longs
    data: Bytes


def digests(columns: Sequence[PieceColumn], rows: int) -> Bytes:
    """By row the digest, of 16 bytes, of its pieces, each behind its prefix, with NUL between them."""
    lengths = np.zeros(rows, np.int64)
    for column in columns:
        _measure(sealed(column.prefix), sealed(column.codes), sealed(column.offsets), lengths)
    starts = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    joined = np.empty(int(starts[-1]), np.uint8)
    ends = starts[:-1].copy()
    for column in columns:
        prefix, codes, offsets, data = sealed_table(column)
        _append(prefix, codes, offsets, data, starts, ends, joined)
    return _digested(joined, starts).view(np.uint8)


@kernel
def _digested(joined: Bytes, starts: Longs) -> Words:
    """By row the two words of the digest of its text."""
    longest = 0
    for row in range(len(starts) - 1):
        longest = max(longest, starts[row + 1] - starts[row])
    text = np.empty(longest + BLOCK, np.uint8)
    state = np.empty(STATE, np.uint64)
    found = np.empty((len(starts) - 1, 2), np.uint64)
    for row in range(len(starts) - 1):
        length = starts[row + 1] - starts[row]
        text[:length] = joined[starts[row] : starts[row + 1]]
        found[row, 0], found[row, 1] = digest(text, length, state)
    return found


@kernel
def _measure(prefix: Bytes, codes: Ints, offsets: Longs, lengths: Longs) -> None:
    """Add to each row the length of its piece, and of the NUL before it if it is not the first."""
    for row in range(len(codes)):
        code = codes[row]
        if code >= 0:
            lengths[row] += (lengths[row] > 0) + len(prefix) + offsets[code + 1] - offsets[code]


@kernel
def _append(
    prefix: Bytes, codes: Ints, offsets: Longs, data: Bytes, starts: Longs, ends: Longs, joined: Bytes
) -> None:
    """Write the piece of each row behind what the row has, which ends at `ends`."""
    for row in range(len(codes)):
        code = codes[row]
        if code < 0:
            continue
        end = ends[row]
        if end > starts[row]:
            joined[end] = 0
            end += 1
        for byte in prefix:
            joined[end] = byte
            end += 1
        for at in range(offsets[code], offsets[code + 1]):
            joined[end] = data[at]
            end += 1
        ends[row] = end

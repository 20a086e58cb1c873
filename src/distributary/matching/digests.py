"""Digests of very many texts at once, each made of pieces that lie in different buffers.

A kernel joins the pieces of all texts in one buffer, so that no text is made of them in Python; `hashlib`
reads each from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from distributary.kernel import Bytes, Ints, Longs, kernel, sealed, sealed_table


class PieceColumn(NamedTuple):
    """A piece of each text, by row: `data[offsets[code]:offsets[code + 1]]`, behind a prefix of its own.

    A row whose code is negative has no such piece.
    """

    prefix: Bytes
    codes: Ints
    offsets: Longs
    data: Bytes


def digests(columns: Sequence[PieceColumn], rows: int, size: int) -> Bytes:
    """By row the digest, of `size` bytes, of its pieces, each behind its prefix, with NUL between them."""
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
    view, bounds = joined.data, starts.tolist()
    found = b"".join(blake2b(view[low:high], digest_size=size).digest() for low, high in pairwise(bounds))
    return np.frombuffer(found, np.uint8).reshape(rows, size).copy()


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

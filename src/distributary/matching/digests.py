"""Digests of very many texts at once: BLAKE2b (RFC 7693), as `hashlib` computes it for one.

`hashlib` wants an object of Python's for each text and makes another of each digest. A kernel reads the
pieces of a text where they lie and writes the digests into one array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from distributary.kernel import Bytes, Ints, Longs, Words, inlined, kernel, sealed, sealed_table
from distributary.matching.memory import load_word, store_word

BLOCK = 128
"""Bytes that are mixed in at a time."""
ROUNDS = 12
ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)

START: Words = np.array(
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    np.uint64,
)
"""The initial state (RFC 7693, section 2.6)."""

ORDER = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.uint8,
)
"""In which order each round takes the words of a block (section 2.7)."""


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
    out = np.empty((rows, size), np.uint8)
    _digest(joined, starts, out)
    return out


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


@kernel
def _digest(joined: Bytes, starts: Longs, out: Bytes) -> None:
    """Write the digest of each text `joined[starts[row]:starts[row + 1]]`."""
    size = out.shape[1]
    state, mixed, words = np.empty(8, np.uint64), np.empty(16, np.uint64), np.empty(16, np.uint64)
    block = np.empty(BLOCK, np.uint8)
    digest = np.empty(64, np.uint8)
    for row in range(len(starts) - 1):
        start, length = starts[row], starts[row + 1] - starts[row]
        for at in range(8):
            state[at] = START[at]
        # The parameters: one node, no key, a digest of this size (section 2.8).
        state[0] ^= np.uint64(0x01010000) ^ np.uint64(size)
        done = 0
        while True:
            rest = min(BLOCK, length - done)
            for at in range(rest):
                block[at] = joined[start + done + at]
            for at in range(rest, BLOCK):
                block[at] = 0
            done += rest
            for at in range(16):
                words[at] = load_word(block, 8 * at)
            _mix(state, mixed, words, done, done == length)
            if done == length:
                break
        for at in range(8):
            store_word(digest, 8 * at, state[at])
        for at in range(size):
            out[row, at] = digest[at]


@inlined
def _mix(state: Words, mixed: Words, words: Words, done: int, last: bool) -> None:
    """Mix a block into the state (section 3.2); `done` bytes were read with it, and it may be the last."""
    for at in range(8):
        mixed[at] = state[at]
        mixed[8 + at] = START[at]
    mixed[12] ^= np.uint64(done)
    if last:
        mixed[14] ^= ALL_BITS
    for number in range(ROUNDS):
        order = ORDER[number % len(ORDER)]
        _quarter(mixed, 0, 4, 8, 12, words[order[0]], words[order[1]])
        _quarter(mixed, 1, 5, 9, 13, words[order[2]], words[order[3]])
        _quarter(mixed, 2, 6, 10, 14, words[order[4]], words[order[5]])
        _quarter(mixed, 3, 7, 11, 15, words[order[6]], words[order[7]])
        _quarter(mixed, 0, 5, 10, 15, words[order[8]], words[order[9]])
        _quarter(mixed, 1, 6, 11, 12, words[order[10]], words[order[11]])
        _quarter(mixed, 2, 7, 8, 13, words[order[12]], words[order[13]])
        _quarter(mixed, 3, 4, 9, 14, words[order[14]], words[order[15]])
    for at in range(8):
        state[at] ^= mixed[at] ^ mixed[8 + at]


@inlined
def _quarter(mixed: Words, a: int, b: int, c: int, d: int, one: np.uint64, two: np.uint64) -> None:
    """The mixing function G (section 3.1)."""
    mixed[a] = mixed[a] + mixed[b] + one
    mixed[d] = _rotated(mixed[d] ^ mixed[a], 32)
    mixed[c] = mixed[c] + mixed[d]
    mixed[b] = _rotated(mixed[b] ^ mixed[c], 24)
    mixed[a] = mixed[a] + mixed[b] + two
    mixed[d] = _rotated(mixed[d] ^ mixed[a], 16)
    mixed[c] = mixed[c] + mixed[d]
    mixed[b] = _rotated(mixed[b] ^ mixed[c], 63)


@inlined
def _rotated(word: np.uint64, bits: int) -> np.uint64:
    """The word with its lowest bits moved to the top."""
    return (word >> np.uint64(bits)) | (word << np.uint64(64 - bits))

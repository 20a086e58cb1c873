"""BLAKE2b in a kernel: the digests of 16 bytes that `hashlib.blake2b` gives, of very many short texts.

As RFC 7693 has it, without a key. A call of `hashlib` costs a microsecond and more, with the objects that it
takes and gives; here a text of up to 128 bytes costs a fifth of that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distributary.kernel import Bytes, Words, inlined, uncounted
from distributary.matching.memory import WORD, load_word

BLOCK = 128
"""Bytes that are mixed into the state at a time."""
STATE = 8
"""Words of the state."""

_START = np.array(
    [
        *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
        *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
    ],
    np.uint64,
)
_PARAMETERS = np.uint64(0x01010000 ^ 16)
"""No key, and a digest of 16 bytes."""
_SCHEDULE = np.array(
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
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ],
    np.int64,
)
"""By round: the order in which the words of a block are mixed in."""


@uncounted
def digest(text: Bytes, length: int, state: Words) -> tuple[np.uint64, np.uint64]:
    """The digest of `text[:length]` as two words, the first byte of each lowest.

    `text` has room up to the next multiple of `BLOCK`, at least for one, which is overwritten with zeros;
    `state` has `STATE` words.
    """
    blocks = max(1, (length + BLOCK - 1) // BLOCK)
    for at in range(length, blocks * BLOCK):
        text[at] = 0
    for word in range(STATE):
        state[word] = _START[word]
    state[0] ^= _PARAMETERS
    for block in range(blocks):
        is_last = block == blocks - 1
        _compress(text, block * BLOCK, length if is_last else (block + 1) * BLOCK, is_last, state)
    return state[0], state[1]


@inlined
def _compress(text: Bytes, at: int, counted: int, is_last: bool, state: Words) -> None:
    """Mix the block that begins at a place into the state."""
    # Sixteen variables, which stay in registers as far as there are any.
    a0, a1, a2, a3 = state[0], state[1], state[2], state[3]
    b0, b1, b2, b3 = state[4], state[5], state[6], state[7]
    c0, c1, c2, c3 = _START[0], _START[1], _START[2], _START[3]
    d0, d1, d2, d3 = _START[4], _START[5], _START[6], _START[7]
    d0 ^= np.uint64(counted)
    if is_last:
        d2 = ~d2
    for turn in range(len(_SCHEDULE)):
        a0, b0, c0, d0 = _mixed(a0, b0, c0, d0, text, at, turn, 0)
        a1, b1, c1, d1 = _mixed(a1, b1, c1, d1, text, at, turn, 2)
        a2, b2, c2, d2 = _mixed(a2, b2, c2, d2, text, at, turn, 4)
        a3, b3, c3, d3 = _mixed(a3, b3, c3, d3, text, at, turn, 6)
        a0, b1, c2, d3 = _mixed(a0, b1, c2, d3, text, at, turn, 8)
        a1, b2, c3, d0 = _mixed(a1, b2, c3, d0, text, at, turn, 10)
        a2, b3, c0, d1 = _mixed(a2, b3, c0, d1, text, at, turn, 12)
        a3, b0, c1, d2 = _mixed(a3, b0, c1, d2, text, at, turn, 14)
    state[0] ^= a0 ^ c0
    state[1] ^= a1 ^ c1
    state[2] ^= a2 ^ c2
    state[3] ^= a3 ^ c3
    state[4] ^= b0 ^ d0
    state[5] ^= b1 ^ d1
    state[6] ^= b2 ^ d2
    state[7] ^= b3 ^ d3


@inlined
def _mixed(
    a: Any, b: Any, c: Any, d: Any, text: Bytes, at: int, turn: int, place: int
) -> tuple[Any, Any, Any, Any]:
    """The function G of the RFC, with the two words of the block that a round has at this place."""
    a += b + load_word(text, at + WORD * _SCHEDULE[turn, place])
    d = _rotated(d ^ a, 32)
    c += d
    b = _rotated(b ^ c, 24)
    a += b + load_word(text, at + WORD * _SCHEDULE[turn, place + 1])
    d = _rotated(d ^ a, 16)
    c += d
    b = _rotated(b ^ c, 63)
    return a, b, c, d


@inlined
def _rotated(word: Any, bits: int) -> Any:
    """The word with its bits moved downwards, the lowest ones to the top."""
    return (word >> np.uint64(bits)) | (word << np.uint64(64 - bits))

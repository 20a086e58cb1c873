"""A checksum of many bytes, about as fast as memory gives them: several times as fast as a CRC.

The bytes are read as words of eight, and word i belongs to lane i modulo `LANES`. A step, which is that of
XXH64, takes a word into the state of its lane. It loses nothing, neither of the word nor of the state before
it, so no damage to a single word can go unseen; any other damage does with a chance of 2**-64. The lanes
have nothing to do with one another until the end, so that the processor steps several at once.
"""

from __future__ import annotations

import numpy as np

from distributary.kernel import Bytes, inlined, kernel
from distributary.matching.memory import WORD, load_word

LANES = 64

WORD_FACTOR = np.uint64(0xC2B2AE3D27D4EB4F)
STATE_FACTOR = np.uint64(0x9E3779B185EBCA87)
TURN, TURN_BACK = np.uint64(31), np.uint64(33)
"""The factors, and how far the bits of a state are turned between them, are XXH64's."""


@inlined
def _step(state: np.uint64, word: np.uint64) -> np.uint64:
    """The state of a lane after one word more."""
    taken = state + word * WORD_FACTOR
    return (taken << TURN | taken >> TURN_BACK) * STATE_FACTOR


@kernel
def checksum(data: Bytes) -> np.uint64:
    """The checksum of the bytes; as `sealed` has them, for which alone it need be compiled."""
    lanes = np.full(LANES, np.uint64(len(data)))
    words = len(data) // WORD
    whole = words - words % LANES
    for row in range(0, whole, LANES):
        for lane in range(LANES):
            at = np.uint64(lane)  # signed, it might count from the end, and lanes would step one by one
            lanes[at] = _step(lanes[at], load_word(data, WORD * (row + lane)))
    for lane in range(words - whole):
        lanes[lane] = _step(lanes[lane], load_word(data, WORD * (whole + lane)))
    state = np.uint64(0)  # what is left behind the last word
    for place in range(WORD * words, len(data)):
        state |= np.uint64(data[place]) << np.uint64(8 * (place - WORD * words))
    for lane in range(LANES):
        state = _step(state, lanes[lane])
    return state

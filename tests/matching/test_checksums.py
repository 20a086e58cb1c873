"""Checksums: the plain way gives the same, and what changes bytes, lengths or places changes them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.kernel import Bytes, sealed
from distributary.matching.checksums import LANES, STATE_FACTOR, WORD_FACTOR, checksum
from distributary.matching.memory import WORD

ROW = LANES * WORD
LENGTHS = (0, 1, 7, 8, 9, ROW - 1, ROW, ROW + 1, ROW + 8, 3 * ROW, 3 * ROW + 77)


def of(content: bytes) -> int:
    """The checksum by the kernel."""
    return int(checksum(sealed(np.frombuffer(content, np.uint8))))


def plain(content: bytes) -> int:
    """The checksum as the module describes it, in Python's whole numbers."""

    def step(state: int, word: int) -> int:
        taken = (state + word * int(WORD_FACTOR)) % 2**64
        return (taken << 31 | taken >> 33) * int(STATE_FACTOR) % 2**64

    lanes = [len(content)] * LANES
    words = len(content) // WORD
    for at in range(words):
        word = int.from_bytes(content[WORD * at : WORD * (at + 1)], "little")
        lanes[at % LANES] = step(lanes[at % LANES], word)
    state = int.from_bytes(content[WORD * words :], "little")
    for lane in lanes:
        state = step(state, lane)
    return state


@given(st.sampled_from(LENGTHS), st.integers(0, 2**32))
def test_the_kernel_computes_what_the_plain_way_does(length: int, seed: int) -> None:
    content = Random(seed).randbytes(length)
    assert of(content) == plain(content)


@pytest.mark.parametrize("length", LENGTHS)
def test_no_flipped_bit_goes_unseen(length: int) -> None:
    content = bytearray(Random(length).randbytes(length))
    right = of(bytes(content))
    for bit in range(8 * length):
        content[bit // 8] ^= 1 << bit % 8
        assert of(bytes(content)) != right
        content[bit // 8] ^= 1 << bit % 8
    assert of(bytes(content)) == right


@pytest.mark.parametrize("filled", [b"\0", b"\xff"])
def test_a_byte_more_or_less_is_seen_also_among_bytes_that_are_all_the_same(filled: bytes) -> None:
    found = [of(filled * length) for length in range(2 * ROW)]
    assert len(set(found)) == len(found)


def test_two_flipped_bits_of_the_same_lane_do_not_cancel_each_other() -> None:
    """As they would if a step multiplied alone: the highest bit of a factor is that of its product."""
    content: Bytes = np.zeros(4 * ROW, np.uint8)
    words = content.view(np.uint64)
    found = {int(checksum(sealed(content.copy())))}
    for bit in range(64):
        for other in range(64):
            words[0], words[LANES] = np.uint64(1) << np.uint64(bit), np.uint64(1) << np.uint64(other)
            found.add(int(checksum(sealed(content.copy()))))
    assert len(found) == 64 * 64 + 1


@given(st.integers(0, 2**32))
def test_blocks_that_changed_places_are_seen(seed: int) -> None:
    random = Random(seed)
    blocks = [random.randbytes(64) for _ in range(40)]
    right = of(b"".join(blocks))
    one, two = random.sample(range(len(blocks)), 2)
    blocks[one], blocks[two] = blocks[two], blocks[one]
    assert of(b"".join(blocks)) != right
